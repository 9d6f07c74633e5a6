//! Owns what happens once the connection to a keeper is over: the journal is taken over, or the keeper is attached to again.

use std::time::Duration;

use tokio::{sync::oneshot, task::AbortHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{FailReason, RunId},
    journal::{is_locked, lock_file},
    keeper::{self, Link, WriteError},
};

use super::{SessionError, Silence, actor::Actor, notes::Note, outbox::Unsent, process::StopCause};

/// Between two looks at the lock of a keeper that is gone.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// Between two tries to attach to a keeper that still holds its lock.
const ATTACH_PAUSE: Duration = Duration::from_millis(250);
/// How long a keeper whose file or socket is of no use may hold the journal before its process is ended. One that only does not
/// answer keeps it for as long as nobody wants the process stopped.
const KEEPER_PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries to close a run on a disk that refuses it.
const CLOSE_PAUSE: Duration = Duration::from_secs(1);

/// A keeper whose connection is over and whose journal is to be taken over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    /// When to look again whether its lock is free.
    pub(super) next: Instant,
    /// When to try to attach to it again.
    attach_at: Instant,
    /// When its process is ended, so that it ends.
    kill_at: Option<Instant>,
    /// When it is ended itself, if that did not help.
    end_at: Option<Instant>,
    /// Until when its lock is looked at all the time: it is ending, most probably.
    quick_until: Instant,
    /// Whether it held its lock when that was looked at last, or nobody could tell: then it may live.
    is_locked: bool,
    /// The result of the last try to attach to it: whether it may be alive without an answer.
    is_silent: Option<bool>,
}

/// A try to attach to a keeper that lost us.
#[derive(Debug)]
pub(super) struct Attaching {
    task: AbortHandle,
    /// Says, once it has failed, whether the keeper may live and only not answer.
    failed: oneshot::Receiver<bool>,
}

impl Attaching {
    pub(super) fn abort(&self) {
        self.task.abort();
    }
}

impl Actor {
    /// The connection to the keeper is over. Its end is the usual cause; but it may live, and only have lost us.
    pub(super) fn on_link_lost(&mut self) {
        self.events = None;
        self.outbox = None;
        self.start_deadline = None;
        let now = Instant::now();
        self.takeover = Some(Lost {
            next: now,
            attach_at: now + LOCK_PAUSE,
            kill_at: Some(now + KEEPER_PATIENCE),
            end_at: Some(now + 2 * KEEPER_PATIENCE),
            quick_until: now + KEEPER_PATIENCE,
            is_locked: true,
            is_silent: None,
        });
        self.reclaim_journal(now);
    }

    /// Takes over the journal of a keeper that is gone. A process that ends loses its files one after the other, so its lock
    /// may outlive its connection by a moment.
    pub(super) fn reclaim_journal(&mut self, now: Instant) {
        let Some(takeover) = self.takeover.filter(|takeover| takeover.next <= now) else {
            return;
        };
        match is_locked(&self.journal_dir) {
            Ok(false) => {}
            // Where it cannot be told, it may live.
            locked => {
                self.wait_for_lock(takeover, now, locked.is_err());
                return;
            }
        }
        if let Some(attaching) = self.attaching.take() {
            attaching.abort();
        }
        self.link = None;
        self.cli_pid = None;
        self.read_to_the_end();
        if let Some(run_id) = self.machine.run_id() {
            // Also when the disk refuses the record.
            self.kill_leftovers(run_id);
            if !self.append(&Note::RunLost {
                run_id,
                watched: true,
            }) {
                self.takeover = Some(Lost {
                    next: now + CLOSE_PAUSE,
                    is_locked: false,
                    ..takeover
                });
                self.answer_stops();
                return;
            }
        }
        self.takeover = None;
        for note in std::mem::take(&mut self.late_notes) {
            self.append(&note);
        }
        for unsent in std::mem::take(&mut self.uncertain) {
            self.on_unsent(unsent);
        }
        self.settle();
        self.answer_stops();
        self.spawn_keeper();
    }

    fn wait_for_lock(&mut self, mut takeover: Lost, now: Instant, is_unclear: bool) {
        takeover.next = now
            + if now < takeover.quick_until {
                LOCK_PAUSE
            } else {
                ATTACH_PAUSE
            };
        let run = self.machine.run_id();
        if let Some(attaching) = &mut self.attaching
            && let Ok(is_silent) = attaching.failed.try_recv()
        {
            if is_silent && takeover.is_silent != Some(true) {
                tracing::warn!(session.id = %self.id, "the keeper of a session lives and does not answer; it is waited for");
            }
            takeover.is_silent = Some(is_silent);
        }
        // One that is not known to be of no use is given up by nobody but who wants the process stopped.
        let may_live = is_unclear || (run.is_some() && takeover.is_silent != Some(false));
        if may_live && self.stop_waiters.is_empty() {
            takeover.kill_at = takeover.kill_at.map(|_| now + KEEPER_PATIENCE);
            takeover.end_at = takeover.end_at.map(|_| now + 2 * KEEPER_PATIENCE);
        }
        if let Some(run_id) = run {
            if takeover.kill_at.take_if(|at| *at <= now).is_some() {
                // A keeper that lives and can't be reached: with its process it ends.
                self.kill_leftovers(run_id);
            } else if takeover.attach_at <= now {
                takeover.attach_at = now + ATTACH_PAUSE;
                self.attach_again();
            }
        }
        if takeover.end_at.take_if(|at| *at <= now).is_some() {
            self.kill_keeper();
        }
        let was_silent = self.has_silent_keeper();
        self.takeover = Some(takeover);
        if was_silent != self.has_silent_keeper() {
            self.show();
        }
    }

    /// Tries it once at a time: of two connections the keeper would drop the first.
    fn attach_again(&mut self) {
        if self
            .attaching
            .as_ref()
            .is_some_and(|attaching| !attaching.task.is_finished())
        {
            return;
        }
        let identity = self.settings.identity_file.clone();
        let (tracker, attached) = (self.tracker.clone(), self.launched_sender.clone());
        let (says, failed) = oneshot::channel();
        let task = self.tracker.spawn(async move {
            match keeper::attach(&identity, &tracker).await {
                Ok(link) => drop(attached.send(Ok(link)).await),
                // The next try follows, or the patience ends.
                Err(error) => drop(says.send(error.may_live())),
            }
        });
        self.attaching = Some(Attaching {
            task: task.abort_handle(),
            failed,
        });
    }

    /// Whether there is a keeper whose connection is over, and that was found to live and not to answer.
    pub(super) fn has_silent_keeper(&self) -> bool {
        self.takeover
            .is_some_and(|takeover| takeover.is_locked && takeover.is_silent == Some(true))
    }

    /// The reason that the view gives for a session with such a keeper.
    pub(super) fn silence(&self) -> Option<FailReason> {
        let lost = self.has_silent_keeper().then_some(Silence::Keeper);
        lost.or(self.way.silence).map(|why| FailReason {
            code: why.code().as_str().to_owned(),
            detail: why.to_string(),
        })
    }

    /// Goes on with a keeper that lived and had lost us.
    pub(super) fn reattached(&mut self, link: Link) {
        self.takeover = None;
        self.take_link(link);
        for unsent in std::mem::take(&mut self.uncertain) {
            self.refuse_unrecorded(unsent);
        }
        // A stop that was asked for meanwhile has not reached it.
        self.stop_sent = false;
        let is_parking = self.machine.is_parking();
        let asked = self
            .stop_waiters
            .iter()
            .rev()
            .find(|stop| !(stop.keeps_park && is_parking));
        if let Some(stop) = asked
            && self.machine.has_run()
        {
            self.stop_process(stop.by.clone(), StopCause::asked(stop.is_urgent));
        }
    }

    /// Tells who waits that an entry was not taken by a keeper that was attached to again: before it greets, a keeper has
    /// recorded all that it took, and all that was read.
    pub(super) fn refuse_unrecorded(&mut self, unsent: Unsent) {
        self.refuse(Unsent {
            error: WriteError::Busy,
            ..unsent
        });
    }

    /// Whether there is a keeper, or one whose connection is over and that may live.
    pub(super) fn may_have_keeper(&self) -> bool {
        self.link.is_some() || self.takeover.is_some_and(|takeover| takeover.is_locked)
    }

    pub(super) fn read_to_the_end(&mut self) {
        if let Ok(head) = self.reader.head() {
            self.follow(head);
        }
    }

    /// After a start of the daemon: the records may say that a process lives although none does.
    pub(super) fn mend_without_process(&mut self) -> Result<(), SessionError> {
        if let Some(run_id) = self.machine.run_id() {
            // Also when the disk refuses the record. But what a keeper holds is not left over.
            if matches!(is_locked(&self.journal_dir), Ok(false)) {
                match self.settings.start_sweep.include(run_id) {
                    Some(over) => self.sweep = Some(over),
                    None => self.kill_leftovers(run_id),
                }
            }
            self.try_append(&Note::RunLost {
                run_id,
                watched: false,
            })?;
        } else if self.machine.state().is_live() && self.machine.restart().is_none() {
            let (code, detail) = if self.machine.has_lost() {
                (
                    "journal_damaged",
                    "records are missing, and with them what became of the process",
                )
            } else {
                (
                    FailReason::START_FAILED,
                    "the daemon ended before the process was started",
                )
            };
            let reason = FailReason {
                code: code.to_owned(),
                detail: detail.to_owned(),
            };
            self.try_append(&Note::StartFailed { reason, retry: false })?;
        }
        Ok(())
    }

    /// Ends what a process left behind whose keeper died with it.
    fn kill_leftovers(&mut self, run: RunId) {
        let (session, metrics) = (self.id, self.metrics.clone());
        let mark = self.settings.data_mark.clone();
        let sweep = CancellationToken::new();
        self.sweep = Some(sweep.clone());
        self.tracker.spawn_blocking(move || {
            let _ended = sweep.drop_guard();
            match keeper::kill_leftovers(&mark, run) {
                Ok(swept) => {
                    metrics.strays_killed(swept.killed);
                    if swept.killed > 0 {
                        let killed = swept.killed;
                        tracing::warn!(session.id = %session, killed, "processes of a lost run were killed");
                    }
                    if swept.left > 0 {
                        let left = swept.left;
                        tracing::error!(session.id = %session, left, "processes of a lost run cannot be killed");
                    }
                }
                Err(error) => {
                    tracing::error!(session.id = %session, %error, "leftovers could not be looked for")
                }
            }
        });
    }

    /// A start that had to wait may begin.
    pub(super) fn on_swept(&mut self) {
        self.sweep = None;
        self.spawn_keeper();
    }

    /// Ends a keeper that holds the journal and cannot be talked to, such as one that hangs.
    fn kill_keeper(&self) {
        let session = self.id;
        let (identity, lock) = (self.settings.identity_file.clone(), lock_file(&self.journal_dir));
        self.tracker.spawn_blocking(move || {
            if keeper::kill_lock_holder(&identity, &lock) {
                tracing::warn!(session.id = %session, "a keeper that could not be reached was killed");
            }
        });
    }
}
