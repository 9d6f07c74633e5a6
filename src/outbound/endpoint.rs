//! Owns where an MCP server is and which headers of the user's go with each request to it.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING},
};

use super::mcp::LAST_EVENT_ID;
use crate::domain::{Secret, WebUrl};

/// An MCP server's address and what is sent with each request to it.
#[derive(Debug, Clone)]
pub struct McpEndpoint {
    pub(super) url: WebUrl,
    pub(super) headers: HeaderMap,
}

/// Why a header can't be sent. The value is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// No header has such a name.
    #[error("{0:?} is no name of a header")]
    Name(String),
    /// Its value has line breaks or other control characters in it.
    #[error("the value of the header {0} can't be sent")]
    Value(String),
    /// The transport sets it itself.
    #[error("the header {0} is set by the transport")]
    Reserved(String),
}

impl McpEndpoint {
    /// An endpoint; `headers` are names and values, e.g. `Authorization`.
    ///
    /// # Errors
    /// A header that can't be sent or that the transport sets.
    pub fn new(
        url: WebUrl,
        headers: impl IntoIterator<Item = (String, Secret)>,
    ) -> Result<Self, EndpointError> {
        let mut checked = HeaderMap::new();
        for (name, value) in headers {
            let Ok(header) = name.parse::<HeaderName>() else {
                return Err(EndpointError::Name(name));
            };
            if is_reserved(&header) {
                return Err(EndpointError::Reserved(name));
            }
            let Ok(mut value) = HeaderValue::from_str(value.expose()) else {
                return Err(EndpointError::Value(name));
            };
            value.set_sensitive(true);
            checked.append(header, value);
        }
        Ok(Self {
            url,
            headers: checked,
        })
    }
}

fn is_reserved(header: &HeaderName) -> bool {
    [
        ACCEPT,
        CONNECTION,
        CONTENT_LENGTH,
        CONTENT_TYPE,
        HOST,
        TRANSFER_ENCODING,
    ]
    .contains(header)
        || header.as_str().starts_with("mcp-")
        || header == LAST_EVENT_ID
}
