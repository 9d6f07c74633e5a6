//! Owns the process's stderr: it is always read, its newest bytes are kept, and a bounded part is journaled.

use std::{
    collections::VecDeque,
    io::{self, Read as _},
    os::fd::{AsFd, BorrowedFd},
    process::ChildStderr,
    time::{Duration, Instant},
};

use super::{
    plan::KeeperLimits,
    recorder::Recorder,
    records::{self, TEXT_BYTES},
};
use crate::journal::Source;

/// One read.
const READ_BYTES: usize = 4 << 10;

/// The most that is read before the other pipes get their turn.
const TURN_BYTES: usize = 64 << 10;

/// The time that the journaled part is counted over.
const WINDOW: Duration = Duration::from_secs(60);

/// The pipe, the tail, and how much was journaled.
pub(super) struct Stderr {
    pipe: Option<ChildStderr>,
    journal: Option<Budget>,
    tail: VecDeque<u8>,
    tail_bytes: usize,
    /// A line without its end, no longer than a record's text.
    partial: Vec<u8>,
}

/// The bytes that may still be journaled in this window.
struct Budget {
    per_window: usize,
    left: usize,
    began: Instant,
    told: bool,
}

impl Stderr {
    pub(super) fn new(pipe: ChildStderr, limits: &KeeperLimits, now: Instant) -> Self {
        let per_window = limits.stderr_journal_bytes_per_minute;
        Self {
            pipe: Some(pipe),
            journal: (per_window > 0).then_some(Budget {
                per_window,
                left: per_window,
                began: now,
                told: false,
            }),
            tail: VecDeque::new(),
            tail_bytes: limits.stderr_tail_bytes,
            partial: Vec::new(),
        }
    }

    /// The pipe, unless it has ended.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is in the pipe, up to a bound.
    pub(super) fn read(&mut self, recorder: &mut Recorder, now: Instant) {
        let mut buffer = [0; READ_BYTES];
        let mut total = 0;
        while let Some(pipe) = self.pipe.as_mut().filter(|_| total < TURN_BYTES) {
            match pipe.read(&mut buffer) {
                Ok(0) => self.end(recorder, now),
                Ok(bytes) => {
                    self.take(buffer.get(..bytes).unwrap_or_default(), recorder, now);
                    total += bytes;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.end(recorder, now),
            }
        }
    }

    /// Stops reading; a last line without newline is a line too.
    pub(super) fn end(&mut self, recorder: &mut Recorder, now: Instant) {
        self.pipe = None;
        self.flush(recorder, now);
    }

    /// The newest bytes as text.
    pub(super) fn tail(&mut self) -> String {
        let tail = self.tail.make_contiguous();
        // The ring may begin inside a character.
        let start = tail
            .iter()
            .take(3)
            .take_while(|byte| **byte & 0xC0 == 0x80)
            .count();
        String::from_utf8_lossy(tail.get(start..).unwrap_or_default()).into_owned()
    }

    fn take(&mut self, bytes: &[u8], recorder: &mut Recorder, now: Instant) {
        let newest = bytes.get(bytes.len().saturating_sub(self.tail_bytes)..);
        let newest = newest.unwrap_or_default();
        let excess = (self.tail.len() + newest.len()).saturating_sub(self.tail_bytes);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(newest);

        if self.journal.is_none() {
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(piece);
            while self.partial.len() > TEXT_BYTES {
                let end = records::character_end(&self.partial, TEXT_BYTES);
                let rest = self.partial.split_off(end);
                self.flush(recorder, now);
                self.partial = rest;
            }
            if self.partial.ends_with(b"\n") {
                self.partial.pop();
                self.flush(recorder, now);
            }
        }
    }

    /// Journals the line at hand, if the budget allows.
    fn flush(&mut self, recorder: &mut Recorder, now: Instant) {
        let line = std::mem::take(&mut self.partial);
        let Some(budget) = self.journal.as_mut().filter(|_| !line.trim_ascii().is_empty()) else {
            return;
        };
        if now.duration_since(budget.began) >= WINDOW {
            budget.began = now;
            budget.left = budget.per_window;
            budget.told = false;
        }
        // A batch that the disk refuses must not grow.
        if recorder.is_blocked() {
            budget.left = 0;
            return;
        }
        if let Some(left) = budget.left.checked_sub(line.len()) {
            budget.left = left;
            let text = String::from_utf8_lossy(&line);
            // The text is escaped, so the record has no newline.
            let _ = recorder.push(Source::Stderr, None, &records::stderr(&text));
        } else {
            budget.left = 0;
            if !budget.told {
                budget.told = true;
                recorder.notice(
                    "stderr_dropped",
                    "more stderr than is journaled per minute; the newest is kept for the end of the run",
                );
            }
        }
    }
}
