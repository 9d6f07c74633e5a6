//! Owns the answers to what the CLI asks of a person; here those about tools.
//!
//! A client's answer is completed so that the CLI takes it, and ours are built. What the model wrote is kept byte for byte.

mod dialog;
mod elicitation;
mod form;
mod plan;
mod questions;

use serde_json::value::RawValue;

use super::{
    control::{CanUseTool, raw_value},
    json,
};

pub use self::{
    dialog::{cancel_dialog, complete_dialog, complete_dialog_answer},
    elicitation::{ElicitationAction, answer_elicitation, complete_elicitation},
    plan::accept_plan,
    questions::{Chosen, QuestionAnswers, answer_questions},
};

/// What a person is told to have said who denied without a word.
pub const DEFAULT_DENIAL: &str = "The user denied this request.";

/// An answer that the CLI would not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// The request that is answered is no `can_use_tool` request.
    #[error("the request is no question about a tool")]
    NotATool,
    /// The answer is no JSON object.
    #[error("the answer is not a JSON object")]
    NotAnObject,
    /// `behavior` is missing or unknown.
    #[error("behavior must be allow or deny")]
    UnknownBehavior,
    /// `updatedInput` is no object.
    #[error("updatedInput must be an object")]
    BadInput,
    /// `updatedPermissions` is no list of objects.
    #[error("updatedPermissions must be a list of objects")]
    BadPermissions,
    /// `message` is no string.
    #[error("message must be a string")]
    BadMessage,
    /// `interrupt` is no boolean.
    #[error("interrupt must be true or false")]
    BadInterrupt,
    /// The request asks no questions.
    #[error("the request asks no questions")]
    NoQuestions,
    /// An answer or a remark to a question that was not asked.
    #[error("the question {0:?} was not asked")]
    UnknownQuestion(String),
    /// Several answers to a question that takes one.
    #[error("the question {0:?} takes one answer")]
    OneAnswerOnly(String),
    /// An empty list of answers.
    #[error("the question {0:?} has an empty answer; name it in skipped to leave it open")]
    EmptyAnswer(String),
    /// A question is answered and skipped at once.
    #[error("the question {0:?} is both answered and skipped")]
    AnsweredAndSkipped(String),
    /// `annotations` come beside the fields that they are made from.
    #[error("annotations do not go with notes or skipped")]
    TwoAnnotations,
    /// The decision is one for another kind of request.
    #[error("the decision does not go with this kind of request, which takes {0}")]
    WrongKind(&'static str),
    /// The `action` of an answer to an elicitation is missing or unknown.
    #[error("action must be accept, decline or cancel")]
    UnknownAction,
    /// The content of an elicitation is not what its schema asks for.
    #[error("content: {0}")]
    BadContent(String),
    /// The `behavior` of an answer to a dialog is missing or unknown.
    #[error("behavior must be completed or cancelled")]
    UnknownDialogBehavior,
    /// A dialog is completed without a result.
    #[error("result is missing")]
    NoResult,
}

/// What an answer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// The tool runs.
    Allow,
    /// It does not.
    Deny,
}

/// What a complete answer does; `None` for what is no answer.
pub fn behavior(answer: &RawValue) -> Option<Behavior> {
    let [behavior] = json::members(answer.get(), ["behavior"])?;
    match json::string(behavior?)?.as_ref() {
        "allow" => Some(Behavior::Allow),
        "deny" => Some(Behavior::Deny),
        _ => None,
    }
}

/// Completes a client's answer to `request` (the whole `request` object of a `can_use_tool` request).
///
/// An allowance without `updatedInput` gets the tool's input as it was asked, a denial without a message gets one. All
/// else stays byte for byte.
///
/// # Errors
/// The answer is one that the CLI would not take.
pub fn complete_answer(request: &RawValue, answer: &RawValue) -> Result<Box<RawValue>, BadAnswer> {
    let tool = CanUseTool::read(request.get()).ok_or(BadAnswer::NotATool)?;
    let names = ["updatedInput", "updatedPermissions", "message", "interrupt"];
    let [input, permissions, message, interrupt] = json::members(answer.get(), names)
        .ok_or(BadAnswer::NotAnObject)?
        .map(|raw| raw.filter(|raw| *raw != "null"));
    let addition = match behavior(answer).ok_or(BadAnswer::UnknownBehavior)? {
        Behavior::Allow => {
            if input.is_some_and(|input| !json::is_object(input)) {
                return Err(BadAnswer::BadInput);
            }
            check_permissions(permissions)?;
            match input {
                Some(_) => None,
                None => Some(("updatedInput", tool.input.to_owned())),
            }
        }
        Behavior::Deny => {
            if interrupt.is_some_and(|interrupt| json::boolean(interrupt).is_none()) {
                return Err(BadAnswer::BadInterrupt);
            }
            match message {
                Some(message) if message.starts_with('"') => None,
                Some(_) => return Err(BadAnswer::BadMessage),
                None => Some(("message", quoted(DEFAULT_DENIAL))),
            }
        }
    };
    // A `null` in the place of what is added would stay in front of it: of a repeated name the last counts.
    let text = answer.get().trim_end();
    let completed = match addition {
        None => text.to_owned(),
        Some((name, value)) => {
            let body = text.strip_suffix('}').ok_or(BadAnswer::NotAnObject)?;
            format!(r#"{body},"{name}":{value}}}"#)
        }
    };
    raw_value(&completed).ok_or(BadAnswer::NotAnObject)
}

/// The answer that lets the tool of `request` run, with its own input or another.
///
/// # Errors
/// `request` asks for no tool, the input is no object, or the permissions are no list of objects.
pub fn allow(
    request: &RawValue,
    updated_input: Option<&RawValue>,
    updated_permissions: Option<&RawValue>,
) -> Result<Box<RawValue>, BadAnswer> {
    let tool = CanUseTool::read(request.get()).ok_or(BadAnswer::NotATool)?;
    let input = updated_input.map_or(tool.input, RawValue::get);
    if !json::is_object(input) {
        return Err(BadAnswer::BadInput);
    }
    check_permissions(updated_permissions.map(RawValue::get))?;
    let permissions = updated_permissions.map_or_else(String::new, |permissions| {
        format!(r#","updatedPermissions":{permissions}"#)
    });
    raw_value(&format!(
        r#"{{"behavior":"allow","updatedInput":{input}{permissions}}}"#
    ))
    .ok_or(BadAnswer::BadInput)
}

/// The answer that does not let a tool run. `message` is what the model reads; with `interrupt` the turn ends.
pub fn deny(message: Option<&str>, interrupt: bool) -> Result<Box<RawValue>, BadAnswer> {
    let message = quoted(
        message
            .filter(|text| !text.trim().is_empty())
            .unwrap_or(DEFAULT_DENIAL),
    );
    let interrupt = if interrupt { r#","interrupt":true"# } else { "" };
    raw_value(&format!(
        r#"{{"behavior":"deny","message":{message}{interrupt}}}"#
    ))
    .ok_or(BadAnswer::BadMessage)
}

/// Whether an allowance gives the tool another input than `asked`. Spacing and the order of names do not count.
pub fn changes_input(asked: &str, answer: &RawValue) -> bool {
    let Some([Some(given)]) = json::members(answer.get(), ["updatedInput"]) else {
        return false;
    };
    if given == asked || given == "null" {
        return false;
    }
    let value = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    match (value(asked), value(given)) {
        (Some(asked), Some(given)) => asked != given,
        _ => true,
    }
}

/// Whether an answer changes permission rules or the mode.
pub fn updates_permissions(answer: &RawValue) -> bool {
    let Some([Some(updates)]) = json::members(answer.get(), ["updatedPermissions"]) else {
        return false;
    };
    json::items(updates).is_some_and(|updates| !updates.is_empty())
}

fn check_permissions(permissions: Option<&str>) -> Result<(), BadAnswer> {
    let Some(permissions) = permissions else {
        return Ok(());
    };
    let items = json::items(permissions).ok_or(BadAnswer::BadPermissions)?;
    if items.into_iter().all(json::is_object) {
        Ok(())
    } else {
        Err(BadAnswer::BadPermissions)
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TOOL: &str =
        r#"{"subtype":"can_use_tool","tool_name":"Bash","input":{"z":1.50,"command":"x \ud83d","z":2}}"#;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn completed(answer: &str) -> Result<String, BadAnswer> {
        complete_answer(&raw(TOOL), &raw(answer)).map(|answer| answer.get().to_owned())
    }

    #[test]
    fn an_allowance_gets_the_input_as_it_was_asked() {
        let input = r#"{"z":1.50,"command":"x \ud83d","z":2}"#;
        assert_eq!(
            completed(r#"{"behavior":"allow"}"#).unwrap(),
            format!(r#"{{"behavior":"allow","updatedInput":{input}}}"#)
        );
        let null = completed(r#"{"behavior":"allow","updatedInput":null}"#).unwrap();
        let [last] = json::members(&null, ["updatedInput"]).unwrap();
        assert_eq!(last, Some(input));
    }

    #[test]
    fn a_complete_answer_stays_as_it_is() {
        for answer in [
            r#"{"behavior":"allow","updatedInput":{"command":"\ud800"},"toolUseID":"t","new":1.0}"#,
            r#"{ "behavior" : "deny", "message":"", "interrupt":true }"#,
            r#"{"behavior":"allow","updatedInput":{},"updatedPermissions":[{"type":"setMode","mode":"acceptEdits","destination":"session"}]}"#,
        ] {
            assert_eq!(completed(answer).unwrap(), answer);
        }
    }

    #[test]
    fn a_denial_gets_a_message() {
        let answer = completed(r#"{"behavior":"deny","interrupt":true}"#).unwrap();
        let value: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(
            value,
            json!({"behavior": "deny", "interrupt": true, "message": DEFAULT_DENIAL})
        );
    }

    #[test]
    fn what_the_cli_would_refuse_is_refused_first() {
        for (answer, error) in [
            ("null", BadAnswer::NotAnObject),
            ("[]", BadAnswer::NotAnObject),
            ("{}", BadAnswer::UnknownBehavior),
            (r#"{"allowed":true}"#, BadAnswer::UnknownBehavior),
            (r#"{"behavior":"maybe"}"#, BadAnswer::UnknownBehavior),
            (r#"{"behavior":"allow","updatedInput":[]}"#, BadAnswer::BadInput),
            (
                r#"{"behavior":"allow","updatedPermissions":{}}"#,
                BadAnswer::BadPermissions,
            ),
            (
                r#"{"behavior":"allow","updatedPermissions":["x"]}"#,
                BadAnswer::BadPermissions,
            ),
            (r#"{"behavior":"deny","message":7}"#, BadAnswer::BadMessage),
            (
                r#"{"behavior":"deny","message":"x","interrupt":"yes"}"#,
                BadAnswer::BadInterrupt,
            ),
        ] {
            assert_eq!(completed(answer).unwrap_err(), error, "{answer}");
        }
        let other = raw(r#"{"subtype":"hook_callback"}"#);
        let answer = raw(r#"{"behavior":"allow"}"#);
        assert_eq!(complete_answer(&other, &answer).unwrap_err(), BadAnswer::NotATool);
    }

    #[test]
    fn our_own_answers_are_complete() {
        let request = raw(TOOL);
        let plain = allow(&request, None, None).unwrap();
        assert_eq!(completed(plain.get()).unwrap(), plain.get());
        assert_eq!(behavior(&plain), Some(Behavior::Allow));
        let rules = raw(r#"[{"type":"addRules"}]"#);
        let changed = allow(&request, Some(&raw(r#"{"command":"y"}"#)), Some(&rules)).unwrap();
        assert_eq!(
            changed.get(),
            r#"{"behavior":"allow","updatedInput":{"command":"y"},"updatedPermissions":[{"type":"addRules"}]}"#
        );
        assert_eq!(
            allow(&request, Some(&raw("[]")), None).unwrap_err(),
            BadAnswer::BadInput
        );
        assert_eq!(
            allow(&request, None, Some(&raw("{}"))).unwrap_err(),
            BadAnswer::BadPermissions
        );
        assert_eq!(
            deny(Some("not \"now\""), true).unwrap().get(),
            r#"{"behavior":"deny","message":"not \"now\"","interrupt":true}"#
        );
        let silent = deny(Some("  "), false).unwrap();
        assert!(silent.get().contains(DEFAULT_DENIAL));
        assert_eq!(behavior(&silent), Some(Behavior::Deny));
    }

    #[test]
    fn what_an_answer_changes_is_seen() {
        let asked = r#"{"command":"ls","timeout":5}"#;
        for (answer, changes) in [
            (r#"{"behavior":"allow"}"#, false),
            (r#"{"updatedInput":{"command":"ls","timeout":5}}"#, false),
            (r#"{"updatedInput":{ "timeout": 5, "command": "ls" }}"#, false),
            (r#"{"updatedInput":{"command":"ls -l","timeout":5}}"#, true),
            (r#"{"updatedInput":{"command":"\ud800"}}"#, true),
        ] {
            assert_eq!(changes_input(asked, &raw(answer)), changes, "{answer}");
        }
        assert!(!updates_permissions(&raw(r#"{"updatedPermissions":[]}"#)));
        assert!(updates_permissions(&raw(r#"{"updatedPermissions":[{}]}"#)));
    }
}
