//! Checks the lines that go to the CLI, ours and those of clients.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{claude::recordings::recording, json};

const UUID: &str = "bbbbbbbb-0000-4000-8000-000000000013";

fn parsed(line: &[u8]) -> Value {
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    serde_json::from_slice(line).unwrap()
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn message(content: Content<'_>) -> UserMessage<'_> {
    UserMessage {
        content,
        uuid: UUID.parse().unwrap(),
        priority: None,
        should_query: None,
        client_composed: false,
        more: &[],
    }
}

fn text_of(line: &[u8]) -> &str {
    std::str::from_utf8(line).unwrap()
}

#[test]
fn of_credentials_the_journal_gets_the_names_only() {
    let line = r#"{"request_id":"theirs","type":"update_environment_variables","variables":{"A":"PLANTED","B\n":"PLANTED"},"new":[1, 2]}"#;
    let checked = check_client_line(line.as_bytes()).unwrap();
    assert!(!format!("{checked:?}").contains("PLANTED"));
    let ClientLine::UpdateEnvironmentVariables { request_id, line } = checked else {
        panic!("{checked:?}");
    };
    assert_eq!(request_id.as_deref(), Some("theirs"));
    let (text, record) = relayed_variables(line, Some("ours"));
    assert_eq!(
        parsed(&text),
        json!({
            "type": "update_environment_variables", "request_id": "ours", "new": [1, 2],
            "variables": {"A": "PLANTED", "B\n": "PLANTED"},
        })
    );
    assert_eq!(
        parsed(&record),
        json!({
            "type": "update_environment_variables", "request_id": "ours", "redacted": true,
            "variables": {"A": "redacted", "B\n": "redacted"},
        })
    );
    let (text, record) = relayed_variables(line, None);
    assert!(parsed(&text).get("request_id").is_none());
    assert!(parsed(&record).get("request_id").is_none());
    for bad in [r#""""#, "7"] {
        let line =
            format!(r#"{{"type":"update_environment_variables","variables":{{}},"request_id":{bad}}}"#);
        assert!(check_client_line(line.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn of_an_answer_with_a_secret_the_journal_gets_that_it_was_given() {
    let given = parsed(&redacted_response("r", true));
    assert_eq!(
        given,
        json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": "r", "response": {"redacted": true},
        }})
    );
    let refused = parsed(&redacted_response("r", false));
    assert_eq!(
        refused["response"],
        json!({"subtype": "error", "request_id": "r", "error": "redacted"})
    );
}

#[test]
fn a_prompt_is_a_user_line_with_an_id() {
    let line = user_message(&message(Content::Text("say \"hi\"\n\u{2028}/x")));
    assert_eq!(
        parsed(&line),
        json!({
            "type": "user",
            "message": {"role": "user", "content": "say \"hi\"\n\u{2028}/x"},
            "parent_tool_use_id": null,
            "session_id": "",
            "uuid": UUID,
        })
    );
    let full = user_message(&UserMessage {
        priority: Some(Priority::Now),
        should_query: Some(false),
        client_composed: true,
        ..message(Content::Text(""))
    });
    let full = parsed(&full);
    assert_eq!(full["priority"], "now");
    assert_eq!(full["shouldQuery"], false);
    assert_eq!(full["client_composed"], true);
}

#[test]
fn content_blocks_keep_their_bytes_on_one_line() {
    let blocks = raw("[ {\"type\":\"text\",\r\n\"text\":\"\\ud800 \\n\",\"n\":1.0} ]");
    let line = user_message(&message(Content::Blocks(&blocks)));
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    let kept = r#"[ {"type":"text",  "text":"\ud800 \n","n":1.0} ]"#;
    assert!(text_of(&line).contains(kept), "{}", text_of(&line));
}

#[test]
fn a_request_is_always_the_full_envelope() {
    let line = control_request("d-1", "interrupt", &Fields::new());
    assert_eq!(
        text_of(&line),
        r#"{"type":"control_request","request_id":"d-1","request":{"subtype":"interrupt"}}"#
    );
    let fields = Fields::of_object(r#"{"model":"x\ud800","subtype":"other"}"#).unwrap();
    assert_eq!(
        text_of(&control_request("d-2", "set_model", &fields)),
        r#"{"type":"control_request","request_id":"d-2","request":{"subtype":"set_model","model":"x\ud800"}}"#
    );
}

#[test]
fn answers_carry_the_clis_id_and_the_payloads_bytes() {
    let payload = raw(r#"{"behavior":"allow","updatedInput":{"a":1.50,"s":"\ud83d"}}"#);
    let line = control_success("r\"1", Some(&payload));
    assert_eq!(
        text_of(&line),
        format!(
            r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"r\"1","response":{}}}}}"#,
            payload.get()
        )
    );
    let bare = parsed(&control_success("r", None));
    assert!(bare["response"].get("response").is_none());
    let refused = parsed(&control_error("r", "nobody answers", Some("unsupported_request")));
    assert_eq!(
        refused["response"],
        json!({"subtype": "error", "request_id": "r", "error": "nobody answers", "error_code": "unsupported_request"})
    );
    assert!(
        parsed(&control_error("r", "x", None))["response"]
            .get("error_code")
            .is_none()
    );
    assert_eq!(
        parsed(&control_cancel_request("d-1")),
        json!({"type": "control_cancel_request", "request_id": "d-1"})
    );
}

/// The lines that the official host wrote in recorded sessions pass.
#[test]
fn lines_that_the_real_cli_took_pass() {
    for line in recording!("03-tool-allow.stdin")
        .lines()
        .chain(recording!("12-ask-user-question.stdin").lines())
    {
        check_client_line(line.as_bytes()).unwrap();
    }
}

#[test]
fn each_kind_of_line_is_told_apart() {
    let user =
        format!(r#" {{"type":"user","message":{{"role":"user","content":"hi"}},"uuid":"{UUID}","new":1}} "#);
    let Ok(ClientLine::User { uuid, content, line }) = check_client_line(user.as_bytes()) else {
        panic!("a user line");
    };
    assert_eq!((uuid.unwrap().to_string().as_str(), content), (UUID, "\"hi\""));
    assert_eq!(line, user.trim());
    let Ok(ClientLine::ControlRequest { request_id, subtype, request }) =
        check_client_line(b"{\"type\":\"control_request\",\"request_id\":\"1\",\"request\":{\"subtype\":\"brand_new\",\"x\":1}}\r")
    else {
        panic!("a request");
    };
    assert_eq!((request_id.as_ref(), subtype.as_ref()), ("1", "brand_new"));
    assert_eq!(request, r#"{"subtype":"brand_new","x":1}"#);
    let answer = br#"{"type":"control_response","response":{"subtype":"success","request_id":"r","response":{"behavior":"allow"}}}"#;
    let Ok(ClientLine::ControlResponse { request_id, outcome }) = check_client_line(answer) else {
        panic!("an answer");
    };
    assert_eq!(request_id, "r");
    assert_eq!(outcome.unwrap().unwrap().get(), r#"{"behavior":"allow"}"#);
    let refusal =
        br#"{"type":"control_response","response":{"subtype":"error","request_id":"r","error":"no"}}"#;
    let Ok(ClientLine::ControlResponse { outcome, .. }) = check_client_line(refusal) else {
        panic!("a refusal");
    };
    assert_eq!(outcome.unwrap_err().error, "no");
    assert!(matches!(
        check_client_line(br#"{"type":"control_cancel_request","request_id":"1"}"#),
        Ok(ClientLine::ControlCancelRequest { .. })
    ));
    assert!(matches!(
        check_client_line(br#"{"type":"keep_alive"}"#),
        Ok(ClientLine::KeepAlive)
    ));
    assert!(matches!(
        check_client_line(
            br#"{"type":"update_environment_variables","variables":{"A":"b"},"request_id":null}"#
        ),
        Ok(ClientLine::UpdateEnvironmentVariables { .. })
    ));
}

/// Each of these would end the CLI, or be dropped by it without a word.
#[test]
fn what_would_harm_the_cli_is_refused_with_its_reason() {
    for (line, error) in [
        ("", BadLine::Empty),
        (" \r\n", BadLine::Empty),
        ("this is not json", BadLine::NotJson),
        (r#"{"type":"user""#, BadLine::NotJson),
        (r#"{"type":"keep_alive"}{"type":"keep_alive"}"#, BadLine::NotJson),
        (
            "{\"type\":\"keep_alive\"}\n{\"type\":\"keep_alive\"}",
            BadLine::LineBreak,
        ),
        ("{\n\"type\":\"keep_alive\"}", BadLine::LineBreak),
        ("[1,2]", BadLine::NotAnObject),
        ("null", BadLine::NotAnObject),
        ("{}", BadLine::NoType),
        (r#"{"type":1}"#, BadLine::NoType),
        (
            r#"{"type":"assistant"}"#,
            BadLine::UnknownType("assistant".to_owned()),
        ),
        (
            r#"{"type":"trunkline.x"}"#,
            BadLine::UnknownType("trunkline.x".to_owned()),
        ),
        (r#"{"type":"user"}"#, BadLine::BadUser("has no message object")),
        (
            r#"{"type":"user","message":{"role":"assistant","content":"x"}}"#,
            BadLine::BadUser("has another role than user"),
        ),
        (
            r#"{"type":"user","message":{"role":"user","role":"system","content":"x"}}"#,
            BadLine::BadUser("has another role than user"),
        ),
        (
            r#"{"type":"user","message":{"role":"user"}}"#,
            BadLine::BadUser("has content that is neither text nor a list of blocks"),
        ),
        (
            r#"{"type":"user","message":{"role":"user","content":["x"]}}"#,
            BadLine::BadUser("has a content block that is no object"),
        ),
        (
            r#"{"type":"user","message":{"role":"user","content":"x"},"uuid":"me"}"#,
            BadLine::BadUser("has a uuid that is no UUID"),
        ),
        (
            r#"{"type":"control_request","request_id":"1","subtype":"interrupt"}"#,
            BadLine::BadControl("has no request object"),
        ),
        (
            r#"{"type":"control_request","request_id":"1","request":{}}"#,
            BadLine::BadControl("has no subtype"),
        ),
        (
            r#"{"type":"control_request","request_id":1,"request":{"subtype":"x"}}"#,
            BadLine::BadControl("has no request_id"),
        ),
        (
            r#"{"type":"control_response","response":{"request_id":"1"}}"#,
            BadLine::BadControl("is neither a success nor an error"),
        ),
        (
            r#"{"type":"control_response","response":{"subtype":"success"}}"#,
            BadLine::BadControl("has no request_id"),
        ),
        (
            r#"{"type":"control_cancel_request"}"#,
            BadLine::BadControl("has no request_id"),
        ),
        (
            r#"{"type":"update_environment_variables","variables":{"A":1}}"#,
            BadLine::BadVariables,
        ),
    ] {
        assert_eq!(check_client_line(line.as_bytes()).unwrap_err(), error, "{line}");
    }
    assert_eq!(
        check_client_line(b"{\"a\":\"\xff\"}").unwrap_err(),
        BadLine::NotJson
    );
    let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(5000));
    let error = check_client_line(long.as_bytes()).unwrap_err();
    assert!(error.to_string().len() < 150);
}

#[test]
fn a_clients_line_gets_what_it_lacks_and_keeps_the_rest() {
    let line = r#"{"type":"user","message":{"role":"user","content":"\ud800"},"n":1.0,"uuid":null}"#;
    let completed = complete_user_line(line, Some(UUID.parse().unwrap()), true);
    assert_eq!(
        text_of(&completed),
        format!(
            r#"{},"uuid":"{UUID}","client_composed":true}}"#,
            &line[..line.len() - 1]
        )
    );
    let Ok(ClientLine::User { uuid, .. }) = check_client_line(&completed) else {
        panic!("still a user line");
    };
    assert_eq!(uuid.unwrap().to_string(), UUID);
    assert_eq!(complete_user_line(line, None, false), line.as_bytes());
}

proptest! {
    /// No text and no raw value can break out of its line or its place.
    #[test]
    fn built_lines_are_one_json_object_each(text in "\\PC{0,30}|[\"\\\\\n\r{}\u{0}-\u{1F}]{0,20}") {
        let quoted = raw(&Value::from(text.as_str()).to_string());
        let mut fields = Fields::new();
        fields.set(&text, &text);
        for line in [
            user_message(&message(Content::Text(&text))),
            control_request(&text, &text, &fields),
            control_success(&text, Some(&quoted)),
            control_error(&text, &text, Some(&text)),
            control_cancel_request(&text),
        ] {
            let value = parsed(&line);
            prop_assert!(value.is_object());
            prop_assert!(json::members(text_of(&line), [""; 0]).is_some());
        }
        let line = user_message(&message(Content::Text(&text)));
        let value = parsed(&line);
        prop_assert_eq!(value["message"]["content"].as_str(), Some(text.as_str()));
    }
}

#[test]
fn content_that_says_nothing_is_told_apart() {
    for (content, is_it) in [
        (r#""""#, true),
        (r#"" \n\t""#, true),
        ("[]", true),
        (r#"[{"type":"text","text":""},{"type":"text","text":" "}]"#, true),
        (r#"[{"type":"text"}]"#, true),
        (r#""0""#, false),
        (r#""\ud800""#, false),
        (r#"[{"type":"text","text":""},{"type":"text","text":"x"}]"#, false),
        (r#"[{"type":"image","source":{}}]"#, false),
        (
            r#"[{"type":"tool_result","tool_use_id":"t","content":""}]"#,
            false,
        ),
        ("[{}]", false),
    ] {
        assert_eq!(is_blank(content), is_it, "{content}");
    }
}
