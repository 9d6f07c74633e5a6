//! Owns how launch options and the way of starting become one CLI process: its arguments, its environment, the fields
//! of its `initialize` request, and the files that it reads.
//!
//! Every value is joined to its flag (`--flag=value`), so no value can become a flag. A value that may be large or
//! secret is never an argument: it goes by file or by `initialize`.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    LaunchOptions, Policy,
    control::Fields,
    hooks,
    options::{
        PermissionPrompts, PromptText, Settings, Skills, SystemPrompt, SystemPromptSpec, Thinking, Tools,
    },
};
use crate::{
    domain::{CliSessionId, StartMode},
    json::JsonObject,
};

/// Which conversation the process opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A new one with this id.
    New {
        /// The id to give it.
        id: CliSessionId,
    },
    /// A stored one goes on.
    Resume {
        /// Its id.
        id: CliSessionId,
        /// The message after which it goes on, when not at its end.
        at: Option<Uuid>,
        /// The prompt of the turn that alone may be behind that message, or the CLI refuses.
        drops: Option<Uuid>,
    },
    /// A new one that begins as a copy of a stored one.
    Fork {
        /// The id of the one to copy.
        parent: CliSessionId,
        /// The id to give the copy.
        id: CliSessionId,
        /// The last message to copy, when not all.
        at: Option<Uuid>,
    },
}

impl Start {
    /// The id of the conversation that the process will hold.
    pub const fn cli_session(&self) -> CliSessionId {
        match self {
            Self::New { id } | Self::Resume { id, .. } | Self::Fork { id, .. } => *id,
        }
    }

    /// The same with this id for a conversation that is new.
    #[must_use]
    pub const fn under(self, id: CliSessionId) -> Self {
        match self {
            Self::New { .. } => Self::New { id },
            Self::Fork { parent, at, .. } => Self::Fork { parent, id, at },
            Self::Resume { .. } => self,
        }
    }

    /// The message after which a stored conversation goes on.
    pub const fn goes_on_at(&self) -> Option<Uuid> {
        match self {
            Self::Resume { at, .. } => *at,
            Self::New { .. } | Self::Fork { .. } => None,
        }
    }

    /// The kind of start.
    pub const fn mode(&self) -> StartMode {
        match self {
            Self::New { .. } => StartMode::New,
            Self::Resume { .. } => StartMode::Resume,
            Self::Fork { .. } => StartMode::Fork,
        }
    }
}

/// All that is needed to start one CLI process.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The arguments, without the program.
    pub args: Vec<String>,
    /// The variables that the protocol and the options add to the environment, `LaunchOptions::env` not included: the
    /// `fixed` part of [`environment::child`](super::environment::child).
    pub env: Vec<(String, String)>,
    /// The fields of the `initialize` request. It must be the first line on stdin.
    pub initialize: Fields,
    /// Files to write into the launch directory before the start, each with mode 0600. They must stay for as long as
    /// the process lives.
    pub files: Vec<LaunchFile>,
}

/// A file that the CLI reads. It may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct LaunchFile {
    /// Its name inside the launch directory.
    pub name: &'static str,
    /// Its content.
    pub contents: Vec<u8>,
}

impl std::fmt::Debug for LaunchFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LaunchFile({}, {} bytes)", self.name, self.contents.len())
    }
}

/// The file of `LaunchOptions::mcp_servers`.
const MCP_FILE: &str = "mcp.json";
/// The file of `LaunchOptions::settings` and `sandbox`.
const SETTINGS_FILE: &str = "settings.json";

/// Managed settings under which no process can leave out permission checks.
const NO_BYPASS: &str = r#"{"permissions":{"disableBypassPermissionsMode":"disable"}}"#;

/// Builds the start of a process. The options have passed [`LaunchOptions::check`] with this policy; `launch_dir` is an
/// absolute path.
pub fn build(options: &LaunchOptions, policy: &Policy, start: &Start, launch_dir: &Path) -> Invocation {
    let mut build = Build {
        args: [
            "--output-format=stream-json",
            "--verbose",
            "--input-format=stream-json",
        ]
        .map(str::to_owned)
        .to_vec(),
        env: [
            ("CLAUDE_CODE_ENTRYPOINT", "trunkline"),
            ("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1"),
            ("BUN_ENABLE_CRASH_REPORTING", "0"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        initialize: Fields::default(),
        files: Vec::new(),
        launch_dir,
    };
    build.start(start);
    build.model(options);
    build.permissions(options);
    build.tools(options);
    build.callbacks(options);
    build.prompts(options);
    // A conversation that goes on may have another name by now. The CLI keeps it.
    if start.mode() != StartMode::Resume {
        build.field("title", options.title.as_ref());
    }
    build.settings(options, policy);
    build.reports(options);
    build.process(options);
    Invocation {
        args: build.args,
        env: build.env,
        initialize: build.initialize,
        files: build.files,
    }
}

struct Build<'a> {
    args: Vec<String>,
    env: Vec<(String, String)>,
    initialize: Fields,
    files: Vec<LaunchFile>,
    launch_dir: &'a Path,
}

impl Build<'_> {
    fn flag(&mut self, name: &str, value: impl std::fmt::Display) {
        self.args.push(format!("--{name}={value}"));
    }

    fn optional_flag(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.flag(name, value);
        }
    }

    fn switch(&mut self, name: &str, on: Option<bool>) {
        if on == Some(true) {
            self.args.push(format!("--{name}"));
        }
    }

    fn variable(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: Option<&T>) {
        if let Some(value) = value {
            self.initialize.set(name, value);
        }
    }

    fn file(&mut self, flag: &str, name: &'static str, contents: Vec<u8>) {
        let path = self.launch_dir.join(name);
        self.flag(flag, path.display());
        self.files.push(LaunchFile { name, contents });
    }

    fn start(&mut self, start: &Start) {
        match start {
            Start::New { id } => self.flag("session-id", id),
            Start::Resume { id, at, drops } => {
                self.flag("resume", id);
                self.optional_flag("resume-session-at", at.as_ref());
                self.optional_flag("resume-drops-turn", drops.as_ref());
            }
            Start::Fork { parent, id, at } => {
                self.flag("resume", parent);
                self.switch("fork-session", Some(true));
                self.flag("session-id", id);
                self.optional_flag("resume-session-at", at.as_ref());
            }
        }
    }

    fn model(&mut self, options: &LaunchOptions) {
        self.optional_flag("model", options.model.as_ref());
        self.optional_flag("fallback-model", options.fallback_model.as_ref());
        // The CLI takes a joined list of betas for a single one of that name.
        for beta in options.betas.iter().flatten() {
            self.flag("betas", beta);
        }
        match options.thinking {
            Some(Thinking::Adaptive { display }) => {
                self.flag("thinking", "adaptive");
                self.optional_flag("thinking-display", display.map(|display| display.as_str()));
            }
            Some(Thinking::Enabled {
                budget_tokens,
                display,
            }) => {
                match budget_tokens {
                    Some(tokens) => self.flag("max-thinking-tokens", tokens),
                    None => self.flag("thinking", "adaptive"),
                }
                self.optional_flag("thinking-display", display.map(|display| display.as_str()));
            }
            Some(Thinking::Disabled {}) => self.flag("thinking", "disabled"),
            None => match options.max_thinking_tokens {
                Some(0) => self.flag("thinking", "disabled"),
                tokens => self.optional_flag("max-thinking-tokens", tokens),
            },
        }
        self.optional_flag("effort", options.effort.map(|effort| effort.as_str()));
        self.optional_flag("max-turns", options.max_turns);
        self.optional_flag(
            "max-budget-usd",
            options.max_budget_usd.map(|budget| budget.as_dollars()),
        );
        self.optional_flag("task-budget", options.task_budget);
    }

    fn permissions(&mut self, options: &LaunchOptions) {
        self.optional_flag(
            "permission-mode",
            options.permission_mode.map(|mode| mode.as_str()),
        );
        self.switch(
            "allow-dangerously-skip-permissions",
            options.allow_dangerously_skip_permissions,
        );
        if options.permission_prompts != Some(PermissionPrompts::None) {
            let tool = options.permission_prompt_tool_name.as_deref().unwrap_or("stdio");
            self.flag("permission-prompt-tool", tool);
        }
        self.optional_flag(
            "permission-prompts",
            options.permission_prompts.map(|prompts| prompts.as_str()),
        );
        let mut allowed = options.allowed_tools.clone().unwrap_or_default();
        match &options.skills {
            Some(Skills::All(_)) => allowed.push("Skill".to_owned()),
            Some(Skills::List(skills)) => {
                allowed.extend(skills.iter().map(|skill| format!("Skill({skill})")));
                self.field("skills", Some(skills));
            }
            None => {}
        }
        self.list("allowedTools", Some(&allowed).filter(|list| !list.is_empty()));
        let disallowed = options.disallowed_tools.as_ref();
        self.list("disallowedTools", disallowed.filter(|list| !list.is_empty()));
    }

    fn tools(&mut self, options: &LaunchOptions) {
        match &options.tools {
            Some(Tools::List(tools)) => self.list("tools", Some(tools)),
            Some(Tools::Preset(_)) => self.flag("tools", "default"),
            None => {}
        }
        self.field("toolAliases", options.tool_aliases.as_ref());
        if let Some(servers) = options.mcp_servers.as_ref().filter(|servers| !servers.is_empty()) {
            #[derive(Serialize)]
            #[serde(rename_all = "camelCase")]
            struct McpConfig<'a> {
                mcp_servers: &'a std::collections::BTreeMap<String, JsonObject>,
            }
            let config = McpConfig { mcp_servers: servers };
            self.file("mcp-config", MCP_FILE, to_json(&config));
        }
        self.switch("strict-mcp-config", options.strict_mcp_config);
        for plugin in options.plugins.iter().flatten() {
            let flag = if plugin.skip_mcp_discovery {
                "plugin-dir-no-mcp"
            } else {
                "plugin-dir"
            };
            self.flag(flag, &plugin.path);
        }
        if let Some(format) = options.question_preview_format {
            self.variable("CLAUDE_CODE_QUESTION_PREVIEW_FORMAT", format.as_str());
        }
        for directory in options.additional_directories.iter().flatten() {
            self.flag("add-dir", directory);
        }
        self.optional_flag("project-config-root", options.project_config_root.as_ref());
    }

    fn callbacks(&mut self, options: &LaunchOptions) {
        let matchers = hooks::of_options(options.hooks.as_deref().unwrap_or_default());
        if !matchers.is_empty()
            && let Some(hooks) = hooks::to_raw(&matchers)
        {
            self.initialize.set_raw("hooks", hooks);
        }
        let Some(servers) = options
            .sdk_mcp_servers
            .as_ref()
            .filter(|servers| !servers.is_empty())
        else {
            return;
        };
        let (mut manifests, mut configs) = (Fields::new(), Fields::new());
        for (name, server) in servers {
            if let Some(manifest) = &server.manifest {
                manifests.set(name, manifest);
            }
            let mut config = Fields::new();
            if let Some(timeout) = &server.timeout_ms {
                config.set("timeout", timeout);
            }
            if let Some(tools) = &server.tools {
                config.set("tools", tools);
            }
            if let Some(config) = config.to_object().filter(|_| !config.is_empty()) {
                configs.set_raw(name, config);
            }
        }
        self.field("sdkMcpServers", Some(&servers.keys().collect::<Vec<_>>()));
        for (field, of_servers) in [
            ("sdkMcpServerManifests", manifests),
            ("sdkMcpServerConfigs", configs),
        ] {
            if let Some(object) = of_servers.to_object().filter(|_| !of_servers.is_empty()) {
                self.initialize.set_raw(field, object);
            }
        }
    }

    fn prompts(&mut self, options: &LaunchOptions) {
        self.optional_flag("agent", options.agent.as_ref());
        self.field("agents", options.agents.as_ref());
        match &options.system_prompt {
            Some(SystemPrompt::Text(text)) => self.field("systemPrompt", Some(&[text])),
            Some(SystemPrompt::Blocks(blocks)) => self.field("systemPrompt", Some(blocks)),
            Some(SystemPrompt::Spec(SystemPromptSpec::Custom { prompt, snapshot })) => {
                match prompt {
                    PromptText::Text(text) => self.field("systemPrompt", Some(&[text])),
                    PromptText::Blocks(blocks) => self.field("systemPrompt", Some(blocks)),
                }
                self.field("systemPromptSnapshot", snapshot.as_ref());
            }
            Some(SystemPrompt::Spec(SystemPromptSpec::Preset {
                preset: _,
                append,
                exclude_dynamic_sections,
                snapshot,
            })) => {
                self.field("appendSystemPrompt", append.as_ref());
                self.field("excludeDynamicSections", exclude_dynamic_sections.as_ref());
                self.field("systemPromptSnapshot", snapshot.as_ref());
            }
            None => {}
        }
        self.field("planModeInstructions", options.plan_mode_instructions.as_ref());
        // The CLI takes the schema from here alone; the flag would put it into argv.
        self.field("jsonSchema", options.json_schema.as_ref());
    }

    fn settings(&mut self, options: &LaunchOptions, policy: &Policy) {
        match (&options.settings, &options.sandbox) {
            (Some(Settings::Path(path)), _) => self.flag("settings", path),
            (Some(Settings::Inline(settings)), None) => {
                self.file("settings", SETTINGS_FILE, settings.get().as_bytes().to_vec());
            }
            (settings, Some(sandbox)) => {
                let mut merged = match settings {
                    Some(Settings::Inline(settings)) => object(settings),
                    _ => Map::new(),
                };
                merged.insert("sandbox".to_owned(), Value::Object(strict_sandbox(sandbox)));
                self.file("settings", SETTINGS_FILE, to_json(&merged));
            }
            (None, None) => {}
        }
        self.managed_settings(options.managed_settings.as_ref(), policy);
        if let Some(sources) = &options.setting_sources {
            let sources: Vec<&str> = sources.iter().map(|source| source.as_str()).collect();
            self.flag("setting-sources", sources.join(","));
        }
    }

    /// Settings files and plans can switch permission checks off too, so a policy that forbids it binds the process.
    fn managed_settings(&mut self, given: Option<&JsonObject>, policy: &Policy) {
        match (given, policy.allow_bypass_permissions) {
            (None, true) => {}
            (None, false) => self.flag("managed-settings", NO_BYPASS),
            (Some(given), allowed) => {
                // A path is ignored by the CLI, so they go by `initialize`, for which it must wait.
                self.switch("await-initialize", Some(true));
                self.switch("managed-settings-in-initialize", Some(true));
                if allowed {
                    self.field("managedSettings", Some(given));
                } else {
                    self.field("managedSettings", Some(&without_bypass(given)));
                }
            }
        }
    }

    fn reports(&mut self, options: &LaunchOptions) {
        self.switch("include-partial-messages", options.include_partial_messages);
        self.switch("include-hook-events", options.include_hook_events);
        self.switch("replay-user-messages", options.replay_user_messages);
        self.field("promptSuggestions", options.prompt_suggestions.as_ref());
        self.field(
            "agentProgressSummaries",
            options.agent_progress_summaries.as_ref(),
        );
        self.field("forwardSubagentText", options.forward_subagent_text.as_ref());
        self.field("perTaskStopAffordance", options.per_task_stop_affordance.as_ref());
        self.field("supportedDialogKinds", options.supported_dialog_kinds.as_ref());
    }

    fn process(&mut self, options: &LaunchOptions) {
        if options.enable_file_checkpointing == Some(true) {
            self.variable("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true");
        }
        self.switch(
            "no-session-persistence",
            options.persist_session.map(|persist| !persist),
        );
        match &options.debug_file {
            Some(file) => self.flag("debug-file", file),
            None => self.switch("debug", options.debug),
        }
        for (name, value) in options.extra_args.iter().flatten() {
            match value {
                Some(value) => self.flag(name, value),
                None => self.switch(name, Some(true)),
            }
        }
    }

    fn list(&mut self, flag: &str, items: Option<&(impl AsRef<[String]> + ?Sized)>) {
        if let Some(items) = items {
            self.flag(flag, items.as_ref().join(","));
        }
    }
}

/// A sandbox that is switched on and cannot be had ends the start, unless the options say otherwise.
fn strict_sandbox(sandbox: &JsonObject) -> Map<String, Value> {
    let mut sandbox = object(sandbox);
    if sandbox.get("enabled") == Some(&Value::Bool(true)) {
        sandbox.entry("failIfUnavailable").or_insert(Value::Bool(true));
    }
    sandbox
}

/// The given managed settings and those of [`NO_BYPASS`].
fn without_bypass(given: &JsonObject) -> Map<String, Value> {
    let mut merged = object(given);
    let mut permissions = match merged.remove("permissions") {
        Some(Value::Object(permissions)) => permissions,
        _ => Map::new(),
    };
    permissions.insert("disableBypassPermissionsMode".to_owned(), "disable".into());
    merged.insert("permissions".to_owned(), Value::Object(permissions));
    merged
}

/// The members of an object, as raw as they can be kept in a map.
fn object(object: &JsonObject) -> Map<String, Value> {
    serde_json::from_str(object.get()).unwrap_or_default()
}

fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
