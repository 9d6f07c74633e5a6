//! Owns the life of a prompt (one user message).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{RunId, Timestamp};

/// The client's id of a user message: a UUID in its lower-case text form.
pub type PromptUuid = uuid::Uuid;

/// An id for a user message that came without one, in the order of time. [`is_from_daemon`] knows it again.
pub fn prompt_uuid_from_daemon() -> PromptUuid {
    let mut bytes = RunId::new().as_uuid().into_bytes();
    // Version 8 is for such purposes. Clients draw random ids.
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    PromptUuid::from_bytes(bytes)
}

/// Whether the client of a user message gave it no id.
pub fn is_from_daemon(uuid: PromptUuid) -> bool {
    uuid.get_version_num() == 8
}

/// A message that waits in the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedPrompt {
    /// The client's id of it.
    pub uuid: PromptUuid,
    /// The request that brought it, as JSON text.
    pub body: String,
    /// Whether it waits until somebody lets it go.
    pub held: bool,
    /// When it came.
    pub at: Timestamp,
}

/// How far a prompt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptState {
    /// Written to the CLI's stdin; no receipt yet.
    Sent,
    /// The CLI said that it waits for its turn, or it waits for the restart of a CLI that died.
    Queued,
    /// The CLI works on it.
    Started,
    /// Its turn ended.
    Completed,
    /// Taken back before it started.
    Cancelled,
    /// The process ended before its turn did.
    Interrupted,
}

impl PromptState {
    /// The JSON name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Queued => "queued",
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether nothing more will happen to the prompt.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Interrupted)
    }
}

impl fmt::Display for PromptState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_the_daemon_is_told_from_those_of_clients() {
        let ours = prompt_uuid_from_daemon();
        assert!(is_from_daemon(ours) && ours < prompt_uuid_from_daemon());
        let of_client = "6f1f2c2e-4f0a-4b53-9d0e-6f3a1b2c3d4e".parse().unwrap();
        assert!(!is_from_daemon(of_client) && !is_from_daemon(*RunId::new().as_uuid()));
    }
}
