//! Owns the envelope of a stdout line: what routing needs, read in one pass and without ever refusing what it does not
//! know.

use std::borrow::Cow;

use super::json;
use crate::domain::{CliSessionId, PromptUuid};

/// The outer fields of one line. A field that is missing, `null` or of another type is absent; of a repeated one the
/// last counts, as in JavaScript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The whole line.
    pub line: &'a str,
    /// `type`.
    pub kind: Option<Cow<'a, str>>,
    /// `subtype`.
    pub subtype: Option<Cow<'a, str>>,
    /// `request_id`.
    pub request_id: Option<Cow<'a, str>>,
    /// `uuid`.
    pub uuid: Option<Cow<'a, str>>,
    /// `session_id`.
    pub session_id: Option<Cow<'a, str>>,
    /// `parent_tool_use_id`.
    pub parent_tool_use_id: Option<Cow<'a, str>>,
    /// `request`, byte for byte.
    pub request: Option<&'a str>,
    /// `response`, byte for byte.
    pub response: Option<&'a str>,
}

impl Envelope<'_> {
    /// Whether the line has this type.
    pub fn is(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    /// Whether the line is `system` with this subtype.
    pub fn is_system(&self, subtype: &str) -> bool {
        self.is("system") && self.subtype.as_deref() == Some(subtype)
    }

    /// The CLI's id of the conversation that the line belongs to.
    pub fn cli_session(&self) -> Option<CliSessionId> {
        self.session_id.as_deref()?.parse().ok()
    }

    /// The line's own id.
    pub fn message_uuid(&self) -> Option<PromptUuid> {
        self.uuid.as_deref()?.parse().ok()
    }
}

/// Reads the envelope of a line, its end of line left out. `None` when the line is not one JSON object in UTF-8.
pub fn scan(line: &[u8]) -> Option<Envelope<'_>> {
    let line = std::str::from_utf8(line).ok()?;
    let [
        kind,
        subtype,
        request_id,
        uuid,
        session_id,
        parent,
        request,
        response,
    ] = json::members(
        line,
        [
            "type",
            "subtype",
            "request_id",
            "uuid",
            "session_id",
            "parent_tool_use_id",
            "request",
            "response",
        ],
    )?;
    Some(Envelope {
        line,
        kind: kind.and_then(json::string),
        subtype: subtype.and_then(json::string),
        request_id: request_id.and_then(json::string),
        uuid: uuid.and_then(json::string),
        session_id: session_id.and_then(json::string),
        parent_tool_use_id: parent.and_then(json::string),
        request: request.filter(|raw| json::is_object(raw)),
        response: response.filter(|raw| json::is_object(raw)),
    })
}
