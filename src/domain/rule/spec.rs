//! Owns the written form of a rule, and which members go together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::{ApprovalKind, Timestamp};

/// The longest pattern, path or word, in characters, as JSON Schema counts them.
pub(super) const MAX_PATTERN_CHARS: usize = 1024;
/// The longest message, in characters.
const MAX_MESSAGE_CHARS: usize = 4096;
/// The longest id.
const MAX_ID_BYTES: usize = 64;
/// Fields of the input that one rule may look at.
const MAX_FIELDS: usize = 32;
/// Modes that one rule may name.
const MAX_MODES: usize = 16;
/// Reasons that one rule may name.
const MAX_REASONS: usize = 16;
/// The longest deadline: 30 days.
const MAX_DEADLINE_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// The action of a rule on a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleAction {
    /// The tool runs.
    Allow,
    /// It does not.
    Deny,
    /// A person decides, whatever later rules say.
    Ask,
}

impl RuleAction {
    /// The JSON name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        }
    }
}

/// The action when nobody has decided by the deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDeadline {
    /// It is denied.
    #[default]
    Deny,
    /// It is allowed.
    Allow,
}

/// A mode or a reason, as the contract shows it.
#[derive(utoipa::ToSchema)]
#[schema(as = RuleWord, value_type = String, pattern = "^[A-Za-z0-9._-]{1,64}$")]
#[expect(dead_code, reason = "documents the items of a list of texts")]
pub(super) struct Word(String);

/// The test for the text in a field of the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Matcher {
    /// The whole text fits this pattern: `*`, `?`, `[…]`, `{a,b}`.
    Glob(String),
    /// The whole text fits this regular expression.
    Regex(String),
    /// The text is a path at this one or below it. A relative one begins at the session's directory.
    PathPrefix(String),
    /// The text is a shell command that runs only this program with these first arguments.
    CommandPrefix(Vec<String>),
    /// `false`: the field is absent or `false`; `true`: it is there, and is not `false`.
    IsSet(bool),
}

/// A rule as it is written. All conditions that are there must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "git-status", "action": "allow", "tool": "Bash", "input": {"command": {"command_prefix": ["git", "status"]}}}))]
pub struct RuleSpec {
    /// Its name within its list: 1 to 64 letters, digits, `.`, `_` and `-`. Made up when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$")]
    pub id: Option<String>,
    /// Its action.
    pub action: RuleAction,
    /// Condition: the tool, as a glob; for an elicitation the MCP server, for a dialog its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub tool: Option<String>,
    /// Condition: fields of the tool's input, by name, and what they must be.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input: BTreeMap<String, Matcher>,
    /// Condition: the session works in this directory or below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024, pattern = r"^/[^\x00-\x1f\x7f-\x9f]*$")]
    pub cwd: Option<String>,
    /// Condition: who asks: `main` for the main agent, `sub` for any sub-agent, else a glob over ids of sub-agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub agent: Option<String>,
    /// Condition: the session is in one of these permission modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Word>>, min_items = 1, max_items = 16)]
    pub mode: Option<Vec<String>>,
    /// Condition: why the CLI asks, as an approval's `reason_type` says. Only an allow rule that names them here allows
    /// what the CLI holds back for `safetyCheck` or `sandboxOverride`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Word>>, min_items = 1, max_items = 16)]
    pub reason_type: Option<Vec<String>>,
    /// Condition: the kind of approval. Without it a rule is about tools that need no person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ApprovalKind>,
    /// The rule matches nothing from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// With `ask`: how long a person has, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_592_000_000_i64)]
    pub deadline_ms: Option<u64>,
    /// With `deadline_ms`: what happens then. Default: `deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_deadline: Option<OnDeadline>,
    /// The message for the agent when the rule denies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 4096, pattern = r"\S")]
    pub message: Option<String>,
}

/// A rule that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", self.path_in("rules"))]
pub struct InvalidRule {
    /// The place in the list, from 0.
    pub place: Option<usize>,
    /// The member, with dots for what is inside of it; empty for the whole.
    pub field: String,
    /// The fault.
    pub reason: String,
}

impl InvalidRule {
    pub(super) fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            place: None,
            field: field.into(),
            reason: reason.into(),
        }
    }

    pub(super) fn at(self, place: usize) -> Self {
        Self {
            place: Some(place),
            ..self
        }
    }

    /// The path of what is wrong, with the name of the list that the rule is in.
    pub fn path_in(&self, list: &str) -> String {
        match self.place {
            Some(place) => format!("{list}[{place}].{}", self.field),
            None if self.field.is_empty() => list.to_owned(),
            None => self.field.clone(),
        }
    }
}

impl RuleSpec {
    /// A rule that does this with every tool.
    pub fn of_action(action: RuleAction) -> Self {
        Self {
            id: None,
            action,
            tool: None,
            input: BTreeMap::new(),
            cwd: None,
            agent: None,
            mode: None,
            reason_type: None,
            kind: None,
            expires_at: None,
            deadline_ms: None,
            on_deadline: None,
            message: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), InvalidRule> {
        let refuse = |field: &str, reason: &str| Err(InvalidRule::new(field, reason));
        if !self.id.as_deref().is_none_or(is_id) {
            return refuse("id", "must be 1 to 64 letters, digits, '.', '_' and '-'");
        }
        if self.input.len() > MAX_FIELDS {
            return refuse("input", "has too many fields");
        }
        if let Some(modes) = &self.mode
            && (modes.is_empty() || modes.len() > MAX_MODES || !modes.iter().all(|mode| is_id(mode)))
        {
            return refuse("mode", "must be a list of permission modes");
        }
        if let Some(reasons) = &self.reason_type
            && (reasons.is_empty() || reasons.len() > MAX_REASONS || !reasons.iter().all(|it| is_id(it)))
        {
            return refuse(
                "reason_type",
                "must be a list of reasons, such as [\"safetyCheck\"]",
            );
        }
        let of_tool = matches!(self.kind, None | Some(ApprovalKind::Tool));
        if !of_tool && self.action != RuleAction::Ask {
            return refuse(
                "action",
                "must be ask: questions, plans, elicitations and dialogs are for a person",
            );
        }
        match self.deadline_ms {
            None if self.on_deadline.is_some() => return refuse("on_deadline", "goes with deadline_ms only"),
            None => {}
            Some(_) if self.action != RuleAction::Ask => {
                return refuse("deadline_ms", "goes with the action ask only");
            }
            Some(ms) if ms == 0 || ms > MAX_DEADLINE_MS => {
                return refuse("deadline_ms", "must be between 1 ms and 30 days");
            }
            Some(_) if !of_tool && self.on_deadline == Some(OnDeadline::Allow) => {
                return refuse(
                    "on_deadline",
                    "must be deny: only a person allows what is for a person",
                );
            }
            Some(_) => {}
        }
        if let Some(message) = &self.message {
            let denies = self.action == RuleAction::Deny
                || (self.deadline_ms.is_some() && self.on_deadline != Some(OnDeadline::Allow));
            if !denies {
                return refuse(
                    "message",
                    "goes with a rule that denies, at once or at its deadline",
                );
            }
            if message.trim().is_empty() || message.chars().nth(MAX_MESSAGE_CHARS).is_some() {
                return refuse("message", "must have 1 to 4096 characters");
            }
        }
        Ok(())
    }
}

fn is_id(text: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}
