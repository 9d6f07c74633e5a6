//! Owns the race for the decision on each approval: the first valid one is written, the others learn of it.

use std::{collections::HashMap, time::Duration};

use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::domain::{ApprovalId, ConnectionId, Resolution};

use super::handle::Reply;

/// How long a process that is ready may take to ask about a call that was put off. It begins with the call, so it asks at once.
pub(super) const ASKED_WITHIN: Duration = Duration::from_secs(30);

/// The caller that waits for a decision.
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
    /// Until when the process that is ready may take to ask about it.
    asked_by: Option<Instant>,
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

    /// Keeps the time that a process has for its question in step with whether it is ready.
    pub(super) fn expect_question(&mut self, is_ready: bool, now: Instant) {
        let is_due = is_ready && self.put_off.is_some();
        self.asked_by = is_due.then(|| self.asked_by.unwrap_or(now + ASKED_WITHIN));
    }

    /// When the process has not asked in time.
    pub(super) fn next(&self) -> Option<Instant> {
        self.asked_by
    }

    /// Takes the decision back about which the process has not asked in time; who waits for it is left.
    pub(super) fn take_unasked(&mut self, now: Instant) -> Option<ApprovalId> {
        self.asked_by.take_if(|at| *at <= now)?;
        self.put_off.take().map(|put_off| put_off.id)
    }

    /// Takes all who wait, the one that decided first.
    pub(super) fn take(&mut self, id: ApprovalId) -> Vec<DecisionReply> {
        self.put_off.take_if(|put_off| put_off.id == id);
        self.waiting.remove(&id).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::domain::{Seq, SessionId};

    #[test]
    fn a_decision_that_no_process_asks_for_is_given_back() {
        let id = ApprovalId::of_record(SessionId::new(), Seq::new(1));
        let mut deciding = Deciding::default();
        let now = Instant::now();
        let (reply, _asker) = oneshot::channel();
        let decision = PutOff {
            id,
            request_id: "deferred:x".to_owned(),
            by: "rest".to_owned(),
            output: RawValue::NULL.to_owned(),
        };
        deciding.put_off(decision, DecisionReply::Caller(reply));
        // A start may take its time, and wait for room.
        deciding.expect_question(false, now);
        assert_eq!(deciding.next(), None);
        deciding.expect_question(true, now);
        deciding.expect_question(true, now + ASKED_WITHIN / 2);
        assert_eq!(deciding.next(), Some(now + ASKED_WITHIN));
        assert_eq!(deciding.take_unasked(now + ASKED_WITHIN / 2), None);
        assert_eq!(deciding.take_unasked(now + ASKED_WITHIN), Some(id));
        assert!(deciding.waits_for_process().is_none());
        assert_eq!(deciding.take(id).len(), 1, "who waits is told");
        assert!(deciding.is_empty(), "it can be decided again");
    }
}
