//! Owns how the fold begins and ends a run.

use std::sync::Arc;

use crate::{
    domain::{Approval, ApprovalKind, Fact, FailReason, PromptUuid, RunExit, RunId, SessionState, StartMode},
    journal::RecordRef,
    session::{
        Offers, OpenPrompt, approvals,
        choices::ChoiceRecord,
        desk::Book,
        exit::{self, Unfit},
        money::Ledger,
        notes::{Carried, RunStarted},
        turns,
    },
};

use super::{Audit, Calls, Effect, Machine, Outcome, Restore, Run, SilentPermissions, Timers};

impl Run {
    /// Whether the process answered `initialize`, and has what was set.
    pub(super) fn is_ready(&self) -> bool {
        self.ready && self.restore.left.is_empty()
    }
}

/// An exit this soon behind the end of a turn is part of that end.
const END_OF_TURN_MS: u64 = 10_000;

impl Machine {
    pub(super) fn on_run_started(&mut self, started: RunStarted, record: &RecordRef<'_>, out: &mut Outcome) {
        out.effects.push(Effect::Choice(ChoiceRecord::Began {
            has_choices: started.has_choices,
            restores: !started.restores.is_empty(),
        }));
        self.run = Some(Run {
            id: started.run_id,
            started_at: record.at,
            ready: false,
            ready_at: None,
            resumed: started.mode == StartMode::Resume,
            resumes: (started.mode == StartMode::Resume).then_some(started.cli_session_id),
            has_worked: false,
            restart: started.restart,
            stop_asked: false,
            asked_mode: started.permission_mode,
            unfit: None,
            start_timeout_ms: None,
            silent_for_ms: None,
            is_mute: false,
            activity: None,
            park: None,
            is_interrupted: false,
            said_error: None,
            restore: Restore::new(started.restores, started.left_out),
        });
        self.last_run = Some(started.run_id);
        self.turns = started.turns;
        self.turn = None;
        self.restart = None;
        self.calls = Calls::default();
        self.noticed_silence = None;
        self.timers = Timers::default();
        self.parked = started.parked;
        self.heard_at = None;
        self.owed_since = None;
        self.conversation.earlier = started.earlier_session_id;
        if started.mode != StartMode::Resume {
            self.conversation.on_changed();
        }
        self.carry(&started.carried, record, out);
        self.approvals.retain(|it| it.kind == ApprovalKind::Deferred);
        self.audit = Audit::default();
        self.desk = Book::default();
        self.own_requests.clear();
        self.background_tasks = 0;
        self.offers = Offers::default();
        self.reason = None;
        self.ledger = Ledger::start_run(started.base);
        self.unasked = SilentPermissions::default();
        out.facts.push(Fact::RunStarted {
            id: started.run_id,
            mode: started.mode,
            agent: started.agent,
            resume_at: started.resume_at,
            seq: record.seq,
            at: record.at,
        });
        if started.mode != StartMode::Resume {
            // A process that goes on with the conversation begins with the call that was put off. No other one knows of it.
            self.withdraw_deferred(|_| true, record.at, out);
        }
        self.set_cli_session(started.cli_session_id, record.at, out);
    }

    pub(super) fn on_run_ended(
        &mut self,
        run_id: RunId,
        exit: Option<RunExit>,
        watched: bool,
        record: &RecordRef<'_>,
        out: &mut Outcome,
    ) {
        let Some(run) = self.run.take_if(|run| run.id == run_id) else {
            return;
        };
        let exit = exit.map(|exit| exit::asked_for(exit, run.stop_asked));
        let cut_short = self.turn.is_some() || !self.prompts.is_empty();
        let work = match (cut_short, self.background_tasks) {
            (true, _) => exit::Work::Turn,
            (false, 0) => exit::Work::Done,
            (false, _) => exit::Work::Background,
        };
        let begun = self.begun();
        let asked = |it: &mut Arc<Approval>| it.kind != ApprovalKind::Deferred;
        let abandoned: Vec<_> = self.approvals.extract_if(.., asked).collect();
        for approval in abandoned {
            let resolution = approvals::abandoned(record.at);
            self.close_approval(&approval, resolution, out);
            let overruled = self.audit.on_abandoned(&approval).into_iter();
            out.facts.extend(overruled.map(Fact::ApprovalOverruled));
        }
        // Work that a process began before it was ready, and that the model did not answer, was no turn.
        let is_elsewhere = matches!(run.unfit, Some(Unfit::Conversation(_)));
        let is_turn = !is_elsewhere && (run.ready || run.has_worked);
        let turn = self.turn.take().filter(|_| is_turn);
        if let Some(turn) = turn {
            let turn = turns::cut_short(turn, run.id, &self.prompts, record);
            self.turns = turn.number;
            out.facts.push(Fact::TurnEnded(Box::new(turn.clone())));
            out.effects.push(Effect::TurnEnded(Box::new(turn), None));
        }
        self.desk = Book::default();
        self.own_requests.clear();
        self.background_tasks = 0;
        self.offers.tasks = None;
        self.calls = Calls::default();
        let refused = match (&run.unfit, &run.restore.refused) {
            (Some(unfit), _) => Some(exit::unfit(unfit)),
            (None, Some(detail)) => Some(exit::choices_refused(detail.clone())),
            (None, None) => None,
        };
        let (state, reason) = match (run.start_timeout_ms, refused, run.silent_for_ms) {
            (Some(ms), _, _) => exit::start_timed_out(ms, exit.as_ref()),
            (None, Some(refused), _) => refused,
            (None, None, Some(ms)) => exit::silent(ms, exit.as_ref()),
            (None, None, None) if run.is_mute && !run.stop_asked => exit::mute(exit.as_ref()),
            (None, None, None) => {
                let error = run.said_error.as_ref();
                let exit = exit.as_ref();
                let since_turn = self.used_at.map_or(u64::MAX, |at| record.at.millis_since(at));
                let ends_turn = run.is_interrupted && !cut_short && since_turn <= END_OF_TURN_MS;
                match exit.filter(|exit| ends_turn && exit.signal.is_none()) {
                    // Some versions of the CLI end with their interrupted turn. It has done all that was asked of it.
                    Some(_) => (SessionState::Stopped, None),
                    None => exit::rest_after(exit, run.ready, run.resumed, work, error),
                }
            }
        };
        match run.park {
            Some(reason) => self.come_to_park(reason, record.at, out),
            None => {
                self.come_to_rest((state, reason), &run, exit.as_ref(), watched, record);
                self.go_back_to_park(out);
            }
        }
        let code = self.reason().map(|reason| reason.code.as_str());
        let has_not_begun = is_elsewhere || (!run.ready && code == Some(FailReason::CONVERSATION_IN_USE));
        if has_not_begun && self.restart.is_none() {
            // Nothing of it was asked of this conversation.
            self.keep_prompts(record.at, out);
        } else {
            self.settle_prompts(&begun, record.at, out);
        }
        out.facts.push(Fact::RunExited {
            id: run.id,
            exit: exit.unwrap_or_else(exit::unseen),
            at: record.at,
        });
        out.effects.push(Effect::RunEnded);
    }

    /// The requests that still have to be answered before the process has what was set; none before it can be asked.
    pub(in crate::session) fn left_to_restore(&self) -> &[String] {
        match &self.run {
            Some(run) if run.ready && run.restore.refused.is_none() && !run.stop_asked => &run.restore.left,
            Some(_) | None => &[],
        }
    }

    /// The directories that the process does not get, as they are outside of the roots.
    pub(in crate::session) fn left_out(&self) -> &[String] {
        self.run.as_ref().map_or(&[], |run| &run.restore.left_out)
    }

    /// Whether prompts have to wait until the process has what was set.
    pub(in crate::session) fn is_restoring(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !run.restore.left.is_empty())
    }

    /// Whether a request of ours is written and not answered.
    pub(in crate::session) fn is_asked(&self, id: &str) -> bool {
        self.own_requests.contains_key(id)
    }

    /// The first prompt of the last process that waited until this one has what was set, and whose line is not written yet.
    pub(in crate::session) fn next_after_restore(&self) -> Option<Carried> {
        let run = self.run.as_ref()?;
        if !run.restore.is_needed || !run.is_ready() || run.stop_asked {
            return None;
        }
        let awaited = |prompt: &&OpenPrompt| self.awaited.contains(&prompt.uuid);
        self.prompts.iter().find(awaited).map(|prompt| Carried {
            uuid: prompt.uuid,
            seq: prompt.seq,
        })
    }

    /// The line of this prompt cannot be written to the process: those behind it do not wait for it.
    pub(in crate::session) fn forget_awaited(&mut self, prompt: PromptUuid) {
        self.awaited.retain(|awaited| *awaited != prompt);
    }
}
