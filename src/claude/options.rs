//! Owns the launch options of a session: what a client may ask of a CLI process, as the API takes and the store keeps it.
//!
//! The fields follow the official SDK's options (snake case). On purpose they differ from it in these points:
//! an omitted `system_prompt` is the CLI's own default prompt and not an empty one; permission prompts go to the
//! daemon's clients unless `permission_prompts` says otherwise; paths are absolute; `sandbox` and a `sandbox` block in
//! `settings` are not merged but refused; `env` adds to the child's environment and replaces it with `replace_env` alone;
//! `executable` is a name of the configuration and no path.

mod callbacks;
mod check;
mod format;
pub mod patch;
mod values;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use callbacks::{Hook, HookTarget, McpTarget, OnFailure, SdkMcpServer};
pub use check::{InvalidOption, Policy};
pub(super) use check::{is_name, is_one_line};
pub use patch::OptionsPatch;
pub use values::{
    Effort, PermissionMode, PermissionPrompts, Plugin, PluginKind, PresetName, PresetTag, PreviewFormat,
    PromptText, SettingSource, Settings, Skills, SkillsAll, SystemPrompt, SystemPromptSpec, Thinking,
    ThinkingDisplay, ToolPreset, Tools,
};

use crate::{
    domain::{CliSessionId, Usd},
    json::JsonObject,
};

/// Everything that a CLI process can be told at its start. Every field may be omitted; they are stored with the session
/// and applied again at each resume.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchOptions {
    // The model.
    /// The model: an alias (`opus`, `sonnet`) or a full name. Default: the CLI's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 1024,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    pub model: Option<String>,
    /// Models to fall back to when the main one is overloaded, comma separated, tried in order. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 1024,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    pub fallback_model: Option<String>,
    /// Beta features of the model API (API keys only). Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1_000)]
    pub betas: Option<Vec<String>>,
    /// How the model thinks. Default: the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Most tokens for thinking; 0 turns it off. Ignored when `thinking` is given. Default: the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Int64, maximum = 4_294_967_295_i64)]
    pub max_thinking_tokens: Option<u32>,
    /// How much effort goes into an answer. Default: the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,

    // Limits.
    /// Most model calls for one prompt, at least 1. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, format = Int64, maximum = 4_294_967_295_i64)]
    pub max_turns: Option<u32>,
    /// Most US dollars for the session, above 0. Each process gets what the session's `cost_usd` has left of it, and none is
    /// started when nothing is left. A fork has the limit anew, from zero. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, exclusive_minimum = 0)]
    pub max_budget_usd: Option<Usd>,
    /// Tokens that the model is told it may use for a task, at least 1. Default: it is told nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    pub task_budget: Option<u64>,

    // Permissions.
    /// The permission mode to start in. `bypassPermissions` needs the daemon's permission. Default: what the settings
    /// files say, else the CLI's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// Makes `bypassPermissions` reachable later on. Needs the daemon's permission. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_dangerously_skip_permissions: Option<bool>,
    /// The side that answers permission prompts: the daemon's clients (`host`) or nobody (`none`: the CLI denies
    /// instead of asking). Default: `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_prompts: Option<PermissionPrompts>,
    /// An MCP tool that answers permission prompts in place of the daemon's clients. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 1024,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    pub permission_prompt_tool_name: Option<String>,
    /// Tools and permission rules that run without asking, such as `Read` or `Bash(git *)`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1_000)]
    pub allowed_tools: Option<Vec<String>>,
    /// Tools and permission rules that never run. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1_000)]
    pub disallowed_tools: Option<Vec<String>>,

    // Tools.
    /// The built-in tools that exist: a list (empty for none) or the default set. Default: the default set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Tools>,
    /// Other names for tools: what the model calls, and what runs. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_aliases: Option<BTreeMap<String, String>>,
    /// The skills to offer: a list, or `all`. Default: the CLI's choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Skills>,
    /// MCP servers by name (`stdio`, `http`, `sse`), as in an MCP configuration file. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<BTreeMap<String, JsonObject>>,
    /// MCP servers by name that are no process of the CLI: a client serves them, or a URL does. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk_mcp_servers: Option<BTreeMap<String, SdkMcpServer>>,
    /// Hooks: events at which the CLI asks a client, a URL, or gets a fixed answer. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1_000)]
    pub hooks: Option<Vec<Hook>>,
    /// Whether only the servers of `mcp_servers` are used. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_mcp_config: Option<bool>,
    /// Plugins to load. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1_000)]
    pub plugins: Option<Vec<Plugin>>,
    /// The form of the `preview` of a question's options. Default: markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_preview_format: Option<PreviewFormat>,

    // Places.
    /// More directories that tools may use: absolute paths. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1_000)]
    pub additional_directories: Option<Vec<String>>,
    /// Where project settings are read from in place of the working directory: an absolute path. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4095, pattern = r"^/[^\x00-\x1f\x7f-\x9f]*$")]
    pub project_config_root: Option<String>,

    // Agents and prompts.
    /// The agent that leads the conversation. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 1024,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    pub agent: Option<String>,
    /// Sub-agents by name; each needs `description` and `prompt`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<BTreeMap<String, JsonObject>>,
    /// The system prompt. Default: the CLI's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPrompt>,
    /// Replaces the work flow that plan mode describes to the model. Default: the CLI's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_mode_instructions: Option<String>,
    /// A JSON schema that the last answer of a turn must follow (`result.structured_output`). Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<JsonObject>,

    // Settings.
    /// More settings: an object, or the absolute path of a settings file. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
    /// Settings that restrict like an administrator's. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_settings: Option<JsonObject>,
    /// The sandbox of commands. With `enabled: true` a missing sandbox ends the start, unless `failIfUnavailable` says
    /// otherwise. Not together with a settings path or a `sandbox` block in `settings`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<JsonObject>,
    /// The settings files to load; an empty list loads none. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting_sources: Option<Vec<SettingSource>>,

    // The parts that are reported.
    /// Whether text is streamed as it is written (`stream_event`). Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_partial_messages: Option<bool>,
    /// Whether the life of command hooks is reported. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_hook_events: Option<bool>,
    /// Whether a `prompt_suggestion` follows each turn. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_suggestions: Option<bool>,
    /// Whether running sub-agents are summarised. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_progress_summaries: Option<bool>,
    /// Whether the text of sub-agents is reported. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_subagent_text: Option<bool>,
    /// Whether clients can stop single background tasks; then an interrupt spares those. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_task_stop_affordance: Option<bool>,
    /// Kinds of dialogs that clients can show. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1_000)]
    pub supported_dialog_kinds: Option<Vec<String>>,
    /// Whether the CLI repeats each prompt on its output. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_user_messages: Option<bool>,

    // The conversation.
    /// The CLI's own id of a conversation that this session goes on with, such as one that was begun in a terminal. Older
    /// CLIs find it only in the directory that it began in. No other session may have it. Default: a new conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub resume: Option<CliSessionId>,
    /// Whether this session goes on with the newest conversation that the CLI had in its directory; without one, a new one
    /// begins. Not with `resume`. Only the first start looks for it. Default: false.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continue_newest: Option<bool>,
    /// Whether this session begins with a copy of the conversation that `resume` names or `continue` finds, which stays as it is. Only the
    /// first start makes the copy. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork_session: Option<bool>,
    /// The message of the conversation after which this session goes on: what came behind it is left out. With `resume`
    /// or `continue`, at the first start only. Default: the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_session_at: Option<uuid::Uuid>,
    /// The CLI's own id of the conversation that begins, as a new one or as a copy. No other may have it. Default: an id that nobody has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub session_id: Option<CliSessionId>,
    /// The title of a new conversation in the CLI's own store. Default: made from the first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 4096,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    pub title: Option<String>,
    /// Whether files are saved before they are changed, for `rewind_files`. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_file_checkpointing: Option<bool>,
    /// Whether prompts reach the model as they are: no `@path` expansion, no slash commands. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbatim_prompts: Option<bool>,
    /// Whether the CLI keeps the conversation on disk; without it the session is never parked, and with a turn in it it cannot
    /// be resumed, restarted or forked. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persist_session: Option<bool>,

    // The process.
    /// The program of the CLI: a name of `claude.executables` in the daemon's configuration. Default: the daemon's CLI.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    pub executable: Option<String>,
    /// Whether the CLI logs its doings. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug: Option<bool>,
    /// The file for that log: an absolute path; turns `debug` on. Default: the CLI's choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4095, pattern = r"^/[^\x00-\x1f\x7f-\x9f]*$")]
    pub debug_file: Option<String>,
    /// Variables to add to the process's environment. Values are never given back. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Whether `env` takes the place of what the process would get of the daemon's environment, `PATH` and `HOME` among it. The variables
    /// of `claude.env` in the configuration stay. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace_env: Option<bool>,
    /// More flags by name (without dashes); `null` for a flag without a value. Needs the daemon's permission.
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_args: Option<BTreeMap<String, Option<String>>>,
}

/// How the conversation of a new session begins. It is no part of what later starts are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// Whether it goes on with the newest conversation of the directory.
    pub continues: bool,
    /// Whether it is a copy.
    pub is_copy: bool,
    /// The message after which it goes on.
    pub at: Option<uuid::Uuid>,
    /// The id of the conversation that begins.
    pub id: Option<CliSessionId>,
}

impl LaunchOptions {
    /// Takes out what only the first start is told.
    pub fn take_beginning(&mut self) -> Beginning {
        Beginning {
            continues: self.continue_newest.take().unwrap_or(false),
            is_copy: self.fork_session.take().unwrap_or(false),
            at: self.resume_session_at.take(),
            id: self.session_id.take(),
        }
    }
}

/// The names of all options.
#[cfg(test)]
pub(crate) fn field_names() -> Vec<String> {
    use utoipa::{
        PartialSchema,
        openapi::{RefOr, schema::Schema},
    };
    let RefOr::T(Schema::Object(schema)) = LaunchOptions::schema() else {
        panic!("the options are no object");
    };
    schema.properties.keys().cloned().collect()
}
