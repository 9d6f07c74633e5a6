//! Owns the tests of interrupts: of a tool, of a stream, of a request that nobody has answered.

use serde_json::json;

use crate::{
    support::wait::{PATIENCE, wait_for, wait_until},
    world::{World, bash, endless, marked, marker, pid, text},
};

async fn interrupt(world: &World, id: &str) {
    let reply = world.rest.lifecycle(id, "interrupt", json!({})).await.expect(200);
    assert_eq!(reply["response"]["still_queued"], json!([]));
}

/// The turn was interrupted, and the same process takes the next prompt.
async fn goes_on(world: &World, id: &str, process: i32, reason: &str) {
    world.idle_after(id, 1).await;
    let turn = world.rest.turns(id).await.remove(0);
    assert_eq!(turn["subtype"], "error_during_execution");
    assert_eq!(turn["terminal_reason"], reason);
    assert_eq!(
        (&turn["outcome"], &turn["is_error"]),
        (&json!("interrupted"), &json!(false))
    );
    assert_eq!(world.answer(id, json!([{ "text": "after" }])).await, "after");
    assert_eq!(pid(&world.rest.session(id).await), process);
}

#[tokio::test]
async fn an_interrupt_ends_the_tool() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    let process = pid(&world.rest.session(&id).await);
    let marker = marker();
    world.prompt(&id, json!([bash(&endless(&marker))])).await;
    world.made("started").await;
    wait_until("the tool runs", PATIENCE, || !marked(&marker).is_empty()).await;
    interrupt(&world, &id).await;
    wait_until("the tool is gone", PATIENCE, || marked(&marker).is_empty()).await;
    goes_on(&world, &id, process, "aborted_tools").await;
}

#[tokio::test]
async fn an_interrupt_ends_the_stream() {
    let world = World::start().await;
    let id = world.session(json!({ "include_partial_messages": true })).await;
    let process = pid(&world.rest.session(&id).await);
    let mut ws = world.daemon.attach(&id, None).await;
    let step =
        json!({ "text": "one two three four five six", "chunk_size": 4, "wait": "held", "wait_at": 5 });
    world.prompt(&id, json!([step])).await;
    world.api.at_gate("held").await;
    ws.until("a delta", |frame| {
        frame["data"]["event"]["delta"]["type"] == "text_delta"
    })
    .await;
    interrupt(&world, &id).await;
    goes_on(&world, &id, process, "aborted_streaming").await;
}

#[tokio::test]
async fn an_interrupt_withdraws_what_was_asked() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let process = pid(&world.rest.session(&id).await);
    world.prompt(&id, json!([bash("touch made.txt")])).await;
    let approval = world.rest.pending_approval(&id).await;
    interrupt(&world, &id).await;
    goes_on(&world, &id, process, "aborted_tools").await;
    let ended = world.approval(&id, &approval).await;
    assert_eq!(ended["state"], "withdrawn");
    assert_eq!(ended["resolution"]["by"], "cli");
    let late = world
        .rest
        .decide(&id, &text(&approval, "id"), json!({ "decision": "allow" }))
        .await;
    assert_eq!(late.body["approval"]["state"], "withdrawn");
    assert_eq!(late.problem(409), "approval_not_pending");
    assert!(!world.exists("made.txt"));
}

#[tokio::test]
async fn an_interrupt_withdraws_all_that_was_asked_at_once() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let read = |path: &str| json!({ "name": "Read", "input": { "file_path": path } });
    let reads = json!([read("/etc/hostname"), read("/etc/hosts"), read("/etc/fstab")]);
    world.prompt(&id, json!([{ "tools": reads }])).await;
    let approvals = wait_for("all three are asked", PATIENCE, async || {
        let view = world.rest.session(&id).await;
        let pending = view["pending_approvals"].as_array().unwrap().clone();
        (pending.len() == 3).then_some(pending)
    })
    .await;
    // One is answered before; the others go.
    let allow = json!({ "decision": "allow" });
    world.decide(&id, &approvals[1], allow).await;
    let view = world.rest.session(&id).await;
    assert_eq!(view["state"], "waiting");
    assert_eq!(view["pending_approvals"].as_array().unwrap().len(), 2);
    interrupt(&world, &id).await;
    let view = world.idle_after(&id, 1).await;
    assert_eq!(view["pending_approvals"], json!([]));
    let mut states = Vec::new();
    for approval in &approvals {
        states.push(text(&world.approval(&id, approval).await, "state"));
    }
    assert_eq!(states, ["withdrawn", "allowed", "withdrawn"]);
    // A later answer changes nothing.
    let mut client = world.daemon.attach(&id, None).await;
    for (approval, code) in
        approvals
            .iter()
            .zip(["approval_not_pending", "already_decided", "approval_not_pending"])
    {
        let late = world
            .rest
            .decide(&id, &text(approval, "id"), json!({ "decision": "deny" }))
            .await;
        assert_eq!(late.problem(409), code);
        let response = json!({ "subtype": "success", "request_id": approval["request_id"],
            "response": { "behavior": "allow" } });
        client
            .send(&json!({ "type": "control_response", "response": response }))
            .await;
        let refusal = client
            .find("the refusal", |frame| frame["type"] == "trunkline.error")
            .await;
        assert_eq!(refusal["code"], code, "{refusal:#}");
    }
    let inbox = world.rest.get("/v1/approvals?state=pending").await.expect(200);
    assert_eq!(inbox["items"], json!([]));
    let records = world.rest.events(&id, 0).await;
    let answers = records
        .iter()
        .filter(|record| record["src"] == "client" && record["data"]["type"] == "control_response");
    assert_eq!(answers.count(), 1, "only the one that was in time");
}

#[tokio::test]
async fn an_interrupt_drops_queued_prompts_only_if_it_is_told_to() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    for (gate, cancel) in [("first", true), ("second", false)] {
        let turns = world.rest.session(&id).await["turns"].as_u64().unwrap();
        let held = json!([{ "text": "held back", "wait": gate, "wait_at": 1 }]);
        world.prompt(&id, held).await;
        world.api.at_gate(gate).await;
        let queued = world.prompt(&id, json!([{ "text": "the queued one" }])).await;
        wait_for("it is queued", PATIENCE, async || {
            let view = world.rest.session(&id).await;
            (view["open_prompts"][1]["state"] == "queued").then_some(())
        })
        .await;
        let body = json!({ "cancel_queued": cancel });
        let reply = world.rest.lifecycle(&id, "interrupt", body).await.expect(200);
        let list = if cancel { "cancelled" } else { "still_queued" };
        assert_eq!(reply["response"][list], json!([queued]), "{reply:#}");
        let ended = if cancel { 1 } else { 2 };
        let view = world.idle_after(&id, turns + ended).await;
        assert_eq!(view["open_prompts"], json!([]));
        let last = world.rest.turns(&id).await.pop().unwrap();
        assert_eq!(last["prompts"] == json!([queued]), !cancel, "{last:#}");
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_wait_for_a_retry() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let process = pid(&world.rest.session(&id).await);
    let mut ws = world.daemon.attach(&id, None).await;
    let busy = json!([{ "status": 529, "times": -1 }]);
    world.prompt(&id, busy).await;
    ws.until("a retry", |frame| frame["data"]["subtype"] == "api_retry")
        .await;
    interrupt(&world, &id).await;
    goes_on(&world, &id, process, "aborted_streaming").await;
}
