//! Owns the typed ids. Every id that reaches a path, a flag or a file name is a UUID by construction.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
        )]
        #[serde(transparent)]
        #[schema(value_type = Uuid)]
        pub struct $name(Uuid);

        impl $name {
            /// Mints a new id; ids of version 7 sort by the time they were made.
            #[expect(clippy::new_without_default, reason = "a default that is random would surprise")]
            pub fn new() -> Self {
                Self(mint())
            }

            /// Wraps an existing UUID.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The UUID inside.
            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

uuid_id!(
    /// Our id of a session. It never changes; the CLI's own id may.
    SessionId
);
uuid_id!(
    /// One life of a CLI process within a session.
    RunId
);
uuid_id!(
    /// The CLI's id of a conversation: an attribute of a session, with a history.
    CliSessionId
);
uuid_id!(
    /// One request that needs a person.
    ApprovalId
);
uuid_id!(
    /// One attached client connection.
    ConnectionId
);
uuid_id!(
    /// One HTTP request, in its answer and in the log.
    RequestId
);
uuid_id!(
    /// A webhook for a person's program.
    WebhookId
);
uuid_id!(
    /// A browser that a person let in.
    LoginId
);
uuid_id!(
    /// One event on its way to a webhook; the same in all repeats.
    DeliveryId
);

impl ApprovalId {
    /// The id of the approval that the record `seq` of `session` opens. It follows from the two, so a journal read again
    /// after a restart gives the same id.
    pub fn of_record(session: SessionId, seq: super::Seq) -> Self {
        Self(Uuid::new_v5(
            session.as_uuid(),
            format!("approval:{seq}").as_bytes(),
        ))
    }

    /// The id of an entry of the audit log, of which the record `seq` may give several.
    pub fn of_part(session: SessionId, seq: super::Seq, place: usize) -> Self {
        Self(Uuid::new_v5(
            session.as_uuid(),
            format!("approval:{seq}:{place}").as_bytes(),
        ))
    }
}

/// A name for a rule that nobody named.
pub(super) fn mint_rule_id() -> String {
    format!("rule-{}", mint().simple())
}

#[expect(clippy::disallowed_methods, reason = "the one place that mints ids")]
fn mint() -> Uuid {
    Uuid::now_v7()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Seq;

    #[test]
    fn an_approval_id_follows_from_its_record() {
        let session = SessionId::new();
        let one = ApprovalId::of_record(session, Seq::new(7));
        assert_eq!(one, ApprovalId::of_record(session, Seq::new(7)));
        assert_ne!(one, ApprovalId::of_record(session, Seq::new(8)));
        assert_ne!(one, ApprovalId::of_record(SessionId::new(), Seq::new(7)));
    }

    #[test]
    fn what_is_not_a_uuid_is_no_id() {
        for text in ["", "--help", "../x", "local_0190f0f0"] {
            assert!(text.parse::<SessionId>().is_err(), "{text}");
        }
    }
}
