//! Owns the test that the catalogue knows what the real CLI says.

use serde_json::json;

use crate::world::{World, bash};

#[tokio::test]
async fn nothing_that_the_real_cli_says_is_unknown() {
    let world = World::start().await;
    let options = json!({
        "allowed_tools": ["Bash", "Agent"], "include_partial_messages": true, "include_hook_events": true,
        "replay_user_messages": true,
    });
    let id = world.session(options).await;
    let agent = json!({
        "description": "look", "prompt": "Look around.", "subagent_type": "general-purpose",
    });
    let steps = json!([
        { "thinking": "Let me see.", "text": "First", "tool": "Bash", "input": { "command": "sleep 4; echo done" } },
        { "tool": "Agent", "input": agent },
        { "tool": "Bash", "input": { "command": "echo more", "run_in_background": true } },
        { "status": 529, "times": 1, "text": "All done." },
    ]);
    assert_eq!(world.answer(&id, steps).await, "All done.");
    for command in ["/compact", "/cost", "/clear"] {
        world.rest.ask(&id, command).await;
    }
    let after = json!([bash("true"), { "text": "And on." }]);
    assert_eq!(world.answer(&id, after).await, "And on.");

    let kinds: std::collections::BTreeSet<String> = world
        .rest
        .events(&id, 0)
        .await
        .iter()
        .filter(|record| record["src"] == "cli")
        .map(|record| format!("{}/{}", record["data"]["type"], record["data"]["subtype"]))
        .collect();
    assert!(kinds.len() > 12, "much was said: {kinds:?}");
    let metrics = world.rest.get("/metrics").await.expect(200);
    let metrics = metrics.as_str().unwrap();
    let unknown: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("trunkline_unknown_messages_total{"))
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(
        metrics.contains("trunkline_turns_total{outcome=\"success\"}"),
        "{metrics}"
    );
}
