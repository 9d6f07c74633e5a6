//! Owns the lines that go to the CLI's stdin: how ours are built, and which of a client's may pass. A line that the CLI
//! cannot parse ends it, so nothing reaches stdin unchecked.

use std::{borrow::Cow, fmt, io::Write};

use serde_json::value::RawValue;

use super::{
    control::{Fields, raw_value},
    json,
};
use crate::domain::PromptUuid;

/// What a user message says.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Plain text.
    Text(&'a str),
    /// A JSON list of content blocks, byte for byte.
    Blocks(&'a RawValue),
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
    /// What it says.
    pub content: Content<'a>,
    /// Its id; the CLI sends receipts only for messages that have one.
    pub uuid: PromptUuid,
    /// When it takes its turn. Default: the CLI's (`next`).
    pub priority: Option<Priority>,
    /// Whether the model answers. With `false` it is only added to the conversation. Default: true.
    pub should_query: Option<bool>,
    /// Whether it reaches the model as it is ([`LaunchOptions::verbatim_prompts`](super::LaunchOptions)).
    pub client_composed: bool,
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
    line.end()
}

/// The line of a client's user message ([`ClientLine::User`]) with what it lacks added: an id, the mark of a prompt that
/// reaches the model as it is. All else stays byte for byte.
pub fn complete_user_line(line: &str, uuid: Option<PromptUuid>, client_composed: bool) -> Vec<u8> {
    let Some(body) = line.trim_end().strip_suffix('}') else {
        return line.as_bytes().to_vec();
    };
    // A user line has a type at least, so a comma is always needed. Of a repeated name the last counts.
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

/// What the journal gets of an answer that holds a secret: that it was given, and nothing of it.
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

/// A line of a client that may reach stdin once its ids are ours.
#[derive(Clone)]
pub enum ClientLine<'a> {
    /// A user message.
    User {
        /// Its id, when the client gave one.
        uuid: Option<PromptUuid>,
        /// The content, byte for byte: a string or a list of blocks.
        content: &'a str,
        /// The line without its surrounding white space.
        line: &'a str,
    },
    /// A request to the CLI.
    ControlRequest {
        /// The client's id of it.
        request_id: Cow<'a, str>,
        /// What is asked.
        subtype: Cow<'a, str>,
        /// The whole `request` object.
        request: &'a str,
    },
    /// An answer to a request of the CLI.
    ControlResponse {
        /// The id of the request.
        request_id: Cow<'a, str>,
        /// The payload (`None` when there is none), or the error's text and code.
        outcome: Result<Option<Box<RawValue>>, ClientError>,
    },
    /// A request is taken back.
    ControlCancelRequest {
        /// The client's id of it.
        request_id: Cow<'a, str>,
    },
    /// A sign of life, for nobody.
    KeepAlive,
    /// Fresh credentials.
    UpdateEnvironmentVariables {
        /// The client's id of it, when it wants to know what was taken.
        request_id: Option<Cow<'a, str>>,
        /// The line without its surrounding white space.
        line: &'a str,
    },
}

/// Shows only what kind of line it is: some hold secrets.
impl fmt::Debug for ClientLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User { .. } => "User",
            Self::ControlRequest { .. } => "ControlRequest",
            Self::ControlResponse { .. } => "ControlResponse",
            Self::ControlCancelRequest { .. } => "ControlCancelRequest",
            Self::KeepAlive => "KeepAlive",
            Self::UpdateEnvironmentVariables { .. } => "UpdateEnvironmentVariables",
        })
    }
}

/// A client's refusal of a request of the CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientError {
    /// The reason.
    pub error: String,
    /// Its code.
    pub error_code: Option<String>,
}

/// A line that must not reach stdin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// Nothing but white space.
    #[error("the line is empty")]
    Empty,
    /// A line break inside.
    #[error("the line has a line break inside")]
    LineBreak,
    /// Not one JSON value in UTF-8.
    #[error("the line is not valid JSON")]
    NotJson,
    /// JSON, but no object.
    #[error("the line is not a JSON object")]
    NotAnObject,
    /// No `type`, or one that is no string.
    #[error("the line has no type")]
    NoType,
    /// A `type` that the CLI does not take from a client.
    #[error("lines of type {0:?} cannot be sent")]
    UnknownType(String),
    /// A user message that the CLI would not take.
    #[error("the user message {0}")]
    BadUser(&'static str),
    /// A control message without what it needs.
    #[error("the control message {0}")]
    BadControl(&'static str),
    /// `update_environment_variables` without a map of strings.
    #[error("the variables are not a map of strings")]
    BadVariables,
}

/// Longest type that an error repeats, in characters.
const MAX_NAMED_TYPE: usize = 64;

/// Checks a line of a client.
///
/// # Errors
/// Why it must not reach stdin.
pub fn check_client_line(line: &[u8]) -> Result<ClientLine<'_>, BadLine> {
    let line = std::str::from_utf8(line)
        .map_err(|_| BadLine::NotJson)?
        .trim_matches([' ', '\t', '\r', '\n']);
    if line.is_empty() {
        return Err(BadLine::Empty);
    }
    if line.contains(['\n', '\r']) {
        return Err(BadLine::LineBreak);
    }
    let names = [
        "type",
        "request_id",
        "request",
        "response",
        "message",
        "uuid",
        "variables",
    ];
    let [kind, given_id, request, response, message, uuid, variables] = json::members(line, names)
        .ok_or_else(|| {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok();
            if is_json {
                BadLine::NotAnObject
            } else {
                BadLine::NotJson
            }
        })?;
    let kind = kind.and_then(json::string).ok_or(BadLine::NoType)?;
    let request_id = |absent| {
        given_id
            .and_then(json::string)
            .filter(|id| !id.is_empty())
            .ok_or(BadLine::BadControl(absent))
    };
    match kind.as_ref() {
        "user" => check_user(line, message, uuid),
        "control_request" => {
            let request = request
                .filter(|request| json::is_object(request))
                .ok_or(BadLine::BadControl("has no request object"))?;
            let subtype = json::members(request, ["subtype"])
                .and_then(|[subtype]| subtype)
                .and_then(json::string)
                .filter(|subtype| !subtype.is_empty())
                .ok_or(BadLine::BadControl("has no subtype"))?;
            Ok(ClientLine::ControlRequest {
                request_id: request_id("has no request_id")?,
                subtype,
                request,
            })
        }
        "control_response" => check_response(response),
        "control_cancel_request" => Ok(ClientLine::ControlCancelRequest {
            request_id: request_id("has no request_id")?,
        }),
        "keep_alive" => Ok(ClientLine::KeepAlive),
        "update_environment_variables" => {
            let mut all_strings = true;
            variables
                .and_then(|map| json::for_each_member(map, |_, value| all_strings &= value.starts_with('"')))
                .filter(|()| all_strings)
                .ok_or(BadLine::BadVariables)?;
            let request_id = match given_id.filter(|id| *id != "null") {
                None => None,
                Some(_) => Some(request_id("has a request_id that is no text")?),
            };
            Ok(ClientLine::UpdateEnvironmentVariables { request_id, line })
        }
        other => Err(BadLine::UnknownType(other.chars().take(MAX_NAMED_TYPE).collect())),
    }
}

fn check_user<'a>(
    line: &'a str,
    message: Option<&'a str>,
    uuid: Option<&'a str>,
) -> Result<ClientLine<'a>, BadLine> {
    let [role, content] = message
        .and_then(|message| json::members(message, ["role", "content"]))
        .ok_or(BadLine::BadUser("has no message object"))?;
    if role.and_then(json::string).as_deref() != Some("user") {
        return Err(BadLine::BadUser("has another role than user"));
    }
    let content = content
        .filter(|content| content.starts_with(['"', '[']))
        .ok_or(BadLine::BadUser(
            "has content that is neither text nor a list of blocks",
        ))?;
    if json::items(content).is_some_and(|blocks| !blocks.into_iter().all(json::is_object)) {
        return Err(BadLine::BadUser("has a content block that is no object"));
    }
    let uuid = match uuid.filter(|uuid| *uuid != "null") {
        None => None,
        Some(uuid) => Some(
            json::string(uuid)
                .and_then(|uuid| uuid.parse().ok())
                .ok_or(BadLine::BadUser("has a uuid that is no UUID"))?,
        ),
    };
    Ok(ClientLine::User { uuid, content, line })
}

fn check_response(response: Option<&str>) -> Result<ClientLine<'_>, BadLine> {
    let [subtype, request_id, payload, error, error_code] = response
        .and_then(|response| {
            json::members(
                response,
                ["subtype", "request_id", "response", "error", "error_code"],
            )
        })
        .ok_or(BadLine::BadControl("has no response object"))?;
    let request_id = request_id
        .and_then(json::string)
        .filter(|id| !id.is_empty())
        .ok_or(BadLine::BadControl("has no request_id"))?;
    let outcome = match subtype.and_then(json::string).as_deref() {
        Some("success") => Ok(payload.and_then(raw_value)),
        Some("error") => Err(ClientError {
            error: error
                .and_then(json::decode_lossy)
                .unwrap_or_default()
                .into_owned(),
            error_code: error_code.and_then(json::decode_lossy).map(Cow::into_owned),
        }),
        _ => return Err(BadLine::BadControl("is neither a success nor an error")),
    };
    Ok(ClientLine::ControlResponse { request_id, outcome })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::claude::recordings::recording;

    const UUID: &str = "bbbbbbbb-0000-4000-8000-000000000013";

    fn parsed(line: &[u8]) -> Value {
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        serde_json::from_slice(line).unwrap()
    }

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn message(content: Content<'_>) -> UserMessage<'_> {
        UserMessage {
            content,
            uuid: UUID.parse().unwrap(),
            priority: None,
            should_query: None,
            client_composed: false,
        }
    }

    fn text_of(line: &[u8]) -> &str {
        std::str::from_utf8(line).unwrap()
    }

    #[test]
    fn of_credentials_the_journal_gets_the_names_only() {
        let line = r#"{"request_id":"theirs","type":"update_environment_variables","variables":{"A":"PLANTED","B\n":"PLANTED"},"new":[1, 2]}"#;
        let checked = check_client_line(line.as_bytes()).unwrap();
        assert!(!format!("{checked:?}").contains("PLANTED"));
        let ClientLine::UpdateEnvironmentVariables { request_id, line } = checked else {
            panic!("{checked:?}");
        };
        assert_eq!(request_id.as_deref(), Some("theirs"));
        let (text, record) = relayed_variables(line, Some("ours"));
        assert_eq!(
            parsed(&text),
            json!({
                "type": "update_environment_variables", "request_id": "ours", "new": [1, 2],
                "variables": {"A": "PLANTED", "B\n": "PLANTED"},
            })
        );
        assert_eq!(
            parsed(&record),
            json!({
                "type": "update_environment_variables", "request_id": "ours", "redacted": true,
                "variables": {"A": "redacted", "B\n": "redacted"},
            })
        );
        let (text, record) = relayed_variables(line, None);
        assert!(parsed(&text).get("request_id").is_none());
        assert!(parsed(&record).get("request_id").is_none());
        for bad in [r#""""#, "7"] {
            let line =
                format!(r#"{{"type":"update_environment_variables","variables":{{}},"request_id":{bad}}}"#);
            assert!(check_client_line(line.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn of_an_answer_with_a_secret_the_journal_gets_that_it_was_given() {
        let given = parsed(&redacted_response("r", true));
        assert_eq!(
            given,
            json!({"type": "control_response", "response": {
                "subtype": "success", "request_id": "r", "response": {"redacted": true},
            }})
        );
        let refused = parsed(&redacted_response("r", false));
        assert_eq!(
            refused["response"],
            json!({"subtype": "error", "request_id": "r", "error": "redacted"})
        );
    }

    #[test]
    fn a_prompt_is_a_user_line_with_an_id() {
        let line = user_message(&message(Content::Text("say \"hi\"\n\u{2028}/x")));
        assert_eq!(
            parsed(&line),
            json!({
                "type": "user",
                "message": {"role": "user", "content": "say \"hi\"\n\u{2028}/x"},
                "parent_tool_use_id": null,
                "session_id": "",
                "uuid": UUID,
            })
        );
        let full = user_message(&UserMessage {
            priority: Some(Priority::Now),
            should_query: Some(false),
            client_composed: true,
            ..message(Content::Text(""))
        });
        let full = parsed(&full);
        assert_eq!(full["priority"], "now");
        assert_eq!(full["shouldQuery"], false);
        assert_eq!(full["client_composed"], true);
    }

    #[test]
    fn content_blocks_keep_their_bytes_on_one_line() {
        let blocks = raw("[ {\"type\":\"text\",\r\n\"text\":\"\\ud800 \\n\",\"n\":1.0} ]");
        let line = user_message(&message(Content::Blocks(&blocks)));
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        let kept = r#"[ {"type":"text",  "text":"\ud800 \n","n":1.0} ]"#;
        assert!(text_of(&line).contains(kept), "{}", text_of(&line));
    }

    #[test]
    fn a_request_is_always_the_full_envelope() {
        let line = control_request("d-1", "interrupt", &Fields::new());
        assert_eq!(
            text_of(&line),
            r#"{"type":"control_request","request_id":"d-1","request":{"subtype":"interrupt"}}"#
        );
        let fields = Fields::of_object(r#"{"model":"x\ud800","subtype":"other"}"#).unwrap();
        assert_eq!(
            text_of(&control_request("d-2", "set_model", &fields)),
            r#"{"type":"control_request","request_id":"d-2","request":{"subtype":"set_model","model":"x\ud800"}}"#
        );
    }

    #[test]
    fn answers_carry_the_clis_id_and_the_payloads_bytes() {
        let payload = raw(r#"{"behavior":"allow","updatedInput":{"a":1.50,"s":"\ud83d"}}"#);
        let line = control_success("r\"1", Some(&payload));
        assert_eq!(
            text_of(&line),
            format!(
                r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"r\"1","response":{}}}}}"#,
                payload.get()
            )
        );
        let bare = parsed(&control_success("r", None));
        assert!(bare["response"].get("response").is_none());
        let refused = parsed(&control_error("r", "nobody answers", Some("unsupported_request")));
        assert_eq!(
            refused["response"],
            json!({"subtype": "error", "request_id": "r", "error": "nobody answers", "error_code": "unsupported_request"})
        );
        assert!(
            parsed(&control_error("r", "x", None))["response"]
                .get("error_code")
                .is_none()
        );
        assert_eq!(
            parsed(&control_cancel_request("d-1")),
            json!({"type": "control_cancel_request", "request_id": "d-1"})
        );
    }

    /// What the official host wrote in recorded sessions passes.
    #[test]
    fn lines_that_the_real_cli_took_pass() {
        for line in recording!("03-tool-allow.stdin")
            .lines()
            .chain(recording!("12-ask-user-question.stdin").lines())
        {
            check_client_line(line.as_bytes()).unwrap();
        }
    }

    #[test]
    fn each_kind_of_line_is_told_apart() {
        let user = format!(
            r#" {{"type":"user","message":{{"role":"user","content":"hi"}},"uuid":"{UUID}","new":1}} "#
        );
        let Ok(ClientLine::User { uuid, content, line }) = check_client_line(user.as_bytes()) else {
            panic!("a user line");
        };
        assert_eq!((uuid.unwrap().to_string().as_str(), content), (UUID, "\"hi\""));
        assert_eq!(line, user.trim());
        let Ok(ClientLine::ControlRequest { request_id, subtype, request }) =
            check_client_line(b"{\"type\":\"control_request\",\"request_id\":\"1\",\"request\":{\"subtype\":\"brand_new\",\"x\":1}}\r")
        else {
            panic!("a request");
        };
        assert_eq!((request_id.as_ref(), subtype.as_ref()), ("1", "brand_new"));
        assert_eq!(request, r#"{"subtype":"brand_new","x":1}"#);
        let answer = br#"{"type":"control_response","response":{"subtype":"success","request_id":"r","response":{"behavior":"allow"}}}"#;
        let Ok(ClientLine::ControlResponse { request_id, outcome }) = check_client_line(answer) else {
            panic!("an answer");
        };
        assert_eq!(request_id, "r");
        assert_eq!(outcome.unwrap().unwrap().get(), r#"{"behavior":"allow"}"#);
        let refusal =
            br#"{"type":"control_response","response":{"subtype":"error","request_id":"r","error":"no"}}"#;
        let Ok(ClientLine::ControlResponse { outcome, .. }) = check_client_line(refusal) else {
            panic!("a refusal");
        };
        assert_eq!(outcome.unwrap_err().error, "no");
        assert!(matches!(
            check_client_line(br#"{"type":"control_cancel_request","request_id":"1"}"#),
            Ok(ClientLine::ControlCancelRequest { .. })
        ));
        assert!(matches!(
            check_client_line(br#"{"type":"keep_alive"}"#),
            Ok(ClientLine::KeepAlive)
        ));
        assert!(matches!(
            check_client_line(
                br#"{"type":"update_environment_variables","variables":{"A":"b"},"request_id":null}"#
            ),
            Ok(ClientLine::UpdateEnvironmentVariables { .. })
        ));
    }

    /// Each of these would end the CLI, or be dropped by it without a word.
    #[test]
    fn what_would_harm_the_cli_is_refused_with_its_reason() {
        for (line, error) in [
            ("", BadLine::Empty),
            (" \r\n", BadLine::Empty),
            ("this is not json", BadLine::NotJson),
            (r#"{"type":"user""#, BadLine::NotJson),
            (r#"{"type":"keep_alive"}{"type":"keep_alive"}"#, BadLine::NotJson),
            (
                "{\"type\":\"keep_alive\"}\n{\"type\":\"keep_alive\"}",
                BadLine::LineBreak,
            ),
            ("{\n\"type\":\"keep_alive\"}", BadLine::LineBreak),
            ("[1,2]", BadLine::NotAnObject),
            ("null", BadLine::NotAnObject),
            ("{}", BadLine::NoType),
            (r#"{"type":1}"#, BadLine::NoType),
            (
                r#"{"type":"assistant"}"#,
                BadLine::UnknownType("assistant".to_owned()),
            ),
            (
                r#"{"type":"trunkline.x"}"#,
                BadLine::UnknownType("trunkline.x".to_owned()),
            ),
            (r#"{"type":"user"}"#, BadLine::BadUser("has no message object")),
            (
                r#"{"type":"user","message":{"role":"assistant","content":"x"}}"#,
                BadLine::BadUser("has another role than user"),
            ),
            (
                r#"{"type":"user","message":{"role":"user","role":"system","content":"x"}}"#,
                BadLine::BadUser("has another role than user"),
            ),
            (
                r#"{"type":"user","message":{"role":"user"}}"#,
                BadLine::BadUser("has content that is neither text nor a list of blocks"),
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":["x"]}}"#,
                BadLine::BadUser("has a content block that is no object"),
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":"x"},"uuid":"me"}"#,
                BadLine::BadUser("has a uuid that is no UUID"),
            ),
            (
                r#"{"type":"control_request","request_id":"1","subtype":"interrupt"}"#,
                BadLine::BadControl("has no request object"),
            ),
            (
                r#"{"type":"control_request","request_id":"1","request":{}}"#,
                BadLine::BadControl("has no subtype"),
            ),
            (
                r#"{"type":"control_request","request_id":1,"request":{"subtype":"x"}}"#,
                BadLine::BadControl("has no request_id"),
            ),
            (
                r#"{"type":"control_response","response":{"request_id":"1"}}"#,
                BadLine::BadControl("is neither a success nor an error"),
            ),
            (
                r#"{"type":"control_response","response":{"subtype":"success"}}"#,
                BadLine::BadControl("has no request_id"),
            ),
            (
                r#"{"type":"control_cancel_request"}"#,
                BadLine::BadControl("has no request_id"),
            ),
            (
                r#"{"type":"update_environment_variables","variables":{"A":1}}"#,
                BadLine::BadVariables,
            ),
        ] {
            assert_eq!(check_client_line(line.as_bytes()).unwrap_err(), error, "{line}");
        }
        assert_eq!(
            check_client_line(b"{\"a\":\"\xff\"}").unwrap_err(),
            BadLine::NotJson
        );
        let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(5000));
        let error = check_client_line(long.as_bytes()).unwrap_err();
        assert!(error.to_string().len() < 150);
    }

    #[test]
    fn a_clients_line_gets_what_it_lacks_and_keeps_the_rest() {
        let line = r#"{"type":"user","message":{"role":"user","content":"\ud800"},"n":1.0,"uuid":null}"#;
        let completed = complete_user_line(line, Some(UUID.parse().unwrap()), true);
        assert_eq!(
            text_of(&completed),
            format!(
                r#"{},"uuid":"{UUID}","client_composed":true}}"#,
                &line[..line.len() - 1]
            )
        );
        let Ok(ClientLine::User { uuid, .. }) = check_client_line(&completed) else {
            panic!("still a user line");
        };
        assert_eq!(uuid.unwrap().to_string(), UUID);
        assert_eq!(complete_user_line(line, None, false), line.as_bytes());
    }

    proptest! {
        /// No text and no raw value can break out of its line or its place.
        #[test]
        fn built_lines_are_one_json_object_each(text in "\\PC{0,30}|[\"\\\\\n\r{}\u{0}-\u{1F}]{0,20}") {
            let quoted = raw(&Value::from(text.as_str()).to_string());
            let mut fields = Fields::new();
            fields.set(&text, &text);
            for line in [
                user_message(&message(Content::Text(&text))),
                control_request(&text, &text, &fields),
                control_success(&text, Some(&quoted)),
                control_error(&text, &text, Some(&text)),
                control_cancel_request(&text),
            ] {
                let value = parsed(&line);
                prop_assert!(value.is_object());
                prop_assert!(json::members(text_of(&line), [""; 0]).is_some());
            }
            let line = user_message(&message(Content::Text(&text)));
            let value = parsed(&line);
            prop_assert_eq!(value["message"]["content"].as_str(), Some(text.as_str()));
        }
    }
}
