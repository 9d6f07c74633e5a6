//! Owns what the records say about silence: since when the CLI has said nothing although nobody else has the word.

use memchr::memmem;

use crate::{
    claude::{Envelope, json},
    domain::{SessionState, Timestamp},
};

use super::{Machine, unasked::blocks};

/// Calls that are kept; of more that are open at once, the first are.
const OPEN_CALLS: usize = 1024;

/// Calls of tools whose results have not come: while one runs, the CLI may be silent.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Vec<String>);

impl Calls {
    /// The model calls tools.
    pub(super) fn on_assistant(&mut self, line: &Envelope<'_>) {
        if memmem::find(line.line.as_bytes(), b"\"tool_use\"").is_none() {
            return;
        }
        for block in blocks(line) {
            let Some([Some(kind), Some(id)]) = json::members(block, ["type", "id"]) else {
                continue;
            };
            if json::string(kind).as_deref() == Some("tool_use")
                && let Some(id) = json::string(id)
                && self.0.len() < OPEN_CALLS
                && !self.0.iter().any(|call| *call == id)
            {
                self.0.push(id.into_owned());
            }
        }
    }

    /// Tools have ended.
    pub(super) fn on_user(&mut self, line: &Envelope<'_>) {
        if self.0.is_empty() {
            return;
        }
        for block in blocks(line) {
            if let Some([Some(id)]) = json::members(block, ["tool_use_id"])
                && let Some(id) = json::string(id)
            {
                self.0.retain(|call| *call != id);
            }
        }
    }

    /// The turn is over, and with it all its calls.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Machine {
    /// Since when the CLI has said nothing: since its start, its last line, or since the word came back to it. `None` without
    /// a process, and while a person, a hook, an MCP server or a tool has the word.
    pub(in crate::session) fn silent_since(&self) -> Option<Timestamp> {
        let run = self.run.as_ref()?;
        let has_word = self.approvals.is_empty() && self.desk.open().is_empty() && self.calls.is_empty();
        let last = self.heard_at.max(self.owed_since).max(Some(run.started_at));
        last.filter(|_| has_word)
    }

    /// Since when the CLI is silent although it should say something: a turn runs, or its start does.
    pub(in crate::session) fn silence(&self) -> Option<Timestamp> {
        let owes = matches!(self.state(), SessionState::Starting | SessionState::Busy);
        self.silent_since().filter(|_| owes)
    }

    /// Whether the process is stopped so that another takes its place.
    pub(in crate::session) fn is_stopped_for_silence(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.silent_for_ms.is_some())
    }

    /// Whether a notice is about the silence that is now.
    pub(in crate::session) fn is_silence_noticed(&self) -> bool {
        self.noticed_silence.is_some() && self.noticed_silence == self.silent_since()
    }
}
