//! Owns the tests of the CLI's environment: a daemon that was started inside a session, and variables that change in mid-life.

use serde_json::{Value, json};

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

#[tokio::test]
async fn variables_are_answered_and_their_values_kept_nowhere() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let mut client = world.daemon.attach(&id, None).await;
    let variables = json!({ "ANTHROPIC_AUTH_TOKEN": "PLANTED", "ANY_OTHER": "PLANTED" });
    let update =
        json!({ "type": "update_environment_variables", "variables": variables, "request_id": "mine" });
    client.send(&update).await;
    let answered = |frame: &Value| frame["type"] == "control_response";
    let response = client.find("the answer", answered).await["response"].take();
    assert_eq!(
        (&response["subtype"], &response["request_id"]),
        (&json!("success"), &json!("mine"))
    );
    let applied = response["response"]["applied"].as_array().unwrap();
    assert!(!applied.contains(&json!("ANY_OTHER")), "{response:#}");
    assert_eq!(world.answer(&id, json!([{ "text": "works" }])).await, "works");
    let journal = world.daemon.journal(&id);
    assert!(journal.contains(r#""ANY_OTHER":"redacted""#), "{journal}");
    assert!(!journal.contains("PLANTED"));
}
