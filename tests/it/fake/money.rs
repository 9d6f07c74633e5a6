//! Owns section K: costs and tokens.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    fake::{
        bed::{act, act_through, of_type, path, pid, plain, records, session, session_with},
        metrics::Scrape,
    },
    support::{
        daemon::TestDaemon,
        proc,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

fn close(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

async fn check_turns(rest: &Rest, session: &str, expected: &[f64]) {
    let turns = rest.turns(session).await;
    assert_eq!(turns.len(), expected.len(), "{turns:#?}");
    for (turn, expected) in turns.iter().zip(expected) {
        close(&turn["cost_usd"], *expected);
    }
    let sum: f64 = expected.iter().sum();
    close(&rest.session(session).await["cost_usd"], sum);
}

#[tokio::test]
async fn running_totals_become_turns_over_a_lost_counter() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({ "costs": [0.10, 0.25, 0.40] })).await;
    for _ in 0..3 {
        rest.ask(&id, "hello").await;
    }
    // Killed, so that its saved total is lost.
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    rest.in_state(&id, &["failed"]).await;
    fs::write(
        daemon.work_dir("a").join(".fake-claude.json"),
        json!({ "costs": [0.05, 0.08] }).to_string(),
    )
    .unwrap();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    for _ in 0..2 {
        rest.ask(&id, "hello").await;
    }
    let expected = [0.10, 0.15, 0.15, 0.05, 0.03];
    check_turns(&rest, &id, &expected).await;
    daemon.kill();
    daemon.start().await;
    check_turns(&daemon.rest(), &id, &expected).await;
    let usage = daemon.rest().get("/v1/usage?group_by=session").await.expect(200);
    close(&usage["items"][0]["cost_usd"], 0.48);
}

/// As a person's resume, a restart by the daemon goes on from a counter that may be lost.
#[tokio::test]
async fn running_totals_become_turns_over_a_restart() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await;
    let rest = daemon.rest();
    let costs = [
        json!({ "costs": [0.10, 0.25, 0.40] }),
        json!({ "costs": [0.05, 0.08] }),
    ];
    let id = session(&daemon, "a", json!({ "starts": costs })).await;
    for _ in 0..3 {
        rest.ask(&id, "hello").await;
    }
    let process = pid(&rest, &id).await;
    proc::signal(process, Signal::SIGKILL);
    wait_for("another process is idle", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["state"] == "idle" && view["cli"]["pid"] != json!(process)).then_some(())
    })
    .await;
    for _ in 0..2 {
        rest.ask(&id, "hello").await;
    }
    check_turns(&rest, &id, &[0.10, 0.15, 0.15, 0.05, 0.03]).await;
}

#[tokio::test]
async fn a_clean_resume_and_a_fork_go_on_counting() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({ "cost": 0.1 })).await;
    rest.ask(&id, "one").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "two").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    check_turns(&rest, &id, &[0.1, 0.1]).await;
    let fork = rest
        .lifecycle(&id, "fork?wait=ready", json!({}))
        .await
        .expect(201);
    let fork = fork["id"].as_str().unwrap();
    rest.ask(fork, "three").await;
    check_turns(&rest, fork, &[0.1]).await;
    check_turns(&rest, &id, &[0.1, 0.1]).await;
}

#[tokio::test]
async fn a_fork_whose_first_process_dies_without_a_result_does_not_pay_for_its_parent() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({ "cost": 0.1 })).await;
    rest.ask(&id, "one").await;
    // The parent's total is kept at a clean end.
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    for is_replaced in [false, true] {
        let rest = daemon.rest();
        let fork = rest.lifecycle(&id, "fork?wait=ready", json!({})).await;
        let fork = fork.expect(201)["id"].as_str().unwrap().to_owned();
        act(&rest, &fork, json!([{ "text": "it ends early" }, { "exit": 1 }])).await;
        rest.in_state(&fork, &["failed"]).await;
        if is_replaced {
            daemon.kill();
            daemon.start().await;
        }
        let rest = daemon.rest();
        rest.lifecycle(&fork, "resume?wait=ready", json!({}))
            .await
            .expect(200);
        rest.ask(&fork, "again").await;
        let view = rest.session(&fork).await;
        assert_eq!(view["turns"], 2, "{view:#}");
        close(&view["cost_usd"], 0.1);
    }
}

#[tokio::test]
async fn lines_and_stream_events_add_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut sums = Vec::new();
    for partial in [false, true] {
        let options = json!({ "include_partial_messages": partial });
        let id = session_with(&daemon, &format!("w{partial}"), json!({}), options).await;
        act_through(&rest, &id, json!([
            { "text": "a", "id": "msg_1", "copies": 2, "usage": { "input_tokens": 100, "output_tokens": 1 } },
            { "text": "b", "id": "msg_1", "usage": { "input_tokens": 100, "output_tokens": 245 } },
            { "result": { "usage": { "input_tokens": 100, "output_tokens": 245, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3 } } },
        ]))
        .await;
        let turns = rest.turns(&id).await;
        assert_eq!(turns[0]["usage"]["output_tokens"], 245, "{turns:#?}");
        sums.push((
            turns[0]["usage"].clone(),
            rest.session(&id).await["usage"].clone(),
        ));
    }
    assert_eq!(sums[0], sums[1], "partial messages change no sum");
}

#[tokio::test]
async fn a_compaction_takes_nothing_back() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({ "cost": 0.1 })).await;
    rest.ask(&id, "one").await;
    act_through(&rest, &id, json!([
        { "line": { "type": "system", "subtype": "compact_boundary", "compact_metadata": { "trigger": "auto", "pre_tokens": 100 }, "session_id": "$SESSION_ID", "uuid": "$UUID" } },
        { "text": "two" },
    ]))
    .await;
    check_turns(&rest, &id, &[0.1, 0.1]).await;
}

#[tokio::test]
async fn models_and_token_classes_are_kept_apart() {
    let (_daemon, rest, id) = plain().await;
    let model = |input: u64, cost: f64| json!({ "inputTokens": input, "outputTokens": 2, "cacheReadInputTokens": 3, "cacheCreationInputTokens": 4, "webSearchRequests": 0, "costUSD": cost });
    act_through(&rest, &id, json!([{ "result": { "total_cost_usd": 0.3, "modelUsage": { "big": model(10, 0.2), "small": model(1000, 0.1) } } }])).await;
    act_through(&rest, &id, json!([{ "result": { "total_cost_usd": 0.5, "modelUsage": { "big": model(10, 0.2), "small": model(3000, 0.3) } } }])).await;
    let turns = rest.turns(&id).await;
    assert_eq!(turns[0]["models"].as_array().unwrap().len(), 2);
    assert_eq!(turns[1]["models"].as_array().unwrap().len(), 1, "{turns:#?}");
    let usage = rest.get("/v1/usage?group_by=model").await.expect(200);
    let of = |name: &str| {
        let items = usage["items"].as_array().unwrap();
        items
            .iter()
            .find(|item| item["key"] == name)
            .unwrap_or_else(|| panic!("no {name}: {usage:#}"))
            .clone()
    };
    close(&of("big")["cost_usd"], 0.2);
    close(&of("small")["cost_usd"], 0.3);
}

#[tokio::test]
async fn a_cost_that_is_missing_is_unknown_and_not_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({ "cost": 0.1 })).await;
    rest.ask(&id, "one").await;
    act_through(
        &rest,
        &id,
        json!([{ "result": { "total_cost_usd": null, "modelUsage": null } }]),
    )
    .await;
    let turns = rest.turns(&id).await;
    assert_eq!(turns[1]["cost_usd"], Value::Null, "{turns:#?}");
    let view = rest.session(&id).await;
    close(&view["cost_usd"], 0.1);
    assert_eq!(view["turns_with_unknown_cost"], 1);
    let page = rest.get(&path(&id, "turns?limit=1")).await.expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
}

fn of_model(input: u64, cost: f64) -> Value {
    json!({ "big": {
        "inputTokens": input, "outputTokens": 0, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0, "costUSD": cost,
    } })
}

/// A total of nothing, or less, where more is known was never the CLI's running total.
#[tokio::test]
async fn a_spurious_total_makes_no_money_count_twice() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    for (name, total, models) in [
        ("zero", 0.0, json!({})),
        ("less", 1.9, of_model(90, 1.9)),
        ("negative", -5.0, of_model(0, -5.0)),
    ] {
        for over_a_resume in [false, true] {
            let id = session(&daemon, &format!("{name}-{over_a_resume}"), json!({})).await;
            let turns = [
                (2.10, of_model(100, 2.10)),
                (total, models.clone()),
                (2.30, of_model(110, 2.30)),
            ];
            for (n, (total, models)) in turns.into_iter().enumerate() {
                if n == 2 && over_a_resume {
                    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
                    rest.lifecycle(&id, "resume?wait=ready", json!({}))
                        .await
                        .expect(200);
                }
                let result = json!({ "result": { "total_cost_usd": total, "modelUsage": models } });
                act_through(&rest, &id, json!([result])).await;
            }
            check_turns(&rest, &id, &[2.10, 0.0, 0.20]).await;
            let turns = rest.turns(&id).await;
            let models: Vec<_> = turns
                .iter()
                .flat_map(|turn| turn["models"].as_array().unwrap())
                .collect();
            assert_eq!(models.len(), 2, "{name}: {turns:#?}");
            close(&models[1]["cost_usd"], 0.20);
            assert_eq!(models[1]["tokens"]["input_tokens"], 10, "{name}: {turns:#?}");
        }
    }
    let before = rest.get("/v1/usage").await.expect(200);
    daemon.kill();
    daemon.start().await;
    let after = daemon.rest().get("/v1/usage").await.expect(200);
    assert_eq!(before["items"], after["items"]);
}

/// Some versions of the CLI print an error behind the result that ended the turn.
#[tokio::test]
async fn a_second_result_is_a_record_and_no_turn() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let spurious = json!({ "line": {
        "type": "result", "subtype": "error_during_execution", "is_error": true, "num_turns": 0, "total_cost_usd": 0,
        "modelUsage": {}, "errors": ["x"], "session_id": "$SESSION_ID", "uuid": "$UUID",
    } });
    for total in [2.1, 2.3] {
        let result = json!({ "result": { "total_cost_usd": total } });
        act_through(&rest, &id, json!([result, spurious])).await;
    }
    rest.ask(&id, "and on").await;
    let records = records(&rest, &id).await;
    assert_eq!(of_type(&records, "cli", "result").len(), 5, "each is a record");
    check_turns(&rest, &id, &[2.1, 0.2, 0.0008]).await;
    let turns = rest.turns(&id).await;
    assert!(turns.iter().all(|turn| turn["is_error"] == false), "{turns:#?}");
    let scrape = Scrape::of(&rest).await;
    scrape.expect(r#"trunkline_turns_total{outcome="success"}"#, 3.0);
    scrape.expect(r#"trunkline_turns_total{outcome="error_during_execution"}"#, 0.0);
    assert!(daemon.log().contains("a result of the CLI ends no turn"));
}
