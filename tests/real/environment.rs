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

/// The second program is the same one at another place, as another version would be.
#[tokio::test]
async fn a_session_runs_the_program_of_its_name() {
    let world = World::with(|daemon| {
        let real = crate::support::programs::real_claude();
        // A link would be followed: its place says which of the two is started.
        let wrapper = format!("#!/bin/sh\nexport RUN_BY=next\nexec {} \"$@\"\n", real.display());
        daemon
            .home_file("bin/claude-next", &wrapper)
            .env("TRUNKLINE_CLAUDE_EXECUTABLES", "{ next = \"~/bin/claude-next\" }")
    })
    .await;
    let program = world.daemon.home().join("bin/claude-next");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, all).unwrap();
    let run_by = async |id: &str| {
        let cli = proc::read(pid(&world.rest.session(id).await)).unwrap();
        cli.env("RUN_BY")
    };
    let id = world.session(json!({ "executable": "next" })).await;
    assert_eq!(world.answer(&id, json!([{ "text": "one" }])).await, "one");
    assert_eq!(run_by(&id).await.as_deref(), Some("next"));
    let other = world.session(json!({})).await;
    assert_eq!(run_by(&other).await, None);
    // It goes on with the same conversation in the other program.
    let body = json!({ "options": { "executable": null } });
    world
        .rest
        .lifecycle(&id, "restart?wait=ready", body)
        .await
        .expect(200);
    assert_eq!(world.answer(&id, json!([{ "text": "two" }])).await, "two");
    assert_eq!(run_by(&id).await, None);
    assert!(world.last_request().await.to_string().contains("one"));
    for wrong in ["/bin/sh", "nope", "../claude"] {
        let body = json!({ "cwd": world.dir(), "options": { "executable": wrong } });
        let refused = world.rest.post("/v1/sessions", body).await.expect(422);
        assert_eq!(refused["field"], "options.executable", "{refused:#}");
    }
}

#[tokio::test]
async fn the_environment_of_a_session_takes_the_place_of_the_daemons() {
    let world = World::with(|daemon| {
        daemon
            .env("LC_OF_DAEMON", "1")
            .env("TRUNKLINE_CLAUDE_ENV", "{ OF_CONFIGURATION = \"1\" }")
    })
    .await;
    let home = world.daemon.home().display().to_string();
    let env = json!({
        "PATH": std::env::var("PATH").unwrap(), "HOME": home, "ANTHROPIC_BASE_URL": world.api.url(),
        "ANTHROPIC_API_KEY": "of the session", "OWN": "1",
    });
    let id = world.session(json!({ "env": env, "replace_env": true })).await;
    assert_eq!(world.answer(&id, json!([{ "text": "works" }])).await, "works");
    let cli = proc::read(pid(&world.rest.session(&id).await)).unwrap();
    assert_eq!(cli.env("OWN").as_deref(), Some("1"));
    assert_eq!(cli.env("OF_CONFIGURATION").as_deref(), Some("1"));
    assert_eq!(cli.env("LC_OF_DAEMON"), None);
    let added = world.session(json!({ "env": { "OWN": "1" } })).await;
    let cli = proc::read(pid(&world.rest.session(&added).await)).unwrap();
    assert_eq!(cli.env("LC_OF_DAEMON").as_deref(), Some("1"));
}
