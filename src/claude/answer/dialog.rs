//! Owns the answers to dialogs of the CLI (`request_user_dialog`).

use serde_json::value::RawValue;

use super::{BadAnswer, keys};
use crate::{claude::control::raw_value, json};

/// The answer that completes a dialog.
///
/// # Errors
/// Never for a `result` that is JSON.
pub fn complete_dialog(result: &RawValue) -> Result<Box<RawValue>, BadAnswer> {
    raw_value(&format!(
        r#"{{"behavior":"completed","result":{}}}"#,
        result.get()
    ))
    .ok_or(BadAnswer::NoResult)
}

/// The answer that closes a dialog without a result.
///
/// # Errors
/// Never.
pub fn cancel_dialog() -> Result<Box<RawValue>, BadAnswer> {
    raw_value(r#"{"behavior":"cancelled"}"#).ok_or(BadAnswer::UnknownDialogBehavior)
}

/// Checks a client's answer to a dialog, which passes byte for byte.
///
/// # Errors
/// The answer is one that the CLI would not take.
pub fn complete_dialog_answer(answer: &RawValue) -> Result<Box<RawValue>, BadAnswer> {
    let [behavior, result] =
        json::members(answer.get(), ["behavior", "result"]).ok_or(BadAnswer::NotAnObject)?;
    keys::check(answer.get(), &["behavior", "result"])?;
    match behavior.and_then(json::string).as_deref() {
        Some("completed") if result.is_none() => Err(BadAnswer::NoResult),
        Some("completed" | "cancelled") => Ok(answer.to_owned()),
        _ => Err(BadAnswer::UnknownDialogBehavior),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_dialog_is_completed_or_cancelled() {
        for good in [
            complete_dialog(&raw(r#"{"n":1.0}"#)).unwrap(),
            cancel_dialog().unwrap(),
        ] {
            assert_eq!(complete_dialog_answer(&good).unwrap().get(), good.get());
        }
        assert_eq!(
            complete_dialog(&raw(r#"{"n":1.0}"#)).unwrap().get(),
            r#"{"behavior":"completed","result":{"n":1.0}}"#
        );
        for (bad, error) in [
            ("7", BadAnswer::NotAnObject),
            ("{}", BadAnswer::UnknownDialogBehavior),
            (r#"{"behavior":"allow"}"#, BadAnswer::UnknownDialogBehavior),
            (r#"{"behavior":"completed"}"#, BadAnswer::NoResult),
        ] {
            assert_eq!(complete_dialog_answer(&raw(bad)).unwrap_err(), error, "{bad}");
        }
    }
}
