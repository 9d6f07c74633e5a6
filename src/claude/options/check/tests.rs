//! Checks what passes and what is refused.

use serde_json::{Value, json};

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
    let source = include_str!("../../invocation.rs");
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
