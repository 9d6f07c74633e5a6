//! Owns the keeper's use of the journal: batches, what happens when the disk refuses them, and when to sync.

use std::time::{Duration, Instant};

use super::{plan::KeeperLimits, records};
use crate::{
    domain::{Clock, Seq, Timestamp},
    journal::{CommitError, Head, PushError, Source, Writer},
};

/// How often a refused batch is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// The shortest time between two syncs.
const SYNC_PAUSE: Duration = Duration::from_millis(50);

/// A batch of this size leaves a buffer behind that is worth giving back.
const LARGE_BATCH_BYTES: usize = 64 << 10;

/// How long after a large batch the buffers are given back.
const TRIM_DELAY: Duration = Duration::from_secs(1);

/// The journal of a living session.
#[derive(Debug)]
pub(super) struct Recorder {
    writer: Writer,
    /// One instant for all records of a turn of the loop.
    at: Timestamp,
    refused: Option<Refused>,
    sync_interval: Duration,
    synced_at: Instant,
    unsynced: bool,
    sync_soon: bool,
    sync_failed: bool,
    trim_at: Option<Instant>,
}

/// The disk does not take the batch.
#[derive(Clone, Copy, Debug)]
struct Refused {
    since: Instant,
    retry_at: Instant,
}

impl Recorder {
    pub(super) fn new(writer: Writer, limits: &KeeperLimits, now: Instant) -> Self {
        Self {
            writer,
            at: Clock.now(),
            refused: None,
            sync_interval: Duration::from_millis(limits.sync_interval_ms),
            synced_at: now,
            unsynced: false,
            sync_soon: false,
            sync_failed: false,
            trim_at: None,
        }
    }

    /// Sets the time of the records that follow.
    pub(super) fn set_time(&mut self) {
        self.at = Clock.now();
    }

    /// Adds a record to the batch.
    pub(super) fn push(&mut self, source: Source, by: Option<&str>, data: &[u8]) -> Result<Seq, PushError> {
        self.writer.push(self.at, source, by, data)
    }

    /// Adds a notice to the batch.
    pub(super) fn notice(&mut self, code: &str, detail: &str) {
        // A notice is made here and has no newline.
        let _ = self.push(Source::Daemon, None, &records::notice(code, detail));
    }

    /// Whether the disk refuses the journal. Nothing that would grow the batch is read meanwhile.
    pub(super) const fn is_blocked(&self) -> bool {
        self.refused.is_some()
    }

    /// Writes the batch, unless a refused one is to be tried later.
    pub(super) fn commit(&mut self, now: Instant) {
        let bytes = self.writer.pending_bytes();
        if bytes == 0 || self.refused.is_some_and(|refused| now < refused.retry_at) {
            return;
        }
        match self.writer.commit() {
            Ok(_) => {
                self.unsynced = true;
                if bytes > LARGE_BATCH_BYTES {
                    self.trim_at = Some(now + TRIM_DELAY);
                }
                if let Some(refused) = self.refused.take() {
                    let ms = now.duration_since(refused.since).as_millis();
                    self.notice(
                        "journal_was_blocked",
                        &format!("the disk refused the journal for {ms} ms"),
                    );
                }
            }
            Err(_) => {
                self.refused = Some(Refused {
                    since: self.refused.map_or(now, |refused| refused.since),
                    retry_at: now + RETRY,
                });
            }
        }
    }

    /// Before a daemon is told where the journal ends: it must be where the daemon can read it.
    pub(super) fn replace_lost_segment(&mut self) {
        // A disk that refuses it does so again at the next batch, which is then tried until it does not.
        if !self.is_blocked() && self.writer.replace_lost_segment().is_ok_and(|is_new| is_new) {
            self.unsynced = true;
        }
    }

    /// Writes the batch, or says why not: for records without which nothing begins.
    pub(super) fn commit_now(&mut self) -> Result<(), CommitError> {
        self.writer.commit()?;
        self.unsynced = true;
        Ok(())
    }

    /// Wants the batch durable soon: something of worth is in it.
    pub(super) const fn sync_soon(&mut self) {
        self.sync_soon = true;
    }

    /// Makes durable what is due, and gives back memory that is due. Tells whether it did the latter.
    pub(super) fn tend(&mut self, now: Instant) -> bool {
        if self.sync_at().is_some_and(|at| now >= at) {
            self.sync();
            self.synced_at = now;
        }
        let trim = self.trim_at.is_some_and(|at| now >= at);
        if trim {
            self.writer.release_memory();
            self.trim_at = None;
        }
        trim
    }

    /// Makes durable what is committed.
    pub(super) fn sync(&mut self) {
        if self.sync_interval.is_zero() || !self.unsynced {
            return;
        }
        self.unsynced = false;
        self.sync_soon = false;
        if self.writer.sync().is_err() && !self.sync_failed {
            self.sync_failed = true;
            self.notice("journal_sync_failed", "the disk did not confirm the journal");
        }
    }

    fn sync_at(&self) -> Option<Instant> {
        if self.sync_interval.is_zero() || !self.unsynced {
            return None;
        }
        let pause = if self.sync_soon {
            SYNC_PAUSE.min(self.sync_interval)
        } else {
            self.sync_interval
        };
        Some(self.synced_at + pause)
    }

    /// When to call [`Self::commit`] and [`Self::tend`] again, if nothing else happens.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let commit_at = match self.refused {
            Some(refused) => Some(refused.retry_at),
            None => (self.writer.pending_bytes() > 0).then_some(now),
        };
        [commit_at, self.sync_at(), self.trim_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// The newest committed record.
    pub(super) const fn head(&self) -> Head {
        self.writer.head()
    }
}
