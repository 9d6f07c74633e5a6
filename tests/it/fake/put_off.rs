//! Owns what becomes of a call that a hook put off, once the conversation that it belongs to is left.

use serde_json::{Value, json};

use crate::{
    fake::bed::{act, session},
    support::{daemon::TestDaemon, rest::Rest},
};

/// The end of a turn whose call a hook put off.
fn deferral() -> Value {
    let call = json!({ "id": "toolu_1", "name": "Bash", "input": { "command": "ls" } });
    json!({ "result": { "terminal_reason": "tool_deferred", "deferred_tool_use": call } })
}

async fn is_withdrawn(rest: &Rest, id: &str, approval: &Value) {
    let approval = approval["id"].as_str().unwrap();
    let path = format!("/v1/sessions/{id}/approvals/{approval}");
    let ended = rest.get(&path).await.expect(200);
    assert_eq!(ended["state"], "withdrawn", "{ended:#}");
    let late = rest.decide(id, approval, json!({ "decision": "allow" })).await;
    assert_eq!(late.problem(409), "approval_not_pending");
    rest.ask(id, "and now?").await;
}

#[tokio::test]
async fn a_fresh_start_leaves_a_call_that_was_put_off_behind() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    act(&rest, &id, json!([deferral()])).await;
    let approval = rest.pending_approval(&id).await;
    assert_eq!(approval["kind"], "deferred", "{approval:#}");
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    assert_eq!(
        rest.pending_approval(&id).await["id"],
        approval["id"],
        "a resume keeps it"
    );
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({ "fresh": true }))
        .await
        .expect(200);
    is_withdrawn(&rest, &id, &approval).await;
}

#[tokio::test]
async fn a_new_conversation_of_the_cli_leaves_a_call_that_was_put_off_behind() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let gate = daemon.home().join("gate");
    let reset = json!({ "type": "conversation_reset", "trigger": "clear" });
    let actions = json!([deferral(), { "wait_file": gate }, { "line": reset }]);
    act(&rest, &id, actions).await;
    let approval = rest.pending_approval(&id).await;
    std::fs::write(&gate, "").unwrap();
    rest.in_state(&id, &["idle"]).await;
    is_withdrawn(&rest, &id, &approval).await;
}
