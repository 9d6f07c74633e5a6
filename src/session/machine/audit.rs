//! Owns what the fold remembers for the audit log: approvals that ended, the calls of tools with their inputs, and which calls
//! have an entry already. The CLI's own denials name only the call.

use std::collections::{HashSet, VecDeque};

use memchr::memmem;

use crate::{
    claude::{
        Envelope,
        denials::{Denial, ToolCall},
    },
    domain::{Approval, ApprovalId, Resolution},
};

use super::ended::{EndedApproval, EndedApprovals};

/// Calls whose inputs are kept; of more the newest are.
const CALLS: usize = 64;
/// A larger input is not kept, in bytes: the entry of its denial has no hash.
const MAX_INPUT_BYTES: usize = 256 << 10;
/// Calls of which is kept that they have an entry; when there are more, all are forgotten.
const ENTERED: usize = 4096;

/// The memory of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    ended: EndedApprovals,
    calls: VecDeque<ToolCall>,
    /// Calls that somebody was asked about.
    asked: HashSet<String>,
    /// Calls whose denial has an entry.
    denied: HashSet<String>,
    /// The question to a hook whose answer is that of the one who decided about the call in its place.
    decided: Option<String>,
}

impl Audit {
    /// An approval ended.
    pub(super) fn ended(&mut self, approval: &Approval, resolution: &Resolution) {
        self.ended.push(approval, resolution);
    }

    /// Whether this approval was answered.
    pub(super) fn is_answered(&self, id: ApprovalId) -> bool {
        self.ended.is_answered(id)
    }

    /// The newest ended approval of this request.
    pub(super) fn ended_of(&self, request_id: &str) -> Option<&EndedApproval> {
        self.ended.of_request(request_id)
    }

    /// The model calls tools.
    pub(super) fn on_assistant(&mut self, line: &Envelope<'_>) {
        if memmem::find(line.line.as_bytes(), b"\"tool_use\"").is_none() {
            return;
        }
        for call in ToolCall::of_assistant(line) {
            if call.input.get().len() > MAX_INPUT_BYTES {
                continue;
            }
            if self.calls.len() == CALLS {
                self.calls.pop_front();
            }
            self.calls.push_back(call);
        }
    }

    /// Somebody is asked about a call: an approval says what becomes of it.
    pub(super) fn on_asked(&mut self, tool_use_id: Option<String>) {
        remember(&mut self.asked, tool_use_id);
    }

    /// This question to a hook is answered in its place.
    pub(super) fn on_call_decided(&mut self, request_id: String) {
        self.decided = Some(request_id);
    }

    /// Whether the answer to this question of a hook is not the hook's own.
    pub(super) fn is_decided_for(&mut self, request_id: &str) -> bool {
        self.decided.take_if(|it| it == request_id).is_some()
    }

    /// A hook denied a call.
    pub(super) fn on_hook_denied(&mut self, tool_use_id: Option<String>) {
        remember(&mut self.denied, tool_use_id);
    }

    /// The CLI tells that it denied a call. `None` when that has an entry.
    pub(super) fn on_denied(&mut self, line: &Envelope<'_>) -> Option<Denial> {
        let denial = Denial::of_line(line)?;
        if self.denied.contains(&denial.tool_use_id) {
            return None;
        }
        remember(&mut self.denied, Some(denial.tool_use_id.clone()));
        let known = self.calls.iter().find(|call| call.id == denial.tool_use_id);
        let input = known.map(|call| call.input.clone());
        Some(match input {
            Some(input) if denial.input.is_none() => denial.with_input(input),
            _ => denial,
        })
    }

    /// A turn ended: the denials that it lists and that have no entry.
    pub(super) fn on_result(&mut self, line: &Envelope<'_>) -> Vec<Denial> {
        self.calls.clear();
        let mut denials = Denial::of_result(line);
        denials.retain(|denial| {
            let is_new =
                !self.denied.contains(&denial.tool_use_id) && !self.asked.contains(&denial.tool_use_id);
            if is_new {
                remember(&mut self.denied, Some(denial.tool_use_id.clone()));
            }
            is_new
        });
        denials
    }
}

fn remember(calls: &mut HashSet<String>, tool_use_id: Option<String>) {
    if calls.len() >= ENTERED {
        calls.clear();
    }
    calls.extend(tool_use_id);
}
