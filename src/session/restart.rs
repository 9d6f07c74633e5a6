//! Owns the actor's side of restarts: when the one that is due is asked for, what waits for it, and its end by a stop.

use std::time::Duration;

use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::Instant,
};

use crate::{
    domain::{Clock, FailReason, SessionId, Timestamp},
    json,
    keeper::StdinLine,
};

use super::{
    actor::Actor,
    handle::Launch,
    notes::{Carried, Note},
    outbox::{Backlog, Subject},
};

/// Between two tries to ask for a restart that could not be asked for, or did not come about for now.
const ASK_PAUSE: Duration = Duration::from_millis(500);
/// After a restart was asked for, when it is asked for again if nothing came of it.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The restart that is due, if one is.
#[derive(Debug)]
pub(super) struct Restarting {
    sink: mpsc::Sender<SessionId>,
    /// Which one it is, by its time in the records.
    of: Option<Timestamp>,
    /// When it is to be asked for.
    due: Option<Instant>,
    /// Messages sent to the session meanwhile.
    pub(super) held: Backlog,
}

impl Restarting {
    pub(super) fn new(sink: mpsc::Sender<SessionId>) -> Self {
        Self {
            sink,
            of: None,
            due: None,
            held: Backlog::default(),
        }
    }

    /// When something is to be done.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due
    }
}

impl Actor {
    /// Keeps the timer in step with what the records say.
    pub(super) fn settle_restart(&mut self) {
        let restart = self.machine.restart();
        let restart = restart.map(|restart| (restart.at, restart.pause_from(Clock.now())));
        match restart {
            Some((at, ms)) if self.restarting.of != Some(at) => {
                self.restarting.of = Some(at);
                self.restarting.due = Some(Instant::now() + Duration::from_millis(ms));
            }
            Some(_) => {}
            None => {
                self.restarting.of = None;
                self.restarting.due = None;
                if self.launching.is_none() && !self.restarting.held.is_empty() {
                    let held = self.restarting.held.take();
                    self.refuse_held(held);
                }
            }
        }
    }

    /// Asks for the restart whose time has come.
    pub(super) fn ask_for_restart(&mut self, now: Instant) {
        if self.restarting.due.take_if(|due| *due <= now).is_none() {
            return;
        }
        if self.launching.is_some() || !self.late_notes.is_empty() {
            // It is on its way, or its stop is.
            self.restarting.due = Some(now + ASK_PAUSE);
            return;
        }
        match self.restarting.sink.try_send(self.id) {
            // It is made at most once, however often it is asked for.
            Ok(()) => self.restarting.due = Some(now + ASK_AGAIN),
            Err(TrySendError::Full(_)) => self.restarting.due = Some(now + ASK_PAUSE),
            // The daemon ends; the next one reads in the journal that the restart is due.
            Err(TrySendError::Closed(_)) => {}
        }
    }

    pub(super) fn on_restart_failed(&mut self, reason: Option<FailReason>) {
        if self.machine.restart().is_none() || self.launching.is_some() {
            return;
        }
        match reason {
            Some(reason) => {
                let note = Note::StartFailed { reason, retry: false };
                self.note(note, Subject::Nobody);
            }
            None => self.restarting.due = Some(Instant::now() + ASK_PAUSE),
        }
    }

    /// Stops a session that waits for its restart.
    pub(super) fn stop_restart(&mut self, by: String) {
        if self.machine.restart().is_none() {
            return;
        }
        let note = Note::StopRequested {
            by,
            start_timeout_ms: None,
            silent_for_ms: None,
            park: None,
        };
        if self.link.is_some() {
            // The keeper is about to go and holds the journal.
            self.note(note, Subject::Nobody);
        } else if !self.append(&note) {
            self.machine.forget_restart();
        }
    }

    /// Gives the prompts that wait for a restart to the process that is about to start, once each.
    pub(super) fn carry_on(&mut self, launch: &mut Launch) -> Vec<Carried> {
        let mut carried = Vec::new();
        let mut lines = Vec::new();
        for prompt in self.machine.carried() {
            let Some((by, data)) = self.record(prompt.seq) else {
                tracing::warn!(session.id = %self.id, seq = prompt.seq.get(), "a prompt that waited is not readable");
                continue;
            };
            let line = String::from_utf8_lossy(&data).into_owned();
            if json::is_object(&line) {
                carried.push(Carried {
                    uuid: prompt.uuid,
                    seq: prompt.seq,
                });
                lines.push(StdinLine { by, line });
            }
        }
        // After `initialize`, before what the start brings.
        let at = launch.plan.first_lines.len().min(1);
        launch.plan.first_lines.splice(at..at, lines);
        carried
    }
}
