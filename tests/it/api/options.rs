//! Owns launch options as an attacker gives them: no value becomes a flag, and what the configuration forbids is refused.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    api::common::{assert_nothing_made, dumps, id_of, problem},
    support::{daemon::TestDaemon, rest::Rest},
};

/// Values that would do harm as an argument of their own.
const FLAGS: &[&str] = &["--dangerously-skip-permissions", "-p"];

/// Every option that holds text, with a text put into it.
fn with_text(text: &str) -> Vec<(&'static str, Value)> {
    let server = json!({"type": "stdio", "command": "true"});
    let agent = json!({"description": "d", "prompt": "p"});
    vec![
        ("model", json!(text)),
        ("fallback_model", json!(text)),
        ("fallback_model", json!(format!("sonnet,{text}"))),
        ("betas", json!([text])),
        ("permission_prompt_tool_name", json!(text)),
        ("allowed_tools", json!([text])),
        ("allowed_tools", json!(["Read", text])),
        ("disallowed_tools", json!([text])),
        ("tools", json!([text])),
        ("tools", json!(["Read", text])),
        ("tool_aliases", json!({text: "Read"})),
        ("tool_aliases", json!({"Read": text})),
        ("skills", json!([text])),
        ("mcp_servers", json!({text: server})),
        (
            "sdk_mcp_servers",
            json!({text: {"target": {"type": "client", "client_id": "x"}}}),
        ),
        (
            "hooks",
            json!([{"event": text, "matcher": text, "target": {"type": "client", "client_id": "x"}}]),
        ),
        ("plugins", json!([{"path": text}])),
        ("additional_directories", json!([text])),
        ("project_config_root", json!(text)),
        ("agent", json!(text)),
        ("agents", json!({text: agent})),
        ("system_prompt", json!(text)),
        ("system_prompt", json!([text])),
        (
            "system_prompt",
            json!({"type": "preset", "preset": "claude_code", "append": text}),
        ),
        ("plan_mode_instructions", json!(text)),
        ("settings", json!(text)),
        ("supported_dialog_kinds", json!([text])),
        ("title", json!(text)),
        ("debug_file", json!(text)),
        ("executable", json!(text)),
        ("env", json!({"SOME_NAME": text})),
        ("env", json!({text: "x"})),
        ("extra_args", json!({text: null})),
        ("extra_args", json!({"some-flag": text})),
    ]
}

/// Options that hold no text of the client's, or only JSON that goes by file or over stdin.
const WITHOUT_TEXT: &[&str] = &[
    "agent_progress_summaries",
    "allow_dangerously_skip_permissions",
    "continue",
    "debug",
    "effort",
    "enable_file_checkpointing",
    "fork_session",
    "forward_subagent_text",
    "include_hook_events",
    "include_partial_messages",
    "json_schema",
    "managed_settings",
    "max_budget_usd",
    "max_thinking_tokens",
    "max_turns",
    "per_task_stop_affordance",
    "permission_mode",
    "permission_prompts",
    "persist_session",
    "prompt_suggestions",
    "question_preview_format",
    "replace_env",
    "replay_user_messages",
    "resume",
    "resume_session_at",
    "sandbox",
    "session_id",
    "setting_sources",
    "strict_mcp_config",
    "task_budget",
    "thinking",
    "verbatim_prompts",
];

#[tokio::test]
async fn no_option_is_forgotten_here() {
    let daemon = TestDaemon::with_fake().start().await;
    let document = daemon.rest().get("/openapi.json").await.expect(200);
    let schema = &document["components"]["schemas"]["LaunchOptions"]["properties"];
    let documented: BTreeSet<&str> = schema.as_object().unwrap().keys().map(String::as_str).collect();
    let texts = with_text("x");
    let known: BTreeSet<&str> = texts
        .iter()
        .map(|(name, _)| *name)
        .chain(WITHOUT_TEXT.iter().copied())
        .collect();
    assert_eq!(documented, known);
}

/// Creates a session with one option. The name of the refused field, or the arguments that the CLI got.
async fn start_with(
    daemon: &TestDaemon,
    rest: &Rest,
    name: &str,
    value: &Value,
) -> Result<Vec<String>, String> {
    let before = dumps(&daemon.home().join("dump")).len();
    let body = json!({"cwd": daemon.work_dir("w"), "options": {name: value}});
    let reply = rest.post("/v1/sessions?wait=ready", body).await;
    if reply.status == 422 {
        let found = problem(reply, 422, "invalid_option");
        return Err(found["field"].as_str().unwrap().to_owned());
    }
    let id = id_of(&reply.expect(201));
    let starts = dumps(&daemon.home().join("dump"));
    assert_eq!(starts.len(), before + 1, "{name}: {value}");
    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    let argv = starts[before]["argv"].as_array().unwrap();
    Ok(argv.iter().map(|it| it.as_str().unwrap().to_owned()).collect())
}

/// A daemon whose CLIs write down how they were started.
async fn dumping() -> TestDaemon {
    // The dump lies in the daemon's home, whose path is known only once it runs.
    let daemon = TestDaemon::with_fake().start().await;
    let dump = daemon.home().join("dump");
    crate::support::programs::fake_settings(&daemon.home(), &json!({"dump": dump}));
    daemon
}

#[tokio::test]
async fn no_value_becomes_a_flag() {
    let daemon = dumping().await;
    let rest = daemon.rest();
    let mut refused = 0;
    for text in FLAGS {
        for (name, value) in with_text(text) {
            let argv = match start_with(&daemon, &rest, name, &value).await {
                Ok(argv) => argv,
                Err(field) => {
                    assert!(
                        field.starts_with(&format!("options.{name}")),
                        "{field} for {name}"
                    );
                    refused += 1;
                    continue;
                }
            };
            for arg in argv {
                assert_ne!(&arg, text, "{name}: {value}");
                // Every argument is one flag with its value joined; nothing stands alone that the client wrote.
                assert!(arg.starts_with("--"), "{name}: {value} gave the argument {arg:?}");
                let (flag, _value) = arg.split_once('=').unwrap_or((&arg, ""));
                for skips in [
                    "--dangerously-skip-permissions",
                    "--allow-dangerously-skip-permissions",
                    "--",
                ] {
                    assert_ne!(flag, skips, "{name}: {value}");
                }
            }
        }
    }
    assert!(refused > 10, "only {refused} were refused");
}

#[tokio::test]
async fn line_breaks_and_null_characters_stay_out_of_names_and_lists() {
    let daemon = dumping().await;
    let rest = daemon.rest();
    // Free text may have several lines; nothing may hold a null character but what goes as JSON.
    let free = ["system_prompt", "plan_mode_instructions", "env", "extra_args"];
    for text in [
        "a\nb",
        "/a\n--dangerously-skip-permissions",
        "a\rb",
        "a\0b",
        "/a\0b",
    ] {
        for (name, value) in with_text(text) {
            if free.contains(&name) {
                continue;
            }
            let refused = start_with(&daemon, &rest, name, &value).await;
            assert!(refused.is_err(), "{name}: {value} started {refused:?}");
        }
    }
    for env in [
        json!({"A": "x\0y"}),
        json!({"A\0B": "x"}),
        json!({"A\nB": "x"}),
        json!({"A=B": "x"}),
        json!({"": "x"}),
    ] {
        start_with(&daemon, &rest, "env", &env).await.unwrap_err();
    }
    // A list is joined with commas and blanks: an item can not become two.
    for (name, value) in [
        ("tools", json!(["Read,Bash"])),
        ("tools", json!(["Read Bash"])),
        ("betas", json!(["a,b"])),
        ("skills", json!(["a,b"])),
    ] {
        if let Ok(argv) = start_with(&daemon, &rest, name, &value).await {
            // Where it is taken, it must have stayed one item: the CLI is then told so and not by commas.
            panic!("{name}: {value} started {argv:?}");
        }
    }
}

#[tokio::test]
async fn what_skips_permissions_or_is_unknown_needs_the_configuration() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w");
    for (options, field) in [
        (json!({"permission_mode": "bypassPermissions"}), "permission_mode"),
        (
            json!({"allow_dangerously_skip_permissions": true}),
            "allow_dangerously_skip_permissions",
        ),
        (
            json!({"settings": {"permissions": {"defaultMode": "bypassPermissions"}}}),
            "settings.permissions.defaultMode",
        ),
        (
            json!({"agents": {"a": {"description": "d", "prompt": "p", "permissionMode": "bypassPermissions"}}}),
            "agents.a.permissionMode",
        ),
        (json!({"extra_args": {"anything": null}}), "extra_args"),
        (
            json!({"extra_args": {"dangerously-skip-permissions": null}}),
            "extra_args",
        ),
        (json!({"env": {"CLAUDECODE": "1"}}), "env.CLAUDECODE"),
        (
            json!({"env": {"CLAUDE_CODE_ENTRYPOINT": "x"}}),
            "env.CLAUDE_CODE_ENTRYPOINT",
        ),
        (
            json!({"env": {"TRUNKLINE_TOKEN_FILE": "x"}}),
            "env.TRUNKLINE_TOKEN_FILE",
        ),
        (json!({"env": {"TRUNKLINE_RUN": "x"}}), "env.TRUNKLINE_RUN"),
        (json!({"env": {"LD_PRELOAD": "/tmp/x.so"}}), "env.LD_PRELOAD"),
        (
            json!({"env": {"NODE_OPTIONS": "--require=/tmp/x"}}),
            "env.NODE_OPTIONS",
        ),
        (json!({"env": {"BASH_ENV": "/tmp/x"}}), "env.BASH_ENV"),
        (json!({"env": {"1A": "x"}}), "env"),
        (json!({"env": {"A-B": "x"}}), "env"),
    ] {
        let reply = rest
            .post("/v1/sessions", json!({"cwd": cwd, "options": options}))
            .await;
        let found = problem(reply, 422, "invalid_option");
        assert_eq!(found["field"], format!("options.{field}"), "{options}");
    }
    assert_nothing_made(&daemon).await;
}

#[tokio::test]
async fn skipping_permissions_is_passed_on_only_when_it_was_asked_for() {
    let dump = tempfile::NamedTempFile::new().unwrap();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_ALLOW_BYPASS_PERMISSIONS", "true")
        .fake(json!({"dump": dump.path()}))
        .start()
        .await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w");
    rest.create_ready(json!({"cwd": cwd})).await;
    rest.create_ready(json!({"cwd": cwd, "options": {"permission_mode": "bypassPermissions"}}))
        .await;
    let starts = dumps(dump.path());
    assert_eq!(starts.len(), 2);
    assert!(
        !starts[0]["argv"].to_string().contains("skip-permissions"),
        "{}",
        starts[0]["argv"]
    );
    assert!(
        !starts[0]["argv"].to_string().contains("bypassPermissions"),
        "{}",
        starts[0]["argv"]
    );
    assert!(
        starts[1]["argv"].to_string().contains("bypassPermissions"),
        "{}",
        starts[1]["argv"]
    );
}
