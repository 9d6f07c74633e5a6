//! Owns the examples of the OpenAPI document that no type has: bodies that may be left out, and a problem of each code.

use serde_json::{Value, json};
use utoipa::openapi::{
    RefOr,
    example::{Example, ExampleBuilder},
    path::Operation,
};

use crate::http::{ApiError, ErrorCode};

/// The body of an operation whose type has no example.
fn body_of(operation: &str) -> Option<Value> {
    Some(match operation {
        "restart_daemon" => json!({"program": "/usr/local/bin/trunkline"}),
        "collect_journals" => json!({"dry_run": true}),
        "send_control" => json!({"subtype": "set_model", "model": "opus"}),
        "fork_session" => json!({"title": "Another way", "prompt": "Try it without the new dependency."}),
        "interrupt_session" => json!({"cancel_queued": true}),
        "restart_session" | "resume_session" => json!({"fresh": true}),
        "background_tasks" => json!({"tool_use_id": "toolu_01A"}),
        "set_session_rules" => json!({"items": [
            {"id": "no-push", "action": "deny", "tool": "Bash", "input": {"command": {"command_prefix": ["git", "push"]}}},
            {"id": "git", "action": "allow", "tool": "Bash", "input": {"command": {"command_prefix": ["git"]}}},
        ]}),
        _ => return None,
    })
}

/// Gives the body of an operation its example.
pub(super) fn add_body(operation: &mut Operation) {
    let example = operation.operation_id.as_deref().and_then(body_of);
    let Some((RefOr::T(body), example)) = operation.request_body.as_mut().zip(example) else {
        return;
    };
    for content in body.content.values_mut() {
        if let RefOr::T(content) = content {
            content.example = Some(example.clone());
        }
    }
}

/// A problem of each code, without the members that only some cases have.
pub(super) fn problems() -> impl Iterator<Item = (&'static str, RefOr<Example>)> {
    ErrorCode::ALL.iter().map(|code| {
        let problem = ApiError::new(*code).problem(None);
        let example = ExampleBuilder::new()
            .summary(code.title())
            .value(Some(Value::Object(problem)))
            .build();
        (code.as_str(), RefOr::T(example))
    })
}
