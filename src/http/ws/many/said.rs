//! Owns the lines that a client says on a socket of many sessions: those for the daemon, and those for a session.

use std::borrow::Cow;

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::super::frames::Snapshot;
use crate::{
    domain::{ClientId, SessionId, Timestamp},
    http::{ErrorCode, extract::StubAbove, lobby::WatchParams},
    json,
};

/// The type of a line for the daemon begins with it.
const OWN_PREFIX: &str = "trunkline.";
/// The member that names the session. A line for a session goes to it without this.
const SESSION: &str = "session_id";

/// A line.
#[derive(Debug)]
pub(super) enum Said {
    /// Join a session.
    Subscribe(Subscribe),
    /// Leave a session.
    Unsubscribe { session: SessionId },
    /// Take more of a session.
    Credit { session: SessionId, bytes: u32 },
    /// Watch all sessions.
    Watch(Box<WatchParams>),
    /// Watch them no more.
    Unwatch,
    /// Answered with a pong that repeats the id.
    Ping { id: Option<String> },
    /// For a session.
    Line { session: SessionId, line: Bytes },
}

/// How to join a session.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subscribe {
    #[serde(rename = "type")]
    _type: String,
    pub(super) session_id: SessionId,
    /// Begin with the records after this number; new ones only when it is left out.
    pub(super) after: Option<u64>,
    /// The time of that record, as the client got it.
    pub(super) after_ts: Option<Timestamp>,
    /// Begin with the newest so many records.
    pub(super) tail: Option<u64>,
    /// Only records of these kinds.
    pub(super) only: Option<String>,
    /// No records of these kinds.
    pub(super) without: Option<String>,
    /// Join the pieces of a message that come within so many milliseconds.
    pub(super) coalesce: Option<u64>,
    /// The client's name for itself.
    pub(super) client_id: Option<ClientId>,
    /// How many bytes of records the client takes before it says more; all when it is left out.
    pub(super) credit: Option<u32>,
    /// A record of more bytes comes as a stub.
    pub(super) stub_above: Option<StubAbove>,
    /// How much of the session the first frame has.
    pub(super) snapshot: Option<Snapshot>,
}

/// A line that is not understood.
#[derive(Debug)]
pub(super) struct Unclear {
    pub(super) code: ErrorCode,
    pub(super) detail: String,
    /// The session that it names.
    pub(super) session: Option<SessionId>,
}

impl Said {
    /// Reads a line.
    pub(super) fn read(line: &Bytes) -> Result<Self, Unclear> {
        let unclear = |code, detail: &str| Unclear {
            code,
            detail: detail.to_owned(),
            session: None,
        };
        let text =
            str::from_utf8(line).map_err(|_| unclear(ErrorCode::InvalidLine, "the line is not UTF-8"))?;
        let members = Members::of(text)
            .ok_or_else(|| unclear(ErrorCode::InvalidLine, "the line is not one JSON object"))?;
        if let Some(kind) = members.kind.as_deref()
            && let Some(own) = kind.strip_prefix(OWN_PREFIX)
        {
            return Self::own(own, kind, text);
        }
        let [named] = members.sessions.as_slice() else {
            let detail = "the line needs the member session_id, once";
            return Err(Unclear {
                session: named(text),
                ..unclear(ErrorCode::InvalidField, detail)
            });
        };
        let session = serde_json::from_str::<SessionId>(named)
            .map_err(|_| unclear(ErrorCode::InvalidId, "session_id is not the id of a session"))?;
        let line = members.rest().into();
        Ok(Self::Line { session, line })
    }

    fn own(own: &str, kind: &str, text: &str) -> Result<Self, Unclear> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Bare<'a> {
            #[serde(rename = "type")]
            _type: Cow<'a, str>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct OfSession {
            #[serde(rename = "type")]
            _type: String,
            session_id: SessionId,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Credit {
            #[serde(rename = "type")]
            _type: String,
            session_id: SessionId,
            bytes: u32,
        }
        #[derive(Deserialize)]
        struct Ping<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
        }
        let said = match own {
            "subscribe" => serde_json::from_str(text).map(Self::Subscribe),
            "unsubscribe" => serde_json::from_str(text)
                .map(|OfSession { session_id, .. }| Self::Unsubscribe { session: session_id }),
            "credit" => serde_json::from_str(text).map(
                |Credit {
                     session_id, bytes, ..
                 }| Self::Credit {
                    session: session_id,
                    bytes,
                },
            ),
            "watch" => serde_json::from_str(text).and_then(|mut line: Map<String, Value>| {
                line.remove("type");
                serde_json::from_value(line.into()).map(Self::Watch)
            }),
            "unwatch" => serde_json::from_str(text).map(|Bare { .. }| Self::Unwatch),
            "ping" => serde_json::from_str(text).map(|Ping { id }| Self::Ping {
                id: id.map(|id| id.get().to_owned()),
            }),
            _ => {
                return Err(Unclear {
                    code: ErrorCode::UnknownFrame,
                    detail: format!("{kind} is not known"),
                    session: named(text),
                });
            }
        };
        said.map_err(|error| Unclear {
            code: ErrorCode::InvalidField,
            detail: format!("{kind}: {error}"),
            session: named(text),
        })
    }
}

/// The session that a line names.
fn named(text: &str) -> Option<SessionId> {
    json::member_text(text, SESSION)?.parse().ok()
}

/// The members of a line.
struct Members<'a> {
    kind: Option<String>,
    sessions: Vec<&'a str>,
    others: Vec<(String, &'a str)>,
}

impl<'a> Members<'a> {
    /// `None` when the line is no object.
    fn of(text: &'a str) -> Option<Self> {
        let mut members = Self {
            kind: json::member_text(text, "type"),
            sessions: Vec::new(),
            others: Vec::new(),
        };
        json::for_each_member(text, |name, value| match name {
            SESSION => members.sessions.push(value),
            _ => members.others.push((name.to_owned(), value)),
        })?;
        Some(members)
    }

    /// The line without the member that names the session. All values stay byte for byte.
    fn rest(&self) -> String {
        let bytes: usize = self
            .others
            .iter()
            .map(|(name, value)| name.len() + value.len() + 4)
            .sum();
        let mut line = String::with_capacity(bytes + 2);
        for (name, value) in &self.others {
            line.push(if line.is_empty() { '{' } else { ',' });
            line.push_str(&Value::from(name.as_str()).to_string());
            line.push(':');
            line.push_str(value);
        }
        if line.is_empty() {
            line.push('{');
        }
        line.push('}');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0197f0f0-5c1e-7000-8000-000000000001";

    fn read(line: &str) -> Result<Said, Unclear> {
        Said::read(&Bytes::from(line.to_owned()))
    }

    #[test]
    fn a_line_goes_to_its_session_without_the_id() {
        let line = format!(
            r#"{{ "session_id": "{ID}", "type":"user" , "message":{{"role":"user","content":"session_id"}},"n":1.0}}"#
        );
        let Ok(Said::Line { session, line }) = read(&line) else {
            panic!("a line for a session");
        };
        assert_eq!(session.to_string(), ID);
        let expected = r#"{"type":"user","message":{"role":"user","content":"session_id"},"n":1.0}"#;
        assert_eq!(line, expected.as_bytes());
    }

    #[test]
    fn what_is_unclear_says_why() {
        let code = |line: &str| read(line).unwrap_err().code;
        assert_eq!(code("no json"), ErrorCode::InvalidLine);
        assert_eq!(code("[]"), ErrorCode::InvalidLine);
        assert_eq!(code(r#"{"type":"user"}"#), ErrorCode::InvalidField);
        assert_eq!(code(r#"{"type":"user","session_id":""}"#), ErrorCode::InvalidId);
        assert_eq!(code(r#"{"type":"user","session_id":7}"#), ErrorCode::InvalidId);
        let twice = format!(r#"{{"session_id":"{ID}","session_id":"{ID}"}}"#);
        assert_eq!(code(&twice), ErrorCode::InvalidField);
        assert_eq!(code(r#"{"type":"trunkline.dance"}"#), ErrorCode::UnknownFrame);
        assert_eq!(code(r#"{"type":"trunkline.subscribe"}"#), ErrorCode::InvalidField);
        let named = format!(r#"{{"type":"trunkline.subscribe","session_id":"{ID}","then":1}}"#);
        let unclear = read(&named).unwrap_err();
        assert_eq!(unclear.session.map(|id| id.to_string()).as_deref(), Some(ID));
    }

    #[test]
    fn lines_for_the_daemon_are_read() {
        let line = format!(r#"{{"type":"trunkline.subscribe","session_id":"{ID}","after":3,"credit":9}}"#);
        assert!(
            matches!(read(&line), Ok(Said::Subscribe(it)) if it.after == Some(3) && it.credit == Some(9))
        );
        assert!(matches!(
            read(r#"{"type":"trunkline.watch","needs_person":true}"#),
            Ok(Said::Watch(_))
        ));
        let unknown = read(r#"{"type":"trunkline.watch","needs":true}"#).unwrap_err();
        assert_eq!(unknown.code, ErrorCode::InvalidField);
        assert!(matches!(
            read(r#"{"type":"trunkline.ping","id":[1]}"#),
            Ok(Said::Ping { id: Some(id) }) if id == "[1]"
        ));
    }
}
