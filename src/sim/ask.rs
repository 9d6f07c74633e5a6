//! Owns permission: when the agent asks, what it asks, and what an answer means.

use std::io::Write;

use serde_json::{Value, json};

use super::{
    Fatal,
    agent::{Agent, Asked, Cut},
    hooks::Verdict,
};

/// The outcome of asking.
pub(super) enum Permission {
    /// The tool may run with this input.
    Allowed(Value),
    /// It may not, for this reason.
    Denied(String),
}

impl<W: Write> Agent<W> {
    /// Whether a tool may be used: by a hook, by the mode, by a rule, or by asking the host.
    pub(super) fn permission(
        &mut self,
        tool: &str,
        tool_use_id: &str,
        input: &Value,
    ) -> Result<Permission, Cut> {
        let needs_person = matches!(tool, "AskUserQuestion" | "ExitPlanMode");
        let mut input = input.clone();
        let is_allowed = match self.ask_hooks(tool, tool_use_id, &mut input)? {
            Verdict::Deny(reason) => return Ok(Permission::Denied(reason)),
            Verdict::Ask => false,
            Verdict::Allow => true,
            Verdict::Silent => {
                self.mode == "bypassPermissions" || self.flags.allowed_tools.iter().any(|rule| rule == tool)
            }
        };
        if is_allowed && !needs_person {
            return Ok(Permission::Allowed(input));
        }
        if !self.flags.asks_on_stdio || (self.mode == "dontAsk" && !needs_person) {
            let message = format!("Permission to use {tool} was denied: nobody can be asked.");
            self.wire.message(json!({
                "type": "system", "subtype": "permission_denied", "tool_name": tool, "tool_use_id": tool_use_id,
                "decision_reason_type": "mode", "message": message,
            }))?;
            return Ok(Permission::Denied(message));
        }
        self.ask(tool, tool_use_id, &input, needs_person)?;
        let answer = self.wait_for_answer()?;
        self.state("running")?;
        self.understand(tool, &input, answer)
    }

    fn ask(&mut self, tool: &str, tool_use_id: &str, input: &Value, needs_person: bool) -> Result<(), Fatal> {
        let mut request = json!({
            "subtype": "can_use_tool", "tool_name": tool, "display_name": tool, "input": input,
            "tool_use_id": tool_use_id,
        });
        if let Value::Object(fields) = &mut request {
            if needs_person {
                fields.insert("requires_user_interaction".into(), true.into());
            } else {
                fields.insert("description".into(), "Simulated: nothing will be run".into());
                let rule = json!([{
                    "type": "addRules", "rules": [{"toolName": tool}], "behavior": "allow", "destination": "session",
                }]);
                fields.insert("permission_suggestions".into(), rule);
            }
        }
        self.state("requires_action")?;
        self.request(request)
    }

    /// Shows the form of a simulated server. Returns its content, if it was filled in.
    pub(super) fn form(&mut self) -> Result<Option<Value>, Cut> {
        self.state("requires_action")?;
        self.request(json!({
            "subtype": "elicitation", "mcp_server_name": "simulated", "mode": "form",
            "message": "Who are you? (simulated form)", "property_order": ["name", "colour"],
            "requested_schema": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "title": "Your name"},
                "colour": {"type": "string", "title": "A colour", "enum": ["red", "blue"]},
            }},
        }))?;
        let answer = self.wait_for_answer()?;
        self.state("running")?;
        let accepted = answer
            .ok()
            .filter(|answer| answer.get("action").is_some_and(|it| it == "accept"));
        Ok(accepted.map(|answer| answer.get("content").cloned().unwrap_or(json!({}))))
    }

    /// Asks the host; one request at a time.
    pub(super) fn request(&mut self, request: Value) -> Result<(), Fatal> {
        let request_id = self.wire.new_id();
        self.asked = Some(Asked {
            request_id: request_id.clone(),
            request: request.clone(),
            answer: None,
        });
        let line = json!({"type": "control_request", "request_id": request_id, "request": request});
        Ok(self.wire.line(&line)?)
    }

    fn understand(
        &mut self,
        tool: &str,
        input: &Value,
        answer: Result<Value, String>,
    ) -> Result<Permission, Cut> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                return Ok(Permission::Denied(format!(
                    "Tool permission request failed: Error: {error}"
                )));
            }
        };
        let message = answer.get("message").and_then(Value::as_str);
        match (answer.get("behavior").and_then(Value::as_str), message) {
            (Some("allow"), _) => {
                let left_plan = self.apply_updates(tool, &answer)?;
                if tool == "ExitPlanMode" && !left_plan {
                    let mode = self.mode_before_plan.clone();
                    self.set_mode(&mode)?;
                }
                let input = answer
                    .get("updatedInput")
                    .filter(|input| input.is_object())
                    .unwrap_or(input);
                Ok(Permission::Allowed(input.clone()))
            }
            (Some("deny"), Some(message)) => {
                if answer.get("interrupt").and_then(Value::as_bool) == Some(true) {
                    return Err(Cut::Interrupted);
                }
                Ok(Permission::Denied(message.into()))
            }
            _ => Ok(Permission::Denied(format!(
                "Tool permission request failed: invalid permission result for {tool}"
            ))),
        }
    }

    /// Rules and modes that came with an answer. Returns whether the mode changed.
    fn apply_updates(&mut self, tool: &str, answer: &Value) -> Result<bool, Fatal> {
        let updates = answer.get("updatedPermissions").and_then(Value::as_array);
        let mut changed_mode = false;
        for update in updates.into_iter().flatten() {
            let text = |key: &str| update.get(key).and_then(Value::as_str);
            match text("type") {
                Some("setMode") => {
                    self.set_mode(text("mode").unwrap_or("default"))?;
                    changed_mode = true;
                }
                Some("addRules") if text("behavior") == Some("allow") => {
                    self.flags.allowed_tools.push(tool.into());
                }
                _ => {}
            }
        }
        Ok(changed_mode)
    }
}
