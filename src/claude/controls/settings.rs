//! Owns the controls of settings, permission rules and hooks.

use serde::Deserialize;
use utoipa::ToSchema;

use super::Text;
use crate::json::JsonObject;

/// The settings in effect, and where each comes from.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SettingsPayload {
    /// All sources together.
    pub effective: Option<JsonObject>,
    /// Each source.
    pub sources: Option<Vec<SettingsSource>>,
    /// Whether settings are served by an organization.
    pub served_settings_state: Option<String>,
    /// The settings as the CLI applies them.
    pub applied: Option<AppliedSettings>,
}

/// A source of settings.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SettingsSource {
    /// `userSettings`, `projectSettings`, `localSettings`, `flagSettings`, `policySettings`.
    pub source: Option<String>,
    /// Its settings.
    pub settings: Option<JsonObject>,
}

/// The settings as the CLI applies them.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct AppliedSettings {
    /// The model.
    pub model: Option<String>,
    /// The effort.
    pub effort: Option<String>,
}

/// Change settings of the process.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ApplySettingsControl {
    /// The settings; `null` takes one back.
    pub settings: JsonObject,
}

/// Write settings to a file.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct UpdateSettingsControl {
    /// `localSettings` or `userSettings`.
    #[schema(value_type = String)]
    pub source: Text,
    /// The settings; the CLI takes few.
    pub settings: JsonObject,
}

/// The permission rules in effect.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct PermissionRulesPayload {
    /// The rules and what belongs to them.
    pub state: Option<PermissionRulesState>,
}

/// The permission rules and what belongs to them.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRulesState {
    /// The rules.
    pub rules: Option<Vec<PermissionRule>>,
    /// Directories beside the working directory.
    pub workspace_directories: Option<Vec<WorkspaceDirectory>>,
    /// The directory that the session began in.
    pub original_cwd: Option<String>,
    /// Whether only the rules of an organization count.
    pub managed_only: Option<bool>,
    /// Whether some are kept back.
    pub withheld: Option<bool>,
}

/// A permission rule of the CLI.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRule {
    /// `allow`, `deny` or `ask`.
    pub behavior: Option<String>,
    /// Where it comes from.
    pub source: Option<String>,
    /// The rule, such as `Bash(make:*)`.
    pub rule: Option<String>,
    /// `persistent`, `session` or `readonly`.
    pub editability: Option<String>,
    /// Whether it does not count now.
    pub not_in_effect: Option<bool>,
}

/// A directory beside the working directory.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct WorkspaceDirectory {
    /// Its path.
    pub path: Option<String>,
    /// Where it was set.
    pub source: Option<String>,
}

/// The hooks in effect.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HooksListingPayload {
    /// Events that have hooks.
    pub events: Option<Vec<HookEvent>>,
    /// The hooks.
    pub hooks: Option<Vec<HookEntry>>,
    /// Every event.
    pub event_catalog: Option<Vec<HookEvent>>,
    /// The organization's policy.
    pub policy: Option<HookPolicy>,
}

/// An event that hooks can be set for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookEvent {
    /// Its name.
    pub name: Option<String>,
    /// When it comes.
    pub summary: Option<String>,
    /// Whether hooks can choose by tool or the like.
    pub supports_matcher: Option<bool>,
    /// How many hooks it has.
    pub hook_count: Option<u64>,
}

/// A hook.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookEntry {
    /// The event.
    pub event: Option<String>,
    /// Its pattern for the events it runs on.
    pub matcher: Option<String>,
    /// Where it was set.
    pub source: Option<String>,
    /// The same, for people.
    pub source_label: Option<String>,
    /// The plug-in that it comes from.
    pub plugin_name: Option<String>,
    /// `command`, `prompt`, `callback`, …
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Its action, for people.
    pub display_text: Option<String>,
    /// The command.
    pub command_text: Option<String>,
    /// How long it may take, in seconds.
    pub timeout: Option<f64>,
    /// Whether it is off.
    pub disabled: Option<bool>,
}

/// An organization's policy for hooks.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookPolicy {
    /// Whether hooks are off.
    pub disabled_by_policy: Option<bool>,
    /// Whether only those of the organization run.
    pub managed_only: Option<bool>,
    /// Whether only those of plug-ins run.
    pub plugin_only: Option<bool>,
    /// Whether all are off.
    pub all_disabled: Option<bool>,
    /// How many the organization has.
    pub policy_hook_count: Option<u64>,
}
