//! Owns the time after the process has ended: kill what it left behind, read the rest, write the last record, say farewell.

use std::{
    io,
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{Signal, killpg},
        wait::WaitStatus,
    },
};

use super::Keeper;
use crate::{
    domain::RunExit,
    journal::Source,
    keeper::{
        leftovers,
        recorder::Recorder,
        records,
        wire::{Refusal, ToDaemon},
    },
    os,
};

/// How often what the process left behind is looked for while there is some.
const SWEEP_PAUSE: Duration = Duration::from_millis(10);

/// How long it is looked for. A process that cannot be killed by then hangs in the kernel.
const SWEEP_PATIENCE: Duration = Duration::from_secs(3);

/// How long the first daemon may take to connect.
const FIRST_DAEMON_PATIENCE: Duration = Duration::from_secs(5);

/// How long the daemon may take to read the last messages.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(1);

/// The process has ended; what is left to do.
pub(in crate::keeper) struct Ending {
    code: Option<i32>,
    signal: Option<i32>,
    /// When to look for survivors again; `None` when none is left.
    sweep_at: Option<Instant>,
    sweep_until: Instant,
    killer: os::TreeKiller,
    /// How often nothing must be found after this look.
    clean_looks_due: u32,
    drain_until: Instant,
    give_up_at: Instant,
    first_daemon_until: Instant,
    /// Set when its record is in the batch.
    exit: Option<RunExit>,
}

impl Ending {
    pub(super) const fn exit(&self) -> Option<&RunExit> {
        self.exit.as_ref()
    }

    /// When there is something to do even if nothing happens.
    pub(super) fn next(&self, recorder: &Recorder) -> Instant {
        let last = if recorder.is_blocked() {
            self.give_up_at
        } else if self.exit.is_some() {
            self.first_daemon_until
        } else if self.sweep_at.is_none() {
            self.drain_until
        } else {
            self.sweep_until
        };
        self.sweep_at.map_or(last, |at| at.min(last))
    }
}

impl Keeper {
    /// Reaps every child that ended: the process, and what others left to us.
    pub(super) fn reap(&mut self, now: Instant) {
        let child = self.child;
        loop {
            let status = os::reap_next(|pid| {
                if pid == child {
                    // The group may have more members, and its id is still its own.
                    let _ = killpg(child, Signal::SIGKILL);
                }
            });
            match status {
                Some(WaitStatus::Exited(pid, code)) if pid == child => {
                    self.begin_end(Some(code), None, now);
                }
                Some(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                    self.begin_end(None, Some(signal as i32), now);
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    fn begin_end(&mut self, code: Option<i32>, signal: Option<i32>, now: Instant) {
        self.ladder.exited(now);
        let (lines, waiting) = self.stdin.close_now();
        self.unwritten_lines += lines;
        self.refuse(waiting, Refusal::Exited);
        self.ending = Some(Ending {
            code,
            signal,
            sweep_at: Some(now),
            sweep_until: now + SWEEP_PATIENCE,
            killer: os::TreeKiller::default(),
            clean_looks_due: 0,
            drain_until: now + Duration::from_millis(self.limits.drain_ms),
            give_up_at: now + Duration::from_millis(self.limits.journal_give_up_ms),
            first_daemon_until: now + FIRST_DAEMON_PATIENCE,
            exit: None,
        });
    }

    /// Goes on with the end, if it has begun: once nothing is left to kill or read, the last record is in the batch.
    pub(super) fn end(&mut self, now: Instant) {
        self.sweep(now);
        let drained = self.stdout.pipe().is_none() && self.stderr.pipe().is_none();
        let Some(ending) = self.ending.as_mut().filter(|ending| ending.exit.is_none()) else {
            return;
        };
        if self.recorder.is_blocked() {
            // Keep the content of the pipes until it can be recorded.
            let drain = Duration::from_millis(self.limits.drain_ms);
            ending.drain_until = ending.drain_until.max(now + drain);
            return;
        }
        if ending.sweep_at.is_some() || !(drained || now >= ending.drain_until) {
            return;
        }
        self.stdout.end(&mut self.recorder);
        self.stderr.end(&mut self.recorder, now);
        let exit = self.exit();
        // JSON of our own making is always taken.
        let _ = self
            .recorder
            .push(Source::Daemon, None, &records::run_exited(self.run, &exit));
        if let Some(ending) = &mut self.ending {
            ending.exit = Some(exit);
        }
    }

    fn exit(&mut self) -> RunExit {
        let ending = self.ending.as_ref();
        RunExit {
            code: ending.and_then(|ending| ending.code),
            signal: ending.and_then(|ending| ending.signal),
            intent: self.ladder.intent(),
            killed: self.ladder.killed(),
            stderr_tail: self.stderr.tail(),
            spawn_error: None,
            unwritten_lines: self.unwritten_lines,
            stop_steps: self.ladder.steps().to_vec(),
        }
    }

    /// Kills what the process left behind. A process that loses its parent by that becomes our child and is found the
    /// next time.
    fn sweep(&mut self, now: Instant) {
        let Some(ending) = &mut self.ending else {
            return;
        };
        if ending.sweep_at.is_none_or(|at| now < at) {
            return;
        }
        let marker = leftovers::marker(self.run);
        let is_target = |environment: &[u8]| leftovers::has_entry(environment, &marker);
        let survivors = ending.killer.kill(&is_target, true).unwrap_or_default();
        if survivors.is_empty() {
            if ending.clean_looks_due == 0 {
                ending.sweep_at = None;
                return;
            }
            ending.clean_looks_due -= 1;
        } else {
            // Where one was found, another may have been forked just behind the look.
            ending.clean_looks_due = leftovers::CLEAN_LOOKS - 1;
        }
        ending.sweep_at = Some(now + SWEEP_PAUSE);
        if now >= ending.sweep_until && !survivors.is_empty() {
            ending.sweep_at = None;
            self.recorder.notice(
                "descendants_left",
                &format!("{} processes could not be killed", survivors.len()),
            );
        }
    }

    pub(super) fn is_exit_recorded(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.exit.is_some())
    }

    /// The end of the process, when all of it is in the journal or the disk refused it for too long.
    pub(super) fn is_over(&mut self, now: Instant) -> Option<RunExit> {
        let ending = self.ending.as_ref()?;
        if self.recorder.is_blocked() {
            return (now >= ending.give_up_at).then(|| self.exit());
        }
        // The daemon that had it started shall hear of an end that comes at once.
        if !self.server.had_daemon() && now < ending.first_daemon_until {
            return None;
        }
        ending.exit.clone()
    }

    /// Tells the daemon, and makes the journal durable.
    pub(super) fn farewell(&mut self, exit: &RunExit) -> io::Result<()> {
        if let Some(connection) = self.server.connection() {
            self.server.tell(connection, &ToDaemon::Exited(exit.clone()));
        }
        let now = Instant::now();
        self.recorder.commit(now);
        let until = now + FAREWELL_PATIENCE;
        loop {
            let _ = self.server.flush(self.recorder.head());
            let left = until.saturating_duration_since(Instant::now());
            let Some(daemon) = self.server.daemon().filter(|daemon| daemon.write) else {
                break;
            };
            if left.is_zero() {
                break;
            }
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            poll(&mut [PollFd::new(daemon.socket, PollFlags::POLLOUT)], timeout)?;
        }
        self.recorder.sync();
        Ok(())
    }
}
