//! Owns the limits of what people say about a session. Every list shows it, so it is short.

use std::collections::BTreeMap;

use crate::{
    domain::MAX_TITLE_BYTES,
    http::{ApiError, ErrorCode},
};

/// Longest title, tag, label key or label value, in bytes.
const MAX_TEXT_BYTES: usize = MAX_TITLE_BYTES;
/// Most labels of a session.
const MAX_LABELS: usize = 64;

/// Checks a title or a tag.
pub(super) fn check_text(field: &str, text: Option<&str>) -> Result<(), ApiError> {
    match text {
        Some(text) if text.len() > MAX_TEXT_BYTES => {
            Err(invalid(field, &format!("is longer than {MAX_TEXT_BYTES} bytes")))
        }
        _ => Ok(()),
    }
}

/// Checks labels. A key without `=` can be told from its value in `?label=key=value`.
pub(super) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), ApiError> {
    if labels.len() > MAX_LABELS {
        return Err(invalid("labels", &format!("are more than {MAX_LABELS}")));
    }
    if labels.keys().any(|key| key.is_empty() || key.contains('=')) {
        return Err(invalid("labels", "have a key that is empty or contains '='"));
    }
    labels
        .iter()
        .flat_map(|(key, value)| [key, value])
        .try_for_each(|text| check_text("labels", Some(text)))
}

fn invalid(field: &str, reason: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidField)
        .detail(format!("{field} {reason}"))
        .member("field", field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_is_taken_and_long_is_not() {
        let text = |bytes: usize| "x".repeat(bytes);
        assert!(check_text("title", None).is_ok());
        assert!(check_text("title", Some(&text(MAX_TEXT_BYTES))).is_ok());
        assert!(check_text("title", Some(&text(MAX_TEXT_BYTES + 1))).is_err());
        let labels = |count: usize| (0..count).map(|n| (n.to_string(), text(3))).collect();
        assert!(check_labels(&labels(MAX_LABELS)).is_ok());
        assert!(check_labels(&labels(MAX_LABELS + 1)).is_err());
        for (key, value) in [("", text(1)), ("a=b", text(1)), ("a", text(MAX_TEXT_BYTES + 1))] {
            assert!(
                check_labels(&BTreeMap::from([(key.to_owned(), value)])).is_err(),
                "{key}"
            );
        }
    }
}
