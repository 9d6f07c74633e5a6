//! Owns the controls of files and of what the CLI loads from them.

use serde::Deserialize;
use utoipa::ToSchema;

use super::{AgentInfo, McpServer, SlashCommand, Text};

/// Give files back the content that they had before a prompt.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct RewindFilesControl {
    /// The prompt's id.
    #[schema(value_type = String)]
    pub user_message_id: Text,
    /// Whether it is only said what would change.
    pub dry_run: Option<bool>,
}

/// The changes of a rewind, made or to come.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RewindFilesPayload {
    /// Whether it can be done.
    pub can_rewind: Option<bool>,
    /// Why it cannot.
    pub error: Option<String>,
    /// The files; with `dry_run` only.
    pub files_changed: Option<Vec<String>>,
    /// Lines that come; with `dry_run` only.
    pub insertions: Option<u64>,
    /// Lines that go; with `dry_run` only.
    pub deletions: Option<u64>,
    /// Links that were left alone.
    pub skipped_links: Option<u64>,
}

/// Read a file that the agent may read.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ReadFileControl {
    /// Its path.
    #[schema(value_type = String)]
    pub path: Text,
    /// Most bytes.
    pub max_bytes: Option<u64>,
    /// `utf-8` or `base64`.
    #[schema(value_type = Option<String>)]
    pub encoding: Option<Text>,
}

/// A file.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadFilePayload {
    /// Its content.
    pub contents: Option<String>,
    /// Its path.
    pub abs_path: Option<String>,
    /// Whether there is more of it.
    pub truncated: Option<bool>,
    /// `base64` when the content is in it.
    pub encoding: Option<String>,
    /// Whether bytes that are no text were replaced.
    pub lossy: Option<bool>,
}

/// Tell the CLI that a file was read.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SeedReadStateControl {
    /// The file.
    #[schema(value_type = String)]
    pub path: Text,
    /// When it was changed last, in milliseconds since 1970.
    pub mtime: f64,
}

/// Find files by a part of their names.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct FileSuggestionsControl {
    /// The part.
    #[schema(value_type = String)]
    pub query: Text,
}

/// Files that were found.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct FileSuggestionsPayload {
    /// The files.
    pub suggestions: Option<Vec<FileSuggestion>>,
    /// The directory that they are in.
    pub cwd: Option<String>,
}

/// A file that was found.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct FileSuggestion {
    /// Its path; a directory ends with a slash.
    pub path: Option<String>,
    /// How well it fits.
    pub score: Option<f64>,
}

/// Add a directory to the workspace.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct RegisterRepoRootControl {
    /// The directory.
    #[schema(value_type = String)]
    pub directory: Text,
    /// Whether its CLAUDE.md is read.
    pub reload_claude_md: Option<bool>,
    /// Whether plug-ins are loaded again.
    pub reload_plugins: Option<bool>,
    /// Whether skills are loaded again.
    pub reload_skills: Option<bool>,
}

/// The directory that was added.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct RegisterRepoRootPayload {
    /// Its path.
    pub directory: Option<String>,
}

/// Load plug-ins again.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ReloadPluginsControl {
    /// Whether it is left when it would cost the prompt cache.
    pub hold_on_cache_impact: Option<bool>,
    /// Plug-ins that are new.
    pub add_plugins: Option<Vec<PluginConfig>>,
    /// Whether it is refused during a turn.
    pub refuse_if_busy: Option<bool>,
}

/// Where a plug-in is.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct PluginConfig {
    /// `local`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: Text,
    /// Its directory.
    #[schema(value_type = String)]
    pub path: Text,
    /// Whether its MCP servers are left out.
    #[serde(rename = "skipMcpDiscovery")]
    pub skip_mcp_discovery: Option<bool>,
}

/// The offer of the CLI after plug-ins were loaded again.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ReloadPluginsPayload {
    /// The slash commands.
    pub commands: Option<Vec<SlashCommand>>,
    /// The agents.
    pub agents: Option<Vec<AgentInfo>>,
    /// The plug-ins.
    pub plugins: Option<Vec<PluginInfo>>,
    /// The MCP servers.
    #[serde(rename = "mcpServers")]
    pub mcp_servers: Option<Vec<McpServer>>,
    /// How much went wrong.
    pub error_count: Option<u64>,
    /// Whether it was left as it is.
    pub held: Option<bool>,
}

/// A plug-in.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct PluginInfo {
    /// Its name.
    pub name: Option<String>,
    /// Its directory.
    pub path: Option<String>,
    /// Where it comes from.
    pub source: Option<String>,
    /// Its version.
    pub version: Option<String>,
}

/// The skills after they were loaded again.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ReloadSkillsPayload {
    /// The skills.
    pub skills: Option<Vec<SlashCommand>>,
}

/// The output styles after they were loaded again.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ReloadOutputStylesPayload {
    /// Their names.
    pub available_output_styles: Option<Vec<String>>,
}
