//! Owns the tests of hooks that a change of the launch options takes away, adds or leaves.

use serde_json::{Value, json};

use super::{acked, answer, asked, callback, error_code, hook_of};
use crate::{
    fake::bed::{act, of_type, records, session_with},
    support::{daemon::TestDaemon, rest::Rest},
};

async fn patch(rest: &Rest, id: &str, hooks: Value) -> Value {
    let body = json!({ "options": { "hooks": hooks } });
    rest.patch(&format!("/v1/sessions/{id}"), body).await.expect(200)
}

/// The CLI calls the hooks of the options in their order; each is its client's, and nobody else's.
async fn answered_by(daemon: &TestDaemon, id: &str, round: &str, owners: &[&str]) {
    let mut clients = Vec::new();
    for name in ["x", "y", "z"] {
        clients.push((name, daemon.attach_as(name, id, None).await));
    }
    let request = |number: usize| format!("{round}-{number}");
    let mut steps: Vec<_> = (0..owners.len())
        .map(|number| callback(&request(number), &format!("trunkline/{number}")))
        .collect();
    steps.push(json!({ "text": "done" }));
    let rest = daemon.rest();
    act(&rest, id, json!(steps)).await;
    for (number, owner) in owners.iter().enumerate() {
        let request = request(number);
        for (name, client) in clients.iter_mut().filter(|(name, _)| name != owner) {
            asked(client, &request).await;
            client.send(&answer(&request, json!({}))).await;
            assert_eq!(error_code(client).await, "request_not_owned", "{name}, {request}");
        }
        let (_, client) = clients.iter_mut().find(|(name, _)| name == owner).unwrap();
        asked(client, &request).await;
        client.send(&answer(&request, json!({}))).await;
        acked(client, &request).await;
    }
    rest.in_state(id, &["idle"]).await;
}

/// The hooks that the last process was given at its start.
async fn given(rest: &Rest, id: &str) -> Value {
    let records = records(rest, id).await;
    let requests = of_type(&records, "client", "control_request");
    let last = requests
        .iter()
        .rfind(|line| line["request"]["subtype"] == "initialize");
    last.unwrap()["request"]["hooks"].clone()
}

#[tokio::test]
async fn hooks_are_those_of_the_options_that_the_process_was_started_with() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let bash = |client: &str| hook_of(client, json!({ "matcher": "Bash" }));
    let options = json!({ "hooks": [bash("x"), bash("y")] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let view = patch(&rest, &id, json!([bash("y"), hook_of("z", json!({}))])).await;
    assert_eq!(view["needs_restart"], json!(["hooks"]), "{view:#}");

    // The process that runs has the old ones, whichever daemon serves it.
    answered_by(&daemon, &id, "old", &["x", "y"]).await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    rest.in_state(&id, &["idle"]).await;
    answered_by(&daemon, &id, "later", &["x", "y"]).await;
    assert_eq!(rest.session(&id).await["needs_restart"], json!(["hooks"]));

    // The next one does not know the hook of x, calls z, and goes on to call y.
    rest.lifecycle(&id, "restart?wait=ready", json!({}))
        .await
        .expect(200);
    let hooks = given(&rest, &id).await;
    let ids = |hooks: &Value| -> Vec<Value> {
        let matchers = hooks["PreToolUse"].as_array().unwrap();
        matchers
            .iter()
            .map(|it| json!([it["matcher"], it["hookCallbackIds"]]))
            .collect()
    };
    let expected = [json!(["Bash", ["trunkline/0"]]), json!([null, ["trunkline/1"]])];
    assert_eq!(ids(&hooks), expected, "{hooks:#}");
    answered_by(&daemon, &id, "new", &["y", "z"]).await;
    daemon.kill();
    daemon.start().await;
    answered_by(&daemon, &id, "again", &["y", "z"]).await;

    let rest = daemon.rest();
    patch(&rest, &id, Value::Null).await;
    rest.lifecycle(&id, "restart?wait=ready", json!({}))
        .await
        .expect(200);
    assert_eq!(given(&rest, &id).await, Value::Null);
}
