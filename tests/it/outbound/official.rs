//! The bridge and a server made with the official SDK of MCP understand each other.

use std::{path::Path, process::Stdio, time::Duration};

use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::task::TaskTracker;
use trunkline::outbound::{BridgeError, McpBridge, McpEndpoint, Outbound};

use crate::{outbound::raw, support::wait::PATIENCE};

const TOOLS: [&str; 4] = ["echo", "roots", "poll", "announce"];

/// The server and a bridge to it.
struct Official {
    base: String,
    bridge: McpBridge,
    incoming: mpsc::Receiver<Box<RawValue>>,
    tracker: TaskTracker,
    /// It ends when this is dropped.
    _server: Child,
}

impl Official {
    async fn start(path: &str) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the server is a test program")]
        let mut server = Command::new("node")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("web-test/mcp-server.mjs"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("node is needed for this test");
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
        let line = line.expect("the SDK is needed for this test: run `make test`, or `npm ci` in web-test");
        let ready: Value = serde_json::from_str(&line).unwrap();
        let base = ready["url"].as_str().unwrap().to_owned();

        let endpoint = McpEndpoint::new(format!("{base}{path}").parse().unwrap(), []).unwrap();
        let (sender, incoming) = mpsc::channel(16);
        let tracker = TaskTracker::new();
        let bridge = McpBridge::open(&Outbound::new(), endpoint, sender, &tracker);
        tracker.close();
        Self {
            base,
            bridge,
            incoming,
            tracker,
            _server: server,
        }
    }

    async fn send(&self, message: Value) -> Result<Option<Value>, BridgeError> {
        let message = raw(&message.to_string());
        let answer = self
            .bridge
            .send(&message, Some(Instant::now() + PATIENCE))
            .await?;
        Ok(answer.map(|answer| serde_json::from_str(answer.get()).unwrap()))
    }

    async fn request(&self, id: &str, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let answer = self.send(request).await.unwrap().unwrap();
        assert_eq!(answer["id"], id);
        answer["result"].clone()
    }

    /// The words of a tool.
    async fn call(&self, tool: &str, text: &str) -> String {
        let params = json!({"name": tool, "arguments": {"text": text}});
        let result = self
            .request(&format!("{tool}-{text}"), "tools/call", params)
            .await;
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    async fn begin(&self) {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "claude-code", "version": "2"},
        });
        let result = self.request("init", "initialize", params).await;
        assert_eq!(result["protocolVersion"], "2025-11-25");
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert!(self.send(initialized).await.unwrap().is_none());
    }

    async fn incoming(&mut self) -> Value {
        let message = timeout(PATIENCE, self.incoming.recv()).await.unwrap().unwrap();
        serde_json::from_str(message.get()).unwrap()
    }

    async fn sessions(&self) -> String {
        let answer = reqwest::get(format!("{}/sessions", self.base)).await.unwrap();
        answer.text().await.unwrap()
    }
}

#[tokio::test]
async fn tools_are_listed_and_called_in_both_forms_and_the_session_ends() {
    for path in ["/sse", "/json"] {
        let official = Official::start(path).await;
        official.begin().await;
        let listed = official.request("list", "tools/list", json!({})).await;
        let names = listed["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| &tool["name"]);
        assert!(names.eq(TOOLS.iter()), "{listed}");

        let said = "ä \u{2028} \n \"quoted\"";
        assert_eq!(official.call("echo", said).await, said);
        let calls = (0..8).map(|n| n.to_string()).collect::<Vec<_>>();
        let answers = futures_util::future::join_all(calls.iter().map(|n| official.call("echo", n))).await;
        assert_eq!(answers, calls);

        assert_eq!(official.sessions().await, "1");
        official.bridge.clone().close().await;
        assert_eq!(official.sessions().await, "0");
        timeout(PATIENCE, official.tracker.wait()).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_asks_in_the_middle_of_a_call() {
    let mut official = Official::start("/sse").await;
    official.begin().await;
    let bridge = official.bridge.clone();
    let answering = async {
        assert_eq!(official.incoming().await["method"], "notifications/message");
        let asks = official.incoming().await;
        assert_eq!(asks["method"], "roots/list");
        let roots =
            json!({"jsonrpc": "2.0", "id": asks["id"], "result": {"roots": [{"uri": "file:///work"}]}});
        assert!(
            bridge
                .send(&raw(&roots.to_string()), None)
                .await
                .unwrap()
                .is_none()
        );
    };
    let call = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call",
        "params": {"name": "roots", "arguments": {"text": ""}}});
    let call = raw(&call.to_string());
    let deadline = Some(Instant::now() + PATIENCE);
    let (answer, ()) = tokio::join!(bridge.send(&call, deadline), answering);
    assert!(answer.unwrap().unwrap().get().contains("file:///work"));
}

#[tokio::test]
async fn a_stream_that_the_server_closes_is_taken_up_again() {
    let official = Official::start("/sse").await;
    official.begin().await;
    assert_eq!(official.call("poll", "later").await, "later");
}

#[tokio::test]
async fn what_the_server_starts_by_itself_arrives() {
    let mut official = Official::start("/sse").await;
    official.begin().await;
    // It has nowhere to go until the stream is open, which nobody is told.
    let mut announced = None;
    for n in 0..100 {
        assert_eq!(official.call("announce", &n.to_string()).await, "announced");
        let arrived = timeout(Duration::from_millis(200), official.incoming()).await;
        announced = arrived.ok();
        if announced.is_some() {
            break;
        }
    }
    assert_eq!(announced.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_session_that_the_server_has_forgotten_is_lost_until_a_new_one_begins() {
    let official = Official::start("/sse").await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    // Without a session there is nothing to lose: the server wants an `initialize` first.
    let answer = official.send(list.clone()).await;
    assert!(matches!(answer, Err(BridgeError::Status(status)) if status == 400));

    official.begin().await;
    reqwest::get(format!("{}/forget", official.base)).await.unwrap();
    let answer = official.send(list).await;
    assert!(matches!(answer, Err(BridgeError::SessionLost)));

    official.begin().await;
    assert_eq!(official.call("echo", "again").await, "again");
}
