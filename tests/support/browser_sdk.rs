//! Owns the official browser SDK as tests use it: a story of `web-test/browser-sdk.mjs` that runs against a daemon.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{daemon::TestDaemon, programs::repository, wait::PATIENCE};

/// A story that runs; it ends with this value.
#[derive(Debug)]
pub(crate) struct BrowserSdk {
    _child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl BrowserSdk {
    /// Begins a story with a session. The token is all that the SDK is given.
    pub(crate) fn start(daemon: &TestDaemon, session: &str, story: &str) -> Self {
        let path = format!("/v1/sessions/{session}/ws?protocol=ndjson");
        Self::start_at(daemon, &path, story)
    }

    /// Begins a story at a path.
    pub(crate) fn start_at(daemon: &TestDaemon, path: &str, story: &str) -> Self {
        let base = daemon.url().replacen("http", "ws", 1);
        let setup = json!({"url": format!("{base}{path}"), "token": daemon.token(), "story": story});
        let mut child = Command::new("node")
            .arg("--experimental-websocket")
            .arg(repository("web-test/browser-sdk.mjs"))
            .arg(setup.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("node is needed for this test");
        Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()).lines(),
            _child: child,
        }
    }

    /// The next words of the story.
    pub(crate) async fn said(&mut self) -> Value {
        let line = timeout(PATIENCE, self.stdout.next_line()).await;
        let line = line.expect("the story goes on").unwrap();
        serde_json::from_str(&line.expect("the story has an end")).unwrap()
    }

    /// Has the story go on.
    pub(crate) async fn go_on(&mut self) {
        self.stdin.write_all(b"go on\n").await.unwrap();
    }

    /// The outcome of the story.
    pub(crate) async fn outcome(&mut self) -> Value {
        let mut said = self.said().await;
        let outcome = said["outcome"].take();
        assert!(outcome.is_object(), "{said:#}");
        assert_eq!(outcome["failed"], Value::Null, "{outcome:#}");
        outcome
    }
}
