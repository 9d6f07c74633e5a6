//! Owns the decision on an approval, as a client gives it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    claude::{
        answer::{Chosen, QuestionAnswers},
        options::PermissionMode,
    },
    http::{ApiError, ErrorCode},
    session,
};

/// A person's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// Tools, plans: let it happen.
    Allow,
    /// Tools, plans, questions: do not let it happen.
    Deny,
    /// Questions: answer them.
    Answer,
    /// Elicitations: fill in the form, or say that the page was visited.
    Accept,
    /// Elicitations: say no.
    Decline,
    /// Elicitations, dialogs: close it without an answer.
    Cancel,
    /// Dialogs: complete it.
    Complete,
}

/// The decision on an approval. Each field goes with one verdict only.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"decision": "allow"}))]
pub(in crate::http) struct DecisionRequest {
    /// The decision.
    decision: Verdict,
    /// `allow`: the tool's input in place of the one that was asked for.
    #[schema(value_type = Option<Object>)]
    updated_input: Option<Box<RawValue>>,
    /// `allow`: changes of the permission rules, as the request suggests them.
    #[schema(value_type = Option<Vec<Object>>)]
    updated_permissions: Option<Box<RawValue>>,
    /// `allow` of a plan: the plan as it shall be carried out.
    plan: Option<String>,
    /// `allow` of a plan: the permission mode to go on in. Without it the CLI goes back to the one before the plan.
    next_mode: Option<PermissionMode>,
    /// `deny`: what the agent is told.
    message: Option<String>,
    /// `deny`: whether the turn is interrupted as well.
    interrupt: Option<bool>,
    /// `answer`: the answer to each question, by the question's text: a label, free text, or a list of labels.
    answers: Option<BTreeMap<String, Chosen>>,
    /// `answer`: remarks in your own words, by the question's text.
    notes: Option<BTreeMap<String, String>>,
    /// `answer`: the texts of questions that are left open on purpose.
    skipped: Option<Vec<String>>,
    /// `answer`: notes and previews to the answers, as the CLI takes them; in the place of `notes` and `skipped`.
    #[schema(value_type = Option<Object>)]
    annotations: Option<Box<RawValue>>,
    /// `accept`: what is filled in, as `requested_schema` asks for it.
    #[schema(value_type = Option<Object>)]
    content: Option<Box<RawValue>>,
    /// `complete`: the dialog's result, in the form that its kind wants.
    #[schema(value_type = Option<Object>)]
    result: Option<Box<RawValue>>,
}

impl DecisionRequest {
    /// The decision, if its fields fit together.
    pub(in crate::http) fn into_decision(self) -> Result<session::Decision, ApiError> {
        let verdict = self.decision;
        if let Some((field, _)) = self.given().into_iter().find(|(_, of)| *of != verdict) {
            return Err(invalid(field, "does not go with this decision"));
        }
        Ok(match verdict {
            Verdict::Allow if self.plan.is_some() || self.next_mode.is_some() => {
                if self.updated_input.is_some() {
                    return Err(invalid("updated_input", "does not go with plan or next_mode"));
                }
                if self.updated_permissions.is_some() {
                    return Err(invalid(
                        "updated_permissions",
                        "does not go with plan or next_mode",
                    ));
                }
                session::Decision::Plan {
                    plan: self.plan,
                    next_mode: self.next_mode,
                }
            }
            Verdict::Allow => session::Decision::Allow {
                updated_input: self.updated_input,
                updated_permissions: self.updated_permissions,
            },
            Verdict::Deny => session::Decision::Deny {
                message: self.message,
                interrupt: self.interrupt.unwrap_or(false),
            },
            Verdict::Answer => {
                if self.answers.is_none() && self.notes.is_none() && self.skipped.is_none() {
                    return Err(invalid("answers", "is missing"));
                }
                session::Decision::Answers(QuestionAnswers {
                    answers: self.answers.unwrap_or_default(),
                    notes: self.notes.unwrap_or_default(),
                    skipped: self.skipped.unwrap_or_default(),
                    annotations: self.annotations,
                })
            }
            Verdict::Accept => session::Decision::Accept(self.content),
            Verdict::Decline => session::Decision::Decline,
            Verdict::Cancel => session::Decision::Cancel,
            Verdict::Complete => {
                session::Decision::Complete(self.result.ok_or_else(|| invalid("result", "is missing"))?)
            }
        })
    }

    /// The fields that are given, each with the verdict that it goes with.
    fn given(&self) -> Vec<(&'static str, Verdict)> {
        let fields = [
            ("updated_input", Verdict::Allow, self.updated_input.is_some()),
            (
                "updated_permissions",
                Verdict::Allow,
                self.updated_permissions.is_some(),
            ),
            ("plan", Verdict::Allow, self.plan.is_some()),
            ("next_mode", Verdict::Allow, self.next_mode.is_some()),
            ("message", Verdict::Deny, self.message.is_some()),
            ("interrupt", Verdict::Deny, self.interrupt.is_some()),
            ("answers", Verdict::Answer, self.answers.is_some()),
            ("notes", Verdict::Answer, self.notes.is_some()),
            ("skipped", Verdict::Answer, self.skipped.is_some()),
            ("annotations", Verdict::Answer, self.annotations.is_some()),
            ("content", Verdict::Accept, self.content.is_some()),
            ("result", Verdict::Complete, self.result.is_some()),
        ];
        let given = fields.into_iter().filter(|(.., given)| *given);
        given.map(|(field, verdict, _)| (field, verdict)).collect()
    }
}

fn invalid(field: &str, reason: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidDecision)
        .detail(format!("{field} {reason}"))
        .member("field", field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(json: &str) -> Result<session::Decision, ErrorCode> {
        serde_json::from_str::<DecisionRequest>(json)
            .unwrap()
            .into_decision()
            .map_err(|error| error.code())
    }

    #[test]
    fn fields_must_go_with_the_verdict() {
        for good in [
            r#"{"decision":"allow"}"#,
            r#"{"decision":"allow","updated_input":{"a":1},"updated_permissions":[]}"#,
            r#"{"decision":"allow","plan":"x","next_mode":"acceptEdits"}"#,
            r#"{"decision":"deny","message":"no","interrupt":true}"#,
            r#"{"decision":"answer","answers":{"Which?":"this","All?":["a","b"]},"notes":{"Which?":"n"}}"#,
            r#"{"decision":"answer","skipped":["Which?"]}"#,
            r#"{"decision":"accept"}"#,
            r#"{"decision":"accept","content":{"a":1}}"#,
            r#"{"decision":"decline"}"#,
            r#"{"decision":"cancel"}"#,
            r#"{"decision":"complete","result":{}}"#,
        ] {
            assert!(decide(good).is_ok(), "{good}");
        }
        for bad in [
            r#"{"decision":"deny","updated_input":{}}"#,
            r#"{"decision":"allow","message":"no"}"#,
            r#"{"decision":"allow","plan":"x","updated_input":{}}"#,
            r#"{"decision":"allow","next_mode":"plan","updated_permissions":[]}"#,
            r#"{"decision":"answer"}"#,
            r#"{"decision":"answer","annotations":{}}"#,
            r#"{"decision":"allow","answers":{}}"#,
            r#"{"decision":"decline","content":{}}"#,
            r#"{"decision":"cancel","result":1}"#,
            r#"{"decision":"complete"}"#,
        ] {
            assert_eq!(decide(bad).unwrap_err(), ErrorCode::InvalidDecision, "{bad}");
        }
    }

    /// The examples of the page are decisions that the API takes.
    #[test]
    fn the_documented_decisions_are_taken() {
        const PAGE: &str = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/docs/protocol/approvals-and-rules.md"
        ));
        let examples: Vec<&str> = PAGE
            .split("```json decision\n")
            .skip(1)
            .filter_map(|rest| rest.split("```").next())
            .collect();
        assert!(examples.len() > 7, "{examples:?}");
        for example in examples {
            assert!(decide(example).is_ok(), "{example}");
        }
    }

    #[test]
    fn a_changed_input_keeps_its_bytes() {
        let decision = decide(r#"{"decision":"allow","updated_input":{"n":1.0,  "x":"\ud83d"}}"#).unwrap();
        let session::Decision::Allow { updated_input, .. } = decision else {
            panic!("not an allow");
        };
        assert_eq!(updated_input.unwrap().get(), r#"{"n":1.0,  "x":"\ud83d"}"#);
    }
}
