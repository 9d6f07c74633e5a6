//! Owns which conversation of the CLI a session has, and the id to go back to when the CLI does not know its newest one.
//!
//! Some versions of the CLI report another id at a resume than the one they were asked for, and keep the conversation under
//! either. So the old id is kept until the CLI has gone on with the new one.

use crate::domain::{CliSessionId, Fact, Timestamp, fact::CliTotals};

use super::{Machine, Outcome};

impl Machine {
    /// The id to go back to if the CLI does not know this one.
    pub(in crate::session) fn earlier_id_of(&self, id: CliSessionId) -> Option<CliSessionId> {
        self.earlier.filter(|_| self.cli_session == Some(id))
    }

    /// The CLI's last known running totals of this conversation, if it is the session's.
    pub(in crate::session) fn totals_of(&self, id: CliSessionId) -> Option<&CliTotals> {
        (self.cli_session == Some(id)).then(|| self.ledger.totals())
    }

    /// The CLI says which conversation it is in.
    pub(super) fn on_reported_id(&mut self, id: CliSessionId, at: Timestamp, out: &mut Outcome) {
        let resumed = self.run.as_ref().and_then(|run| run.resumes);
        if resumed.is_some_and(|resumed| resumed != id && self.cli_session == Some(resumed)) {
            self.earlier = resumed;
        }
        self.set_cli_session(id, at, out);
    }

    /// The CLI began another conversation in the place of this one: that is no other name for it.
    pub(super) fn on_conversation_left(&mut self) {
        self.earlier = None;
        if let Some(run) = &mut self.run {
            run.resumes = None;
        }
    }

    /// The CLI found the conversation that it was asked to go on with.
    pub(super) fn on_conversation_found(&mut self) {
        let resumed = self.run.as_ref().and_then(|run| run.resumes);
        if resumed.is_some() && self.cli_session == resumed {
            self.earlier = None;
        }
    }

    pub(super) fn set_cli_session(&mut self, id: CliSessionId, at: Timestamp, out: &mut Outcome) {
        if self.cli_session != Some(id) {
            self.cli_session = Some(id);
            out.facts.push(Fact::CliSession { id, at });
        }
    }
}
