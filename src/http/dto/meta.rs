//! Owns the limits of what people say about a session. Every list shows it, so it is short.

use std::collections::BTreeMap;

use crate::http::{ApiError, ErrorCode};

/// Longest title, tag, label key or label value, in characters, as JSON Schema counts them.
const MAX_TEXT_CHARS: usize = 1024;
/// Most labels of a session.
const MAX_LABELS: usize = 64;

/// The key of a label, as the contract shows it.
#[derive(utoipa::ToSchema)]
#[schema(pattern = "^[^=]+$", max_length = 1024)]
#[expect(dead_code, reason = "documents the keys of a map of texts")]
pub(super) struct LabelKey(String);

/// Checks a title or a tag.
pub(super) fn check_text(field: &str, text: Option<&str>) -> Result<(), ApiError> {
    match text {
        Some(text) if text.chars().nth(MAX_TEXT_CHARS).is_some() => Err(invalid(
            field,
            &format!("is longer than {MAX_TEXT_CHARS} characters"),
        )),
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
        let text = |chars: usize| "é".repeat(chars);
        assert!(check_text("title", None).is_ok());
        assert!(check_text("title", Some(&text(MAX_TEXT_CHARS))).is_ok());
        assert!(check_text("title", Some(&text(MAX_TEXT_CHARS + 1))).is_err());
        let labels = |count: usize| (0..count).map(|n| (n.to_string(), text(3))).collect();
        assert!(check_labels(&labels(MAX_LABELS)).is_ok());
        assert!(check_labels(&labels(MAX_LABELS + 1)).is_err());
        for (key, value) in [("", text(1)), ("a=b", text(1)), ("a", text(MAX_TEXT_CHARS + 1))] {
            assert!(
                check_labels(&BTreeMap::from([(key.to_owned(), value)])).is_err(),
                "{key}"
            );
        }
    }
}
