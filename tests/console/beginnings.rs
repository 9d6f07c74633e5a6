//! Owns the ways in which a session begins with the real agent: by a conversation or a session that is there already, and with
//! more than the agent's own prompt and servers.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    common::{Ran, run, tl, to},
    support::{
        daemon::TestDaemon,
        model_api::ModelApi,
        programs::{clean_env, real_claude, scripted},
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

    // What is there already goes on, also when it was stopped.
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
        let servers = status["response"]["mcpServers"].as_array().unwrap();
        let good = servers.iter().find(|server| server["name"] == "good").unwrap();
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
