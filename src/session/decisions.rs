//! Owns the race for the decision on each approval: the first valid one is written, the others learn of it.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::domain::{ApprovalId, ConnectionId, Resolution};

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
    /// The one who decided was told that the keeper does not answer.
    Left,
}

/// Decisions on their way to the CLI; the first of each list is the one that was written.
#[derive(Debug, Default)]
pub(super) struct Deciding {
    waiting: HashMap<ApprovalId, Vec<DecisionReply>>,
    /// The decision about a call that was put off, until the next process asks about it.
    put_off: Option<PutOff>,
}

/// A decision that waits for a process which asks about the call.
#[derive(Debug)]
pub(super) struct PutOff {
    pub(super) id: ApprovalId,
    /// The approval's request id.
    pub(super) request_id: String,
    pub(super) by: String,
    /// The hook's answer.
    pub(super) output: Box<RawValue>,
}

impl Deciding {
    /// Whether none is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a decision is on its way.
    pub(super) fn is_decided(&self, id: ApprovalId) -> bool {
        self.waiting.contains_key(&id)
    }

    /// Adds who waits for the outcome; the first one decided.
    pub(super) fn add(&mut self, id: ApprovalId, reply: DecisionReply) {
        self.waiting.entry(id).or_default().push(reply);
    }

    /// Takes all who wait. The decisions stay on their way.
    pub(super) fn take_waiting(&mut self) -> Vec<(ApprovalId, DecisionReply)> {
        let mut taken = Vec::new();
        for (id, replies) in &mut self.waiting {
            for reply in replies {
                if !matches!(reply, DecisionReply::Rule | DecisionReply::Left) {
                    taken.push((*id, std::mem::replace(reply, DecisionReply::Left)));
                }
            }
        }
        taken
    }

    /// Keeps a decision until a process asks.
    pub(super) fn put_off(&mut self, decision: PutOff, reply: DecisionReply) {
        self.add(decision.id, reply);
        self.put_off = Some(decision);
    }

    /// The decision that waits for a process.
    pub(super) fn waits_for_process(&self) -> Option<&PutOff> {
        self.put_off.as_ref()
    }

    /// Takes all who wait, the one that decided first.
    pub(super) fn take(&mut self, id: ApprovalId) -> Vec<DecisionReply> {
        self.put_off.take_if(|put_off| put_off.id == id);
        self.waiting.remove(&id).unwrap_or_default()
    }
}
