//! Owns what the records say about silence: since when the CLI has said nothing although nobody else has the word.

use std::collections::VecDeque;

use memchr::memmem;

use crate::{
    claude::{Envelope, todos::TodoCall},
    domain::{SessionState, Timestamp, TodoChange},
    json,
};

use super::{Machine, unasked::blocks};

/// Calls that are kept; of more that are open at once, the first are.
const OPEN_CALLS: usize = 1024;

/// Calls whose changes of the to-do list are awaited; of more the newest are.
const TODO_CALLS: usize = 64;

/// Calls of tools whose results have not come: while one runs, the CLI may be silent.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    open: Vec<String>,
    /// Those that change the to-do list, with their ids.
    todos: VecDeque<(String, TodoCall)>,
}

impl Calls {
    /// The model calls tools.
    pub(super) fn on_assistant(&mut self, line: &Envelope<'_>) {
        if memmem::find(line.line.as_bytes(), b"\"tool_use\"").is_none() {
            return;
        }
        let is_of_agent = || {
            let parent = json::members(line.line, ["parent_tool_use_id"]).and_then(|[parent]| parent);
            parent.is_some_and(|parent| parent != "null")
        };
        for block in blocks(line) {
            let Some([Some(kind), Some(id), name, input]) =
                json::members(block, ["type", "id", "name", "input"])
            else {
                continue;
            };
            let Some(id) = json::string(id).filter(|_| json::string(kind).as_deref() == Some("tool_use"))
            else {
                continue;
            };
            if self.open.len() < OPEN_CALLS && !self.open.iter().any(|call| *call == id) {
                self.open.push(id.clone().into_owned());
            }
            let todo = name.and_then(json::string).zip(input);
            if let Some(call) = todo.and_then(|(name, input)| TodoCall::read(&name, input, is_of_agent())) {
                if self.todos.len() == TODO_CALLS {
                    self.todos.pop_front();
                }
                self.todos.push_back((id.into_owned(), call));
            }
        }
    }

    /// Tools have ended. Returns what they changed in the to-do list.
    pub(super) fn on_user(&mut self, line: &Envelope<'_>) -> Vec<TodoChange> {
        let mut changes = Vec::new();
        if self.open.is_empty() && self.todos.is_empty() {
            return changes;
        }
        for block in blocks(line) {
            let Some([Some(id), error]) = json::members(block, ["tool_use_id", "is_error"]) else {
                continue;
            };
            let Some(id) = json::string(id) else {
                continue;
            };
            self.open.retain(|call| *call != id);
            let todo = self.todos.iter().position(|(call, _)| *call == id);
            if let Some((_, call)) = todo.and_then(|todo| self.todos.remove(todo))
                && error != Some("true")
            {
                let result = json::members(line.line, ["tool_use_result"]).and_then(|[result]| result);
                changes.extend(call.change(result));
            }
        }
        changes
    }

    /// The turn is over, and with it all its calls.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.todos.clear();
    }

    fn is_empty(&self) -> bool {
        self.open.is_empty()
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
