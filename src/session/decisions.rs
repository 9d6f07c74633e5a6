//! Owns the race for the decision on each approval: the first valid one is written, the others learn of it.

use std::collections::{HashMap, VecDeque};

use crate::domain::{Approval, ApprovalId, ConnectionId, Resolution};

use super::handle::Reply;

/// Who decided.
#[derive(Debug)]
pub(super) enum DecisionReply {
    Caller(Reply<Resolution>),
    Client {
        connection: ConnectionId,
        request_id: String,
    },
    /// A rule, which waits for nothing.
    Rule,
}

/// Ended approvals that are remembered, for those who answer too late.
const ENDED: usize = 256;
/// A larger answer is not remembered with them, in bytes.
const MAX_RESPONSE_BYTES: usize = 16 << 10;

/// An approval that ended.
#[derive(Debug)]
pub(super) struct Ended {
    request_id: String,
    pub(super) id: ApprovalId,
    pub(super) resolution: Resolution,
}

/// Decisions on their way to the CLI; the first of each list is the one that was written. And those that ended lately.
#[derive(Debug, Default)]
pub(super) struct Deciding {
    waiting: HashMap<ApprovalId, Vec<DecisionReply>>,
    ended: VecDeque<Ended>,
}

impl Deciding {
    /// Whether a decision is on its way.
    pub(super) fn is_decided(&self, id: ApprovalId) -> bool {
        self.waiting.contains_key(&id)
    }

    /// Adds who waits for the outcome; the first one decided.
    pub(super) fn add(&mut self, id: ApprovalId, reply: DecisionReply) {
        self.waiting.entry(id).or_default().push(reply);
    }

    /// Remembers how an approval ended.
    pub(super) fn keep(&mut self, approval: &Approval, resolution: &Resolution) {
        if self.ended.len() == ENDED {
            self.ended.pop_front();
        }
        let response = resolution
            .response
            .clone()
            .filter(|raw| raw.get().len() <= MAX_RESPONSE_BYTES);
        self.ended.push_back(Ended {
            request_id: approval.request_id.clone(),
            id: approval.id,
            resolution: Resolution {
                response,
                ..resolution.clone()
            },
        });
    }

    /// How the last approval with this request id ended.
    pub(super) fn ended(&self, request_id: &str) -> Option<&Ended> {
        self.ended
            .iter()
            .rev()
            .find(|ended| ended.request_id == request_id)
    }

    /// Takes all who wait, the one that decided first.
    pub(super) fn take(&mut self, id: ApprovalId) -> Vec<DecisionReply> {
        self.waiting.remove(&id).unwrap_or_default()
    }
}
