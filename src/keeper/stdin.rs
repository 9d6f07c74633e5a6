//! Owns the process's stdin: the queue of whole lines, bounded in bytes, and the line that is being written.

use std::{
    collections::VecDeque,
    io::{self, Write as _},
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    process::ChildStdin,
};

use super::wire::{Refusal, Submission};
use crate::json;

/// The cost of a queued line beside its bytes.
const LINE_OVERHEAD_BYTES: usize = 128;

/// The party that waits for the answer to a line or note: a connection, by its number, and the id it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyTo {
    pub(super) connection: u64,
    pub(super) id: u64,
}

/// One line with its newline.
struct Line {
    buffer: Vec<u8>,
    start: usize,
    /// Where in the buffer is what the journal gets.
    record: Range<usize>,
    by: Option<String>,
    reply_to: Option<ReplyTo>,
}

impl Line {
    fn cost(&self) -> usize {
        self.buffer.len() + LINE_OVERHEAD_BYTES
    }

    fn is_answer(&self) -> bool {
        self.buffer.get(self.start..).is_some_and(is_answer)
    }
}

/// Whether a line answers what the process asked.
pub(super) fn is_answer(line: &[u8]) -> bool {
    json::validate::has_type(line, "control_response")
}

/// How far a write got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The line is written whole.
    Whole,
    /// The pipe is full.
    Part,
}

/// The pipe and what waits for it.
pub(super) struct Stdin {
    pipe: Option<ChildStdin>,
    queue: VecDeque<Line>,
    /// How many lines at the front of the queue have their record.
    recorded: usize,
    queued_bytes: usize,
    limit_bytes: usize,
    /// Takes no more lines; closes when the queue is empty.
    closing: bool,
}

impl Stdin {
    pub(super) fn new(pipe: ChildStdin, limit_bytes: usize) -> Self {
        Self {
            pipe: Some(pipe),
            queue: VecDeque::new(),
            recorded: 0,
            queued_bytes: 0,
            limit_bytes,
            closing: false,
        }
    }

    /// Puts a line at the end of the queue. An empty queue takes one of any size.
    pub(super) fn offer(&mut self, submission: Submission, reply_to: Option<ReplyTo>) -> Result<(), Refusal> {
        if self.pipe.is_none() || self.closing {
            return Err(Refusal::Closed);
        }
        if !self.queue.is_empty() && self.queued_bytes + submission.data().len() > self.limit_bytes {
            return Err(Refusal::Busy);
        }
        self.push(submission, reply_to);
        Ok(())
    }

    /// Puts a line at the end of the queue whatever its bound.
    pub(super) fn push(&mut self, submission: Submission, reply_to: Option<ReplyTo>) {
        let by = submission.by.clone();
        let (mut buffer, start, record) = submission.into_parts();
        buffer.push(b'\n');
        let line = Line {
            buffer,
            start,
            record,
            by,
            reply_to,
        };
        self.queued_bytes += line.cost();
        self.queue.push_back(line);
    }

    /// The pipe, if there is something to write to it.
    pub(super) fn wants_write(&self) -> Option<BorrowedFd<'_>> {
        let pipe = self.pipe.as_ref()?;
        (!self.queue.is_empty()).then(|| pipe.as_fd())
    }

    /// The first line that is not in the journal yet: who wrote it and what the journal gets of it.
    pub(super) fn unrecorded(&self) -> Option<(Option<&str>, &[u8])> {
        let line = self.queue.get(self.recorded)?;
        let data = line.buffer.get(line.record.clone())?;
        Some((line.by.as_deref(), data))
    }

    /// Marks the line as in the batch, and gives the party that waits for that.
    pub(super) fn recorded(&mut self) -> Option<ReplyTo> {
        let line = self.queue.get_mut(self.recorded)?;
        self.recorded += 1;
        line.reply_to.take()
    }

    /// Takes that line out, which cannot be recorded.
    pub(super) fn discard(&mut self) -> Option<ReplyTo> {
        let line = self.queue.remove(self.recorded)?;
        self.queued_bytes -= line.cost();
        self.close_if_done();
        line.reply_to
    }

    /// Writes more of the front line, which must be recorded. `None` when there is no such line.
    pub(super) fn write(&mut self) -> io::Result<Option<Written>> {
        let (Some(pipe), Some(line)) = (&mut self.pipe, self.queue.front_mut()) else {
            return Ok(None);
        };
        if self.recorded == 0 {
            return Ok(None);
        }
        while let Some(rest) = line.buffer.get(line.start..).filter(|rest| !rest.is_empty()) {
            match pipe.write(rest) {
                Ok(bytes) => line.start += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Some(Written::Part));
                }
                Err(error) => return Err(error),
            }
        }
        self.pop();
        self.close_if_done();
        Ok(Some(Written::Whole))
    }

    /// Takes no more lines and closes the pipe after those that wait.
    pub(super) fn close_after_queue(&mut self) {
        self.closing = true;
        self.close_if_done();
    }

    /// Forgets the lines that have not begun, but for answers. Gives how many of them have a record, and who waits for the
    /// others. The pipe stays open, and takes more answers.
    pub(super) fn refuse_queue(&mut self) -> (u32, Vec<ReplyTo>) {
        let waiting = self.forget(|line| !line.is_answer());
        let mut lines = 0;
        let mut kept = VecDeque::new();
        for line in self.queue.drain(..) {
            // The front may be written in part.
            if kept.is_empty() || line.is_answer() {
                kept.push_back(line);
            } else {
                self.queued_bytes -= line.cost();
                self.recorded = self.recorded.saturating_sub(1);
                lines += 1;
            }
        }
        self.queue = kept;
        (lines, waiting)
    }

    /// Forgets the lines of a connection that have no record: nobody can know any more that they were sent.
    pub(super) fn forget_connection(&mut self, connection: u64) {
        self.forget(|line| line.reply_to.is_some_and(|to| to.connection == connection));
        self.close_if_done();
    }

    /// Closes the pipe at once. Gives how many lines have a record and were not written whole, and who waits for the others.
    pub(super) fn close_now(&mut self) -> (u32, Vec<ReplyTo>) {
        let waiting = self.forget(|_| true);
        let lines = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        self.queue.clear();
        self.recorded = 0;
        self.queued_bytes = 0;
        self.pipe = None;
        (lines, waiting)
    }

    fn forget(&mut self, which: impl Fn(&Line) -> bool) -> Vec<ReplyTo> {
        let mut waiting = Vec::new();
        for line in self.queue.split_off(self.recorded) {
            if which(&line) {
                self.queued_bytes -= line.cost();
                waiting.extend(line.reply_to);
            } else {
                self.queue.push_back(line);
            }
        }
        waiting
    }

    fn pop(&mut self) -> Option<Line> {
        let line = self.queue.pop_front()?;
        self.recorded = self.recorded.saturating_sub(1);
        self.queued_bytes -= line.cost();
        if self.queue.is_empty() {
            self.queue.shrink_to_fit();
        }
        Some(line)
    }

    fn close_if_done(&mut self) {
        if self.closing && self.queue.is_empty() {
            self.pipe = None;
        }
    }
}
