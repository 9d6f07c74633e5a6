//! Owns the name by which a client is known over all its connections, and how others see a client that is attached.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{ConnectionId, Role};

/// The longest name, in characters.
const MAX_CHARS: usize = 64;
/// The daemon's own name where clients are named.
const RESERVED: &str = "trunkline";

/// A client: 1 to 64 of the characters `A-Z a-z 0-9 . _ -`. A client that does not name itself has the id of its
/// connection for a name, and cannot come back.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[A-Za-z0-9._-]{1,64}$")]
pub struct ClientId(String);

/// A text that names no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadClientId {
    /// Another form.
    #[error("a client id is 1 to 64 letters, digits, dots, dashes and underscores")]
    Form,
    /// The daemon's own name.
    #[error("the client id {RESERVED} is reserved")]
    Reserved,
}

/// A client that is attached to a session, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttachedClient {
    /// Its connection, by the id that its own snapshot has.
    pub connection_id: ConnectionId,
    /// The name that it gave itself; `None` when it gave none.
    pub client_id: Option<ClientId>,
    /// The name of the login that it came with, such as that of a browser; `None` without one.
    pub login: Option<String>,
    /// Its right.
    pub role: Role,
}

impl ClientId {
    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<ConnectionId> for ClientId {
    fn from(connection: ConnectionId) -> Self {
        Self(connection.to_string())
    }
}

impl TryFrom<String> for ClientId {
    type Error = BadClientId;

    fn try_from(text: String) -> Result<Self, BadClientId> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if text.is_empty() || text.len() > MAX_CHARS || !text.bytes().all(allowed) {
            return Err(BadClientId::Form);
        }
        if text.eq_ignore_ascii_case(RESERVED) {
            return Err(BadClientId::Reserved);
        }
        Ok(Self(text))
    }
}

impl FromStr for ClientId {
    type Err = BadClientId;

    fn from_str(text: &str) -> Result<Self, BadClientId> {
        text.to_owned().try_into()
    }
}

impl From<ClientId> for String {
    fn from(id: ClientId) -> Self {
        id.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_id_has_no_character_that_means_something_elsewhere() {
        for good in ["a", "editor-1", "My.Phone_2", &"x".repeat(64)] {
            assert_eq!(good.parse::<ClientId>().unwrap().as_str(), good);
        }
        for bad in ["", "a/b", "a b", "ä", "a:b", &"x".repeat(65)] {
            assert_eq!(bad.parse::<ClientId>(), Err(BadClientId::Form), "{bad}");
        }
        assert_eq!("Trunkline".parse::<ClientId>(), Err(BadClientId::Reserved));
        let connection = ConnectionId::new();
        let text = ClientId::from(connection).to_string();
        assert_eq!(text.parse::<ClientId>().unwrap(), connection.into());
    }
}
