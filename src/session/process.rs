//! Owns the actor's side of its process: start, stop, the loss of the keeper, and what was refused on the way.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    domain::{FailReason, RunId, SessionState},
    journal::{OpenError, Writer, WriterOptions},
    keeper::{self, Link, StopRequest, WriteError},
    telemetry,
};

use super::{
    SessionError,
    actor::Actor,
    handle::{Launch, Reply, Stop},
    notes::{Note, RunStarted},
    outbox::{self, Entry, OUTBOX_ENTRIES, Subject, Unsent},
};

/// How long a stop waits until its record is in the journal.
const NOTE_PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks at the lock of a keeper that is gone.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// How long a keeper without a connection may hold the journal before its process is ended.
const KEEPER_PATIENCE: Duration = Duration::from_secs(2);

/// A process that is being started.
#[derive(Debug)]
pub(super) struct Launching {
    /// What to start; set while the keeper of the last process is still about to end.
    waits: Option<Box<Launch>>,
    reply: Reply<()>,
    /// What was sent meanwhile.
    held: Vec<Entry>,
    stop_asked: Option<String>,
}

/// A keeper whose connection is over and whose journal is to be taken over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Takeover {
    /// When to look again whether its lock is free.
    pub(super) next: Instant,
    /// When its process is ended, so that it ends.
    kill_at: Option<Instant>,
}

impl Launching {
    /// Whether the keeper of the last process is still about to end.
    pub(super) fn waits(&self) -> bool {
        self.waits.is_some()
    }
}

impl Actor {
    pub(super) fn start(&mut self, launch: Box<Launch>, reply: Reply<()>) {
        if self.machine.has_run() || self.launching.is_some() {
            let state = self.shown_state();
            reply.send(Err(SessionError::AlreadyLive { state })).ok();
            return;
        }
        self.launching = Some(Launching {
            waits: Some(launch),
            reply,
            held: Vec::new(),
            stop_asked: None,
        });
        if self.link.is_none() {
            self.spawn_keeper();
        }
    }

    /// Starts the keeper that is waited for, if one is.
    fn spawn_keeper(&mut self) {
        let Some(mut launch) = self
            .launching
            .as_mut()
            .and_then(|launching| launching.waits.take())
        else {
            return;
        };
        let note = Note::RunStarted(RunStarted {
            run_id: launch.plan.run,
            mode: launch.mode,
            cli_session_id: launch.cli_session,
            turns: self.machine.turns(),
            base: std::mem::take(&mut launch.base),
            permission_mode: launch.permission_mode.take(),
        });
        launch.plan.start_note = String::from_utf8_lossy(&note.to_json()).into_owned();
        let program = self.settings.keeper_program.clone();
        let (tracker, launched) = (self.tracker.clone(), self.launched_sender.clone());
        self.tracker.spawn(async move {
            let link = keeper::launch(&program, &launch.plan, &tracker).await;
            let link = link.map_err(|error| telemetry::chain(&error));
            // The actor outlives its launches, or nobody wants the link: dropping it leaves the keeper alone.
            launched.send(link).await.ok();
        });
    }

    pub(super) fn on_launched(&mut self, launched: Result<Link, String>) {
        let Some(launching) = self.launching.take() else {
            return;
        };
        match launched {
            Ok(link) => {
                self.take_link(link);
                for entry in launching.held {
                    self.enqueue(entry);
                }
                if let Some(by) = launching.stop_asked {
                    self.stop_process(by, None);
                }
                launching.reply.send(Ok(())).ok();
            }
            Err(detail) => {
                // The keeper may have come as far as the journal.
                if let Ok(head) = self.reader.head() {
                    self.follow(head);
                }
                let reason = FailReason {
                    code: "start_failed".to_owned(),
                    detail,
                };
                if let Some(run_id) = self.machine.run_id() {
                    self.append(&Note::RunLost { run_id });
                } else if self.machine.state() != SessionState::Failed {
                    self.append(&Note::StartFailed {
                        reason: reason.clone(),
                    });
                }
                self.refuse_held(launching.held);
                for waiter in self.stop_waiters.drain(..) {
                    waiter.send(()).ok();
                }
                let reason = self.machine.reason().cloned().unwrap_or(reason);
                launching.reply.send(Err(SessionError::StartFailed(reason))).ok();
            }
        }
    }

    /// Refuses what was held for a process that does not come.
    fn refuse_held(&mut self, held: Vec<Entry>) {
        for Entry { subject, .. } in held {
            let error = WriteError::Gone;
            self.on_unsent(Unsent { subject, error });
        }
    }

    pub(super) fn take_link(&mut self, link: Link) {
        let (sender, entries) = mpsc::channel(OUTBOX_ENTRIES);
        self.tracker.spawn(outbox::run(
            link.handle.clone(),
            entries,
            self.unsent_sender.clone(),
        ));
        self.outbox = Some(sender);
        self.cli_pid = Some(link.hello.child_pid);
        self.link = Some(link.handle);
        self.events = Some(link.events);
        self.start_deadline = Some(Instant::now() + Duration::from_millis(self.settings.start_timeout_ms));
        self.follow(link.hello.head);
        if self.machine.state() == SessionState::Stopping {
            // Whoever asked may have died between the record and the stop itself. A second stop changes nothing.
            self.stop_process("daemon".to_owned(), None);
        }
    }

    /// After a start of the daemon: the records may say that a process lives although none does.
    pub(super) fn mend_without_process(&mut self) -> Result<(), SessionError> {
        let note = match self.machine.run_id() {
            Some(run_id) => {
                self.kill_leftovers(run_id);
                Note::RunLost { run_id }
            }
            None if self.machine.state().is_live() => Note::StartFailed {
                reason: FailReason {
                    code: "start_failed".to_owned(),
                    detail: "the daemon ended before the process was started".to_owned(),
                },
            },
            None => return Ok(()),
        };
        self.try_append(&note)
    }

    /// The connection to the keeper is over: its end is the end of the run, once its hold on the journal is gone too.
    pub(super) fn on_gone(&mut self) {
        self.events = None;
        self.outbox = None;
        self.start_deadline = None;
        let now = Instant::now();
        self.takeover = Some(Takeover {
            next: now,
            kill_at: Some(now + KEEPER_PATIENCE),
        });
        self.take_over(now);
    }

    /// Takes over the journal of a keeper that is gone. A process that ends loses its files one after the other, so its lock
    /// may outlive its connection by a moment.
    fn take_over(&mut self, now: Instant) {
        let Some(takeover) = self.takeover.as_mut().filter(|takeover| takeover.next <= now) else {
            return;
        };
        if is_locked(&self.journal_dir) {
            takeover.next = now + LOCK_PAUSE;
            if takeover.kill_at.take_if(|at| *at <= now).is_some()
                && let Some(run_id) = self.machine.run_id()
            {
                // A keeper that lives without us: with its process it ends.
                self.kill_leftovers(run_id);
            }
            return;
        }
        self.takeover = None;
        self.link = None;
        self.cli_pid = None;
        if let Ok(head) = self.reader.head() {
            self.follow(head);
        }
        if let Some(run_id) = self.machine.run_id() {
            self.kill_leftovers(run_id);
            self.append(&Note::RunLost { run_id });
        }
        for note in std::mem::take(&mut self.late_notes) {
            self.append(&note);
        }
        for unsent in std::mem::take(&mut self.uncertain) {
            self.on_unsent(unsent);
        }
        self.settle();
        if let Some(launching) = self
            .launching
            .take_if(|launching| launching.waits() && launching.stop_asked.is_some())
        {
            // Stopped before it began.
            self.refuse_held(launching.held);
            launching.reply.send(Err(SessionError::Stopping)).ok();
        }
        for waiter in self.stop_waiters.drain(..) {
            // Who asked may have left.
            waiter.send(()).ok();
        }
        self.spawn_keeper();
    }

    /// Ends what a process left behind whose keeper died with it.
    fn kill_leftovers(&self, run: RunId) {
        let session = self.id;
        self.tracker
            .spawn_blocking(move || match keeper::kill_leftovers(run) {
                Ok(0) => {}
                Ok(killed) => {
                    tracing::warn!(session.id = %session, killed, "processes of a lost run were killed")
                }
                Err(error) => {
                    tracing::error!(session.id = %session, %error, "leftovers could not be looked for")
                }
            });
    }

    pub(super) fn on_run_ended(&mut self) {
        for waiting in self.controls.take_all() {
            self.answer_asker(
                waiting.asker,
                Err(SessionError::NotLive {
                    state: self.machine.state(),
                }),
            );
        }
        for (_, waiters) in self.turn_waiters.drain() {
            for waiter in waiters {
                let state = self.machine.state();
                waiter.send(Err(SessionError::NotLive { state })).ok();
            }
        }
        self.announced.clear();
        self.stop_sent = false;
        self.answered.clear();
    }

    pub(super) fn on_stop(&mut self, stop: Stop) {
        if let Some(launching) = &mut self.launching {
            launching.stop_asked = Some(stop.by);
            self.stop_waiters.push(stop.reply);
        } else if self.link.is_some() {
            self.stop_waiters.push(stop.reply);
            if self.machine.has_run() {
                self.stop_process(stop.by, None);
            }
        } else {
            // Nothing runs. The asker may have left.
            stop.reply.send(()).ok();
        }
    }

    /// Starts the stop ladder, or hastens one that runs. Only the first stop of a run gets a record.
    pub(super) fn stop_process(&mut self, by: String, start_timeout_ms: Option<u64>) {
        let Some(link) = self.link.clone() else {
            return;
        };
        let is_first = self.machine.state() != SessionState::Stopping;
        let request = StopRequest {
            close_stdin_first: self.machine.is_quiet(),
            eof_grace_ms: self.settings.eof_grace_ms,
            term_grace_ms: self.settings.term_grace_ms,
        };
        let note = Bytes::from(Note::StopRequested { by, start_timeout_ms }.to_json());
        self.tracker.spawn(async move {
            // A note that can't be written must not hold up the stop: on a full disk its answer does not come.
            if is_first {
                match tokio::time::timeout(NOTE_PATIENCE, link.note(note)).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "the stop request was not journaled"),
                    Err(_) => tracing::warn!("the stop request was not journaled in time"),
                }
            }
            if link.stop(request).await.is_err() {
                tracing::debug!("the keeper ended before it was asked to stop");
            }
        });
    }

    pub(super) fn on_unsent(&mut self, unsent: Unsent) {
        if unsent.error == WriteError::Gone && self.link.is_some() {
            self.uncertain.push(unsent);
            return;
        }
        let state = self.machine.state();
        match unsent.subject {
            Subject::Prompt(uuid) => {
                let refused = self.prompts.on_unsent(uuid);
                if !refused.is_empty() {
                    for waiter in self.turn_waiters.remove(&uuid).unwrap_or_default() {
                        waiter.send(Err(SessionError::PromptNotOpen(uuid))).ok();
                    }
                }
                for reply in refused {
                    self.answer_prompt(reply, uuid, Err(refusal(&unsent.error, state)));
                }
            }
            Subject::Control(id) => {
                if let Some(waiting) = self.controls.take(&id) {
                    self.answer_asker(waiting.asker, Err(refusal(&unsent.error, state)));
                }
            }
            Subject::Answer(id) => {
                for reply in self.deciding.take(id) {
                    self.answer_decision(reply, id, Err(refusal(&unsent.error, state)));
                }
            }
            Subject::Nobody => {
                tracing::warn!(session.id = %self.id, error = %unsent.error, "a record was not written")
            }
        }
    }

    pub(super) fn on_deadline(&mut self) {
        if self.start_deadline.is_some_and(|at| at <= Instant::now()) {
            self.start_deadline = None;
            if self.machine.state() == SessionState::Starting {
                self.stop_process("daemon".to_owned(), Some(self.settings.start_timeout_ms));
            }
        }
        self.take_over(Instant::now());
        for waiting in self.controls.take_overdue(Instant::now()) {
            let ms = waiting.deadline.map_or(0, |(_, ms)| ms);
            let subtype = waiting.subtype;
            self.answer_asker(waiting.asker, Err(SessionError::ControlDeadline { subtype, ms }));
        }
    }

    /// Gives an entry to the keeper, or refuses it at once.
    pub(super) fn enqueue(&mut self, entry: Entry) {
        if let Some(launching) = self
            .launching
            .as_mut()
            .filter(|it| it.held.len() < OUTBOX_ENTRIES)
        {
            launching.held.push(entry);
            return;
        }
        let (entry, error) = match &self.outbox {
            Some(outbox) => match outbox.try_send(entry) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(entry)) => (entry, WriteError::Busy),
                Err(mpsc::error::TrySendError::Closed(entry)) => (entry, WriteError::Gone),
            },
            // What would be held for a process that starts is too much.
            None if self.launching.is_some() => (entry, WriteError::Busy),
            None => (entry, WriteError::Gone),
        };
        self.on_unsent(Unsent {
            subject: entry.subject,
            error,
        });
    }
}

/// Whether somebody else writes the journal. That it cannot be opened for another reason is found out by those who write.
fn is_locked(journal_dir: &Path) -> bool {
    let opened = Writer::open(journal_dir, WriterOptions::default());
    matches!(opened, Err(OpenError::Locked { .. }))
}

fn refusal(error: &WriteError, state: SessionState) -> SessionError {
    match error {
        WriteError::Busy => SessionError::Busy,
        _ => SessionError::NotLive { state },
    }
}
