//! Owns what single kinds of lines say, read leniently: a field that is missing or of another type is absent, and no
//! line is refused for a field that is new.

use std::borrow::Cow;

use super::{Envelope, json};
use crate::domain::{CliSessionId, ModelUsage, PromptUuid, TokenUsage, Usd};

/// What `system/init` says. It comes at the start of every turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitFacts {
    /// The conversation.
    pub session_id: Option<CliSessionId>,
    /// The model in use.
    pub model: Option<String>,
    /// The permission mode, in the CLI's spelling; a new one passes.
    pub permission_mode: Option<String>,
    /// The CLI's version.
    pub claude_code_version: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
}

impl InitFacts {
    /// Reads a `system/init` line; `None` for any other.
    pub fn read(envelope: &Envelope<'_>) -> Option<Self> {
        if !envelope.is_system("init") {
            return None;
        }
        let [model, mode, version, cwd] = json::members(
            envelope.line,
            ["model", "permissionMode", "claude_code_version", "cwd"],
        )?;
        Some(Self {
            session_id: envelope.cli_session(),
            model: text(model),
            permission_mode: text(mode),
            claude_code_version: text(version),
            cwd: text(cwd),
        })
    }
}

/// What the CLI's answer to `initialize` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyFacts {
    /// The CLI's version.
    pub claude_code_version: Option<String>,
    /// The permission mode that the process really runs in.
    pub permission_mode: Option<String>,
    /// `idle`, `running` or `requires_action`.
    pub session_state: Option<String>,
    /// The process id.
    pub pid: Option<u64>,
}

impl ReadyFacts {
    /// Reads the payload of the answer.
    pub fn read(payload: &str) -> Option<Self> {
        let [version, mode, state, pid] = json::members(
            payload,
            [
                "claude_code_version",
                "current_permission_mode",
                "session_state",
                "pid",
            ],
        )?;
        Some(Self {
            claude_code_version: text(version),
            permission_mode: text(mode),
            session_state: text(state),
            pid: pid.and_then(json::count),
        })
    }
}

/// What a `result` line says. Costs and `models` are running totals of the process; `usage` is of this turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultFacts<'a> {
    /// `success`, `error_during_execution`, `error_max_turns`, …
    pub subtype: String,
    /// Whether the turn failed. `success` may be an error too.
    pub is_error: bool,
    /// The last text.
    pub result: Option<Cow<'a, str>>,
    /// Why the turn ended.
    pub terminal_reason: Option<String>,
    /// Model calls.
    pub num_turns: Option<u64>,
    /// Wall time.
    pub duration_ms: Option<u64>,
    /// Time in the model API.
    pub duration_api_ms: Option<u64>,
    /// The running total in US dollars.
    pub total_cost_usd: Option<Usd>,
    /// The tokens of this turn.
    pub usage: Option<TokenUsage>,
    /// The running totals per model.
    pub models: Option<Vec<ModelUsage>>,
    /// What this turn used per model. Newer CLIs print it (`model_usage_since_last_result`, not in the SDK's types).
    pub models_since_last_result: Option<Vec<ModelUsage>>,
    /// The prompts that this result closes.
    pub user_message_uuids: Vec<PromptUuid>,
    /// What began the turn when it was no prompt: `task-notification`, …
    pub origin: Option<String>,
    /// What went wrong.
    pub errors: Vec<String>,
    /// The answer that follows the JSON schema, byte for byte.
    pub structured_output: Option<&'a str>,
    /// The status of the model API.
    pub api_error_status: Option<u64>,
}

impl<'a> ResultFacts<'a> {
    /// Reads a `result` line; `None` for any other.
    pub fn read(envelope: &Envelope<'a>) -> Option<Self> {
        if !envelope.is("result") {
            return None;
        }
        let [
            is_error,
            result,
            reason,
            turns,
            duration,
            api,
            cost,
            usage,
            models,
            since_last,
            uuids,
            uuid,
            origin,
            errors,
            output,
            status,
        ] = json::members(
            envelope.line,
            [
                "is_error",
                "result",
                "terminal_reason",
                "num_turns",
                "duration_ms",
                "duration_api_ms",
                "total_cost_usd",
                "usage",
                "modelUsage",
                "model_usage_since_last_result",
                "user_message_uuids",
                "user_message_uuid",
                "origin",
                "errors",
                "structured_output",
                "api_error_status",
            ],
        )?;
        let subtype = envelope.subtype.clone().unwrap_or_default().into_owned();
        let mut user_message_uuids: Vec<PromptUuid> = uuids
            .and_then(json::items)
            .unwrap_or_default()
            .into_iter()
            .filter_map(prompt_uuid)
            .collect();
        if user_message_uuids.is_empty() {
            user_message_uuids.extend(uuid.and_then(prompt_uuid));
        }
        Some(Self {
            is_error: is_error
                .and_then(json::boolean)
                .unwrap_or_else(|| subtype.starts_with("error")),
            subtype,
            result: result.and_then(json::decode_lossy),
            terminal_reason: text(reason),
            num_turns: turns.and_then(json::count),
            duration_ms: duration.and_then(json::count),
            duration_api_ms: api.and_then(json::count),
            total_cost_usd: cost.and_then(dollars),
            usage: usage.and_then(token_usage),
            models: models.and_then(model_usage),
            models_since_last_result: since_last.and_then(model_usage),
            user_message_uuids,
            origin: origin.and_then(|origin| {
                let [kind] = json::members(origin, ["kind"])?;
                text(kind)
            }),
            errors: errors
                .and_then(json::items)
                .unwrap_or_default()
                .into_iter()
                .filter_map(|error| text(Some(error)))
                .collect(),
            structured_output: output.filter(|raw| *raw != "null"),
            api_error_status: status.and_then(json::count),
        })
    }
}

/// What a `command_lifecycle` line says: the receipt of a prompt that carried a uuid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// The prompt.
    pub command_uuid: PromptUuid,
    /// How far it has come.
    pub state: LifecycleState,
}

/// How far a prompt has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifecycleState {
    /// It waits.
    Queued,
    /// It runs.
    Started,
    /// Its turn ended.
    Completed,
    /// It was taken back.
    Cancelled,
    /// A state that is new to us.
    Other(String),
}

impl Lifecycle {
    /// Reads a `command_lifecycle` line; `None` for any other, and for one whose uuid is no UUID.
    pub fn read(envelope: &Envelope<'_>) -> Option<Self> {
        if !envelope.is("command_lifecycle") {
            return None;
        }
        let [uuid, state] = json::members(envelope.line, ["command_uuid", "state"])?;
        Some(Self {
            command_uuid: prompt_uuid(uuid?)?,
            state: match text(state)?.as_str() {
                "queued" => LifecycleState::Queued,
                "started" => LifecycleState::Started,
                "completed" => LifecycleState::Completed,
                "cancelled" => LifecycleState::Cancelled,
                other => LifecycleState::Other(other.to_owned()),
            },
        })
    }
}

/// The new permission mode that a `system/status` line reports, in the CLI's spelling; `None` for any other line and
/// for a status that changes no mode.
pub fn status_permission_mode(envelope: &Envelope<'_>) -> Option<String> {
    if !envelope.is_system("status") {
        return None;
    }
    let [mode] = json::members(envelope.line, ["permissionMode"])?;
    text(mode)
}

/// What a `conversation_reset` line says: the process goes on with another conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationReset {
    /// The id of the new conversation.
    pub new_conversation_id: CliSessionId,
    /// `clear`, `plan_mode_exit`, …
    pub trigger: Option<String>,
}

impl ConversationReset {
    /// Reads a `conversation_reset` line; `None` for any other, and for one whose new id is no UUID.
    pub fn read(envelope: &Envelope<'_>) -> Option<Self> {
        if !envelope.is("conversation_reset") {
            return None;
        }
        let [id, trigger] = json::members(envelope.line, ["new_conversation_id", "trigger"])?;
        Some(Self {
            new_conversation_id: json::string(id?)?.parse().ok()?,
            trigger: text(trigger),
        })
    }
}

/// How many background tasks run, by a `system/background_tasks_changed` line; `None` for any other.
pub fn background_tasks(envelope: &Envelope<'_>) -> Option<usize> {
    if !envelope.is_system("background_tasks_changed") {
        return None;
    }
    let [tasks] = json::members(envelope.line, ["tasks"])?;
    tasks.and_then(json::items).map(|tasks| tasks.len())
}

/// The state (`idle`, `running`, `requires_action`) by a `system/session_state_changed` line; `None` for any other.
pub fn session_state(envelope: &Envelope<'_>) -> Option<String> {
    if !envelope.is_system("session_state_changed") {
        return None;
    }
    let [state] = json::members(envelope.line, ["state"])?;
    text(state)
}

/// The id of the request that a `control_cancel_request` line takes back; `None` for any other line.
pub fn cancelled_request(envelope: &Envelope<'_>) -> Option<String> {
    if !envelope.is("control_cancel_request") {
        return None;
    }
    envelope.request_id.as_deref().map(str::to_owned)
}

fn text(raw: Option<&str>) -> Option<String> {
    raw.and_then(json::decode_lossy).map(Cow::into_owned)
}

fn prompt_uuid(raw: &str) -> Option<PromptUuid> {
    json::string(raw)?.parse().ok()
}

fn dollars(raw: &str) -> Option<Usd> {
    json::float(raw).and_then(Usd::from_dollars)
}

/// A class that the object does not name counts 0; an object that names none says nothing.
fn tokens(raw: &str, names: [&str; 4]) -> Option<TokenUsage> {
    let counts = json::members(raw, names)?.map(|raw| raw.and_then(json::count));
    if counts.iter().all(Option::is_none) {
        return None;
    }
    let [input, output, cache_read, cache_creation] = counts.map(Option::unwrap_or_default);
    Some(TokenUsage {
        input_tokens: input,
        output_tokens: output,
        cache_read_input_tokens: cache_read,
        cache_creation_input_tokens: cache_creation,
    })
}

fn token_usage(raw: &str) -> Option<TokenUsage> {
    tokens(
        raw,
        [
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ],
    )
}

fn model_usage(raw: &str) -> Option<Vec<ModelUsage>> {
    let mut models: Vec<ModelUsage> = Vec::new();
    json::for_each_member(raw, |model, usage| {
        let Some([cost]) = json::members(usage, ["costUSD"]) else {
            return;
        };
        let names = [
            "inputTokens",
            "outputTokens",
            "cacheReadInputTokens",
            "cacheCreationInputTokens",
        ];
        let row = ModelUsage {
            model: model.to_owned(),
            tokens: tokens(usage, names).unwrap_or_default(),
            cost_usd: cost.and_then(dollars),
        };
        models.retain(|known| known.model != model);
        models.push(row);
    })?;
    Some(models)
}
