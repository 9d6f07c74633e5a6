//! Owns the checks that launch options pass before anything is started. What passes can become neither a flag of its
//! own nor a second item of a joined list.

mod callbacks;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    JsonObject, LaunchOptions, PermissionMode, PromptText, Settings, Skills, SystemPrompt, SystemPromptSpec,
    Thinking, Tools,
};
use crate::{
    claude::{environment, json},
    domain::Usd,
};

/// Longest name (a model, an agent, a tool), in bytes.
const MAX_NAME_BYTES: usize = 1024;
/// Longest path, in bytes: Linux takes no longer one.
const MAX_PATH_BYTES: usize = 4095;
/// Longest text that becomes one item of argv or of the environment, in bytes. Linux refuses items over 128 KiB.
const MAX_ITEM_BYTES: usize = 100 * 1024;
/// Most items of one list or map.
const MAX_ITEMS: usize = 1000;
/// Longest title, in bytes.
const MAX_TITLE_BYTES: usize = 4096;
/// Longest text or JSON that goes by file or over stdin, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// What the daemon's configuration allows clients to ask for.
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
    /// What is wrong with it, in words for a person. It never holds the value.
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
    /// Checks every field.
    ///
    /// # Errors
    /// The first field that cannot be used, and why.
    pub fn check(&self, policy: &Policy) -> Result<(), InvalidOption> {
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
        if self.task_budget == Some(0) {
            return Err(invalid("task_budget", "must be at least 1"));
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
                let mode = settings.member("permissions").and_then(|permissions| {
                    let [mode] = json::members(permissions, ["defaultMode"])?;
                    json::string(mode?)
                });
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
                    "is not allowed by the daemon's configuration",
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
    text.len() <= MAX_NAME_BYTES
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn bypass(field: impl Into<String>) -> InvalidOption {
    invalid(
        field,
        "skipping permission checks is not allowed by the daemon's configuration",
    )
}

fn optional<T: ?Sized>(value: Option<&T>, check: impl FnOnce(&T) -> Checked) -> Checked {
    value.map_or(Ok(()), check)
}

/// Checks each item; the whole list must fit one item of argv.
fn list(field: &str, items: Option<&[String]>, check: impl Fn(&str, &str) -> Checked) -> Checked {
    let items = items.unwrap_or_default();
    few(field, items.len())?;
    for (index, item) in items.iter().enumerate() {
        check(&format!("{field}[{index}]"), item)?;
    }
    if items.iter().map(|item| item.len() + 1).sum::<usize>() > MAX_ITEM_BYTES {
        return Err(too_long(field, MAX_ITEM_BYTES));
    }
    Ok(())
}

fn entries<'a, V>(
    field: &str,
    map: Option<&'a BTreeMap<String, V>>,
) -> Result<impl Iterator<Item = (&'a String, &'a V)> + use<'a, V>, InvalidOption> {
    few(field, map.map_or(0, BTreeMap::len))?;
    Ok(map.into_iter().flatten())
}

fn few(field: &str, count: usize) -> Checked {
    if count > MAX_ITEMS {
        return Err(invalid(field, format!("has more than {MAX_ITEMS} items")));
    }
    Ok(())
}

fn too_long(field: &str, limit: usize) -> InvalidOption {
    invalid(field, format!("is longer than {limit} bytes"))
}

fn short(field: &str, value: &str, limit: usize) -> Checked {
    if value.len() > limit {
        return Err(too_long(field, limit));
    }
    Ok(())
}

/// A text that is one line and not empty.
fn single_line(field: &str, value: &str, limit: usize) -> Checked {
    if value.trim().is_empty() {
        return Err(invalid(field, "is empty"));
    }
    if value.chars().any(char::is_control) {
        return Err(invalid(
            field,
            "must not contain control characters or line breaks",
        ));
    }
    short(field, value, limit)
}

fn name(field: &str, value: &str) -> Checked {
    single_line(field, value, MAX_NAME_BYTES)
}

/// A name that goes into a comma-joined list.
fn word(field: &str, value: &str) -> Checked {
    name(field, value)?;
    if value.contains(|c: char| c == ',' || c.is_whitespace()) {
        return Err(invalid(field, "must not contain commas or white space"));
    }
    Ok(())
}

/// A tool or a permission rule such as `Bash(git log, git show)`.
///
/// The CLI splits lists at commas and white space outside parentheses, and to it the first closing parenthesis ends
/// them: `Bash(f (x), y)` would become two rules.
fn rule(field: &str, value: &str) -> Checked {
    single_line(field, value, MAX_ITEM_BYTES)?;
    let mut inside = false;
    for c in value.chars() {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            c if !inside && (c == ',' || c.is_whitespace()) => {
                return Err(invalid(
                    field,
                    "must not contain commas or white space outside parentheses, or after an inner pair of them",
                ));
            }
            _ => {}
        }
    }
    if inside {
        return Err(invalid(field, "has an opening parenthesis without a closing one"));
    }
    Ok(())
}

fn path(field: &str, value: &str) -> Checked {
    single_line(field, value, MAX_PATH_BYTES)?;
    if !value.starts_with('/') {
        return Err(invalid(field, "must be an absolute path"));
    }
    Ok(())
}

/// A text of any number of lines that is not empty.
fn text(field: &str, value: &str) -> Checked {
    if value.trim().is_empty() {
        return Err(invalid(field, "is empty"));
    }
    short(field, value, MAX_TEXT_BYTES)
}

fn prompt_blocks(field: &str, blocks: &[String]) -> Checked {
    few(field, blocks.len())?;
    if blocks.is_empty() {
        return Err(invalid(field, "is empty; use an empty text for an empty prompt"));
    }
    if blocks.iter().map(String::len).sum::<usize>() > MAX_TEXT_BYTES {
        return Err(too_long(field, MAX_TEXT_BYTES));
    }
    Ok(())
}

fn object(field: &str, value: Option<&JsonObject>) -> Checked {
    optional(value, |value| {
        short(field, value.get(), MAX_TEXT_BYTES)?;
        // Some objects are merged with ours later on; what could not be read then would be lost without a word.
        match serde_json::from_str::<Map<String, Value>>(value.get()) {
            Ok(_) => Ok(()),
            Err(_) => Err(invalid(
                field,
                "nests too deep, or has text that is not valid Unicode or a number that is too large",
            )),
        }
    })
}

/// Newer kinds of servers pass; the known ones must have what the CLI needs.
fn mcp_server(field: &str, config: &JsonObject) -> Checked {
    object(field, Some(config))?;
    let kind = match config.member("type") {
        None => "stdio".into(),
        Some(kind) => {
            json::string(kind).ok_or_else(|| invalid(format!("{field}.type"), "must be a string"))?
        }
    };
    let needed = match kind.as_ref() {
        "stdio" => "command",
        "http" | "sse" => "url",
        "sdk" => {
            return Err(invalid(
                format!("{field}.type"),
                "servers inside a client belong into sdk_mcp_servers",
            ));
        }
        _ => return Ok(()),
    };
    let value = config.member(needed).and_then(json::string).unwrap_or_default();
    single_line(&format!("{field}.{needed}"), &value, MAX_ITEM_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL_ALLOWED: Policy = Policy {
        allow_bypass_permissions: true,
        allow_extra_args: true,
    };

    fn check(options: &Value, policy: &Policy) -> Result<(), InvalidOption> {
        let text = options.to_string();
        serde_json::from_str::<LaunchOptions>(&text)
            .unwrap()
            .check(policy)
    }

    fn refused(options: Value) -> String {
        let error = check(&options, &ALL_ALLOWED).unwrap_err();
        assert!(!error.reason.is_empty());
        error.field
    }

    #[test]
    fn ordinary_options_pass_without_any_permission() {
        for options in [
            json!({}),
            json!({"model": "sonnet", "fallback_model": "haiku,opus", "betas": ["context-1m-2025-08-07"]}),
            json!({"allowed_tools": ["Read", "Bash(git commit -m \"a, b\")", "mcp__x__y", "Bash(f (x))"]}),
            json!({"permission_mode": "acceptEdits", "permission_prompts": "none", "tools": [], "skills": "all"}),
            json!({"env": {"ANTHROPIC_API_KEY": "k", "EMPTY": "", "LINES": "a\nb"}}),
            json!({"system_prompt": "", "title": "Überschrift – 题", "additional_directories": ["/a b,c"]}),
            json!({"mcp_servers": {"new": {"type": "brand-new", "x": 1}}, "max_thinking_tokens": 0}),
            json!({"settings": {"permissions": {"defaultMode": "plan"}}, "sandbox": {"enabled": true}}),
            json!({"agents": {"a": {"description": "d", "prompt": "p", "permissionMode": "plan"}}}),
        ] {
            check(&options, &Policy::default()).unwrap();
        }
    }

    #[test]
    fn each_bad_value_is_refused_by_its_field() {
        let long = "x".repeat(200_000);
        for (options, field) in [
            (json!({"model": ""}), "model"),
            (json!({"model": "  "}), "model"),
            (json!({"model": "a\nb"}), "model"),
            (json!({"model": "a\u{0}b"}), "model"),
            (json!({"model": long}), "model"),
            (json!({"fallback_model": "a,,b"}), "fallback_model"),
            (json!({"betas": ["a,b"]}), "betas[0]"),
            (json!({"betas": ["a", ""]}), "betas[1]"),
            (json!({"max_turns": 0}), "max_turns"),
            (json!({"max_budget_usd": 0}), "max_budget_usd"),
            (json!({"max_budget_usd": -1.5}), "max_budget_usd"),
            (json!({"task_budget": 0}), "task_budget"),
            (
                json!({"thinking": {"type": "enabled", "budget_tokens": 0}}),
                "thinking.budget_tokens",
            ),
            (
                json!({"permission_prompt_tool_name": "a\rb"}),
                "permission_prompt_tool_name",
            ),
            (json!({"allowed_tools": ["Read,Write"]}), "allowed_tools[0]"),
            (json!({"allowed_tools": ["Read Write"]}), "allowed_tools[0]"),
            (json!({"allowed_tools": ["Read\nWrite"]}), "allowed_tools[0]"),
            (json!({"allowed_tools": ["Bash(x"]}), "allowed_tools[0]"),
            (json!({"allowed_tools": ["Bash(x)),Write("]}), "allowed_tools[0]"),
            (
                json!({"disallowed_tools": ["Bash(f (x), y)"]}),
                "disallowed_tools[0]",
            ),
            (json!({"disallowed_tools": ["Read", ""]}), "disallowed_tools[1]"),
            (json!({"allowed_tools": vec!["Read"; 1001]}), "allowed_tools"),
            (
                json!({"allowed_tools": vec![format!("Bash({})", "y".repeat(1000)); 200]}),
                "allowed_tools",
            ),
            (json!({"tools": ["A,B"]}), "tools[0]"),
            (json!({"skills": ["a)"]}), "skills[0]"),
            (json!({"skills": ["a b"]}), "skills[0]"),
            (json!({"tool_aliases": {"Bash": ""}}), "tool_aliases.Bash"),
            (json!({"mcp_servers": {"": {"command": "x"}}}), "mcp_servers"),
            (json!({"mcp_servers": {"x": {}}}), "mcp_servers.x.command"),
            (
                json!({"mcp_servers": {"x": {"type": "http"}}}),
                "mcp_servers.x.url",
            ),
            (
                json!({"mcp_servers": {"x": {"type": "sse", "url": ""}}}),
                "mcp_servers.x.url",
            ),
            (
                json!({"mcp_servers": {"x": {"type": "sdk", "name": "x"}}}),
                "mcp_servers.x.type",
            ),
            (json!({"mcp_servers": {"x": {"type": 7}}}), "mcp_servers.x.type"),
            (json!({"plugins": [{"path": "./x"}]}), "plugins[0].path"),
            (
                json!({"additional_directories": ["-x"]}),
                "additional_directories[0]",
            ),
            (
                json!({"additional_directories": ["/x\n/y"]}),
                "additional_directories[0]",
            ),
            (json!({"project_config_root": "x"}), "project_config_root"),
            (json!({"debug_file": "--x"}), "debug_file"),
            (json!({"agent": ""}), "agent"),
            (json!({"agents": {"a": {"prompt": "p"}}}), "agents.a.description"),
            (
                json!({"agents": {"a": {"description": "d", "prompt": 1}}}),
                "agents.a.prompt",
            ),
            (json!({"system_prompt": []}), "system_prompt"),
            (
                json!({"system_prompt": {"type": "preset", "append": ""}}),
                "system_prompt.append",
            ),
            (json!({"plan_mode_instructions": " "}), "plan_mode_instructions"),
            (json!({"title": ""}), "title"),
            (json!({"title": "a\u{1b}[2Jb"}), "title"),
            (
                json!({"supported_dialog_kinds": [""]}),
                "supported_dialog_kinds[0]",
            ),
            (json!({"settings": "settings.json"}), "settings"),
            (json!({"settings": "/s.json", "sandbox": {}}), "sandbox"),
            (json!({"settings": {"sandbox": {}}, "sandbox": {}}), "sandbox"),
            (json!({"env": {"A=B": "x"}}), "env"),
            (json!({"env": {"": "x"}}), "env"),
            (json!({"env": {"A": "x\u{0}y"}}), "env.A"),
            (json!({"env": {"A": long}}), "env.A"),
            (json!({"extra_args": {"--x": null}}), "extra_args"),
            (json!({"extra_args": {"x y": null}}), "extra_args"),
            (json!({"extra_args": {"x=y": null}}), "extra_args"),
            (json!({"extra_args": {"": null}}), "extra_args"),
        ] {
            assert_eq!(refused(options.clone()), field, "{options:.200}");
        }
    }

    #[test]
    fn an_object_that_cannot_be_read_is_refused_rather_than_lost() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
        for value in [r#"{"enabled":true,"x":"\ud800"}"#.to_owned(), deep] {
            for field in ["sandbox", "settings", "managed_settings", "json_schema"] {
                let text = format!(r#"{{"{field}":{value}}}"#);
                let options: LaunchOptions = serde_json::from_str(&text).unwrap();
                assert_eq!(options.check(&ALL_ALLOWED).unwrap_err().field, field);
            }
        }
    }

    #[test]
    fn reserved_variables_cannot_be_set() {
        for name in [
            "CLAUDECODE",
            "CLAUDE_CODE_SESSION_ID",
            "CLAUDE_CODE_ENTRYPOINT",
            "LD_PRELOAD",
            "NODE_OPTIONS",
            "TRUNKLINE_TOKEN",
        ] {
            assert_eq!(refused(json!({"env": {name: "1"}})), format!("env.{name}"));
        }
    }

    #[test]
    fn skipping_permissions_needs_the_daemons_permission_on_every_way() {
        for options in [
            json!({"permission_mode": "bypassPermissions"}),
            json!({"allow_dangerously_skip_permissions": true}),
            json!({"settings": {"permissions": {"defaultMode": "bypassPermissions"}}}),
            json!({"settings": {"permissions": {"defaultMode": "bypass\u{50}ermissions"}}}),
            json!({"agents": {"a": {"description": "d", "prompt": "p", "permissionMode": "bypassPermissions"}}}),
        ] {
            let error = check(&options, &Policy::default()).unwrap_err();
            assert!(error.reason.contains("permission checks"), "{error}");
            check(&options, &ALL_ALLOWED).unwrap();
        }
        for flag in [
            "dangerously-skip-permissions",
            "allow-dangerously-skip-permissions",
        ] {
            assert_eq!(
                refused(json!({"extra_args": {flag: null}})),
                format!("extra_args.{flag}")
            );
        }
    }

    #[test]
    fn unknown_flags_need_the_daemons_permission_and_known_ones_are_never_passed() {
        let options = json!({"extra_args": {"brief": null, "other": "-x"}});
        check(&options, &ALL_ALLOWED).unwrap();
        let error = check(&options, &Policy::default()).unwrap_err();
        assert_eq!(error.field, "extra_args");
        for flag in [
            "resume",
            "session-id",
            "output-format",
            "model",
            "permission-prompt-tool",
            "allowedTools",
        ] {
            assert_eq!(
                refused(json!({"extra_args": {flag: "x"}})),
                format!("extra_args.{flag}")
            );
        }
    }

    /// A flag that a launch can bear is one that a client cannot bring in a second time.
    #[test]
    fn every_flag_that_we_set_is_ours() {
        let source = include_str!("../invocation.rs");
        let mut found = 0;
        for call in [
            "self.flag(",
            "self.optional_flag(",
            "self.switch(",
            "self.list(",
            "self.file(",
        ] {
            for rest in source.split(call).skip(1) {
                let Some(name) = rest
                    .trim_start()
                    .strip_prefix('"')
                    .and_then(|rest| rest.split('"').next())
                else {
                    continue;
                };
                assert!(OWN_FLAGS.contains(&name), "{name}");
                found += 1;
            }
        }
        assert!(found > 30, "{found} flags were found");
    }

    #[test]
    fn errors_never_repeat_a_value() {
        for options in [
            json!({"model": "s3cret\n"}),
            json!({"env": {"A": "s3cret\u{0}"}}),
            json!({"settings": "s3cret"}),
        ] {
            let error = check(&options, &ALL_ALLOWED).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn what_is_unknown_or_of_another_type_is_named() {
        for (text, part) in [
            (r#"{"modle":"x"}"#, "unknown field `modle`"),
            (r#"{"model":7}"#, "expected a string"),
            (r#"{"permission_mode":"yolo"}"#, "unknown variant `yolo`"),
            (r#"{"max_turns":-1}"#, "invalid value"),
            (r#"{"max_turns":1.5}"#, "invalid type"),
            (r#"{"tools":"Bash"}"#, "expected a list of tool names"),
            (r#"{"skills":{}}"#, "expected \"all\" or a list"),
            (
                r#"{"system_prompt":7}"#,
                "expected a string, a list of strings or an object",
            ),
            (
                r#"{"system_prompt":{"type":"preset","apend":"x"}}"#,
                "unknown field `apend`",
            ),
            (r#"{"settings":[]}"#, "expected a path or an object"),
            (r#"{"sandbox":"on"}"#, "expected a JSON object"),
            (
                r#"{"thinking":{"type":"enabled","budget":1}}"#,
                "unknown field `budget`",
            ),
        ] {
            let mut read = serde_json::Deserializer::from_str(text);
            let error = serde_path_to_error::deserialize::<_, LaunchOptions>(&mut read).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn options_survive_being_stored() {
        let text = r#"{"model":"sonnet","tools":{"type":"preset","preset":"claude_code"},"skills":["a"],"system_prompt":{"type":"custom","prompt":["a","b"],"snapshot":false},"settings":{"z":1,"a":1.50},"thinking":{"type":"enabled","budget_tokens":5,"display":"omitted"},"max_budget_usd":0.25,"mcp_servers":{"x":{"command":"c"}},"extra_args":{"a":null,"b":"c"}}"#;
        let options: LaunchOptions = serde_json::from_str(text).unwrap();
        let stored = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<LaunchOptions>(&stored).unwrap(), options);
        let value: Value = serde_json::from_str(&stored).unwrap();
        assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
        let through_value: LaunchOptions = serde_json::from_value(value).unwrap();
        assert_eq!(through_value.model, options.model);
        assert_eq!(serde_json::to_string(&LaunchOptions::default()).unwrap(), "{}");
    }
}
