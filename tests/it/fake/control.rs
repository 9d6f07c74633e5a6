//! Owns section C: control requests in both directions.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::{
    fake::bed::{
        act, act_through, answer_heard, body, of_type, path, pid, plain, records, session, session_with,
    },
    support::{
        daemon::TestDaemon,
        programs::fake_prompt,
        wait::{PATIENCE, wait_for},
    },
};

#[tokio::test]
async fn requests_after_a_result_are_answered() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    act(&rest, &id, json!([
        { "text": "first" },
        { "result": {} },
        { "request": { "subtype": "hook_callback", "callback_id": "h", "input": {} }, "id": "hook-1" },
        { "request": { "subtype": "mcp_message", "server_name": "s", "message": { "jsonrpc": "2.0", "id": 7, "method": "tools/list" } }, "id": "mcp-1" },
        { "turn": { "do": [{ "ask": { "ids": ["q-1"] } }, { "text": "second" }] } },
    ]))
    .await;
    client.cli_line("result").await;
    for request in ["hook-1", "mcp-1"] {
        let heard = answer_heard(&mut client, request).await;
        assert_eq!(heard["expected"], true, "{heard:#}");
        assert_eq!(heard["response"]["subtype"], "success", "{heard:#}");
    }
    let approval = rest.pending_approval(&id).await;
    assert_eq!(rest.session(&id).await["state"], "waiting");
    rest.decide(
        &id,
        approval["id"].as_str().unwrap(),
        json!({ "decision": "allow" }),
    )
    .await
    .expect(200);
    let second = client.cli_line("result").await;
    assert_eq!(second["result"], "second", "{second:#}");
    let view = rest.in_state(&id, &["idle"]).await;
    assert_eq!(view["turns"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_behind_a_flood_that_nobody_reads_is_answered() {
    let (daemon, rest, id) = plain().await;
    // Attached, and never reads.
    let _deaf = daemon.attach(&id, Some(0)).await;
    let answer = act_through(&rest, &id, json!([
        { "line": { "type": "assistant", "message": { "role": "assistant", "content": [] } }, "copies": 5000 },
        { "request": { "subtype": "hook_callback", "callback_id": "h", "input": {} }, "id": "hook-1" },
        { "text": "answered" },
    ]))
    .await;
    assert_eq!(answer["result"]["result"], "answered");
}

#[tokio::test]
async fn an_interrupt_stops_the_turn_and_spares_the_process() {
    let (daemon, rest, id) = plain().await;
    let before = pid(&rest, &id).await;
    let mut client = daemon.attach(&id, None).await;
    act(&rest, &id, json!([{ "text": "working" }, { "silent": 1 }])).await;
    client.cli_line("assistant").await;
    rest.lifecycle(&id, "interrupt", json!({})).await.expect(200);
    let result = client.cli_line("result").await;
    assert_eq!(result["subtype"], "error_during_execution", "{result:#}");
    act_through(&rest, &id, json!([{ "text": "next" }])).await;
    assert_eq!(pid(&rest, &id).await, before);
    let records = records(&rest, &id).await;
    let asked: Vec<_> = of_type(&records, "client", "control_request")
        .into_iter()
        .filter(|line| line["request"]["subtype"] == "interrupt")
        .collect();
    assert_eq!(asked.len(), 1);
    assert!(!asked[0]["request_id"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn an_interrupt_that_is_swallowed_ends_in_time_and_delete_works() {
    let daemon = TestDaemon::with_fake().start().await;
    let settings = json!({ "controls": { "interrupt": { "swallow": true } } });
    let id = session(&daemon, "a", settings).await;
    let rest = daemon.rest();
    act(&rest, &id, json!([{ "silent": 1 }])).await;
    let (stuck, view) = tokio::join!(rest.lifecycle(&id, "interrupt", json!({})), rest.session(&id));
    assert_eq!(stuck.problem(504), "control_timeout");
    assert_eq!(view["state"], "busy");
    let deleted = rest.delete(&format!("/v1/sessions/{id}")).await;
    assert_eq!(deleted.status, 204, "{:#}", deleted.body);
}

#[tokio::test]
async fn a_late_result_of_an_interrupted_turn_is_its_own() {
    let daemon = TestDaemon::with_fake().start().await;
    let gate = daemon.home().join("gate");
    let settings = json!({ "merge": false, "controls": { "interrupt": { "result_wait_file": gate } } });
    let id = session(&daemon, "a", settings).await;
    let rest = daemon.rest();
    let send = async |text: String| {
        let reply = rest
            .post(&path(&id, "messages"), json!({ "text": text }))
            .await
            .expect(202);
        reply["uuid"].as_str().unwrap().to_owned()
    };
    let a = send(fake_prompt(&json!([{ "text": "a begins" }, { "silent": 1 }]))).await;
    rest.in_state(&id, &["busy"]).await;
    let mut client = daemon.attach(&id, Some(0)).await;
    client.cli_line("assistant").await;
    rest.lifecycle(&id, "interrupt", json!({})).await.expect(200);
    let b = send(fake_prompt(
        &json!([{ "text": "b is done" }, { "result": {}, "cost": 0.5 }]),
    ))
    .await;
    fs::write(&gate, "").unwrap();
    let turns = wait_for("two turns", PATIENCE, async || {
        let turns = rest.turns(&id).await;
        (turns.len() == 2).then_some(turns)
    })
    .await;
    assert_eq!(turns[0]["prompts"], json!([a]), "{turns:#?}");
    assert_eq!(turns[0]["outcome"], "interrupted");
    assert_eq!(turns[1]["prompts"], json!([b]));
    assert_eq!(turns[1]["is_error"], false);
    assert!(
        (turns[1]["cost_usd"].as_f64().unwrap() - 0.5).abs() < 1e-9,
        "b's cost is b's"
    );
    rest.in_state(&id, &["idle"]).await;
}

#[tokio::test]
async fn a_slow_start_is_seen_and_prompts_wait() {
    let daemon = TestDaemon::with_fake().start().await;
    let gate = daemon.home().join("gate");
    let body = body(
        &daemon,
        "a",
        json!({ "init": { "wait_file": gate, "holds_prompts": true }, "merge": false }),
        json!({}),
    );
    let rest = daemon.rest();
    let view = rest.create(body).await;
    let id = view["id"].as_str().unwrap().to_owned();
    let mut uuids = Vec::new();
    for place in 0..20 {
        assert_eq!(rest.session(&id).await["state"], "starting");
        let reply = rest
            .post(&path(&id, "messages"), json!({ "text": format!("n {place}") }))
            .await
            .expect(202);
        uuids.push(reply["uuid"].clone());
    }
    assert_eq!(rest.turns(&id).await.len(), 0);
    fs::write(&gate, "").unwrap();
    let turns = wait_for("all turns", PATIENCE, async || {
        let turns = rest.turns(&id).await;
        (turns.len() == 20).then_some(turns)
    })
    .await;
    let answered: Vec<_> = turns.iter().map(|turn| turn["prompts"][0].clone()).collect();
    assert_eq!(answered, uuids);
    let records = records(&rest, &id).await;
    assert_eq!(of_type(&records, "client", "user").len(), 20);
}

#[tokio::test]
async fn a_start_that_takes_too_long_fails_with_the_reason() {
    let daemon = TestDaemon::with_fake()
        // Time enough for a CLI to say what it has to say.
        .env("TRUNKLINE_SESSIONS_START_TIMEOUT_MS", "5000")
        .start()
        .await;
    let settings = json!({ "init": { "never": true }, "start": [{ "stderr": "waiting for server x\n" }] });
    let reply = daemon
        .rest()
        .post("/v1/sessions?wait=ready", body(&daemon, "a", settings, json!({})))
        .await;
    let id = reply.body["session_id"].as_str().unwrap().to_owned();
    assert_eq!(reply.problem(502), "start_failed");
    let view = daemon.rest().in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "start_timed_out", "{view:#}");
    assert!(
        view["reason"]["detail"]
            .as_str()
            .unwrap()
            .contains("waiting for server x"),
        "{view:#}"
    );
}

#[tokio::test]
async fn a_mode_the_cli_refuses_is_an_error_and_not_shown() {
    let (daemon, rest, id) = plain().await;
    let refused = rest
        .put(
            &path(&id, "permission_mode"),
            json!({ "mode": "bypassPermissions" }),
        )
        .await;
    assert!(
        refused.body["detail"]
            .as_str()
            .unwrap()
            .contains("bypassPermissions"),
        "{:#}",
        refused.body
    );
    assert_eq!(refused.problem(409), "control_refused");
    assert_eq!(rest.session(&id).await["permission_mode"], "default");
    rest.put(&path(&id, "permission_mode"), json!({ "mode": "plan" }))
        .await
        .expect(200);
    assert_eq!(rest.session(&id).await["permission_mode"], "plan");

    let mut impossible = body(
        &daemon,
        "b",
        json!({}),
        json!({ "permission_mode": "bypassPermissions" }),
    );
    impossible["prompt"] = json!("hello");
    let refused = rest.post("/v1/sessions", impossible).await;
    assert_eq!(refused.problem(422), "invalid_option");
}

#[tokio::test]
async fn a_refused_flag_is_told_with_the_words_of_the_cli() {
    let daemon = TestDaemon::with_fake().start().await;
    let settings = json!({ "exit_at_start": { "code": 1, "stderr": "Error: permission tool not found\n" } });
    let reply = daemon
        .rest()
        .post("/v1/sessions?wait=ready", body(&daemon, "a", settings, json!({})))
        .await;
    assert!(
        reply.body["detail"]
            .as_str()
            .unwrap()
            .contains("permission tool not found"),
        "{:#}",
        reply.body
    );
    assert_eq!(reply.problem(502), "start_failed");
}

/// A CLI that takes the flag and then asks nobody.
#[tokio::test]
async fn a_cli_that_never_asks_is_pointed_out() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let writes = |name: &str| {
        let file = daemon.work_dir(name).join("made");
        let call = json!({ "type": "tool_use", "id": "t1", "name": "Write", "input": { "file_path": file, "content": "" } });
        let result = json!({ "type": "tool_result", "tool_use_id": "t1", "content": "done" });
        json!([
            { "line": { "type": "assistant", "message": { "role": "assistant", "content": [call] } } },
            { "line": { "type": "user", "message": { "role": "user", "content": [result] } } },
        ])
    };
    let silent = session(&daemon, "silent", json!({})).await;
    assert_eq!(rest.session(&silent).await["unasked_tool"], Value::Null);
    act_through(&rest, &silent, writes("silent")).await;
    assert_eq!(rest.session(&silent).await["unasked_tool"], "Write");
    for (name, options) in [
        ("edits", json!({ "permission_mode": "acceptEdits" })),
        ("allowed", json!({ "allowed_tools": ["Write(src/**)"] })),
    ] {
        let id = session_with(&daemon, name, json!({}), options).await;
        act_through(&rest, &id, writes(name)).await;
        assert_eq!(rest.session(&id).await["unasked_tool"], Value::Null, "{name}");
    }
    let asking = session(&daemon, "asking", json!({})).await;
    act(&rest, &asking, json!([{ "ask": { "ids": ["q-1"] } }])).await;
    let approval = rest.pending_approval(&asking).await;
    let approval = approval["id"].as_str().unwrap();
    rest.decide(&asking, approval, json!({ "decision": "allow" }))
        .await
        .expect(200);
    rest.in_state(&asking, &["idle"]).await;
    act_through(&rest, &asking, writes("asking")).await;
    assert_eq!(rest.session(&asking).await["unasked_tool"], Value::Null);

    daemon.kill();
    daemon.start().await;
    assert_eq!(daemon.rest().session(&silent).await["unasked_tool"], "Write");
}

#[tokio::test]
async fn equal_request_ids_of_clients_never_meet() {
    let daemon = TestDaemon::with_fake().start().await;
    let gate = daemon.home().join("gate");
    let settings = json!({ "controls": { "set_model": { "wait_file": gate } } });
    let id = session(&daemon, "a", settings).await;
    let mut clients = [daemon.attach(&id, None).await, daemon.attach(&id, None).await];
    for (client, model) in clients.iter_mut().zip(["model-a", "model-b"]) {
        client
            .send(&json!({ "type": "control_request", "request_id": "1", "request": { "subtype": "set_model", "model": model } }))
            .await;
    }
    // A repeat of an open id on one connection is refused.
    clients[0]
        .send(&json!({ "type": "control_request", "request_id": "1", "request": { "subtype": "interrupt" } }))
        .await;
    let refused = clients[0]
        .find("a refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(refused["request_id"], "1", "{refused:#}");
    fs::write(&gate, "").unwrap();
    for (client, model) in clients.iter_mut().zip(["model-a", "model-b"]) {
        let mine = |frame: &Value| frame["type"] == "control_response";
        let answer = client.until("the answer", mine).await.pop().unwrap();
        assert_eq!(answer["response"]["request_id"], "1", "{answer:#}");
        assert_eq!(answer["response"]["response"]["model"], model, "{answer:#}");
    }
    // The id is free again.
    clients[0]
        .send(
            &json!({ "type": "control_request", "request_id": "1", "request": { "subtype": "mcp_status" } }),
        )
        .await;
    clients[0]
        .until("another answer", |frame| frame["type"] == "control_response")
        .await;
    let records = records(&daemon.rest(), &id).await;
    let mut ids: Vec<_> = of_type(&records, "client", "control_request")
        .iter()
        .map(|line| line["request_id"].as_str().unwrap())
        .collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "the CLI saw an id twice");
    assert!(!ids.contains(&"1"));
}

#[tokio::test]
async fn equal_request_ids_of_two_clis_never_meet() {
    let (daemon, rest, a) = plain().await;
    let b = session(&daemon, "b", json!({})).await;
    for id in [&a, &b] {
        act(&rest, id, json!([{ "ask": { "ids": ["same"] } }])).await;
    }
    let (of_a, of_b) = (rest.pending_approval(&a).await, rest.pending_approval(&b).await);
    let of_a = of_a["id"].as_str().unwrap();
    // An approval belongs to its session.
    let crossed = rest.decide(&b, of_a, json!({ "decision": "allow" })).await;
    assert_eq!(crossed.problem(404), "approval_not_found");
    rest.decide(&a, of_a, json!({ "decision": "allow" }))
        .await
        .expect(200);
    rest.in_state(&a, &["idle"]).await;
    assert_eq!(rest.session(&b).await["state"], "waiting");
    rest.decide(&b, of_b["id"].as_str().unwrap(), json!({ "decision": "deny" }))
        .await
        .expect(200);
    rest.in_state(&b, &["idle"]).await;
}

#[tokio::test]
async fn what_nobody_can_answer_gets_a_stated_answer_in_bounded_time() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_OFFER_MS", "500")
        .start()
        .await;
    let rest = daemon.rest();
    for attached in [false, true] {
        let id = session(&daemon, &format!("w{attached}"), json!({})).await;
        let silent = if attached {
            Some(daemon.attach(&id, None).await)
        } else {
            None
        };
        act_through(
            &rest,
            &id,
            json!([
                { "request": { "subtype": "request_user_dialog", "payload": {} }, "id": "r-1" },
                { "request": { "subtype": "brand_new_thing", "x": 1 }, "id": "r-2" },
                { "request": { "subtype": "hook_callback", "callback_id": "h", "input": {} }, "id": "r-3" },
            ]),
        )
        .await;
        drop(silent);
        let mut client = daemon.attach(&id, Some(0)).await;
        for request in ["r-1", "r-2"] {
            let heard = answer_heard(&mut client, request).await;
            assert_eq!(
                heard["response"]["subtype"], "error",
                "no invented decision: {heard:#}"
            );
        }
        let heard = answer_heard(&mut client, "r-3").await;
        assert_eq!(heard["response"]["response"], json!({}), "no opinion: {heard:#}");
        let records = wait_for("each is stated", PATIENCE, async || {
            let records = records(&rest, &id).await;
            (of_type(&records, "daemon", "fallback").len() == 3).then_some(records)
        })
        .await;
        assert_eq!(of_type(&records, "cli", "fake_answer").len(), 3, "once each");
    }
}

#[tokio::test]
async fn in_process_mcp_is_served_before_initialize_is_answered() {
    let daemon = TestDaemon::with_fake().start().await;
    let settings = json!({ "before_init": [
        { "request": { "subtype": "mcp_message", "server_name": "s", "message": { "jsonrpc": "2.0", "id": 0, "method": "initialize" } }, "id": "m-1" },
        { "request": { "subtype": "mcp_message", "server_name": "s", "message": { "jsonrpc": "2.0", "id": 1, "method": "tools/list" } }, "id": "m-2" },
    ] });
    let id = session(&daemon, "a", settings).await;
    let mut client = daemon.attach(&id, Some(0)).await;
    for (request, number) in [("m-1", 0), ("m-2", 1)] {
        let heard = answer_heard(&mut client, request).await;
        let answer = &heard["response"]["response"]["mcp_response"];
        assert_eq!(answer["id"], number, "{heard:#}");
        assert!(answer["error"]["message"].is_string());
    }
}

#[tokio::test]
async fn a_waiter_for_a_result_hears_of_the_end_of_the_process() {
    let (_daemon, rest, id) = plain().await;
    let text = fake_prompt(&json!([{ "text": "begun" }, { "exit": 3 }]));
    let messages = path(&id, "messages?wait=result");
    let waiting = rest.post(&messages, json!({ "text": text }));
    let reply = tokio::time::timeout(Duration::from_secs(20), waiting)
        .await
        .unwrap();
    assert!(
        reply.status.is_client_error() || reply.body["turn"]["subtype"] == "interrupted",
        "{:#}",
        reply.body
    );
    assert_eq!(
        rest.in_state(&id, &["failed"]).await["reason"]["code"],
        "cli_exited"
    );
}
