//! Owns the test of a real CLI that is parked and woken: it knows what was said, and runs as before.

use std::{collections::BTreeSet, fs};

use serde_json::json;

use crate::{
    support::{
        proc,
        programs::scripted,
        wait::{PATIENCE, wait_for},
    },
    world::{World, pid, said, text},
};

fn flags(pid: i32) -> BTreeSet<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let flags = text.split('\0').filter(|arg| arg.starts_with("--"));
    flags.map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn a_parked_cli_is_woken_with_its_memory_of_the_conversation_and_its_settings() {
    let world = World::start().await;
    let extra = world.daemon.work_dir("extra");
    let id = world
        .session(json!({
            "model": "sonnet",
            "additional_directories": [extra],
            "system_prompt": "You are a test of parking.",
            "allowed_tools": ["Read"],
            "permission_mode": "acceptEdits",
        }))
        .await;
    assert_eq!(
        world.answer(&id, json!([{ "text": "the word is plum" }])).await,
        "the word is plum"
    );
    let before = world.rest.session(&id).await;
    let was = flags(pid(&before));
    let system = world.last_request().await["system"].clone();
    let mut client = world.daemon.attach(&id, Some(0)).await;

    let view = world.rest.lifecycle(&id, "park", json!({})).await.expect(200);
    assert_eq!(
        (&view["state"], &view["parked"]["reason"]),
        (&json!("parked"), &json!("asked"))
    );
    assert!(proc::with_env("TRUNKLINE_SESSION", &id).is_empty());

    // By the socket, whose client has stayed.
    let message = json!({ "role": "user", "content": scripted(&json!([{ "text": "it was plum" }])) });
    client.send(&json!({ "type": "user", "message": message })).await;
    let view = wait_for("the answer", PATIENCE, async || {
        let view = world.rest.session(&id).await;
        (view["turns"] == 2 && view["state"] == "idle").then_some(view)
    })
    .await;
    let conversation = text(&before["cli"], "session_id");
    assert_eq!(text(&view["cli"], "session_id"), conversation);
    let is = flags(pid(&view));
    let new: Vec<&String> = is.difference(&was).collect();
    let gone: Vec<&String> = was.difference(&is).collect();
    assert_eq!(new, [&format!("--resume={conversation}")]);
    assert_eq!(gone, [&format!("--session-id={conversation}")]);
    assert_eq!(view["permission_mode"], before["permission_mode"]);

    let request = world.last_request().await;
    let told: Vec<String> = request["messages"].as_array().unwrap().iter().map(said).collect();
    assert!(
        told.iter().any(|text| text.contains("the word is plum")),
        "{told:#?}"
    );
    let prompt_of = |system: &serde_json::Value| system.to_string().contains("You are a test of parking.");
    assert!(prompt_of(&system) && prompt_of(&request["system"]));
    let costs = world.rest.turns(&id).await;
    let sum: f64 = costs.iter().map(|turn| turn["cost_usd"].as_f64().unwrap()).sum();
    assert!((view["cost_usd"].as_f64().unwrap() - sum).abs() < 1e-9);
    assert!(costs[1]["cost_usd"].as_f64().unwrap() <= 2.0 * costs[0]["cost_usd"].as_f64().unwrap());
    let frames = client
        .until("the answer", |frame| {
            frame["data"]["type"] == "result" && frame["data"]["result"] == "it was plum"
        })
        .await;
    let seqs: Vec<u64> = frames
        .iter()
        .filter(|it| it["src"].is_string())
        .filter_map(|it| it["seq"].as_u64())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_cli_that_keeps_nothing_is_not_parked_and_not_resumed() {
    let world = World::start().await;
    let id = world.session(json!({ "persist_session": false })).await;
    assert_eq!(
        world.answer(&id, json!([{ "text": "the word is plum" }])).await,
        "the word is plum"
    );
    let refused = world.rest.lifecycle(&id, "park", json!({})).await.expect(409);
    assert_eq!(refused["obstacle"], "conversation_not_kept", "{refused:#}");
    assert_eq!(
        world.answer(&id, json!([{ "text": "it was plum" }])).await,
        "it was plum"
    );
    world.stop(&id).await;
    let refused = world.rest.lifecycle(&id, "resume", json!({})).await;
    assert_eq!(refused.problem(409), "conversation_not_kept");
}
