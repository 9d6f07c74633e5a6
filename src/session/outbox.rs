//! Owns the order of what is written towards the keeper: one task per session that sends lines and notes one after the other.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};

use crate::{
    domain::{ApprovalId, ConnectionId, PromptUuid, Seq},
    journal,
    keeper::{Line, LinkHandle, WriteError},
};

use super::{desk::Fallback, error::Silence, notes};

/// Entries that may wait here. The session refuses any more as busy.
pub(super) const OUTBOX_ENTRIES: usize = 256;
/// How long a keeper may take to say that it has an entry. It does so at once unless it was stopped, or its disk takes nothing.
const SILENCE: Duration = Duration::from_secs(10);
/// How long a look at the disk may take then.
const LOOK: Duration = Duration::from_secs(1);
/// Room beside an entry with less than which a disk counts as full: what its record and the CLI's next lines may need.
const FULL: u64 = 256 << 10;
/// Kibibytes that may wait here.
const OUTBOX_KIB: u32 = 128 << 10;

/// The content to send.
#[derive(Debug)]
pub(super) enum Payload {
    /// A line for the CLI's stdin.
    Line { by: String, line: Line },
    /// A record of the daemon's own.
    Note(Vec<u8>),
}

impl Payload {
    pub(super) fn line(by: impl Into<String>, line: impl Into<Line>) -> Self {
        let (by, line) = (by.into(), line.into());
        Self::Line { by, line }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Line { line, .. } => line.bytes(),
            Self::Note(data) => data.len(),
        }
    }
}

/// Whom the outcome concerns.
#[derive(Debug)]
pub(super) enum Subject {
    Prompt(PromptUuid),
    Control(String),
    Answer(ApprovalId),
    /// A client's answer to this request of the CLI that is no approval.
    Reply(String),
    /// Fresh credentials of the client on this connection.
    Credentials(ConnectionId),
    /// The claim of a process that was started in advance.
    Claim,
    /// The daemon itself; what was refused for want of room is sent again.
    Due(Due),
    /// The record that the session is to be parked.
    Park,
    /// Nobody waits; a failure is logged.
    Nobody,
}

/// A record or an answer that the daemon owes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The record of the state.
    State,
    /// The record of an approval, or (`true`) of its end.
    Approval(ApprovalId, bool),
    /// The daemon's answer to this request of the CLI.
    Answer(String),
    /// The record that a request got the stated answer.
    Fallback(Fallback),
    /// The interrupt of a turn that a hook stopped.
    HookStop,
    /// The answer of a rule to this approval.
    Rule(ApprovalId),
    /// A request that gives the process something that was set.
    Restore,
    /// A prompt of the last process that waited until this one had what was set.
    Carried,
    /// A notice about the conversation.
    Notice(notes::Told),
}

/// One thing to send.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) payload: Payload,
    pub(super) subject: Subject,
    /// Its part of the room; given back when it is done.
    room: Option<OwnedSemaphorePermit>,
    /// Its part of its sender's share; given back with the room.
    share: Option<OwnedSemaphorePermit>,
}

impl Entry {
    pub(super) fn new(payload: Payload, subject: Subject) -> Self {
        Self {
            payload,
            subject,
            room: None,
            share: None,
        }
    }

    /// Holds a part of its sender's share until it is done.
    pub(super) fn holding(self, share: OwnedSemaphorePermit) -> Self {
        Self {
            share: Some(share),
            ..self
        }
    }

    /// Takes room for the entry, unless it has some; `false` when there is too little left. An entry of any size fits an
    /// empty outbox.
    pub(super) fn take_room(&mut self, room: &Arc<Semaphore>) -> bool {
        if self.room.is_some() {
            return true;
        }
        let kib = u32::try_from(self.payload.bytes() / 1024 + 1)
            .unwrap_or(OUTBOX_KIB)
            .min(OUTBOX_KIB);
        self.room = Arc::clone(room).try_acquire_many_owned(kib).ok();
        self.room.is_some()
    }
}

/// Entries that wait for a process, in their order.
#[derive(Debug, Default)]
pub(super) struct Backlog(Vec<Entry>);

impl Backlog {
    /// Keeps an entry; given back when there are too many.
    pub(super) fn hold(&mut self, entry: Entry) -> Option<Entry> {
        if self.0.len() >= OUTBOX_ENTRIES {
            return Some(entry);
        }
        self.0.push(entry);
        None
    }

    pub(super) fn take(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts what waited for the same process before what waits here.
    pub(super) fn after(&mut self, earlier: impl IntoIterator<Item = Entry>) {
        self.0.splice(0..0, earlier);
    }
}

/// The state of the way to the keeper.
#[derive(Debug)]
pub(super) struct Way {
    /// The room that the entries of one session may take.
    pub(super) room: Arc<Semaphore>,
    /// Set when the keeper was given something and has said nothing for too long.
    pub(super) silence: Option<Silence>,
}

impl Default for Way {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(OUTBOX_KIB as usize)),
            silence: None,
        }
    }
}

/// The word of the outbox for the session.
#[derive(Debug)]
pub(super) enum Told {
    /// The keeper did not take an entry.
    Unsent(Unsent),
    /// It says nothing about an entry that it was given. It may take that yet, and what waits behind it.
    Silent(Silence),
    /// It has spoken again, or its connection is over.
    Heard,
}

/// An entry that was not accepted.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) subject: Subject,
    pub(super) error: WriteError,
}

impl Unsent {
    /// Whether it is this notice.
    pub(super) fn is_notice(&self, told: &notes::Told) -> bool {
        matches!(&self.subject, Subject::Due(Due::Notice(due)) if due == told)
    }
}

/// Sends entries until the outbox is dropped; tells of those that the keeper refused, and of a keeper that says nothing.
pub(super) async fn run(
    link: LinkHandle,
    journal_dir: PathBuf,
    mut entries: mpsc::Receiver<Entry>,
    told: mpsc::Sender<Told>,
) {
    while let Some(Entry {
        payload,
        subject,
        room,
        share,
    }) = entries.recv().await
    {
        let bytes = payload.bytes();
        let mut sending = pin!(async {
            match payload {
                Payload::Line { by, line } => link.write_line(Some(&by), line).await,
                Payload::Note(data) => link.note(Bytes::from(data)).await,
            }
        });
        let sent: Result<Seq, WriteError> = match timeout(SILENCE, &mut sending).await {
            Ok(sent) => sent,
            Err(_) => {
                // The order of what is written holds: nothing overtakes it.
                told.send(Told::Silent(silence(&journal_dir, bytes).await))
                    .await
                    .ok();
                let sent = sending.await;
                told.send(Told::Heard).await.ok();
                sent
            }
        };
        drop((room, share));
        if let Err(error) = sent
            && told.send(Told::Unsent(Unsent { subject, error })).await.is_err()
        {
            return;
        }
    }
}

/// Why nothing is heard about an entry of this size: a keeper whose disk is full waits for room.
async fn silence(journal_dir: &Path, bytes: usize) -> Silence {
    let dir = journal_dir.to_owned();
    let look = tokio::task::spawn_blocking(move || journal::free_bytes(&dir));
    match timeout(LOOK, look).await {
        Ok(Ok(Some(free))) if free < bytes as u64 + FULL => Silence::Disk,
        // Also a disk that hangs is no full one.
        _ => Silence::Keeper,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(bytes: usize) -> Entry {
        Entry::new(Payload::line("rest", vec![b' '; bytes]), Subject::Nobody)
    }

    #[test]
    fn the_room_is_bounded_and_given_back() {
        let room = Way::default().room;
        let all = OUTBOX_KIB as usize * 1024;
        let mut large = entry(2 * all);
        assert!(
            large.take_room(&room),
            "an empty outbox takes an entry of any size"
        );
        assert!(
            large.take_room(&room),
            "what was held for a start has its room already"
        );
        assert!(!entry(1).take_room(&room));
        drop(large);
        assert!(entry(all / 2).take_room(&room));
        assert_eq!(room.available_permits(), OUTBOX_KIB as usize);
    }
}
