//! Owns the place between two pages of a conversation.

use std::str::FromStr;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use crate::{
    domain::Seq,
    http::{ApiError, ErrorCode},
};

/// Where the next page begins, and which messages the pages before have already given. Clients get it as an opaque text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::http) struct ConversationCursor {
    /// The last record that needs no second look.
    pub(super) after: Seq,
    /// Messages that have lines after it and were given whole.
    pub(super) given: Vec<String>,
}

impl ConversationCursor {
    pub(super) fn encode(&self) -> Option<String> {
        let json = serde_json::to_vec(self).ok()?;
        Some(URL_SAFE_NO_PAD.encode(json))
    }
}

impl FromStr for ConversationCursor {
    type Err = ApiError;

    fn from_str(text: &str) -> Result<Self, ApiError> {
        let json = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| ErrorCode::InvalidCursor)?;
        serde_json::from_slice(&json).map_err(|_| ErrorCode::InvalidCursor.into())
    }
}
