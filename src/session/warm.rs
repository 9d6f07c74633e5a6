//! Owns the actor's side of a process that was started in advance: nobody may see of it, until somebody asks for a session
//! and gets it.

use crate::{
    domain::{RestartTerms, SessionState},
    keeper::{self, StopRequest},
};

use super::{
    SessionError,
    actor::Actor,
    counted::Counted,
    handle::Reply,
    notes::{Claimed, Note},
    outbox::{Entry, Payload, Subject},
};

/// From SIGTERM to SIGKILL for a process that has done nothing yet: somebody may wait for its place.
const TERM_GRACE_MS: u64 = 500;

/// The values that turn a process started in advance into a session's.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The profile of the configuration that it was started for.
    pub profile: String,
    /// The terms, from now on, on which it is restarted when it dies; `None` when it never is.
    pub restart: Option<RestartTerms>,
}

/// A process that nobody has asked for yet. Its output is kept from the store and from the counters.
#[derive(Debug, Default)]
pub(super) struct Prewarmed {
    counted: Vec<Counted>,
    /// The caller that has asked for it; the record of that is on its way.
    claim: Option<Reply<()>>,
}

impl Actor {
    /// Counts what happened, now or once the session is claimed.
    pub(super) fn count(&mut self, counted: Counted) {
        match &mut self.unclaimed {
            Some(unclaimed) => unclaimed.counted.push(counted),
            None => counted.tell(&self.metrics),
        }
    }

    /// How an unclaimed process is stopped.
    pub(super) fn unclaimed_stop(&self) -> Option<StopRequest> {
        self.unclaimed.as_ref().map(|_| StopRequest {
            close_stdin_first: false,
            eof_grace_ms: 0,
            term_grace_ms: TERM_GRACE_MS,
            interrupt_grace_ms: 0,
        })
    }

    pub(super) fn claim(&mut self, claim: Claim, reply: Reply<()>) {
        let state = self.shown_state();
        // Its death may not be in the journal yet.
        let lives = self.cli_pid.is_some_and(keeper::is_running);
        let is_free = state == SessionState::Idle
            && lives
            && !self.has_turned()
            && self.stop_waiters.is_empty()
            && self.takeover.is_none();
        match &mut self.unclaimed {
            Some(unclaimed) if is_free && unclaimed.claim.is_none() => unclaimed.claim = Some(reply),
            _ => {
                // The asker may have left.
                reply.send(Err(SessionError::NotLive { state })).ok();
                return;
            }
        }
        let note = Note::Claimed(Claimed {
            profile: claim.profile,
            restart: claim.restart,
        });
        self.enqueue(Entry::new(Payload::Note(note.to_json()), Subject::Claim));
    }

    pub(super) fn on_claimed(&mut self) {
        let state = self.shown_state();
        self.desk.claim();
        // All lines that the CLI printed before the record of the claim are read by now.
        let answer = match self.has_turned() {
            true => Err(SessionError::NotLive { state }),
            false => Ok(()),
        };
        if let Some(reply) = self.take_claim() {
            reply.send(answer).ok();
        }
    }

    /// Whether the CLI has begun a turn that nobody asked for: who gets the session would have, and pay, what he never wanted.
    fn has_turned(&self) -> bool {
        self.machine.turns() > 0 || self.machine.running_turn().is_some()
    }

    pub(super) fn refuse_claim(&mut self, error: &dyn Fn() -> SessionError) {
        if let Some(reply) = self.take_claim() {
            reply.send(Err(error())).ok();
        }
    }

    pub(super) fn start_projecting(&mut self, reply: Reply<()>) {
        if let Some(unclaimed) = self.unclaimed.take() {
            for counted in unclaimed.counted {
                counted.tell(&self.metrics);
            }
            self.offer_facts();
        }
        reply.send(Ok(())).ok();
    }

    fn take_claim(&mut self) -> Option<Reply<()>> {
        self.unclaimed.as_mut()?.claim.take()
    }
}
