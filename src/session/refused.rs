//! Owns what becomes of entries that the keeper did not take: their waiters are told, and what is due is sent again.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    domain::{PromptUuid, SessionState},
    keeper::WriteError,
};

use super::{
    RefusedLine, SessionError,
    actor::Actor,
    decisions::DecisionReply,
    error::Silence,
    notes::{Note, Notice},
    outbox::{Due, Subject, Told, Unsent},
};

/// How long after a record or answer of ours was refused for want of room it is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

impl Actor {
    /// The outbox has something to tell.
    pub(super) fn on_told(&mut self, told: Told) {
        match told {
            Told::Unsent(unsent) => self.on_unsent(unsent),
            Told::Silent(why) => {
                tracing::warn!(session.id = %self.id, %why, "the keeper of a session does not answer; what it was given may be taken later");
                self.way.silence = Some(why);
                self.leave_prompts(None, why);
                for (id, reply) in self.deciding.take_waiting() {
                    self.answer_decision(reply, id, Err(SessionError::MayBeTaken { why, prompt: None }));
                }
            }
            Told::Heard => {
                tracing::info!(session.id = %self.id, "the keeper of a session was heard again");
                self.way.silence = None;
            }
        }
    }

    /// Tells those who wait for prompts, all or one, that the keeper does not answer. It may take the prompts yet, once each.
    pub(super) fn leave_prompts(&mut self, only: Option<PromptUuid>, why: Silence) {
        for (uuid, reply) in self.prompts.take_waiting(only) {
            let prompt = Some(uuid);
            self.answer_prompt(reply, uuid, Err(SessionError::MayBeTaken { why, prompt }));
        }
    }

    pub(super) fn on_unsent(&mut self, unsent: Unsent) {
        match &self.link {
            // It was not sent: what had been sent was known long before the keeper was found not to answer.
            Some(_) if unsent.error == WriteError::Gone && self.has_silent_keeper() => {
                self.refuse_unrecorded(unsent);
            }
            Some(link) if unsent.error == WriteError::Gone && link.over().is_cancelled() => {
                self.uncertain.push(unsent);
            }
            // The entry belongs to an earlier connection to a keeper that is attached again.
            Some(_) if unsent.error == WriteError::Gone => self.refuse_unrecorded(unsent),
            _ => self.refuse(unsent),
        }
    }

    /// Tells who waits that an entry was not taken.
    pub(super) fn refuse(&mut self, unsent: Unsent) {
        let (state, error) = (self.machine.state(), unsent.error);
        match unsent.subject {
            Subject::Due(due) if error == WriteError::Busy => self.retry_later(due, RETRY_PAUSE),
            subject => self.refuse_for(subject, &|| refusal(&error, state)),
        }
    }

    /// Tells who waits why an entry was not taken.
    pub(super) fn refuse_for(&mut self, subject: Subject, refusal: &dyn Fn() -> SessionError) {
        match subject {
            Subject::Prompt(uuid) => {
                let refused = self.prompts.on_unsent(uuid);
                if !refused.is_empty() {
                    for waiter in self.turn_waiters.remove(&uuid).unwrap_or_default() {
                        waiter.send(Err(SessionError::PromptNotOpen(uuid))).ok();
                    }
                }
                for reply in refused {
                    self.answer_prompt(reply, uuid, Err(refusal()));
                }
            }
            Subject::Control(id) => {
                self.desk.forget_hooks_of(&id);
                self.controls.choices.unsent(&id);
                if let Some(waiting) = self.controls.take(&id) {
                    self.answer_waiting(waiting, &|| Err(refusal()));
                }
            }
            Subject::Answer(id) => {
                for reply in self.deciding.take(id) {
                    if matches!(reply, DecisionReply::Rule) {
                        self.ruling.pause(id);
                        self.retry_later(Due::Rule(id), RETRY_PAUSE);
                    }
                    self.answer_decision(reply, id, Err(refusal()));
                }
            }
            Subject::Credentials(connection) => {
                self.clients.refuse(connection, RefusedLine::Nameless, refusal());
            }
            Subject::Claim => self.refuse_claim(refusal),
            Subject::Reply(id) => self.answer_refused(&id, refusal()),
            Subject::Park => {
                self.refuse_put_off(refusal);
                self.park_is_off();
            }
            // It is sent again to a process that lives.
            Subject::Due(Due::Restore) => self.controls.choices.restoring.unsent(),
            Subject::Due(Due::Carried) => self.retry_later(Due::Carried, RETRY_PAUSE),
            // The process has ended before it, and its keeper is about to go.
            Subject::Due(Due::Notice(told)) if self.link.is_some() => {
                self.late_notes.push(Note::Notice(Notice::Told(told)));
            }
            Subject::Due(Due::Notice(told)) => self.write_notice(told),
            // It was stopped in haste, and its journal goes too.
            Subject::Due(_) | Subject::Nobody if self.unclaimed.is_some() => {}
            Subject::Due(_) | Subject::Nobody => {
                tracing::warn!(session.id = %self.id, error = %refusal(), "a record was not written")
            }
        }
    }

    pub(super) fn retry_later(&mut self, due: Due, pause: Duration) {
        self.refused.push(due);
        self.retry_at.get_or_insert_with(|| Instant::now() + pause);
    }
}

fn refusal(error: &WriteError, state: SessionState) -> SessionError {
    match error {
        WriteError::Busy => SessionError::Busy,
        WriteError::Unjournalable => SessionError::SecretNotTaken,
        // The process died, and the next one takes it.
        WriteError::Closed | WriteError::Exited | WriteError::Gone
            if state.is_live() && state != SessionState::Stopping =>
        {
            SessionError::Busy
        }
        _ => SessionError::NotLive { state },
    }
}
