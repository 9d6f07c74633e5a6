//! Owns the REST client of a daemon under test: every route a test needs, with the status checked.

use std::time::Duration;

use reqwest::{Client, Method, StatusCode, header};
use serde_json::{Value, json};

use super::wait::{PATIENCE, wait_for};

/// Longest time one request may take; a `?wait=result` request takes as long as its turn.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// An answer: status and JSON body (`null` when the body is empty).
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

impl Reply {
    /// The body, if the status is the one expected.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{:#}", self.body);
        self.body
    }

    /// The `code` of a problem with this status; also checks that it is one.
    #[track_caller]
    pub(crate) fn problem(self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{:#}", self.body);
        assert_eq!(self.content_type, "application/problem+json", "{:#}", self.body);
        let code = self.body["code"].as_str();
        code.unwrap_or_else(|| panic!("no code: {:#}", self.body))
            .to_owned()
    }
}

/// A client of one daemon.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    url: String,
    token: Option<String>,
    client: Client,
}

impl Rest {
    pub(crate) fn new(url: &str, token: Option<&str>) -> Self {
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(REQUEST_LIMIT)
            .build()
            .unwrap();
        Self {
            url: url.trim_end_matches('/').to_owned(),
            token: token.map(ToOwned::to_owned),
            client,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The same daemon with another token, or with none.
    pub(crate) fn with_token(&self, token: Option<&str>) -> Self {
        Self {
            token: token.map(ToOwned::to_owned),
            ..self.clone()
        }
    }

    /// A request to be shaped further: headers, raw bodies.
    pub(crate) fn builder(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends a shaped request.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Reply {
        let response = request.send().await.unwrap();
        let status = response.status();
        let content_type = response.headers().get(header::CONTENT_TYPE);
        let content_type = content_type
            .map_or("", |value| value.to_str().unwrap())
            .to_owned();
        let bytes = response.bytes().await.unwrap();
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            serde_json::from_slice(&bytes).unwrap_or(Value::String(text))
        };
        Reply {
            status,
            content_type,
            body,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(self.builder(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(self.builder(Method::POST, path).json(&body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Reply {
        self.send(self.builder(Method::PUT, path).json(&body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Reply {
        self.send(self.builder(Method::PATCH, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(self.builder(Method::DELETE, path)).await
    }

    /// Creates a session and returns its view.
    pub(crate) async fn create(&self, session: Value) -> Value {
        self.post("/v1/sessions", session).await.expect(201)
    }

    /// Creates a session, waits until the CLI is ready and returns its id.
    pub(crate) async fn create_ready(&self, session: Value) -> String {
        let view = self.post("/v1/sessions?wait=ready", session).await.expect(201);
        view["id"]
            .as_str()
            .unwrap_or_else(|| panic!("no id: {view:#}"))
            .to_owned()
    }

    pub(crate) async fn session(&self, id: &str) -> Value {
        self.get(&format!("/v1/sessions/{id}")).await.expect(200)
    }

    /// Waits until the session is in one of `states` and returns its view.
    pub(crate) async fn in_state(&self, id: &str, states: &[&str]) -> Value {
        let what = format!("session {id} is {states:?}");
        wait_for(&what, PATIENCE, async || {
            let view = self.session(id).await;
            let state = view["state"].as_str().unwrap_or_default().to_owned();
            states.contains(&state.as_str()).then_some(view)
        })
        .await
    }

    /// Waits until the CLI has begun a turn, which it may not have although the session is busy: what is sent to it before
    /// that, such as an interrupt, meets no turn.
    pub(crate) async fn in_turn(&self, id: &str) -> Value {
        let what = format!("session {id} is in a turn");
        wait_for(&what, PATIENCE, async || {
            let view = self.session(id).await;
            view["turn"].is_object().then_some(view)
        })
        .await
    }

    /// Sends a prompt; the acceptance.
    pub(crate) async fn prompt(&self, id: &str, text: &str) -> Value {
        let path = format!("/v1/sessions/{id}/messages");
        self.post(&path, json!({ "text": text })).await.expect(202)
    }

    /// Sends a prompt and waits for the result of its turn.
    pub(crate) async fn ask(&self, id: &str, text: &str) -> Value {
        let path = format!("/v1/sessions/{id}/messages?wait=result");
        let reply = self.post(&path, json!({ "text": text })).await;
        assert!(reply.status.is_success(), "{} {:#}", reply.status, reply.body);
        reply.body
    }

    /// POST to one of the lifecycle routes: `stop`, `resume`, `restart`, `park`, `interrupt`, `fork`.
    pub(crate) async fn lifecycle(&self, id: &str, verb: &str, body: Value) -> Reply {
        self.post(&format!("/v1/sessions/{id}/{verb}"), body).await
    }

    /// Waits until an approval is pending for the session and returns it.
    pub(crate) async fn pending_approval(&self, id: &str) -> Value {
        let what = format!("session {id} has a pending approval");
        wait_for(&what, PATIENCE, async || {
            let list = self.get("/v1/approvals?state=pending").await.expect(200);
            let items = list["items"].as_array().cloned().unwrap_or_default();
            items.into_iter().find(|item| item["session_id"] == id)
        })
        .await
    }

    /// Decides an approval: `{"decision": "allow"}`, `{"decision": "deny", "message": …}`, …
    pub(crate) async fn decide(&self, session: &str, approval: &str, decision: Value) -> Reply {
        let path = format!("/v1/sessions/{session}/approvals/{approval}");
        self.post(&path, decision).await
    }

    /// All records of the journal after `after`, over as many pages as it takes.
    pub(crate) async fn events(&self, id: &str, after: u64) -> Vec<Value> {
        let path = format!("/v1/sessions/{id}/events?after={after}");
        let request = self
            .builder(Method::GET, &path)
            .header(header::ACCEPT, "application/x-ndjson");
        let response = request.send().await.unwrap().error_for_status().unwrap();
        let text = response.text().await.unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(crate) async fn turns(&self, id: &str) -> Vec<Value> {
        let mut list = self.get(&format!("/v1/sessions/{id}/turns")).await.expect(200);
        match list["items"].take() {
            Value::Array(items) => items,
            other => panic!("not a list of turns: {other}"),
        }
    }
}
