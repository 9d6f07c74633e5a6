//! Owns one turn: its lines in the order in which the agent CLI prints them.

use std::{io::Write, time::Instant};

use serde_json::{Value, json};

use super::{
    Fatal,
    agent::{Agent, Cut, Prompt},
    ask::Permission,
    conversation::Tokens,
    script::{self, Act},
    wire,
};

/// The facts that are known when a turn ends.
#[derive(Debug, Default)]
struct Record {
    used: Tokens,
    answer: String,
    calls: u64,
    denials: Vec<Value>,
    error: Option<String>,
    /// Text that is being streamed: its message id and what was sent.
    streaming: Option<(String, String)>,
    /// A tool that was asked for and has no result yet.
    open_tool: Option<String>,
}

impl<W: Write> Agent<W> {
    /// Plays a turn; returns whether it succeeded.
    pub(super) fn turn(&mut self, prompt: &Prompt) -> Result<bool, Fatal> {
        let began = Instant::now();
        let was_queued = std::mem::replace(&mut self.is_in_turn, true);
        self.is_interrupted = false;
        if !was_queued {
            self.state("running")?;
            self.lifecycle(prompt, "queued")?;
        }
        self.lifecycle(prompt, "started")?;
        self.init()?;
        if self.flags.replays {
            let mut replay = json!({
                "type": "user", "message": {"role": "user", "content": prompt.content},
                "parent_tool_use_id": null, "isReplay": true,
            });
            if let (Some(uuid), Value::Object(fields)) = (&prompt.uuid, &mut replay) {
                fields.insert("uuid".into(), uuid.as_str().into());
            }
            self.wire.message(replay)?;
        }
        let prompt_uuid = prompt.uuid.clone().unwrap_or_default();
        self.conversation.add(&prompt_uuid, "user", &prompt.text);
        // A process that ends in its first turn leaves a conversation to go on with, as that of the agent CLI does.
        self.conversation.save()?;
        let mut record = Record::default();
        let outcome = self.act(prompt, &mut record);
        let aborted = match outcome {
            Ok(()) => None,
            Err(Cut::Interrupted) => Some(self.aborted(&mut record)?),
            Err(Cut::Fatal(fatal)) => return Err(fatal),
        };
        let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let succeeded = aborted.is_none() && record.error.is_none();
        self.result(prompt, &record, aborted, milliseconds)?;
        self.lifecycle(prompt, "completed")?;
        self.is_interrupted = false;
        if self.queue.is_empty() {
            self.is_in_turn = false;
            self.state("idle")?;
        }
        Ok(succeeded)
    }

    fn act(&mut self, prompt: &Prompt, record: &mut Record) -> Result<(), Cut> {
        match script::act(&prompt.text) {
            Act::Answer => {
                let words = self.words_for(prompt);
                self.say(record, &words, 1)
            }
            Act::Slow => self.say(record, &script::long_text(), 8),
            Act::Tool => {
                self.say(record, "I will pretend to run a command.", 1)?;
                let input =
                    json!({"command": script::command(&prompt.text), "description": "Simulated command"});
                let words = match self.tool(record, "Bash", &input)? {
                    Some(input) => format!(
                        "Done: the simulated agent pretended to run `{}`.",
                        input.get("command").and_then(Value::as_str).unwrap_or("")
                    ),
                    None => "Then I will not, said the simulated agent.".into(),
                };
                self.say(record, &words, 1)
            }
            Act::Question => {
                let words = match self.tool(record, "AskUserQuestion", &questions())? {
                    Some(input) => match input.get("answers") {
                        Some(answers) => format!("The simulated agent noted your answers: {answers}"),
                        None => "You gave the simulated agent no answer.".into(),
                    },
                    None => "You did not want to answer the simulated agent.".into(),
                };
                self.say(record, &words, 1)
            }
            Act::Plan => {
                if self.mode != "plan" {
                    self.set_mode("plan")?;
                }
                let words = match self.tool(record, "ExitPlanMode", &json!({"plan": script::PLAN}))? {
                    Some(_) => "The simulated plan was carried out: nothing was changed.",
                    None => "The simulated agent goes on planning.",
                };
                self.say(record, words, 1)
            }
            Act::Form => {
                let words = match self.form()? {
                    Some(content) => format!("The simulated agent read your form: {content}"),
                    None => "You did not fill in the simulated form.".into(),
                };
                self.say(record, &words, 1)
            }
            Act::Error => {
                let text = "API Error: 500 simulated failure";
                record.error = Some(text.into());
                let mut line = assistant(
                    "<synthetic>",
                    &self.wire.new_id(),
                    json!([{"type": "text", "text": text}]),
                );
                if let Value::Object(fields) = &mut line {
                    fields.insert("error".into(), "server_error".into());
                    fields.insert("is_api_error_message".into(), true.into());
                    fields.insert("api_error_status".into(), 500.into());
                }
                self.wire.message(line)?;
                Ok(())
            }
        }
    }

    /// Says something; with partial messages, piece by piece.
    fn say(&mut self, record: &mut Record, words: &str, slowness: u32) -> Result<(), Cut> {
        let id = self.message_id(record);
        let content = json!([{"type": "text", "text": words}]);
        record.streaming = Some((id.clone(), String::new()));
        if self.flags.streams {
            self.stream_start(&id)?;
            self.stream(&id, &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}))?;
        }
        for piece in words.split_inclusive(char::is_whitespace) {
            self.pause(self.pace * slowness)?;
            if let Some((_, said)) = &mut record.streaming {
                said.push_str(piece);
            }
            record.used.output += 1;
            if self.flags.streams {
                self.stream(&id, &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}))?;
            }
        }
        record.streaming = None;
        record.answer = words.into();
        let line = assistant(&self.model, &id, content);
        let uuid = self.wire.message(line)?;
        self.conversation.add(&uuid, "assistant", words);
        if self.flags.streams {
            self.stream(&id, &json!({"type": "content_block_stop", "index": 0}))?;
            self.stream_end(&id, "end_turn", record.used)?;
        }
        Ok(())
    }

    /// Uses a tool, which never does anything. Returns its input if it was allowed.
    fn tool(&mut self, record: &mut Record, tool: &str, input: &Value) -> Result<Option<Value>, Cut> {
        let id = self.message_id(record);
        let tool_use_id = format!("toolu_sim_{}", self.wire.new_id().replace('-', ""));
        record.open_tool = Some(tool_use_id.clone());
        let content = json!([{"type": "tool_use", "id": tool_use_id, "name": tool, "input": input}]);
        if self.flags.streams {
            self.stream_start(&id)?;
        }
        let line = assistant(&self.model, &id, content);
        self.wire.message(line)?;
        if self.flags.streams {
            self.stream_end(&id, "tool_use", record.used)?;
        }
        let permission = match self.permission(tool, &tool_use_id, input) {
            Err(Cut::Interrupted) => {
                record.denials.push(denial(tool, &tool_use_id, input));
                return Err(Cut::Interrupted);
            }
            other => other?,
        };
        record.open_tool = None;
        match permission {
            Permission::Allowed(input) => {
                self.tool_result(&tool_use_id, "(simulated: nothing was run)", false)?;
                Ok(Some(input))
            }
            Permission::Denied(message) => {
                record.denials.push(denial(tool, &tool_use_id, input));
                self.tool_result(&tool_use_id, &message, true)?;
                Ok(None)
            }
        }
    }

    fn tool_result(&mut self, tool_use_id: &str, text: &str, is_error: bool) -> Result<(), Fatal> {
        self.wire.message(json!({
            "type": "user", "parent_tool_use_id": null, "tool_use_result": text,
            "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": tool_use_id, "content": text, "is_error": is_error},
            ]},
        }))?;
        Ok(())
    }

    /// Closes what an interrupt cut off; returns the reason for the result.
    fn aborted(&mut self, record: &mut Record) -> Result<&'static str, Fatal> {
        if let Some((id, said)) = record.streaming.take() {
            if !said.is_empty() {
                let mut line = assistant(&self.model, &id, json!([{"type": "text", "text": said}]));
                if let Value::Object(fields) = &mut line {
                    fields.insert("aborted".into(), true.into());
                }
                self.wire.message(line)?;
            }
            self.interrupted_note("[Request interrupted by user]")?;
            if self.flags.streams {
                self.stream(&id, &json!({"type": "content_block_stop", "index": 0}))?;
                self.stream_end(&id, "", record.used)?;
            }
            return Ok("aborted_streaming");
        }
        if let Some(tool_use_id) = record.open_tool.take() {
            self.tool_result(
                &tool_use_id,
                "The user doesn't want to proceed with this tool use.",
                true,
            )?;
        }
        self.interrupted_note("[Request interrupted by user for tool use]")?;
        Ok("aborted_tools")
    }

    fn interrupted_note(&mut self, text: &str) -> Result<(), Fatal> {
        self.wire.message(json!({
            "type": "user", "parent_tool_use_id": null,
            "message": {"role": "user", "content": [{"type": "text", "text": text}]},
        }))?;
        Ok(())
    }

    fn result(
        &mut self,
        prompt: &Prompt,
        record: &Record,
        aborted: Option<&'static str>,
        milliseconds: u64,
    ) -> Result<(), Fatal> {
        self.conversation.end_turn(record.used)?;
        let totals = self.conversation.totals();
        let mut result = json!({
            "type": "result", "is_error": aborted.is_some() || record.error.is_some(),
            "duration_ms": milliseconds, "duration_api_ms": milliseconds, "num_turns": record.calls.max(1),
            "total_cost_usd": 0, "usage": wire::usage(record.used),
            "modelUsage": {self.model.clone(): model_usage(totals)},
            "model_usage_since_last_result": {self.model.clone(): model_usage(record.used)},
            "permission_denials": record.denials, "result_index": self.results, "queued_turn_count": self.queue.len(),
        });
        let more = match (aborted, &record.error) {
            (Some(reason), _) => json!({
                "subtype": "error_during_execution", "stop_reason": null, "terminal_reason": reason,
                "errors": ["the turn was interrupted (simulated agent)"],
            }),
            (None, Some(error)) => json!({
                "subtype": "success", "stop_reason": "stop_sequence", "terminal_reason": "api_error",
                "api_error_status": 500, "result": error,
            }),
            (None, None) => json!({
                "subtype": "success", "stop_reason": "end_turn", "terminal_reason": "completed",
                "result": record.answer,
            }),
        };
        if let (Value::Object(fields), Value::Object(more)) = (&mut result, more) {
            fields.extend(more);
            if let Some(uuid) = &prompt.uuid {
                fields.insert("user_message_uuids".into(), json!([uuid]));
            }
        }
        self.results += 1;
        self.wire.message(result)?;
        Ok(())
    }

    fn message_id(&mut self, record: &mut Record) -> String {
        const TOKENS_PER_CALL: u64 = 100;
        record.calls += 1;
        record.used.input += TOKENS_PER_CALL;
        format!("msg_sim_{}", self.wire.new_id().replace('-', ""))
    }

    fn stream_start(&mut self, id: &str) -> Result<(), Fatal> {
        self.wire
            .message(json!({"type": "system", "subtype": "status", "status": "requesting"}))?;
        let message = json!({
            "id": id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": wire::usage(Tokens::default()),
        });
        self.stream(id, &json!({"type": "message_start", "message": message}))
    }

    fn stream_end(&mut self, id: &str, stop_reason: &str, used: Tokens) -> Result<(), Fatal> {
        let reason = if stop_reason.is_empty() {
            Value::Null
        } else {
            Value::from(stop_reason)
        };
        self.stream(
            id,
            &json!({
                "type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
                "usage": {"output_tokens": used.output},
            }),
        )?;
        self.stream(id, &json!({"type": "message_stop"}))
    }

    fn stream(&mut self, id: &str, event: &Value) -> Result<(), Fatal> {
        self.wire.message(json!({
            "type": "stream_event", "event": event, "parent_tool_use_id": null, "api_message_id": id,
        }))?;
        Ok(())
    }
}

fn assistant(model: &str, id: &str, content: Value) -> Value {
    json!({
        "type": "assistant", "parent_tool_use_id": null,
        "message": {
            "id": id, "type": "message", "role": "assistant", "model": model, "content": content,
            "stop_reason": null, "stop_sequence": null, "usage": wire::usage(Tokens::default()),
        },
    })
}

fn denial(tool: &str, tool_use_id: &str, input: &Value) -> Value {
    json!({"tool_name": tool, "tool_use_id": tool_use_id, "tool_input": input})
}

fn model_usage(tokens: Tokens) -> Value {
    json!({
        "inputTokens": tokens.input, "outputTokens": tokens.output, "cacheReadInputTokens": 0,
        "cacheCreationInputTokens": 0, "webSearchRequests": 0, "costUSD": 0,
        "costBasis": "simulated",
    })
}

fn questions() -> Value {
    json!({"questions": [
        {"question": "Which colour does the simulation get?", "header": "Colour", "multiSelect": false, "options": [
            {"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]},
        {"question": "Which sizes shall it come in?", "header": "Sizes", "multiSelect": true, "options": [
            {"label": "S", "description": "small"}, {"label": "L", "description": "large"}]},
    ]})
}
