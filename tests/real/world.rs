//! Owns what the tests share: a daemon with real CLIs and their API, the steps of scripts, and readers of what comes back.

use std::{fs, path::PathBuf};

use reqwest::Method;
use serde_json::{Value, json};
use trunkline::domain::SessionId;

use crate::support::{
    daemon::{TestDaemon, TestDaemonBuilder},
    model_api::ModelApi,
    proc,
    programs::scripted,
    rest::Rest,
    wait::{PATIENCE, wait_for, wait_until},
};

/// A daemon, and the API that its CLIs talk to. The daemon goes first: its CLIs may still talk to the API.
pub(crate) struct World {
    pub(crate) daemon: TestDaemon,
    pub(crate) api: ModelApi,
    pub(crate) rest: Rest,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(|daemon| daemon).await
    }

    pub(crate) async fn with(shape: impl FnOnce(TestDaemonBuilder) -> TestDaemonBuilder) -> Self {
        let api = ModelApi::start();
        let daemon = shape(TestDaemon::with_real(&api)).start().await;
        let rest = daemon.rest();
        Self { daemon, api, rest }
    }

    /// The directory that sessions work in.
    pub(crate) fn dir(&self) -> PathBuf {
        self.daemon.work_dir("project")
    }

    /// A session that is ready, with these launch options.
    pub(crate) async fn session(&self, options: Value) -> String {
        let cwd = self.dir();
        self.rest
            .create_ready(json!({ "cwd": cwd, "options": options }))
            .await
    }

    /// Sends a prompt with this script; its id.
    pub(crate) async fn prompt(&self, session: &str, steps: Value) -> String {
        let accepted = self.rest.prompt(session, &scripted(&steps)).await;
        accepted["uuid"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt with this script and waits for its turn: `turn` and `result`.
    pub(crate) async fn ask(&self, session: &str, steps: Value) -> Value {
        self.rest.ask(session, &scripted(&steps)).await
    }

    /// As [`Self::ask`]; the text of an answer that must be a good one.
    pub(crate) async fn answer(&self, session: &str, steps: Value) -> String {
        let reply = self.ask(session, steps).await;
        assert_eq!(reply["result"]["is_error"], false, "{reply:#}");
        reply["result"]["result"].as_str().unwrap().to_owned()
    }

    /// Waits until so many turns have ended and nothing runs.
    pub(crate) async fn idle_after(&self, session: &str, turns: u64) -> Value {
        wait_for(&format!("{turns} turns have ended"), PATIENCE, async || {
            let view = self.rest.session(session).await;
            (view["state"] == "idle" && view["turns"] == turns).then_some(view)
        })
        .await
    }

    /// Waits until a file is there, which a tool of the session makes.
    pub(crate) async fn made(&self, name: &str) {
        let path = self.dir().join(name);
        wait_until(&format!("{name} is made"), PATIENCE, || path.exists()).await;
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.dir().join(name).exists()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.dir().join(name), text).unwrap();
    }

    pub(crate) async fn stop(&self, session: &str) -> Value {
        self.rest.lifecycle(session, "stop", json!({})).await.expect(200)
    }

    /// Starts the session's process again and waits until it is ready.
    pub(crate) async fn resume(&self, session: &str) -> Value {
        let reply = self.rest.lifecycle(session, "resume?wait=ready", json!({})).await;
        assert!(reply.status.is_success(), "{} {:#}", reply.status, reply.body);
        self.rest.session(session).await
    }

    pub(crate) async fn runs(&self, session: &str) -> Vec<Value> {
        self.items(&format!("/v1/sessions/{session}/runs")).await
    }

    /// The conversation.
    pub(crate) async fn messages(&self, session: &str) -> Vec<Value> {
        self.items(&format!("/v1/sessions/{session}/messages?limit=500"))
            .await
    }

    /// One approval as it stands.
    pub(crate) async fn approval(&self, session: &str, approval: &Value) -> Value {
        let id = text(approval, "id");
        let path = format!("/v1/sessions/{session}/approvals/{id}");
        self.rest.get(&path).await.expect(200)
    }

    /// Decides an approval.
    pub(crate) async fn decide(&self, session: &str, approval: &Value, decision: Value) -> Value {
        let id = text(approval, "id");
        self.rest.decide(session, &id, decision).await.expect(200)
    }

    /// The lines of the CLI with this type, from the journal.
    pub(crate) async fn lines(&self, session: &str, kind: &str) -> Vec<Value> {
        let events = self.rest.events(session, 0).await;
        let lines = events.into_iter().filter(|record| record["src"] == "cli");
        lines
            .map(|mut record| record["data"].take())
            .filter(|line| line["type"] == kind)
            .collect()
    }

    /// The body of the newest request for an answer of the model.
    pub(crate) async fn last_request(&self) -> Value {
        let requests = self.api.requests().await;
        let last = requests.iter().rfind(|request| request["path"] == "/v1/messages");
        let number = last.unwrap()["n"].as_u64().unwrap();
        self.api.body(number).await
    }

    async fn items(&self, path: &str) -> Vec<Value> {
        let request = self.rest.builder(Method::GET, path);
        let mut page = self.rest.send(request).await.expect(200);
        assert_eq!(page["next_cursor"], Value::Null, "more than a page");
        match page["items"].take() {
            Value::Array(items) => items,
            other => panic!("not a list: {other}"),
        }
    }
}

/// A step that runs a command.
pub(crate) fn bash(command: &str) -> Value {
    json!({ "tool": "Bash", "input": { "command": command } })
}

/// A command that says that it runs (`started`) and then lives until it is ended. Its processes carry the marker.
pub(crate) fn endless(marker: &str) -> String {
    format!("touch started; python3 -c 'import time; time.sleep(600)' {marker}")
}

/// A server of the protocol MCP over stdio, with one tool and whatever resource is asked for.
pub(crate) const MCP_SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}, "resources": {}},
                  "serverInfo": {"name": "good", "version": "1"}}
    if message["method"] == "tools/list":
        result = {"tools": [{"name": "wave", "description": "Waves.", "inputSchema": {"type": "object"}}]}
    if message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "waved at " + json.dumps(message["params"].get("arguments"))}]}
    if message["method"] == "resources/read":
        uri = message["params"]["uri"]
        result = {"contents": [{"uri": uri, "mimeType": "text/html", "text": "<p>hello</p>"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

/// An id that nothing has.
pub(crate) fn fresh_id() -> String {
    SessionId::new().to_string()
}

/// A marker that no other test uses.
pub(crate) fn marker() -> String {
    format!("marker-{}", fresh_id())
}

/// Live processes that carry the marker.
pub(crate) fn marked(marker: &str) -> Vec<proc::Process> {
    let mut found = proc::all();
    found.retain(|process| process.state != 'Z' && process.command.contains(marker));
    found
}

/// A member that must be a text.
#[track_caller]
pub(crate) fn text(value: &Value, name: &str) -> String {
    let found = value[name].as_str();
    found
        .unwrap_or_else(|| panic!("no {name} in {value:#}"))
        .to_owned()
}

/// The process of a session's view.
#[track_caller]
pub(crate) fn pid(view: &Value) -> i32 {
    let pid = view["cli"]["pid"].as_i64();
    pid.and_then(|pid| i32::try_from(pid).ok())
        .unwrap_or_else(|| panic!("no process in {view:#}"))
}

/// An amount of dollars in whole billionths, which can be compared.
#[track_caller]
pub(crate) fn nanos(dollars: &Value) -> i64 {
    let amount = dollars.as_f64();
    (amount.unwrap_or_else(|| panic!("no amount: {dollars}")) * 1e9).round() as i64
}

/// The texts of a message's content.
pub(crate) fn said(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        other => panic!("no content: {other}"),
    }
}
