//! Owns what each line that is written to the CLI does to the state machine.

use serde_json::value::RawValue;

use crate::{
    claude::{ControlResponse, Envelope, answer, scan},
    domain::{ApprovalHow, ApprovalState, Fact, PromptState},
    journal::RecordRef,
    json,
};

use super::{Effect, Machine, Outcome, OwnRequest, PROMPT_START_CHARS, digest};
use crate::session::{
    OpenPrompt, approvals,
    choices::{COMMAND_CHARS, ChoiceRecord, choice_of, is_effort_command, is_named_client},
    covered::Granted,
};

impl Machine {
    pub(super) fn on_client(&mut self, record: &RecordRef<'_>, out: &mut Outcome) {
        let Some(line) = scan(record.data) else {
            return;
        };
        match line.kind.as_deref() {
            Some("user") => self.on_prompt(&line, record, out),
            Some("control_request") => {
                let subtype = line.request_subtype().unwrap_or_default();
                if subtype == "interrupt" {
                    self.turn_is_ending();
                }
                if let Some(request) = line.request
                    && choice_of(&subtype, request, is_named_client(record.by)).is_some()
                {
                    let is_redacted = json::member_bool(request, "redacted") == Some(true);
                    out.effects
                        .push(Effect::Choice(ChoiceRecord::Sent { is_redacted }));
                }
                if let Some(id) = &line.request_id {
                    self.desk.sent(&line, record.by);
                    let own = OwnRequest::read(&line, self.conversation.id);
                    self.own_requests
                        .extend(own.map(|own| (id.clone().into_owned(), own)));
                }
            }
            Some("control_response") => {
                if let Some(said) = ControlResponse::read(&line) {
                    let asked = self.desk.get(&said.request_id).cloned();
                    if let (Some(asked), Some(run)) = (&asked, &self.run)
                        && let Some((call, approval)) =
                            approvals::of_put_off(asked, &said, self.session, run.id)
                    {
                        self.audit.on_put_off(call, approval);
                    }
                    if let (Some(asked), Some(run)) = (asked, &self.run)
                        && let Some(mut entry) =
                            approvals::of_hook(&asked, &said, self.session, run.id, record)
                    {
                        if self.audit.is_decided_for(&said.request_id) {
                            entry.1.how = ApprovalHow::of_answer(&entry.1.by);
                        }
                        let event = asked.about.hook_event().unwrap_or_default();
                        let call = json::member_text(asked.request.request.get(), "tool_use_id");
                        let call = call.filter(|_| answer::decides_call(event));
                        let (id, state) = (entry.0.id, entry.1.state);
                        let updates = entry.1.response.as_ref().filter(|_| entry.1.permissions_updated);
                        let updates = updates.filter(|_| entry.1.state == ApprovalState::Allowed);
                        out.effects
                            .extend(updates.map(|it| Effect::RulesUpdated(record.seq, it.clone())));
                        let ended = self.on_call_decided(asked.about.call(), &entry.1, out);
                        if ended.is_none() {
                            self.log_decision(entry, out);
                        }
                        let id = ended.unwrap_or(id);
                        let overruled = match state {
                            ApprovalState::Denied => self.audit.on_hook_denied(event, call),
                            ApprovalState::Allowed | ApprovalState::Changed => {
                                let is_denied = self.audit.on_passed(event, call, id);
                                is_denied.then_some(id).into_iter().collect()
                            }
                            _ => Vec::new(),
                        };
                        out.facts
                            .extend(overruled.into_iter().map(Fact::ApprovalOverruled));
                    }
                    if self.desk.answer(&said, self.running_turn(), record.at) {
                        out.effects
                            .push(Effect::AskedClosed(said.request_id.clone(), true));
                    }
                    if let Some(approval) = self.take_approval(&said.request_id) {
                        let by = record.by.unwrap_or("daemon");
                        let is_interrupting =
                            |payload: &RawValue| json::member_bool(payload.get(), "interrupt") == Some(true);
                        if matches!(&said.outcome, Ok(Some(payload)) if is_interrupting(payload)) {
                            self.turn_is_ending();
                        }
                        let resolution = approvals::resolution_of(&approval, said, by, record.at);
                        let response = resolution
                            .response
                            .clone()
                            .filter(|_| resolution.permissions_updated);
                        self.close_approval(&approval, resolution, out);
                        let updates = response.clone();
                        out.effects
                            .extend(updates.map(|it| Effect::RulesUpdated(record.seq, it)));
                        let granted = response.and_then(|response| {
                            Granted::by_answer(&approval, response.get(), self.approval_ids())
                        });
                        out.effects.extend(granted.map(Effect::Granted));
                    }
                }
            }
            _ => {}
        }
    }

    /// Somebody asks for the end of the turn.
    fn turn_is_ending(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.is_interrupted = true;
        }
    }

    fn on_prompt(&mut self, line: &Envelope<'_>, record: &RecordRef<'_>, out: &mut Outcome) {
        let Some(uuid) = line.message_uuid() else {
            return;
        };
        let awaited = self.awaited.iter().position(|prompt| *prompt == uuid);
        if let Some(at) = awaited {
            self.awaited.swap_remove(at);
        }
        let known = self.prompts.iter().position(|prompt| prompt.uuid == uuid);
        if self.run.is_none() || (known.is_some() && awaited.is_none()) {
            return;
        }
        if let Some(at) = known {
            self.prompts.remove(at);
        }
        self.prompts.push(OpenPrompt {
            uuid,
            state: PromptState::Sent,
            seq: record.seq,
        });
        out.facts.push(Fact::Prompt {
            uuid,
            state: PromptState::Sent,
            text: awaited.is_none().then(|| line.prompt_start(PROMPT_START_CHARS)),
            seq: record.seq,
            at: record.at,
        });
        if is_effort_command(&line.prompt_start(COMMAND_CHARS)) {
            out.effects.push(Effect::EffortTyped(uuid));
        }
        out.effects.push(Effect::PromptSent {
            uuid,
            seq: record.seq,
            digest: digest(record.data),
        });
    }
}
