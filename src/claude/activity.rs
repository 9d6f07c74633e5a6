//! Owns the reading of lines that say that the CLI compacts, or asks the model API again, and of those that say that it is over.

use super::Envelope;
use crate::{
    domain::{ApiRetry, Timestamp},
    json,
};

/// The longest word for an error that is kept, in bytes.
const MAX_ERROR_BYTES: usize = 64;

/// The news of a line about what the CLI does between its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It begins to compact the conversation.
    Compacts,
    /// It does not compact, or no longer.
    CompactsNot,
    /// It asks the model API again.
    Retries(ApiRetry),
    /// The model answers, or the turn is over.
    Answers,
}

/// The news of a line; `None` for a line that has none.
pub fn read(line: &Envelope<'_>, at: Timestamp) -> Option<News> {
    match line.kind.as_deref()? {
        "assistant" | "stream_event" | "result" => return Some(News::Answers),
        "system" => {}
        _ => return None,
    }
    let json = line.line;
    match line.subtype.as_deref()? {
        "status" if json::member_text(json, "status").as_deref() == Some("compacting") => {
            Some(News::Compacts)
        }
        "status" | "compact_boundary" => Some(News::CompactsNot),
        "api_retry" => Some(News::Retries(ApiRetry {
            attempt: json::member_count(json, "attempt")?,
            max_retries: json::member_count(json, "max_retries"),
            // Some versions have fractions of a millisecond.
            delay_ms: json::member(json, "retry_delay_ms").and_then(whole),
            error_status: json::member_count(json, "error_status"),
            error: json::member_text(json, "error").filter(|error| error.len() <= MAX_ERROR_BYTES),
            at,
        })),
        _ => None,
    }
}

fn whole(number: &str) -> Option<u64> {
    let digits = number.split('.').next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::scan;

    fn of(line: &str) -> Option<News> {
        read(&scan(line.as_bytes()).unwrap(), Timestamp::from_micros(1))
    }

    #[test]
    fn lines_of_recordings_are_read() {
        let retry = r#"{"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10,
            "retry_delay_ms": 501.25, "error_status": 529, "error": "overloaded"}"#;
        let expected = ApiRetry {
            attempt: 1,
            max_retries: Some(10),
            delay_ms: Some(501),
            error_status: Some(529),
            error: Some("overloaded".to_owned()),
            at: Timestamp::from_micros(1),
        };
        assert_eq!(of(retry), Some(News::Retries(expected)));
        let none =
            r#"{"type":"system","subtype":"api_retry","attempt":2,"error_status":null,"error":"unknown"}"#;
        assert!(matches!(of(none), Some(News::Retries(retry)) if retry.error_status.is_none()));
        for (line, news) in [
            (
                r#"{"type":"system","subtype":"status","status":"compacting"}"#,
                News::Compacts,
            ),
            (
                r#"{"type":"system","subtype":"status","status":null}"#,
                News::CompactsNot,
            ),
            (
                r#"{"type":"system","subtype":"compact_boundary"}"#,
                News::CompactsNot,
            ),
            (r#"{"type":"result"}"#, News::Answers),
        ] {
            assert_eq!(of(line), Some(news), "{line}");
        }
        assert_eq!(of(r#"{"type":"system","subtype":"init"}"#), None);
        assert_eq!(of(r#"{"type":"user"}"#), None);
    }
}
