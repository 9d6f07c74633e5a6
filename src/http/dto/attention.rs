//! Owns what people say about what a session needs of them: what they have seen, and what they put off.

use serde::{Deserialize, Serialize};

use crate::{
    domain::{Attention, AttentionReason, PutOffHow, Seq, Timestamp},
    http::{ApiError, ErrorCode},
    supervisor::{Needs, PutOffAttention, SessionView},
};

/// How far a person has seen a session.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"seq": 42}))]
pub(in crate::http) struct SeenRequest {
    /// The last record that the person has seen.
    pub(in crate::http) seq: Seq,
}

/// How far people have seen a session.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Seen {
    /// The last record that a person has seen. It falls only when a person marks the session as unread.
    seen_seq: Seq,
    /// Whether a turn ended after it.
    unread: bool,
}

impl From<SessionView> for Seen {
    fn from(view: SessionView) -> Self {
        Self {
            seen_seq: view.row.seen_seq,
            unread: view.is_unread(),
        }
    }
}

/// How to put off what a session needs.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"how": "snoozed", "until": "2030-01-01T08:00:00Z"}))]
pub(in crate::http) struct PutOffRequest {
    /// `left`: as long as the reasons of now hold. `snoozed`: until a time, or until there is a new reason.
    how: PutOffHow,
    /// The time, with `snoozed` only. A new reason comes through before it.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

impl PutOffRequest {
    /// How, and until when.
    pub(in crate::http) fn into_parts(
        self,
        now: Timestamp,
    ) -> Result<(PutOffHow, Option<Timestamp>), ApiError> {
        let wrong = |detail: &str| {
            let error = ApiError::new(ErrorCode::InvalidField);
            error.detail(format!("until: {detail}")).member("field", "until")
        };
        match (self.how, self.until) {
            (PutOffHow::Left, Some(_)) => Err(wrong("is of snoozed only")),
            (_, Some(until)) if until <= now => Err(wrong("is in the past")),
            parts => Ok(parts),
        }
    }
}

/// The needs of a session for a person.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct AttentionState {
    /// Why it needs a person; `null` when it needs nobody, or all of it is put off.
    attention: Option<Attention>,
    /// The needs that are put off.
    put_off: Option<PutOff>,
}

impl From<Needs> for AttentionState {
    fn from(needs: Needs) -> Self {
        Self {
            attention: needs.attention,
            put_off: needs.put_off.map(PutOff::of),
        }
    }
}

/// The needs of a session that a person put off, by their most urgent reason.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct PutOff {
    /// How.
    how: PutOffHow,
    /// Until when; `null`: as long as the reason holds.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// The reason.
    reason: AttentionReason,
    /// The urgency that it would have.
    rank: u8,
    /// Since when the reason holds.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// When a rule decides if nobody has; of `decision` with rank 1.
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline: Option<Timestamp>,
}

impl PutOff {
    pub(super) fn of(put_off: PutOffAttention) -> Self {
        let Attention {
            reason,
            rank,
            since,
            deadline,
        } = put_off.attention;
        Self {
            how: put_off.how,
            until: put_off.until,
            reason,
            rank,
            since,
            deadline,
        }
    }
}
