//! Owns the test of a whole conversation over the WebSocket alone.

use serde_json::{Value, json};

use crate::{
    support::programs::scripted,
    world::{World, bash, fresh_id},
};

#[tokio::test]
async fn a_conversation_needs_nothing_but_the_socket() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let mut operator = world.daemon.attach(&id, None).await;
    let mut watcher = world.daemon.attach(&id, None).await;
    let prompt = scripted(&json!([bash("touch made.txt"), { "text": "All done." }]));
    let uuid = fresh_id();
    operator
        .send(&json!({ "type": "user", "message": { "role": "user", "content": prompt }, "uuid": uuid }))
        .await;
    let ack = operator
        .find("the acknowledgement", |frame| frame["type"] == "trunkline.ack")
        .await;
    assert_eq!((&ack["for"], &ack["uuid"]), (&json!("user"), &json!(uuid)));
    let record = watcher
        .find("the prompt", |frame| frame["seq"] == ack["seq"])
        .await;
    assert_eq!(
        (&record["src"], &record["data"]["uuid"]),
        (&json!("client"), &json!(uuid))
    );

    let asked = operator.cli_line("control_request").await;
    assert_eq!(asked["request"]["subtype"], "can_use_tool");
    let answer = json!({ "behavior": "allow", "updatedInput": asked["request"]["input"] });
    let response = json!({ "subtype": "success", "request_id": asked["request_id"], "response": answer });
    operator
        .send(&json!({ "type": "control_response", "response": response }))
        .await;
    let decision = watcher
        .find("the decision", |frame| frame["data"]["type"] == "decision")
        .await;
    assert_eq!(decision["data"]["state"], "allowed");
    let by = decision["data"]["by"].as_str().unwrap();
    assert!(by.starts_with("ws:"), "{by}");
    let result = operator.cli_line("result").await;
    assert_eq!(result["result"], "All done.");
    assert!(world.exists("made.txt"));
    assert_eq!(watcher.cli_line("result").await, result);

    // A control request comes back under the client's own id, to nobody else.
    let request = json!({ "subtype": "set_permission_mode", "mode": "plan" });
    operator
        .send(&json!({ "type": "control_request", "request_id": "mine", "request": request }))
        .await;
    let own = |frame: &Value| frame["type"] == "control_response";
    let reply = operator.find("the answer", own).await;
    assert_eq!(reply["response"]["request_id"], "mine");
    assert_eq!(reply["response"]["subtype"], "success");
    assert_eq!(world.rest.session(&id).await["permission_mode"], "plan");
    let frames = watcher
        .until("the answer as a record", |frame| {
            frame["data"]["type"] == "control_response" && frame["src"] == "cli"
        })
        .await;
    assert!(!frames.iter().any(own), "an answer reached the wrong client");
    assert_ne!(frames.last().unwrap()["data"]["response"]["request_id"], "mine");
    operator.close().await;
    watcher.close().await;
}
