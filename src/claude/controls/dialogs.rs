//! Owns the controls that fill the CLI's own dialogs.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::json::JsonObject;

/// The files of instructions and memories.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct MemoryDialogPayload {
    /// Files of instructions.
    pub files: Option<Vec<MemoryFile>>,
    /// Folders of memories.
    pub folders: Option<Vec<MemoryFile>>,
    /// Memories.
    pub memories: Option<Vec<JsonObject>>,
    /// Whether the CLI remembers by itself.
    pub auto_memory: Option<Switch>,
    /// Whether the CLI tidies its memories by itself.
    pub auto_dream: Option<Switch>,
}

/// A file or folder of instructions or memories.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct MemoryFile {
    /// `user`, `project`, `auto`, …
    pub kind: Option<String>,
    /// Its path.
    pub path: Option<String>,
    /// Its name for people.
    pub label: Option<String>,
    /// A description.
    pub description: Option<String>,
    /// Whether it is there.
    pub exists: Option<bool>,
}

/// Something that is on or off.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct Switch {
    /// Whether it is on.
    pub enabled: Option<bool>,
    /// Whether it can be changed.
    pub toggleable: Option<bool>,
    /// The same, for people.
    pub status: Option<String>,
}

/// The skills, with what can be set for each.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SkillsDialogPayload {
    /// The skills.
    pub skills: Option<Vec<JsonObject>>,
}

/// The sandbox that commands run in.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SandboxDialogPayload {
    /// Whether the machine can have one.
    pub supported: Option<bool>,
    /// Whether it is fixed.
    pub locked: Option<bool>,
    /// Whether it is on.
    pub enabled: Option<bool>,
    /// Whether the settings turn it on.
    pub enabled_in_settings: Option<bool>,
    /// `disabled`, …
    pub mode: Option<String>,
    /// Whether commands in it can run unasked.
    pub auto_allow_available: Option<bool>,
    /// Whether commands may run outside of it.
    pub no_sandbox_allowed: Option<bool>,
    /// Whether a command that fails in it may run outside.
    pub unsandboxed_fallback: Option<bool>,
    /// The dependencies that are missing for it.
    pub dependencies: Option<JsonObject>,
    /// Commands that run outside.
    pub excluded_commands: Option<Vec<String>>,
    /// Its permissions and prohibitions.
    pub restrictions: Option<JsonObject>,
}

/// The CLI's work in a browser.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ChromeDialogPayload {
    /// Whether it may be used.
    pub allowed: Option<bool>,
    /// Whether the account has what it takes.
    pub subscriber: Option<bool>,
    /// Whether the session runs where browsers cannot be reached.
    pub wsl: Option<bool>,
    /// Whether the browser's extension was found.
    pub installed: Option<bool>,
    /// Whether the session is connected to a browser.
    pub connected: Option<bool>,
    /// Whether new sessions use it.
    pub enabled_by_default: Option<bool>,
    /// Whether this session used it from its start.
    pub at_startup: Option<bool>,
    /// Pages that help, by what for.
    pub urls: Option<JsonObject>,
}
