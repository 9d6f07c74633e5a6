//! Owns the request that opens a run, and what the CLI says of itself in answer to it.

use serde::Deserialize;
use utoipa::ToSchema;

use super::{AccountInfo, AgentInfo, ModelInfo, SlashCommand, Text};
use crate::json::JsonObject;

/// Register what the CLI may ask back, and ask what it offers. The daemon has sent one already.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeControl {
    /// Hooks by event. Over a WebSocket only.
    pub hooks: Option<JsonObject>,
    /// Names of in-process MCP servers. Over a WebSocket only.
    #[schema(value_type = Option<Vec<String>>)]
    pub sdk_mcp_servers: Option<Vec<Text>>,
    /// The manifest of each of them. Over a WebSocket only.
    pub sdk_mcp_server_manifests: Option<JsonObject>,
    /// How each of them is called. Over a WebSocket only.
    pub sdk_mcp_server_configs: Option<JsonObject>,
    /// The form of the answer.
    pub json_schema: Option<JsonObject>,
    /// The system prompt.
    #[schema(value_type = Option<Vec<String>>)]
    pub system_prompt: Option<Vec<Text>>,
    /// A text to add to the system prompt.
    #[schema(value_type = Option<String>)]
    pub append_system_prompt: Option<Text>,
    /// Instructions for plan mode.
    #[schema(value_type = Option<String>)]
    pub plan_mode_instructions: Option<Text>,
    /// Other names of tools.
    pub tool_aliases: Option<JsonObject>,
    /// Whether parts of the system prompt that change are left out.
    pub exclude_dynamic_sections: Option<bool>,
    /// Kinds of sub-agents, by name.
    pub agents: Option<JsonObject>,
    /// A title for the conversation.
    #[schema(value_type = Option<String>)]
    pub title: Option<Text>,
    /// The skills that are loaded.
    #[schema(value_type = Option<Vec<String>>)]
    pub skills: Option<Vec<Text>>,
    /// Whether the CLI suggests prompts.
    pub prompt_suggestions: Option<bool>,
    /// Whether sub-agents say how far they are.
    pub agent_progress_summaries: Option<bool>,
    /// Whether the texts of sub-agents are printed.
    pub forward_subagent_text: Option<bool>,
    /// The kinds of dialogs that can be shown.
    #[schema(value_type = Option<Vec<String>>)]
    pub supported_dialog_kinds: Option<Vec<Text>>,
}

/// The CLI's description of itself.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct InitializePayload {
    /// The slash commands.
    pub commands: Option<Vec<SlashCommand>>,
    /// The kinds of sub-agents.
    pub agents: Option<Vec<AgentInfo>>,
    /// The models.
    pub models: Option<Vec<ModelInfo>>,
    /// The account.
    pub account: Option<AccountInfo>,
    /// The output style in use.
    pub output_style: Option<String>,
    /// The output styles.
    pub available_output_styles: Option<Vec<String>>,
    /// The process id.
    pub pid: Option<u64>,
    /// The version.
    pub claude_code_version: Option<String>,
    /// The permission mode.
    pub current_permission_mode: Option<String>,
    /// `idle`, `running` or `requires_action`.
    pub session_state: Option<String>,
    /// Its abilities, by name.
    pub capabilities: Option<Vec<String>>,
    /// Whether the hooks that were sent are in use.
    pub hooks_applied: Option<bool>,
}
