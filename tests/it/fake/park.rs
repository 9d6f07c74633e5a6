//! Owns the tests of parking: a session that does nothing gives its process up, and a message gives it another.

use std::fs;

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, body, of_type, path, pid, plain, records, session, session_with},
    support::{
        daemon::TestDaemon,
        proc,
        rest::Rest,
        wait::{PATIENCE, wait_for, wait_until},
    },
};

async fn park(rest: &Rest, session: &str) -> Value {
    rest.lifecycle(session, "park", json!({})).await.expect(200)
}

/// The states that records tell of, in their order.
fn states(records: &[Value]) -> Vec<String> {
    of_type(records, "daemon", "state")
        .iter()
        .map(|state| state["state"].as_str().unwrap().to_owned())
        .collect()
}

fn processes_of(session: &str) -> usize {
    proc::with_env("TRUNKLINE_SESSION", session).len()
}

/// The arguments of each start, as the fake CLI wrote them down.
fn starts(dump: &std::path::Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(dump).unwrap();
    let argv = |line: &str| {
        let start: Value = serde_json::from_str(line).unwrap();
        serde_json::from_value(start["argv"].clone()).unwrap()
    };
    text.lines().map(argv).collect()
}

#[tokio::test]
async fn a_parked_session_has_no_process_and_a_message_goes_on_with_its_conversation() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dump = daemon.home().join("dump");
    let options = json!({
        "model": "claude-one", "system_prompt": "Be brief.", "allowed_tools": ["Read"],
        "additional_directories": [daemon.work_dir("other")],
    });
    let id = session_with(&daemon, "a", json!({ "dump": dump, "cost": 0.01 }), options).await;
    rest.ask(&id, "hello").await;
    rest.put(&path(&id, "model"), json!({ "model": "claude-two" }))
        .await
        .expect(200);
    rest.put(&path(&id, "permission_mode"), json!({ "mode": "plan" }))
        .await
        .expect(200);
    let mut client = daemon.attach(&id, Some(0)).await;

    let view = park(&rest, &id).await;
    assert_eq!(
        (&view["state"], &view["cli"]["pid"]),
        (&json!("parked"), &Value::Null)
    );
    assert_eq!(view["parked"]["reason"], "asked", "{view:#}");
    assert!(view["parked"]["since"].is_string());
    assert_eq!(processes_of(&id), 0, "the keeper is gone, too");
    assert_eq!(park(&rest, &id).await["parked"], view["parked"], "parking twice");
    let list = rest.get("/v1/sessions?state=parked").await.expect(200);
    assert_eq!(list["items"][0]["parked"], view["parked"]);

    let answer = rest.ask(&id, "and on").await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
    let view = rest.session(&id).await;
    assert_eq!((&view["state"], &view["parked"]), (&json!("idle"), &Value::Null));
    assert_eq!(
        (&view["turns"], &view["model"]),
        (&json!(2), &json!("claude-two"))
    );
    let turns = rest.turns(&id).await;
    let costs: Vec<f64> = turns.iter().map(|it| it["cost_usd"].as_f64().unwrap()).collect();
    assert!(costs.iter().all(|cost| (cost - 0.01).abs() < 1e-9), "{costs:?}");

    let starts = starts(&dump);
    let [first, second] = starts.as_slice() else {
        panic!("{starts:#?}")
    };
    let conversation = view["cli"]["session_id"].as_str().unwrap();
    assert!(
        first.contains(&format!("--session-id={conversation}")),
        "{first:#?}"
    );
    assert!(
        second.contains(&format!("--resume={conversation}")),
        "{second:#?}"
    );
    let settings = |argv: &[String]| {
        let mut argv = argv.to_vec();
        argv.retain(|arg| !arg.starts_with("--resume") && !arg.starts_with("--session-id"));
        argv
    };
    let mut expected = settings(first);
    expected.retain(|arg| !arg.starts_with("--permission-mode") && !arg.starts_with("--model"));
    expected.push("--model=claude-two".to_owned());
    expected.push("--permission-mode=plan".to_owned());
    let mut found = settings(second);
    expected.sort();
    found.sort();
    assert_eq!(found, expected);

    // The client has stayed, and has seen every record once, in order.
    let mut seen = client
        .until("the second result", |frame| {
            frame["data"]["type"] == "result"
                && frame["data"]["num_turns"].is_number()
                && frame["seq"].as_u64() > Some(20)
        })
        .await;
    let seen: Vec<Value> = seen.drain(..).filter(|frame| frame["seq"].is_number()).collect();
    for (place, record) in (1_u64..).zip(&seen) {
        assert_eq!(record["seq"].as_u64(), Some(place), "{record}");
    }
    let told = states(&seen);
    let parked = told.iter().position(|state| state == "parked").unwrap();
    assert_eq!(told[parked + 1], "starting", "{told:?}");
    let all = records(&rest, &id).await;
    let stops = of_type(&all, "daemon", "stop_requested");
    assert_eq!(stops.len(), 1, "{stops:#?}");
    assert_eq!(stops[0]["park"], "asked");
    let notes = of_type(&all, "daemon", "state");
    let note = notes.iter().find(|note| note["state"] == "parked").unwrap();
    assert_eq!(note["parked"]["reason"], "asked");
}

#[tokio::test]
async fn what_is_sent_in_the_middle_of_a_park_waits_for_its_end_and_wakes_the_session_once() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let eof = daemon.home().join("eof");
    let settings = json!({ "starts": [{ "eof": { "seen": eof, "delay_ms": 2_500 } }, {}] });
    let id = session(&daemon, "a", settings).await;
    rest.ask(&id, "hello").await;
    let mut client = daemon.attach(&id, None).await;
    let uuid = |n: u32| format!("7e6f2a34-5d1c-4b7e-9a51-0c0ffee{n:05}");
    let send = |n: u32| {
        let message = json!({ "text": format!("message {n}"), "uuid": uuid(n) });
        let (rest, path) = (rest.clone(), path(&id, "messages"));
        async move { rest.post(&path, message).await }
    };
    let parking = rest.lifecycle(&id, "park", json!({}));
    let talking = async {
        wait_until("the CLI is told to end", PATIENCE, || eof.exists()).await;
        assert_eq!(rest.session(&id).await["state"], "stopping");
        client
            .send(&json!({
                "type": "user", "uuid": uuid(9), "message": { "role": "user", "content": "by socket" },
            }))
            .await;
        // In their order, one after the other; the first is sent a second time.
        join_all([send(1), send(1), send(2)]).await
    };
    let (parked, sent) = tokio::join!(parking, talking);
    parked.expect(200);
    let seqs: Vec<u64> = sent
        .into_iter()
        .map(|reply| reply.expect(202)["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs[0], seqs[1], "the same message");
    let ack = client
        .find("the ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    assert_eq!(ack["uuid"], uuid(9));
    wait_for("all to be answered", PATIENCE, async || {
        let view = rest.session(&id).await;
        let is_done = view["state"] == "idle" && view["open_prompts"].as_array().unwrap().is_empty();
        is_done.then_some(())
    })
    .await;
    let all = records(&rest, &id).await;
    assert_eq!(of_type(&all, "daemon", "run_started").len(), 2);
    let prompts: Vec<&str> = all
        .iter()
        .filter(|record| record["src"] == "client" && record["data"]["type"] == "user")
        .map(|record| record["data"]["uuid"].as_str().unwrap())
        .collect();
    for n in [9, 1, 2] {
        let times = prompts.iter().filter(|it| **it == uuid(n)).count();
        assert_eq!(times, 1, "{prompts:?}");
    }
    let told = states(&all);
    let park = told.iter().position(|state| state == "stopping").unwrap();
    assert_eq!(told[park..][..3], ["stopping", "parked", "starting"], "{told:?}");
    let metrics = rest.get("/metrics").await.expect(200);
    let metrics = metrics.as_str().unwrap();
    for line in [
        "trunkline_parks_total{reason=\"asked\"} 1",
        "trunkline_wakes_total 1",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
}

#[tokio::test]
async fn what_would_be_cut_short_is_not_parked() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let obstacle = async |id: &str| {
        let reply = rest.lifecycle(id, "park", json!({})).await;
        let obstacle = reply.body["obstacle"].as_str().unwrap_or_default().to_owned();
        assert_eq!(reply.body["retryable"], true, "{:#}", reply.body);
        assert_eq!(reply.problem(409), "session_not_parkable");
        obstacle
    };
    let starts = body(&daemon, "s", json!({ "init": { "wait_file": gate } }), json!({}));
    let starting = rest.create(starts).await["id"].as_str().unwrap().to_owned();
    assert_eq!(obstacle(&starting).await, "starting");

    let busy = session(&daemon, "b", json!({})).await;
    act(&rest, &busy, json!([{ "wait_file": gate }])).await;
    assert_eq!(obstacle(&busy).await, "busy");

    let waiting = session(&daemon, "w", json!({})).await;
    act(
        &rest,
        &waiting,
        json!([{ "ask": { "tool": "Bash", "input": {} } }]),
    )
    .await;
    rest.pending_approval(&waiting).await;
    assert_eq!(obstacle(&waiting).await, "waiting");

    let tasks = session(&daemon, "t", json!({})).await;
    let running = |tasks: Value| {
        json!([{ "line": {
            "type": "system", "subtype": "background_tasks_changed", "tasks": tasks, "uuid": "$UUID",
            "session_id": "$SESSION_ID",
        } }])
    };
    let one = json!([{ "task_id": "x", "task_type": "local_bash", "description": "d" }]);
    act_through(&rest, &tasks, running(one)).await;
    assert_eq!(obstacle(&tasks).await, "background_tasks");
    act_through(&rest, &tasks, running(json!([]))).await;
    park(&rest, &tasks).await;

    let timers = session(&daemon, "c", json!({})).await;
    let call = json!([{ "line": {
        "type": "assistant", "uuid": "$UUID", "session_id": "$SESSION_ID", "parent_tool_use_id": null,
        "message": { "role": "assistant", "content": [
            { "type": "tool_use", "id": "t1", "name": "CronCreate", "input": { "cron": "* * * * *" } },
        ] },
    } }]);
    act_through(&rest, &timers, call).await;
    assert_eq!(obstacle(&timers).await, "timers");

    // Its own hook is called back outside of a turn, and its client thinks about it.
    let hook = json!({ "event": "Notification", "target": { "type": "client", "client_id": "x" } });
    let asked = session_with(&daemon, "r", json!({}), json!({ "hooks": [hook] })).await;
    let mut client = daemon.attach_as("x", &asked, Some(0)).await;
    client
        .find("the snapshot", |frame| frame["type"] == "trunkline.snapshot")
        .await;
    act(
        &rest,
        &asked,
        json!([
            { "text": "done" }, { "result": {} },
            { "request": {
                "subtype": "hook_callback", "callback_id": "trunkline/0",
                "input": { "hook_event_name": "Notification" },
            }, "id": "r1", "wait": false },
        ]),
    )
    .await;
    client
        .until("the request", |frame| frame["data"]["request_id"] == "r1")
        .await;
    rest.in_state(&asked, &["idle"]).await;
    assert_eq!(obstacle(&asked).await, "request_open");

    let hooks = session(&daemon, "h", json!({})).await;
    let mut client = daemon.attach(&hooks, None).await;
    client
        .send(
            &json!({ "type": "control_request", "request_id": "i", "request": {
            "subtype": "initialize", "hooks": { "Stop": [{ "hookCallbackIds": ["mine"] }] },
        } }),
        )
        .await;
    client
        .until("the answer", |frame| frame["type"] == "control_response")
        .await;
    assert_eq!(obstacle(&hooks).await, "client_callbacks");

    let control = session(
        &daemon,
        "k",
        json!({ "controls": { "set_color": { "wait_file": gate } } }),
    )
    .await;
    let (rest2, path) = (rest.clone(), path(&control, "control"));
    let asking = async {
        rest2
            .post(&path, json!({ "subtype": "set_color", "color": "red" }))
            .await
    };
    let refused = async {
        let mut client = daemon.attach(&control, Some(0)).await;
        client
            .until("the request", |frame| {
                frame["data"]["request"]["subtype"] == "set_color"
            })
            .await;
        let obstacle = obstacle(&control).await;
        fs::write(&gate, "").unwrap();
        obstacle
    };
    let (_, refused) = tokio::join!(asking, refused);
    assert_eq!(refused, "input_under_way");

    let stopped = session(&daemon, "x", json!({})).await;
    rest.lifecycle(&stopped, "stop", json!({})).await.expect(200);
    assert_eq!(obstacle(&stopped).await, "not_live");
    assert_eq!(rest.session(&stopped).await["state"], "stopped");
}

#[tokio::test]
async fn a_daemon_that_dies_in_the_middle_of_a_park_loses_nothing() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let eof = daemon.home().join("eof");
    let settings = json!({ "starts": [{ "eof": { "seen": eof, "ignore": true } }, {}] });
    let id = session(&daemon, "a", settings).await;
    rest.ask(&id, "hello").await;
    let (rest2, id2) = (rest.clone(), id.clone());
    let mut parking = tokio::task::JoinSet::new();
    parking.spawn(async move {
        let request = rest2.builder(reqwest::Method::POST, &path(&id2, "park"));
        // It gets no answer.
        drop(request.json(&json!({})).send().await);
    });
    wait_until("the CLI is told to end", PATIENCE, || eof.exists()).await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let view = rest.in_state(&id, &["parked"]).await;
    assert_eq!(view["parked"]["reason"], "asked", "{view:#}");
    assert_eq!(processes_of(&id), 0);
    // It is parked over one more restart, without being opened.
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(rest.session(&id).await["parked"], view["parked"]);
    rest.ask(&id, "are you there?").await;
    assert_eq!(rest.session(&id).await["turns"], 2);
    parking.abort_all();
}

#[tokio::test]
async fn a_cli_that_does_not_end_is_killed_and_its_session_is_parked() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "200")
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "200")
        .start()
        .await;
    let rest = daemon.rest();
    let settings = json!({ "starts": [{ "eof": { "ignore": true }, "term": { "ignore": true } }, {}] });
    let id = session(&daemon, "a", settings).await;
    rest.ask(&id, "hello").await;
    assert_eq!(park(&rest, &id).await["state"], "parked");
    let all = records(&rest, &id).await;
    assert_eq!(of_type(&all, "daemon", "run_exited")[0]["signal"], 9);
    assert_eq!(processes_of(&id), 0);
    rest.ask(&id, "and on").await;
}

#[tokio::test]
async fn every_way_out_of_a_parked_session_works() {
    let (daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    park(&rest, &id).await;
    // These requests need no process.
    rest.patch(&format!("/v1/sessions/{id}"), json!({ "title": "t" }))
        .await
        .expect(200);
    rest.lifecycle(&id, "interrupt", json!({})).await.expect(200);
    rest.get(&path(&id, "commands")).await.expect(200);
    let looked = rest.get(&path(&id, "mcp")).await;
    assert_eq!(looked.body["state"], "parked");
    assert_eq!(looked.problem(409), "session_not_live");
    let fork = rest
        .lifecycle(&id, "fork?wait=ready", json!({}))
        .await
        .expect(201);
    rest.ask(fork["id"].as_str().unwrap(), "and you?").await;
    assert_eq!(rest.session(&id).await["state"], "parked");
    assert_eq!(processes_of(&id), 0);

    // A setting is made by the CLI, and so wakes the session.
    rest.put(&path(&id, "model"), json!({ "model": "claude-two" }))
        .await
        .expect(200);
    assert_eq!(rest.session(&id).await["state"], "idle");
    park(&rest, &id).await;
    let mut client = daemon.attach(&id, None).await;
    client
        .send(&json!({ "type": "control_request", "request_id": "i", "request": { "subtype": "interrupt" } }))
        .await;
    let answer = client
        .find("the answer", |frame| frame["type"] == "control_response")
        .await;
    assert_eq!(answer["response"]["subtype"], "success");
    assert_eq!(rest.session(&id).await["state"], "parked");

    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    park(&rest, &id).await;
    let view = rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert_eq!(
        (&view["state"], &view["parked"]),
        (&json!("stopped"), &Value::Null)
    );
    let refused = rest.post(&path(&id, "messages"), json!({ "text": "x" })).await;
    assert_eq!(refused.problem(409), "session_not_live", "a stop is a stop");
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    park(&rest, &id).await;
    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    assert_eq!(rest.get(&format!("/v1/sessions/{id}")).await.status, 404);
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_park_is_a_stop() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let eof = daemon.home().join("eof");
    let id = session(&daemon, "a", json!({ "eof": { "seen": eof, "delay_ms": 2_500 } })).await;
    rest.ask(&id, "hello").await;
    let parking = rest.lifecycle(&id, "park", json!({}));
    let stopping = async {
        wait_until("the CLI is told to end", PATIENCE, || eof.exists()).await;
        let message = json!({ "text": "too late" });
        let path = path(&id, "messages");
        tokio::join!(rest.lifecycle(&id, "stop", json!({})), rest.post(&path, message))
    };
    let (parked, (stopped, sent)) = tokio::join!(parking, stopping);
    assert_eq!(stopped.expect(200)["state"], "stopped");
    assert_eq!(parked.body["obstacle"], "stopping", "{:#}", parked.body);
    assert_eq!(parked.problem(409), "session_not_parkable");
    let code = sent.problem(409);
    assert!(
        ["session_stopping", "session_not_live"].contains(&code.as_str()),
        "{code}"
    );
    assert_eq!(rest.session(&id).await["state"], "stopped");
}

#[tokio::test]
async fn a_wake_that_finds_no_room_is_refused_and_the_session_stays_parked() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_LIMITS_LIVE_PROCESSES", "1")
        .start()
        .await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    rest.ask(&id, "hello").await;
    park(&rest, &id).await;
    let other = session(&daemon, "b", json!({})).await;
    let message = json!({ "text": "let me in", "uuid": "7e6f2a34-5d1c-4b7e-9a51-0c0ffee00001" });
    let request = rest.builder(reqwest::Method::POST, &path(&id, "messages"));
    let response = request.json(&message).send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "5");
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["code"], "too_many_sessions", "{problem:#}");
    assert_eq!(problem["limit"], "limits.live_processes");
    let mut client = daemon.attach(&id, None).await;
    let line = json!({ "type": "user", "uuid": message["uuid"], "message": { "role": "user", "content": "let me in" } });
    client.send(&line).await;
    let refused = client
        .find("the refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(refused["code"], "too_many_sessions", "{refused:#}");
    assert_eq!(refused["uuid"], message["uuid"]);
    assert_eq!(refused["retry_after_ms"], 5_000);
    assert_eq!(rest.session(&id).await["state"], "parked");

    rest.lifecycle(&other, "stop", json!({})).await.expect(200);
    rest.post(&path(&id, "messages?wait=result"), message)
        .await
        .expect(200);
    let view = rest.session(&id).await;
    assert_eq!(view["turns"], 2, "it was said once: {view:#}");
}

#[tokio::test]
async fn a_stop_holds_that_comes_while_a_wake_waits_for_room() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_LIMITS_LIVE_PROCESSES", "1")
        .env("TRUNKLINE_PARK_GRACE_MS", "0")
        .start()
        .await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    rest.ask(&id, "hello").await;
    park(&rest, &id).await;
    let eof = daemon.home().join("eof");
    let slow = json!({ "eof": { "seen": eof, "delay_ms": 2_000 } });
    let other = session(&daemon, "b", slow).await;
    rest.ask(&other, "hello").await;
    let messages = path(&id, "messages");
    let sending = rest.post(&messages, json!({ "text": "wake up" }));
    let stopping = async {
        wait_until("the other one makes room", PATIENCE, || eof.exists()).await;
        rest.lifecycle(&id, "stop", json!({})).await
    };
    let (sent, stopped) = tokio::join!(sending, stopping);
    assert_eq!(stopped.expect(200)["state"], "stopped");
    assert_eq!(sent.problem(409), "session_not_live");
    rest.in_state(&other, &["parked"]).await;
    // It waits for the end of the wake, which has started nothing.
    rest.lifecycle(&id, "resume", json!({})).await.expect(200);
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(processes_of(&id), 1);
}

#[tokio::test]
async fn a_process_that_dies_while_it_is_parked_leaves_a_parked_session() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let eof = daemon.home().join("eof");
    let settings = json!({ "starts": [{ "eof": { "seen": eof, "ignore": true } }, {}] });
    let id = session(&daemon, "a", settings).await;
    rest.ask(&id, "hello").await;
    let cli = pid(&rest, &id).await;
    let parking = rest.lifecycle(&id, "park", json!({}));
    let killing = async {
        wait_until("the CLI is told to end", PATIENCE, || eof.exists()).await;
        let keeper = proc::read(cli).unwrap().parent;
        proc::signal(keeper, Signal::SIGKILL);
    };
    let (parked, ()) = tokio::join!(parking, killing);
    assert_eq!(parked.expect(200)["state"], "parked");
    wait_until("nothing is left", PATIENCE, || processes_of(&id) == 0).await;
    rest.ask(&id, "and on").await;
}
