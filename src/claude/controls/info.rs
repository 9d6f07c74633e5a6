//! Owns the controls that ask what there is and how much was used.

use std::collections::BTreeMap;

use serde::Deserialize;
use utoipa::ToSchema;

use super::Text;
use crate::json::JsonObject;

/// A slash command or skill.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SlashCommand {
    /// Its name, without the slash.
    pub name: Option<String>,
    /// A description.
    pub description: Option<String>,
    /// A hint at its arguments.
    #[serde(rename = "argumentHint")]
    pub argument_hint: Option<String>,
    /// Other names.
    pub aliases: Option<Vec<String>>,
    /// Whether it comes with the CLI.
    pub builtin: Option<bool>,
}

/// A kind of sub-agent.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct AgentInfo {
    /// Its name.
    pub name: Option<String>,
    /// A description.
    pub description: Option<String>,
    /// The model that it runs on.
    pub model: Option<String>,
}

/// A model.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// The value for `set_model`.
    pub value: Option<String>,
    /// The full name of the model behind it.
    pub resolved_model: Option<String>,
    /// A name for people.
    pub display_name: Option<String>,
    /// A description.
    pub description: Option<String>,
    /// Whether it takes an effort.
    pub supports_effort: Option<bool>,
    /// Which ones.
    pub supported_effort_levels: Option<Vec<String>>,
    /// Whether it decides by itself how much to think.
    pub supports_adaptive_thinking: Option<bool>,
    /// Whether it has a fast mode.
    pub supports_fast_mode: Option<bool>,
    /// Whether the permission mode `auto` can be used with it.
    pub supports_auto_mode: Option<bool>,
    /// Whether thinking can be turned off.
    pub supports_thinking_off: Option<bool>,
}

/// The account that the CLI uses.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountInfo {
    /// The address.
    pub email: Option<String>,
    /// The organization.
    pub organization: Option<String>,
    /// The plan.
    pub subscription_type: Option<String>,
    /// Where the token comes from.
    pub token_source: Option<String>,
    /// Where the API key comes from.
    pub api_key_source: Option<String>,
    /// `firstParty`, `bedrock`, `vertex`, …
    pub api_provider: Option<String>,
}

/// The models.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ListModelsPayload {
    /// Each model.
    pub models: Option<Vec<ModelInfo>>,
}

/// Ask what fills the context.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ContextUsageControl {
    /// `summary` or `full`; `summary` is cheaper.
    #[schema(value_type = Option<String>)]
    pub detail: Option<Text>,
}

/// The contents of the context.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextUsagePayload {
    /// Tokens by kind.
    pub categories: Option<Vec<ContextCategory>>,
    /// Tokens in use.
    pub total_tokens: Option<f64>,
    /// Tokens that fit.
    pub max_tokens: Option<f64>,
    /// Tokens that fit into the model.
    pub raw_max_tokens: Option<f64>,
    /// How full it is, in percent.
    pub percentage: Option<f64>,
    /// A picture: rows of squares.
    pub grid_rows: Option<Vec<Vec<JsonObject>>>,
    /// The model.
    pub model: Option<String>,
    /// Files of instructions.
    pub memory_files: Option<Vec<JsonObject>>,
    /// Tools of MCP servers.
    pub mcp_tools: Option<Vec<JsonObject>>,
    /// Instructions of MCP servers.
    pub mcp_instructions: Option<Vec<JsonObject>>,
    /// The CLI's tools that are loaded on demand.
    pub deferred_builtin_tools: Option<Vec<JsonObject>>,
    /// The CLI's tools.
    pub system_tools: Option<Vec<JsonObject>>,
    /// Parts of the system prompt.
    pub system_prompt_sections: Option<Vec<JsonObject>>,
    /// Kinds of sub-agents.
    pub agents: Option<Vec<JsonObject>>,
    /// Slash commands.
    pub slash_commands: Option<JsonObject>,
    /// Skills.
    pub skills: Option<JsonObject>,
    /// Tokens at which the conversation is compacted.
    pub auto_compact_threshold: Option<f64>,
    /// Whether it is compacted by itself.
    pub is_auto_compact_enabled: Option<bool>,
    /// Where that threshold comes from.
    pub autocompact_source: Option<String>,
    /// Tokens of the messages by kind.
    pub message_breakdown: Option<JsonObject>,
    /// The usage of the last model call.
    pub api_usage: Option<ApiUsage>,
}

/// One kind of content of the context.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ContextCategory {
    /// Its stable name.
    pub id: Option<String>,
    /// Its name for people.
    pub name: Option<String>,
    /// Its tokens.
    pub tokens: Option<f64>,
    /// A color of the CLI's theme.
    pub color: Option<String>,
    /// Whether it is loaded on demand.
    #[serde(rename = "isDeferred")]
    pub is_deferred: Option<bool>,
    /// `used`, `free`, `buffer` or `deferred`.
    pub kind: Option<String>,
}

/// Tokens of one model call.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ApiUsage {
    /// Input that was not in the cache.
    pub input_tokens: Option<u64>,
    /// Output.
    pub output_tokens: Option<u64>,
    /// Input that was put into the cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Input that came from the cache.
    pub cache_read_input_tokens: Option<u64>,
}

/// The cost of the session, for people.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SessionCostPayload {
    /// The text.
    pub text: Option<String>,
}

/// Ask what was used.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct UsageControl {
    /// Whether the breakdown by behavior is left out.
    pub skip_behaviors: Option<bool>,
}

/// The usage.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct UsagePayload {
    /// By this process.
    pub session: Option<SessionUsage>,
    /// The plan.
    pub subscription_type: Option<String>,
    /// Whether the plan has limits that are known.
    pub rate_limits_available: Option<bool>,
    /// The limits.
    pub rate_limits: Option<JsonObject>,
    /// The breakdown by behavior.
    pub behaviors: Option<JsonObject>,
}

/// The usage of a process.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SessionUsage {
    /// Its cost in US dollars.
    pub total_cost_usd: Option<f64>,
    /// Its time in the model API, in milliseconds.
    pub total_api_duration_ms: Option<f64>,
    /// Its age in milliseconds.
    pub total_duration_ms: Option<f64>,
    /// Lines that it added.
    pub total_lines_added: Option<u64>,
    /// Lines that it removed.
    pub total_lines_removed: Option<u64>,
    /// Tokens and cost by model.
    pub model_usage: Option<BTreeMap<String, JsonObject>>,
}

/// The CLI's version.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BinaryVersionPayload {
    /// The version.
    pub version: Option<String>,
    /// When it was built.
    pub build_time: Option<String>,
    /// The oldest SDK that can drive it.
    pub oldest_desktop_sdk: Option<String>,
}

/// The CLI's status, for people.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct StatusPayload {
    /// Groups of rows.
    pub sections: Option<Vec<StatusSection>>,
}

/// A group of rows.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct StatusSection {
    /// Its heading.
    pub title: Option<String>,
    /// Its rows.
    pub rows: Option<Vec<StatusRow>>,
}

/// A row.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct StatusRow {
    /// The subject.
    pub label: Option<String>,
    /// The state of the subject.
    pub value: Option<String>,
}

/// The plan of plan mode.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct PlanPayload {
    /// Whether there is one.
    pub exists: Option<bool>,
}
