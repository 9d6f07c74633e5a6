//! Owns the approval object and the decision on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    domain::{self, ApprovalId, ApprovalKind, ApprovalState, RunId, Seq, SessionId, Timestamp},
    http::{ApiError, ErrorCode},
    session,
    store::ApprovalRow,
};

/// A request of the agent that needs, or needed, a person.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Approval {
    /// Our id.
    id: ApprovalId,
    /// The session.
    session_id: SessionId,
    /// The process that asks.
    run_id: RunId,
    /// The record of the request.
    seq: Seq,
    /// The CLI's id of the request, which a `control_response` on a socket names.
    request_id: String,
    /// What kind of answer is needed.
    kind: ApprovalKind,
    /// Where it stands.
    state: ApprovalState,
    /// The tool.
    tool_name: String,
    /// The CLI's request, byte for byte.
    #[schema(value_type = Object)]
    request: Box<RawValue>,
    /// When the CLI asked.
    #[schema(value_type = String, format = DateTime)]
    requested_at: Timestamp,
    /// How it ended; `null` while it is pending.
    resolution: Option<Resolution>,
}

/// How an approval ended.
#[derive(Serialize, utoipa::ToSchema)]
struct Resolution {
    /// Who answered: `rest`, `ws:<connection id>`, `cli` for a withdrawal, `daemon` when the process ended first.
    by: String,
    /// The answer that the CLI was given, byte for byte.
    #[schema(value_type = Option<Object>)]
    response: Option<Box<RawValue>>,
    /// When it ended.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl Approval {
    /// The object of an approval that is pending.
    pub(in crate::http) fn pending(session: SessionId, approval: domain::Approval) -> Self {
        Self::from(ApprovalRow {
            session,
            approval,
            resolution: None,
        })
    }
}

impl From<ApprovalRow> for Approval {
    fn from(row: ApprovalRow) -> Self {
        let state = row.state();
        let approval = row.approval;
        Self {
            id: approval.id,
            session_id: row.session,
            run_id: approval.run_id,
            seq: approval.seq,
            request_id: approval.request_id,
            kind: approval.kind,
            state,
            tool_name: approval.tool_name,
            request: approval.request,
            requested_at: approval.requested_at,
            resolution: row.resolution.map(|resolution| Resolution {
                by: resolution.by,
                response: resolution.response,
                at: resolution.at,
            }),
        }
    }
}

/// What lists say about a pending approval.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ApprovalSummary {
    /// Our id.
    id: ApprovalId,
    /// The CLI's id of the request, which a `control_response` on a socket names.
    request_id: String,
    /// What kind of answer is needed.
    kind: ApprovalKind,
    /// The tool.
    tool_name: String,
    /// The record of the request.
    seq: Seq,
    /// When the CLI asked.
    #[schema(value_type = String, format = DateTime)]
    requested_at: Timestamp,
}

impl ApprovalSummary {
    pub(super) fn of(approval: &domain::Approval) -> Self {
        Self {
            id: approval.id,
            request_id: approval.request_id.clone(),
            kind: approval.kind,
            tool_name: approval.tool_name.clone(),
            seq: approval.seq,
            requested_at: approval.requested_at,
        }
    }
}

/// A page of approvals, newest first.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ApprovalPage {
    /// The approvals.
    pub(in crate::http) items: Vec<Approval>,
    /// Where the next page begins; `null` at the end.
    pub(in crate::http) next_cursor: Option<String>,
}

/// What a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// Let it happen.
    Allow,
    /// Do not let it happen.
    Deny,
    /// Answer the questions.
    Answer,
}

/// The decision on an approval. Each field goes with one verdict only.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"decision": "allow"}))]
pub(in crate::http) struct DecisionRequest {
    /// What is decided.
    decision: Verdict,
    /// `allow`: the tool's input in place of the one that was asked for.
    #[schema(value_type = Option<Object>)]
    updated_input: Option<Box<RawValue>>,
    /// `allow`: changes of the permission rules, as the request suggests them.
    #[schema(value_type = Option<Vec<Object>>)]
    updated_permissions: Option<Box<RawValue>>,
    /// `deny`: what the agent is told.
    message: Option<String>,
    /// `deny`: whether the turn is interrupted as well.
    interrupt: Option<bool>,
    /// `answer`: the answer to each question, by the question's text.
    answers: Option<BTreeMap<String, String>>,
    /// `answer`: notes and previews to the answers, as the CLI takes them.
    #[schema(value_type = Option<Object>)]
    annotations: Option<Box<RawValue>>,
}

impl DecisionRequest {
    /// The decision, if its fields fit together.
    pub(in crate::http) fn into_decision(self) -> Result<session::Decision, ApiError> {
        let verdict = self.decision;
        let fields = [
            ("updated_input", Verdict::Allow, self.updated_input.is_some()),
            (
                "updated_permissions",
                Verdict::Allow,
                self.updated_permissions.is_some(),
            ),
            ("message", Verdict::Deny, self.message.is_some()),
            ("interrupt", Verdict::Deny, self.interrupt.is_some()),
            ("answers", Verdict::Answer, self.answers.is_some()),
            ("annotations", Verdict::Answer, self.annotations.is_some()),
        ];
        if let Some((field, ..)) = fields.iter().find(|(_, of, given)| *given && *of != verdict) {
            return Err(invalid(field, "does not go with this decision"));
        }
        Ok(match verdict {
            Verdict::Allow => session::Decision::Allow {
                updated_input: self.updated_input,
                updated_permissions: self.updated_permissions,
            },
            Verdict::Deny => session::Decision::Deny {
                message: self.message,
                interrupt: self.interrupt.unwrap_or(false),
            },
            Verdict::Answer => session::Decision::Answers {
                answers: self.answers.ok_or_else(|| invalid("answers", "is missing"))?,
                annotations: self.annotations,
            },
        })
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
            r#"{"decision":"deny","message":"no","interrupt":true}"#,
            r#"{"decision":"answer","answers":{"Which?":"this"}}"#,
        ] {
            assert!(decide(good).is_ok(), "{good}");
        }
        for bad in [
            r#"{"decision":"deny","updated_input":{}}"#,
            r#"{"decision":"allow","message":"no"}"#,
            r#"{"decision":"answer"}"#,
            r#"{"decision":"allow","answers":{}}"#,
        ] {
            assert_eq!(decide(bad).unwrap_err(), ErrorCode::InvalidDecision, "{bad}");
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
