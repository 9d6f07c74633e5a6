//! Owns how the fold keeps the approvals that are pending: what a rule says of them, and their end.

use std::sync::Arc;

use super::{Effect, Machine, Outcome};
use crate::domain::{Approval, ApprovalId, Fact, Resolution, Timestamp};

impl Machine {
    pub(super) fn on_ruled(
        &mut self,
        id: ApprovalId,
        rule: Option<String>,
        deadline: Option<Timestamp>,
        out: &mut Outcome,
    ) {
        let pending = self.approvals.iter_mut().find(|approval| approval.id == id);
        let before = pending
            .as_ref()
            .map(|approval| (approval.rule.clone(), approval.deadline));
        if before.unwrap_or_default() == (rule.clone(), deadline) {
            return;
        }
        if let Some(approval) = pending {
            let approval = Arc::make_mut(approval);
            approval.rule.clone_from(&rule);
            approval.deadline = deadline;
        }
        out.facts.push(Fact::ApprovalRuled { id, rule, deadline });
    }

    pub(super) fn take_approval(&mut self, request_id: &str) -> Option<Arc<Approval>> {
        let at = self
            .approvals
            .iter()
            .position(|approval| approval.request_id == request_id)?;
        Some(self.approvals.remove(at))
    }

    /// Enters a decision into the log that is no approval's end.
    pub(super) fn log_decision(&self, (approval, resolution): (Approval, Resolution), out: &mut Outcome) {
        let id = approval.id;
        out.facts.push(Fact::ApprovalOpened(Box::new(approval)));
        out.facts.push(Fact::ApprovalClosed { id, resolution });
    }

    pub(super) fn open_approvals(&self) -> Vec<ApprovalId> {
        self.approvals.iter().map(|approval| approval.id).collect()
    }

    pub(super) fn close_approval(&mut self, approval: &Approval, resolution: Resolution, out: &mut Outcome) {
        self.unannounced_ends
            .insert(approval.id, (resolution.state, resolution.by.clone()));
        self.audit.ended(approval, &resolution);
        out.counted.approval_ended(approval.kind, resolution.how);
        out.facts.push(Fact::ApprovalClosed {
            id: approval.id,
            resolution: resolution.clone(),
        });
        out.effects
            .push(Effect::ApprovalClosed(approval.id, Box::new(resolution)));
    }
}
