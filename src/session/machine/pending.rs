//! Owns how the fold keeps the approvals that are pending: what a rule says of them, and their end.

use std::sync::Arc;

use super::{Effect, Machine, Outcome};
use crate::{
    claude::facts::DeferredCall,
    domain::{Approval, ApprovalId, ApprovalKind, ApprovalState, Fact, Resolution, RunId, Timestamp},
    journal::RecordRef,
    session::{approvals, large, view::Waiting},
};

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
        out.counted.approval_ended(approval.kind, &resolution);
        out.facts.push(Fact::ApprovalOpened(Box::new(approval)));
        out.facts.push(Fact::ApprovalClosed { id, resolution });
    }

    /// The CLI asks for something that needs a person.
    pub(super) fn open_approval(&mut self, approval: Approval, out: &mut Outcome) {
        let held = large::held(&approval, large::room(&self.approvals));
        self.approvals.push(Arc::new(held));
        out.facts.push(Fact::ApprovalOpened(Box::new(approval)));
    }

    pub(super) fn approval_ids(&self) -> Vec<ApprovalId> {
        self.approvals.iter().map(|approval| approval.id).collect()
    }

    /// The approvals that people and rules see, oldest first. The others open once these are closed.
    pub(in crate::session) fn open_approvals(&self) -> &[Arc<Approval>] {
        let open = self.approvals.len().min(large::MOST_OPEN);
        self.approvals.get(..open).unwrap_or_default()
    }

    pub(super) fn waiting_approvals(&self) -> Waiting {
        let first = self.approvals.get(large::MOST_OPEN);
        Waiting {
            count: self.approvals.len().saturating_sub(large::MOST_OPEN),
            from: first.map(|approval| approval.seq),
        }
    }

    pub(super) fn close_approval(&mut self, approval: &Approval, resolution: Resolution, out: &mut Outcome) {
        self.unannounced_ends
            .insert(approval.id, (resolution.state, resolution.by.clone()));
        self.audit.ended(approval, &resolution);
        out.counted.approval_ended(approval.kind, &resolution);
        out.facts.push(Fact::ApprovalClosed {
            id: approval.id,
            resolution: resolution.clone(),
        });
        out.effects
            .push(Effect::ApprovalClosed(approval.id, Box::new(resolution)));
    }

    /// Whether somebody waits for a call that was put off.
    pub(in crate::session) fn has_deferred(&self) -> bool {
        self.approvals.iter().any(|it| it.kind == ApprovalKind::Deferred)
    }

    /// Whether the process waits for an answer to what it asked.
    pub(super) fn waits_for_answer(&self) -> bool {
        self.approvals.iter().any(|it| it.kind != ApprovalKind::Deferred)
    }

    /// A turn ended, with a call that was put off or without one. A process never comes back to a call that it put off itself:
    /// what it does next drops the call. The next process begins with it, so at the end of that turn it is settled.
    pub(super) fn on_turn_deferred(
        &mut self,
        call: Option<&DeferredCall>,
        run: RunId,
        record: &RecordRef<'_>,
        out: &mut Outcome,
    ) {
        // It comes back to one call only, and says nothing of the others that hooks put off in the same turn.
        let (dropped, overruled) = self.audit.on_turn_deferred(call.map(|call| call.id.as_str()));
        for approval in dropped {
            self.log_decision((approval, approvals::withdrawn(record.at)), out);
        }
        out.facts
            .extend(overruled.into_iter().map(Fact::ApprovalOverruled));
        let id = call.map(|call| approvals::deferred_id(&call.id));
        let is_it = |approval: &Approval| Some(&approval.request_id) == id.as_ref();
        self.withdraw_deferred(|approval| !is_it(approval), record.at, out);
        let Some(call) = call else { return };
        if let Some(known) = self.approvals.iter_mut().find(|approval| is_it(approval)) {
            Arc::make_mut(known).run_id = run;
            return;
        }
        let approval = approvals::of_deferred(call, self.session, run, record);
        self.open_approval(approval, out);
    }

    /// Ends the approvals of calls that were put off, and that nobody can decide any more.
    pub(super) fn withdraw_deferred(
        &mut self,
        which: impl Fn(&Approval) -> bool,
        at: Timestamp,
        out: &mut Outcome,
    ) {
        let is_over = |it: &mut Arc<Approval>| it.kind == ApprovalKind::Deferred && which(it);
        let over: Vec<_> = self.approvals.extract_if(.., is_over).collect();
        for approval in over {
            self.close_approval(&approval, approvals::withdrawn(at), out);
        }
    }

    /// A hook was answered about a call, as a person or the hook itself decided: the approval whose wait that ends, of a call
    /// that was put off.
    pub(super) fn on_call_decided(
        &mut self,
        call: Option<&str>,
        decided: &Resolution,
        out: &mut Outcome,
    ) -> Option<ApprovalId> {
        if !matches!(decided.state, ApprovalState::Allowed | ApprovalState::Denied) {
            return None;
        }
        let approval = self.take_approval(&approvals::deferred_id(call?))?;
        self.close_approval(&approval, decided.clone(), out);
        Some(approval.id)
    }
}
