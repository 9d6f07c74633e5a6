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

/// What a JSON-RPC message is.
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
        /// That of the request.
        id: &'a RawValue,
    },
    /// An error that belongs to no request: neither an id nor a method.
    Orphan,
}

/// What is read of a JSON-RPC message.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    /// Of a response.
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
