//! Owns the keeper's loop: one thread, one `poll(2)`, every pipe for itself.
//!
//! A turn of the loop takes what is there from the signals, the daemon and the pipes, writes one batch to the journal, and only
//! then answers, writes to stdin and tells the daemon. No step waits.

mod commands;
mod ending;

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use self::ending::Ending;
use super::{
    ladder::{Ladder, Rung},
    plan::KeeperLimits,
    recorder::Recorder,
    server::Server,
    stderr::Stderr,
    stdin::{ReplyTo, Stdin},
    stdout::Stdout,
    wire::{Refusal, StopRequest},
};
use crate::{
    domain::{FailReason, RunExit, RunId, Seq, SessionId, StopIntent},
    os::Signals,
};
/// A keeper with a started process.
pub(super) struct Keeper {
    pub(super) session: SessionId,
    pub(super) run: RunId,
    pub(super) limits: KeeperLimits,
    pub(super) signals: Signals,
    pub(super) recorder: Recorder,
    pub(super) server: Server,
    pub(super) child: Pid,
    pub(super) child_start_time: u64,
    pub(super) stdin: Stdin,
    pub(super) stdout: Stdout,
    pub(super) stderr: Stderr,
    pub(super) ladder: Ladder,
    /// Steps of the stop that the daemon was told of.
    pub(super) told_steps: usize,
    pub(super) ending: Option<Ending>,
    /// Answers that wait for the commit of their record.
    pub(super) acks: Vec<(ReplyTo, Seq)>,
    /// Lines that have a record and were not written whole.
    pub(super) unwritten_lines: u32,
    /// When the last line came, or the last daemon went.
    pub(super) idle_since: Instant,
    /// When the process closed its stdout.
    pub(super) mute_since: Option<Instant>,
}

/// The descriptors that can be read or written without waiting.
#[derive(Clone, Copy, Default)]
struct Ready {
    signals: bool,
    listener: bool,
    daemon: bool,
    stdin: bool,
    stdin_broken: bool,
    stdout: bool,
    stderr: bool,
}

/// Files and what their readiness means.
#[derive(Default)]
struct Watched<'a> {
    files: Vec<PollFd<'a>>,
    marks: Vec<fn(&mut Ready, PollFlags)>,
}

impl<'a> Watched<'a> {
    fn add(&mut self, file: BorrowedFd<'a>, flags: PollFlags, mark: fn(&mut Ready, PollFlags)) {
        self.files.push(PollFd::new(file, flags));
        self.marks.push(mark);
    }

    fn wait(mut self, timeout: PollTimeout) -> io::Result<Ready> {
        match poll(&mut self.files, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = Ready::default();
        for (file, mark) in self.files.iter().zip(self.marks) {
            if let Some(flags) = file.revents().filter(|flags| !flags.is_empty()) {
                mark(&mut ready, flags);
            }
        }
        Ok(ready)
    }
}

impl Keeper {
    /// Runs until the process has ended and all is told. Gives its end.
    pub(super) fn run(&mut self) -> io::Result<RunExit> {
        loop {
            let ready = self.wait()?;
            let now = Instant::now();
            self.recorder.set_time();
            if let Some(exit) = self.turn(ready, now) {
                self.farewell(&exit)?;
                return Ok(exit);
            }
        }
    }

    /// Does what can be done. Gives the end of the process when nothing is left.
    fn turn(&mut self, ready: Ready, now: Instant) -> Option<RunExit> {
        if ready.signals {
            self.on_signals(now);
        }
        if ready.daemon {
            self.on_daemon(now);
        }
        if !ready.stdout {
            // Input that waits to be read came in time, however late this process gets to it.
            self.stop_if_orphaned(now);
        }
        self.climb(now);
        if ready.stdout && self.stdout.read(&mut self.recorder) {
            self.idle_since = now;
        }
        self.stop_if_mute(now);
        if ready.stderr {
            self.stderr.read(&mut self.recorder, now);
        }
        if ready.stdin_broken {
            self.break_stdin();
        }
        if !self.recorder.is_blocked() {
            self.record_lines();
        }
        self.end(now);
        self.tell_steps();

        self.recorder.commit(now);
        if !self.recorder.is_blocked() {
            self.acknowledge();
            if ready.stdin {
                self.write_stdin();
            }
        }

        if ready.listener {
            self.server.accept(now);
        }
        self.greet(now);
        if let Some(change) = self.server.flush(self.recorder.head()) {
            self.on_change(&change, now);
        }
        if self.recorder.tend(now) {
            self.stdout.trim();
        }
        self.is_over(now)
    }

    /// Waits until something can be done or is due.
    fn wait(&self) -> io::Result<Ready> {
        let now = Instant::now();
        // Rounded up: a fraction of a millisecond would be spent in circles.
        let timeout = self.next_deadline(now).map_or(PollTimeout::NONE, |at| {
            let wait = at.saturating_duration_since(now);
            let millis = wait.as_nanos().div_ceil(1_000_000);
            PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
        });

        let mut watched = Watched::default();
        watched.add(self.signals.as_fd(), PollFlags::POLLIN, |ready, _| {
            ready.signals = true;
        });
        watched.add(self.server.listener(), PollFlags::POLLIN, |ready, _| {
            ready.listener = true;
        });
        for socket in self.server.newcomers() {
            // They are all heard in each turn.
            watched.add(socket, PollFlags::POLLIN, |_, _| {});
        }
        if let Some(daemon) = self.server.daemon() {
            let mut flags = PollFlags::POLLIN;
            // It is flushed in each turn.
            flags.set(PollFlags::POLLOUT, daemon.write);
            watched.add(daemon.socket, flags, |ready, _| ready.daemon = true);
        }
        if let Some(pipe) = self.stderr.pipe() {
            watched.add(pipe, PollFlags::POLLIN, |ready, _| ready.stderr = true);
        }
        // While the disk refuses the journal, the data of these two could not be recorded.
        if !self.recorder.is_blocked() {
            if let Some(pipe) = self.stdout.pipe() {
                watched.add(pipe, PollFlags::POLLIN, |ready, _| ready.stdout = true);
            }
            if let Some(pipe) = self.stdin.wants_write() {
                watched.add(pipe, PollFlags::POLLOUT, |ready, flags| {
                    ready.stdin = true;
                    ready.stdin_broken = flags.contains(PollFlags::POLLERR);
                });
            }
        }
        watched.wait(timeout)
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        [
            self.ladder.next(),
            self.recorder.next(now),
            self.server.next(),
            self.orphaned_at(),
            self.mute_at(),
            self.ending.as_ref().map(|ending| ending.next(&self.recorder)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn on_signals(&mut self, now: Instant) {
        while let Some(signal) = self.signals.next() {
            match signal {
                Signal::SIGCHLD => self.reap(now),
                Signal::SIGCONT => self.server.listen_again(),
                _ => {
                    let request = self.own_stop(false);
                    self.stop(&request, StopIntent::Stop, now);
                }
            }
        }
    }

    /// Sends the signals whose time has come. Once the process is reaped its ids may belong to others.
    fn climb(&mut self, now: Instant) {
        while let Some(rung) = self.ladder.due(now) {
            if self.ending.is_some() {
                continue;
            }
            match rung {
                Rung::Interrupt => self.signal_group(Signal::SIGINT),
                Rung::CloseStdin => self.stdin.close_after_queue(),
                Rung::Terminate | Rung::Kill => {
                    let (lines, waiting) = self.stdin.refuse_queue();
                    self.unwritten_lines += lines;
                    self.refuse(waiting, Refusal::Closed);
                    self.signal_group(match rung {
                        Rung::Kill => Signal::SIGKILL,
                        _ => Signal::SIGTERM,
                    });
                }
            }
        }
    }

    fn signal_group(&self, signal: Signal) {
        // A stopped process must run to see it. A group that is gone is what we want.
        let _ = killpg(self.child, signal).and_then(|()| killpg(self.child, Signal::SIGCONT));
    }

    /// Tells the daemon which steps were taken since it was told last.
    fn tell_steps(&mut self) {
        for step in self.ladder.steps().iter().skip(self.told_steps) {
            self.server.tell_step(*step);
        }
        self.told_steps = self.ladder.steps().len();
    }

    /// Begins or hastens the stop ladder.
    fn stop(&mut self, request: &StopRequest, intent: StopIntent, now: Instant) {
        if self.ending.is_some() {
            return;
        }
        self.ladder.stop(now, request, intent);
    }

    /// The stop that the keeper decides on by itself.
    fn own_stop(&self, close_stdin_first: bool) -> StopRequest {
        StopRequest {
            close_stdin_first,
            eof_grace_ms: self.limits.eof_grace_ms,
            term_grace_ms: self.limits.term_grace_ms,
            // Nobody is there to answer.
            interrupt_grace_ms: 0,
        }
    }

    fn orphaned_at(&self) -> Option<Instant> {
        let grace = self.limits.orphan_grace_ms;
        let alone = self.server.connection().is_none() && self.ending.is_none();
        (alone && grace > 0 && !self.ladder.is_stopping())
            .then(|| self.idle_since + Duration::from_millis(grace))
    }

    /// When a process without stdout is stopped: nobody can hear any more what it does.
    fn mute_at(&self) -> Option<Instant> {
        let since = self.mute_since.filter(|_| !self.ladder.is_stopping())?;
        let lives = self.ending.is_none();
        lives.then(|| since + Duration::from_millis(self.limits.eof_grace_ms))
    }

    fn stop_if_mute(&mut self, now: Instant) {
        if self.stdout.pipe().is_none() {
            self.mute_since.get_or_insert(now);
        }
        if self.mute_at().is_some_and(|at| now >= at) {
            self.recorder.notice(
                FailReason::STDOUT_CLOSED,
                "the process closed its stdout and did not end; it is stopped",
            );
            let request = self.own_stop(true);
            self.stop(&request, StopIntent::None, now);
        }
    }

    fn stop_if_orphaned(&mut self, now: Instant) {
        if self.orphaned_at().is_some_and(|at| now >= at) {
            self.recorder.notice(
                "orphaned",
                "no daemon came back and the process said nothing for the orphan grace",
            );
            let request = self.own_stop(true);
            self.stop(&request, StopIntent::Orphaned, now);
        }
    }
}
