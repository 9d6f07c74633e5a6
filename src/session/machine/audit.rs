//! Owns what the fold remembers for the audit log: approvals that ended, the calls of tools with their inputs, and which calls
//! have an entry already. The CLI's own denials name only the call.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use memchr::memmem;

use crate::{
    claude::{
        Envelope, answer,
        denials::{CallsEnded, Denial, ToolCall},
    },
    domain::{Approval, ApprovalId, Resolution},
    session::approvals,
};

use super::ended::{EndedApproval, EndedApprovals};

/// Calls whose inputs are kept; of more the newest are.
const CALLS: usize = 64;
/// A larger input is not kept, in bytes: the entry of its denial has no hash.
const MAX_INPUT_BYTES: usize = 256 << 10;
/// Calls of which is kept that they have an entry; when there are more, all are forgotten.
const ENTERED: usize = 4096;
/// Entries that let calls pass and of which the end of the call is awaited; of more the newest.
const PASSED: usize = 256;
/// Calls that hooks put off in one turn and of which the entries are made at its end; of more the newest.
const PUT_OFF: usize = 64;

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
    /// The entries that say of calls that they may run, until they have ended.
    passed: VecDeque<(String, ApprovalId)>,
    /// Calls that hooks put off in this turn, as approvals.
    put_off: VecDeque<(String, Approval)>,
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

    /// A hook of this event denied a call: the entries that let it pass. A denial outweighs what other hooks say before a call.
    pub(super) fn on_hook_denied(&mut self, event: &str, tool_use_id: Option<String>) -> Vec<ApprovalId> {
        let call = tool_use_id.as_deref().filter(|_| answer::is_before_person(event));
        let overruled = call.map(|call| self.take_passed(call)).unwrap_or_default();
        remember(&mut self.denied, tool_use_id);
        overruled
    }

    /// This entry says that a call may run. Whether another hook has denied it already.
    pub(super) fn on_passed(&mut self, event: &str, tool_use_id: Option<String>, id: ApprovalId) -> bool {
        let Some(call) = tool_use_id else {
            return false;
        };
        if answer::is_before_person(event) && self.denied.contains(&call) {
            return true;
        }
        if self.passed.len() == PASSED {
            self.passed.pop_front();
        }
        self.passed.push_back((call, id));
        false
    }

    fn take_passed(&mut self, call: &str) -> Vec<ApprovalId> {
        let (of_it, others) = self
            .passed
            .drain(..)
            .partition::<VecDeque<_>, _>(|(it, _)| it == call);
        self.passed = others;
        of_it.into_iter().map(|(_, id)| id).collect()
    }

    /// A hook puts a call off. Several may: the call is dropped once.
    pub(super) fn on_put_off(&mut self, tool_use_id: String, approval: Approval) {
        if self.put_off.iter().any(|(call, _)| *call == tool_use_id) {
            return;
        }
        if self.put_off.len() == PUT_OFF {
            self.put_off.pop_front();
        }
        self.put_off.push_back((tool_use_id, approval));
    }

    /// A turn ended with this call put off, or with none: the calls that were put off as well, and that the CLI drops; and the
    /// entries that let any of these calls pass.
    pub(super) fn on_turn_deferred(&mut self, named: Option<&str>) -> (Vec<Approval>, Vec<ApprovalId>) {
        let put_off = std::mem::take(&mut self.put_off);
        let Some(named) = named else {
            return Default::default();
        };
        let mut overruled = self.take_passed(named);
        let mut dropped = Vec::new();
        for (call, approval) in put_off {
            if call == named || self.asked.contains(&call) || self.denied.contains(&call) {
                continue;
            }
            overruled.extend(self.take_passed(&call));
            dropped.push(approval);
        }
        (dropped, overruled)
    }

    /// Calls have ended: the entries that let those of them pass that did not run. A call whose approval is open never began:
    /// its entries wait for the end of that.
    pub(super) fn on_user(&mut self, line: &Envelope<'_>, open: &[Arc<Approval>]) -> Vec<ApprovalId> {
        if self.passed.is_empty() && self.put_off.is_empty() {
            return Vec::new();
        }
        let ended = CallsEnded::of_user(line);
        let overruled = ended
            .held
            .iter()
            .flat_map(|call| self.take_passed(call))
            .collect();
        let open: Vec<String> = open.iter().filter_map(|it| approvals::call_of(it)).collect();
        self.passed
            .retain(|(call, _)| !ended.all.contains(call) || open.contains(call));
        self.put_off.retain(|(call, _)| !ended.all.contains(call));
        overruled
    }

    /// A process ended with an approval open: the entries that let its call pass, which never ran.
    pub(super) fn on_abandoned(&mut self, approval: &Approval) -> Vec<ApprovalId> {
        let call = approvals::call_of(approval);
        call.map(|call| self.take_passed(&call)).unwrap_or_default()
    }

    /// The CLI tells that calls did not run: the entries that let them pass.
    pub(super) fn overruled_by(&mut self, line: &Envelope<'_>) -> Vec<ApprovalId> {
        if self.passed.is_empty() {
            return Vec::new();
        }
        let denials = Denial::of_line(line).into_iter().chain(Denial::of_result(line));
        denials
            .flat_map(|denial| self.take_passed(&denial.tool_use_id))
            .collect()
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
