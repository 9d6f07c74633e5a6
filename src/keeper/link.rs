//! Owns the daemon's end of the connection to one keeper: a handle for commands and a stream of events.

mod attach;
mod line;
mod runner;
#[cfg(debug_assertions)]
mod seam;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

pub use self::{
    attach::{AttachError, attach},
    line::Line,
};
use super::wire::{KeeperHello, StopRequest};
use crate::{
    domain::{RunExit, Seq},
    journal::Head,
};

/// A connection to a living keeper.
#[derive(Debug)]
pub struct Link {
    /// Sends commands.
    pub handle: LinkHandle,
    /// The keeper's events.
    pub events: KeeperEvents,
    /// The keeper's hello on this connection.
    pub hello: KeeperHello,
}

/// An event that a keeper reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperEvent {
    /// The journal has records up to here.
    Head(Head),
    /// The process ended; its `run_exited` record is in the journal unless the disk refused it to the end.
    Exited(RunExit),
    /// The connection is over. Nothing comes after this.
    Gone,
}

/// Why the link could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection to the keeper is gone")]
pub struct LinkGone;

/// Why a line or note was not taken. Nothing of it was written then, save after `Gone`, when that is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The queue for stdin is full, or the disk refuses the journal.
    #[error("input queue is full")]
    Busy,
    /// Stdin is closed or about to be.
    #[error("input is closed")]
    Closed,
    /// The process ended.
    #[error("process has ended")]
    Exited,
    /// The connection is over; whether it was taken is unknown until the journal is read.
    #[error("connection to the keeper is gone")]
    Gone,
    /// It is not one JSON object on one line.
    #[error("not one JSON object on one line")]
    Invalid,
    /// The keeper is of an older version: it would journal what must not be there.
    #[error("keeper cannot keep the line out of the journal")]
    Unjournalable,
    /// It is longer than a line may be.
    #[error("longer than {limit_bytes} bytes")]
    TooLarge {
        /// The longest line, in bytes.
        limit_bytes: usize,
    },
}

/// Sends commands to a keeper. Clones share the connection.
#[derive(Clone, Debug)]
pub struct LinkHandle {
    submissions: mpsc::Sender<Submission>,
    controls: mpsc::Sender<Control>,
    over: CancellationToken,
    max_line_bytes: usize,
    journal_as: bool,
}

struct Submission {
    kind: SubmissionKind,
    data: Bytes,
    reply: oneshot::Sender<Result<Seq, WriteError>>,
}

enum SubmissionKind {
    Line {
        by: Option<String>,
        /// The journal's version, if that is not the line.
        record: Option<Bytes>,
    },
    Note,
}

#[derive(Debug)]
enum Control {
    Signal(i32),
    Stop(StopRequest),
    CloseStdin,
    Detach,
}

impl LinkHandle {
    /// Gives a line (one JSON object, without its newline) to the process. Lines are written whole, in the order in which this
    /// was called. Resolves when the line, or what stands for it, is in the journal; it is written as soon as the process
    /// reads. Dropping the future does not take the line back.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write_line(&self, by: Option<&str>, line: impl Into<Line>) -> Result<Seq, WriteError> {
        let by = by.map(str::to_owned);
        let (text, record) = line.into().into_parts();
        if record.is_some() && !self.journal_as {
            return Err(WriteError::Unjournalable);
        }
        self.submit(SubmissionKind::Line { by, record }, text).await
    }

    /// Whether the keeper can keep a line out of the journal; see [`Line::secret`].
    pub fn takes_secrets(&self) -> bool {
        self.journal_as
    }

    /// Appends a record of the daemon (`src` is `daemon`; one JSON object) to the journal. Resolves when it is there.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn note(&self, data: Bytes) -> Result<Seq, WriteError> {
        self.submit(SubmissionKind::Note, data).await
    }

    async fn submit(&self, kind: SubmissionKind, data: Bytes) -> Result<Seq, WriteError> {
        let beside = match &kind {
            SubmissionKind::Line {
                record: Some(record), ..
            } => record.len(),
            SubmissionKind::Line { record: None, .. } | SubmissionKind::Note => 0,
        };
        if data.len().saturating_add(beside) > self.max_line_bytes {
            return Err(WriteError::TooLarge {
                limit_bytes: self.max_line_bytes,
            });
        }
        let (reply, answer) = oneshot::channel();
        let submission = Submission { kind, data, reply };
        self.submissions
            .send(submission)
            .await
            .map_err(|_| WriteError::Gone)?;
        answer.await.unwrap_or(Err(WriteError::Gone))
    }

    /// Starts the stop ladder, or hastens one that runs: a second stop never lengthens the first. Does not wait for the end.
    ///
    /// # Errors
    /// The keeper is gone.
    pub async fn stop(&self, request: StopRequest) -> Result<(), LinkGone> {
        self.control(Control::Stop(request)).await
    }

    /// Sends a signal (its number) to the process, not to its group.
    ///
    /// # Errors
    /// The keeper is gone.
    pub async fn signal(&self, number: i32) -> Result<(), LinkGone> {
        self.control(Control::Signal(number)).await
    }

    /// Closes stdin once what waits for it is written. Lines that come later are refused as closed.
    ///
    /// # Errors
    /// The keeper is gone.
    pub async fn close_stdin(&self) -> Result<(), LinkGone> {
        self.control(Control::CloseStdin).await
    }

    /// Ends the connection. The keeper lives on and waits for the next daemon.
    pub fn detach(&self) {
        // A full queue means that the socket is stuck; dropping the last handle then ends the connection.
        let _ = self.controls.try_send(Control::Detach);
    }

    /// Is cancelled when the connection is over. Does not keep it alive.
    pub fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    async fn control(&self, control: Control) -> Result<(), LinkGone> {
        self.controls.send(control).await.map_err(|_| LinkGone)
    }
}

/// The newest knowledge about the keeper. Overwritten, never queued.
#[derive(Clone, Debug)]
struct Observed {
    head: Head,
    exited: Option<RunExit>,
}

/// The events of a keeper. Only the newest head is kept, so a slow reader costs nothing.
#[derive(Debug)]
pub struct KeeperEvents {
    seen_head: Head,
    seen_exit: bool,
    seen_gone: bool,
    observed: watch::Receiver<Observed>,
}

impl KeeperEvents {
    /// The next event; `None` after [`KeeperEvent::Gone`]. The head of the hello is not repeated; an exit always comes.
    ///
    /// CANCEL-SAFETY: nothing is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<KeeperEvent> {
        loop {
            let changed = self.observed.has_changed();
            {
                let observed = self.observed.borrow_and_update();
                if observed.head != self.seen_head {
                    self.seen_head = observed.head;
                    return Some(KeeperEvent::Head(observed.head));
                }
                if let Some(exit) = observed.exited.as_ref().filter(|_| !self.seen_exit) {
                    self.seen_exit = true;
                    return Some(KeeperEvent::Exited(exit.clone()));
                }
            }
            match changed {
                Err(_) if self.seen_gone => return None,
                Err(_) => {
                    self.seen_gone = true;
                    return Some(KeeperEvent::Gone);
                }
                Ok(_) => {
                    // An error means that the sender is gone, which the next round sees.
                    let _ = self.observed.changed().await;
                }
            }
        }
    }
}
