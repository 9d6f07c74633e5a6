//! Owns the stand-in model API as tests use it: one server per test, scripted by prompts and by its control endpoint.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use super::{programs::repository, wait::PATIENCE};

/// A running stand-in; it ends with this value, and with this process if that is killed.
#[derive(Debug)]
pub(crate) struct ModelApi {
    child: Child,
    url: String,
    client: Client,
}

impl ModelApi {
    /// Starts a server on a free port of 127.0.0.1 and waits until it is ready.
    pub(crate) fn start() -> Self {
        let mut child = Command::new("node")
            .arg(repository("tests/programs/model_api.mjs"))
            .arg("--until-stdin-closes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node is needed for this test");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let ready: Value = serde_json::from_str(&line).expect("the ready line of the stand-in API");
        Self {
            child,
            url: ready["url"].as_str().unwrap().to_owned(),
            client: Client::builder().no_proxy().build().unwrap(),
        }
    }

    /// Base address, for `ANTHROPIC_BASE_URL`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Changes default script, pace, errors, usage or delay; see the README of the test programs.
    pub(crate) async fn control(&self, settings: Value) {
        self.post("/control", settings).await;
    }

    /// Steps for prompts that carry no script.
    pub(crate) async fn default_script(&self, steps: Value) {
        self.control(json!({ "default_script": steps })).await;
    }

    /// Opens a gate for good: answers that wait at it, or come to it later, go on.
    pub(crate) async fn release(&self, gate: &str) {
        self.post("/control/release", json!({ "name": gate })).await;
    }

    /// Lets one answer through that waits at the gate.
    pub(crate) async fn release_one(&self, gate: &str) {
        self.post("/control/release", json!({ "name": gate, "once": true }))
            .await;
    }

    /// Waits until an answer stands at the gate.
    pub(crate) async fn at_gate(&self, gate: &str) {
        let limit = PATIENCE.as_millis();
        let url = format!("{}/control/gates/{gate}?timeout_ms={limit}", self.url);
        let request = self.client.get(url).timeout(PATIENCE + Duration::from_secs(5));
        let status = request.send().await.unwrap().status();
        assert_eq!(status, StatusCode::OK, "nothing came to the gate {gate}");
    }

    /// The requests to the API, oldest first (bounded). Each has `n`, `path`, `model`, `session`, `step`, `status`, `messages`,
    /// …
    pub(crate) async fn requests(&self) -> Vec<Value> {
        let mut log = self.get("/control/requests").await;
        match log["requests"].take() {
            Value::Array(requests) => requests,
            other => panic!("not a list of requests: {other}"),
        }
    }

    /// How many answers of the model were asked for.
    pub(crate) async fn message_requests(&self) -> usize {
        let requests = self.requests().await;
        requests
            .iter()
            .filter(|request| request["path"] == "/v1/messages")
            .count()
    }

    /// The whole body of a recent request, by its `n`.
    pub(crate) async fn body(&self, n: u64) -> Value {
        self.get(&format!("/control/requests/{n}")).await
    }

    async fn get(&self, path: &str) -> Value {
        let response = self
            .client
            .get(format!("{}{path}", self.url))
            .send()
            .await
            .unwrap();
        response.error_for_status().unwrap().json().await.unwrap()
    }

    async fn post(&self, path: &str, body: Value) {
        let request = self.client.post(format!("{}{path}", self.url)).json(&body);
        request.send().await.unwrap().error_for_status().unwrap();
    }
}

impl Drop for ModelApi {
    fn drop(&mut self) {
        // Best effort: it may have ended by itself, and its stdin closes with this value anyway.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
