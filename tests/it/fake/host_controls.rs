//! Owns what a host asks the CLI, where the CLI must be slow, silent or wrong: waits, deadlines, interrupts, refusals.

mod order;

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use trunkline::domain::SessionId;

use crate::{
    fake::bed::{act, act_through, body, of_type, path, plain, records, session},
    support::{
        daemon::TestDaemon,
        programs::fake_prompt,
        rest::Rest,
        wait::{PATIENCE, wait_for},
        ws::Ws,
    },
};

async fn control(rest: &Rest, id: &str, request: Value) -> crate::support::rest::Reply {
    rest.post(&path(id, "control"), request).await
}

async fn ask(client: &mut Ws, id: &str, request: Value) {
    let line = json!({ "type": "control_request", "request_id": id, "request": request });
    client.send(&line).await;
}

/// The CLI's answer to, or the daemon's error about, a request of this client.
async fn outcome(client: &mut Ws, id: &str) -> Value {
    let about = |frame: &Value| {
        (frame["type"] == "control_response" && frame["response"]["request_id"] == id)
            || (frame["type"] == "trunkline.error" && frame["request_id"] == id)
    };
    client.find(&format!("the outcome of {id}"), about).await
}

/// Sends a prompt over the socket and returns its id once the session has it.
async fn prompt(client: &mut Ws, actions: Value) -> String {
    let uuid = SessionId::new().to_string();
    let message = json!({ "role": "user", "content": fake_prompt(&actions) });
    client
        .send(&json!({ "type": "user", "message": message, "uuid": uuid }))
        .await;
    // Lines of one client are taken in their order.
    ask(client, "behind", json!({ "subtype": "mcp_status" })).await;
    outcome(client, "behind").await;
    uuid
}

async fn two_turns(rest: &Rest, id: &str) -> Vec<Value> {
    wait_for("two turns have ended", PATIENCE, async || {
        let turns = rest.turns(id).await;
        (turns.len() == 2).then_some(turns)
    })
    .await
}

/// The requests with this subtype that were written to the CLI.
async fn sent(rest: &Rest, id: &str, subtype: &str) -> Vec<Value> {
    let records = records(rest, id).await;
    of_type(&records, "client", "control_request")
        .into_iter()
        .filter(|line| line["request"]["subtype"] == subtype)
        .cloned()
        .collect()
}

/// A session whose CLI answers `initialize` once the file `gate` is there.
async fn starting(daemon: &TestDaemon, settings: Value) -> String {
    let mut settings = settings;
    settings["init"] = json!({ "wait_file": daemon.home().join("gate") });
    let view = daemon
        .rest()
        .create(body(daemon, "slow", settings, json!({})))
        .await;
    view["id"].as_str().unwrap().to_owned()
}

fn open_gate(daemon: &TestDaemon) {
    fs::write(daemon.home().join("gate"), "").unwrap();
}

#[tokio::test]
async fn what_is_asked_during_a_slow_start_waits_for_it_in_order() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = starting(&daemon, json!({})).await;
    let mut client = daemon.attach(&id, None).await;
    ask(
        &mut client,
        "first",
        json!({ "subtype": "set_model", "model": "one" }),
    )
    .await;
    ask(
        &mut client,
        "taken back",
        json!({ "subtype": "set_model", "model": "two" }),
    )
    .await;
    let cancel = json!({ "type": "control_cancel_request", "request_id": "taken back" });
    client.send(&cancel).await;
    let taken_back = outcome(&mut client, "taken back").await;
    assert_eq!(taken_back["code"], "request_cancelled", "{taken_back:#}");
    // An interrupt does not wait.
    ask(&mut client, "stop", json!({ "subtype": "interrupt" })).await;
    let stopped = outcome(&mut client, "stop").await;
    assert_eq!(stopped["response"]["subtype"], "success", "{stopped:#}");
    assert_eq!(sent(&rest, &id, "set_model").await, Vec::<Value>::new());
    assert_eq!(rest.session(&id).await["state"], "starting");

    let posting = TaskTracker::new().spawn({
        let (rest, route) = (rest.clone(), path(&id, "model"));
        async move { rest.put(&route, json!({ "model": "three" })).await }
    });
    // The next request of the same socket comes after the first request at least.
    ask(&mut client, "last", json!({ "subtype": "mcp_status" })).await;
    ask(&mut client, "stop", json!({ "subtype": "interrupt" })).await;
    outcome(&mut client, "stop").await;
    open_gate(&daemon);
    let answer = posting.await.unwrap().expect(200);
    assert_eq!(answer["response"]["model"], "three");
    assert_eq!(
        outcome(&mut client, "first").await["response"]["response"]["model"],
        "one"
    );
    outcome(&mut client, "last").await;
    let models = sent(&rest, &id, "set_model").await;
    let models: Vec<_> = models.iter().map(|line| &line["request"]["model"]).collect();
    assert_eq!(models.len(), 2, "{models:?}");
    assert!(models.contains(&&json!("one")) && models.contains(&&json!("three")));
    let records = records(&rest, &id).await;
    let ready = records
        .iter()
        .position(|it| it["data"]["response"]["request_id"] == "trunkline-initialize");
    let first = records
        .iter()
        .position(|it| it["data"]["request"]["model"] == "one");
    let last = records
        .iter()
        .position(|it| it["data"]["request"]["subtype"] == "mcp_status");
    assert!(ready < first && first < last, "{ready:?} {first:?} {last:?}");
}

#[tokio::test]
async fn what_waits_for_a_start_that_fails_is_told() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = starting(&daemon, json!({})).await;
    let mut client = daemon.attach(&id, None).await;
    ask(
        &mut client,
        "1",
        json!({ "subtype": "set_model", "model": "one" }),
    )
    .await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let outcome = outcome(&mut client, "1").await;
    assert_eq!(outcome["code"], "session_not_live", "{outcome:#}");
    let late = control(&rest, &id, json!({ "subtype": "mcp_status" })).await;
    assert_eq!(late.problem(409), "session_not_live");
}

#[tokio::test]
async fn a_restart_of_the_daemon_during_a_start_leaves_nothing_hanging() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let id = starting(&daemon, json!({})).await;
    let mut client = daemon.attach(&id, None).await;
    ask(
        &mut client,
        "lost",
        json!({ "subtype": "set_model", "model": "lost" }),
    )
    .await;
    ask(&mut client, "stop", json!({ "subtype": "interrupt" })).await;
    outcome(&mut client, "stop").await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let posting = TaskTracker::new().spawn({
        let (rest, route) = (rest.clone(), path(&id, "model"));
        async move { rest.put(&route, json!({ "model": "new" })).await }
    });
    let mut client = daemon.attach(&id, None).await;
    ask(
        &mut client,
        "2",
        json!({ "subtype": "set_model", "model": "newer" }),
    )
    .await;
    open_gate(&daemon);
    assert_eq!(posting.await.unwrap().expect(200)["response"]["model"], "new");
    assert_eq!(
        outcome(&mut client, "2").await["response"]["response"]["model"],
        "newer"
    );
    let models = sent(&rest, &id, "set_model").await;
    assert_eq!(
        models.len(),
        2,
        "what was lost is not sent by itself: {models:#?}"
    );
}

#[tokio::test]
async fn a_deadline_holds_on_a_socket_and_a_late_answer_goes_to_nobody() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("late");
    let settings = json!({ "controls": { "interrupt": { "wait_file": gate } } });
    let id = session(&daemon, "a", settings).await;
    let mut client = daemon.attach(&id, None).await;
    let mut other = daemon.attach(&id, None).await;
    ask(&mut client, "1", json!({ "subtype": "interrupt" })).await;
    let late = outcome(&mut client, "1").await;
    assert_eq!(late["type"], "trunkline.error", "{late:#}");
    assert_eq!(late["code"], "control_timeout");
    let asked = sent(&rest, &id, "interrupt").await.remove(0);
    let taken_back = wait_for("the CLI is told", PATIENCE, async || {
        let records = records(&rest, &id).await;
        of_type(&records, "client", "control_cancel_request")
            .first()
            .map(|line| (*line).clone())
    })
    .await;
    assert_eq!(taken_back["request_id"], asked["request_id"]);

    // Both use the id of the request that is over. The CLI answers that one first.
    fs::write(&gate, "").unwrap();
    client.cli_line("control_response").await;
    for (client, model) in [(&mut client, "mine"), (&mut other, "theirs")] {
        ask(client, "1", json!({ "subtype": "set_model", "model": model })).await;
        let answer = outcome(client, "1").await;
        assert_eq!(answer["response"]["response"]["model"], model, "{answer:#}");
    }
    assert_eq!(rest.session(&id).await["state"], "idle");
}

#[tokio::test]
async fn one_interrupt_is_shared_by_all_who_ask_and_the_next_prompt_is_spared() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("answer");
    let settings = json!({ "controls": { "interrupt": { "wait_file": gate } } });
    let id = session(&daemon, "a", settings).await;
    let mut client = daemon.attach(&id, None).await;
    act(&rest, &id, json!([{ "text": "working" }, { "silent": 1 }])).await;
    client.cli_line("assistant").await;
    for request in ["1", "2", "3"] {
        ask(&mut client, request, json!({ "subtype": "interrupt" })).await;
    }
    let go = daemon.home().join("go");
    let next = prompt(
        &mut client,
        json!([{ "text": "begun" }, { "wait_file": go }, { "text": "next" }]),
    )
    .await;
    fs::write(&gate, "").unwrap();
    for request in ["1", "2", "3"] {
        let answer = outcome(&mut client, request).await;
        assert_eq!(answer["response"]["subtype"], "success", "{answer:#}");
    }
    fs::write(&go, "").unwrap();
    let turns = two_turns(&rest, &id).await;
    assert_eq!(turns[0]["outcome"], "interrupted");
    assert_eq!(
        (&turns[1]["is_error"], &turns[1]["prompts"]),
        (&json!(false), &json!([next]))
    );
    assert_eq!(sent(&rest, &id, "interrupt").await.len(), 1);
}

#[tokio::test]
async fn a_denial_that_interrupts_beside_an_interrupt_spares_the_next_turn() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("answer");
    let settings = json!({ "controls": { "interrupt": { "wait_file": gate } } });
    let id = session(&daemon, "a", settings).await;
    let mut client = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([{ "ask": { "ids": ["q"] } }, { "text": "not reached" }]),
    )
    .await;
    let approval = rest.pending_approval(&id).await;
    let interrupting = TaskTracker::new().spawn({
        let (rest, id) = (rest.clone(), id.clone());
        async move { rest.lifecycle(&id, "interrupt", json!({})).await }
    });
    wait_for("the interrupt is on its way", PATIENCE, async || {
        (!sent(&rest, &id, "interrupt").await.is_empty()).then_some(())
    })
    .await;
    let deny = json!({ "decision": "deny", "message": "no", "interrupt": true });
    rest.decide(&id, approval["id"].as_str().unwrap(), deny)
        .await
        .expect(200);
    let stopped = client.cli_line("result").await;
    assert_eq!(stopped["subtype"], "error_during_execution", "{stopped:#}");
    // The denial has ended the turn; the interrupt is still on its way.
    let go = daemon.home().join("go");
    let next = prompt(
        &mut client,
        json!([{ "text": "begun" }, { "wait_file": go }, { "text": "spared" }]),
    )
    .await;
    fs::write(&gate, "").unwrap();
    interrupting.await.unwrap().expect(200);
    fs::write(&go, "").unwrap();
    let turns = two_turns(&rest, &id).await;
    assert_eq!(
        (&turns[1]["is_error"], &turns[1]["prompts"]),
        (&json!(false), &json!([next]))
    );
    let answer = records(&rest, &id).await;
    let answer = of_type(&answer, "client", "control_response").remove(0).clone();
    assert_eq!(
        answer["response"]["response"]["interrupt"], true,
        "it is passed on"
    );
}

#[tokio::test]
async fn an_interrupt_of_a_turn_that_ends_waits_and_one_of_a_turn_that_goes_on_is_sent() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("result");
    let settings = json!({ "controls": { "interrupt": { "result_wait_file": gate } } });
    let ends = session(&daemon, "ends", settings).await;
    let mut client = daemon.attach(&ends, None).await;
    act(&rest, &ends, json!([{ "text": "working" }, { "silent": 1 }])).await;
    client.cli_line("assistant").await;
    rest.lifecycle(&ends, "interrupt", json!({})).await.expect(200);
    ask(&mut client, "again", json!({ "subtype": "interrupt" })).await;
    ask(&mut client, "pass", json!({ "subtype": "mcp_status" })).await;
    outcome(&mut client, "pass").await;
    fs::write(&gate, "").unwrap();
    let again = outcome(&mut client, "again").await;
    assert_eq!(
        again["response"],
        json!({ "subtype": "success", "request_id": "again" }),
        "nothing was left to do"
    );
    assert_eq!(sent(&rest, &ends, "interrupt").await.len(), 1);

    let settings = json!({ "controls": { "interrupt": { "no_effect": true } } });
    let goes_on = session(&daemon, "goes-on", settings).await;
    let mut client = daemon.attach(&goes_on, None).await;
    act(&rest, &goes_on, json!([{ "text": "working" }, { "silent": 1 }])).await;
    client.cli_line("assistant").await;
    for _ in 0..2 {
        let answer = rest.lifecycle(&goes_on, "interrupt", json!({})).await.expect(200);
        assert_eq!(
            answer["response"]["still_queued"],
            json!([]),
            "the CLI's own answer"
        );
    }
    assert_eq!(sent(&rest, &goes_on, "interrupt").await.len(), 2);
    // With the prompts that wait it asks for more, and is sent at once.
    let more = rest
        .lifecycle(&goes_on, "interrupt", json!({ "cancel_queued": true }))
        .await;
    assert_eq!(more.expect(200)["response"]["cancelled"], json!([]));
}

#[tokio::test]
async fn what_no_client_may_send_reaches_no_cli() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    for request in [
        json!({ "subtype": "end_session" }),
        json!({ "subtype": "set_cwd", "path": "/" }),
        json!({ "subtype": "claim_session" }),
        json!({ "subtype": "remote_control", "enabled": true }),
        json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": {} }),
        json!({ "subtype": "hook_callback", "callback_id": "h", "input": {} }),
        json!({ "subtype": "ui_copy" }),
    ] {
        let refused = control(&rest, &id, request.clone()).await;
        assert_eq!(refused.problem(422), "control_not_allowed", "{request}");
        ask(&mut client, "1", request.clone()).await;
        let refused = outcome(&mut client, "1").await;
        assert_eq!(refused["code"], "control_not_allowed", "{request}");
    }
    let initialize = control(&rest, &id, json!({ "subtype": "initialize", "hooks": {} })).await;
    assert_eq!(initialize.problem(422), "control_not_allowed");
    let records = records(&rest, &id).await;
    let sent = of_type(&records, "client", "control_request");
    assert_eq!(sent.len(), 1, "only the daemon's own initialize: {sent:#?}");
    assert_eq!(rest.session(&id).await["state"], "idle");
}

#[tokio::test]
async fn known_fields_are_checked_and_the_bytes_stay_the_clients() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let settings = json!({ "controls": { "brand_new_thing": { "response": { "n": 1 } } } });
    let id = session(&daemon, "a", settings).await;
    for (request, field) in [
        (
            json!({ "subtype": "mcp_toggle", "serverName": 7, "enabled": true }),
            "serverName",
        ),
        (json!({ "subtype": "mcp_toggle", "serverName": "s" }), "enabled"),
        (
            json!({ "subtype": "read_file", "path": "/x", "max_bytes": "many" }),
            "max_bytes",
        ),
        (json!({ "subtype": "mcp_set_servers", "servers": [] }), "servers"),
    ] {
        let wrong = control(&rest, &id, request.clone()).await;
        assert!(
            wrong.body["detail"].as_str().unwrap().contains(field),
            "{request}: {:#}",
            wrong.body
        );
        assert_eq!(wrong.problem(422), "invalid_field", "{request}");
    }
    for text in [
        r#"{ "z":1.0, "subtype":"brand_new_thing","a" : [1e1, "\ud83d"], "a":"\u0041" }"#,
        r#"{"subtype":"mcp_toggle","enabled":true,"serverName":"\ud83d","new": {"x":1.50}}"#,
    ] {
        let request = rest
            .builder(Method::POST, &path(&id, "control"))
            .header("content-type", "application/json")
            .body(text);
        rest.send(request).await.expect(200);
        assert!(
            daemon.journal(&id).contains(&format!("\"request\":{text}")),
            "{text} is not in the journal"
        );
    }
}

#[tokio::test]
async fn a_caller_that_leaves_takes_its_request_along_unless_it_has_a_key() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("answer");
    let settings = json!({ "controls": {
        "get_settings": { "wait_file": gate }, "get_usage": { "wait_file": gate }, "interrupt": { "wait_file": gate },
    } });
    let id = session(&daemon, "a", settings).await;
    let leave = async |subtype: &'static str, key: bool| {
        let request = rest.builder(Method::POST, &path(&id, "control"));
        let request = if key {
            request.header("idempotency-key", "k")
        } else {
            request
        };
        let asking = TaskTracker::new().spawn(request.json(&json!({ "subtype": subtype })).send());
        wait_for(&format!("{subtype} is on its way"), PATIENCE, async || {
            (!sent(&rest, &id, subtype).await.is_empty()).then_some(())
        })
        .await;
        asking.abort();
    };
    leave("get_usage", true).await;
    leave("interrupt", false).await;
    leave("get_settings", false).await;
    let taken_back = wait_for("the request is taken back", PATIENCE, async || {
        let records = records(&rest, &id).await;
        let found = of_type(&records, "client", "control_cancel_request");
        (!found.is_empty()).then(|| found.into_iter().cloned().collect::<Vec<_>>())
    })
    .await;
    let asked = sent(&rest, &id, "get_settings").await.remove(0);
    assert_eq!(taken_back.len(), 1, "{taken_back:#?}");
    assert_eq!(taken_back[0]["request_id"], asked["request_id"]);
    fs::write(&gate, "").unwrap();
    let request = rest
        .builder(Method::POST, &path(&id, "control"))
        .header("idempotency-key", "k")
        .json(&json!({ "subtype": "get_usage" }));
    rest.send(request).await.expect(200);
    assert_eq!(
        sent(&rest, &id, "get_usage").await.len(),
        1,
        "it was carried out once"
    );
}

#[tokio::test]
async fn what_the_cli_offers_follows_what_it_says() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let slow = starting(&daemon, json!({})).await;
    let early = rest.get(&path(&slow, "commands")).await;
    assert_eq!(early.problem(409), "not_initialized");
    assert_eq!(
        rest.get(&path(&slow, "tasks")).await.expect(200)["items"],
        json!([])
    );
    let id = session(&daemon, "a", json!({})).await;
    let names = async || {
        let commands = rest.get(&path(&id, "commands")).await.expect(200);
        let items = commands["items"].as_array().unwrap().clone();
        items.into_iter().map(|it| it["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["clear"]);
    let tasks = json!([{ "task_id": "t1", "task_type": "local_bash", "description": "d", "new": 1 }]);
    act_through(
        &rest,
        &id,
        json!([
            { "line": { "type": "system", "subtype": "commands_changed", "commands": [{ "name": "new" }] } },
            { "line": { "type": "system", "subtype": "background_tasks_changed", "tasks": tasks } },
        ]),
    )
    .await;
    assert_eq!(names().await, ["new"]);
    let listed = rest.get(&path(&id, "tasks")).await.expect(200);
    assert_eq!(listed["items"], tasks);
    assert_eq!(
        sent(&rest, &id, "get_task_output").await.len(),
        0,
        "the CLI was not asked"
    );
    // A name that is no UTF-8 once it is decoded names nothing.
    let wrong = rest.post(&path(&id, "mcp/%ff/reconnect"), json!({})).await;
    assert_eq!(wrong.problem(400), "invalid_id");
    open_gate(&daemon);
    rest.in_state(&slow, &["idle"]).await;
}
