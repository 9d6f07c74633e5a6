//! Owns the memory of approvals that ended, for answers that come too late.

use std::collections::VecDeque;

use crate::domain::{Approval, ApprovalId, Resolution};

/// Ended approvals of a run whose end a late answer is told.
const KEPT: usize = 1024;
/// A larger answer is not kept with them, in bytes.
const MAX_RESPONSE_BYTES: usize = 4 << 10;

/// An approval of this run that ended.
#[derive(Clone, Debug)]
pub(in crate::session) struct EndedApproval {
    pub(in crate::session) id: ApprovalId,
    pub(in crate::session) request_id: String,
    /// How it ended, without an answer that is too large to keep.
    pub(in crate::session) resolution: Resolution,
}

/// The newest of them, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedApprovals(VecDeque<EndedApproval>);

impl EndedApprovals {
    pub(super) fn push(&mut self, approval: &Approval, resolution: &Resolution) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        let response = resolution
            .response
            .clone()
            .filter(|response| response.get().len() <= MAX_RESPONSE_BYTES);
        self.0.push_back(EndedApproval {
            id: approval.id,
            request_id: approval.request_id.clone(),
            resolution: Resolution {
                response,
                ..resolution.clone()
            },
        });
    }

    /// Whether this one was answered.
    pub(super) fn is_answered(&self, id: ApprovalId) -> bool {
        let mut ended = self.0.iter();
        ended.any(|it| it.id == id && it.resolution.state.is_answered())
    }

    /// The newest one of this request.
    pub(super) fn of_request(&self, request_id: &str) -> Option<&EndedApproval> {
        self.0.iter().rev().find(|ended| ended.request_id == request_id)
    }
}
