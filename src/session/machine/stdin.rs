//! Owns what each line that is written to the CLI does to the state machine.

use crate::{
    claude::{ControlResponse, Envelope, glance, scan},
    domain::{Fact, PromptState},
    journal::RecordRef,
};

use super::{Effect, Machine, Outcome, OwnRequest, PROMPT_START_CHARS, digest};
use crate::session::{OpenPrompt, approvals};

impl Machine {
    pub(super) fn on_client(&mut self, record: &RecordRef<'_>, out: &mut Outcome) {
        let Some(line) = scan(record.data) else {
            return;
        };
        match line.kind.as_deref() {
            Some("user") => self.on_prompt(&line, record, out),
            Some("control_request") => {
                if let Some(id) = &line.request_id {
                    self.desk.sent(&line, record.by);
                    let own = OwnRequest::read(&line, self.cli_session);
                    self.own_requests
                        .extend(own.map(|own| (id.clone().into_owned(), own)));
                }
            }
            Some("control_response") => {
                if let Some(answer) = ControlResponse::read(&line) {
                    if self.desk.answer(&answer, self.running_turn(), record.at) {
                        out.effects
                            .push(Effect::AskedClosed(answer.request_id.clone(), true));
                    }
                    if let Some(approval) = self.take_approval(&answer.request_id) {
                        let by = record.by.unwrap_or("daemon");
                        let resolution = approvals::resolution_of(&approval, answer, by, record.at);
                        self.close_approval(&approval, resolution, out);
                    }
                }
            }
            _ => {}
        }
    }

    fn on_prompt(&mut self, line: &Envelope<'_>, record: &RecordRef<'_>, out: &mut Outcome) {
        let Some(uuid) = line.message_uuid() else {
            return;
        };
        if self.run.is_none() || self.prompts.iter().any(|prompt| prompt.uuid == uuid) {
            return;
        }
        self.prompts.push(OpenPrompt {
            uuid,
            state: PromptState::Sent,
            seq: record.seq,
        });
        out.facts.push(Fact::Prompt {
            uuid,
            state: PromptState::Sent,
            text: Some(glance::prompt_start(line, PROMPT_START_CHARS)),
            seq: record.seq,
            at: record.at,
        });
        out.effects.push(Effect::PromptSent {
            uuid,
            seq: record.seq,
            digest: digest(record.data),
        });
    }
}
