//! Owns the objects about rules: lists, and the dry run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    domain::{
        ApprovalKind, RuleSpec,
        rule::{Asked, Input, OnDeadline, Passed, RuleAction, RuleSource, Verdict},
    },
    json::JsonObject,
    session::kind_of_tool,
};

/// Rules in their order; the first that matches decides.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RuleList {
    /// The rules.
    #[schema(max_items = 256)]
    pub(in crate::http) items: Vec<RuleSpec>,
}

/// Something that somebody might be asked, to learn what the rules would say. A part that is left out is as in the
/// session.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"tool": "Bash", "input": {"command": "git status"}}))]
pub(in crate::http) struct RuleTestRequest {
    /// The tool; the MCP server of an elicitation, the kind of a dialog.
    tool: String,
    /// Its input.
    #[schema(value_type = Option<Object>)]
    input: Option<JsonObject>,
    /// The session's directory.
    cwd: Option<String>,
    /// The sub-agent that asks; the main agent when it is left out.
    agent: Option<String>,
    /// The session's permission mode.
    mode: Option<String>,
    /// Why the CLI asks, as an approval's `reason_type` says.
    reason_type: Option<String>,
    /// The kind of approval; by default the tool's.
    kind: Option<ApprovalKind>,
}

impl RuleTestRequest {
    /// The parts that the rules look at.
    pub(in crate::http) fn into_asked(self) -> Asked {
        let kind = self.kind.unwrap_or_else(|| kind_of_tool(&self.tool));
        Asked {
            kind,
            subject: self.tool,
            needs_person: kind != ApprovalKind::Tool,
            input: Input::read(self.input.as_ref().map_or("{}", JsonObject::get)),
            cwd: self.cwd.map(PathBuf::from),
            agent: self.agent,
            mode: self.mode,
            reason_type: self.reason_type,
            has_safety_check: false,
        }
    }
}

/// The verdict of the rules.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct RuleVerdict {
    /// The action that would follow.
    decision: RuleAction,
    /// The rule that decides; `null` when none matches, so that a person is asked.
    rule: Option<RuleSpec>,
    /// Where that rule stands.
    source: Option<RuleSource>,
    /// The action at its deadline; `null` when it has none.
    on_deadline: Option<OnDeadline>,
    /// Why.
    why: String,
    /// The rules before it, and why they do not match.
    passed: Vec<Passed>,
}

impl From<Verdict> for RuleVerdict {
    fn from(verdict: Verdict) -> Self {
        let passed = verdict.passed;
        match verdict.decided {
            None => Self {
                decision: RuleAction::Ask,
                rule: None,
                source: None,
                on_deadline: None,
                why: "no rule matches".to_owned(),
                passed,
            },
            Some(decided) => Self {
                decision: decided.action,
                source: Some(decided.source),
                on_deadline: decided.rule.deadline_ms.map(|_| decided.on_deadline),
                why: decided.why,
                rule: Some(decided.rule),
                passed,
            },
        }
    }
}
