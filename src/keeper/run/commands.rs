//! Owns what a keeper does for its daemon: lines, notes, signals and stops, and their answers.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};

use super::Keeper;
use crate::{
    domain::StopIntent,
    journal::Source,
    json,
    keeper::{
        server::Change,
        stdin::{self, ReplyTo},
        wire::{Answer, KeeperHello, Refusal, Submission, ToDaemon, ToKeeper},
    },
};

impl Keeper {
    /// Takes what the daemon says.
    pub(super) fn on_daemon(&mut self, now: Instant) {
        if let Some(change) = self.server.read() {
            self.on_change(&change, now);
        }
        self.take_commands(now);
    }

    fn take_commands(&mut self, now: Instant) {
        loop {
            match self.server.next_command() {
                Ok(Some(command)) => self.on_command(command, now),
                Ok(None) => return,
                Err(change) => self.on_change(&change, now),
            }
        }
    }

    fn on_command(&mut self, command: ToKeeper, now: Instant) {
        match command {
            ToKeeper::Write(submission) => self.on_write(submission),
            ToKeeper::Note(submission) => self.on_note(&submission),
            ToKeeper::Signal(number) => self.on_signal(number),
            ToKeeper::Stop(request) => self.stop(&request, StopIntent::Stop, now),
            ToKeeper::CloseStdin => self.stdin.close_after_queue(),
            // The server deals with these.
            ToKeeper::Hello(_) | ToKeeper::Detach => {}
        }
    }

    fn on_write(&mut self, submission: Submission) {
        let Some(to) = self.reply_to(submission.id) else {
            return;
        };
        let result = if self.ending.is_some() {
            Err(Refusal::Exited)
        } else if self.ladder.is_stopping() && !stdin::is_answer(submission.data()) {
            // A process that ends takes nothing new. Its open questions are answered.
            Err(Refusal::Closed)
        } else if !is_record_data(submission.data()) || !is_record_data(submission.record()) {
            Err(Refusal::Invalid)
        } else {
            self.stdin.offer(submission, Some(to))
        };
        if let Err(refusal) = result {
            self.refuse(vec![to], refusal);
        }
    }

    fn on_note(&mut self, submission: &Submission) {
        let Some(to) = self.reply_to(submission.id) else {
            return;
        };
        let result = if self.is_exit_recorded() {
            Err(Refusal::Exited)
        } else if self.recorder.is_blocked() {
            Err(Refusal::Busy)
        } else if !is_record_data(submission.data()) {
            Err(Refusal::Invalid)
        } else {
            self.recorder
                .push(Source::Daemon, None, submission.data())
                .map_err(|_| Refusal::Invalid)
        };
        match result {
            Ok(seq) => self.acks.push((to, seq)),
            Err(refusal) => self.refuse(vec![to], refusal),
        }
    }

    /// The process is signalled only while it is not reaped: later its pid may belong to others.
    fn on_signal(&self, number: i32) {
        if let Ok(signal) = Signal::try_from(number)
            && self.ending.is_none()
        {
            let _ = kill(self.child, signal);
        }
    }

    /// Records the lines that were taken, in their order: that order is the one on the wire, and no line is written before its
    /// record. A process that does not read holds up nobody who sends.
    pub(super) fn record_lines(&mut self) {
        while let Some((by, data)) = self.stdin.unrecorded() {
            if let Ok(seq) = self.recorder.push(Source::Client, by, data) {
                if let Some(to) = self.stdin.recorded() {
                    self.acks.push((to, seq));
                }
            } else {
                let waiting = self.stdin.discard();
                self.refuse(waiting, Refusal::Invalid);
            }
        }
    }

    /// Writes more of the front line.
    pub(super) fn write_stdin(&mut self) {
        if self.stdin.write().is_err() {
            self.break_stdin();
        }
    }

    /// The process closed its stdin: an event of the session and no more.
    pub(super) fn break_stdin(&mut self) {
        let (lines, waiting) = self.stdin.close_now();
        self.unwritten_lines += lines;
        self.refuse(waiting, Refusal::Closed);
        self.recorder.notice(
            "stdin_broken",
            &format!("the process reads no more input; {lines} lines of the journal were not written whole"),
        );
    }

    /// Tells who waits that their records are in the journal.
    pub(super) fn acknowledge(&mut self) {
        for (to, seq) in std::mem::take(&mut self.acks) {
            let (id, value) = (to.id, seq);
            self.server
                .tell(to.connection, &ToDaemon::Ack(Answer { id, value }));
        }
    }

    /// Tells who waits that their lines were not taken.
    pub(super) fn refuse(&mut self, waiting: impl IntoIterator<Item = ReplyTo>, value: Refusal) {
        for to in waiting {
            let id = to.id;
            self.server
                .tell(to.connection, &ToDaemon::Refusal(Answer { id, value }));
        }
    }

    /// Lets a new daemon in. It comes after the commit, so that what it is told is all that was taken from the one before.
    pub(super) fn greet(&mut self, now: Instant) {
        if self.server.newcomers().next().is_some() {
            self.recorder.replace_lost_segment();
        }
        let hello = |protocol| KeeperHello {
            protocol,
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            session: self.session,
            run: self.run,
            child_pid: self.child.as_raw(),
            child_start_time: self.child_start_time,
            head: self.recorder.head(),
            exited: self.ending.as_ref().and_then(|ending| ending.exit().cloned()),
            max_line_bytes: self.limits.max_line_bytes,
            journal_as: true,
        };
        if let Some(change) = self.server.greet(now, hello) {
            self.on_change(&change, now);
            // Some may have come right behind the hello.
            self.take_commands(now);
        }
    }

    pub(super) fn on_change(&mut self, change: &Change, now: Instant) {
        let lost = match change {
            Change::Lost(connection) => Some(*connection),
            Change::Joined(previous) => *previous,
        };
        self.idle_since = now;
        if let Some(connection) = lost {
            self.stdin.forget_connection(connection);
        }
    }

    fn reply_to(&self, id: u64) -> Option<ReplyTo> {
        self.server
            .connection()
            .map(|connection| ReplyTo { connection, id })
    }
}

/// Whether this can be the data of a record, and a line for stdin: the CLI ends at a line that is no JSON.
fn is_record_data(data: &[u8]) -> bool {
    memchr::memchr(b'\n', data).is_none() && json::validate::is_json_object(data)
}
