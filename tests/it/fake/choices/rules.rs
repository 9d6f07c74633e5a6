//! Owns the tests of the permission rules that come with decisions: the next process is started with them.

use std::fs;

use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::{Value, json};

use super::{argv, crash, daemon, last_request, park, session, set};
use crate::{
    fake::bed::{act, answer_heard, session_with},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

fn rules(kind: &str, behavior: &str, tools: &[&str]) -> Value {
    let rules: Vec<_> = tools.iter().map(|tool| json!({ "toolName": tool })).collect();
    json!({ "type": kind, "behavior": behavior, "rules": rules, "destination": "session" })
}

/// All kinds of them.
fn updates() -> Value {
    json!([
        rules("addRules", "deny", &["WebFetch", "Write"]),
        rules("removeRules", "deny", &["Write"]),
        rules("addRules", "allow", &["Grep"]),
        rules("addRules", "ask", &["Glob"]),
        { "type": "addDirectories", "directories": ["/tmp"], "destination": "session" },
    ])
}

/// The CLI asks, and a person allows that with these updates.
async fn allow_with(rest: &Rest, id: &str, request: &str, updates: Value) {
    let turns = rest.session(id).await["turns"].as_u64().unwrap();
    act(rest, id, json!([{ "ask": { "ids": [request] } }])).await;
    let approval = rest.pending_approval(id).await;
    let decision = json!({ "decision": "allow", "updated_permissions": updates });
    rest.decide(id, approval["id"].as_str().unwrap(), decision)
        .await
        .expect(200);
    wait_for("the end of the turn", PATIENCE, async || {
        (rest.session(id).await["turns"].as_u64()? > turns).then_some(())
    })
    .await;
}

/// The updates that the newest process was given by flags.
fn given(daemon: &TestDaemon) -> Vec<String> {
    let flags = ["--allowedTools", "--disallowedTools", "--add-dir"];
    let is_given = |arg: &String| flags.iter().any(|flag| arg.starts_with(flag));
    argv(daemon).into_iter().filter(is_given).collect()
}

/// Whether the newest process has the rule that asks among its settings.
fn asks(daemon: &TestDaemon) -> bool {
    let argv = argv(daemon);
    let mut files = argv.iter().filter_map(|arg| arg.strip_prefix("--settings="));
    files.any(|file| {
        let settings: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        settings["permissions"]["ask"] == json!(["Glob"])
    })
}

const ALL: [&str; 3] = [
    "--allowedTools=Grep",
    "--disallowedTools=WebFetch",
    "--add-dir=/tmp",
];

#[tokio::test]
async fn rules_of_a_decision_hold_and_grants_end_with_a_stop() {
    let mut daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({})).await;
    allow_with(&rest, &id, "q-1", updates()).await;
    park(&rest, &id).await;
    rest.ask(&id, "after the park").await;
    assert_eq!(given(&daemon), ALL);
    crash(&rest, &id).await;
    rest.ask(&id, "after the crash").await;
    assert_eq!(given(&daemon), ALL);
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    park(&rest, &id).await;
    rest.ask(&id, "after the death of the daemon").await;
    assert_eq!(given(&daemon), ALL);
    assert!(asks(&daemon));
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume", json!({})).await.expect(200);
    rest.ask(&id, "after the stop").await;
    assert_eq!(given(&daemon), ALL[1..]);
    assert!(asks(&daemon));
}

#[tokio::test]
async fn new_permissions_keep_the_rules_that_ask() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({})).await;
    allow_with(&rest, &id, "q-1", updates()).await;
    set(&rest, &id, json!({ "permissions": { "deny": ["Bash"] } })).await;
    let expected = json!({ "permissions": { "deny": ["Bash"], "ask": ["Glob"] } });
    assert_eq!(last_request(&daemon, "apply_flag_settings")["settings"], expected);
    park(&rest, &id).await;
    rest.ask(&id, "second").await;
    assert_eq!(last_request(&daemon, "apply_flag_settings")["settings"], expected);
}

#[tokio::test]
async fn rules_of_an_answer_over_a_socket_hold() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({})).await;
    act(&rest, &id, json!([{ "ask": { "ids": ["q-1"] } }])).await;
    rest.pending_approval(&id).await;
    let mut client = daemon.attach(&id, None).await;
    let answer = json!({ "behavior": "allow", "updatedPermissions": updates() });
    client
        .send(&json!({ "type": "control_response", "response": { "subtype": "success", "request_id": "q-1", "response": answer } }))
        .await;
    answer_heard(&mut client, "q-1").await;
    wait_for("the end of the turn", PATIENCE, async || {
        (rest.session(&id).await["state"] == "idle").then_some(())
    })
    .await;
    park(&rest, &id).await;
    rest.ask(&id, "second").await;
    assert_eq!(given(&daemon), ALL);
}

/// The settings file that the newest process was given.
fn settings_given(daemon: &TestDaemon) -> Value {
    let argv = argv(daemon);
    let file = argv.iter().find_map(|arg| arg.strip_prefix("--settings="));
    serde_json::from_slice(&fs::read(file.unwrap()).unwrap()).unwrap()
}

/// The CLI may wait for whoever writes into it; the daemon has others to serve.
#[tokio::test]
async fn settings_in_a_fifo_hold_nobody_up() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let fifo = daemon.home().join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    // More than the daemon has threads for its tasks.
    for name in ["a", "b", "c", "d"] {
        session_with(&daemon, name, json!({}), json!({ "settings": fifo })).await;
    }
    rest.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn rules_join_a_settings_file_or_nothing_starts() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let file = daemon.home().join("settings.json");
    fs::write(&file, "\u{feff}{ \"permissions\": { \"ask\": [\"Bash\"] } }").unwrap();
    let id = session(&daemon, json!({}), json!({ "settings": file })).await;
    allow_with(&rest, &id, "q-1", updates()).await;
    park(&rest, &id).await;
    rest.ask(&id, "second").await;
    let joined = json!({ "permissions": { "ask": ["Bash", "Glob"] } });
    assert_eq!(settings_given(&daemon), joined);
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let put = |what: &str| {
        fs::remove_file(&file).unwrap();
        match what {
            "a FIFO" => mkfifo(&file, Mode::S_IRWXU).unwrap(),
            "more than" => fs::write(&file, vec![b' '; 4 << 20]).unwrap(),
            _ => fs::write(&file, "{ // no JSON\n}").unwrap(),
        }
    };
    for what in ["a FIFO", "more than", "not the JSON"] {
        put(what);
        let refused = rest.lifecycle(&id, "resume", json!({})).await;
        let detail = refused.body["detail"].as_str().unwrap().to_owned();
        assert_eq!(refused.body["field"], "options.settings", "{:#}", refused.body);
        assert!(detail.contains(what), "{detail}");
        assert_eq!(refused.problem(422), "invalid_option");
    }
    fs::write(&file, "{}").unwrap();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    assert_eq!(
        settings_given(&daemon),
        json!({ "permissions": { "ask": ["Glob"] } })
    );
}
