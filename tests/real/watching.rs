//! Owns the tests of watching and steering many sessions at once with real CLIs: the lobby, the one socket, a viewer, a ticket.

use serde_json::{Value, json};

use crate::{
    support::{event_stream::EventStream, programs::scripted, ws::Ws},
    world::{World, bash, text},
};

/// Reads the lobby up to a change of this session that `wanted` accepts; the session as it stood then.
async fn change(
    lobby: &mut EventStream,
    id: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool + Send + Sync,
) -> Value {
    let is_last = |data: &Value| data["session_id"] == id && wanted(&data["session"]);
    let mut events = lobby.until(what, is_last).await;
    events.pop().unwrap().data["session"].take()
}

/// A page looks on, as a viewer, while another client works on two sessions over one socket that it opened with a ticket.
#[tokio::test]
async fn one_socket_steers_two_agents_while_a_viewer_watches() {
    let world = World::start().await;
    let viewer = world.rest.with_token(Some(&world.daemon.viewer_token()));
    let mut lobby = EventStream::open(&viewer, "/v1/events", None).await;
    assert_eq!(lobby.next().await.data["total"], 0);
    let (one, two) = (world.session(json!({})).await, world.session(json!({})).await);
    for id in [&one, &two] {
        change(&mut lobby, id, "a ready session", |session| {
            session["state"] == "idle"
        })
        .await;
    }

    let ticket = json!({ "path": "/v1/ws" });
    let made = world.rest.post("/v1/tickets", ticket).await.expect(201);
    let path = format!("/v1/ws?ticket={}", text(&made, "ticket"));
    let mut socket = Ws::try_connect(world.daemon.url(), &path, &["trunkline.v1"], None)
        .await
        .unwrap();
    for id in [&one, &two] {
        socket
            .send(&json!({ "type": "trunkline.subscribe", "session_id": id }))
            .await;
    }
    let steps = [
        (&one, json!([bash("touch decided"), { "text": "one is done" }])),
        (&two, json!([{ "text": "two is done" }])),
    ];
    for (id, steps) in steps {
        let line = json!({ "session_id": id, "type": "user", "message": { "role": "user", "content": scripted(&steps) } });
        socket.send(&line).await;
    }
    let waiting = change(&mut lobby, &one, "a question", |session| {
        session["attention"]["reason"] == "decision"
    })
    .await;
    assert!(!world.exists("decided"), "nobody has decided");
    let asked = socket
        .find("the request", |frame| {
            frame["session_id"] == *one && frame["data"]["request"]["subtype"] == "can_use_tool"
        })
        .await;
    let approval = &waiting["pending_approvals"][0];
    assert_eq!(
        approval["tool_name"], asked["data"]["request"]["tool_name"],
        "{approval:#}"
    );

    // A viewer sees it and decides nothing.
    let decision = format!("/v1/sessions/{one}/approvals/{}", text(approval, "id"));
    let refused = viewer.post(&decision, json!({ "decision": "allow" })).await;
    assert_eq!(refused.problem(403), "role_forbidden");
    let answer = json!({ "behavior": "allow", "updatedInput": asked["data"]["request"]["input"] });
    let response =
        json!({ "subtype": "success", "request_id": asked["data"]["request_id"], "response": answer });
    socket
        .send(&json!({ "session_id": one, "type": "control_response", "response": response }))
        .await;
    for (id, said) in [(&one, "one is done"), (&two, "two is done")] {
        let result = socket
            .find("the result", |frame| {
                frame["session_id"] == *id && frame["data"]["type"] == "result"
            })
            .await;
        assert_eq!(result["data"]["result"], said, "{result:#}");
    }
    assert!(world.exists("decided"));
    let rested = change(&mut lobby, &one, "the end of the turn", |session| {
        session["state"] == "idle" && session["turns"] == 1
    })
    .await;
    assert_eq!(rested["attention"], Value::Null, "{rested:#}");
    let view = world.rest.session(&one).await;
    assert_eq!(rested["cost_usd"], view["cost_usd"]);
}
