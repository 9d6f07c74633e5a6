//! Owns the tags by which a client says which version of a file it has.

use axum::http::{HeaderMap, HeaderValue, header};
use sha2::{Digest as _, Sha256};

/// Bytes of the digest in a tag.
const TAG_BYTES: usize = 16;

/// The tag of some content: another content has another one.
#[derive(Clone, Debug)]
pub(super) struct EntityTag(String);

impl EntityTag {
    pub(super) fn of(content: &[u8]) -> Self {
        let digest = Sha256::digest(content);
        let digits = digest.iter().take(TAG_BYTES);
        Self(digits.map(|byte| format!("{byte:02x}")).collect())
    }

    /// The tag of the content in another coding.
    pub(super) fn coded(&self, coding: &str) -> Self {
        Self(format!("{}-{coding}", self.0))
    }

    pub(super) fn value(&self) -> HeaderValue {
        // Hexadecimal digits and the name of a coding are always a header.
        HeaderValue::try_from(format!("\"{}\"", self.0)).unwrap_or(HeaderValue::from_static("\"\""))
    }

    /// Whether a client has named it as one that it has.
    pub(super) fn is_named_in(&self, headers: &HeaderMap) -> bool {
        let ours = self.value();
        let named = headers.get_all(header::IF_NONE_MATCH).iter();
        let mut named = named
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim);
        named.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == ours)
    }
}
