//! Owns the lines that go to the CLI's stdin: how ours are built. A line that the CLI cannot parse ends it, so nothing reaches
//! stdin unchecked.

mod client;
#[cfg(test)]
mod tests;

use std::io::Write;

use serde_json::value::RawValue;

use super::control::Fields;
use crate::{domain::PromptUuid, json};

pub use self::client::{BadLine, ClientError, ClientLine, check_client_line};

/// The content of a user message.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Plain text.
    Text(&'a str),
    /// A JSON list of content blocks, byte for byte.
    Blocks(&'a RawValue),
}

/// Whether the content of a user message, as JSON, says nothing: blank text, or a list of nothing but blocks of such text. The
/// model API refuses a conversation with such a message in it.
pub fn is_blank(content: &str) -> bool {
    let is_blank_text = |raw: &str| json::string(raw).is_some_and(|text| text.trim().is_empty());
    let is_blank_block = |block: &str| {
        let Some([Some(kind), text]) = json::members(block, ["type", "text"]) else {
            return false;
        };
        json::string(kind).as_deref() == Some("text") && text.is_none_or(is_blank_text)
    };
    match json::items(content) {
        Some(blocks) => blocks.into_iter().all(is_blank_block),
        None => is_blank_text(content),
    }
}

/// When a prompt takes its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// At once: what runs is interrupted.
    Now,
    /// At the next opportunity, also in the middle of a turn.
    Next,
    /// After the turn.
    Later,
}

impl Priority {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Next => "next",
            Self::Later => "later",
        }
    }
}

/// A user message.
#[derive(Clone, Copy, Debug)]
pub struct UserMessage<'a> {
    /// Its content.
    pub content: Content<'a>,
    /// Its id; the CLI sends receipts only for messages that have one.
    pub uuid: PromptUuid,
    /// When it takes its turn. Default: the CLI's (`next`).
    pub priority: Option<Priority>,
    /// Whether the model answers. With `false` it is only added to the conversation. Default: true.
    pub should_query: Option<bool>,
    /// Whether it reaches the model as it is ([`LaunchOptions::verbatim_prompts`](super::LaunchOptions)).
    pub client_composed: bool,
    /// More members of it, byte for byte.
    pub more: &'a [(&'static str, &'a RawValue)],
}

/// The line of a user message.
pub fn user_message(message: &UserMessage<'_>) -> Vec<u8> {
    let mut line = Line::new();
    line.text("type", "user");
    line.open("message");
    line.text("role", "user");
    match message.content {
        Content::Text(text) => line.text("content", text),
        Content::Blocks(blocks) => line.raw("content", blocks.get()),
    }
    line.close();
    line.raw("parent_tool_use_id", "null");
    line.text("session_id", "");
    line.text("uuid", &message.uuid.hyphenated().to_string());
    if let Some(priority) = message.priority {
        line.text("priority", priority.as_str());
    }
    if let Some(should_query) = message.should_query {
        line.raw("shouldQuery", if should_query { "true" } else { "false" });
    }
    if message.client_composed {
        line.raw("client_composed", "true");
    }
    for (name, value) in message.more {
        line.raw(name, value.get());
    }
    line.end()
}

/// The line of a client's user message ([`ClientLine::User`]) with what it lacks added: an id, the mark of a prompt that
/// reaches the model as it is. All else stays byte for byte.
pub fn complete_user_line(line: &str, uuid: Option<PromptUuid>, client_composed: bool) -> Vec<u8> {
    let Some(body) = line.trim_end().strip_suffix('}') else {
        return line.as_bytes().to_vec();
    };
    // A user line has a type at least, so a comma is always needed. If a name repeats, the last one counts.
    let mut bytes = body.as_bytes().to_vec();
    if let Some(uuid) = uuid {
        bytes.extend_from_slice(format!(r#","uuid":"{}""#, uuid.hyphenated()).as_bytes());
    }
    if client_composed {
        bytes.extend_from_slice(br#","client_composed":true"#);
    }
    bytes.push(b'}');
    bytes
}

/// The line of a request to the CLI.
pub fn control_request(request_id: &str, subtype: &str, fields: &Fields) -> Vec<u8> {
    let mut line = Line::new();
    line.text("type", "control_request");
    line.text("request_id", request_id);
    line.open("request");
    line.text("subtype", subtype);
    for (name, value) in fields.iter() {
        if name != "subtype" {
            line.raw(name, value.get());
        }
    }
    line.close();
    line.end()
}

/// The `request` object of a request to the CLI.
pub fn request_object(subtype: &str, fields: &Fields) -> Vec<u8> {
    let mut object = Line::new();
    object.text("subtype", subtype);
    for (name, value) in fields.iter() {
        if name != "subtype" {
            object.raw(name, value.get());
        }
    }
    object.end()
}

/// The line of a client's request to the CLI: its `request` object byte for byte, line ends between tokens apart.
pub fn relayed_request(request_id: &str, request: &str) -> Vec<u8> {
    let mut line = Line::new();
    line.text("type", "control_request");
    line.text("request_id", request_id);
    line.raw("request", request);
    line.end()
}

/// The line that answers a request of the CLI.
pub fn control_success(request_id: &str, payload: Option<&RawValue>) -> Vec<u8> {
    let mut line = Line::new();
    line.text("type", "control_response");
    line.open("response");
    line.text("subtype", "success");
    line.text("request_id", request_id);
    if let Some(payload) = payload {
        line.raw("response", payload.get());
    }
    line.close();
    line.end()
}

/// The line that refuses a request of the CLI.
pub fn control_error(request_id: &str, message: &str, code: Option<&str>) -> Vec<u8> {
    let mut line = Line::new();
    line.text("type", "control_response");
    line.open("response");
    line.text("subtype", "error");
    line.text("request_id", request_id);
    line.text("error", message);
    if let Some(code) = code {
        line.text("error_code", code);
    }
    line.close();
    line.end()
}

/// The journal's version of an answer that holds a secret: that it was given, and nothing of it.
pub fn redacted_response(request_id: &str, is_success: bool) -> Vec<u8> {
    if !is_success {
        return control_error(request_id, "redacted", None);
    }
    let mut line = Line::new();
    line.text("type", "control_response");
    line.open("response");
    line.text("subtype", "success");
    line.text("request_id", request_id);
    line.raw("response", r#"{"redacted":true}"#);
    line.close();
    line.end()
}

/// The line of a client's `update_environment_variables` under another id, and what the journal gets of it: the names of
/// the variables.
pub fn relayed_variables(line: &str, request_id: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    let (mut text, mut record) = (Line::new(), Line::new());
    let mut variables = "{}";
    let visited = json::for_each_member(line, |name, value| match name {
        "request_id" => {}
        "variables" => {
            text.raw(name, value);
            variables = value;
        }
        _ => text.raw(name, value),
    });
    debug_assert!(visited.is_some(), "the line was not checked");
    record.text("type", "update_environment_variables");
    if let Some(id) = request_id {
        text.text("request_id", id);
        record.text("request_id", id);
    }
    record.open("variables");
    // It was checked that this is a map.
    let _ = json::for_each_member(variables, |name, _| record.text(name, "redacted"));
    record.close();
    record.raw("redacted", "true");
    (text.end(), record.end())
}

/// The line that takes one of our requests back.
pub fn control_cancel_request(request_id: &str) -> Vec<u8> {
    let mut line = Line::new();
    line.text("type", "control_cancel_request");
    line.text("request_id", request_id);
    line.end()
}

/// A line under construction.
struct Line {
    bytes: Vec<u8>,
    first: bool,
}

impl Line {
    fn new() -> Self {
        Self {
            bytes: vec![b'{'],
            first: true,
        }
    }

    fn name(&mut self, name: &str) {
        if !self.first {
            self.bytes.push(b',');
        }
        self.first = false;
        self.string(name);
        self.bytes.push(b':');
    }

    fn string(&mut self, text: &str) {
        // Neither a string nor a vector can fail to be written.
        let written = serde_json::to_writer(&mut self.bytes, text);
        debug_assert!(written.is_ok(), "a string was not written");
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.string(value);
    }

    /// Line ends may stand between the tokens of a raw value; on the wire they would end the line.
    fn raw(&mut self, name: &str, value: &str) {
        self.name(name);
        if value.contains(['\n', '\r']) {
            self.bytes.extend(value.bytes().map(|byte| match byte {
                b'\n' | b'\r' => b' ',
                other => other,
            }));
        } else {
            let written = self.bytes.write_all(value.as_bytes());
            debug_assert!(written.is_ok(), "a value was not written");
        }
    }

    fn open(&mut self, name: &str) {
        self.name(name);
        self.bytes.push(b'{');
        self.first = true;
    }

    fn close(&mut self) {
        self.bytes.push(b'}');
        self.first = false;
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(b'}');
        self.bytes
    }
}
