//! Owns the tests of launch options that change while a session is there, and of a conversation that goes on at a message in place, on
//! the real CLI.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    hooks::answer,
    world::{World, bash, nanos, text},
};

async fn patch(world: &World, id: &str, options: Value) -> Value {
    let path = format!("/v1/sessions/{id}");
    world
        .rest
        .patch(&path, json!({ "options": options }))
        .await
        .expect(200)
}

#[tokio::test]
async fn a_session_goes_on_once_its_budget_is_raised() {
    let world = World::start().await;
    let options = json!({ "max_budget_usd": 0.001, "allowed_tools": ["Bash"] });
    let id = world.session(options).await;
    let reply = world
        .ask(&id, json!([bash("true"), bash("true"), { "text": "too late" }]))
        .await;
    assert_eq!(reply["turn"]["subtype"], "error_max_budget_usd");
    let spent = nanos(&reply["turn"]["cost_usd"]);
    let view = patch(&world, &id, json!({ "max_budget_usd": 100.0 })).await;
    assert_eq!(view["needs_restart"], json!(["max_budget_usd"]), "{view:#}");
    world
        .rest
        .lifecycle(&id, "restart?wait=ready", json!({}))
        .await
        .expect(200);
    assert_eq!(world.answer(&id, json!([{ "text": "and on" }])).await, "and on");
    let view = world.idle_after(&id, 2).await;
    assert!(nanos(&view["cost_usd"]) > spent, "{view:#}");
    assert_eq!(view["needs_restart"], json!([]));
}

#[tokio::test]
async fn a_start_that_the_cli_refuses_for_an_option_is_mended() {
    let world = World::start().await;
    let options = json!({ "settings": "/nowhere/settings.json", "env": { "SHOWN": "before" } });
    let body = json!({ "cwd": world.dir(), "options": options });
    let made = world.rest.create(body).await;
    let id = text(&made, "id");
    let view = world.rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["ways_out"], json!(["change_options"]), "{view:#}");
    let change = json!({ "settings": { "effortLevel": "low" }, "env": { "SHOWN": "after" }, "allowed_tools": ["Bash"] });
    let view = patch(&world, &id, change).await;
    assert_eq!(view["ways_out"][0], "resume", "{view:#}");
    world.resume(&id).await;
    world
        .answer(&id, json!([bash("touch shown-$SHOWN"), { "text": "done" }]))
        .await;
    assert!(world.exists("shown-after"));
    assert_eq!(world.last_request().await["output_config"]["effort"], "low");
}

/// The ids of the prompts and of the last answers of the turns.
async fn turns(world: &World, id: &str) -> Vec<(String, String)> {
    let messages = world.messages(id).await;
    let pairs = messages.chunks(2);
    pairs
        .map(|pair| (text(&pair[0], "uuid"), text(&pair[1], "uuid")))
        .collect()
}

async fn knows(world: &World, known: &[&str], unknown: &[&str]) {
    let request = world.last_request().await.to_string();
    for words in known {
        assert!(request.contains(words), "{words} is lost: {request}");
    }
    for words in unknown {
        assert!(!request.contains(words), "{words} is still known: {request}");
    }
}

#[tokio::test]
async fn a_conversation_goes_on_at_a_message_in_place() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    for name in ["answer alpha", "answer beta"] {
        world.answer(&id, json!([{ "text": name }])).await;
    }
    let said = turns(&world, &id).await;
    let before = world.rest.session(&id).await;
    let at = json!({ "at": said[0].1 });
    world
        .rest
        .lifecycle(&id, "restart?wait=ready", at)
        .await
        .expect(200);
    // It holds until something is said, however the process ends.
    world.rest.lifecycle(&id, "park", json!({})).await.expect(200);
    world.answer(&id, json!([{ "text": "answer gamma" }])).await;
    knows(&world, &["answer alpha"], &["answer beta"]).await;
    let after = world.rest.session(&id).await;
    assert_eq!(
        after["cli"]["session_id"], before["cli"]["session_id"],
        "in place"
    );
    // And then this is the end of it.
    world.stop(&id).await;
    world.resume(&id).await;
    world.answer(&id, json!([{ "text": "answer delta" }])).await;
    knows(&world, &["answer alpha", "answer gamma"], &["answer beta"]).await;
}

#[tokio::test]
async fn only_the_turn_that_is_named_is_dropped() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    for name in ["answer alpha", "answer beta", "answer gamma"] {
        world.answer(&id, json!([{ "text": name }])).await;
    }
    let said = turns(&world, &id).await;
    world.stop(&id).await;
    let drop_turn =
        |at: usize, dropped: usize| json!({ "at": said[at].1, "resume_drops_turn": said[dropped].0 });
    // Another turn is behind it, too.
    let refused = world
        .rest
        .lifecycle(&id, "resume", drop_turn(0, 1))
        .await
        .expect(409);
    assert_eq!(refused["code"], "resume_rejected", "{refused:#}");
    let view = world.rest.session(&id).await;
    assert_eq!(view["reason"]["code"], "resume_rejected", "{view:#}");
    assert_eq!(view["ways_out"][0], "resume", "{view:#}");
    world.resume(&id).await;
    world.answer(&id, json!([{ "text": "answer delta" }])).await;
    knows(&world, &["answer alpha", "answer beta", "answer gamma"], &[]).await;

    let said = turns(&world, &id).await;
    let body = json!({ "at": said[2].1, "resume_drops_turn": said[3].0 });
    world
        .rest
        .lifecycle(&id, "restart?wait=ready", body)
        .await
        .expect(200);
    world.answer(&id, json!([{ "text": "answer epsilon" }])).await;
    knows(&world, &["answer beta", "answer gamma"], &["answer delta"]).await;

    let unknown = json!({ "at": crate::world::fresh_id() });
    let refused = world.rest.lifecycle(&id, "restart", unknown).await.problem(404);
    assert_eq!(refused, "message_not_found");
    world.resume(&id).await;
    world.answer(&id, json!([{ "text": "answer zeta" }])).await;
    knows(&world, &["answer gamma", "answer epsilon"], &["answer delta"]).await;
    for (body, field) in [
        (json!({ "at": said[0].1, "fresh": true }), "at"),
        (json!({ "resume_drops_turn": said[0].0 }), "resume_drops_turn"),
    ] {
        let refused = world.rest.lifecycle(&id, "restart", body).await.expect(422);
        assert_eq!(refused["field"], field, "{refused:#}");
    }
}

/// A turn with a command: the clients that are named are asked about it, by their places among the hooks, and no other.
async fn hooked(world: &World, id: &str, name: &str, owners: &[&str]) {
    let mut clients = Vec::new();
    for owner in owners {
        clients.push(world.daemon.attach_as(owner, id, None).await);
    }
    let before = world.rest.session(id).await;
    let command = format!("touch {name}.txt");
    world.prompt(id, json!([bash(&command), { "text": "ok" }])).await;
    for (place, client) in clients.iter_mut().enumerate() {
        let wanted = format!("trunkline/{place}");
        let is_own = |frame: &Value| frame["data"]["request"]["callback_id"] == wanted.as_str();
        let asked = client.find("the hook", is_own).await;
        client
            .send(&answer(&asked["data"]["request_id"], json!({})))
            .await;
    }
    world.idle_after(id, before["turns"].as_u64().unwrap() + 1).await;
    let events = world.rest.events(id, before["head_seq"].as_u64().unwrap()).await;
    let is_answer =
        |record: &&Value| record["src"] == "client" && record["data"]["type"] == "control_response";
    let answers = events.iter().filter(is_answer);
    let by: BTreeSet<_> = answers.map(|record| text(record, "by")).collect();
    let expected: BTreeSet<_> = owners.iter().map(|owner| format!("ws:{owner}")).collect();
    assert_eq!(by, expected, "{events:#?}");
    assert!(world.exists(&format!("{name}.txt")));
}

#[tokio::test]
async fn the_next_process_calls_the_hooks_that_are_left_and_those_that_are_new() {
    let world = World::start().await;
    let hook = |client: &str| {
        json!({
            "event": "PreToolUse", "matcher": "Bash", "target": { "type": "client", "client_id": client },
        })
    };
    let hooks = json!([hook("gone"), hook("stays")]);
    let id = world
        .session(json!({ "hooks": hooks, "allowed_tools": ["Bash"] }))
        .await;
    hooked(&world, &id, "first", &["gone", "stays"]).await;
    let view = patch(&world, &id, json!({ "hooks": [hook("stays"), hook("new")] })).await;
    assert_eq!(view["needs_restart"], json!(["hooks"]), "{view:#}");
    hooked(&world, &id, "second", &["gone", "stays"]).await;
    world
        .rest
        .lifecycle(&id, "restart?wait=ready", json!({}))
        .await
        .expect(200);
    hooked(&world, &id, "third", &["stays", "new"]).await;
}
