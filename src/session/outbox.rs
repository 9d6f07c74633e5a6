//! Owns the order of what is written towards the keeper: one task per session that sends lines and notes one after the other.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{
    domain::{ApprovalId, PromptUuid, Seq},
    keeper::{LinkHandle, WriteError},
};

/// What may wait here. Lines beyond it are refused as busy; bytes are bounded by the keeper.
pub(super) const OUTBOX_ENTRIES: usize = 256;

/// What to send.
#[derive(Debug)]
pub(super) enum Payload {
    /// A line for the CLI's stdin.
    Line { by: String, line: Bytes },
    /// A record of the daemon's own.
    Note(Vec<u8>),
}

/// Whom the outcome concerns.
#[derive(Debug)]
pub(super) enum Subject {
    Prompt(PromptUuid),
    Control(String),
    Answer(ApprovalId),
    /// The daemon itself; what was refused for want of room is sent again.
    Due(Due),
    /// Nobody waits; a failure is logged.
    Nobody,
}

/// What the daemon owes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The record of the state.
    State,
    /// The record of an approval, or (`true`) of its end.
    Approval(ApprovalId, bool),
    /// The stated answer to this request of the CLI.
    Fallback(String),
}

/// One thing to send.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) payload: Payload,
    pub(super) subject: Subject,
}

/// An entry that was not accepted.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) subject: Subject,
    pub(super) error: WriteError,
}

/// Sends entries until the outbox is dropped; reports those that the keeper refused.
pub(super) async fn run(link: LinkHandle, mut entries: mpsc::Receiver<Entry>, unsent: mpsc::Sender<Unsent>) {
    while let Some(Entry { payload, subject }) = entries.recv().await {
        let sent: Result<Seq, WriteError> = match payload {
            Payload::Line { by, line } => link.write_line(Some(&by), line).await,
            Payload::Note(data) => link.note(Bytes::from(data)).await,
        };
        if let Err(error) = sent
            && unsent.send(Unsent { subject, error }).await.is_err()
        {
            return;
        }
    }
}
