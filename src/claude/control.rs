//! Owns the control protocol's two messages as the session reads them: a request of the CLI and an answer of the CLI.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Envelope;
use crate::json;

/// The fields of a control request apart from its `subtype`, each byte for byte, in the order they were set.
#[derive(Clone, Default)]
pub struct Fields(Vec<(String, Box<RawValue>)>);

/// Names alone: the values may hold secrets.
impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl Fields {
    /// No fields.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Sets a field, in the place of an earlier one of this name.
    pub fn set<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        // Only a map with keys that are no strings, or a type that refuses, cannot be written as JSON.
        if let Ok(value) = serde_json::value::to_raw_value(value) {
            self.set_raw(name, value);
        }
    }

    /// Sets a field to a raw value.
    pub fn set_raw(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// The field with this name.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.iter()
            .find_map(|(known, value)| (known == name).then_some(value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes a field.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// The fields as an object.
    pub fn to_object(&self) -> Option<Box<RawValue>> {
        let mut text = String::from("{");
        for (name, value) in self.iter() {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::to_string(name).ok()?);
            text.push(':');
            text.push_str(value.get());
        }
        text.push('}');
        RawValue::from_string(text).ok()
    }

    /// Name and value of each field.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// The fields of a raw object, its `subtype` left out; `None` when `object` is no object.
    pub fn of_object(object: &str) -> Option<Self> {
        let mut fields = Self::new();
        json::for_each_member(object, |name, value| {
            if name != "subtype"
                && let Some(value) = raw_value(value)
            {
                fields.set_raw(name, value);
            }
        })?;
        Some(fields)
    }
}

/// The object with another value for this member.
pub fn replaced(object: &str, name: &str, value: Box<RawValue>) -> Option<Box<RawValue>> {
    let mut fields = Fields::new();
    // A value that is no object has no members.
    let _read = json::for_each_member(object, |known, value| {
        if known != name
            && let Some(value) = raw_value(value)
        {
            fields.set_raw(known, value);
        }
    });
    fields.set_raw(name, value);
    fields.to_object()
}

/// A request of the CLI to its host.
#[derive(Clone, Debug)]
pub struct ControlRequest {
    /// The CLI's id, which the answer must carry.
    pub request_id: String,
    /// The subtype: `can_use_tool`, `hook_callback`, `mcp_message`, `elicitation`, …; unknown ones included.
    pub subtype: String,
    /// The whole `request` object.
    pub request: Box<RawValue>,
}

impl ControlRequest {
    /// The request in a `control_request` line; `None` when the line is none, or has no id, object or subtype.
    pub fn read(envelope: &Envelope<'_>) -> Option<Self> {
        if envelope.kind.as_deref() != Some("control_request") {
            return None;
        }
        let request = envelope.request.filter(|request| json::is_object(request))?;
        let [subtype] = json::members(request, ["subtype"])?;
        Some(Self {
            request_id: envelope.request_id.as_deref()?.to_owned(),
            subtype: json::string(subtype?)?.into_owned(),
            request: raw_value(request)?,
        })
    }

    /// The question of a `can_use_tool` request; `None` for other subtypes and for one that lacks the tool's name or
    /// input.
    pub fn can_use_tool(&self) -> Option<CanUseTool<'_>> {
        (self.subtype == "can_use_tool")
            .then(|| CanUseTool::read(self.request.get()))
            .flatten()
    }
}

/// A question whether a tool may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanUseTool<'a> {
    /// The tool.
    pub tool_name: Cow<'a, str>,
    /// The id of the tool's call.
    pub tool_use_id: Option<Cow<'a, str>>,
    /// Whether only a person can answer (a question, a plan): no rule may.
    pub requires_user_interaction: bool,
    /// The sub-agent that asks.
    pub agent_id: Option<Cow<'a, str>>,
    /// Why the CLI asks: `rule`, `mode`, `safetyCheck`, …
    pub reason_type: Option<Cow<'a, str>>,
    /// Whether a part of the request failed a safety check. The CLI says so (`classifier_approvable`) also where it names
    /// another reason, as for a line of several commands.
    pub has_safety_check: bool,
    /// The tool's input, byte for byte.
    pub input: &'a str,
}

impl<'a> CanUseTool<'a> {
    /// Reads the `request` object of a `can_use_tool` request.
    pub fn read(request: &'a str) -> Option<Self> {
        let [tool_name, tool_use_id, interaction, agent_id, input] = json::members(
            request,
            [
                "tool_name",
                "tool_use_id",
                "requires_user_interaction",
                "agent_id",
                "input",
            ],
        )?;
        let [reason_type, approvable] =
            json::members(request, ["decision_reason_type", "classifier_approvable"])?;
        Some(Self {
            tool_name: json::decode_lossy(tool_name?)?,
            tool_use_id: tool_use_id.and_then(json::decode_lossy),
            requires_user_interaction: interaction.and_then(json::boolean).unwrap_or(false),
            agent_id: agent_id.and_then(json::decode_lossy),
            reason_type: reason_type.and_then(json::decode_lossy),
            has_safety_check: approvable.is_some_and(|approvable| approvable != "null"),
            input: input.filter(|input| json::is_object(input))?,
        })
    }
}

/// An answer of the CLI to a request of its host.
#[derive(Clone, Debug)]
pub struct ControlResponse {
    /// The id of the request.
    pub request_id: String,
    /// The payload (`None` when there is none), or the error.
    pub outcome: Result<Option<Box<RawValue>>, ControlError>,
    /// Requests that the CLI still waits for, on an `initialize` answer: whole `control_request` messages.
    pub pending_permission_requests: Vec<ControlRequest>,
    /// The members beside the payload, such as those requests, byte for byte.
    pub beside: Fields,
}

/// A refusal of the CLI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent refused the request: {error}")]
pub struct ControlError {
    /// The CLI's words.
    pub error: String,
    /// The CLI's code, such as `unsupported_request`.
    pub error_code: Option<String>,
}

impl ControlResponse {
    /// The answer in a `control_response` line; `None` when the line is none, or names no request.
    pub fn read(envelope: &Envelope<'_>) -> Option<Self> {
        if envelope.kind.as_deref() != Some("control_response") {
            return None;
        }
        let response = envelope.response?;
        let [subtype, request_id, payload, error, error_code, pending] = json::members(
            response,
            [
                "subtype",
                "request_id",
                "response",
                "error",
                "error_code",
                "pending_permission_requests",
            ],
        )?;
        let outcome = if subtype.and_then(json::string).as_deref() == Some("error") {
            Err(ControlError {
                error: error
                    .and_then(json::decode_lossy)
                    .unwrap_or_default()
                    .into_owned(),
                error_code: error_code.and_then(json::decode_lossy).map(Cow::into_owned),
            })
        } else {
            Ok(payload.and_then(raw_value))
        };
        Some(Self {
            request_id: json::string(request_id?)?.into_owned(),
            outcome,
            pending_permission_requests: pending
                .and_then(json::items)
                .unwrap_or_default()
                .into_iter()
                .filter_map(|item| ControlRequest::read(&super::envelope::scan(item.as_bytes())?))
                .collect(),
            beside: beside(response)?,
        })
    }
}

/// The members of an answer beyond those that every answer has.
fn beside(response: &str) -> Option<Fields> {
    let mut fields = Fields::of_object(response)?;
    for known in ["request_id", "response", "error", "error_code"] {
        fields.remove(known);
    }
    Some(fields)
}

/// A raw value of a text that the scanner found.
pub(crate) fn raw_value(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::{
        envelope::scan,
        recordings::{envelopes, recording},
    };

    #[test]
    fn a_tool_request_of_the_real_cli_is_read() {
        let lines = envelopes(recording!("03-tool-allow"));
        let requests: Vec<_> = lines.iter().filter_map(ControlRequest::read).collect();
        let [request] = &requests[..] else {
            panic!("one request was recorded");
        };
        assert_eq!(request.subtype, "can_use_tool");
        let tool = request.can_use_tool().unwrap();
        assert_eq!(tool.tool_name, "Bash");
        assert!(tool.tool_use_id.unwrap().starts_with("toolu_"));
        assert!(!tool.requires_user_interaction);
        assert_eq!(tool.agent_id, None);
        assert!(tool.input.contains("touch made.txt && ls"));
        assert!(lines.iter().any(|line| line.line.contains(request.request.get())));
    }

    #[test]
    fn a_question_needs_a_person() {
        let lines = envelopes(recording!("12-ask-user-question"));
        let request = lines.iter().find_map(ControlRequest::read).unwrap();
        assert!(request.can_use_tool().unwrap().requires_user_interaction);
    }

    #[test]
    fn unknown_subtypes_and_lone_surrogates_are_requests_too() {
        let line = br#"{"type":"control_request","request_id":"7","request":{"subtype":"brand_new_thing","x":"\ud800"}}"#;
        let request = ControlRequest::read(&scan(line).unwrap()).unwrap();
        assert_eq!(request.subtype, "brand_new_thing");
        assert!(request.request.get().contains(r"\ud800"));
        assert!(request.can_use_tool().is_none());
        let line = br#"{"type":"control_request","request_id":"8","request":{"subtype":"can_use_tool","tool_name":"Write","input":{"t":"\ud83d"},"agent_id":"a1"}}"#;
        let request = ControlRequest::read(&scan(line).unwrap()).unwrap();
        let tool = request.can_use_tool().unwrap();
        assert_eq!(tool.input, r#"{"t":"\ud83d"}"#);
        assert_eq!(tool.agent_id.as_deref(), Some("a1"));
    }

    #[test]
    fn what_cannot_be_answered_is_no_request() {
        for line in [
            r#"{"type":"control_request","request":{"subtype":"x"}}"#,
            r#"{"type":"control_request","request_id":"1","request":{}}"#,
            r#"{"type":"control_request","request_id":"1","request":[]}"#,
            r#"{"type":"control_request","request_id":1,"request":{"subtype":"x"}}"#,
            r#"{"type":"user","request_id":"1","request":{"subtype":"x"}}"#,
        ] {
            assert!(
                ControlRequest::read(&scan(line.as_bytes()).unwrap()).is_none(),
                "{line}"
            );
        }
        for request in [
            r#"{"subtype":"can_use_tool","tool_name":"x"}"#,
            r#"{"subtype":"can_use_tool","tool_name":"x","input":"y"}"#,
            r#"{"subtype":"can_use_tool","input":{}}"#,
        ] {
            assert_eq!(CanUseTool::read(request), None, "{request}");
        }
    }

    #[test]
    fn an_answer_is_a_payload_or_an_error() {
        let read = |line: &str| ControlResponse::read(&scan(line.as_bytes()).unwrap());
        let full = read(r#"{"type":"control_response","response":{"subtype":"success","request_id":"r1","response":{"mode":1.0}}}"#).unwrap();
        assert_eq!(full.request_id, "r1");
        assert_eq!(full.outcome.unwrap().unwrap().get(), r#"{"mode":1.0}"#);
        let bare = read(r#"{"type":"control_response","response":{"subtype":"success","request_id":"r2"}}"#)
            .unwrap();
        assert!(bare.outcome.unwrap().is_none());
        let refused = read(r#"{"type":"control_response","response":{"subtype":"error","request_id":"r3","error":"no","error_code":"bypass_not_launched"}}"#).unwrap();
        let error = refused.outcome.unwrap_err();
        assert_eq!(
            (error.error.as_str(), error.error_code.as_deref()),
            ("no", Some("bypass_not_launched"))
        );
        assert!(read(r#"{"type":"control_response","response":{"subtype":"success"}}"#).is_none());
        assert!(read(r#"{"type":"control_response"}"#).is_none());
    }

    /// A new daemon takes up the open requests of a live CLI this way.
    #[test]
    fn a_second_initialize_brings_the_open_requests_with_their_own_ids() {
        let lines = envelopes(recording!("65-reinitialize-pending"));
        let asked = lines.iter().find_map(ControlRequest::read).unwrap();
        let answers: Vec<_> = lines.iter().filter_map(ControlResponse::read).collect();
        assert!(answers[0].pending_permission_requests.is_empty());
        let open = &answers[1].pending_permission_requests;
        assert_eq!(open.len(), 1);
        assert_eq!(open[0].request_id, asked.request_id);
        assert_eq!(open[0].can_use_tool(), asked.can_use_tool());
    }

    #[test]
    fn fields_keep_their_bytes_and_their_order() {
        let mut fields = Fields::of_object(r#"{"subtype":"x","z":1e1,"a":"\ud800","z":2}"#).unwrap();
        fields.set("b", &true);
        let all: Vec<_> = fields.iter().map(|(name, value)| (name, value.get())).collect();
        assert_eq!(all, [("z", "2"), ("a", r#""\ud800""#), ("b", "true")]);
        assert_eq!(fields.get("z").unwrap().get(), "2");
        assert!(Fields::of_object("[]").is_none());
    }
}
