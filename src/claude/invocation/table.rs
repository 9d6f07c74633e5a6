//! Every launch option against what the official SDK passes for it, recorded by `web-test/options.mjs`.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Invocation, Start, build};
use crate::claude::{LaunchOptions, Policy};

const RECORDED: &str = include_str!("../../../tests/fixtures/sdk-options.json");
const LAUNCH_DIR: &str = "/run/launch";
const ID: &str = "11111111-1111-4111-8111-111111111111";
const PARENT: &str = "22222222-2222-4222-8222-222222222222";
const MESSAGE: &str = "33333333-3333-4333-8333-333333333333";

#[derive(Deserialize)]
struct Recording {
    cases: BTreeMap<String, Passed>,
}

/// The arguments, environment and messages that the SDK passed.
#[derive(Deserialize)]
struct Passed {
    args: Vec<String>,
    env: BTreeMap<String, String>,
    initialize: Map<String, Value>,
    user: Value,
}

/// The values that a process gets, whichever way they take: `--flag`, `env NAME` or `initialize field` → value. JSON in
/// arguments and files is decoded, so a file and an argument with the same content are equal.
type Effects = BTreeMap<String, Value>;

/// Flags of which the SDK passes the value as an item of its own.
const TWO_ITEMS: [&str; 6] = [
    "--output-format",
    "--input-format",
    "--mcp-config",
    "--settings",
    "--managed-settings",
    "--some-flag",
];

fn of_args(args: &[String], files: &BTreeMap<String, Value>, effects: &mut Effects) {
    let mut args = args.iter().peekable();
    while let Some(arg) = args.next() {
        let (flag, value) = match arg.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None if TWO_ITEMS.contains(&arg.as_str()) => (arg.as_str(), args.next().cloned()),
            None => (arg.as_str(), None),
        };
        assert!(flag.starts_with("--"), "{arg} is no flag");
        let value = match value {
            None => Value::Bool(true),
            Some(text) if text.starts_with('{') => serde_json::from_str(&text).unwrap(),
            Some(text) => files.get(&text).cloned().unwrap_or(Value::String(text)),
        };
        match effects.get_mut(flag) {
            None => {
                effects.insert(flag.to_owned(), json!([value]));
            }
            Some(values) => values.as_array_mut().unwrap().push(value),
        }
    }
}

fn of_sdk(passed: &Passed) -> Effects {
    let mut effects = Effects::new();
    of_args(&passed.args, &BTreeMap::new(), &mut effects);
    for (name, value) in &passed.env {
        effects.insert(format!("env {name}"), json!(value));
    }
    for (name, value) in &passed.initialize {
        effects.insert(format!("initialize {name}"), value.clone());
    }
    effects
}

fn of_invocation(invocation: &Invocation, options: &LaunchOptions) -> Effects {
    let files = invocation
        .files
        .iter()
        .map(|file| {
            let path = format!("{LAUNCH_DIR}/{}", file.name);
            (path, serde_json::from_slice(&file.contents).unwrap())
        })
        .collect();
    let mut effects = Effects::new();
    of_args(&invocation.args, &files, &mut effects);
    for (name, value) in &invocation.env {
        effects.insert(format!("env {name}"), json!(value));
    }
    for (name, value) in options.env.iter().flatten() {
        effects.insert(format!("env {name}"), json!(value));
    }
    for (name, value) in invocation.initialize.iter() {
        effects.insert(
            format!("initialize {name}"),
            serde_json::from_str(value.get()).unwrap(),
        );
    }
    effects
}

/// One option: the case of the recording, our form of it, and what differs on purpose.
struct Row {
    case: &'static str,
    options: Value,
    start: Option<Start>,
    differs: &'static [(&'static str, &'static str)],
}

fn row(case: &'static str, options: Value) -> Row {
    Row {
        case,
        options,
        start: None,
        differs: &[],
    }
}

fn differing(case: &'static str, options: Value, differs: &'static [(&'static str, &'static str)]) -> Row {
    Row {
        differs,
        ..row(case, options)
    }
}

fn starting(case: &'static str, start: Start) -> Row {
    Row {
        start: Some(start),
        ..row(case, json!({}))
    }
}

/// The values that differ in every case.
const ALWAYS: [(&str, &str); 3] = [
    ("env CLAUDE_CODE_ENTRYPOINT", "says who started the process"),
    ("env CLAUDE_AGENT_SDK_VERSION", "the daemon is not the SDK"),
    (
        "initialize systemPrompt",
        "an omitted system prompt is the CLI's own default, as users of the CLI expect, not an empty one",
    ),
];

fn rows() -> Vec<Row> {
    let id = ID.parse().unwrap();
    let parent = PARENT.parse().unwrap();
    let at = Some(MESSAGE.parse().unwrap());
    let servers = json!({
        "files": {"command": "files-server", "args": ["--root", "/srv"], "env": {"TOKEN": "secret"}},
        "web": {"type": "http", "url": "https://mcp.example/x", "headers": {"Authorization": "Bearer secret"}},
        "events": {"type": "sse", "url": "https://mcp.example/sse"},
    });
    let schema = json!({
        "type": "object",
        "properties": {"b": {"type": "string"}, "a": {"type": "number"}},
        "required": ["b"],
    });
    let agents = json!({
        "reviewer": {"description": "Reviews", "prompt": "You review.", "tools": ["Read"], "model": "haiku"},
    });
    vec![
        row("base", json!({})),
        starting("session_id", Start::New { id }),
        starting(
            "resume",
            Start::Resume {
                id,
                at: None,
                drops: None,
            },
        ),
        starting("resume_at", Start::Resume { id, at, drops: None }),
        starting("fork", Start::Fork { parent, id, at: None }),
        starting("fork_at", Start::Fork { parent, id, at }),
        row("model", json!({"model": "sonnet"})),
        row("fallback_model", json!({"fallback_model": "haiku,sonnet"})),
        differing(
            "betas",
            json!({"betas": ["context-1m-2025-08-07", "other-beta"]}),
            &[(
                "--betas",
                "the CLI takes a joined list for a single beta, so each has a flag of its own",
            )],
        ),
        row("thinking_adaptive", json!({"thinking": {"type": "adaptive"}})),
        row(
            "thinking_adaptive_display",
            json!({"thinking": {"type": "adaptive", "display": "summarized"}}),
        ),
        row("thinking_enabled", json!({"thinking": {"type": "enabled"}})),
        row(
            "thinking_enabled_budget",
            json!({"thinking": {"type": "enabled", "budget_tokens": 4000, "display": "omitted"}}),
        ),
        row("thinking_disabled", json!({"thinking": {"type": "disabled"}})),
        row(
            "thinking_over_max_thinking_tokens",
            json!({"thinking": {"type": "adaptive"}, "max_thinking_tokens": 5}),
        ),
        row("max_thinking_tokens", json!({"max_thinking_tokens": 2048})),
        row("max_thinking_tokens_zero", json!({"max_thinking_tokens": 0})),
        row("effort", json!({"effort": "xhigh"})),
        row("max_turns", json!({"max_turns": 7})),
        row("max_budget_usd", json!({"max_budget_usd": 1.25})),
        row("max_budget_usd_small", json!({"max_budget_usd": 0.001})),
        row("task_budget", json!({"task_budget": 20000})),
        row("permission_mode_default", json!({"permission_mode": "default"})),
        row(
            "permission_mode_accept_edits",
            json!({"permission_mode": "acceptEdits"}),
        ),
        row("permission_mode_plan", json!({"permission_mode": "plan"})),
        row("permission_mode_dont_ask", json!({"permission_mode": "dontAsk"})),
        row("permission_mode_auto", json!({"permission_mode": "auto"})),
        row(
            "permission_mode_bypass",
            json!({"permission_mode": "bypassPermissions", "allow_dangerously_skip_permissions": true}),
        ),
        row(
            "allow_dangerously_skip_permissions",
            json!({"allow_dangerously_skip_permissions": true}),
        ),
        row("permission_prompts_host", json!({"permission_prompts": "host"})),
        row("permission_prompts_none", json!({"permission_prompts": "none"})),
        row(
            "permission_prompt_tool_name",
            json!({"permission_prompt_tool_name": "mcp__gate__ask"}),
        ),
        row(
            "allowed_tools",
            json!({"allowed_tools": ["Read", "Bash(git log, git show)"]}),
        ),
        row(
            "disallowed_tools",
            json!({"disallowed_tools": ["WebFetch", "Bash(rm *)"]}),
        ),
        row("tools", json!({"tools": ["Bash", "Read"]})),
        row("tools_none", json!({"tools": []})),
        row(
            "tools_preset",
            json!({"tools": {"type": "preset", "preset": "claude_code"}}),
        ),
        row(
            "tool_aliases",
            json!({"tool_aliases": {"Bash": "mcp__box__bash"}}),
        ),
        row("skills", json!({"skills": ["pdf", "tools:docx"]})),
        row("skills_none", json!({"skills": []})),
        row("skills_all", json!({"skills": "all"})),
        row(
            "skills_and_allowed_tools",
            json!({"skills": ["pdf"], "allowed_tools": ["Read"]}),
        ),
        row("mcp_servers", json!({"mcp_servers": servers})),
        row(
            "sdk_mcp_servers",
            json!({"sdk_mcp_servers": {"calc": {"target": {"type": "client", "client_id": "x"}}}}),
        ),
        differing(
            "hooks",
            json!({"hooks": [
                {"event": "PreToolUse", "matcher": "Bash", "timeout_ms": 5000, "on_failure": "block",
                    "target": {"type": "client", "client_id": "x"}},
                {"event": "Stop", "target": {"type": "fixed", "output": {}}},
            ]}),
            &[(
                "initialize hooks",
                "the ids of callbacks are the daemon's; the rest is compared on its own",
            )],
        ),
        row("strict_mcp_config", json!({"strict_mcp_config": true})),
        row(
            "plugins",
            json!({"plugins": [{"path": "/srv/plugin"}, {"path": "/srv/quiet", "skip_mcp_discovery": true}]}),
        ),
        row(
            "question_preview_format",
            json!({"question_preview_format": "html"}),
        ),
        row(
            "additional_directories",
            json!({"additional_directories": ["/srv/one", "/srv/two, three"]}),
        ),
        row(
            "project_config_root",
            json!({"project_config_root": "/srv/trusted"}),
        ),
        row("agent", json!({"agent": "reviewer"})),
        row("agents", json!({"agents": agents})),
        row("system_prompt_text", json!({"system_prompt": "You are brief."})),
        row("system_prompt_empty", json!({"system_prompt": ""})),
        row("system_prompt_blocks", json!({"system_prompt": ["One.", "Two."]})),
        row(
            "system_prompt_preset",
            json!({"system_prompt": {"type": "preset", "preset": "claude_code"}}),
        ),
        row(
            "system_prompt_preset_full",
            json!({"system_prompt": {
                "type": "preset", "append": "Be kind.", "exclude_dynamic_sections": true, "snapshot": false,
            }}),
        ),
        row(
            "system_prompt_custom",
            json!({"system_prompt": {"type": "custom", "prompt": "You release.", "snapshot": true}}),
        ),
        row(
            "system_prompt_custom_blocks",
            json!({"system_prompt": {"type": "custom", "prompt": ["A", "B"]}}),
        ),
        row(
            "plan_mode_instructions",
            json!({"plan_mode_instructions": "Draw first."}),
        ),
        differing(
            "json_schema",
            json!({"json_schema": schema}),
            &[(
                "--json-schema",
                "the CLI takes it from `initialize` alone, and an argument has a size limit and is public",
            )],
        ),
        row(
            "settings_inline",
            json!({"settings": {"model": "haiku", "permissions": {"allow": ["Read"]}}}),
        ),
        row("settings_path", json!({"settings": "/srv/settings.json"})),
        differing(
            "managed_settings",
            json!({"managed_settings": {"permissions": {"deny": ["Bash"]}}}),
            &[
                (
                    "--managed-settings",
                    "an argument is public; a path is ignored by the CLI",
                ),
                ("--managed-settings-in-initialize", "they go by `initialize`"),
                ("--await-initialize", "they go by `initialize`"),
                ("initialize managedSettings", "they go by `initialize`"),
            ],
        ),
        row(
            "sandbox",
            json!({"sandbox": {"enabled": true, "network": {"allowLocalBinding": true}}}),
        ),
        row(
            "sandbox_lenient",
            json!({"sandbox": {"enabled": true, "failIfUnavailable": false}}),
        ),
        row("sandbox_off", json!({"sandbox": {"enabled": false}})),
        row(
            "sandbox_and_settings",
            json!({"sandbox": {"enabled": true}, "settings": {"model": "haiku"}}),
        ),
        row(
            "setting_sources",
            json!({"setting_sources": ["user", "project", "local"]}),
        ),
        row("setting_sources_none", json!({"setting_sources": []})),
        row(
            "include_partial_messages",
            json!({"include_partial_messages": true}),
        ),
        row("include_hook_events", json!({"include_hook_events": true})),
        row("prompt_suggestions", json!({"prompt_suggestions": true})),
        row("prompt_suggestions_off", json!({"prompt_suggestions": false})),
        row(
            "agent_progress_summaries",
            json!({"agent_progress_summaries": true}),
        ),
        row("forward_subagent_text", json!({"forward_subagent_text": true})),
        row(
            "per_task_stop_affordance",
            json!({"per_task_stop_affordance": true}),
        ),
        row(
            "supported_dialog_kinds",
            json!({"supported_dialog_kinds": ["refusal_fallback_prompt"]}),
        ),
        row("title", json!({"title": "A title"})),
        row(
            "enable_file_checkpointing",
            json!({"enable_file_checkpointing": true}),
        ),
        row("verbatim_prompts", json!({"verbatim_prompts": true})),
        row("persist_session", json!({"persist_session": true})),
        row("persist_session_off", json!({"persist_session": false})),
        row("debug", json!({"debug": true})),
        row("debug_file", json!({"debug_file": "/tmp/debug.log"})),
        row(
            "debug_and_debug_file",
            json!({"debug": true, "debug_file": "/tmp/debug.log"}),
        ),
        row("env", json!({"env": {"FOO": "bar"}})),
        row(
            "extra_args",
            json!({"extra_args": {"some-flag": "value", "other-flag": null}}),
        ),
        row("extra_args_dash", json!({"extra_args": {"some-flag": "-x"}})),
    ]
}

/// Options that the SDK has no case for.
const OURS_ALONE: [(&str, &str); 8] = [
    ("executable", "the configuration names the program"),
    ("replace_env", "the daemon makes the environment"),
    (
        "replay_user_messages",
        "the SDK never sets the flag; tested on its own",
    ),
    (
        "resume",
        "it decides the way of starting, which holds for more than one start",
    ),
    (
        "continue",
        "the daemon looks for the conversation, and resumes it",
    ),
    ("fork_session", "it decides the way of starting"),
    ("resume_session_at", "it decides the way of starting"),
    ("session_id", "it decides the way of starting"),
];

/// Recorded cases that no row repeats.
const SDK_ALONE: [(&str, &str); 1] = [(
    "bare",
    "without a permission callback; the daemon always answers prompts",
)];

const ALL_ALLOWED: Policy = Policy {
    allow_bypass_permissions: true,
    allow_extra_args: true,
};

fn parse(options: &Value) -> LaunchOptions {
    serde_json::from_str(&options.to_string()).unwrap()
}

#[test]
fn every_option_reaches_the_process_as_the_sdk_passes_it() {
    let recording: Recording = serde_json::from_str(RECORDED).unwrap();
    for row in rows() {
        let options = parse(&row.options);
        options.check(&ALL_ALLOWED).unwrap();
        let start = row.start.unwrap_or(Start::New {
            id: ID.parse().unwrap(),
        });
        let invocation = build(&options, &ALL_ALLOWED, &start, Path::new(LAUNCH_DIR));
        let mut ours = of_invocation(&invocation, &options);
        let mut theirs = of_sdk(&recording.cases[row.case]);
        if row.start.is_none() {
            // The SDK leaves the choice of an id to the CLI when it is not asked for one.
            assert!(ours.remove("--session-id").is_some(), "{}", row.case);
        }
        for (key, reason) in ALWAYS.iter().chain(row.differs) {
            let (our, their) = (ours.remove(*key), theirs.remove(*key));
            let everywhere = ALWAYS.iter().any(|(always, _)| always == key);
            if *key == "initialize systemPrompt" && options.system_prompt.is_some() {
                assert_eq!(our, their, "{}: a given system prompt is the same", row.case);
            } else if !everywhere {
                assert_ne!(our, their, "{}: {key} does not differ ({reason})", row.case);
            }
        }
        assert_eq!(ours, theirs, "{}", row.case);
    }
}

#[test]
fn what_always_differs_does_differ() {
    let recording: Recording = serde_json::from_str(RECORDED).unwrap();
    let id = ID.parse().unwrap();
    let options = LaunchOptions::default();
    let ours = of_invocation(
        &build(&options, &ALL_ALLOWED, &Start::New { id }, Path::new(LAUNCH_DIR)),
        &options,
    );
    let theirs = of_sdk(&recording.cases["base"]);
    for (key, reason) in ALWAYS {
        assert_ne!(ours.get(key), theirs.get(key), "{key}: {reason}");
    }
}

#[test]
fn no_option_and_no_recorded_case_is_left_out() {
    let recording: Recording = serde_json::from_str(RECORDED).unwrap();
    let rows = rows();
    for case in recording.cases.keys() {
        let known = rows.iter().any(|row| row.case == case) || SDK_ALONE.iter().any(|(name, _)| name == case);
        assert!(known, "the recorded case {case} has no row");
    }
    for field in super::super::options::field_names() {
        let known = rows.iter().any(|row| row.options.get(&field).is_some())
            || OURS_ALONE.iter().any(|(name, _)| *name == field);
        assert!(known, "the option {field} has no row");
    }
}

#[test]
fn hooks_are_registered_as_the_sdk_registers_them() {
    let recording: Recording = serde_json::from_str(RECORDED).unwrap();
    let row = rows().into_iter().find(|row| row.case == "hooks").unwrap();
    let options = parse(&row.options);
    let start = Start::New {
        id: ID.parse().unwrap(),
    };
    let invocation = build(&options, &ALL_ALLOWED, &start, Path::new(LAUNCH_DIR));
    let ours = invocation.initialize.get("hooks").unwrap().get();
    let theirs = recording.cases["hooks"].initialize["hooks"].to_string();
    let theirs = theirs
        .replace("hook_0", "trunkline/0")
        .replace("hook_1", "trunkline/1");
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(parsed(ours), parsed(&theirs));
}

#[test]
fn what_is_known_of_outside_servers_goes_along() {
    let options = parse(&json!({"sdk_mcp_servers": {
        "a": {"target": {"type": "client", "client_id": "x"}, "manifest": {"initializeResult": {"n": 1}}, "timeout_ms": 7},
        "b": {"target": {"type": "url", "url": "http://h", "headers": {"Authorization": "s3cret"}}, "tools": [{"name": "t"}]},
        "c": {"target": {"type": "url", "url": "http://h"}},
    }}));
    let start = Start::New {
        id: ID.parse().unwrap(),
    };
    let ours = of_invocation(
        &build(&options, &ALL_ALLOWED, &start, Path::new(LAUNCH_DIR)),
        &options,
    );
    assert_eq!(ours["initialize sdkMcpServers"], json!(["a", "b", "c"]));
    assert_eq!(
        ours["initialize sdkMcpServerManifests"],
        json!({"a": {"initializeResult": {"n": 1}}})
    );
    assert_eq!(
        ours["initialize sdkMcpServerConfigs"],
        json!({"a": {"timeout": 7}, "b": {"tools": [{"name": "t"}]}})
    );
    assert!(
        !format!("{ours:?}").contains("s3cret"),
        "targets are not the CLI's business"
    );
}

#[test]
fn a_verbatim_prompt_is_marked_as_the_sdk_marks_it() {
    let recording: Recording = serde_json::from_str(RECORDED).unwrap();
    let line = crate::claude::stdin::user_message(&crate::claude::stdin::UserMessage {
        content: crate::claude::stdin::Content::Text("hi"),
        uuid: MESSAGE.parse().unwrap(),
        priority: None,
        should_query: None,
        client_composed: true,
        more: &[],
    });
    let ours: Value = serde_json::from_slice(&line).unwrap();
    let theirs = &recording.cases["verbatim_prompts"].user;
    assert_eq!(theirs["client_composed"], json!(true));
    assert_eq!(ours["client_composed"], theirs["client_composed"]);
    assert_eq!(ours["message"]["role"], theirs["message"]["role"]);
    assert!(recording.cases["base"].user.get("client_composed").is_none());
}
