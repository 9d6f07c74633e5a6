//! Owns the checks that launch options pass before anything is started. A value that passes can become neither a flag
//! of its own nor a second item of a joined list.

mod callbacks;
#[cfg(test)]
mod tests;
mod value;

use self::value::{
    MAX_ITEM_BYTES, MAX_NAME_CHARS, MAX_TEXT_BYTES, entries, few, list, mcp_server, name, object, optional,
    path, prompt_blocks, rule, short, single_line, text, word,
};
pub(in crate::claude) use self::value::{is_name, is_one_line};
use super::{
    HookTarget, LaunchOptions, PermissionMode, PromptText, Settings, Skills, SystemPrompt, SystemPromptSpec,
    Thinking, Tools,
};
use crate::{
    claude::{answer, control, environment},
    domain::{Seq, Usd},
    json,
};

/// Longest title, in bytes.
const MAX_TITLE_BYTES: usize = 4096;

/// Whether a program of the CLI can have this name in the configuration.
fn is_executable_name(name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(is_of_name)
}

/// The limits that the daemon's configuration sets to the options of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whether sessions may skip permission checks.
    pub allow_bypass_permissions: bool,
    /// Whether clients may pass flags that the daemon does not know.
    pub allow_extra_args: bool,
}

/// A launch option that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("option {field}: {reason}")]
pub struct InvalidOption {
    /// The field, with the item or key inside it: `allowed_tools[1]`, `env.PATH`.
    pub field: String,
    /// The reason, in words for a person. It never holds the value.
    pub reason: String,
}

type Checked = Result<(), InvalidOption>;

fn invalid(field: impl Into<String>, reason: impl Into<String>) -> InvalidOption {
    InvalidOption {
        field: field.into(),
        reason: reason.into(),
    }
}

impl LaunchOptions {
    /// Whether the session is made so that it may come into the mode `bypassPermissions`.
    pub fn may_bypass(&self) -> bool {
        self.permission_mode == Some(PermissionMode::BypassPermissions)
            || self.allow_dangerously_skip_permissions == Some(true)
            || self.default_mode().as_deref() == Some("bypassPermissions")
    }

    /// The directories that the options add to the session's own, each list with its field.
    pub fn added_directories(&self) -> Vec<(String, Vec<String>)> {
        let field = "additional_directories".to_owned();
        let mut all = vec![(field, self.additional_directories.clone().unwrap_or_default())];
        if let Some(listed) = self.directories_of_settings() {
            let field = "settings.permissions.additionalDirectories".to_owned();
            all.push((field, listed));
        }
        for (index, hook) in self.hooks.iter().flatten().enumerate() {
            let fixed = match &hook.target {
                HookTarget::Fixed { output } => Some(("target.output", output)),
                HookTarget::Client { .. } | HookTarget::Webhook { .. } => None,
            };
            let fallback = hook.fallback.as_ref().map(|output| ("fallback", output));
            for (part, output) in fixed.into_iter().chain(fallback) {
                all.push((
                    format!("hooks[{index}].{part}"),
                    answer::added_directories(output.get()),
                ));
            }
        }
        all
    }

    /// The directories that the inline settings add.
    pub fn directories_of_settings(&self) -> Option<Vec<String>> {
        let Some(Settings::Inline(settings)) = &self.settings else {
            return None;
        };
        let [directories] = json::members(settings.member("permissions")?, ["additionalDirectories"])?;
        json::texts(directories?)
    }

    /// Has the inline settings add these directories, in the place of those that they list.
    pub fn set_directories_of_settings(&mut self, directories: &[String]) {
        let Some(Settings::Inline(settings)) = &self.settings else {
            return;
        };
        let set = || {
            let list = serde_json::value::to_raw_value(directories).ok()?;
            let permissions =
                control::replaced(settings.member("permissions")?, "additionalDirectories", list)?;
            let settings = control::replaced(settings.get(), "permissions", permissions)?;
            serde_json::from_str(settings.get()).ok()
        };
        self.settings = set().map(Settings::Inline);
    }

    /// The permission mode of the inline settings.
    fn default_mode(&self) -> Option<std::borrow::Cow<'_, str>> {
        let Some(Settings::Inline(settings)) = &self.settings else {
            return None;
        };
        let [mode] = json::members(settings.member("permissions")?, ["defaultMode"])?;
        json::string(mode?)
    }

    /// Takes out the model if no process starts with it: older versions stored such a one. Gives the name of the option.
    pub fn take_unlaunchable(&mut self) -> Option<&'static str> {
        self.model.take_if(|model| !is_name(model)).map(|_| "model")
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field that cannot be used, and why.
    pub fn check(&self, policy: &Policy) -> Result<(), InvalidOption> {
        self.check_beginning()?;
        self.check_model()?;
        self.check_limits()?;
        self.check_permissions(policy)?;
        self.check_tools()?;
        self.check_callbacks()?;
        self.check_places()?;
        self.check_prompts(policy)?;
        self.check_settings(policy)?;
        self.check_process(policy)
    }

    fn check_beginning(&self) -> Checked {
        let continues = self.continue_newest == Some(true);
        let goes_on = continues || self.resume.is_some();
        let is_copy = self.fork_session == Some(true);
        if continues && self.resume.is_some() {
            return Err(invalid("continue", "goes not together with resume"));
        }
        if is_copy && !goes_on {
            return Err(invalid("fork_session", "goes with resume or continue"));
        }
        if self.resume_session_at.is_some() && !goes_on {
            return Err(invalid("resume_session_at", "goes with resume or continue"));
        }
        if self.session_id.is_some() && goes_on && !is_copy {
            return Err(invalid(
                "session_id",
                "goes with resume or continue only if fork_session is true",
            ));
        }
        Ok(())
    }

    fn check_model(&self) -> Checked {
        optional(self.model.as_deref(), |model| name("model", model))?;
        optional(self.fallback_model.as_deref(), |models| {
            name("fallback_model", models)?;
            for model in models.split(',') {
                name("fallback_model", model)?;
            }
            Ok(())
        })?;
        list("betas", self.betas.as_deref(), word)
    }

    fn check_limits(&self) -> Checked {
        if self.max_turns == Some(0) {
            return Err(invalid("max_turns", "must be at least 1"));
        }
        if self.max_budget_usd.is_some_and(|budget| budget <= Usd::ZERO) {
            return Err(invalid("max_budget_usd", "must be above 0"));
        }
        if self
            .task_budget
            .is_some_and(|tokens| !(1..=Seq::MAX.get()).contains(&tokens))
        {
            let reason = format!("must be from 1 to {}", Seq::MAX);
            return Err(invalid("task_budget", reason));
        }
        if let Some(Thinking::Enabled {
            budget_tokens: Some(0),
            ..
        }) = self.thinking
        {
            return Err(invalid("thinking.budget_tokens", "must be at least 1"));
        }
        Ok(())
    }

    fn check_permissions(&self, policy: &Policy) -> Checked {
        if !policy.allow_bypass_permissions {
            if self.permission_mode == Some(PermissionMode::BypassPermissions) {
                return Err(bypass("permission_mode"));
            }
            if self.allow_dangerously_skip_permissions == Some(true) {
                return Err(bypass("allow_dangerously_skip_permissions"));
            }
        }
        optional(self.permission_prompt_tool_name.as_deref(), |tool| {
            name("permission_prompt_tool_name", tool)
        })?;
        list("allowed_tools", self.allowed_tools.as_deref(), rule)?;
        list("disallowed_tools", self.disallowed_tools.as_deref(), rule)
    }

    fn check_tools(&self) -> Checked {
        if let Some(Tools::List(tools)) = &self.tools {
            list("tools", Some(tools), word)?;
        }
        if let Some(Skills::List(skills)) = &self.skills {
            list("skills", Some(skills), |field, skill| {
                if skill.contains(['(', ')']) {
                    return Err(invalid(field, "must not contain parentheses"));
                }
                word(field, skill)
            })?;
        }
        for (alias, tool) in entries("tool_aliases", self.tool_aliases.as_ref())? {
            name("tool_aliases", alias)?;
            name(&format!("tool_aliases.{alias}"), tool)?;
        }
        for (server, config) in entries("mcp_servers", self.mcp_servers.as_ref())? {
            name("mcp_servers", server)?;
            mcp_server(&format!("mcp_servers.{server}"), config)?;
        }
        Ok(())
    }

    fn check_places(&self) -> Checked {
        list(
            "additional_directories",
            self.additional_directories.as_deref(),
            path,
        )?;
        optional(self.project_config_root.as_deref(), |root| {
            path("project_config_root", root)
        })?;
        optional(self.debug_file.as_deref(), |file| path("debug_file", file))?;
        let plugins = self.plugins.as_deref().unwrap_or_default();
        few("plugins", plugins.len())?;
        for (index, plugin) in plugins.iter().enumerate() {
            path(&format!("plugins[{index}].path"), &plugin.path)?;
        }
        Ok(())
    }

    fn check_prompts(&self, policy: &Policy) -> Checked {
        optional(self.agent.as_deref(), |agent| name("agent", agent))?;
        for (agent, definition) in entries("agents", self.agents.as_ref())? {
            name("agents", agent)?;
            let field = format!("agents.{agent}");
            short(&field, definition.get(), MAX_TEXT_BYTES)?;
            for wanted in ["description", "prompt"] {
                if definition.member(wanted).and_then(json::string).is_none() {
                    return Err(invalid(format!("{field}.{wanted}"), "must be a string"));
                }
            }
            let mode = definition.member("permissionMode").and_then(json::string);
            if !policy.allow_bypass_permissions && mode.as_deref() == Some("bypassPermissions") {
                return Err(bypass(format!("{field}.permissionMode")));
            }
        }
        match &self.system_prompt {
            Some(SystemPrompt::Text(text)) => short("system_prompt", text, MAX_TEXT_BYTES)?,
            Some(SystemPrompt::Blocks(blocks)) => prompt_blocks("system_prompt", blocks)?,
            Some(SystemPrompt::Spec(SystemPromptSpec::Preset { append, .. })) => {
                optional(append.as_deref(), |append| text("system_prompt.append", append))?;
            }
            Some(SystemPrompt::Spec(SystemPromptSpec::Custom { prompt, .. })) => match prompt {
                PromptText::Text(text) => short("system_prompt.prompt", text, MAX_TEXT_BYTES)?,
                PromptText::Blocks(blocks) => prompt_blocks("system_prompt.prompt", blocks)?,
            },
            None => {}
        }
        optional(self.plan_mode_instructions.as_deref(), |instructions| {
            text("plan_mode_instructions", instructions)
        })?;
        optional(self.title.as_deref(), |title| {
            single_line("title", title, MAX_TITLE_BYTES)
        })?;
        list(
            "supported_dialog_kinds",
            self.supported_dialog_kinds.as_deref(),
            name,
        )?;
        object("json_schema", self.json_schema.as_ref())
    }

    fn check_settings(&self, policy: &Policy) -> Checked {
        match &self.settings {
            Some(Settings::Path(file)) => {
                path("settings", file)?;
                if self.sandbox.is_some() {
                    return Err(invalid("sandbox", "cannot be combined with a settings path"));
                }
            }
            Some(Settings::Inline(settings)) => {
                object("settings", Some(settings))?;
                if self.sandbox.is_some() && settings.member("sandbox").is_some() {
                    return Err(invalid("sandbox", "is given here and in settings"));
                }
                let mode = self.default_mode();
                if !policy.allow_bypass_permissions && mode.as_deref() == Some("bypassPermissions") {
                    return Err(bypass("settings.permissions.defaultMode"));
                }
            }
            None => {}
        }
        object("managed_settings", self.managed_settings.as_ref())?;
        object("sandbox", self.sandbox.as_ref())
    }

    fn check_process(&self, policy: &Policy) -> Checked {
        optional(self.executable.as_deref(), |name| {
            match is_executable_name(name) {
                true => Ok(()),
                false => Err(invalid(
                    "executable",
                    "is no name: letters, digits, \".\", \"_\" and \"-\", at most 64",
                )),
            }
        })?;
        for (variable, value) in entries("env", self.env.as_ref())? {
            if !environment::is_valid_name(variable) {
                return Err(invalid(
                    "env",
                    "a name must be letters, digits and underscores, and not begin with a digit",
                ));
            }
            let field = format!("env.{variable}");
            if environment::is_never_passed(variable) {
                return Err(invalid(field, "is reserved and cannot be set"));
            }
            if value.contains('\0') {
                return Err(invalid(field, "must not contain a NUL character"));
            }
            short(&field, value, MAX_ITEM_BYTES)?;
        }
        for (flag, value) in entries("extra_args", self.extra_args.as_ref())? {
            if !policy.allow_extra_args {
                return Err(invalid(
                    "extra_args",
                    "is not allowed; sessions.allow_extra_args in the daemon's configuration allows it",
                ));
            }
            if !is_flag_name(flag) {
                return Err(invalid(
                    "extra_args",
                    "a name must be letters, digits and inner dashes",
                ));
            }
            let field = format!("extra_args.{flag}");
            if OWN_FLAGS.contains(&flag.as_str()) {
                return Err(invalid(field, "is set by the daemon or has an option of its own"));
            }
            optional(value.as_deref(), |value| {
                if value.contains('\0') {
                    return Err(invalid(&field, "must not contain a NUL character"));
                }
                short(&field, value, MAX_ITEM_BYTES)
            })?;
        }
        Ok(())
    }
}

/// Flags that `extra_args` cannot name: the daemon sets them, they have a typed option, or they turn the process into
/// something that does not speak the protocol.
const OWN_FLAGS: &[&str] = &[
    "add-dir",
    "agent",
    "agents",
    "allow-dangerously-skip-permissions",
    "allowed-tools",
    "allowedTools",
    "append-system-prompt",
    "append-system-prompt-file",
    "await-initialize",
    "background",
    "betas",
    "bg",
    "cloud",
    "continue",
    "dangerously-skip-permissions",
    "debug",
    "debug-file",
    "desktop",
    "disallowed-tools",
    "disallowedTools",
    "effort",
    "environment",
    "exclude-dynamic-system-prompt-sections",
    "fallback-model",
    "fork-session",
    "forward-subagent-text",
    "from-pr",
    "help",
    "include-hook-events",
    "include-partial-messages",
    "initialize-fields",
    "input-format",
    "json-schema",
    "managed-settings",
    "managed-settings-in-initialize",
    "max-budget-usd",
    "max-thinking-tokens",
    "max-turns",
    "mcp-config",
    "model",
    "name",
    "no-session-persistence",
    "output-format",
    "permission-mode",
    "permission-prompt-tool",
    "permission-prompts",
    "plugin-dir",
    "plugin-dir-no-mcp",
    "print",
    "project-config-root",
    "prompt-suggestions",
    "remote-control",
    "replay-user-messages",
    "resume",
    "resume-drops-turn",
    "resume-session-at",
    "sdk-url",
    "session-id",
    "session-mirror",
    "setting-sources",
    "settings",
    "strict-mcp-config",
    "system-prompt",
    "system-prompt-file",
    "system-prompt-snapshot",
    "task-budget",
    "teleport",
    "thinking",
    "thinking-display",
    "tmux",
    "tools",
    "verbose",
    "version",
    "worktree",
];

/// Whether `text` is the name of a flag, without its dashes.
fn is_flag_name(text: &str) -> bool {
    text.len() <= MAX_NAME_CHARS
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn bypass(field: impl Into<String>) -> InvalidOption {
    invalid(
        field,
        "skipping permission checks is not allowed; sessions.allow_bypass_permissions in the daemon's configuration allows it",
    )
}
