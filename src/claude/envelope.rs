//! Owns the envelope of a stdout line: what routing needs, read in one pass and without ever refusing what it does not
//! know.

use std::borrow::Cow;

use crate::{
    domain::{CliSessionId, PromptUuid},
    json,
};

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

    /// The `subtype` of the request in a control request.
    pub fn request_subtype(&self) -> Option<String> {
        json::member_text(self.request?, "subtype")
    }

    /// The start of what a user line says, for lists: its text, cut after `max_chars`; empty when it holds no text.
    pub fn prompt_start(&self, max_chars: usize) -> String {
        self.prompt_text()
            .map(|text| text.chars().take(max_chars).collect())
            .unwrap_or_default()
    }
}

impl<'a> Envelope<'a> {
    /// The raw member `name` of what a line says: of the payload of a control answer, else of the line itself.
    pub fn said(&self, name: &str) -> Option<&'a str> {
        let object = match self.response {
            Some(response) => json::members(response, ["response"]).and_then(|[payload]| payload)?,
            None => self.line,
        };
        json::member(object, name)
    }

    fn prompt_text(&self) -> Option<Cow<'a, str>> {
        let content = json::member(json::member(self.line, "message")?, "content")?;
        if let Some(text) = json::decode_lossy(content) {
            return Some(text);
        }
        json::items(content)?.into_iter().find_map(|block| {
            let [kind, text] = json::members(block, ["type", "text"])?;
            (json::string(kind?)? == "text")
                .then(|| json::decode_lossy(text?))
                .flatten()
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_fields_are_read() {
        let line = br#"{"type":"control_request","request_id":"r\u0031","request":{"subtype":"x","n":[1]},"uuid":"u","session_id":"4532020b-4c7a-4a5b-9846-3889a477bb43","parent_tool_use_id":"t"}"#;
        let envelope = scan(line).unwrap();
        assert!(envelope.is("control_request"));
        assert_eq!(envelope.subtype, None);
        assert_eq!(envelope.request_id.as_deref(), Some("r1"));
        assert_eq!(envelope.uuid.as_deref(), Some("u"));
        assert_eq!(envelope.message_uuid(), None);
        assert_eq!(envelope.parent_tool_use_id.as_deref(), Some("t"));
        assert_eq!(envelope.request, Some(r#"{"subtype":"x","n":[1]}"#));
        assert_eq!(envelope.response, None);
        let session = envelope.cli_session().unwrap();
        assert_eq!(session.to_string(), "4532020b-4c7a-4a5b-9846-3889a477bb43");
    }

    #[test]
    fn what_is_new_or_odd_is_read_all_the_same() {
        for (line, kind) in [
            (
                r#"{"type":"rate_limit_event","rate_limit_info":{"x":1}}"#,
                Some("rate_limit_event"),
            ),
            (r#"{"type":"something_new"}"#, Some("something_new")),
            (r#"{"type":"a","type":"b"}"#, Some("b")),
            (r#"{"type":7}"#, None),
            (r#"{"type":null}"#, None),
            (r#"{"x":"\ud800 alone","type":"user"}"#, Some("user")),
            (
                "{\"x\":\"\u{2028}\u{2029}\u{85}\",\"type\":\"user\"}",
                Some("user"),
            ),
            ("{}", None),
            ("\t{ \"type\" : \"user\" } \r", Some("user")),
        ] {
            let envelope = scan(line.as_bytes()).unwrap();
            assert_eq!(envelope.kind.as_deref(), kind, "{line}");
            assert_eq!(envelope.line, line);
        }
        let odd = scan(br#"{"request":[],"response":"x","uuid":{},"session_id":"local_1"}"#).unwrap();
        assert_eq!(
            (odd.request, odd.response, odd.uuid.as_deref()),
            (None, None, None)
        );
        assert_eq!(odd.cli_session(), None);
    }

    #[test]
    fn what_is_no_object_has_no_envelope() {
        let lines: [&[u8]; 10] = [
            b"",
            b" ",
            b"[1]",
            b"7",
            b"\"x\"",
            b"{\"a\":1",
            b"{\"a\":1}{\"b\":2}",
            b"Now using node v20",
            b"[DEBUG] {half",
            b"{\"a\":\"\xff\"}",
        ];
        for line in lines {
            assert_eq!(scan(line), None, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn nothing_is_copied_for_plain_strings() {
        let envelope = scan(br#"{"type":"system","subtype":"init","uuid":"u"}"#).unwrap();
        assert!(matches!(envelope.kind, Some(Cow::Borrowed("system"))));
        assert!(matches!(envelope.subtype, Some(Cow::Borrowed("init"))));
    }

    fn start(content: &str) -> String {
        let line = format!(r#"{{"type":"user","message":{{"role":"user","content":{content}}}}}"#);
        scan(line.as_bytes()).unwrap().prompt_start(5)
    }

    #[test]
    fn a_prompt_starts_with_its_text() {
        assert_eq!(start(r#""hello you""#), "hello");
        assert_eq!(
            start(r#"[{"type":"image"},{"type":"text","text":"see this"}]"#),
            "see t"
        );
        assert_eq!(start(r#"[{"type":"image"}]"#), "");
        assert_eq!(start(r#""\ud83d!""#), "\u{fffd}!");
    }
}
