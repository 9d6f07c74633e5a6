//! Owns the answers to control requests. Each is answered at once, in a turn or not.

use std::io::Write;

use serde_json::{Value, json};

use super::{
    Fatal, MODEL, VERSION,
    agent::{Agent, Prompt},
    hooks,
};

const MODES: &[&str] = &[
    "default",
    "acceptEdits",
    "bypassPermissions",
    "plan",
    "dontAsk",
    "auto",
];

impl<W: Write> Agent<W> {
    pub(super) fn control_request(&mut self, message: &Value) -> Result<(), Fatal> {
        let Some(id) = message.get("request_id").and_then(Value::as_str) else {
            return Ok(());
        };
        let request = message.get("request").unwrap_or(&Value::Null);
        let text = |key: &str| request.get(key).and_then(Value::as_str);
        match text("subtype").unwrap_or("") {
            "initialize" => {
                if let Some(hooks) = request.get("hooks").filter(|hooks| hooks.is_object()) {
                    self.hooks = hooks::registered(hooks);
                }
                let payload = self.initialized();
                self.wire.success(id, Some(payload))?;
            }
            "interrupt" => {
                let cancels = request.get("cancel_queued").and_then(Value::as_bool) == Some(true);
                self.interrupt(id, cancels)?;
            }
            "set_permission_mode" => self.change_mode(id, text("mode").unwrap_or(""))?,
            "set_model" => {
                self.model = MODEL.into();
                self.wire.success(id, Some(json!({"model": MODEL})))?;
            }
            "set_max_thinking_tokens" => self.wire.success(id, None)?,
            "mcp_status" => self.wire.success(id, Some(json!({"mcpServers": []})))?,
            "list_models" => self.wire.success(id, Some(json!({"models": models()})))?,
            "get_session_cost" => {
                let text = "The simulated agent costs nothing.";
                self.wire.success(id, Some(json!({"text": text})))?;
            }
            "cancel_async_message" => {
                let uuid = text("message_uuid").unwrap_or("").to_owned();
                let is_cancelled = self.cancel(Some(&uuid))? > 0;
                let payload = json!({"cancelled": is_cancelled, "message_uuid": uuid});
                self.wire.success(id, Some(payload))?;
            }
            unknown => {
                let error = format!("the simulated agent does not support {unknown:?}");
                self.wire.error(id, Some("unsupported_request"), &error)?;
            }
        }
        Ok(())
    }

    fn initialized(&self) -> Value {
        let pending: Vec<Value> = self
            .asked
            .iter()
            .filter(|asked| asked.answer.is_none() && asked.needs_person())
            .map(|asked| {
                json!({"type": "control_request", "request_id": asked.request_id, "request": asked.request})
            })
            .collect();
        let state = match (self.is_in_turn, pending.is_empty()) {
            (false, _) => "idle",
            (true, true) => "running",
            (true, false) => "requires_action",
        };
        json!({
            "commands": [], "agents": [], "output_style": "default", "available_output_styles": ["default"],
            "models": models(),
            "account": {"email": "nobody@simulated.invalid", "tokenSource": "none", "apiProvider": "simulated"},
            "pid": std::process::id(), "claude_code_version": VERSION, "current_permission_mode": self.mode,
            "session_state": state, "capabilities": [], "simulated": true,
            "pending_permission_requests": pending, "pending_user_dialog_requests": [],
        })
    }

    /// The request that waits for its answer is taken back first, then the interrupt is answered.
    fn interrupt(&mut self, id: &str, cancels: bool) -> Result<(), Fatal> {
        if let Some(asked) = self.asked.take_if(|asked| asked.answer.is_none()) {
            let line = json!({"type": "control_cancel_request", "request_id": asked.request_id});
            self.wire.line(&line)?;
        }
        let queued: Vec<String> = self
            .queue
            .iter()
            .filter_map(|prompt| prompt.uuid.clone())
            .collect();
        let payload = if cancels {
            self.cancel(None)?;
            json!({"still_queued": [], "cancelled": queued})
        } else {
            json!({"still_queued": queued})
        };
        self.is_interrupted = self.is_in_turn;
        Ok(self.wire.success(id, Some(payload))?)
    }

    /// Takes waiting prompts back: one, or all. Returns how many.
    fn cancel(&mut self, uuid: Option<&str>) -> Result<usize, Fatal> {
        let (cancelled, kept): (Vec<Prompt>, Vec<Prompt>) = self
            .queue
            .drain(..)
            .partition(|prompt| uuid.is_none() || prompt.uuid.as_deref() == uuid);
        self.queue = kept.into();
        for prompt in &cancelled {
            self.lifecycle(prompt, "cancelled")?;
        }
        Ok(cancelled.len())
    }

    fn change_mode(&mut self, id: &str, mode: &str) -> Result<(), Fatal> {
        if !MODES.contains(&mode) {
            return Ok(self.wire.error(
                id,
                Some("invalid_mode"),
                &format!("{mode:?} is no permission mode"),
            )?);
        }
        if mode == "bypassPermissions" && !self.flags.may_bypass {
            let error = "the session was not started with permission to skip permissions";
            return Ok(self.wire.error(id, Some("bypass_not_launched"), error)?);
        }
        self.set_mode(mode)?;
        Ok(self.wire.success(id, Some(json!({"mode": mode})))?)
    }
}

fn models() -> Value {
    json!([{
        "value": MODEL, "resolvedModel": MODEL, "displayName": "Simulated",
        "description": "No model: Trunkline's simulated agent makes its answers up",
        "supportsEffort": false, "supportedEffortLevels": [],
    }])
}
