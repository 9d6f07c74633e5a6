//! Owns the tests of what parks by itself: idleness, room for others, a budget of memory; and of a hundred sessions.

use std::fs;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, body, path, records, session},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

/// Waits until a session is parked; its view.
async fn parked(rest: &Rest, session: &str) -> Value {
    rest.in_state(session, &["parked"]).await
}

fn micros(at: &Value) -> i64 {
    let at: trunkline::domain::Timestamp = at.as_str().unwrap().parse().unwrap();
    at.as_micros()
}

#[tokio::test]
async fn a_session_of_which_nothing_is_asked_for_long_is_parked_and_one_that_works_is_not() {
    const IDLE_MS: i64 = 1_500;
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_PARK_IDLE_MS", IDLE_MS.to_string())
        .start()
        .await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let busy = session(&daemon, "b", json!({})).await;
    act(&rest, &busy, json!([{ "wait_file": gate }])).await;
    let waiting = session(&daemon, "w", json!({})).await;
    act(
        &rest,
        &waiting,
        json!([{ "ask": { "tool": "Bash", "input": {} } }]),
    )
    .await;
    let tasks = session(&daemon, "t", json!({})).await;
    let task = json!([{ "task_id": "x", "task_type": "local_bash", "description": "d" }]);
    let line = json!({ "type": "system", "subtype": "background_tasks_changed", "tasks": task });
    act_through(&rest, &tasks, json!([{ "line": line }])).await;
    let id = session(&daemon, "a", json!({})).await;
    // A client that only looks does not keep it.
    let mut client = daemon.attach(&id, None).await;
    for turns in 1..=2 {
        rest.ask(&id, "hello").await;
        let view = parked(&rest, &id).await;
        assert_eq!(view["parked"]["reason"], "idle", "{view:#}");
        let all = records(&rest, &id).await;
        let results: Vec<&Value> = all.iter().filter(|it| it["data"]["type"] == "result").collect();
        assert_eq!(results.len(), turns);
        let passed = micros(&view["parked"]["since"]) - micros(&results[turns - 1]["ts"]);
        assert!(passed >= IDLE_MS * 1_000, "{passed} µs");
    }
    client
        .until("the second park", |frame| {
            frame["data"]["parked"]["reason"] == "idle"
        })
        .await;
    // All of these have done nothing for longer.
    for (session, state) in [(&busy, "busy"), (&waiting, "waiting"), (&tasks, "idle")] {
        let view = rest.session(session).await;
        assert_eq!(view["state"], state, "{view:#}");
    }
    fs::write(&gate, "").unwrap();
    assert_eq!(parked(&rest, &busy).await["turns"], 1);
}

#[tokio::test]
async fn a_session_that_does_nothing_makes_room_for_another() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_LIMITS_LIVE_PROCESSES", "2")
        .env("TRUNKLINE_PARK_GRACE_MS", "0")
        .start()
        .await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let first = session(&daemon, "a", json!({})).await;
    let second = session(&daemon, "b", json!({})).await;
    rest.ask(&second, "hello").await;
    rest.ask(&first, "hello").await;
    let third = session(&daemon, "c", json!({})).await;
    let view = rest.session(&second).await;
    assert_eq!(
        view["parked"]["reason"], "room",
        "the one that was used the longest ago: {view:#}"
    );
    assert_eq!(rest.session(&first).await["state"], "idle");
    // A wake makes room as well.
    act(&rest, &third, json!([{ "wait_file": gate }])).await;
    rest.ask(&second, "and on").await;
    assert_eq!(rest.session(&first).await["parked"]["reason"], "room");
    // Those that work keep their process.
    act(&rest, &second, json!([{ "wait_file": gate }])).await;
    let refused = rest.post(&path(&first, "messages"), json!({ "text": "x" })).await;
    assert_eq!(refused.problem(429), "too_many_sessions");
    assert_eq!(rest.session(&first).await["state"], "parked");
    fs::write(&gate, "").unwrap();
    rest.in_state(&second, &["idle"]).await;
    rest.ask(&first, "at last").await;
}

#[tokio::test]
async fn no_session_makes_room_that_was_used_a_moment_ago_or_where_that_is_switched_off() {
    for (key, value) in [("GRACE_MS", "60000"), ("MAKE_ROOM", "false")] {
        let mut daemon = TestDaemon::with_fake()
            .env("TRUNKLINE_LIMITS_LIVE_PROCESSES", "1")
            .env(format!("TRUNKLINE_PARK_{key}"), value);
        if key == "MAKE_ROOM" {
            daemon = daemon.env("TRUNKLINE_PARK_GRACE_MS", "0");
        }
        let daemon = daemon.start().await;
        let rest = daemon.rest();
        let first = session(&daemon, "a", json!({})).await;
        let create = body(&daemon, "b", json!({}), json!({}));
        let refused = rest.post("/v1/sessions", create).await;
        assert_eq!(refused.problem(429), "too_many_sessions", "{key}");
        assert_eq!(rest.session(&first).await["state"], "idle");
    }
}

#[tokio::test]
async fn over_the_budget_of_memory_those_used_the_longest_ago_are_parked_until_it_is_kept() {
    const MIB: u64 = 1 << 20;
    // Three sessions take at least 240 MiB, two of them less than 220.
    const BUDGET: u64 = 230 * MIB;
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_PARK_MEMORY_BUDGET_BYTES", BUDGET.to_string())
        .env("TRUNKLINE_PARK_MEASURE_MS", "200")
        .env("TRUNKLINE_PARK_GRACE_MS", "0")
        .start()
        .await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let large = json!({ "memory_bytes": 80 * MIB });
    let first = session(&daemon, "a", large.clone()).await;
    act(&rest, &first, json!([{ "wait_file": gate }])).await;
    let second = session(&daemon, "b", large.clone()).await;
    rest.ask(&second, "hello").await;
    let third = session(&daemon, "c", large).await;
    let view = parked(&rest, &second).await;
    assert_eq!(view["parked"]["reason"], "memory", "{view:#}");
    let measured = wait_for("what is left to be measured", PATIENCE, async || {
        let metrics = rest.get("/metrics").await.expect(200);
        let line = metrics.as_str().unwrap().lines();
        let line = line
            .filter_map(|line| line.strip_prefix("trunkline_session_memory_bytes "))
            .next_back();
        line.unwrap().parse().ok().filter(|bytes: &u64| *bytes <= BUDGET)
    })
    .await;
    assert!(measured >= 160 * MIB, "two that hold 80 MiB each: {measured}");
    assert_eq!(
        rest.session(&first).await["state"],
        "busy",
        "it was used the longest ago, and works"
    );
    assert_eq!(rest.session(&third).await["state"], "idle");
    fs::write(&gate, "").unwrap();
    // The next message parks another.
    rest.ask(&second, "and on").await;
    wait_for("one of the others to be parked", PATIENCE, async || {
        let states = [rest.session(&first).await, rest.session(&third).await];
        states.iter().any(|view| view["state"] == "parked").then_some(())
    })
    .await;
}

/// As many as a person may have; the start of each takes a core for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_sessions_are_parked_and_woken() {
    const SESSIONS: usize = 100;
    const STARTS: i32 = 4;
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let patient = std::time::Duration::from_secs(300);
    let post = |path: String, body: Value| {
        let request = rest
            .builder(reqwest::Method::POST, &path)
            .json(&body)
            .timeout(patient);
        rest.send(request)
    };
    let create = body(&daemon, "a", json!({}), json!({}));
    let made =
        join_all((0..SESSIONS).map(|_| post("/v1/sessions?wait=ready".to_owned(), create.clone()))).await;
    let ids: Vec<String> = made
        .into_iter()
        .map(|reply| reply.expect(201)["id"].as_str().unwrap().to_owned())
        .collect();
    let count = |views: &[Value], state: &str| views.iter().filter(|view| view["state"] == state).count();
    let all = async || {
        let page = rest.get("/v1/sessions?limit=500").await.expect(200);
        page["items"].as_array().unwrap().clone()
    };
    // A keeper and its CLI for each.
    let processes = || daemon.session_processes().len();
    assert_eq!(processes(), 2 * SESSIONS);
    let (half, rest_of_them) = ids.split_at(SESSIONS / 2);
    let parked = join_all(half.iter().map(|id| post(path(id, "park"), json!({})))).await;
    parked.into_iter().for_each(|reply| drop(reply.expect(200)));
    let views = all().await;
    assert_eq!(
        (count(&views, "parked"), count(&views, "idle")),
        (SESSIONS / 2, SESSIONS / 2)
    );
    assert_eq!(
        processes(),
        SESSIONS,
        "as many as the sessions that are live need"
    );
    let parked = join_all(rest_of_them.iter().map(|id| post(path(id, "park"), json!({})))).await;
    parked.into_iter().for_each(|reply| drop(reply.expect(200)));
    assert_eq!(processes(), 0);

    let said = join_all(ids.iter().map(|id| {
        post(
            path(id, "messages?wait=result&timeout_ms=300000"),
            json!({ "text": "wake up" }),
        )
    }))
    .await;
    for reply in said {
        assert_eq!(reply.expect(200)["result"]["subtype"], "success");
    }
    let views = all().await;
    assert_eq!(count(&views, "idle"), SESSIONS);
    let mut edges = Vec::new();
    for id in &ids {
        let records = records(&rest, id).await;
        let is_start = |record: &&Value| record["data"]["type"] == "run_started";
        let is_ready = |record: &&Value| {
            record["data"]["type"] == "control_response"
                && record["data"]["response"]["request_id"] == "trunkline-initialize"
        };
        let [starts, readies] = [
            records.iter().filter(is_start).collect::<Vec<_>>(),
            records.iter().filter(is_ready).collect(),
        ];
        assert_eq!((starts.len(), readies.len()), (2, 2), "one process woke it: {id}");
        edges.extend(starts.iter().map(|record| (micros(&record["ts"]), 1)));
        edges.extend(readies.iter().map(|record| (micros(&record["ts"]), -1)));
    }
    edges.sort();
    let mut starting = 0;
    for (at, step) in edges {
        starting += step;
        assert!(starting <= STARTS, "{starting} at {at}");
    }
    let metrics = rest.get("/metrics").await.expect(200);
    assert!(metrics.as_str().unwrap().contains("trunkline_wakes_total 100"));
}
