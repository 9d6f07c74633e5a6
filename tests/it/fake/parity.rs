//! Owns what holds for every name of the protocol's catalogue; `docs/PARITY.md` links here.

use std::collections::HashMap;

use serde_json::{Value, json};
use trunkline::claude::catalogue::{CONTROLS, MESSAGES, RESULT_SUBTYPES, SYSTEM_SUBTYPES, Sender};

use crate::{
    fake::bed::{act, act_through, of_type, plain, records, session, session_with},
    support::{
        daemon::TestDaemon,
        wait::{PATIENCE, wait_for},
    },
};

/// Spacing, numbers and escapes that do not survive being read and written again.
const ODD: &str = r#""odd":{"n":1.50, "e":1e400,"s":"\u0041\ud800"}"#;

/// Has the CLI print lines of these kinds, and reads each as a client gets it.
async fn pass(lines: &[String]) {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    let mut actions: Vec<Value> = lines.iter().map(|line| json!({ "raw": line })).collect();
    actions.push(json!({ "text": "and on" }));
    act(&rest, &id, Value::Array(actions)).await;
    for line in lines {
        let data = format!(r#""src":"cli","data":{line}}}"#);
        client.text_that(|text| text.ends_with(&data)).await;
    }
    let metrics = rest.get("/metrics").await.expect(200);
    let metrics = metrics.as_str().unwrap();
    assert!(
        !metrics.contains("trunkline_unknown_messages_total{"),
        "{metrics}"
    );
    act_through(&rest, &id, json!([{ "text": "and on" }])).await;
}

#[tokio::test]
async fn every_known_type_passes_byte_for_byte() {
    let lines: Vec<_> = MESSAGES
        .iter()
        .filter(|kind| !matches!(**kind, "system" | "result" | "keep_alive"))
        .map(|kind| format!(r#"{{"type":"{kind}",{ODD}}}"#))
        .collect();
    pass(&lines).await;
}

#[tokio::test]
async fn every_known_system_subtype_passes_byte_for_byte() {
    let lines: Vec<_> = SYSTEM_SUBTYPES
        .iter()
        .map(|subtype| format!(r#"{{"type":"system",{ODD}, "subtype":"{subtype}"}}"#))
        .collect();
    pass(&lines).await;
}

#[tokio::test]
async fn every_known_result_ends_a_turn_and_passes_byte_for_byte() {
    let lines: Vec<_> = RESULT_SUBTYPES
        .iter()
        .map(|subtype| {
            let is_error = subtype.starts_with("error");
            format!(
                r#"{{"type":"result","subtype":"{subtype}","is_error":{is_error},"num_turns":1,"total_cost_usd":0,{ODD}}}"#
            )
        })
        .collect();
    pass(&lines).await;

    let (_daemon, rest, id) = plain().await;
    for subtype in RESULT_SUBTYPES {
        let result = json!({ "subtype": subtype, "is_error": subtype.starts_with("error") });
        let turn = rest
            .ask(
                &id,
                &crate::support::programs::fake_prompt(&json!([{ "result": result }])),
            )
            .await;
        assert_eq!(turn["turn"]["subtype"], *subtype, "{turn:#}");
        assert_eq!(turn["turn"]["is_error"], subtype.starts_with("error"), "{turn:#}");
    }
}

/// Requests that are more than relayed.
const SPECIAL: [&str; 6] = [
    "initialize",
    "interrupt",
    "end_session",
    "claim_session",
    "set_cwd",
    "remote_control",
];

/// Requests of which the journal gets the names alone.
const MAY_HOLD_SECRETS: [&str; 2] = ["apply_flag_settings", "mcp_set_servers"];

#[tokio::test]
async fn every_known_control_request_is_relayed_and_its_answer_returned() {
    let subtypes: Vec<&str> = CONTROLS
        .iter()
        .filter(|control| control.sender != Sender::Cli && !SPECIAL.contains(&control.name))
        .map(|control| control.name)
        .collect();
    let answers: HashMap<&str, Value> = subtypes
        .iter()
        .map(|subtype| (*subtype, json!({ "response": { "to": subtype } })))
        .collect();
    let daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({ "controls": answers })).await;
    let mut client = daemon.attach(&id, Some(0)).await;
    for subtype in &subtypes {
        let request = format!(r#"{{"subtype":"{subtype}","mode":"plan",{ODD}}}"#);
        client
            .send_text(&format!(
                r#"{{"type":"control_request","request_id":"mine-{subtype}","request":{request}}}"#
            ))
            .await;
        // To the CLI go the same fields, under another id. Its answer may overtake the record of the request.
        let (mut written, mut answer) = (String::new(), String::new());
        let name = format!(r#""subtype":"{subtype}""#);
        let shown = if MAY_HOLD_SECRETS.contains(subtype) {
            &name
        } else {
            &request[1..]
        };
        client
            .text_that(|text| {
                if text.contains(r#""src":"client""#) && text.contains(shown) {
                    text.clone_into(&mut written);
                } else if text.starts_with(r#"{"type":"control_response""#) {
                    text.clone_into(&mut answer);
                }
                !written.is_empty() && !answer.is_empty()
            })
            .await;
        assert!(!written.contains("mine-"), "{written}");
        assert_eq!(
            written.contains("odd"),
            !MAY_HOLD_SECRETS.contains(subtype),
            "{written}"
        );
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let response = &answer["response"];
        assert_eq!(response["request_id"], format!("mine-{subtype}"), "{answer:#}");
        assert_eq!(response["subtype"], "success", "{answer:#}");
        // These three say what became of it.
        if !matches!(
            *subtype,
            "set_model" | "set_permission_mode" | "cancel_async_message"
        ) {
            assert_eq!(response["response"], json!({ "to": subtype }), "{answer:#}");
        }
    }
}

/// Requests that become approvals; other tests show them.
const APPROVALS: [&str; 3] = ["can_use_tool", "elicitation", "request_user_dialog"];

#[tokio::test]
async fn every_known_request_of_the_cli_is_answered_once_when_nobody_is_there() {
    let subtypes: Vec<&str> = CONTROLS
        .iter()
        .filter(|control| control.sender != Sender::Host && !APPROVALS.contains(&control.name))
        .map(|control| control.name)
        .collect();
    let (_daemon, rest, id) = plain().await;
    let actions: Vec<Value> = subtypes
        .iter()
        .map(|subtype| {
            let message = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list" });
            let request = json!({
                "subtype": subtype, "callback_id": "h", "input": {}, "server_name": "s", "message": message,
            });
            json!({ "request": request, "id": format!("{subtype}-1") })
        })
        .collect();
    act_through(&rest, &id, Value::Array(actions)).await;
    let records = wait_for("all are answered", PATIENCE, async || {
        let records = records(&rest, &id).await;
        (of_type(&records, "cli", "fake_answer").len() >= subtypes.len()).then_some(records)
    })
    .await;
    for subtype in subtypes {
        let request = format!("{subtype}-1");
        let answers: Vec<_> = of_type(&records, "client", "control_response")
            .into_iter()
            .filter(|line| line["response"]["request_id"] == request)
            .collect();
        assert_eq!(answers.len(), 1, "{subtype}: {answers:#?}");
        let response = &answers[0]["response"];
        match subtype {
            "hook_callback" => assert_eq!(response["response"], json!({}), "no opinion"),
            "mcp_message" => {
                let error = &response["response"]["mcp_response"]["error"];
                assert!(error["code"].is_i64(), "{response:#}");
            }
            _ => {
                assert_eq!(response["subtype"], "error", "{response:#}");
                assert_eq!(response["error_code"], "unsupported_request", "{response:#}");
            }
        }
    }
}

/// Requests whose answers would hold a secret; what is written to the CLI is journaled.
const CREDENTIALS: [&str; 3] = [
    "oauth_token_refresh",
    "host_auth_token_refresh",
    "remote_control_work_secret",
];

/// Requests of the CLI that nobody registers for.
fn unregistered() -> impl Iterator<Item = &'static str> {
    CONTROLS
        .iter()
        .filter(|control| control.sender == Sender::Cli && control.name != "hook_callback")
        .map(|control| control.name)
        .filter(|subtype| !APPROVALS.contains(subtype))
}

/// A client is there: it gets all that it may answer, and what it says reaches the CLI.
#[tokio::test]
async fn every_other_request_of_the_cli_is_offered_to_who_is_there() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach_as("x", &id, None).await;
    let ask =
        |subtype: &str| json!({ "request": { "subtype": subtype, "x": 1.5 }, "id": subtype, "wait": false });
    let mut actions: Vec<Value> = unregistered().map(ask).collect();
    actions.extend(unregistered().map(|subtype| json!({ "wait_answer": subtype })));
    act(&rest, &id, Value::Array(actions)).await;
    let answer = |subtype: &str| {
        let response =
            json!({ "subtype": "success", "request_id": subtype, "response": { "heard": subtype } });
        json!({ "type": "control_response", "response": response })
    };
    let offered: Vec<_> = unregistered()
        .filter(|subtype| !CREDENTIALS.contains(subtype))
        .collect();
    assert!(offered.len() >= 10, "{offered:?}");
    for subtype in &offered {
        let is_it = |frame: &Value| frame["src"] == "cli" && frame["data"]["request_id"] == *subtype;
        client.find(subtype, is_it).await;
        client.send(&answer(subtype)).await;
    }
    rest.in_state(&id, &["idle"]).await;
    for subtype in CREDENTIALS {
        client.send(&answer(subtype)).await;
        let error = client
            .find("a refusal", |frame| frame["type"] == "trunkline.error")
            .await;
        assert_eq!(error["code"], "request_not_pending", "{error:#}");
    }
    let records = records(&rest, &id).await;
    for subtype in unregistered() {
        let answers: Vec<_> = records
            .iter()
            .filter(|it| it["src"] == "client" && it["data"]["response"]["request_id"] == subtype)
            .collect();
        assert_eq!(answers.len(), 1, "{subtype}: {answers:#?}");
        let response = &answers[0]["data"]["response"];
        if CREDENTIALS.contains(&subtype) {
            assert_eq!(response["error_code"], "unsupported_request", "{response:#}");
            assert_eq!(answers[0]["by"], "daemon");
        } else {
            assert_eq!(response["response"], json!({ "heard": subtype }), "{response:#}");
            assert_eq!(answers[0]["by"], "ws:x");
        }
    }
}

#[tokio::test]
async fn lines_that_only_the_cli_prints_or_nobody_sends_are_refused() {
    let daemon = TestDaemon::with_fake().start().await;
    let kept = daemon.home().join("stdin");
    let id = session(&daemon, "a", json!({ "record_stdin": kept })).await;
    let mut client = daemon.attach(&id, None).await;
    for kind in ["assistant", "system", "bash_command", "session_notice"] {
        client.send(&json!({ "type": kind, "planted": kind })).await;
        let refused = |frame: &Value| frame["type"] == "trunkline.error";
        let error = client.find("a refusal", refused).await;
        assert_eq!(error["code"], "invalid_line", "{kind}: {error:#}");
    }
    act_through(&daemon.rest(), &id, json!([{ "text": "and on" }])).await;
    let stdin = std::fs::read_to_string(kept).unwrap();
    assert!(!stdin.contains("planted"), "{stdin}");
}

#[tokio::test]
async fn a_client_takes_its_request_back_under_its_own_id() {
    let daemon = TestDaemon::with_fake().start().await;
    let settings = json!({ "controls": { "side_question": { "swallow": true } } });
    let id = session(&daemon, "a", settings).await;
    let mut client = daemon.attach(&id, None).await;
    let request = json!({ "subtype": "side_question", "question": "?" });
    client
        .send(&json!({ "type": "control_request", "request_id": "mine", "request": request }))
        .await;
    client
        .send(&json!({ "type": "control_cancel_request", "request_id": "mine" }))
        .await;
    let written = client
        .until("the line to the CLI", |frame| {
            frame["src"] == "client" && frame["data"]["type"] == "control_cancel_request"
        })
        .await;
    let asked = written
        .iter()
        .find(|frame| frame["data"]["type"] == "control_request")
        .unwrap();
    let taken_back = written.last().unwrap();
    assert_eq!(taken_back["data"]["request_id"], asked["data"]["request_id"]);
    assert_ne!(taken_back["data"]["request_id"], "mine");
}

#[tokio::test]
async fn every_known_hook_event_is_asked_and_answered_once() {
    let events: Vec<&str> = include_str!("../../fixtures/hook-events.txt").lines().collect();
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let hook = |event: &&str| {
        let output = json!({ "systemMessage": format!("heard of {event}") });
        json!({ "event": event, "target": { "type": "fixed", "output": output } })
    };
    let hooks: Value = events.iter().map(hook).collect();
    let id = session_with(&daemon, "a", json!({}), json!({ "hooks": hooks })).await;
    let ask = |(place, event): (usize, &&str)| {
        let input = json!({ "hook_event_name": event });
        let callback = format!("trunkline/{place}");
        let request = json!({ "subtype": "hook_callback", "callback_id": callback, "input": input });
        json!({ "request": request, "id": event })
    };
    let mut actions: Vec<Value> = events.iter().enumerate().map(ask).collect();
    actions.push(json!({ "text": "done" }));
    act_through(&rest, &id, Value::Array(actions)).await;
    let records = records(&rest, &id).await;
    let initialize = of_type(&records, "client", "control_request")[0];
    let heard = of_type(&records, "cli", "fake_answer");
    for event in events {
        let registered = &initialize["request"]["hooks"][event];
        assert_eq!(registered.as_array().map(Vec::len), Some(1), "{event}");
        let answers: Vec<_> = heard.iter().filter(|it| it["request_id"] == event).collect();
        assert_eq!(answers.len(), 1, "{event}: {answers:#?}");
        let output = json!({ "systemMessage": format!("heard of {event}") });
        assert_eq!(
            answers[0]["response"]["response"], output,
            "{event}: {answers:#?}"
        );
    }
}
