//! Owns what is read of JSON that only passes through: whether it is one value, and the envelope of a JSON-RPC message.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// One JSON value, byte for byte; only its line breaks become spaces, as they would end a line of the CLI's stdin. Inside a
/// string JSON allows none, so nothing but layout changes. `None`: it is no JSON.
pub(super) fn one_line(bytes: &[u8]) -> Option<Box<RawValue>> {
    let value: Box<RawValue> = serde_json::from_slice(bytes).ok()?;
    if !value.get().contains(['\n', '\r']) {
        return Some(value);
    }
    RawValue::from_string(value.get().replace(['\n', '\r'], " ")).ok()
}

/// The kind of a JSON-RPC message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind<'a> {
    /// It has a method and an id.
    Request {
        /// Echoed by its response.
        id: &'a RawValue,
    },
    /// It has a method and no id.
    Notification,
    /// It has an id and no method.
    Response {
        /// The id of the request.
        id: &'a RawValue,
    },
    /// An error that belongs to no request: neither an id nor a method.
    Orphan,
}

/// The parts of a JSON-RPC message that are read.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    /// The result in a response.
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// `None`: not an object, or a member twice.
    pub(super) fn of(message: &'a RawValue) -> Option<Self> {
        serde_json::from_str(message.get()).ok()
    }

    /// Which kind of message it is.
    pub(super) const fn kind(&self) -> Kind<'a> {
        match (self.method, self.id) {
            (Some(_), Some(id)) => Kind::Request { id },
            (Some(_), None) => Kind::Notification,
            (None, Some(id)) => Kind::Response { id },
            (None, None) => Kind::Orphan,
        }
    }

    /// Is this its method?
    pub(super) fn is(&self, method: &str) -> bool {
        self.method
            .is_some_and(|raw| serde_json::from_str::<String>(raw.get()).is_ok_and(|name| name == method))
    }
}

/// Do two ids name the same request? A string may be spelled with other escapes.
pub(super) fn same_id(one: &RawValue, other: &RawValue) -> bool {
    let value = |id: &RawValue| serde_json::from_str::<Value>(id.get()).ok();
    one.get() == other.get() || value(one).is_some_and(|one| Some(one) == value(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn only_layout_changes() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for json in [
            r#"{"a":1.50e0, "b":"\n\ud83d", "a":2}"#,
            "{\"x\":\"\u{2028}\"}",
            &deep,
        ] {
            assert_eq!(one_line(json.as_bytes()).unwrap().get(), json);
        }
        let pretty = " {\n\t\"a\":\r\n\"b c\"\n} \n";
        assert_eq!(
            one_line(pretty.as_bytes()).unwrap().get(),
            "{ \t\"a\":  \"b c\" }"
        );
        for no_json in [&b""[..], b"{", b"{}{}", b"{\"a\":\"\n\"}", b"{\"a\":\"\xff\"}"] {
            assert!(one_line(no_json).is_none());
        }
    }

    #[test]
    fn messages_are_told_apart_by_what_they_have() {
        for (json, kind) in [
            (r#"{"id":1,"method":"m"}"#, "Request"),
            (r#"{"method":"m","params":{"id":1}}"#, "Notification"),
            (r#"{"id":null,"method":"m"}"#, "Notification"),
            (r#"{"id":"x","result":null}"#, "Response"),
            (r#"{"id":0,"error":{}}"#, "Response"),
            (r#"{"id":null,"error":{}}"#, "Orphan"),
        ] {
            let message = raw(json);
            let envelope = Envelope::of(&message).unwrap();
            assert!(format!("{:?}", envelope.kind()).starts_with(kind), "{json}");
        }
    }

    #[test]
    fn an_id_may_be_spelled_in_two_ways() {
        assert!(same_id(&raw(r#""a\u00e4""#), &raw(r#""aä""#)));
        assert!(!same_id(&raw("1"), &raw(r#""1""#)));
        assert!(!same_id(&raw("1"), &raw("2")));
        let lone = raw(r#""\ud83d""#);
        assert!(same_id(&lone, &lone.clone()));
    }
}
