//! Owns CLIs that print garbage, of every kind that can be had.

use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, body, path, plain, records},
    support::daemon::TestDaemon,
};

#[tokio::test]
async fn garbage_at_the_start_ends_in_a_reason_and_never_in_a_hang() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    for (name, stdout) in [
        ("text", "Segmentation fault\nwhat?\n"),
        ("half", r#"{"type":"system","subtype":"init","sess"#),
        ("array", "[1,2,3]\n\"text\"\nnull\n7\n"),
        (
            "control",
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"nobody","response":null}}"#,
        ),
        ("braces", "}}}}{{{{\n"),
        ("nothing", "\n\n\r\n \n"),
    ] {
        let settings = json!({ "exit_at_start": { "code": 2, "stdout": stdout } });
        let reply = rest
            .post(
                "/v1/sessions?wait=ready",
                body(&daemon, name, settings, json!({})),
            )
            .await;
        let id = reply.body["session_id"].as_str().unwrap().to_owned();
        assert_eq!(reply.problem(502), "start_failed");
        records(&rest, &id).await;
        assert_eq!(rest.delete(&format!("/v1/sessions/{id}")).await.status, 204);
    }
}

#[tokio::test]
async fn lines_that_look_like_the_protocol_and_are_not_do_no_harm() {
    let (daemon, rest, id) = plain().await;
    let lines = [
        r#"{"type":"result"}"#,
        r#"{"type":"control_request"}"#,
        r#"{"type":"control_request","request_id":"r","request":"text"}"#,
        r#"{"type":"control_request","request_id":{"a":1},"request":{"subtype":"can_use_tool"}}"#,
        r#"{"type":"control_response","response":[]}"#,
        r#"{"type":"control_cancel_request"}"#,
        r#"{"type":"command_lifecycle","command_uuid":"not-a-uuid","state":"started"}"#,
        r#"{"type":"command_lifecycle","state":5}"#,
        r#"{"type":"system","subtype":"init","session_id":"../../etc"}"#,
        r#"{"type":"system","subtype":["init"]}"#,
        r#"{"type":"stream_event","event":null}"#,
        r#"{"type":"assistant","message":"text"}"#,
        r#"{"type":"user","message":{"role":"user","content":{"deep":[[[[[[[[]]]]]]]]}}}"#,
        r#"{"type":"a","type":"result","total_cost_usd":1e999}"#,
    ];
    // Outside of a turn, so that a made-up result can close none.
    let mut actions = vec![json!({ "text": "one" }), json!({ "result": {} })];
    actions.extend(lines.iter().map(|line| json!({ "raw": line })));
    // The garbage comes behind the result that this waits for, and before the next turn.
    act_through(&rest, &id, Value::Array(actions)).await;
    let answer = act_through(&rest, &id, json!([{ "text": "two" }])).await;
    assert_eq!(answer["result"]["result"], "two");
    let view = rest.in_state(&id, &["idle"]).await;
    assert!(view["cost_usd"].as_f64().unwrap() < 0.01, "{view:#}");
    let journal = daemon.journal(&id);
    for line in lines {
        assert!(journal.contains(line), "{line}");
    }
    rest.get(&path(&id, "messages")).await.expect(200);
    rest.get(&path(&id, "events")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_thirty_megabytes_passes() {
    let (daemon, rest, id) = plain().await;
    act_through(
        &rest,
        &id,
        json!([{ "big": 30_000_000 }, { "result": { "result": "short" } }]),
    )
    .await;
    let journal = daemon.journal(&id);
    assert!(journal.len() > 30_000_000);
    act_through(&rest, &id, json!([{ "text": "and on" }])).await;
}

#[tokio::test]
async fn half_a_line_at_the_end_is_kept_and_breaks_nothing() {
    let (_daemon, rest, id) = plain().await;
    act(
        &rest,
        &id,
        json!([{ "raw": r#"{"type":"assistant","mess"#, "no_newline": 1 }, { "exit": 1 }]),
    )
    .await;
    rest.in_state(&id, &["failed"]).await;
    let found = records(&rest, &id).await;
    let half = found.iter().find(|record| record["src"] == "stdout_text");
    assert_eq!(half.unwrap()["data"]["text"], r#"{"type":"assistant","mess"#);
}
