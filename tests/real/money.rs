//! Owns the test of money on the real CLI: over a clean resume, a fork and a SIGKILL.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    support::{
        proc,
        programs::{scripted, scripted64},
    },
    world::{World, nanos, pid, text},
};

/// An answer that uses `times` the tokens of the unit.
fn using(times: u64) -> Value {
    let usage = json!({ "input_tokens": 100 * times, "output_tokens": 20 * times });
    json!({ "text": "answer", "usage": usage })
}

/// A turn of one answer must show exactly its tokens, at the price of the unit.
fn check(turn: &Value, unit: i64, times: i64) {
    assert_eq!(nanos(&turn["cost_usd"]), unit * times, "{turn:#}");
    assert_eq!(turn["usage"]["input_tokens"], 100 * times);
    assert_eq!(turn["usage"]["output_tokens"], 20 * times);
    let models = turn["models"].as_array().unwrap();
    assert_eq!(models.len(), 1, "{turn:#}");
    assert_eq!(nanos(&models[0]["cost_usd"]), unit * times);
    assert_eq!(models[0]["tokens"], turn["usage"]);
}

#[tokio::test]
async fn every_turn_costs_what_it_used() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let first = world.ask(&id, json!([using(1)])).await;
    let unit = nanos(&first["turn"]["cost_usd"]);
    assert!(unit > 0);
    check(&first["turn"], unit, 1);
    check(&world.ask(&id, json!([using(2)])).await["turn"], unit, 2);

    // A clean end keeps the CLI's total.
    world.stop(&id).await;
    world.resume(&id).await;
    check(&world.ask(&id, json!([using(3)])).await["turn"], unit, 3);

    // A fork starts from its parent's total.
    let path = format!("/v1/sessions/{id}/fork?wait=result");
    let fork = world
        .rest
        .post(&path, json!({ "prompt": scripted(&json!([using(4)])) }))
        .await
        .expect(201);
    check(&fork["outcome"]["turn"], unit, 4);
    let fork = text(&fork, "id");
    check(&world.ask(&fork, json!([using(5)])).await["turn"], unit, 5);
    assert_eq!(nanos(&world.rest.session(&fork).await["cost_usd"]), 9 * unit);

    // A SIGKILL loses the CLI's total; the cost of the turn in which it comes is unknown, that of others is not.
    check(&world.ask(&id, json!([using(6)])).await["turn"], unit, 6);
    let mut held = using(7);
    held["wait"] = json!("held");
    held["wait_at"] = json!(1);
    world.prompt(&id, json!([held])).await;
    world.api.at_gate("held").await;
    proc::signal(pid(&world.rest.session(&id).await), Signal::SIGKILL);
    let failed = world.rest.in_state(&id, &["failed"]).await;
    assert_eq!(nanos(&failed["cost_usd"]), 12 * unit);
    world.resume(&id).await;
    check(&world.ask(&id, json!([using(8)])).await["turn"], unit, 8);
    check(&world.ask(&id, json!([using(1)])).await["turn"], unit, 1);

    // So it is with a stop in the middle of a turn.
    let mut held = using(7);
    held["wait"] = json!("stopped");
    held["wait_at"] = json!(1);
    world.prompt(&id, json!([held])).await;
    world.api.at_gate("stopped").await;
    world.stop(&id).await;
    world.resume(&id).await;
    check(&world.ask(&id, json!([using(9)])).await["turn"], unit, 9);

    let view = world.idle_after(&id, 9).await;
    assert_eq!(view["turns_with_unknown_cost"], 2);
    let turns = world.rest.turns(&id).await;
    let costs: Vec<Option<i64>> = turns
        .iter()
        .map(|turn| {
            turn["cost_usd"]
                .is_number()
                .then(|| nanos(&turn["cost_usd"]) / unit)
        })
        .collect();
    let times = [1, 2, 3, 6, 0, 8, 1, 0, 9].map(|times| (times > 0).then_some(times));
    assert_eq!(costs, times);
    assert_eq!(nanos(&view["cost_usd"]), 30 * unit);
    let usage = world.rest.get("/v1/usage?group_by=session").await.expect(200);
    let row = |session: &str| {
        let rows = usage["items"].as_array().unwrap();
        nanos(&rows.iter().find(|row| row["key"] == session).unwrap()["cost_usd"])
    };
    assert_eq!((row(&id), row(&fork)), (30 * unit, 9 * unit));
}

#[tokio::test]
async fn the_work_of_sub_agents_is_paid_for_once() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let first = world.ask(&id, json!([{ "text": "one" }])).await;
    let unit = nanos(&first["turn"]["cost_usd"]);
    let mut turns = 1;
    for (background, more) in [(false, 1), (true, 2)] {
        // In the background it must not be done before the turn is.
        let gate = format!("agent-{background}");
        if !background {
            world.api.release(&gate).await;
        }
        let inner = scripted64(&json!([{ "text": "sub final", "wait": gate }]));
        let input = json!({
            "description": "do it", "prompt": inner, "subagent_type": "general-purpose",
            "run_in_background": background,
        });
        let steps = json!([{ "tool": "Agent", "input": input }, { "text": "two" }, { "text": "three" }]);
        world.ask(&id, steps).await;
        world.api.release(&gate).await;
        turns += more;
        let view = world.idle_after(&id, turns).await;
        let calls = i64::try_from(world.api.message_requests().await).unwrap();
        assert_eq!(nanos(&view["cost_usd"]), calls * unit, "{calls} calls");
    }
}
