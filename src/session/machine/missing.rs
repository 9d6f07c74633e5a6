//! Owns what the fold makes of records that are missing: what they said is not known, and a session must have a way out all
//! the same.

use crate::{
    domain::{RunId, Timestamp, fact::CliTotals},
    journal::Missing,
};

use super::{Machine, Restore, Run};

impl Machine {
    /// Reads on behind records that are missing.
    pub(super) fn skip(&mut self, missing: Missing) {
        self.head = missing.last_seq;
        self.expect_missing(missing);
        if let Some(run) = &mut self.run {
            // The answer to `initialize` may be among them. A process that is not ready after all does not answer.
            run.ready = true;
        }
    }

    /// It is known that these are missing, and no record says so yet.
    pub(in crate::session) fn expect_missing(&mut self, missing: Missing) {
        self.has_lost = true;
        self.last_lost = self.last_lost.max(missing.last_seq);
        if self
            .missing
            .iter()
            .any(|known| known.last_seq == missing.last_seq)
        {
            return;
        }
        // One hole that grows is one.
        match self.missing.last_mut() {
            Some(known) if known.last_seq.next() == missing.first_seq => known.last_seq = missing.last_seq,
            _ => self.missing.push(missing),
        }
    }

    /// A record says that these are missing.
    pub(super) fn on_missing_noticed(&mut self, noticed: Missing) {
        self.missing.retain_mut(|missing| {
            if missing.first_seq <= noticed.last_seq {
                // It has grown since.
                missing.first_seq = noticed.last_seq.next();
            }
            missing.first_seq <= missing.last_seq
        });
    }

    /// The missing records that no record mentions yet.
    pub(in crate::session) fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Whether records that were to be read are missing.
    pub(in crate::session) fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// After records were missing: what the store has read of them in time holds. `turns` ended, and the CLI's totals were
    /// `totals` then.
    pub(in crate::session) fn trust(&mut self, turns: u64, totals: Option<CliTotals>) {
        if !self.has_lost || turns < self.turns {
            return;
        }
        if let Some(totals) = totals {
            self.ledger.go_on_from(totals);
        }
        self.turns = turns;
        if self.turn.take_if(|turn| turn.number <= turns).is_some() {
            let behind = self.last_lost;
            self.prompts.retain(|prompt| prompt.seq > behind);
        }
    }

    /// A process lives whose first record is missing. It is taken for ready and quiet, until it says otherwise.
    pub(in crate::session) fn adopt(&mut self, run: RunId, at: Timestamp) {
        self.run = Some(Run {
            id: run,
            started_at: at,
            ready: true,
            ready_at: Some(at),
            resumed: true,
            resumes: None,
            has_worked: false,
            restart: None,
            stop_asked: false,
            asked_mode: None,
            unfit: None,
            start_timeout_ms: None,
            silent_for_ms: None,
            is_mute: false,
            activity: None,
            park: None,
            is_interrupted: false,
            said_error: None,
            restore: Restore::default(),
        });
        self.last_run = Some(run);
        self.restart = None;
        self.reason = None;
    }
}
