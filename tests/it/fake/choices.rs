//! Owns the tests of what a person sets at run time: the next process has it before it hears of a prompt, however the last
//! one ended.

mod efforts;
mod faults;
mod hooks;
mod rules;

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    fake::bed::{of_type, path, pid, records, session_with},
    support::{
        daemon::TestDaemon,
        proc,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

const SECRET: &str = "planted-in-a-choice";

/// A daemon whose restarts come at once.
async fn daemon() -> TestDaemon {
    TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "5")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await
}

/// A session that has answered once, whose CLI keeps what it reads, and how it was started, in files.
async fn session(daemon: &TestDaemon, settings: Value, options: Value) -> String {
    let mut settings = settings;
    settings["record_stdin"] = json!(daemon.home().join("stdin"));
    settings["dump"] = json!(daemon.home().join("dump"));
    let id = session_with(daemon, "a", settings, options).await;
    daemon.rest().ask(&id, "first").await;
    id
}

/// The lines that the newest process of the CLI has read, as one word each: a subtype, or the text of a prompt.
fn heard(daemon: &TestDaemon) -> Vec<String> {
    let lines = lines(daemon);
    let last = lines
        .iter()
        .rposition(|line| line["request_id"] == "trunkline-initialize")
        .unwrap();
    lines[last..]
        .iter()
        .filter_map(|line| {
            let text = line["request"]["subtype"].as_str();
            text.or(line["message"]["content"].as_str())
        })
        .map(ToOwned::to_owned)
        .collect()
}

/// All lines that the CLI has read.
fn lines(daemon: &TestDaemon) -> Vec<Value> {
    let text = fs::read_to_string(daemon.home().join("stdin")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The newest request with this subtype that the CLI has read.
fn last_request(daemon: &TestDaemon, subtype: &str) -> Value {
    let lines = lines(daemon);
    let last = lines.iter().rfind(|line| line["request"]["subtype"] == subtype);
    last.map(|line| line["request"].clone()).unwrap_or_default()
}

/// The arguments of the newest process.
fn argv(daemon: &TestDaemon) -> Vec<String> {
    let text = fs::read_to_string(daemon.home().join("dump")).unwrap();
    let start: Value = serde_json::from_str(text.lines().next_back().unwrap()).unwrap();
    serde_json::from_value(start["argv"].clone()).unwrap()
}

async fn set(rest: &Rest, id: &str, settings: Value) {
    rest.patch(&path(id, "settings"), json!({ "settings": settings }))
        .await
        .expect(200);
}

async fn park(rest: &Rest, id: &str) {
    rest.lifecycle(id, "park", json!({})).await.expect(200);
}

/// Kills the CLI and waits for the process that follows.
async fn crash(rest: &Rest, id: &str) {
    let old = pid(rest, id).await;
    proc::signal(old, Signal::SIGKILL);
    wait_for("another process", PATIENCE, async || {
        let view = rest.session(id).await;
        let new = view["cli"]["pid"].as_i64()?;
        (new != i64::from(old) && view["state"] == "idle").then_some(())
    })
    .await;
}

fn deny() -> Value {
    json!({ "permissions": { "deny": ["Bash(touch *)"] }, "env": { "TOKEN": SECRET } })
}

#[tokio::test]
async fn settings_hold_over_a_park_a_crash_and_a_stop() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({})).await;
    set(&rest, &id, deny()).await;
    set(&rest, &id, json!({ "effortLevel": "low", "gone": 1 })).await;
    set(&rest, &id, json!({ "gone": null })).await;
    let mut expected = deny();
    expected["effortLevel"] = json!("low");
    for (number, end) in ["park", "crash", "stop", "restart"].into_iter().enumerate() {
        match end {
            "park" => park(&rest, &id).await,
            "crash" => crash(&rest, &id).await,
            "stop" => {
                rest.lifecycle(&id, "stop", json!({})).await.expect(200);
                rest.lifecycle(&id, "resume", json!({})).await.expect(200);
            }
            _ => drop(rest.lifecycle(&id, "restart", json!({})).await.expect(200)),
        }
        let text = format!("after the {end}");
        let answer = rest.ask(&id, &text).await;
        assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
        assert_eq!(heard(&daemon), ["initialize", "apply_flag_settings", &text]);
        assert_eq!(
            last_request(&daemon, "apply_flag_settings")["settings"],
            expected,
            "{end}"
        );
        assert_eq!(rest.session(&id).await["turns"], json!(number + 2));
    }
    assert!(!daemon.journal(&id).contains(SECRET));
    assert!(!daemon.log().contains(SECRET));
    let records = records(&rest, &id).await;
    let redacted = of_type(&records, "client", "control_request")
        .into_iter()
        .filter(|line| line["request"]["subtype"] == "apply_flag_settings")
        .all(|line| line["request"]["redacted"] == true);
    assert!(redacted, "{records:#?}");
}

#[tokio::test]
async fn settings_hold_over_the_death_of_the_daemon() {
    let mut daemon = daemon().await;
    let id = session(&daemon, json!({}), json!({})).await;
    set(&daemon.rest(), &id, deny()).await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    park(&rest, &id).await;
    rest.ask(&id, "second").await;
    assert_eq!(heard(&daemon), ["initialize", "apply_flag_settings", "second"]);
    assert_eq!(last_request(&daemon, "apply_flag_settings")["settings"], deny());
}

#[tokio::test]
async fn what_the_cli_refused_is_not_set() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let refusal = json!({ "controls": { "apply_flag_settings": { "error": "no such setting" } } });
    let id = session(&daemon, refusal, json!({})).await;
    rest.patch(&path(&id, "settings"), json!({ "settings": { "x": 1 } }))
        .await
        .problem(409);
    park(&rest, &id).await;
    rest.ask(&id, "second").await;
    assert_eq!(heard(&daemon), ["initialize", "second"]);
}

#[tokio::test]
async fn choices_of_a_socket_and_of_control_count_too() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({})).await;
    let request = json!({ "subtype": "apply_flag_settings", "settings": { "a": 1 } });
    rest.post(&path(&id, "control"), request).await.expect(200);
    let mut client = daemon.attach(&id, None).await;
    let request = json!({ "subtype": "apply_flag_settings", "settings": { "b": 2 } });
    client
        .send(&json!({ "type": "control_request", "request_id": "x", "request": request }))
        .await;
    client
        .find("the answer", |frame| frame["response"]["request_id"] == "x")
        .await;
    park(&rest, &id).await;
    rest.ask(&id, "second").await;
    let settings = last_request(&daemon, "apply_flag_settings")["settings"].clone();
    assert_eq!(settings, json!({ "a": 1, "b": 2 }));
}

#[tokio::test]
async fn how_thinking_is_shown_holds_over_a_park() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let options = json!({ "thinking": { "type": "enabled", "budget_tokens": 3000 } });
    let id = session(&daemon, json!({}), options).await;
    let thinking = json!({ "max_thinking_tokens": 8000, "display": "summarized" });
    rest.put(&path(&id, "thinking"), thinking).await.expect(200);
    park(&rest, &id).await;
    rest.ask(&id, "second").await;
    let argv = argv(&daemon);
    let of_thinking: Vec<_> = argv.iter().filter(|arg| arg.contains("thinking")).collect();
    assert_eq!(
        of_thinking,
        ["--max-thinking-tokens=8000", "--thinking-display=summarized"]
    );
    assert_eq!(heard(&daemon), ["initialize", "second"], "flags are enough");
}

/// The CLI takes such values in a request and does not start with them.
#[tokio::test]
async fn a_value_that_no_process_starts_with_is_refused() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({ "model": "opus" })).await;
    let mut client = daemon.attach(&id, None).await;
    for (route, wrong, request) in [
        (
            "model",
            json!({ "model": "a\nb" }),
            json!({ "subtype": "set_model", "model": "a\nb" }),
        ),
        (
            "model",
            json!({ "model": "x".repeat(20_000) }),
            json!({ "subtype": "set_model", "model": "x".repeat(20_000) }),
        ),
        (
            "model",
            json!({ "model": "" }),
            json!({ "subtype": "set_model", "model": "" }),
        ),
        (
            "thinking",
            json!({ "max_thinking_tokens": 8000, "display": "weird" }),
            json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": 8000, "thinking_display": "weird" }),
        ),
    ] {
        let refused = rest.put(&path(&id, route), wrong).await;
        assert_eq!(refused.problem(422), "control_not_allowed", "{route}");
        client
            .send(&json!({ "type": "control_request", "request_id": "r", "request": request }))
            .await;
        let error = client
            .find("the refusal", |frame| frame["type"] == "trunkline.error")
            .await;
        assert_eq!(error["code"], "control_not_allowed", "{error:#}");
    }
    rest.put(&path(&id, "model"), json!({ "model": "haiku" }))
        .await
        .expect(200);
    park(&rest, &id).await;
    rest.ask(&id, "second").await;
    let argv = argv(&daemon);
    assert!(argv.iter().any(|arg| arg == "--model=haiku"), "{argv:?}");
}

#[tokio::test]
async fn a_fork_takes_over_what_was_set() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({})).await;
    set(&rest, &id, deny()).await;
    let fork = rest
        .post(&path(&id, "fork?wait=ready"), json!({ "prompt": "forked" }))
        .await
        .expect(201);
    let fork = fork["id"].as_str().unwrap();
    wait_for("the turn of the fork", PATIENCE, async || {
        (rest.session(fork).await["turns"] == 1).then_some(())
    })
    .await;
    assert_eq!(heard(&daemon), ["initialize", "apply_flag_settings", "forked"]);
    assert_eq!(last_request(&daemon, "apply_flag_settings")["settings"], deny());
    // From here on each has its own.
    set(&rest, fork, json!({ "permissions": null })).await;
    park(&rest, &id).await;
    rest.ask(&id, "the parent").await;
    assert_eq!(last_request(&daemon, "apply_flag_settings")["settings"], deny());
}

#[tokio::test]
async fn servers_toggles_and_modes_come_after_the_settings() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let settings = json!({ "controls": { "set_mcp_permission_mode_override": { "response": {} } } });
    let id = session(&daemon, settings, json!({})).await;
    let servers = json!({ "el": { "type": "stdio", "command": "el", "env": { "TOKEN": SECRET } } });
    let over = json!({ "subtype": "set_mcp_permission_mode_override", "serverName": "el", "mode": "auto" });
    rest.post(&path(&id, "control"), over.clone()).await.expect(200);
    rest.put(&path(&id, "mcp/el"), json!({ "enabled": false }))
        .await
        .expect(200);
    rest.put(&path(&id, "mcp"), json!({ "servers": servers }))
        .await
        .expect(200);
    set(&rest, &id, json!({ "a": 1 })).await;
    for end in ["park", "crash"] {
        match end {
            "park" => park(&rest, &id).await,
            _ => crash(&rest, &id).await,
        }
        rest.ask(&id, end).await;
        let expected = [
            "initialize",
            "apply_flag_settings",
            "mcp_set_servers",
            "mcp_toggle",
            "set_mcp_permission_mode_override",
            end,
        ];
        assert_eq!(heard(&daemon), expected);
        assert_eq!(last_request(&daemon, "mcp_set_servers")["servers"], servers);
        assert_eq!(last_request(&daemon, "mcp_toggle")["enabled"], false);
        assert_eq!(last_request(&daemon, "set_mcp_permission_mode_override"), over);
    }
    assert!(!daemon.journal(&id).contains(SECRET));
}

#[tokio::test]
async fn servers_of_absent_clients_are_left_out_with_a_notice() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({})).await;
    let mut client = daemon.attach_as("editor", &id, None).await;
    let servers = json!({ "editor": { "type": "sdk", "name": "editor" }, "el": { "command": "el" } });
    let request = json!({ "subtype": "mcp_set_servers", "servers": servers });
    client
        .send(&json!({ "type": "control_request", "request_id": "x", "request": request }))
        .await;
    client
        .find("the answer", |frame| frame["response"]["request_id"] == "x")
        .await;
    crash(&rest, &id).await;
    assert_eq!(
        last_request(&daemon, "mcp_set_servers")["servers"],
        servers,
        "it is here"
    );
    drop(client);
    rest.lifecycle(&id, "restart?wait=ready", json!({}))
        .await
        .expect(200);
    let left = last_request(&daemon, "mcp_set_servers")["servers"].clone();
    let view = rest.session(&id).await;
    assert_eq!(left, json!({ "el": { "command": "el" } }), "{view:#}");
    let records = records(&rest, &id).await;
    let notices = of_type(&records, "daemon", "notice");
    let [notice] = notices.as_slice() else {
        panic!("{notices:#?}")
    };
    assert_eq!(notice["code"], "servers_left_out");
    assert!(notice["detail"].as_str().unwrap().contains("editor"), "{notice}");
}
