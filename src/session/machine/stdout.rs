//! Owns what each line of the CLI does to the state machine.

use serde_json::value::RawValue;

use crate::{
    claude::{
        ControlRequest, ControlResponse, Envelope, catalogue,
        denials::Denial,
        facts::{self, InitFacts, Lifecycle, LifecycleState, ReadyFacts, ResultFacts},
        last_line, rate_limit, scan, tasks,
    },
    domain::{Chosen, Fact, LastLine, PromptState, TodoChange, TurnEnd},
    journal::RecordRef,
    json,
    metrics::UnknownKind,
};

use super::{Effect, INITIALIZE_ID, Machine, Outcome, own::OwnRequest, prompt_fact};
use crate::session::{
    OpenPrompt, approvals,
    exit::{SaidError, Unfit},
    money::Reported,
    turns,
};

impl Machine {
    pub(super) fn on_cli(&mut self, record: &RecordRef<'_>, out: &mut Outcome) {
        let Some(line) = scan(record.data) else {
            return;
        };
        if line.kind.as_deref() != Some("keep_alive") {
            self.heard_at = Some(record.at);
        }
        if self.is_elsewhere() {
            return;
        }
        if let Some(run) = &mut self.run {
            run.on_activity(&line, record, &mut out.counted);
        }
        match line.kind.as_deref() {
            Some("system") => self.on_system(&line, record, out),
            Some("assistant") => {
                self.open_turn(record);
                if !facts::is_synthetic(&line) {
                    self.on_output();
                }
                if let Some((kind, text, tool)) = last_line::of(&line) {
                    let (seq, at) = (record.seq, record.at);
                    let last = LastLine {
                        kind,
                        text,
                        tool,
                        seq,
                        at,
                    };
                    out.facts.push(Fact::LastLine(Box::new(last)));
                }
                self.calls.on_assistant(&line);
                self.audit.on_assistant(&line);
                self.timers.on_assistant(&line);
                self.unasked.on_assistant(&line, self.permission_mode.as_deref());
            }
            Some("stream_event") => {
                self.open_turn(record);
                self.on_output();
            }
            Some("user") => {
                let changes = self.calls.on_user(&line).into_iter();
                out.facts.extend(changes.map(|change| todos(change, record)));
                self.unasked.on_user(&line);
                let overruled = self.audit.on_user(&line, &self.approvals).into_iter();
                out.facts.extend(overruled.map(Fact::ApprovalOverruled));
            }
            Some("result") => self.on_result(&line, record, out),
            Some("command_lifecycle") => self.on_lifecycle(&line, record, out),
            Some("rate_limit_event") => {
                if let Some(limit) = rate_limit::read(&line, record.seq, record.at) {
                    out.counted.rate_limit(&limit);
                    out.facts.push(Fact::RateLimit(Box::new(limit)));
                }
            }
            Some("control_request") => self.on_asked(&line, record, out),
            Some("control_response") => self.on_answer(&line, record, out),
            Some("control_cancel_request") => self.on_cancel(&line, record, out),
            Some("conversation_reset") => {
                self.ledger.reset();
                self.on_conversation_left(record.at, out);
                out.facts.push(todos(TodoChange::Clear, record));
            }
            Some(kind) if catalogue::is_known_message(kind) => {}
            kind => out
                .counted
                .unknown(UnknownKind::Message, kind.unwrap_or_default()),
        }
    }

    fn on_cancel(&mut self, line: &Envelope<'_>, record: &RecordRef<'_>, out: &mut Outcome) {
        let Some(id) = facts::cancelled_request(line) else {
            return;
        };
        if self.desk.withdraw(&id) {
            out.effects.push(Effect::AskedClosed(id.clone(), false));
        }
        if let Some(approval) = self.take_approval(&id) {
            self.close_approval(&approval, approvals::withdrawn(record.at), out);
        }
    }

    fn on_system(&mut self, line: &Envelope<'_>, record: &RecordRef<'_>, out: &mut Outcome) {
        let subtype = line.subtype.as_deref().unwrap_or_default();
        if !catalogue::is_known_system(subtype) {
            out.counted.unknown(UnknownKind::System, subtype);
        }
        if let Some(init) = InitFacts::read(line) {
            self.check_id(init.session_id, out);
            if self.is_elsewhere() {
                return;
            }
            if let Some(id) = init.session_id {
                self.on_reported_id(id, record.at, out);
            }
            self.unasked.on_init(init.cwd);
            self.set_model(init.model, out);
            self.set_permission_mode(init.permission_mode, out);
            if init.claude_code_version.is_some() {
                self.cli_version = init.claude_code_version;
            }
            self.open_turn(record);
        } else if let Some(tasks) = facts::background_tasks(line) {
            self.background_tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
            self.offers.tasks = Some(record.seq);
            self.used_at = Some(record.at);
        } else if let Some(news) = tasks::read(line) {
            let (seq, at) = (record.seq, record.at);
            out.facts.extend(self.run_id().map(|run| Fact::Task {
                news: Box::new(news),
                run,
                seq,
                at,
            }));
        } else if line.is_system("commands_changed") {
            self.offers.commands = Some(record.seq);
        } else if facts::is_prompt_blocked(line) {
            self.open_turn(record);
            if let Some(turn) = &mut self.turn {
                turn.is_blocked = true;
            }
        } else if line.is_system("compact_boundary") {
            self.conversation.on_changed();
        } else if let Some(state) = facts::session_state(line) {
            // The CLI's own word that nothing runs. A prompt that it had begun and never closed is done.
            if state == "idle" && self.turn.is_none() {
                let begun = |prompt: &OpenPrompt| prompt.state == PromptState::Started;
                let done = self.prompts.iter().filter(|prompt| begun(prompt));
                let dropped =
                    |prompt: &OpenPrompt| Effect::PromptDropped(prompt.uuid, PromptState::Completed);
                out.effects.extend(done.map(dropped));
                self.close_prompts(begun, record.at, out);
            }
        } else if let Some(denial) = self.audit.on_denied(line) {
            self.overrule(line, out);
            self.enter_denials(vec![denial], record, out);
        } else {
            self.set_permission_mode(facts::status_permission_mode(line), out);
        }
    }

    /// Calls that the CLI says to have denied did not run, although a hook let them pass.
    fn overrule(&mut self, line: &Envelope<'_>, out: &mut Outcome) {
        let overruled = self.audit.overruled_by(line).into_iter();
        out.facts.extend(overruled.map(Fact::ApprovalOverruled));
    }

    /// Denials of the CLI itself are in the log like those of approvals.
    fn enter_denials(&self, denials: Vec<Denial>, record: &RecordRef<'_>, out: &mut Outcome) {
        let Some(run) = &self.run else {
            return;
        };
        for (place, denial) in denials.into_iter().enumerate() {
            let entry = approvals::of_denial(denial, self.session, run.id, record, place);
            self.log_decision(entry, out);
        }
    }

    fn on_lifecycle(&mut self, line: &Envelope<'_>, record: &RecordRef<'_>, out: &mut Outcome) {
        let Some(lifecycle) = Lifecycle::read(line) else {
            return;
        };
        let state = match lifecycle.state {
            LifecycleState::Queued => PromptState::Queued,
            LifecycleState::Started => PromptState::Started,
            // The turn that answers it closes it.
            LifecycleState::Completed if self.turn.is_some() => return,
            LifecycleState::Completed => PromptState::Completed,
            LifecycleState::Cancelled => PromptState::Cancelled,
            LifecycleState::Other(_) => return,
        };
        if state == PromptState::Started {
            self.open_turn(record);
            // A prompt that waited in the process which put a call off: with it that process drops the call.
            let run = self.run_id();
            self.withdraw_deferred(|it| Some(it.run_id) == run, record.at, out);
        }
        let Some(at) = self
            .prompts
            .iter()
            .position(|prompt| prompt.uuid == lifecycle.command_uuid && prompt.state != state)
        else {
            return;
        };
        self.prompts[at].state = state;
        prompt_fact(&self.prompts[at], state, record.at, out);
        if state.is_final() {
            let prompt = self.prompts.remove(at);
            out.effects.push(Effect::PromptDropped(prompt.uuid, state));
        }
    }

    fn on_result(&mut self, line: &Envelope<'_>, record: &RecordRef<'_>, out: &mut Outcome) {
        let (Some(facts), Some(run)) = (ResultFacts::read(line), &mut self.run) else {
            return;
        };
        let error = SaidError::read(&facts);
        if !run.ready && error.is_some() && !run.has_worked {
            // A start that failed reports itself as a `result` (recording 26-resume-missing).
            run.said_error = error;
            self.turn = None;
            return;
        }
        let (run_id, is_stopping) = (run.id, run.stop_asked);
        let reported = turns::reported(&facts);
        if self.is_stray(&facts, &reported) {
            out.effects.push(Effect::StrayResult(record.seq));
            return;
        }
        self.open_turn(record);
        let Some(mut turn) = self.turn.take() else {
            return;
        };
        let reason = facts.terminal_reason.as_deref().unwrap_or_default();
        // A stop aborts a turn as well.
        turn.is_interrupted |= reason.starts_with("aborted") && !is_stopping;
        self.on_said(error, out);
        self.desk.end_turn();
        self.calls.clear();
        self.overrule(line, out);
        let denials = self.audit.on_result(line);
        self.enter_denials(denials, record, out);
        let answered = turns::answered(&facts, &self.prompts);
        let money = self.ledger.book(&reported);
        let end = turns::ended(turn, run_id, facts, answered, money, record);
        if let Some(run) = &mut self.run {
            run.is_interrupted = end.outcome == TurnEnd::INTERRUPTED;
        }
        self.turns = end.number;
        self.used_at = Some(record.at);
        if let Some(cli_session) = self.conversation.id {
            let total = self.ledger.totals().clone();
            out.facts.push(Fact::CliTotal { cli_session, total });
        }
        self.close_prompts(|prompt| end.prompts.contains(&prompt.uuid), record.at, out);
        out.facts.push(Fact::TurnEnded(Box::new(end.clone())));
        let call = facts::deferred_call(line);
        self.on_turn_deferred(call.as_ref(), run_id, record, out);
        let raw = RawValue::from_string(String::from_utf8_lossy(record.data).into_owned()).ok();
        out.effects.push(Effect::TurnEnded(Box::new(end), raw));
    }

    /// Some versions of the CLI print a second `result` behind the one that ended the turn. It is no turn of its own, and it
    /// does not end the turn of the next prompt, which may have been written in between.
    fn is_stray(&self, facts: &ResultFacts<'_>, reported: &Reported) -> bool {
        self.turn.is_none()
            && facts.num_turns == Some(0)
            && !facts.user_message_uuids.iter().any(|uuid| self.has_prompt(*uuid))
            && self.ledger.adds_nothing(reported)
    }

    fn on_asked(&mut self, line: &Envelope<'_>, record: &RecordRef<'_>, out: &mut Outcome) {
        let (Some(request), Some(run)) = (ControlRequest::read(line), &self.run) else {
            return;
        };
        self.unasked.on_request(&request.subtype);
        if !catalogue::is_known_request_of_cli(&request.subtype) {
            out.counted.unknown(UnknownKind::ControlRequest, &request.subtype);
        }
        if let Some(approval) = approvals::from_request(&request, self.session, run.id, record) {
            // The hook that put a call off has a person asked about it now.
            let call = json::member_text(request.request.get(), "tool_use_id");
            let put_off = call.as_deref().map(approvals::deferred_id);
            self.withdraw_deferred(|it| Some(&it.request_id) == put_off.as_ref(), record.at, out);
            self.audit.on_asked(call);
            self.open_approval(approval, out);
        } else {
            let over = self.desk.ask(request, record).into_iter();
            out.effects.extend(over.map(|id| Effect::AskedClosed(id, false)));
        }
    }

    fn on_answer(&mut self, line: &Envelope<'_>, record: &RecordRef<'_>, out: &mut Outcome) {
        let Some(answer) = ControlResponse::read(line) else {
            return;
        };
        let asked = self.own_requests.remove(&answer.request_id);
        self.desk
            .settled(&answer.request_id, answer.outcome.is_ok(), record.seq);
        if let Some(run) = &mut self.run {
            run.restore.answered(&answer);
        }
        if let Ok(payload) = &answer.outcome {
            self.offers.see(asked.as_ref(), record.seq);
            let payload = payload.as_deref().map_or("{}", RawValue::get);
            match asked {
                Some(OwnRequest::Initialize) if answer.request_id == INITIALIZE_ID => {
                    self.on_ready(payload, record, out);
                }
                Some(OwnRequest::SetMaxThinkingTokens(chosen)) => {
                    out.facts.push(Fact::Chosen(Chosen::MaxThinkingTokens(chosen)));
                }
                Some(OwnRequest::SetModel(chosen)) => {
                    out.facts.push(Fact::Chosen(Chosen::Model(chosen)));
                    self.set_model(json::member_text(payload, "model"), out);
                }
                Some(OwnRequest::SetPermissionMode) => {
                    out.facts.push(Fact::Chosen(Chosen::PermissionMode));
                    self.set_permission_mode(json::member_text(payload, "mode"), out);
                }
                Some(OwnRequest::RenameSession(title)) => out.facts.push(Fact::Renamed(title)),
                Some(
                    OwnRequest::Initialize
                    | OwnRequest::ReloadPlugins
                    | OwnRequest::ListModels
                    | OwnRequest::Restore,
                )
                | None => {}
            }
        } else if let (Err(error), INITIALIZE_ID) = (&answer.outcome, &*answer.request_id)
            && let Some(run) = self.run.as_mut().filter(|run| !run.ready)
        {
            run.unfit = Some(Unfit::Initialize(error.error.clone()));
        }
        if self
            .run
            .as_ref()
            .is_some_and(|run| run.is_ready() && run.unfit.is_none())
        {
            // The wake, if it was one, has come to its end.
            self.parked = None;
        }
        out.effects.push(Effect::ControlAnswered(answer));
    }

    fn on_ready(&mut self, payload: &str, record: &RecordRef<'_>, out: &mut Outcome) {
        let Some(run) = self.run.as_mut().filter(|run| !run.ready) else {
            return;
        };
        run.ready = true;
        run.ready_at = Some(record.at);
        self.used_at = Some(record.at);
        let ready = ReadyFacts::read(payload).unwrap_or_default();
        run.unfit = refused_mode(run.asked_mode.as_deref(), ready.permission_mode.as_deref());
        out.facts.push(Fact::RunReady {
            id: run.id,
            cli_version: ready.claude_code_version.clone(),
            at: record.at,
        });
        let mode_fits = run.unfit.is_none();
        if ready.claude_code_version.is_some() {
            self.cli_version = ready.claude_code_version;
        }
        if mode_fits {
            self.set_permission_mode(ready.permission_mode, out);
        }
        self.on_conversation_found();
    }
}

fn todos(change: TodoChange, record: &RecordRef<'_>) -> Fact {
    Fact::Todos {
        change: Box::new(change),
        seq: record.seq,
        at: record.at,
    }
}

/// A process that runs in another permission mode than it was asked to is not what its owner wanted. Names both.
fn refused_mode(asked: Option<&str>, runs: Option<&str>) -> Option<Unfit> {
    // The CLI has two names for its default.
    let same = |mode: &str| {
        if mode == "manual" {
            "default".to_owned()
        } else {
            mode.to_owned()
        }
    };
    let (asked, runs) = (same(asked?), same(runs?));
    let detail = || {
        format!(
            "the CLI runs in permission mode {runs}, not in {asked}; once its settings, its model and its account allow \
             {asked}, a resume works"
        )
    };
    (asked != runs).then(|| Unfit::Mode(detail()))
}
