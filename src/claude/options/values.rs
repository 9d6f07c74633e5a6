//! Owns the types of single launch options.

use crate::json::JsonObject;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::value::RawValue;

/// The rights of tools to run without asking, as the CLI spells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Asks for what may do harm.
    Default,
    /// Changes files without asking.
    AcceptEdits,
    /// Asks for nothing.
    BypassPermissions,
    /// Plans, and changes nothing.
    Plan,
    /// Denies what is not allowed beforehand.
    DontAsk,
    /// A classifier decides, and asks when it cannot.
    Auto,
}

impl PermissionMode {
    /// Every mode.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::AcceptEdits,
        Self::BypassPermissions,
        Self::Plan,
        Self::DontAsk,
        Self::Auto,
    ];

    /// The CLI's name of the mode.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::BypassPermissions => "bypassPermissions",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::Auto => "auto",
        }
    }

    /// The mode with this name; `manual` is the CLI's other name for `default`.
    pub fn parse(name: &str) -> Option<Self> {
        if name == "manual" {
            return Some(Self::Default);
        }
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// The side that answers permission prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionPrompts {
    /// The daemon's clients, or the tool of `permission_prompt_tool_name`.
    Host,
    /// Nobody: what would ask is denied.
    None,
}

impl PermissionPrompts {
    pub(in crate::claude) const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::None => "none",
        }
    }
}

/// How much effort goes into an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Least.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// Very much.
    Xhigh,
    /// Most.
    Max,
}

impl Effort {
    pub(in crate::claude) const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// A settings file that the CLI loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    /// The user's.
    User,
    /// The project's; also its memory files.
    Project,
    /// The project's private one.
    Local,
}

impl SettingSource {
    pub(in crate::claude) const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }
}

/// The form of a question's previews.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreviewFormat {
    /// Markdown.
    Markdown,
    /// A fragment of HTML.
    Html,
}

impl PreviewFormat {
    pub(in crate::claude) const fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Html => "html",
        }
    }
}

/// How the model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Thinking {
    /// The model decides.
    Adaptive {
        /// How the thinking is shown. Default: the CLI's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<ThinkingDisplay>,
    },
    /// Thinking with a fixed budget; without one it is adaptive.
    Enabled {
        /// Most tokens for thinking, at least 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(minimum = 1, format = Int64, maximum = 4_294_967_295_i64)]
        budget_tokens: Option<u32>,
        /// How the thinking is shown. Default: the CLI's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<ThinkingDisplay>,
    },
    /// No thinking. With braces, as a unit would take members that nobody knows.
    Disabled {},
}

/// How thinking is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingDisplay {
    /// As a summary.
    Summarized,
    /// Not at all.
    Omitted,
    /// Its main points.
    Highlights,
}

impl ThinkingDisplay {
    /// The one that this word of the CLI means.
    pub fn of_name(name: &str) -> Option<Self> {
        let all = [Self::Summarized, Self::Omitted, Self::Highlights];
        all.into_iter().find(|display| display.as_str() == name)
    }

    /// The CLI's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Summarized => "summarized",
            Self::Omitted => "omitted",
            Self::Highlights => "highlights",
        }
    }
}

/// The built-in tools that exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(
    untagged,
    expecting = "expected a list of tool names or {\"type\": \"preset\", \"preset\": \"claude_code\"}"
)]
pub enum Tools {
    /// These and no others.
    List(Vec<String>),
    /// The default set.
    Preset(ToolPreset),
}

/// The default set of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolPreset {
    /// Always `preset`.
    pub r#type: PresetTag,
    /// The name of the set.
    pub preset: PresetName,
}

/// The word `preset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PresetTag {
    /// The only value.
    Preset,
}

/// The name of a preset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PresetName {
    /// The CLI's own.
    #[default]
    ClaudeCode,
}

/// The skills to offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged, expecting = "expected \"all\" or a list of skill names")]
pub enum Skills {
    /// Every skill that is found.
    All(SkillsAll),
    /// These and no others.
    List(Vec<String>),
}

/// The word `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkillsAll {
    /// The only value.
    All,
}

/// A plugin on the daemon's disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Plugin {
    /// Where it is from, as the SDK says it: `local` is all that there is. May be left out.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<PluginKind>,
    /// Its directory: an absolute path.
    pub path: String,
    /// Whether the plugin's own MCP servers are left out. Default: false.
    #[serde(default)]
    pub skip_mcp_discovery: bool,
}

/// Where a plugin is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PluginKind {
    /// A directory.
    Local,
}

/// The system prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum SystemPrompt {
    /// This text and nothing else; an empty text is an empty prompt.
    Text(String),
    /// These blocks and nothing else.
    Blocks(Vec<String>),
    /// The CLI's own prompt with changes, or a text with settings.
    Spec(SystemPromptSpec),
}

/// A system prompt with settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SystemPromptSpec {
    /// The CLI's own prompt.
    Preset {
        /// Its name.
        #[serde(default)]
        preset: PresetName,
        /// Text to add at its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        append: Option<String>,
        /// Whether what differs per machine moves to the first message. Default: false.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exclude_dynamic_sections: Option<bool>,
        /// Whether the prompt is recorded once and used again at every resume. Default: true.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<bool>,
    },
    /// A prompt of your own.
    Custom {
        /// The text or its blocks.
        prompt: PromptText,
        /// Whether the prompt is recorded once and used again at every resume. Default: true.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<bool>,
    },
}

/// One text, or blocks of text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub enum PromptText {
    /// One text.
    Text(String),
    /// Blocks of text.
    Blocks(Vec<String>),
}

/// Settings to add.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum Settings {
    /// The absolute path of a settings file.
    Path(String),
    /// The settings themselves.
    Inline(JsonObject),
}

// Both are told apart by the first byte, so that an error names what is wrong inside the chosen form.

impl<'de> Deserialize<'de> for SystemPrompt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'"') => serde_json::from_str(text).map(Self::Text),
            Some(b'[') => serde_json::from_str(text).map(Self::Blocks),
            Some(b'{') => serde_json::from_str(text).map(Self::Spec),
            _ => {
                return Err(D::Error::custom(
                    "expected a string, a list of strings or an object",
                ));
            }
        }
        .map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'"') => serde_json::from_str(text).map(Self::Path),
            Some(b'{') => serde_json::from_str(text).map(Self::Inline),
            _ => return Err(D::Error::custom("expected a path or an object")),
        }
        .map_err(D::Error::custom)
    }
}
