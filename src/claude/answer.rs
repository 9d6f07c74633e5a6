//! Owns the answers to what the CLI asks of a person; here those about tools.
//!
//! A client's answer is completed so that the CLI takes it, and ours are built. Text that the model wrote is kept byte for
//! byte.

mod dialog;
mod elicitation;
mod form;
mod grants;
mod hook;
mod keys;
mod permissions;
mod plan;
mod questions;

use serde_json::value::RawValue;

use super::control::{CanUseTool, raw_value};
use crate::json;

pub use self::{
    dialog::{cancel_dialog, complete_dialog, complete_dialog_answer},
    elicitation::{ElicitationAction, answer_elicitation, complete_elicitation},
    grants::{
        Grants, RuleGrant, added_directories, directories_of_permissions, directories_of_settings,
        directories_of_updates, permission_updates,
    },
    hook::{
        HookBehavior, HookVerdict, block_goes_on, can_block, check_hook_output, decides_call,
        is_before_person, puts_off,
    },
    permissions::rule_text,
    plan::accept_plan,
    questions::{Chosen, QuestionAnswers, answer_questions},
};

/// The keys of an answer about a tool.
const KEYS: [&str; 7] = [
    "behavior",
    "updatedInput",
    "updatedPermissions",
    "message",
    "interrupt",
    "toolUseID",
    "decisionClassification",
];

/// The words given to the model when a person denies without a message.
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
    /// A directory that would be added is outside of those that sessions may work in.
    #[error("the directory {0:?} is outside of sessions.cwd_roots")]
    OutsideRoots(String),
    /// A key that the CLI would overlook, as it is not spelt as it should be.
    #[error("{given:?} is no key of the answer, {known:?} is")]
    MisspeltKey {
        /// The key as it was given.
        given: String,
        /// The key that was meant.
        known: &'static str,
    },
    /// A member of a hook's output has a value for which the CLI drops the whole output.
    #[error("{name} must be {needs}")]
    UnfitMember {
        /// The member.
        name: &'static str,
        /// The kind that it must be.
        needs: String,
    },
    /// The part of a hook's output that goes with the event names none or another one, so the CLI drops the whole output.
    #[error("hookSpecificOutput.hookEventName must be {0:?}, the event that the hook was asked at")]
    OtherEvent(String),
    /// `behavior` is missing or unknown.
    #[error("behavior must be allow or deny")]
    UnknownBehavior,
    /// `updatedInput` is no object.
    #[error("updatedInput must be an object")]
    BadInput,
    /// `updatedPermissions` is no list.
    #[error("updatedPermissions must be a list of objects")]
    BadPermissions,
    /// One of the `updatedPermissions` is not what its type asks for.
    #[error("updatedPermissions[{place}] {needs}")]
    BadPermission {
        /// Its place in the list, from 0.
        place: usize,
        /// The missing part.
        needs: &'static str,
    },
    /// There are more `updatedPermissions` than the CLI takes.
    #[error("updatedPermissions hold more than {most} updates, rules and directories in all")]
    TooManyPermissions {
        /// The limit.
        most: usize,
    },
    /// `toolUseID` is no string.
    #[error("toolUseID must be a string")]
    BadToolUseId,
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

/// The effect of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// The tool runs.
    Allow,
    /// It does not.
    Deny,
}

/// The effect of a complete answer; `None` for a value that is no answer.
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
/// else stays byte for byte. `may_bypass` says whether the session may come into the mode `bypassPermissions`.
///
/// # Errors
/// The answer is one that the CLI would not take, or would take for another.
pub fn complete_answer(
    request: &RawValue,
    answer: &RawValue,
    may_bypass: bool,
) -> Result<Box<RawValue>, BadAnswer> {
    let tool = CanUseTool::read(request.get()).ok_or(BadAnswer::NotATool)?;
    let names = [
        "updatedInput",
        "updatedPermissions",
        "message",
        "interrupt",
        "toolUseID",
    ];
    let given = json::members(answer.get(), names).ok_or(BadAnswer::NotAnObject)?;
    keys::check(answer.get(), &KEYS)?;
    if let Some([Some(_)]) = json::members(answer.get(), ["decision"]) {
        // It is how a decision over REST is spelt, and may say something else than `behavior`.
        return Err(BadAnswer::MisspeltKey {
            given: "decision".to_owned(),
            known: "behavior",
        });
    }
    let [.., interrupt_given, id_given] = given;
    let [input, permissions, message, interrupt, id] = given.map(|raw| raw.filter(|raw| *raw != "null"));
    let mut additions = Vec::new();
    match behavior(answer).ok_or(BadAnswer::UnknownBehavior)? {
        Behavior::Allow => {
            if input.is_some_and(|input| !json::is_object(input)) {
                return Err(BadAnswer::BadInput);
            }
            permissions::check(permissions, may_bypass)?;
            if input.is_none() {
                additions.push(("updatedInput", tool.input.to_owned()));
            }
        }
        Behavior::Deny => {
            if interrupt.is_some_and(|interrupt| json::boolean(interrupt).is_none()) {
                return Err(BadAnswer::BadInterrupt);
            }
            if interrupt.is_none() && interrupt_given.is_some() {
                additions.push(("interrupt", "false".to_owned()));
            }
            match message {
                Some(message) if message.starts_with('"') => {}
                Some(_) => return Err(BadAnswer::BadMessage),
                None => additions.push(("message", quoted(DEFAULT_DENIAL))),
            }
        }
    }
    match (id_given, id) {
        (None, _) => {}
        (Some(_), Some(id)) if id.starts_with('"') => {}
        (Some(_), Some(_)) => return Err(BadAnswer::BadToolUseId),
        (Some(_), None) => {
            let [asked] = json::members(request.get(), ["tool_use_id"]).ok_or(BadAnswer::NotATool)?;
            let asked = asked.filter(|id| id.starts_with('"'));
            additions.push(("toolUseID", asked.ok_or(BadAnswer::BadToolUseId)?.to_owned()));
        }
    }
    // A `null` in the place of what is added would stay in front of it: of a repeated name the last counts.
    let mut completed = answer.get().trim_end().to_owned();
    for (name, value) in additions {
        let body = completed.strip_suffix('}').ok_or(BadAnswer::NotAnObject)?;
        completed = format!(r#"{body},"{name}":{value}}}"#);
    }
    raw_value(&completed).ok_or(BadAnswer::NotAnObject)
}

/// The answer that lets the tool of `request` run, with its own input or another.
///
/// # Errors
/// `request` asks for no tool, the input is no object, or the CLI would ignore the permissions.
pub fn allow(
    request: &RawValue,
    updated_input: Option<&RawValue>,
    updated_permissions: Option<&RawValue>,
    may_bypass: bool,
) -> Result<Box<RawValue>, BadAnswer> {
    let tool = CanUseTool::read(request.get()).ok_or(BadAnswer::NotATool)?;
    let input = updated_input.map_or(tool.input, RawValue::get);
    if !json::is_object(input) {
        return Err(BadAnswer::BadInput);
    }
    permissions::check(updated_permissions.map(RawValue::get), may_bypass)?;
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
    is_other_input(asked, given)
}

/// Whether an input differs from the one that was asked about; `null` is none.
pub fn is_other_input(asked: &str, given: &str) -> bool {
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

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TOOL: &str = r#"{"subtype":"can_use_tool","tool_name":"Bash","input":{"z":1.50,"command":"x \ud83d","z":2},"tool_use_id":"toolu_1"}"#;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn completed(answer: &str) -> Result<String, BadAnswer> {
        complete_answer(&raw(TOOL), &raw(answer), false).map(|answer| answer.get().to_owned())
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

    /// The CLI takes `null` for an input of another kind where a member may be left out.
    #[test]
    fn a_null_in_the_place_of_a_member_is_made_good() {
        let text =
            completed(r#"{"behavior":"deny","message":"x","interrupt":null,"toolUseID":null}"#).unwrap();
        let [interrupt, id] = json::members(&text, ["interrupt", "toolUseID"]).unwrap();
        assert_eq!((interrupt, id), (Some("false"), Some(r#""toolu_1""#)));
        let text = completed(r#"{"behavior":"allow","updatedInput":{},"toolUseID":null}"#).unwrap();
        let [id] = json::members(&text, ["toolUseID"]).unwrap();
        assert_eq!(id, Some(r#""toolu_1""#));
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
                BadAnswer::BadPermission {
                    place: 0,
                    needs: "must be an object",
                },
            ),
            (r#"{"behavior":"allow","toolUseID":7}"#, BadAnswer::BadToolUseId),
            (
                r#"{"behavior":"allow","updated_input":{}}"#,
                BadAnswer::MisspeltKey {
                    given: "updated_input".to_owned(),
                    known: "updatedInput",
                },
            ),
            (
                r#"{"behavior":"deny","message":"x","Interrupt":true}"#,
                BadAnswer::MisspeltKey {
                    given: "Interrupt".to_owned(),
                    known: "interrupt",
                },
            ),
            (
                r#"{"behavior":"deny","message":"x","toolUseID":[]}"#,
                BadAnswer::BadToolUseId,
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
        assert_eq!(
            complete_answer(&other, &answer, false).unwrap_err(),
            BadAnswer::NotATool
        );
    }

    #[test]
    fn our_own_answers_are_complete() {
        let request = raw(TOOL);
        let plain = allow(&request, None, None, false).unwrap();
        assert_eq!(completed(plain.get()).unwrap(), plain.get());
        assert_eq!(behavior(&plain), Some(Behavior::Allow));
        let rules = raw(r#"[{"type":"setMode","mode":"plan","destination":"session"}]"#);
        let changed = allow(&request, Some(&raw(r#"{"command":"y"}"#)), Some(&rules), false).unwrap();
        assert_eq!(
            changed.get(),
            r#"{"behavior":"allow","updatedInput":{"command":"y"},"updatedPermissions":[{"type":"setMode","mode":"plan","destination":"session"}]}"#
        );
        assert_eq!(
            allow(&request, Some(&raw("[]")), None, false).unwrap_err(),
            BadAnswer::BadInput
        );
        assert_eq!(
            allow(&request, None, Some(&raw("{}")), false).unwrap_err(),
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
