//! Owns the tests of hooks that named clients registered: each later process has them from its first line.

use serde_json::{Value, json};

use super::{crash, daemon, last_request, lines, park, session};
use crate::{
    fake::bed::{act, answer_heard},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for},
        ws::Ws,
    },
};

async fn register(client: &mut Ws, id: &str, hooks: Value) -> Value {
    let request = json!({ "subtype": "initialize", "hooks": hooks });
    client
        .send(&json!({ "type": "control_request", "request_id": id, "request": request }))
        .await;
    client
        .find("the answer", |frame| frame["response"]["request_id"] == id)
        .await
}

fn guard() -> Value {
    json!({ "PreToolUse": [{ "matcher": "Bash", "hookCallbackIds": ["p"], "onFailure": "block" }] })
}

/// As the CLI gets it.
fn carried() -> Value {
    json!({ "PreToolUse": [{ "matcher": "Bash", "hookCallbackIds": ["x/p"], "onFailure": "block", "timeout": 60 }] })
}

/// How often any CLI was initialized, and the hooks of the last time.
fn initialized(daemon: &TestDaemon) -> (usize, Value) {
    let lines = lines(daemon);
    let initializes = lines
        .iter()
        .filter(|line| line["request"]["subtype"] == "initialize");
    (
        initializes.count(),
        last_request(daemon, "initialize")["hooks"].clone(),
    )
}

/// The CLI calls the hook of `x`, which answers.
async fn calls(rest: &Rest, id: &str, client: &mut Ws, request: &str) {
    let input = json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash" });
    let call = json!({ "subtype": "hook_callback", "callback_id": "x/p", "input": input });
    act(
        rest,
        id,
        json!([{ "request": call, "id": request }, { "text": "done" }]),
    )
    .await;
    client
        .until("the call", |frame| frame["data"]["request_id"] == request)
        .await;
    client
        .send(&json!({ "type": "control_response", "response": { "subtype": "success", "request_id": request, "response": {} } }))
        .await;
    answer_heard(client, request).await;
    rest.in_state(id, &["idle"]).await;
}

#[tokio::test]
async fn hooks_of_a_named_client_are_in_the_first_line_of_later_processes() {
    let mut daemon = daemon().await;
    let id = session(&daemon, json!({}), json!({})).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    register(&mut client, "1", guard()).await;
    // A client without a name cannot come back to a later process.
    let mut nobody = daemon.attach(&id, None).await;
    register(
        &mut nobody,
        "1",
        json!({ "Stop": [{ "hookCallbackIds": ["s"] }] }),
    )
    .await;
    let mut number = 3;
    assert_eq!(initialized(&daemon).0, number);
    for end in ["crash", "stop", "restart", "death"] {
        let rest = daemon.rest();
        match end {
            "crash" => crash(&rest, &id).await,
            "stop" => {
                rest.lifecycle(&id, "stop", json!({})).await.expect(200);
                rest.lifecycle(&id, "resume?wait=ready", json!({}))
                    .await
                    .expect(200);
            }
            "restart" => drop(
                rest.lifecycle(&id, "restart?wait=ready", json!({}))
                    .await
                    .expect(200),
            ),
            _ => {
                daemon.kill();
                daemon.start().await;
                client = daemon.attach_as("x", &id, None).await;
                daemon
                    .rest()
                    .lifecycle(&id, "restart?wait=ready", json!({}))
                    .await
                    .expect(200);
            }
        }
        number += 1;
        assert_eq!(initialized(&daemon), (number, carried()), "after the {end}");
        calls(&daemon.rest(), &id, &mut client, end).await;
        // An SDK registers first thing.
        let answer = register(&mut client, end, guard()).await;
        assert_eq!(answer["response"]["subtype"], "success", "{answer:#}");
        assert_eq!(
            initialized(&daemon).0,
            number,
            "after the {end} the CLI was asked"
        );
    }
    register(&mut client, "last", json!({})).await;
    daemon
        .rest()
        .lifecycle(&id, "restart?wait=ready", json!({}))
        .await
        .expect(200);
    assert_eq!(initialized(&daemon), (number + 2, Value::Null));
}

#[tokio::test]
async fn hooks_that_wake_a_session_leave_those_of_an_absent_client() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_RETURN_GRACE_MS", "200")
        .start()
        .await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({})).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    register(&mut client, "1", guard()).await;
    drop(client);
    wait_for("nobody is waited for", PATIENCE, async || {
        let parked = rest.lifecycle(&id, "park", json!({})).await;
        parked.status.is_success().then_some(())
    })
    .await;
    let mut other = daemon.attach_as("y", &id, None).await;
    register(&mut other, "1", json!({ "Stop": [{ "hookCallbackIds": ["s"] }] })).await;
    let mut expected = carried();
    expected["Stop"] = json!([{ "hookCallbackIds": ["y/s"], "timeout": 60 }]);
    let (_, hooks) = initialized(&daemon);
    assert_eq!(hooks, expected);
    // A fork has clients of its own.
    let fork = rest
        .lifecycle(&id, "fork?wait=ready", json!({}))
        .await
        .expect(201);
    assert_eq!(initialized(&daemon).1, Value::Null);
    park(&rest, fork["id"].as_str().unwrap()).await;
}
