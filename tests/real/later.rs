//! Owns the tests of what the conversation's own transcript is told, which the CLI and the SDKs read.

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    support::programs::repository,
    world::{World, text},
};

/// What the SDK says of a conversation.
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
    // Nothing was said yet: there is no transcript.
    world
        .rest
        .patch(&path, json!({ "tag": "early" }))
        .await
        .expect(200);
    world.answer(&id, json!([{ "text": "hello" }])).await;
    let named = json!({ "title": " Release \"notes\"\n", "tag": "docs" });
    let view = world.rest.patch(&path, named).await.expect(200);
    let conversation = text(&view["cli"], "session_id");
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
