//! Owns what these tests share: the form of a problem, the routes of the contract, and small questions to a daemon.

use std::{fs, path::Path};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    daemon::TestDaemon,
    programs::fake_prompt,
    rest::{Reply, Rest},
};

/// Checks that an answer is a whole problem with this status and code, and returns it.
#[track_caller]
pub(crate) fn problem(reply: Reply, status: u16, code: &str) -> Value {
    let body = &reply.body;
    assert_eq!(
        (reply.status.as_u16(), body["code"].as_str()),
        (status, Some(code)),
        "{body:#}"
    );
    assert_eq!(reply.content_type, "application/problem+json", "{body:#}");
    assert_eq!(body["status"], status, "{body:#}");
    assert_eq!(body["type"], format!("urn:trunkline:problem:{code}"), "{body:#}");
    for text in ["title", "detail", "instance"] {
        assert!(
            body[text].as_str().is_some_and(|text| !text.is_empty()),
            "no {text}: {body:#}"
        );
    }
    for flag in ["retryable", "side_effect_possible"] {
        assert!(body[flag].is_boolean(), "no {flag}: {body:#}");
    }
    reply.body
}

/// The message that waits.
const QUEUED: &str = "0197f0f0-5c1e-7000-8000-00000000000a";

/// One operation of the contract.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) id: String,
    /// The query parameters that it must have, with the values of their examples.
    pub(crate) query: String,
}

impl Operation {
    /// The path with these ids in the place of its parameters.
    pub(crate) fn at(&self, session: &str, approval: &str) -> String {
        self.path
            .replace("{id}", session)
            .replace("{approval_id}", approval)
            .replace("{webhook_id}", session)
            .replace("{login_id}", session)
            .replace("{server}", "a%2Fb")
            .replace("{task_id}", "task")
            .replace("{rule_id}", "a-rule")
            .replace("{seq}", "1")
            .replace("{number}", "1")
            .replace("{uuid}", QUEUED)
    }

    /// A body that the operation takes, if it needs one.
    pub(crate) fn body(&self) -> Option<Value> {
        Some(match self.id.as_str() {
            "create_session" => json!({"cwd": "/"}),
            "create_login" => json!({}),
            "create_ticket" => json!({"path": "/v1/sessions"}),
            "create_webhook" => json!({"url": "http://127.0.0.1:9/"}),
            "update_webhook" => json!({"content": true}),
            "update_session" => json!({"title": "t"}),
            "send_message" => json!({"text": "hello"}),
            "decide_approval" => json!({"decision": "allow"}),
            // One that is refused: the daemon is to stay.
            "restart_daemon" => json!({"program": "/nonexistent"}),
            "set_model" => json!({"model": "m"}),
            "set_permission_mode" => json!({"mode": "plan"}),
            "set_thinking" => json!({"max_thinking_tokens": 0}),
            "set_mcp_servers" => json!({"servers": {}}),
            "set_mcp_server" => json!({"enabled": true}),
            "rewind_files" => json!({"user_message_id": "m"}),
            "apply_settings" => json!({"settings": {"effortLevel": null}}),
            "set_session_rules" => json!({"items": [{"id": "a-rule", "action": "ask"}]}),
            "add_session_rule" => json!({"action": "ask", "tool": "Write", "kind": "tool"}),
            "test_rules" | "test_session_rules" => json!({"tool": "Bash", "input": {"command": "ls"}}),
            "set_session_seen" => json!({"seq": 0}),
            "put_session_off" => json!({"how": "left"}),
            "queue_prompt" => json!({"text": "hello", "held": true, "uuid": QUEUED}),
            "change_queued_prompt" => json!({"text": "hello again"}),
            "send_control" => json!({"subtype": "get_context_usage"}),
            _ => return None,
        })
    }
}

/// Every operation that the running daemon documents.
pub(crate) async fn operations(rest: &Rest) -> Vec<Operation> {
    let document = rest.get("/openapi.json").await.expect(200);
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            found.push(Operation {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                id: operation["operationId"].as_str().unwrap().to_owned(),
                query: required_query(operation),
            });
        }
    }
    found
}

fn required_query(operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let required = parameters.filter(|it| it["in"] == "query" && it["required"] == true);
    let pairs = required.map(|it| {
        let example = it["example"]
            .as_str()
            .unwrap_or_else(|| panic!("no example: {it:#}"));
        format!("{}={example}", it["name"].as_str().unwrap())
    });
    let pairs: Vec<_> = pairs.collect();
    if pairs.is_empty() {
        String::new()
    } else {
        format!("?{}", pairs.join("&"))
    }
}

/// Sends an operation with ids in its path, the query that it must have and the body that it takes.
pub(crate) async fn call(rest: &Rest, operation: &Operation, session: &str, approval: &str) -> Reply {
    let path = operation.at(session, approval) + &operation.query;
    let mut request = rest.builder(operation.method.clone(), &path);
    if let Some(body) = operation.body() {
        request = request.json(&body);
    }
    rest.send(request).await
}

/// Checks that the daemon has made nothing: no session, no journal, no process.
pub(crate) async fn assert_nothing_made(daemon: &TestDaemon) {
    let list = daemon.rest().get("/v1/sessions").await.expect(200);
    assert_eq!(list["items"], json!([]), "a session was made");
    assert_eq!(
        entries(&daemon.data_dir().join("sessions")),
        0,
        "a journal was made"
    );
    let processes = daemon.session_processes();
    assert!(processes.is_empty(), "a process was started: {processes:#?}");
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

/// The starts of the fake CLI that were dumped into `file`, oldest first: `argv`, `env`, `cwd`, `pid`.
pub(crate) fn dumps(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A turn of the fake CLI that asks whether it may use a tool.
pub(crate) fn asking() -> String {
    fake_prompt(
        &json!([{"ask": {"tool": "Bash", "input": {"command": "make  all", "n": 1.0}}}, {"text": "done"}]),
    )
}

/// A turn of the fake CLI that never ends by itself.
pub(crate) fn endless() -> String {
    fake_prompt(&json!([{"text": "working"}, {"silent": 1}]))
}

/// The id in a view of the API.
pub(crate) fn id_of(view: &Value) -> String {
    view["id"]
        .as_str()
        .unwrap_or_else(|| panic!("no id: {view:#}"))
        .to_owned()
}
