//! Owns how the arguments that a host gives to the CLI's program become launch options: those of the official SDKs, and what
//! else a person may add.

use std::path::Path;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{LaunchOptions, Policy};
use crate::domain::CliSessionId;

/// The arguments of a host, read.
#[derive(Debug, Default)]
pub struct HostArguments {
    /// Those that are launch options.
    pub options: LaunchOptions,
    /// The conversation to go on with, or to copy.
    pub resume: Option<CliSessionId>,
    /// Whether it is copied.
    pub is_fork: bool,
    /// The last message of it to copy.
    pub at: Option<Uuid>,
    /// The id of a new conversation.
    pub conversation: Option<CliSessionId>,
    /// The names of MCP servers that the host serves itself.
    pub of_host: Vec<String>,
    /// Those that go to the process as they are, in their order.
    pub rest: Vec<String>,
    /// Arguments of the options that the CLI is started without: it asks its host for forms also where nobody answers permission
    /// prompts.
    pub left_out: Option<&'static str>,
    /// The flags among these that are not known.
    pub unknown: Vec<String>,
}

/// An argument that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {reason}")]
pub struct BadArgument {
    /// The flag, with its dashes.
    pub flag: String,
    /// The fault, in words for a person. It never holds the value.
    pub reason: String,
}

fn bad(flag: &str, reason: impl Into<String>) -> BadArgument {
    BadArgument {
        flag: format!("--{flag}"),
        reason: reason.into(),
    }
}

/// How a flag becomes a launch option.
#[derive(Clone, Copy)]
enum Kind {
    /// The text.
    Text(&'static str),
    /// A number.
    Number(&'static str),
    /// `true`, and no value.
    Switch(&'static str),
    /// A list, separated by commas, in one or more arguments.
    List(&'static str),
    /// Arguments, one item each.
    Items(&'static str),
    /// A JSON object.
    Object(&'static str),
    /// An absolute path, or one below the working directory.
    Path(&'static str),
    /// Said in any case by the daemon, without and with a value.
    Said,
    SaidWith,
    /// It goes to the process as it is, without and with a value.
    Passed,
    PassedWith,
    /// It has its own way, without and with a value.
    OwnSwitch,
    Own,
}

/// All flags that are known, by their names.
const FLAGS: &[(&str, Kind)] = &[
    ("model", Kind::Text("model")),
    ("fallback-model", Kind::Text("fallback_model")),
    ("betas", Kind::Items("betas")),
    ("thinking", Kind::Own),
    ("thinking-display", Kind::Own),
    ("max-thinking-tokens", Kind::Number("max_thinking_tokens")),
    ("effort", Kind::Text("effort")),
    ("max-turns", Kind::Number("max_turns")),
    ("max-budget-usd", Kind::Number("max_budget_usd")),
    ("task-budget", Kind::Number("task_budget")),
    ("permission-mode", Kind::Text("permission_mode")),
    (
        "allow-dangerously-skip-permissions",
        Kind::Switch("allow_dangerously_skip_permissions"),
    ),
    ("permission-prompts", Kind::Text("permission_prompts")),
    ("permission-prompt-tool", Kind::Own),
    ("allowedTools", Kind::List("allowed_tools")),
    ("allowed-tools", Kind::List("allowed_tools")),
    ("disallowedTools", Kind::List("disallowed_tools")),
    ("disallowed-tools", Kind::List("disallowed_tools")),
    ("tools", Kind::Own),
    ("mcp-config", Kind::Own),
    ("strict-mcp-config", Kind::Switch("strict_mcp_config")),
    ("plugin-dir", Kind::Own),
    ("plugin-dir-no-mcp", Kind::Own),
    ("add-dir", Kind::Own),
    ("project-config-root", Kind::Path("project_config_root")),
    ("agent", Kind::Text("agent")),
    ("agents", Kind::Object("agents")),
    ("system-prompt", Kind::Text("system_prompt")),
    ("append-system-prompt", Kind::Own),
    ("json-schema", Kind::Object("json_schema")),
    ("settings", Kind::Own),
    ("managed-settings", Kind::Object("managed_settings")),
    ("setting-sources", Kind::List("setting_sources")),
    (
        "include-partial-messages",
        Kind::Switch("include_partial_messages"),
    ),
    ("include-hook-events", Kind::Switch("include_hook_events")),
    ("replay-user-messages", Kind::Switch("replay_user_messages")),
    ("forward-subagent-text", Kind::Switch("forward_subagent_text")),
    ("no-session-persistence", Kind::OwnSwitch),
    ("dangerously-skip-permissions", Kind::OwnSwitch),
    ("debug", Kind::Switch("debug")),
    ("debug-file", Kind::Path("debug_file")),
    ("resume", Kind::Own),
    ("fork-session", Kind::OwnSwitch),
    ("resume-session-at", Kind::Own),
    ("resume-drops-turn", Kind::PassedWith),
    ("session-id", Kind::Own),
    ("verbose", Kind::Said),
    ("print", Kind::Said),
    ("output-format", Kind::SaidWith),
    ("input-format", Kind::SaidWith),
    ("await-initialize", Kind::Passed),
    ("initialize-fields", Kind::PassedWith),
    ("managed-settings-in-initialize", Kind::Passed),
    ("system-prompt-snapshot", Kind::Passed),
    ("exclude-dynamic-system-prompt-sections", Kind::Passed),
    ("system-prompt-file", Kind::PassedWith),
    ("append-system-prompt-file", Kind::PassedWith),
    ("session-mirror", Kind::Passed),
    ("debug-to-stderr", Kind::Passed),
    ("prompt-suggestions", Kind::PassedWith),
];

/// Flags with which the process would be something else than what a host starts.
const REFUSED: &[&str] = &[
    "background",
    "bg",
    "cloud",
    "continue",
    "desktop",
    "environment",
    "from-pr",
    "remote-control",
    "sdk-url",
    "teleport",
    "tmux",
    "worktree",
];

/// Reads the arguments of a host that works in `cwd`.
///
/// # Errors
/// The first one that cannot be used.
pub fn read(argv: &[String], cwd: &Path) -> Result<HostArguments, BadArgument> {
    let mut reader = Reader {
        cwd,
        options: Map::new(),
        thinking: None,
        display: None,
        append: None,
        asks_host: false,
        read: HostArguments::default(),
    };
    let mut args = argv.iter().map(String::as_str).peekable();
    while let Some(arg) = args.next() {
        let Some((name, joined)) = flag(arg) else {
            return Err(BadArgument {
                flag: "an argument without a flag".to_owned(),
                reason: "prompts go by standard input".to_owned(),
            });
        };
        if REFUSED.contains(&name) {
            return Err(bad(name, "is nothing for a session of the daemon"));
        }
        let known = FLAGS.iter().find(|(known, _)| *known == name);
        let takes_value = known.is_none_or(|(_, kind)| {
            !matches!(
                kind,
                Kind::Switch(_) | Kind::Said | Kind::Passed | Kind::OwnSwitch
            )
        });
        let takes_more = matches!(known, Some((_, Kind::List(_) | Kind::Items(_))))
            || [
                "add-dir",
                "tools",
                "mcp-config",
                "plugin-dir",
                "plugin-dir-no-mcp",
            ]
            .contains(&name);
        let mut values: Vec<&str> = joined.into_iter().collect();
        if takes_value && values.is_empty() {
            // The value of a flag that is known may look like anything; that of another cannot look like a flag.
            let is_value = |next: &&str| known.is_some() || flag(next).is_none();
            values.extend(args.next_if(is_value));
            while takes_more && let Some(value) = args.next_if(|next| flag(next).is_none()) {
                values.push(value);
            }
        }
        if name == "debug" && values.is_empty() {
            // It may have a value, and need not.
            values.extend(args.next_if(|next| flag(next).is_none()));
        }
        let mut words = vec![arg];
        if joined.is_none() {
            words.extend(&values);
        }
        match known {
            Some((_, kind)) => reader.take(name, *kind, &values, &words)?,
            None => {
                reader.read.unknown.push(format!("--{name}"));
                reader.pass(&words);
            }
        }
    }
    reader.finish()
}

/// The members of an `initialize` that are launch options under another name.
const SAID_FIRST: &[(&str, &str)] = &[
    ("agents", "agents"),
    ("jsonSchema", "json_schema"),
    ("planModeInstructions", "plan_mode_instructions"),
    ("promptSuggestions", "prompt_suggestions"),
    ("agentProgressSummaries", "agent_progress_summaries"),
    ("forwardSubagentText", "forward_subagent_text"),
    ("toolAliases", "tool_aliases"),
    ("perTaskStopAffordance", "per_task_stop_affordance"),
    ("supportedDialogKinds", "supported_dialog_kinds"),
    ("title", "title"),
];

/// Adds what the host's `initialize` says to the options.
///
/// A later process of the session, which another client may start, is told the same. Options that no session may be made with are
/// the host's alone.
pub fn remember(options: &mut LaunchOptions, initialize: &str) {
    let Ok(Value::Object(said)) = serde_json::from_str(initialize) else {
        return;
    };
    // Where skipping permission checks is allowed, it is allowed here.
    let policy = match options.check(&Policy::default()) {
        Ok(()) => Policy::default(),
        Err(_) => Policy {
            allow_bypass_permissions: true,
            allow_extra_args: true,
        },
    };
    let mut add = |option: &str, value: Value| {
        let Ok(Value::Object(mut all)) = serde_json::to_value(&*options) else {
            return;
        };
        all.insert(option.to_owned(), value);
        // From the text, as the API reads them.
        let with: Option<LaunchOptions> = serde_json::from_str(&Value::Object(all).to_string()).ok();
        if let Some(with) = with.filter(|with| with.check(&policy).is_ok()) {
            *options = with;
        }
    };
    for (member, option) in SAID_FIRST {
        if let Some(value) = said.get(*member).filter(|value| !value.is_null()) {
            add(option, value.clone());
        }
    }
    let member = |name: &str| said.get(name).filter(|value| !value.is_null());
    let snapshot = member("systemPromptSnapshot");
    let mut prompt = match (
        member("systemPrompt"),
        member("appendSystemPrompt"),
        member("excludeDynamicSections"),
    ) {
        (Some(prompt), _, _) => json!({"type": "custom", "prompt": prompt}),
        (None, None, None) => return,
        (None, append, exclude) => {
            let mut preset = json!({"type": "preset", "preset": "claude_code"});
            for (name, value) in [("append", append), ("exclude_dynamic_sections", exclude)] {
                if let Some(value) = value {
                    preset[name] = value.clone();
                }
            }
            preset
        }
    };
    if let Some(snapshot) = snapshot {
        prompt["snapshot"] = snapshot.clone();
    }
    add("system_prompt", prompt);
}

/// The name of a flag, and the value that is joined to it.
fn flag(arg: &str) -> Option<(&str, Option<&str>)> {
    match arg {
        "-p" => return Some(("print", None)),
        "-c" => return Some(("continue", None)),
        "-d" => return Some(("debug", None)),
        "-r" => return Some(("resume", None)),
        _ => {}
    }
    let name = arg.strip_prefix("--").filter(|name| !name.is_empty())?;
    Some(match name.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (name, None),
    })
}

struct Reader<'a> {
    cwd: &'a Path,
    options: Map<String, Value>,
    thinking: Option<String>,
    display: Option<String>,
    append: Option<String>,
    asks_host: bool,
    read: HostArguments,
}

impl Reader<'_> {
    fn take(&mut self, name: &str, kind: Kind, values: &[&str], words: &[&str]) -> Result<(), BadArgument> {
        let one = || values.first().copied().ok_or_else(|| bad(name, "has no value"));
        match kind {
            // The CLI has two names for its default.
            Kind::Text("permission_mode") if one()? == "manual" => {
                self.set("permission_mode", "default".into())
            }
            Kind::Text(option) => self.set(option, one()?.into()),
            Kind::Number(option) => {
                let number: Value = one()?
                    .parse::<serde_json::Number>()
                    .map(Value::Number)
                    .map_err(|_| bad(name, "takes a number"))?;
                self.set(option, number);
            }
            Kind::Switch(_) if !values.is_empty() => {
                self.read.rest.push(format!("--{name}={}", values.join(",")));
            }
            Kind::Switch(option) => self.set(option, true.into()),
            Kind::List(option) => {
                let items = values.iter().flat_map(|value| split(value));
                self.extend(option, items.map(Value::from));
            }
            Kind::Items(option) => self.extend(option, values.iter().map(|value| Value::from(*value))),
            Kind::Object(option) => self.set(option, object(name, one()?)?),
            Kind::Path(option) => {
                let path = self.path(one()?);
                self.set(option, path.into());
            }
            Kind::Said | Kind::SaidWith => {}
            Kind::Passed | Kind::PassedWith => self.pass(words),
            Kind::OwnSwitch | Kind::Own => self.own(name, values)?,
        }
        Ok(())
    }

    fn own(&mut self, name: &str, values: &[&str]) -> Result<(), BadArgument> {
        match name {
            "fork-session" => {
                self.read.is_fork = true;
                return Ok(());
            }
            "dangerously-skip-permissions" => {
                self.set("permission_mode", "bypassPermissions".into());
                return Ok(());
            }
            "no-session-persistence" => {
                self.set("persist_session", false.into());
                return Ok(());
            }
            "add-dir" => {
                let paths: Vec<Value> = values.iter().map(|value| self.path(value).into()).collect();
                self.extend("additional_directories", paths);
                return Ok(());
            }
            "plugin-dir" | "plugin-dir-no-mcp" => {
                let is_quiet = name == "plugin-dir-no-mcp";
                let plugin = |path| json!({"path": path, "skip_mcp_discovery": is_quiet});
                let plugins: Vec<_> = values.iter().map(|value| plugin(self.path(value))).collect();
                self.extend("plugins", plugins);
                return Ok(());
            }
            "mcp-config" => return values.iter().try_for_each(|value| self.mcp(value)),
            "tools" => {
                let tools: Vec<String> = values.iter().flat_map(|value| split(value)).collect();
                let tools = match tools.as_slice() {
                    [only] if only == "default" => json!({"type": "preset", "preset": "claude_code"}),
                    list => json!(list),
                };
                self.set("tools", tools);
                return Ok(());
            }
            _ => {}
        }
        let value = values.first().copied().ok_or_else(|| bad(name, "has no value"))?;
        match name {
            "thinking" => self.thinking = Some(value.to_owned()),
            "thinking-display" => self.display = Some(value.to_owned()),
            "permission-prompt-tool" if value == "stdio" => self.asks_host = true,
            "permission-prompt-tool" => {
                self.asks_host = true;
                self.set("permission_prompt_tool_name", value.into());
            }
            "append-system-prompt" => self.append = Some(value.to_owned()),
            "settings" if value.trim_start().starts_with('{') => {
                let settings = object(name, value)?;
                self.set("settings", settings);
            }
            "settings" => {
                let path = self.path(value);
                self.set("settings", path.into());
            }
            "resume" => self.read.resume = Some(id(name, value)?),
            "session-id" => self.read.conversation = Some(id(name, value)?),
            "resume-session-at" => {
                self.read.at = Some(value.parse().map_err(|_| bad(name, "is no id of a message"))?);
            }
            _ => {}
        }
        Ok(())
    }

    /// MCP servers as the CLI takes them: a JSON text, or the path of a file.
    fn mcp(&mut self, value: &str) -> Result<(), BadArgument> {
        const NAME: &str = "mcp-config";
        if !value.trim_start().starts_with('{') {
            let path = self.path(value);
            self.read.rest.push(format!("--{NAME}={path}"));
            return Ok(());
        }
        let Value::Object(config) = object(NAME, value)? else {
            return Ok(());
        };
        let Some(Value::Object(servers)) = config.get("mcpServers") else {
            return Err(bad(NAME, "has no mcpServers"));
        };
        for (server, config) in servers {
            // The host serves it itself.
            let is_of_host = config.get("type").is_some_and(|kind| kind == "sdk");
            let (option, config) = match is_of_host {
                true => ("sdk_mcp_servers", Value::Null),
                false => ("mcp_servers", config.clone()),
            };
            let all = self.options.entry(option).or_insert_with(|| json!({}));
            if let Value::Object(all) = all {
                all.insert(server.clone(), config);
            }
        }
        Ok(())
    }

    fn set(&mut self, option: &str, value: Value) {
        self.options.insert(option.to_owned(), value);
    }

    fn extend(&mut self, option: &str, items: impl IntoIterator<Item = Value>) {
        let list = self.options.entry(option).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.extend(items);
        }
    }

    fn pass(&mut self, words: &[&str]) {
        self.read.rest.extend(words.iter().map(|word| (*word).to_owned()));
    }

    fn path(&self, value: &str) -> String {
        self.cwd.join(value).display().to_string()
    }

    fn finish(mut self) -> Result<HostArguments, BadArgument> {
        match (self.thinking.as_deref(), self.display) {
            (Some("disabled"), _) => self
                .options
                .insert("thinking".to_owned(), json!({"type": "disabled"})),
            (Some("adaptive" | "enabled"), display) => {
                let mut thinking = json!({"type": "adaptive"});
                if let Some(display) = display {
                    thinking["display"] = display.into();
                }
                self.options.insert("thinking".to_owned(), thinking)
            }
            (Some(_), _) => return Err(bad("thinking", "takes adaptive, enabled or disabled")),
            (None, Some(display)) => {
                let tokens = self.options.remove("max_thinking_tokens");
                let thinking = json!({"type": "enabled", "budget_tokens": tokens, "display": display});
                self.options.insert("thinking".to_owned(), thinking)
            }
            (None, None) => None,
        };
        match self.append {
            // No option has both.
            Some(append) if self.options.contains_key("system_prompt") => {
                self.read.rest.push(format!("--append-system-prompt={append}"));
            }
            Some(append) => {
                let prompt = json!({"type": "preset", "preset": "claude_code", "append": append});
                self.options.insert("system_prompt".to_owned(), prompt);
            }
            None => {}
        }
        if !self.asks_host && !self.options.contains_key("permission_prompts") {
            // Nobody would hear the question. The CLI knows that without the flag.
            self.read.left_out = Some("--permission-prompts=none");
            self.options
                .insert("permission_prompts".to_owned(), "none".into());
        }
        let of_host = self.options.remove("sdk_mcp_servers");
        if let Some(Value::Object(servers)) = of_host {
            self.read.of_host = servers.into_iter().map(|(name, _)| name).collect();
        }
        let text = Value::Object(self.options).to_string();
        let mut text = serde_json::Deserializer::from_str(&text);
        let options: Result<LaunchOptions, _> = serde_path_to_error::deserialize(&mut text);
        self.read.options = options.map_err(|error| {
            let (option, error) = (error.path().to_string(), error.inner().to_string());
            bad(
                &flag_of(&option),
                error.split(" at line ").next().unwrap_or_default(),
            )
        })?;
        Ok(self.read)
    }
}

fn flag_of(option: &str) -> String {
    let option = option.split(['.', '[']).next().unwrap_or(option);
    option.replace('_', "-")
}

fn object(name: &str, value: &str) -> Result<Value, BadArgument> {
    let parsed: Option<Value> = serde_json::from_str(value).ok();
    parsed
        .filter(Value::is_object)
        .ok_or_else(|| bad(name, "is no JSON object"))
}

fn id(name: &str, value: &str) -> Result<CliSessionId, BadArgument> {
    value.parse().map_err(|_| bad(name, "is no id of a conversation"))
}

/// The items of a list: separated by commas that stand outside of parentheses.
fn split(list: &str) -> Vec<String> {
    let (mut items, mut depth) = (vec![String::new()], 0_usize);
    for c in list.chars() {
        match c {
            ',' if depth == 0 => {
                items.push(String::new());
                continue;
            }
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let Some(last) = items.last_mut() {
            last.push(c);
        }
    }
    let items = items.into_iter().map(|item| item.trim().to_owned());
    items.filter(|item| !item.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(argv: &[&str]) -> Result<HostArguments, BadArgument> {
        let argv: Vec<String> = argv.iter().map(|arg| (*arg).to_owned()).collect();
        read(&argv, Path::new("/w"))
    }

    fn options(argv: &[&str]) -> Value {
        serde_json::to_value(read_all(argv).unwrap().options).unwrap()
    }

    const ALWAYS: [&str; 5] = [
        "--output-format",
        "stream-json",
        "--verbose",
        "--input-format",
        "stream-json",
    ];

    #[test]
    fn the_arguments_of_the_typescript_sdk_are_options() {
        let mut argv = ALWAYS.to_vec();
        argv.extend([
            "--model=sonnet",
            "--max-turns=3",
            "--permission-prompt-tool=stdio",
            "--permission-mode=plan",
            "--allowedTools=Read,Bash(git log, git show)",
            "--setting-sources=",
            "--include-partial-messages",
            "--thinking=adaptive",
            "--settings",
            r#"{"model":"x"}"#,
            "--mcp-config",
            r#"{"mcpServers":{"a":{"command":"true"}}}"#,
        ]);
        assert_eq!(
            options(&argv),
            json!({
                "model": "sonnet", "max_turns": 3, "permission_mode": "plan",
                "allowed_tools": ["Read", "Bash(git log, git show)"], "setting_sources": [],
                "include_partial_messages": true, "thinking": {"type": "adaptive"}, "settings": {"model": "x"},
                "mcp_servers": {"a": {"command": "true"}},
            })
        );
    }

    #[test]
    fn the_arguments_of_the_python_sdk_are_options() {
        let mut argv = vec![
            "--output-format",
            "stream-json",
            "--verbose",
            "--system-prompt",
            "",
        ];
        argv.extend([
            "--model",
            "sonnet",
            "--append-system-prompt",
            "Be kind.",
            "--mcp-config",
            r#"{"mcpServers":{"calc":{"type":"sdk","name":"calc"}}}"#,
            "--input-format",
            "stream-json",
        ]);
        let read = read_all(&argv).unwrap();
        assert_eq!(read.of_host, ["calc"]);
        assert_eq!(read.rest, ["--append-system-prompt=Be kind."]);
        assert_eq!(
            serde_json::to_value(read.options).unwrap(),
            json!({
                "model": "sonnet", "permission_prompts": "none",
                "system_prompt": "",
            })
        );
    }

    #[test]
    fn nothing_of_two_system_prompts_is_lost() {
        let read = read_all(&[
            "--append-system-prompt",
            "b",
            "--system-prompt",
            "a",
            "--debug",
            "api",
        ])
        .unwrap();
        assert_eq!(read.rest, ["--debug=api", "--append-system-prompt=b"]);
        let options = serde_json::to_value(read.options).unwrap();
        assert_eq!(
            options,
            json!({"system_prompt": "a", "permission_prompts": "none"})
        );
    }

    #[test]
    fn what_is_not_known_passes_in_its_order() {
        let read = read_all(&[
            "--zebra",
            "1",
            "--model",
            "x",
            "--ant",
            "--await-initialize",
            "--bee=2",
        ])
        .unwrap();
        assert_eq!(
            read.rest,
            ["--zebra", "1", "--ant", "--await-initialize", "--bee=2"]
        );
        assert_eq!(read.unknown, ["--zebra", "--ant", "--bee"]);
        assert!(read_all(&["--await-initialize"]).unwrap().unknown.is_empty());
    }

    #[test]
    fn a_bad_argument_is_named_without_its_value() {
        for (argv, told) in [
            (&["--max-turns=many"][..], "--max-turns: takes a number"),
            (&["--resume=s3cret"][..], "--resume: is no id of a conversation"),
            (
                &["--continue"][..],
                "--continue: is nothing for a session of the daemon",
            ),
            (&["--model"][..], "--model: has no value"),
            (&["--settings", "{"][..], "--settings: is no JSON object"),
            (&["hello"][..], "an argument without a flag"),
        ] {
            let error = read_all(argv).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn the_first_word_of_a_host_holds_for_later_processes() {
        let mut options = read_all(&["--model=sonnet", "--permission-prompt-tool=stdio"])
            .unwrap()
            .options;
        let first = json!({
            "subtype": "initialize", "systemPrompt": ["Be brief."], "promptSuggestions": true, "title": "A title",
            "agents": {"a": {"description": "d", "prompt": "p", "permissionMode": "bypassPermissions"}},
        });
        remember(&mut options, &first.to_string());
        assert_eq!(
            serde_json::to_value(&options).unwrap(),
            json!({
                "model": "sonnet", "prompt_suggestions": true, "title": "A title",
                "system_prompt": {"type": "custom", "prompt": ["Be brief."]},
            })
        );
        remember(
            &mut options,
            r#"{"appendSystemPrompt":"And kind.","systemPromptSnapshot":false}"#,
        );
        let prompt = serde_json::to_value(&options.system_prompt).unwrap();
        assert_eq!(
            prompt,
            json!({"type": "preset", "preset": "claude_code", "append": "And kind.", "snapshot": false})
        );
    }

    #[test]
    fn a_conversation_is_named() {
        let id = "11111111-2222-4333-8444-555555555555";
        let read = read_all(&[&format!("--resume={id}"), "--fork-session", "--session-id", id]).unwrap();
        assert_eq!(read.resume.map(|id| id.to_string()).as_deref(), Some(id));
        assert!(read.is_fork && read.conversation.is_some());
    }
}
