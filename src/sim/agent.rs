//! Owns the loop: takes in lines, answers control requests at once, and plays one turn after the other.

use std::{
    collections::VecDeque,
    io::Write,
    process::ExitCode,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Fatal, Input, MODEL, VERSION, conversation::Conversation, flags::Flags, hooks::Hook, script, wire::Wire,
};

/// The simulated agent.
pub(super) struct Agent<W> {
    pub(super) flags: Flags,
    pub(super) conversation: Conversation,
    pub(super) wire: Wire<W>,
    inbox: Receiver<Input>,
    pub(super) pace: Duration,
    pub(super) mode: String,
    pub(super) mode_before_plan: String,
    pub(super) model: String,
    pub(super) queue: VecDeque<Prompt>,
    pub(super) asked: Option<Asked>,
    pub(super) hooks: Vec<Hook>,
    pub(super) is_interrupted: bool,
    pub(super) is_in_turn: bool,
    pub(super) is_ended: bool,
    pub(super) results: u64,
    failed_last: bool,
    reports_state: bool,
}

/// A user message.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    pub(super) uuid: Option<String>,
    pub(super) text: String,
    pub(super) content: Value,
}

/// A request to the host that waits for its answer.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) request_id: String,
    pub(super) request: Value,
    /// The host's answer: what it would do, or its error.
    pub(super) answer: Option<Result<Value, String>>,
}

impl Asked {
    /// Whether a person has to answer, and not a hook.
    pub(super) fn needs_person(&self) -> bool {
        self.request
            .get("subtype")
            .is_some_and(|it| it != "hook_callback")
    }
}

/// The turn was interrupted, or cannot go on.
pub(super) enum Cut {
    Interrupted,
    Fatal(Fatal),
}

impl<E: Into<Fatal>> From<E> for Cut {
    fn from(error: E) -> Self {
        Self::Fatal(error.into())
    }
}

impl<W: Write> Agent<W> {
    pub(super) fn new(
        flags: Flags,
        conversation: Conversation,
        wire: Wire<W>,
        inbox: Receiver<Input>,
        pace: Duration,
    ) -> Self {
        let mode = flags.permission_mode.clone().unwrap_or_else(|| "default".into());
        Self {
            model: MODEL.into(),
            mode_before_plan: "default".into(),
            mode,
            flags,
            conversation,
            wire,
            inbox,
            pace,
            queue: VecDeque::new(),
            asked: None,
            hooks: Vec::new(),
            is_interrupted: false,
            is_in_turn: false,
            is_ended: false,
            results: 0,
            failed_last: false,
            reports_state: std::env::var_os("CLAUDE_CODE_SDK_READS_SESSION_STATE").is_some(),
        }
    }

    /// Plays turns until stdin ends and nothing is left to do. As with the agent CLI, the end of stdin stops no turn.
    pub(super) fn run(mut self) -> Result<ExitCode, Fatal> {
        loop {
            if let Some(prompt) = self.queue.pop_front() {
                self.failed_last = !self.turn(&prompt)?;
            } else if self.is_ended {
                return Ok(ExitCode::from(u8::from(self.failed_last)));
            } else {
                let input = self.inbox.recv().unwrap_or(Input::End);
                self.take(input)?;
            }
        }
    }

    /// Lets time pass within a turn; what comes in meanwhile is handled.
    pub(super) fn pause(&mut self, time: Duration) -> Result<(), Cut> {
        let until = Instant::now() + time;
        loop {
            if self.is_interrupted {
                return Err(Cut::Interrupted);
            }
            let left = until.saturating_duration_since(Instant::now());
            if self.is_ended {
                // Nothing can come in any more, so only the clock is waited for.
                if left.is_zero() {
                    return Ok(());
                }
                std::thread::park_timeout(left);
                continue;
            }
            match self.inbox.recv_timeout(left) {
                Ok(input) => self.take(input)?,
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => self.take(Input::End)?,
            }
        }
    }

    /// Waits for the answer to a request. The end of stdin is an answer too: nobody can allow it any more.
    pub(super) fn wait_for_answer(&mut self) -> Result<Result<Value, String>, Cut> {
        loop {
            if self.is_interrupted {
                self.asked = None;
                return Err(Cut::Interrupted);
            }
            if let Some(asked) = self.asked.take_if(|asked| asked.answer.is_some()) {
                return Ok(asked.answer.unwrap_or_else(|| Err("no answer".into())));
            }
            if self.is_ended {
                self.asked = None;
                return Ok(Err("Stream closed".into()));
            }
            let input = self.inbox.recv().unwrap_or(Input::End);
            self.take(input)?;
        }
    }

    fn take(&mut self, input: Input) -> Result<(), Fatal> {
        let line = match input {
            Input::End => {
                self.is_ended = true;
                return Ok(());
            }
            Input::Line(line) => line,
        };
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            return Err(Fatal::Said(format!(
                "Error parsing streaming input line (type=unknown, {} chars)",
                line.len()
            )));
        };
        match message.get("type").and_then(Value::as_str) {
            Some("user") => self.user(&message),
            Some("control_request") => self.control_request(&message),
            Some("control_response") => {
                self.control_response(&message);
                Ok(())
            }
            // The agent CLI ignores what it does not know, too.
            _ => Ok(()),
        }
    }

    fn user(&mut self, message: &Value) -> Result<(), Fatal> {
        let inner = message.get("message").unwrap_or(&Value::Null);
        let role = inner.get("role").and_then(Value::as_str).unwrap_or("undefined");
        if role != "user" {
            return Err(Fatal::Said(format!("Expected message role 'user', got '{role}'")));
        }
        let content = inner.get("content").cloned().unwrap_or(Value::Null);
        let prompt = Prompt {
            uuid: message.get("uuid").and_then(Value::as_str).map(str::to_owned),
            text: text_of(&content),
            content,
        };
        if self.is_in_turn {
            self.lifecycle(&prompt, "queued")?;
        }
        self.queue.push_back(prompt);
        Ok(())
    }

    fn control_response(&mut self, message: &Value) {
        let response = message.get("response").unwrap_or(&Value::Null);
        let request_id = response.get("request_id").and_then(Value::as_str);
        if let Some(asked) = &mut self.asked
            && request_id == Some(asked.request_id.as_str())
            && asked.answer.is_none()
        {
            asked.answer = Some(match response.get("subtype").and_then(Value::as_str) {
                Some("success") => Ok(response.get("response").cloned().unwrap_or(Value::Null)),
                _ => Err(response
                    .get("error")
                    .and_then(Value::as_str)
                    .unwrap_or("unknown")
                    .to_owned()),
            });
        }
    }

    /// The receipt of a prompt; only prompts with an id get one.
    pub(super) fn lifecycle(&mut self, prompt: &Prompt, state: &str) -> Result<(), Fatal> {
        if let Some(uuid) = &prompt.uuid {
            self.wire
                .message(json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state}))?;
        }
        Ok(())
    }

    pub(super) fn state(&mut self, state: &str) -> Result<(), Fatal> {
        if self.reports_state {
            self.wire.message(json!({
                "type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": true,
            }))?;
        }
        Ok(())
    }

    /// The line at the beginning of a turn.
    pub(super) fn init(&mut self) -> Result<(), Fatal> {
        let cwd = std::env::current_dir().unwrap_or_default();
        let mut tools = vec!["Bash"];
        if self.flags.asks_on_stdio {
            tools.extend(["AskUserQuestion", "ExitPlanMode"]);
        }
        self.wire.message(json!({
            "type": "system", "subtype": "init", "cwd": cwd.to_string_lossy(), "tools": tools, "mcp_servers": [],
            "model": self.model, "permissionMode": self.mode, "slash_commands": [], "apiKeySource": "none",
            "claude_code_version": VERSION, "output_style": "default", "agents": [], "skills": [], "plugins": [],
            "capabilities": ["interrupt_receipt_v1", "interrupt_cancel_queued_v1", "msg_lifecycle_v1"],
            "simulated": true,
        }))?;
        Ok(())
    }

    pub(super) fn set_mode(&mut self, mode: &str) -> Result<(), Fatal> {
        if mode == "plan" && self.mode != "plan" {
            self.mode_before_plan = std::mem::take(&mut self.mode);
        }
        self.mode = mode.into();
        self.wire.message(json!({
            "type": "system", "subtype": "status", "status": null, "permissionMode": mode,
        }))?;
        Ok(())
    }

    /// The words for an ordinary prompt.
    pub(super) fn words_for(&self, prompt: &Prompt) -> String {
        let first = (self.conversation.turns() > 0)
            .then(|| self.conversation.first_prompt())
            .flatten();
        script::answer(&prompt.text, self.conversation.turns() + 1, first)
    }
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| block.get("text").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join("\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}
