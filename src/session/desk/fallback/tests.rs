//! Owns the tests of stated answers.

use serde_json::Value;

use super::*;
use crate::{
    claude::{ControlRequest, scan},
    domain::{Seq, Timestamp},
    journal::{RecordRef, Source},
    session::desk::Book,
};

fn asked(request: &str) -> Asked {
    let line = format!(r#"{{"type":"control_request","request_id":"r1","request":{request}}}"#);
    let mut book = Book::default();
    let record = RecordRef {
        seq: Seq::new(1),
        at: Timestamp::from_micros(0),
        source: Source::Cli,
        by: None,
        data: line.as_bytes(),
        line: line.as_bytes(),
    };
    book.ask(
        ControlRequest::read(&scan(line.as_bytes()).unwrap()).unwrap(),
        &record,
    );
    Asked::clone(&book.open()[0])
}

fn answered(request: &str, blocks: bool, fallback: Option<&str>) -> Value {
    let route = Route::without_answer(
        blocks,
        fallback.map(|text| RawValue::from_string(text.to_owned()).unwrap()),
    );
    let line = answer(&asked(request), &route, FallbackReason::Late);
    let mut line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line["response"]["request_id"], "r1");
    line["response"].take()
}

fn hook(event: &str) -> String {
    format!(r#"{{"subtype":"hook_callback","callback_id":"h","input":{{"hook_event_name":"{event}"}}}}"#)
}

#[test]
fn a_hook_without_an_answer_has_no_opinion_or_refuses_in_the_form_of_its_event() {
    let answered_hook = |event: &str, blocks| answered(&hook(event), blocks, None)["response"].clone();
    assert_eq!(answered_hook("PreToolUse", false), json!({}));
    let denied = answered_hook("PreToolUse", true);
    assert_eq!(
        denied["hookSpecificOutput"]["permissionDecision"], "deny",
        "{denied}"
    );
    assert_eq!(denied["hookSpecificOutput"]["hookEventName"], "PreToolUse");
    let denied = answered_hook("PermissionRequest", true);
    assert_eq!(
        denied["hookSpecificOutput"]["decision"]["behavior"], "deny",
        "{denied}"
    );
    assert_eq!(
        answered_hook("Elicitation", true)["hookSpecificOutput"]["action"],
        "decline"
    );
    assert_eq!(answered_hook("UserPromptSubmit", true)["decision"], "block");
    assert_eq!(answered_hook("FromTheFuture", true)["decision"], "block");
    // "block" would have the model go on for ever.
    assert_eq!(answered_hook("Stop", true), json!({}));
    let registered = answered(&hook("PreToolUse"), true, Some(r#"{"continue":false}"#));
    assert_eq!(registered["response"], json!({"continue": false}));
}

/// As the CLI documents what each event can block.
#[test]
fn what_an_event_cannot_block_is_not_blocked() {
    let answered_hook = |event: &str| answered(&hook(event), true, None)["response"].clone();
    for event in [
        "UserPromptSubmit",
        "UserPromptExpansion",
        "PostToolUse",
        "PostToolBatch",
        "PreCompact",
        "ConfigChange",
        "TaskCreated",
        "TaskCompleted",
        "WorktreeCreate",
    ] {
        assert_eq!(answered_hook(event)["decision"], "block", "{event}");
    }
    for event in ["PreToolUse", "PreSkillShellCommand", "PreModelSwitch"] {
        let output = answered_hook(event)["hookSpecificOutput"].clone();
        assert_eq!(output["permissionDecision"], "deny", "{event}");
    }
    assert_eq!(
        answered_hook("ElicitationResult")["hookSpecificOutput"]["action"],
        "decline"
    );
    for event in [
        "SessionStart",
        "SessionEnd",
        "Setup",
        "Notification",
        "MessageDisplay",
        "SubagentStart",
        "SubagentStop",
        "StopFailure",
        "TeammateIdle",
        "PermissionDenied",
        "PostToolUseFailure",
        "PostCompact",
        "PostModelSwitch",
        "InstructionsLoaded",
        "CwdChanged",
        "FileChanged",
        "DirectoryAdded",
        "WorktreeRemove",
    ] {
        assert_eq!(answered_hook(event), json!({}), "{event}");
    }
}

#[test]
fn a_message_to_a_server_gets_an_error_of_its_own_protocol() {
    let message = |message: &str| {
        let request = format!(r#"{{"subtype":"mcp_message","server_name":"calc","message":{message}}}"#);
        answered(&request, false, None)["response"]["mcp_response"].clone()
    };
    for (id, expected) in [("7", json!(7)), (r#""a""#, json!("a"))] {
        let error = message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#));
        assert_eq!(error["id"], expected);
        assert_eq!(error["error"]["code"], -32_000);
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
    }
    for not_asked in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    ] {
        assert_eq!(
            message(not_asked),
            json!({"jsonrpc": "2.0", "result": {}, "id": 0})
        );
    }
}

#[test]
fn what_is_not_known_is_refused_and_never_decided() {
    for request in [
        r#"{"subtype":"request_user_dialog"}"#,
        r#"{"subtype":"brand_new_thing"}"#,
        r#"{"subtype":"oauth_token_refresh"}"#,
        r#"{"subtype":"mcp_message","server_name":"calc"}"#,
    ] {
        let refused = answered(request, true, None);
        assert_eq!(refused["subtype"], "error", "{request}");
        assert_eq!(refused["error_code"], "unsupported_request");
    }
}

#[test]
fn a_reason_has_one_name_and_records_of_older_versions_are_read() {
    use FallbackReason::{BridgeFailed, Late, NoClient, Uncertain, Unregistered, Unsupported, WebhookFailed};
    for (reason, older) in [
        (NoClient, "no_client"),
        (Late, "late"),
        (Unregistered, "unregistered"),
        (WebhookFailed, "webhook_failed"),
        (BridgeFailed, "bridge_failed"),
        (Uncertain, "uncertain"),
        (Unsupported, "unsupported"),
    ] {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        let read: FallbackReason = serde_json::from_value(older.into()).unwrap();
        assert_eq!(read, reason);
    }
}
