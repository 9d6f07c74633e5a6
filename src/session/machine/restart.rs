//! Owns what the end of a process means for what comes after it: the restart that is due, and the prompts that wait for it.

use crate::{
    domain::{
        FailReason, PromptState, PromptUuid, Restart, RunExit, SessionState, Timestamp,
        restart::{self, Death, Verdict},
    },
    journal::RecordRef,
    session::{OpenPrompt, exit, notes::Carried},
};

use super::{Effect, Machine, Outcome, Run, prompt_fact};

impl Machine {
    /// The restart that is due.
    pub(in crate::session) fn restart(&self) -> Option<&Restart> {
        self.restart.as_deref()
    }

    /// The restart that the last `state` record announced, by its time.
    pub(in crate::session) fn noted_restart(&self) -> Option<Timestamp> {
        self.noted_restart
    }

    /// Prompts that wait for the next process.
    pub(in crate::session) fn carried(&self) -> &[OpenPrompt] {
        if self.run.is_none() { &self.prompts } else { &[] }
    }

    /// Gives up a restart whose stop could not be recorded.
    pub(in crate::session) fn forget_restart(&mut self) {
        self.restart = None;
        self.rest = SessionState::Stopped;
        self.prompts.clear();
    }

    /// The prompts that the CLI has begun. One that gives no receipts works on the oldest.
    pub(super) fn begun(&self) -> Vec<PromptUuid> {
        let started = self.prompts.iter().filter(|it| it.state == PromptState::Started);
        let mut begun: Vec<_> = started.map(|prompt| prompt.uuid).collect();
        if begun.is_empty()
            && self.turn.is_some()
            && let Some(first) = self.prompts.first().filter(|it| it.state == PromptState::Sent)
        {
            begun.push(first.uuid);
        }
        begun
    }

    /// Decides between rest and restart. `exit` is `None` when nobody saw the end.
    pub(super) fn come_to_rest(
        &mut self,
        (state, reason): (SessionState, Option<FailReason>),
        run: &Run,
        exit: Option<&RunExit>,
        watched: bool,
        record: &RecordRef<'_>,
    ) {
        let said_unusable = || self.unusable(Some(run)).filter(|_| !run.has_worked);
        let reason = reason.map(|reason| match reason.code.as_str() {
            "cli_exited" => said_unusable().unwrap_or(reason),
            _ => reason,
        });
        self.rest = state;
        self.reason.clone_from(&reason);
        let (Some(terms), Some(reason), true) = (&run.restart, reason, watched) else {
            return;
        };
        let death = Death {
            run: run.id,
            at: record.at,
            is_permanent: exit::is_permanent(&reason, exit),
            reason,
            ready_for_ms: run.ready_at.map(|at| record.at.millis_since(at)),
            resumed: run.resumed,
            earlier_id: self.conversation.earlier,
            has_worked: run.has_worked,
            has_conversation: self.turns > 0,
        };
        self.judge(restart::decide(terms, death));
    }

    /// No process could be started. A restart may be tried again.
    pub(super) fn on_start_failed(
        &mut self,
        reason: FailReason,
        retry: bool,
        record: &RecordRef<'_>,
        out: &mut Outcome,
    ) {
        self.rest = SessionState::Failed;
        self.reason = Some(reason.clone());
        if let (Some(due), Some(run)) = (self.restart.take(), self.last_run)
            && retry
        {
            let death = Death {
                run,
                at: record.at,
                reason,
                is_permanent: false,
                ready_for_ms: None,
                // The CLI has not seen the conversation.
                resumed: false,
                earlier_id: None,
                has_worked: false,
                has_conversation: self.turns > 0,
            };
            self.judge(restart::decide(&due.terms, death));
            if let Some(next) = &mut self.restart {
                next.anew |= due.anew;
                next.earlier_id = due.earlier_id;
            }
        }
        self.go_back_to_park(out);
        self.settle_prompts(&[], record.at, out);
    }

    /// Somebody stopped a session that waited for its restart.
    pub(super) fn on_restart_stopped(&mut self, record: &RecordRef<'_>, out: &mut Outcome) {
        if self.restart.take().is_some() {
            self.rest = SessionState::Stopped;
            self.reason = None;
            self.parked = None;
            self.settle_prompts(&[], record.at, out);
        }
    }

    fn judge(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Restart(restart) => self.restart = Some(restart),
            Verdict::Fail(reason) => {
                self.rest = SessionState::Failed;
                self.reason = Some(reason);
            }
        }
    }

    /// The open prompts wait for the next process that somebody starts.
    pub(super) fn keep_prompts(&mut self, at: Timestamp, out: &mut Outcome) {
        for prompt in &mut self.prompts {
            if prompt.state != PromptState::Queued {
                prompt.state = PromptState::Queued;
                prompt_fact(prompt, PromptState::Queued, at, out);
            }
        }
    }

    /// Prompts that were not begun wait for the restart, if one is due; all others are interrupted.
    pub(super) fn settle_prompts(&mut self, begun: &[PromptUuid], at: Timestamp, out: &mut Outcome) {
        let is_due = self.restart.is_some();
        let waits = |prompt: &OpenPrompt| is_due && !begun.contains(&prompt.uuid);
        self.prompts.retain_mut(|prompt| {
            let state = if waits(prompt) {
                PromptState::Queued
            } else {
                PromptState::Interrupted
            };
            if prompt.state != state {
                prompt.state = state;
                prompt_fact(prompt, state, at, out);
            }
            if state.is_final() {
                out.effects.push(Effect::PromptDropped(prompt.uuid, state));
            }
            !state.is_final()
        });
    }

    /// A run starts with these prompts of the last one. Their lines follow.
    pub(super) fn carry(&mut self, carried: &[Carried], record: &RecordRef<'_>, out: &mut Outcome) {
        let comes = |prompt: &OpenPrompt| carried.iter().any(|it| it.uuid == prompt.uuid);
        self.prompts.retain_mut(|prompt| {
            let stays = comes(prompt);
            if !stays {
                prompt_fact(prompt, PromptState::Interrupted, record.at, out);
                let dropped = Effect::PromptDropped(prompt.uuid, PromptState::Interrupted);
                out.effects.push(dropped);
            }
            stays
        });
        for Carried { uuid, seq } in carried {
            if !self.has_prompt(*uuid) {
                self.prompts.push(OpenPrompt {
                    uuid: *uuid,
                    state: PromptState::Queued,
                    seq: *seq,
                });
            }
        }
        self.awaited = self.prompts.iter().map(|prompt| prompt.uuid).collect();
    }
}
