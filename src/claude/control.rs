//! Owns the control protocol's two messages as the session reads them: a request of the CLI and an answer of the CLI.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Envelope, json};

/// The fields of a control request apart from its `subtype`, each byte for byte, in the order they were set.
#[derive(Clone, Debug, Default)]
pub struct Fields(Vec<(String, Box<RawValue>)>);

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

/// A request of the CLI to its host.
#[derive(Clone, Debug)]
pub struct ControlRequest {
    /// The CLI's id, which the answer must carry.
    pub request_id: String,
    /// What is asked: `can_use_tool`, `hook_callback`, `mcp_message`, `elicitation`, …; unknown ones included.
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

    /// What a `can_use_tool` request asks; `None` for other subtypes and for one that lacks the tool's name or input.
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
        Some(Self {
            tool_name: json::decode_lossy(tool_name?)?,
            tool_use_id: tool_use_id.and_then(json::decode_lossy),
            requires_user_interaction: interaction.and_then(json::boolean).unwrap_or(false),
            agent_id: agent_id.and_then(json::decode_lossy),
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
        let [subtype, request_id, payload, error, error_code, pending] = json::members(
            envelope.response?,
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
        })
    }
}

/// A raw value of a text that the scanner found.
pub(crate) fn raw_value(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).ok()
}
