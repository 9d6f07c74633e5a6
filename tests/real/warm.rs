//! Owns what is so with the real CLI when its process was started before anybody asked for the session.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::{
    support::{
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
    world::World,
};

const PROFILE: &str = "[{ name = \"app\", cwd = \"~/app\", options = { model = \"claude-sonnet-4-5\", \
    allowed_tools = [\"Read\"], settings = { env = { A = \"1\" } } } }]";

async fn ready(rest: &Rest) {
    wait_for("a process is ready", PATIENCE, async || {
        let ready = rest.get("/readyz").await.expect(200);
        (ready["warm"][0]["ready"] == 1).then_some(())
    })
    .await;
}

fn options() -> Value {
    json!({ "model": "claude-sonnet-4-5", "allowed_tools": ["Read"], "settings": { "env": { "A": "1" } } })
}

async fn world() -> World {
    World::with(|daemon| {
        daemon
            .home_file("app/CLAUDE.md", "The word is one.\n")
            .env("TRUNKLINE_WARM_PROFILES", PROFILE)
    })
    .await
}

/// The arguments and the environment of a session's CLI, without what differs from session to session.
fn launch(view: &Value) -> (Vec<String>, Vec<String>) {
    let pid = view["cli"]["pid"].as_i64().unwrap();
    let id = view["id"].as_str().unwrap();
    let conversation = view["cli"]["session_id"].as_str().unwrap();
    let read = |name: &str| {
        let text = fs::read(format!("/proc/{pid}/{name}")).unwrap();
        let text = String::from_utf8_lossy(&text).replace(id, "ID");
        let text = text.replace(conversation, "CONVERSATION");
        let parts = text
            .split('\0')
            .filter(|part| !part.starts_with("TRUNKLINE_RUN="));
        parts.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    (read("cmdline"), read("environ"))
}

#[tokio::test]
async fn a_process_that_waited_is_what_a_cold_start_makes_and_answers() {
    let world = world().await;
    ready(&world.rest).await;
    let create = json!({ "cwd": world.daemon.home().join("app"), "options": options(), "prompt": "hello" });
    let mut views = Vec::new();
    for _ in 0..2 {
        // The second one comes before another waits.
        let view = world
            .rest
            .post("/v1/sessions?wait=ready", create.clone())
            .await
            .expect(201);
        views.push(view);
    }
    let mut launches = Vec::new();
    let mut initialized = Vec::new();
    for (view, is_warm) in views.iter().zip([true, false]) {
        let id = view["id"].as_str().unwrap();
        let view = world.idle_after(id, 1).await;
        launches.push(launch(&view));
        let records = world.rest.events(id, 0).await;
        let claimed = records.iter().any(|record| record["data"]["type"] == "claimed");
        assert_eq!(claimed, is_warm);
        initialized.push(records.iter().find(|record| record["src"] == "client").unwrap()["data"].clone());
        let messages = world.messages(id).await;
        assert!(
            format!("{messages:?}").contains("Hello from the stand-in model."),
            "{messages:#?}"
        );
        assert_eq!(view["model"], "claude-sonnet-4-5");
    }
    assert_eq!(launches[0], launches[1]);
    assert_eq!(initialized[0], initialized[1]);
    assert_eq!(views[0]["options"], views[1]["options"]);
    // Its conversation is kept as any other.
    let first = views[0]["id"].as_str().unwrap();
    world.stop(first).await;
    world.resume(first).await;
    world.rest.ask(first, "again").await;
    let request = world.last_request().await;
    assert!(request["messages"].to_string().contains("hello"), "{request:#}");
}

/// The CLI reads its instructions and the state of the repository once, when it starts.
#[tokio::test]
async fn a_process_that_read_what_has_changed_since_is_given_to_nobody() {
    let world = world().await;
    ready(&world.rest).await;
    let app = world.daemon.home().join("app");
    let told = async || {
        let create = json!({ "cwd": app, "options": options() });
        let id = world.rest.create_ready(create).await;
        world.rest.ask(&id, "hello").await;
        let records = world.rest.events(&id, 0).await;
        let is_claimed = records.iter().any(|record| record["data"]["type"] == "claimed");
        (is_claimed, world.last_request().await.to_string())
    };
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        let git = git
            .current_dir(&app)
            .args(["-c", "user.name=n", "-c", "user.email=e@e"]);
        assert!(git.args(args).status().unwrap().success());
    };
    fs::write(app.join("CLAUDE.md"), "The word is another one.\n").unwrap();
    let (is_claimed, request) = told().await;
    assert!(
        !is_claimed && request.contains("The word is another one."),
        "{request}"
    );
    git(&["init", "-q", "-b", "later"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first of all"]);
    ready(&world.rest).await;
    git(&["commit", "-q", "--allow-empty", "-m", "since then"]);
    let (is_claimed, request) = told().await;
    assert!(!is_claimed && request.contains("since then"), "{request}");
    ready(&world.rest).await;
    let (is_claimed, request) = told().await;
    assert!(is_claimed && request.contains("since then"), "{request}");
}
