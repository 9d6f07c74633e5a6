//! Owns the test of a daemon that was started inside a session of the CLI.

use serde_json::json;

use crate::{
    support::proc,
    world::{World, pid},
};

#[tokio::test]
async fn a_daemon_inside_a_session_of_the_cli_works() {
    let outer = "8d3b3bb4-2e0c-4e6a-9d1d-1c7e3f0a5b66";
    let world = World::with(|daemon| {
        daemon
            .env("CLAUDECODE", "1")
            .env("CLAUDE_CODE_SESSION_ID", outer)
            .env("CLAUDE_CODE_ENTRYPOINT", "cli")
            .env("CLAUDE_CODE_SSE_PORT", "1")
    })
    .await;
    let id = world.session(json!({})).await;
    assert_eq!(world.answer(&id, json!([{ "text": "works" }])).await, "works");
    let view = world.rest.session(&id).await;
    assert_ne!(view["cli"]["session_id"], json!(outer));
    let cli = proc::read(pid(&view)).unwrap();
    for name in ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT"] {
        assert_eq!(cli.env(name), None, "{name}");
    }
    assert_ne!(cli.env("CLAUDE_CODE_ENTRYPOINT").as_deref(), Some("cli"));
}
