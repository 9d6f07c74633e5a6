//! Owns the hooks before a tool: which are registered, when they are asked, and what their answers mean.

use std::io::Write;

use serde_json::{Value, json};

use super::agent::{Agent, Cut};

/// The only event at which the simulated agent asks.
const EVENT: &str = "PreToolUse";

/// A hook that is asked before a tool is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hook {
    /// Names of tools, with `|` between them; empty or `*` for all.
    matcher: String,
    callback_id: String,
}

/// The joint verdict of a tool's hooks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: permission is as without them.
    Silent,
    /// The tool may be used without asking a person.
    Allow,
    /// A person is asked, whatever else would allow it.
    Ask,
    /// The tool may not be used, for this reason.
    Deny(String),
}

impl Hook {
    fn is_about(&self, tool: &str) -> bool {
        matches!(self.matcher.as_str(), "" | "*") || self.matcher.split('|').any(|name| name == tool)
    }
}

/// The hooks in the `hooks` of an `initialize`.
pub(super) fn registered(hooks: &Value) -> Vec<Hook> {
    let groups = hooks.get(EVENT).and_then(Value::as_array);
    groups
        .into_iter()
        .flatten()
        .flat_map(|group| {
            let matcher = group.get("matcher").and_then(Value::as_str).unwrap_or("");
            let ids = group.get("hookCallbackIds").and_then(Value::as_array);
            ids.into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(|id| Hook {
                    matcher: matcher.into(),
                    callback_id: id.into(),
                })
        })
        .collect()
}

impl<W: Write> Agent<W> {
    /// Asks the hooks of a tool, one after the other, and changes its input as they say. A denial ends the round; of
    /// the other answers `ask` outweighs `allow`. An error is no opinion.
    pub(super) fn ask_hooks(
        &mut self,
        tool: &str,
        tool_use_id: &str,
        input: &mut Value,
    ) -> Result<Verdict, Cut> {
        let mut together = Verdict::Silent;
        let hooks: Vec<Hook> = self
            .hooks
            .iter()
            .filter(|hook| hook.is_about(tool))
            .cloned()
            .collect();
        for hook in hooks {
            self.request(json!({
                "subtype": "hook_callback", "callback_id": hook.callback_id, "tool_use_id": tool_use_id,
                "input": {
                    "hook_event_name": EVENT, "tool_name": tool, "tool_input": input, "tool_use_id": tool_use_id,
                    "permission_mode": self.mode,
                },
            }))?;
            let answer = self.wait_for_answer()?.unwrap_or_default();
            let output = answer.get("hookSpecificOutput").unwrap_or(&Value::Null);
            match verdict(&answer, output) {
                denied @ Verdict::Deny(_) => return Ok(denied),
                Verdict::Ask => together = Verdict::Ask,
                Verdict::Allow if together == Verdict::Silent => together = Verdict::Allow,
                Verdict::Allow | Verdict::Silent => {}
            }
            if let Some(changed) = output.get("updatedInput").filter(|changed| changed.is_object()) {
                *input = changed.clone();
            }
        }
        Ok(together)
    }
}

fn verdict(answer: &Value, output: &Value) -> Verdict {
    let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
    let nameless = || "a hook denied it".to_owned();
    match text(output, "permissionDecision").as_deref() {
        Some("deny") => Verdict::Deny(text(output, "permissionDecisionReason").unwrap_or_else(nameless)),
        Some("ask") => Verdict::Ask,
        Some("allow") => Verdict::Allow,
        _ if answer.get("decision").is_some_and(|it| it == "block") => {
            Verdict::Deny(text(answer, "reason").unwrap_or_else(nameless))
        }
        _ => Verdict::Silent,
    }
}
