//! Owns the ways in which a session begins with the real agent: by a conversation or a session that is there already, and with
//! more than the agent's own prompt and servers.

use std::{
    fs,
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    console::common::{Ran, run, tl, to},
    support::{
        daemon::TestDaemon,
        model_api::ModelApi,
        programs::{clean_env, fake_claude, real_claude, scripted},
        wait::{PATIENCE, wait_for},
    },
};

/// A server of the protocol MCP with one tool.
const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "good", "version": "1"}}
    if message["method"] == "tools/list":
        result = {"tools": [{"name": "wave", "description": "Waves.", "inputSchema": {"type": "object"}}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

/// The body of the newest request for an answer of the model.
async fn last_request(api: &ModelApi) -> Value {
    let requests = api.requests().await;
    let last = requests.iter().rfind(|request| request["path"] == "/v1/messages");
    api.body(last.unwrap()["n"].as_u64().unwrap()).await
}

fn saying(text: &str) -> String {
    scripted(&json!([{ "text": text }]))
}

/// A command that may take as long as a turn, beside the API that answers it.
async fn ask(daemon: &TestDaemon, args: &[&str]) -> Ran {
    let command = to(daemon, args);
    tokio::task::spawn_blocking(move || run(command)).await.unwrap()
}

#[tokio::test]
async fn continue_goes_on_with_what_was_begun_by_hand_and_then_with_the_session() {
    let api = ModelApi::start();
    let daemon = TestDaemon::with_real(&api).start().await;
    let here = daemon.work_dir("here");
    let mut by_hand = Command::new(real_claude());
    by_hand
        .args(["--print", &saying("the secret word is said")])
        .env_clear()
        .envs(clean_env(&daemon.home(), api.url()))
        .current_dir(&here)
        .stdin(Stdio::null());
    let said = tokio::task::spawn_blocking(move || run(by_hand))
        .await
        .unwrap()
        .good();
    assert!(said.contains("the secret word is said"), "{said}");

    let first = ask(&daemon, &["new", "--continue", "--wait", &saying("I remember")]).await;
    assert!(first.stderr.contains("session "), "{first:?}");
    assert_eq!(first.line(), "I remember");
    assert!(
        last_request(&api)
            .await
            .to_string()
            .contains("the secret word is said")
    );
    let sessions = tl(&daemon, &["ls", "--json"]).json();
    assert_eq!(sessions["items"].as_array().unwrap().len(), 1, "{sessions}");
    let id = sessions["items"][0]["id"].as_str().unwrap();

    // The session goes on, also when it was stopped.
    tl(&daemon, &["stop", id]).good();
    let second = ask(&daemon, &["new", "--continue", "--wait", &saying("still here")]).await;
    assert!(
        second.stderr.contains(&format!("going on with the session {id}")),
        "{second:?}"
    );
    assert_eq!(second.line(), "still here");
    assert!(last_request(&api).await.to_string().contains("I remember"));
    assert_eq!(
        tl(&daemon, &["ls", "--json"]).json()["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let told = tl(&daemon, &["new", "--continue", "--model", "opus", "hello"]).failed(2);
    assert!(told.contains(id) && told.contains("as it is"), "{told}");
}

/// The id of the session that `ls` has first.
fn newest(daemon: &TestDaemon) -> String {
    let sessions = tl(daemon, &["ls", "--json"]).json();
    sessions["items"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn continue_passes_over_a_session_that_cannot_go_on() {
    let daemon = TestDaemon::with_fake()
        .fake(json!({ "cost": 0.01 }))
        .start()
        .await;
    tl(&daemon, &["new", "--wait", "hello"]).good();
    let able = newest(&daemon);
    tl(&daemon, &["new", "--max-budget-usd", "0.005", "--wait", "hello"]).good();
    let spent = newest(&daemon);
    assert_ne!(able, spent);
    tl(&daemon, &["stop", &spent]).good();
    assert_eq!(newest(&daemon), spent);
    let told = tl(&daemon, &["resume", &spent]).failed(5);
    assert!(told.contains("has cost what it may cost"), "{told}");

    let gone_on = tl(&daemon, &["new", "--continue", "--wait", "hello"]);
    assert!(
        gone_on.code == 0
            && gone_on
                .stderr
                .contains(&format!("going on with the session {able}")),
        "{gone_on:?}"
    );

    // The conversation of the other one is no way round.
    tl(&daemon, &["rm", "--force", &able]).good();
    let view = daemon.rest().session(&spent).await;
    let place: String = view["cwd"]
        .as_str()
        .unwrap()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let kept = daemon.home().join(".claude/projects").join(place);
    fs::create_dir_all(&kept).unwrap();
    let conversation = view["cli"]["session_id"].as_str().unwrap();
    fs::write(kept.join(format!("{conversation}.jsonl")), "").unwrap();
    let told = tl(&daemon, &["new", "--continue"]).failed(4);
    assert!(
        told.contains(&format!("the session {spent} cannot go on"))
            && told.contains(&format!("`trunkline show {spent}` says why")),
        "{told}"
    );
}

#[tokio::test]
async fn continue_passes_over_simulated_sessions_once_there_is_an_agent() {
    let programs = tempfile::tempdir().unwrap();
    let daemon = TestDaemon::with_fake().claude_in(programs.path()).start().await;
    let hello = ["new", "--continue", "--wait", "hello"];
    tl(&daemon, &["new", "--wait", "hello"]).good();
    let simulated = newest(&daemon);
    let goes_on_with = |id: &str| {
        let ran = tl(&daemon, &hello);
        let words = format!("going on with the session {id}");
        assert!(ran.code == 0 && ran.stderr.contains(&words), "{ran:?}");
    };
    goes_on_with(&simulated);

    symlink(fake_claude(), programs.path().join("claude")).unwrap();
    let told = tl(&daemon, &hello).failed(4);
    assert!(told.contains("the agent CLI had no conversation in"), "{told}");
    tl(&daemon, &["new", "--wait", "hello"]).good();
    let real = newest(&daemon);
    tl(&daemon, &["send", &simulated, "--wait", "hello"]).good();
    assert_eq!(newest(&daemon), simulated);
    goes_on_with(&real);
}

#[tokio::test]
async fn text_is_added_to_the_agents_own_prompt() {
    let api = ModelApi::start();
    let daemon = TestDaemon::with_real(&api).start().await;
    let args = [
        "new",
        "--append-system-prompt",
        "Speak like a pirate.",
        "--wait",
        &saying("Arr"),
    ];
    assert_eq!(ask(&daemon, &args).await.line(), "Arr");
    let system = last_request(&api).await["system"].to_string();
    assert!(
        system.contains("Speak like a pirate.") && system.contains("Claude Code"),
        "{system}"
    );
}

#[tokio::test]
async fn servers_come_from_the_file_that_the_agent_takes_too() {
    let api = ModelApi::start();
    let daemon = TestDaemon::with_real(&api).start().await;
    let here = daemon.work_dir("here");
    let server = here.join("server.py");
    fs::write(&server, SERVER).unwrap();
    let config = json!({ "mcpServers": { "good": { "command": "python3", "args": [server] } } });
    fs::write(here.join("mcp.json"), config.to_string()).unwrap();
    let id = tl(&daemon, &["new", "--mcp-config", "mcp.json"]).line();
    daemon.rest().in_state(&id, &["idle"]).await;
    let path = format!("/v1/sessions/{id}/mcp");
    wait_for("the agent is connected to the server", PATIENCE, async || {
        let status = daemon.rest().get(&path).await.expect(200);
        let servers = status["response"]["mcpServers"].as_array()?;
        let good = servers.iter().find(|server| server["name"] == "good")?;
        (good["status"] == "connected").then_some(())
    })
    .await;
    fs::write(here.join("mcp.json"), "{\"mcpServers\": ").unwrap();
    let told = tl(&daemon, &["new", "--mcp-config", "mcp.json"]).failed(2);
    assert!(
        told.contains("--mcp-config: mcp.json is not JSON: it ends too early"),
        "{told}"
    );
}
