//! The rules that hold for every start of a process.

use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::{Start, build};
use crate::claude::{LaunchOptions, Policy};

const ID: &str = "11111111-1111-4111-8111-111111111111";
const PARENT: &str = "22222222-2222-4222-8222-222222222222";
const MESSAGE: &str = "33333333-3333-4333-8333-333333333333";

const ALL_ALLOWED: Policy = Policy {
    allow_bypass_permissions: true,
    allow_extra_args: true,
};

fn new() -> Start {
    Start::New {
        id: ID.parse().unwrap(),
    }
}

fn args(options: serde_json::Value, start: &Start) -> Vec<String> {
    let options: LaunchOptions = serde_json::from_value(options).unwrap();
    build(&options, &ALL_ALLOWED, start, Path::new("/run/launch")).args
}

fn has(args: &[String], flag: &str) -> bool {
    args.iter()
        .any(|arg| arg == flag || arg.starts_with(&format!("{flag}=")))
}

/// The CLI refuses an id beside `--resume`, save with `--fork-session`.
#[test]
fn each_kind_of_start_names_the_conversation_in_the_one_way_the_cli_takes() {
    let id = ID.parse().unwrap();
    let parent = PARENT.parse().unwrap();
    for at in [None, Some(MESSAGE.parse().unwrap())] {
        for (start, session_id, resume, fork) in [
            (Start::New { id }, true, false, false),
            (Start::Resume { id, at, drops: None }, false, true, false),
            (Start::Fork { parent, id, at }, true, true, true),
        ] {
            let args = args(json!({}), &start);
            assert_eq!(has(&args, "--session-id"), session_id, "{args:?}");
            assert_eq!(has(&args, "--resume"), resume, "{args:?}");
            assert_eq!(has(&args, "--fork-session"), fork, "{args:?}");
            let cut = at.is_some() && resume;
            assert_eq!(has(&args, "--resume-session-at"), cut, "{args:?}");
            assert!(!has(&args, "--continue"), "{args:?}");
        }
    }
    let drops = Start::Resume {
        id,
        at: Some(MESSAGE.parse().unwrap()),
        drops: Some(PARENT.parse().unwrap()),
    };
    assert!(args(json!({}), &drops).contains(&format!("--resume-drops-turn={PARENT}")));
    let fork = args(json!({}), &Start::Fork { parent, id, at: None });
    assert!(fork.contains(&format!("--resume={PARENT}")));
    assert!(fork.contains(&format!("--session-id={ID}")));
}

/// At a resume it would undo what the conversation was renamed to.
#[test]
fn a_conversation_is_given_its_title_once() {
    let id = ID.parse().unwrap();
    let parent = PARENT.parse().unwrap();
    let options: LaunchOptions = serde_json::from_value(json!({"title": "the first"})).unwrap();
    for (start, is_given) in [
        (new(), true),
        (Start::Fork { parent, id, at: None }, true),
        (
            Start::Resume {
                id,
                at: None,
                drops: None,
            },
            false,
        ),
    ] {
        let built = build(&options, &ALL_ALLOWED, &start, Path::new("/run/launch"));
        let given = built.initialize.iter().any(|(name, _)| name == "title");
        assert_eq!(given, is_given, "{start:?}");
    }
}

/// Without these the CLI waits for the end of its input or never asks.
#[test]
fn the_protocol_is_always_asked_for() {
    for options in [json!({}), json!({"permission_prompts": "host", "model": "x"})] {
        let args = args(options, &new());
        for flag in [
            "--output-format=stream-json",
            "--input-format=stream-json",
            "--verbose",
            "--permission-prompt-tool=stdio",
        ] {
            assert!(args.iter().any(|arg| arg == flag), "{flag}: {args:?}");
        }
    }
    let silent = args(json!({"permission_prompts": "none"}), &new());
    assert!(!has(&silent, "--permission-prompt-tool"), "{silent:?}");
}

/// A hardened installation or root refuses to start with such a flag, so it is passed only when asked for.
#[test]
fn skipping_permissions_is_never_asked_for_by_itself() {
    let args = args(json!({"permission_mode": "plan"}), &new());
    assert!(
        !args.iter().any(|arg| arg.contains("skip-permissions")),
        "{args:?}"
    );
}

#[test]
fn prompts_are_repeated_when_asked_for() {
    assert!(has(
        &args(json!({"replay_user_messages": true}), &new()),
        "--replay-user-messages"
    ));
    assert!(!has(
        &args(json!({"replay_user_messages": false}), &new()),
        "--replay-user-messages"
    ));
}

/// The list of processes shows arguments to every user of the machine, and one argument has at most 128 KiB.
#[test]
fn large_and_secret_values_are_no_arguments() {
    let secret = "s3cret".repeat(50_000);
    let options: LaunchOptions = serde_json::from_value(json!({
        "mcp_servers": {"x": {"command": "c", "env": {"TOKEN": secret}}},
        "settings": {"env": {"TOKEN": secret}},
        "sandbox": {"enabled": false, "note": secret},
        "managed_settings": {"note": secret},
        "agents": {"a": {"description": "d", "prompt": secret}},
        "system_prompt": {"type": "preset", "append": secret},
        "plan_mode_instructions": secret,
        "json_schema": {"description": secret},
        "env": {"TOKEN": "s3cret"},
    }))
    .unwrap();
    options.check(&Policy::default()).unwrap();
    let invocation = build(&options, &ALL_ALLOWED, &new(), Path::new("/run/launch"));
    for arg in &invocation.args {
        assert!(arg.len() < 200 && !arg.contains("s3cret"), "{}", &arg[..40]);
    }
    let files: Vec<_> = invocation
        .files
        .iter()
        .map(|file| (file.name, file.contents.len() > secret.len()))
        .collect();
    assert_eq!(files, [("mcp.json", true), ("settings.json", true)]);
    for field in [
        "managedSettings",
        "agents",
        "appendSystemPrompt",
        "planModeInstructions",
        "jsonSchema",
    ] {
        let value = invocation.initialize.get(field).unwrap();
        assert!(value.get().contains("s3cret"), "{field}");
    }
    assert!(!format!("{:?}", invocation.files).contains("s3cret"));
}

/// The order of a schema's properties is the order in which the model fills them.
#[test]
fn a_schema_keeps_its_order_and_spelling() {
    let text = r#"{"json_schema":{"z":1.0e1,"a":{"y":1,"b":2}},"settings":{"z":1,"a":2}}"#;
    let options: LaunchOptions = serde_json::from_str(text).unwrap();
    let stored = serde_json::to_string(&options).unwrap();
    let options: LaunchOptions = serde_json::from_str(&stored).unwrap();
    let invocation = build(&options, &ALL_ALLOWED, &new(), Path::new("/run/launch"));
    let schema = invocation.initialize.get("jsonSchema").unwrap();
    assert_eq!(schema.get(), r#"{"z":1.0e1,"a":{"y":1,"b":2}}"#);
    assert_eq!(invocation.files[0].contents, br#"{"z":1,"a":2}"#);
}

/// A settings file, a plan or an agent can ask for it too; the CLI obeys this setting in all of them.
#[test]
fn a_policy_against_skipping_permissions_binds_the_process() {
    let dir = Path::new("/run/launch");
    let bound = build(&LaunchOptions::default(), &Policy::default(), &new(), dir);
    let flag = r#"--managed-settings={"permissions":{"disableBypassPermissionsMode":"disable"}}"#;
    assert!(bound.args.iter().any(|arg| arg == flag), "{:?}", bound.args);

    let options: LaunchOptions = serde_json::from_value(json!({
        "managed_settings": {"permissions": {"deny": ["Bash"]}, "other": 1},
    }))
    .unwrap();
    let merged = build(&options, &Policy::default(), &new(), dir);
    assert!(!has(&merged.args, "--managed-settings"), "{:?}", merged.args);
    let sent = merged.initialize.get("managedSettings").unwrap().get();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(sent).unwrap(),
        json!({"permissions": {"deny": ["Bash"], "disableBypassPermissionsMode": "disable"}, "other": 1}),
    );
    assert!(!has(&args(json!({}), &new()), "--managed-settings"));
}

/// Each value that somebody has tried is the value of its own flag, or refused.
#[test]
fn hostile_values_stay_values() {
    let args = args(
        json!({
            "model": "--dangerously-skip-permissions",
            "agent": "-p",
            "allowed_tools": ["--dangerously-skip-permissions"],
            "extra_args": {"some-flag": "--dangerously-skip-permissions"},
        }),
        &new(),
    );
    for arg in [
        "--model=--dangerously-skip-permissions",
        "--agent=-p",
        "--allowedTools=--dangerously-skip-permissions",
        "--some-flag=--dangerously-skip-permissions",
    ] {
        assert!(args.iter().any(|known| known == arg), "{arg}: {args:?}");
    }
    assert!(
        args.iter()
            .all(|arg| arg.starts_with("--") && !arg.starts_with("--dangerously"))
    );
}

proptest! {
    /// Any text of a client that passes the checks is the value of its own flag and nothing else.
    #[test]
    fn no_value_becomes_a_flag(value in "(-{0,3}[a-z=, -]{0,20}|\\PC{0,12})") {
        for field in ["model", "fallback_model", "agent", "permission_prompt_tool_name"] {
            one_value(json!({field: value}), &value)?;
        }
        for field in ["allowed_tools", "disallowed_tools", "tools", "skills"] {
            one_value(json!({field: [value, value]}), &value)?;
        }
        let path = format!("/{value}");
        for field in ["project_config_root", "debug_file", "settings"] {
            one_value(json!({field: path}), &path)?;
        }
        one_value(json!({"betas": [value]}), &value)?;
        one_value(json!({"additional_directories": [path]}), &path)?;
        one_value(json!({"plugins": [{"path": path}]}), &path)?;
        one_value(json!({"extra_args": {"some-flag": value}}), &value)?;
    }
}

fn one_value(options: serde_json::Value, value: &str) -> Result<(), TestCaseError> {
    let options: LaunchOptions = serde_json::from_value(options).unwrap();
    if options.check(&ALL_ALLOWED).is_err() {
        return Ok(());
    }
    let dir = Path::new("/run/launch");
    let plain = build(&LaunchOptions::default(), &ALL_ALLOWED, &new(), dir).args;
    let given = build(&options, &ALL_ALLOWED, &new(), dir).args;
    let added: Vec<&String> = given.iter().filter(|arg| !plain.contains(arg)).collect();
    prop_assert!(added.len() <= 1, "{added:?}");
    for arg in added {
        let (flag, rest) = arg.split_once('=').unwrap();
        prop_assert!(
            flag.starts_with("--") && flag[2..].chars().all(|c| c.is_ascii_alphabetic() || c == '-')
        );
        prop_assert!(rest.contains(value), "{rest}");
    }
    Ok(())
}
