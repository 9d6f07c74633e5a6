//! Owns the way of facts from a session to the store: in order, and never waited for.

use tokio::sync::mpsc;

use crate::domain::{Fact, Projection, Seq};

use super::actor::Actor;

impl Actor {
    pub(super) fn send_facts(&mut self, seq: Seq, facts: Vec<Fact>) {
        if seq <= self.projected || (facts.is_empty() && self.machine.has_run()) {
            return;
        }
        self.projected = seq;
        let projection = match self.unsent_facts.take() {
            Some(mut earlier) => {
                earlier.seq = seq;
                earlier.facts.extend(facts);
                earlier
            }
            None => Projection {
                session: self.id,
                seq,
                facts,
            },
        };
        self.unsent_facts = Some(projection);
        if self.unclaimed.is_none() {
            self.offer_facts();
        }
    }

    /// A store that is behind must not hold up the session: the facts wait here until it has room.
    pub(super) fn offer_facts(&mut self) {
        let Some(projection) = self.unsent_facts.take() else {
            return;
        };
        if let Err(mpsc::error::TrySendError::Full(back)) = self.projections.try_send(projection) {
            self.unsent_facts = Some(back);
        }
    }

    pub(super) async fn flush_facts(&mut self) {
        if self.unclaimed.is_some() {
            // The store does not know the session.
            return;
        }
        if let Some(projection) = self.unsent_facts.take() {
            // The projector only ends with the daemon; the journal keeps the facts for the next one.
            self.projections.send(projection).await.ok();
        }
    }
}
