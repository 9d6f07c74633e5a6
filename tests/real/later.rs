//! Owns the tests of what the conversation's own transcript is told, which the CLI and the SDKs read.

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    support::{
        programs::repository,
        wait::{PATIENCE, wait_for},
    },
    world::{World, text},
};

/// The SDK's view of a conversation.
async fn told_by_the_sdk(world: &World, conversation: &str) -> Value {
    let program = "import { getSessionInfo } from '@anthropic-ai/claude-agent-sdk'; \
                   console.log(JSON.stringify(await getSessionInfo(process.argv[1]) ?? null));";
    let mut command = Command::new("node");
    command
        .args([
            "--input-type=module",
            "--no-warnings",
            "-e",
            program,
            conversation,
        ])
        .current_dir(repository("web-test"))
        .env("HOME", world.daemon.home())
        .env_remove("CLAUDE_CONFIG_DIR");
    let output = command.output().await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn a_title_and_a_tag_are_what_the_sdk_reads() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let path = format!("/v1/sessions/{id}");
    // Nothing was said yet: there is no transcript. It is told once there is one.
    let early = json!({ "title": "Early", "tag": "early" });
    let view = world.rest.patch(&path, early).await.expect(200);
    let conversation = text(&view["cli"], "session_id");
    world.answer(&id, json!([{ "text": "hello" }])).await;
    wait_for("the transcript is told", PATIENCE, async || {
        let info = told_by_the_sdk(&world, &conversation).await;
        (info["customTitle"] == "Early" && info["tag"] == "early").then_some(())
    })
    .await;
    let named = json!({ "title": " Release \"notes\"\n", "tag": "docs" });
    let view = world.rest.patch(&path, named).await.expect(200);
    assert_eq!(text(&view["cli"], "session_id"), conversation);
    let info = told_by_the_sdk(&world, &conversation).await;
    assert_eq!(
        (&info["customTitle"], &info["tag"]),
        (&json!("Release \"notes\""), &json!("docs")),
        "{info:#}"
    );

    // The CLI, which knew nothing of it, keeps it at its end and when it goes on.
    world.stop(&id).await;
    world.resume(&id).await;
    world.answer(&id, json!([{ "text": "again" }])).await;
    world.stop(&id).await;
    let info = told_by_the_sdk(&world, &conversation).await;
    assert_eq!(
        (&info["customTitle"], &info["tag"]),
        (&json!("Release \"notes\""), &json!("docs")),
        "{info:#}"
    );
    world.rest.patch(&path, json!({ "tag": null })).await.expect(200);
    let info = told_by_the_sdk(&world, &conversation).await;
    assert!(info["tag"].as_str().unwrap_or_default().is_empty(), "{info:#}");
}

#[tokio::test]
async fn a_session_begins_with_a_conversation_of_the_cli() {
    let world = World::start().await;
    let cwd = world.dir();
    let begin = async |options: Value| {
        let body = json!({ "cwd": cwd, "options": options });
        world.rest.post("/v1/sessions?wait=ready", body).await
    };
    let nothing = begin(json!({ "continue": true })).await.expect(201);
    let first = text(&nothing, "id");
    let own = "0190b2c4-7d1e-4f3a-8b5c-1d2e3f4a5b6c";
    let made = begin(json!({ "session_id": own })).await.expect(201);
    assert_eq!(made["cli"]["session_id"], own);
    assert_eq!(
        made["options"],
        json!({}),
        "the first start alone is told: {made:#}"
    );
    let id = text(&made, "id");
    for name in ["answer alpha", "answer beta"] {
        world.answer(&id, json!([{ "text": name }])).await;
    }
    let alpha = text(&world.messages(&id).await[1], "uuid");
    world.stop(&id).await;
    for taken in [
        json!({ "session_id": own }),
        json!({ "continue": true }),
        json!({ "resume": own }),
    ] {
        assert_eq!(begin(taken).await.problem(409), "conversation_taken");
    }
    // Nobody has it any more.
    for id in [&first, &id] {
        world.rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    }
    let copy = "0190b2c4-7d1e-4f3a-8b5c-1d2e3f4a5b6d";
    let forked =
        json!({ "continue": true, "fork_session": true, "resume_session_at": alpha, "session_id": copy });
    let forked = begin(forked).await.expect(201);
    assert_eq!(forked["cli"]["session_id"], copy);
    let gone_on = begin(json!({ "resume": own })).await.expect(201);
    assert_eq!(gone_on["cli"]["session_id"], own);
    for (session, knows_beta) in [(&forked, false), (&gone_on, true)] {
        let id = text(session, "id");
        world.answer(&id, json!([{ "text": "on" }])).await;
        let request = world.last_request().await.to_string();
        assert!(request.contains("answer alpha"), "{request}");
        assert_eq!(request.contains("answer beta"), knows_beta, "{request}");
    }
    for wrong in [
        json!({ "fork_session": true }),
        json!({ "resume_session_at": alpha }),
        json!({ "continue": true, "resume": own }),
        json!({ "resume": own, "session_id": copy }),
    ] {
        assert_eq!(begin(wrong).await.problem(422), "invalid_option");
    }
}
