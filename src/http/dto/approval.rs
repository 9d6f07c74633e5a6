//! Owns the approval object.

mod csv;
mod decision;

use serde::Serialize;
use serde_json::value::RawValue;

pub(in crate::http) use self::{csv::HEADING as APPROVALS_CSV_HEADING, decision::DecisionRequest};
use crate::{
    claude::control::raw_value,
    domain::{self, ApprovalHow, ApprovalId, ApprovalKind, ApprovalState, RunId, Seq, SessionId, Timestamp},
    json,
    session::{MOST_BYTES, excerpt},
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
    /// The kind of answer that is needed.
    kind: ApprovalKind,
    /// Where it stands.
    state: ApprovalState,
    /// The tool, the MCP server of an elicitation, the kind of a dialog, the event of a hook.
    subject: String,
    /// The tool; `null` for elicitations and dialogs.
    tool_name: Option<String>,
    /// The CLI's request, byte for byte. The fields below show parts of it. Lists and snapshots have the small members only
    /// of one with more than 64 KiB.
    #[schema(value_type = Object)]
    request: Box<RawValue>,
    /// Whether members are left out of `request`, and so of the fields below. `GET` of the approval has all of them.
    request_truncated: bool,
    /// The size of the whole request.
    request_bytes: u64,
    /// The members that are left out, such as `input.content`; of very many the first.
    left_out: Vec<String>,
    /// SHA-256 of what was asked, byte for byte, in hex: of a tool's `input`, else of the whole request.
    input_sha256: Option<String>,
    /// Whether only a person may answer: no rule does.
    requires_user_interaction: bool,
    /// A heading.
    #[schema(value_type = Option<String>)]
    title: Option<Box<RawValue>>,
    /// A name for people of the tool or of the server.
    #[schema(value_type = Option<String>)]
    display_name: Option<Box<RawValue>>,
    /// The tool's action, in words.
    #[schema(value_type = Option<String>)]
    description: Option<Box<RawValue>>,
    /// Why a person is asked.
    #[schema(value_type = Option<String>)]
    reason: Option<Box<RawValue>>,
    /// The kind of that reason: `rule`, `mode`, `hook`, …
    #[schema(value_type = Option<String>)]
    reason_type: Option<Box<RawValue>>,
    /// The path that needs the permission.
    #[schema(value_type = Option<String>)]
    blocked_path: Option<Box<RawValue>>,
    /// Permission updates that would stop the asking, to be given back as `updated_permissions`.
    #[schema(value_type = Option<Vec<Object>>)]
    suggestions: Option<Box<RawValue>>,
    /// The tool's call.
    #[schema(value_type = Option<String>)]
    tool_use_id: Option<Box<RawValue>>,
    /// The sub-agent that asks; `null` for the main one.
    #[schema(value_type = Option<String>)]
    agent_id: Option<Box<RawValue>>,
    /// Questions: what is asked, as the CLI puts it: `question`, `header`, `options`, `multiSelect`.
    #[schema(value_type = Option<Vec<Object>>)]
    questions: Option<Box<RawValue>>,
    /// Plans: the plan, in Markdown.
    #[schema(value_type = Option<String>)]
    plan: Option<Box<RawValue>>,
    /// Plans: the file that it is in.
    #[schema(value_type = Option<String>)]
    plan_file: Option<Box<RawValue>>,
    /// Elicitations: what the server says.
    #[schema(value_type = Option<String>)]
    message: Option<Box<RawValue>>,
    /// Elicitations: `form` or `url`.
    #[schema(value_type = Option<String>)]
    mode: Option<Box<RawValue>>,
    /// Elicitations: the page to visit.
    #[schema(value_type = Option<String>)]
    url: Option<Box<RawValue>>,
    /// Elicitations: the JSON schema of the form.
    #[schema(value_type = Option<Object>)]
    requested_schema: Option<Box<RawValue>>,
    /// Elicitations: the order of the form's fields.
    #[schema(value_type = Option<Vec<String>>)]
    property_order: Option<Box<RawValue>>,
    /// Dialogs: what the dialog shows.
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    /// When the CLI asked.
    #[schema(value_type = String, format = DateTime)]
    requested_at: Timestamp,
    /// When a rule decides if nobody has; `null`: never.
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline: Option<Timestamp>,
    /// The id of the rule that matched: that decided it, or that has a person asked.
    rule: Option<String>,
    /// How it ended; `null` while it is pending.
    resolution: Option<Resolution>,
}

/// How an approval ended.
#[derive(Serialize, utoipa::ToSchema)]
struct Resolution {
    /// By what it ended.
    how: ApprovalHow,
    /// The one who answered: `rest`, `login:<name>` for a browser that was let in, `ws:<connection id>`, `rule:<rule id>`, `expiry:<rule id>`, `covered:<approval id or mode>`, `webhook:<place in options.hooks>`, `fixed:<place>`, `cli` for a withdrawal and a denial of its own, `daemon` when the process ended first.
    by: String,
    /// The answer that the CLI was given, byte for byte.
    #[schema(value_type = Option<Object>)]
    response: Option<Box<RawValue>>,
    /// Whether members are left out of `response`, as of a large request.
    response_truncated: bool,
    /// Whether the tool got another input than it asked for. Answers to questions count: the CLI takes them as input.
    input_changed: bool,
    /// Whether the answer changed permission rules or the mode.
    permissions_updated: bool,
    /// SHA-256 of the input that was let through, byte for byte, in hex; `null` where none was.
    ran_sha256: Option<String>,
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

    /// The object of an approval in a list, which has parts of what is large.
    pub(in crate::http) fn listed(mut row: ApprovalRow) -> Self {
        if let Some(part) = excerpt(&row.approval.request, MOST_BYTES) {
            row.approval.request = part.object;
            row.approval.left_out = Some(Box::new(part.left_out));
        }
        let response = row.resolution.as_mut().and_then(|end| end.response.as_mut());
        let part = response.and_then(|response| {
            let part = excerpt(response, MOST_BYTES)?;
            *response = part.object;
            Some(part.left_out)
        });
        let mut listed = Self::from(row);
        if let Some(resolution) = &mut listed.resolution {
            resolution.response_truncated = part.is_some();
        }
        listed
    }
}

impl From<ApprovalRow> for Approval {
    fn from(row: ApprovalRow) -> Self {
        let state = row.state();
        let domain::Approval {
            id,
            run_id,
            seq,
            request_id,
            kind,
            subject,
            request,
            left_out,
            input_sha256,
            requested_at,
            deadline,
            rule,
        } = row.approval;
        let [input, interaction] = members(&request, ["input", "requires_user_interaction"]);
        let [questions, plan, plan_file] = input
            .as_deref()
            .filter(|_| matches!(kind, ApprovalKind::Question | ApprovalKind::Plan))
            .map(|input| members(input, ["questions", "plan", "planFilePath"]))
            .unwrap_or_default();
        let [
            title,
            display_name,
            description,
            reason,
            reason_type,
            blocked_path,
        ] = members(
            &request,
            [
                "title",
                "display_name",
                "description",
                "decision_reason",
                "decision_reason_type",
                "blocked_path",
            ],
        );
        let [suggestions, tool_use_id, agent_id] =
            members(&request, ["permission_suggestions", "tool_use_id", "agent_id"]);
        let [message, mode, url, requested_schema, property_order, payload] = members(
            &request,
            [
                "message",
                "mode",
                "url",
                "requested_schema",
                "property_order",
                "payload",
            ],
        );
        let is_tool = is_of_tool(kind);
        Self {
            id,
            session_id: row.session,
            run_id,
            seq,
            request_id,
            kind,
            state,
            tool_name: is_tool.then(|| subject.clone()),
            subject,
            input_sha256,
            requires_user_interaction: !matches!(kind, ApprovalKind::Tool | ApprovalKind::Hook)
                || interaction.is_some_and(|raw| raw.get() == "true"),
            title,
            display_name,
            description,
            reason,
            reason_type,
            blocked_path,
            suggestions,
            tool_use_id,
            agent_id,
            questions,
            plan,
            plan_file,
            message,
            mode,
            url,
            requested_schema,
            property_order,
            payload,
            request_truncated: left_out.is_some(),
            request_bytes: left_out
                .as_ref()
                .map_or(request.get().len() as u64, |left_out| left_out.bytes),
            left_out: left_out.map(|left_out| left_out.members).unwrap_or_default(),
            request,
            requested_at,
            deadline,
            rule,
            resolution: row.resolution.map(|resolution| Resolution {
                how: resolution.how,
                by: resolution.by,
                response: resolution.response,
                response_truncated: false,
                input_changed: resolution.input_changed,
                permissions_updated: resolution.permissions_updated,
                ran_sha256: resolution.ran_sha256,
                at: resolution.at,
            }),
        }
    }
}

/// The members of a raw object, byte for byte. A `null` counts as missing.
fn members<const N: usize>(object: &RawValue, names: [&str; N]) -> [Option<Box<RawValue>>; N] {
    json::members(object.get(), names)
        .unwrap_or([None; N])
        .map(|raw| raw.filter(|raw| *raw != "null").and_then(raw_value))
}

/// Whether approvals of this kind are about a tool.
const fn is_of_tool(kind: ApprovalKind) -> bool {
    matches!(
        kind,
        ApprovalKind::Tool | ApprovalKind::Question | ApprovalKind::Plan | ApprovalKind::Deferred
    )
}

/// A pending approval as lists show it.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ApprovalSummary {
    /// Our id.
    id: ApprovalId,
    /// The CLI's id of the request, which a `control_response` on a socket names.
    request_id: String,
    /// The kind of answer that is needed.
    kind: ApprovalKind,
    /// The subject: the tool's name, the MCP server's of an elicitation, the kind of a dialog.
    subject: String,
    /// The tool; `null` for elicitations and dialogs.
    tool_name: Option<String>,
    /// The record of the request.
    seq: Seq,
    /// When the CLI asked.
    #[schema(value_type = String, format = DateTime)]
    requested_at: Timestamp,
    /// When a rule decides if nobody has; `null`: never.
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline: Option<Timestamp>,
    /// The id of the rule that matched: that decided it, or that has a person asked.
    rule: Option<String>,
}

impl ApprovalSummary {
    pub(super) fn of(approval: &domain::Approval) -> Self {
        Self {
            id: approval.id,
            request_id: approval.request_id.clone(),
            kind: approval.kind,
            subject: approval.subject.clone(),
            tool_name: is_of_tool(approval.kind).then(|| approval.subject.clone()),
            seq: approval.seq,
            requested_at: approval.requested_at,
            deadline: approval.deadline,
            rule: approval.rule.clone(),
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::Seq;

    fn shown(kind: ApprovalKind, request: &str) -> Value {
        let session = SessionId::new();
        let approval = Approval::pending(
            session,
            domain::Approval {
                id: ApprovalId::of_record(session, Seq::new(1)),
                run_id: RunId::new(),
                seq: Seq::new(1),
                request_id: "r1".to_owned(),
                kind,
                subject: "what".to_owned(),
                request: RawValue::from_string(request.to_owned()).unwrap(),
                left_out: None,
                input_sha256: None,
                requested_at: Timestamp::from_micros(0),
                deadline: None,
                rule: None,
            },
        );
        serde_json::from_str(&serde_json::to_string(&approval).unwrap()).unwrap()
    }

    #[test]
    fn a_form_can_be_built_from_what_was_asked() {
        let tool = shown(
            ApprovalKind::Tool,
            r#"{"subtype":"can_use_tool","tool_name":"what","input":{"plan":"no plan of ours"},"tool_use_id":"t1","agent_id":"a1",
                "blocked_path":"/etc","decision_reason":"outside","permission_suggestions":[{"type":"addRules"}]}"#,
        );
        assert_eq!(
            (&tool["tool_name"], &tool["subject"]),
            (&json!("what"), &json!("what"))
        );
        assert_eq!(
            (&tool["tool_use_id"], &tool["agent_id"]),
            (&json!("t1"), &json!("a1"))
        );
        assert_eq!(
            (&tool["blocked_path"], &tool["reason"]),
            (&json!("/etc"), &json!("outside"))
        );
        assert_eq!(tool["suggestions"], json!([{"type": "addRules"}]));
        assert_eq!(
            (&tool["plan"], &tool["requires_user_interaction"]),
            (&Value::Null, &json!(false))
        );

        let question = shown(
            ApprovalKind::Question,
            r#"{"tool_name":"what","input":{"questions":[{"question":"?"}]}}"#,
        );
        assert_eq!(question["questions"], json!([{"question": "?"}]));
        assert_eq!(question["requires_user_interaction"], true);

        let plan = shown(
            ApprovalKind::Plan,
            r##"{"tool_name":"what","input":{"plan":"# P","planFilePath":"/p.md"},"requires_user_interaction":true}"##,
        );
        assert_eq!(
            (&plan["plan"], &plan["plan_file"]),
            (&json!("# P"), &json!("/p.md"))
        );

        let form = shown(
            ApprovalKind::Elicitation,
            r#"{"mcp_server_name":"what","message":"Who?","mode":"form","requested_schema":{"type":"object"},"property_order":["b","a"]}"#,
        );
        assert_eq!(
            (&form["tool_name"], &form["subject"]),
            (&Value::Null, &json!("what"))
        );
        assert_eq!(
            (&form["message"], &form["mode"], &form["url"]),
            (&json!("Who?"), &json!("form"), &Value::Null)
        );
        assert_eq!(form["requested_schema"], json!({"type": "object"}));
        assert_eq!(form["property_order"], json!(["b", "a"]));
        assert_eq!(form["requires_user_interaction"], true);

        let dialog = shown(
            ApprovalKind::Dialog,
            r#"{"dialog_kind":"what","payload":{"n":1.0}}"#,
        );
        assert_eq!(dialog["payload"], json!({"n": 1.0}));
    }

    #[test]
    fn texts_that_no_string_can_hold_pass() {
        let text = serde_json::to_string(&Approval::pending(
            SessionId::new(),
            domain::Approval {
                id: ApprovalId::of_record(SessionId::new(), Seq::new(1)),
                run_id: RunId::new(),
                seq: Seq::new(1),
                request_id: "r1".to_owned(),
                kind: ApprovalKind::Plan,
                subject: "ExitPlanMode".to_owned(),
                request: RawValue::from_string(r#"{"input":{"plan":"cut \ud83d"}}"#.to_owned()).unwrap(),
                left_out: None,
                input_sha256: None,
                requested_at: Timestamp::from_micros(0),
                deadline: None,
                rule: None,
            },
        ))
        .unwrap();
        assert!(text.contains(r#""plan":"cut \ud83d""#), "{text}");
    }
}
