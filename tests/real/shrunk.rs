//! Owns the tests of journals of the real CLI that shrink: the conversation goes on, and what a removed message can still be used for.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::{
    support::programs::{clean_env, scripted, trunkline},
    world::{World, fresh_id, said, text},
};

/// A daemon whose journals begin a new file with each process.
async fn world(keep_ms: u64) -> World {
    World::with(|daemon| {
        daemon
            .env("TRUNKLINE_SESSIONS_SEGMENT_BYTES", "65536")
            .env("TRUNKLINE_JOURNAL_COMPACT_AFTER_MS", "1")
            .env("TRUNKLINE_JOURNAL_KEEP_MS", keep_ms.to_string())
    })
    .await
}

/// `trunkline gc` beside the daemon.
fn gc(world: &World) -> Value {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(trunkline())
        .args(["gc", "--json", "--data-dir"])
        .arg(world.daemon.data_dir())
        .env_clear()
        .envs(clean_env(&world.daemon.home(), "http://127.0.0.1:9"))
        .output()
        .unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    serde_json::from_slice(&stdout).unwrap()
}

/// The first of two processes says alpha, the second one beta.
async fn two_processes(world: &World, options: Value) -> String {
    let id = world.session(options).await;
    for name in ["alpha", "beta"] {
        let steps = json!([{ "text": format!("answer {name} "), "repeat": 30, "chunk_size": 8 }]);
        world.answer(&id, steps).await;
        world.stop(&id).await;
        if name == "alpha" {
            world.resume(&id).await;
        }
    }
    id
}

async fn forked(world: &World, id: &str, at: &Value) -> Value {
    let prompt = scripted(&json!([{ "text": "answer of the fork" }]));
    let path = format!("/v1/sessions/{id}/fork?wait=result");
    let body = json!({ "at": at, "prompt": prompt });
    world.rest.post(&path, body).await.expect(201)
}

#[tokio::test]
async fn a_session_of_the_real_cli_goes_on_after_its_journal_was_compacted() {
    let world = world(0).await;
    let id = two_processes(&world, json!({ "include_partial_messages": true })).await;
    let at = |what: &str| format!("/v1/sessions/{id}/{what}");
    let before = world.rest.events(&id, 0).await;
    let messages = world.messages(&id).await;
    let turns = world.rest.turns(&id).await;
    let done = gc(&world);
    assert!(done["compacted"]["bytes"].as_u64().unwrap() > 1_000, "{done:#}");

    // The pieces of the first process are gone, by name, and nothing else is.
    let page = world.rest.get(&at("events?limit=5000")).await.expect(200);
    let gaps = page["missing"].as_array().unwrap();
    let mut gone = 0;
    for gap in gaps {
        assert_eq!(gap["reason"], "compacted", "{gaps:#?}");
        let range = gap["first_seq"].as_u64()..=gap["last_seq"].as_u64();
        let lost = before
            .iter()
            .filter(|record| range.contains(&record["seq"].as_u64()));
        for record in lost {
            gone += 1;
            let is_piece =
                record["data"]["type"] == "stream_event" || record["data"]["subtype"] == "thinking_tokens";
            assert!(record["src"] == "cli" && is_piece, "{record:#}");
        }
    }
    assert!(gone > 20, "{gaps:#?}");
    assert_eq!(before.len(), page["items"].as_array().unwrap().len() + gone);
    assert_eq!(world.messages(&id).await, messages);
    assert_eq!(world.rest.turns(&id).await, turns);

    // The next daemon reads it so, too, and the session goes on.
    let mut world = world;
    assert!(world.daemon.stop().success());
    world.daemon.start().await;
    world.rest = world.daemon.rest();
    assert_eq!(world.messages(&id).await, messages);
    world.resume(&id).await;
    assert_eq!(
        world.answer(&id, json!([{ "text": "answer gamma" }])).await,
        "answer gamma"
    );
    let request = world.last_request().await.to_string();
    assert!(
        request.contains("answer alpha") && request.contains("answer beta"),
        "{request}"
    );

    let alpha = &messages[1];
    assert!(said(alpha).starts_with("answer alpha"), "{messages:#?}");
    let child = forked(&world, &id, &alpha["uuid"]).await;
    assert_eq!(child["outcome"]["result"]["result"], "answer of the fork");
    let request = world.last_request().await.to_string();
    assert!(
        request.contains("answer alpha") && !request.contains("answer beta"),
        "{request}"
    );
    let child = world.messages(&text(&child, "id")).await;
    assert_eq!(
        said(&child[1]),
        said(alpha),
        "the fork can be read from its beginning"
    );
    assert!(!world.daemon.journal(&id).contains("records_missing"));
}

#[tokio::test]
async fn no_fork_begins_at_a_message_that_went_and_the_cli_still_knows_it() {
    let world = world(1).await;
    world.write("a.txt", "old\n");
    let options = json!({ "enable_file_checkpointing": true, "permission_mode": "acceptEdits" });
    let id = world.session(options).await;
    let file = world.dir().join("a.txt");
    let read = json!({ "tool": "Read", "input": { "file_path": &file } });
    let change = json!({ "tool": "Write", "input": { "file_path": &file, "content": "new\n" } });
    world
        .answer(&id, json!([read, change, { "text": "answer alpha" }]))
        .await;
    world.stop(&id).await;
    world.resume(&id).await;
    world.answer(&id, json!([{ "text": "answer beta" }])).await;
    world.stop(&id).await;
    let messages = world.messages(&id).await;
    let (prompt, alpha) = (&messages[0]["uuid"], &messages[messages.len() - 3]["uuid"]);
    let turns = world.rest.turns(&id).await;
    let done = gc(&world);
    assert!(done["removed"]["segments"].as_u64().unwrap() >= 1, "{done:#}");
    let left = world.messages(&id).await;
    assert!(
        left.iter()
            .all(|it| it["uuid"] != *prompt && it["uuid"] != *alpha)
    );
    assert_eq!(world.rest.turns(&id).await, turns);

    for at in [prompt, alpha] {
        let refused = world.rest.lifecycle(&id, "fork", json!({ "at": at })).await;
        assert!(
            text(&refused.body, "detail").contains("removed"),
            "{:#}",
            refused.body
        );
        assert_eq!(refused.problem(422), "message_not_forkable");
    }
    let sessions = world.rest.get("/v1/sessions").await.expect(200);
    let count = sessions["items"].as_array().unwrap().len();
    assert_eq!(count, 1, "no session is left behind: {sessions:#}");

    // The CLI keeps a transcript and files of its own: these two ask it.
    world.resume(&id).await;
    let path = format!("/v1/sessions/{id}/rewind");
    let body = json!({ "user_message_id": prompt });
    let rewind = world.rest.post(&path, body).await.expect(200);
    assert_eq!(rewind["response"]["canRewind"], true, "{rewind:#}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "old\n");
    let unknown = json!({ "user_message_id": fresh_id() });
    assert_eq!(
        world.rest.post(&path, unknown).await.problem(409),
        "control_refused"
    );
    let at = json!({ "at": alpha });
    world
        .rest
        .lifecycle(&id, "restart?wait=ready", at)
        .await
        .expect(200);
    world.answer(&id, json!([{ "text": "answer gamma" }])).await;
    let request = world.last_request().await.to_string();
    assert!(
        request.contains("answer alpha") && !request.contains("answer beta"),
        "{request}"
    );
}
