//! Owns the tests of launch options that change while a session is there: its next process has them, and the write that came last
//! wins.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    fake::bed::{path, pid, session_with},
    support::{
        daemon::TestDaemon,
        rest::{Reply, Rest},
    },
};

const SECRET: &str = "planted-in-an-option";

/// A session whose CLI writes down how it was started.
async fn session(daemon: &TestDaemon, options: Value) -> String {
    let settings = json!({ "dump": daemon.home().join("dump"), "cost": 0.01 });
    session_with(daemon, "a", settings, options).await
}

/// The last start of a CLI.
fn start(daemon: &TestDaemon) -> Value {
    let text = fs::read_to_string(daemon.home().join("dump")).unwrap();
    serde_json::from_str(text.lines().next_back().unwrap()).unwrap()
}

/// The value of a flag at the last start.
fn flag(daemon: &TestDaemon, name: &str) -> Option<String> {
    let start = start(daemon);
    let mut args = start["argv"].as_array().unwrap().iter();
    args.find_map(|arg| Some(arg.as_str()?.strip_prefix(&format!("--{name}="))?.to_owned()))
}

async fn patch(rest: &Rest, id: &str, options: Value) -> Value {
    let body = json!({ "options": options });
    rest.patch(&format!("/v1/sessions/{id}"), body).await.expect(200)
}

async fn patch_if(rest: &Rest, id: &str, revision: &str, body: Value) -> Reply {
    let request = rest.builder(Method::PATCH, &format!("/v1/sessions/{id}"));
    rest.send(request.header("If-Match", revision).json(&body)).await
}

async fn park(rest: &Rest, id: &str) {
    rest.lifecycle(id, "park", json!({})).await.expect(200);
}

#[tokio::test]
async fn the_next_process_has_what_was_changed() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options = json!({ "model": "opus", "max_turns": 7, "env": { "KEPT": "1", "GONE": "2" } });
    let id = session(&daemon, options).await;
    let change = json!({
        "model": "haiku", "max_turns": null, "effort": "low", "env": { "GONE": null, "NEW": SECRET },
    });
    let view = patch(&rest, &id, change).await;
    let expected = json!(["effort", "env", "max_turns", "model"]);
    assert_eq!(view["needs_restart"], expected, "{view:#}");
    assert_eq!(
        view["options"]["env"],
        json!({ "KEPT": "<hidden>", "NEW": "<hidden>" })
    );
    assert_eq!(
        flag(&daemon, "model").as_deref(),
        Some("opus"),
        "it runs on as it is"
    );
    assert_eq!(rest.session(&id).await["needs_restart"], expected);

    rest.ask(&id, "first").await;
    park(&rest, &id).await;
    assert_eq!(
        rest.session(&id).await["needs_restart"],
        json!([]),
        "there is no process"
    );
    rest.ask(&id, "second").await;
    assert_eq!(rest.session(&id).await["needs_restart"], json!([]));
    assert_eq!(flag(&daemon, "model").as_deref(), Some("haiku"));
    assert_eq!(flag(&daemon, "effort").as_deref(), Some("low"));
    assert_eq!(flag(&daemon, "max-turns"), None);
    let env = start(&daemon)["env"].clone();
    assert_eq!(
        (&env["KEPT"], &env["NEW"], &env["GONE"]),
        (&json!("1"), &json!(SECRET), &Value::Null)
    );
    assert!(!daemon.journal(&id).contains(SECRET));
    assert!(!daemon.log().contains(SECRET));
}

#[tokio::test]
async fn a_change_that_is_wrong_changes_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({ "model": "opus", "env": { "KEY": SECRET } })).await;
    rest.ask(&id, "first").await;
    let before = rest.session(&id).await;
    for (options, code, field) in [
        (
            json!({ "env": { "KEY": "<hidden>" } }),
            "invalid_option",
            "options.env.KEY",
        ),
        (json!({ "model": "a\nb" }), "invalid_option", "options.model"),
        (json!({ "resume": null }), "invalid_option", "options.resume"),
        (
            json!({ "session_id": null }),
            "invalid_option",
            "options.session_id",
        ),
        (json!({ "title": "x" }), "invalid_option", "options.title"),
        (
            json!({ "persist_session": false }),
            "invalid_option",
            "options.persist_session",
        ),
        (
            json!({ "permission_mode": "bypassPermissions" }),
            "invalid_option",
            "options.permission_mode",
        ),
        (json!({ "nope": 1 }), "invalid_field", "options.nope"),
        (
            json!({ "max_turns": "many" }),
            "invalid_field",
            "options.max_turns",
        ),
    ] {
        let mut change = options.clone();
        change["effort"] = json!("low");
        let body = json!({ "title": "other", "options": change });
        for (route, body) in [
            (format!("/v1/sessions/{id}"), body),
            (path(&id, "restart"), json!({ "options": change })),
            (path(&id, "fork"), json!({ "options": change })),
        ] {
            let method = if route.ends_with(&id) {
                Method::PATCH
            } else {
                Method::POST
            };
            let refused = rest
                .send(rest.builder(method, &route).json(&body))
                .await
                .expect(422);
            assert_eq!(refused["code"], code, "{route} {options}: {refused:#}");
            assert_eq!(refused["field"], field, "{route} {options}: {refused:#}");
        }
    }
    let after = rest.session(&id).await;
    for member in ["title", "options", "revision", "needs_restart", "cli"] {
        assert_eq!(after[member], before[member], "{member}");
    }
}

#[tokio::test]
async fn options_that_were_read_with_hidden_values_make_no_session() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({ "env": { "KEY": SECRET } })).await;
    let options = rest.session(&id).await["options"].clone();
    let body = json!({ "cwd": daemon.work_dir("copy"), "options": options });
    let refused = rest.post("/v1/sessions", body).await.expect(422);
    assert_eq!(
        (&refused["code"], &refused["field"]),
        (&json!("invalid_option"), &json!("options.env.KEY"))
    );
    let all = rest.get("/v1/sessions").await.expect(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 1, "{all:#}");
}

#[tokio::test]
async fn a_change_of_another_revision_is_refused() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({})).await;
    let revision = |view: &Value| format!("\"{}\"", view["revision"]);
    let seen = revision(&rest.session(&id).await);
    let title = |title: &str| json!({ "title": title, "options": { "model": title } });
    let first = patch_if(&rest, &id, &seen, title("first")).await.expect(200);
    assert_ne!(revision(&first), seen);
    let refused = patch_if(&rest, &id, &seen, title("second")).await.expect(412);
    assert_eq!(refused["code"], "revision_differs", "{refused:#}");
    assert_eq!(refused["revision"], first["revision"], "{refused:#}");
    assert_eq!(
        patch_if(&rest, &id, "7", title("second")).await.problem(400),
        "invalid_query"
    );
    let view = rest.session(&id).await;
    assert_eq!(
        (&view["title"], &view["options"]["model"]),
        (&json!("first"), &json!("first"))
    );
    let tag = rest
        .builder(Method::GET, &format!("/v1/sessions/{id}"))
        .send()
        .await
        .unwrap();
    let tag = tag.headers()["etag"].to_str().unwrap().to_owned();
    patch_if(&rest, &id, &tag, title("third")).await.expect(200);
    patch_if(&rest, &id, "*", title("fourth")).await.expect(200);
}

#[tokio::test]
async fn the_write_that_came_last_wins() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, json!({ "model": "opus" })).await;
    let rest = daemon.rest();
    rest.ask(&id, "first").await;
    let set = async |rest: &Rest, route: &str, body: Value| {
        drop(rest.put(&path(&id, route), body).await.expect(200));
    };
    // Choices at run time give way to the options that a client sets after them.
    set(&rest, "model", json!({ "model": "haiku" })).await;
    set(&rest, "permission_mode", json!({ "mode": "acceptEdits" })).await;
    set(
        &rest,
        "thinking",
        json!({ "max_thinking_tokens": 8000, "display": "summarized" }),
    )
    .await;
    let settings = json!({ "settings": { "effortLevel": "high", "model": "other", "cleanupPeriodDays": 3 } });
    rest.patch(&path(&id, "settings"), settings).await.expect(200);
    let change =
        json!({ "model": "sonnet", "permission_mode": "plan", "max_thinking_tokens": 1000, "effort": "low" });
    let view = patch(&rest, &id, change).await;
    let changed = json!(["effort", "max_thinking_tokens", "model", "permission_mode"]);
    assert_eq!(view["needs_restart"], changed, "{view:#}");
    // It holds over the death of the daemon, whose successor hears of the mode that the process is in.
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    rest.ask(&id, "second").await;
    assert_eq!(rest.session(&id).await["needs_restart"], changed);
    park(&rest, &id).await;
    rest.ask(&id, "third").await;
    assert_eq!(flag(&daemon, "model").as_deref(), Some("sonnet"));
    assert_eq!(flag(&daemon, "permission-mode").as_deref(), Some("plan"));
    assert_eq!(flag(&daemon, "max-thinking-tokens").as_deref(), Some("1000"));
    assert_eq!(flag(&daemon, "thinking-display"), None);
    assert_eq!(flag(&daemon, "effort").as_deref(), Some("low"));

    // And the other way round.
    patch(
        &rest,
        &id,
        json!({ "model": "opus", "permission_mode": "default" }),
    )
    .await;
    set(&rest, "model", json!({ "model": "haiku" })).await;
    // The process is in this mode already.
    set(&rest, "permission_mode", json!({ "mode": "plan" })).await;
    let view = rest.session(&id).await;
    assert_eq!(
        view["needs_restart"],
        json!(["permission_mode"]),
        "the process has that model: {view:#}"
    );
    park(&rest, &id).await;
    rest.ask(&id, "fourth").await;
    assert_eq!(flag(&daemon, "model").as_deref(), Some("haiku"));
    assert_eq!(flag(&daemon, "permission-mode").as_deref(), Some("plan"));
}

#[tokio::test]
async fn resume_restart_and_fork_take_a_change() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({ "model": "opus", "max_turns": 7 })).await;
    rest.ask(&id, "first").await;
    let first = pid(&rest, &id).await;
    let change = |model: &str| json!({ "options": { "model": model } });
    let view = rest
        .lifecycle(&id, "restart?wait=ready", change("haiku"))
        .await
        .expect(200);
    assert_eq!(view["needs_restart"], json!([]));
    assert_ne!(pid(&rest, &id).await, first);
    assert_eq!(flag(&daemon, "model").as_deref(), Some("haiku"));

    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", change("sonnet"))
        .await
        .expect(200);
    assert_eq!(flag(&daemon, "model").as_deref(), Some("sonnet"));
    assert_eq!(flag(&daemon, "max-turns").as_deref(), Some("7"));

    let mut body = change("opus");
    body["options"]["permission_mode"] = json!("plan");
    let fork = rest.lifecycle(&id, "fork?wait=ready", body).await.expect(201);
    assert_eq!(flag(&daemon, "model").as_deref(), Some("opus"));
    assert_eq!(flag(&daemon, "permission-mode").as_deref(), Some("plan"));
    assert_eq!(flag(&daemon, "max-turns").as_deref(), Some("7"));
    assert_eq!(fork["options"]["model"], "opus");
    let parent = rest.session(&id).await;
    assert_eq!(parent["options"], json!({ "model": "sonnet", "max_turns": 7 }));
}

#[tokio::test]
async fn a_session_whose_budget_is_spent_goes_on_with_a_higher_one() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({ "max_budget_usd": 0.015 })).await;
    for text in ["first", "second"] {
        rest.ask(&id, text).await;
    }
    park(&rest, &id).await;
    let refused = rest.post(&path(&id, "messages"), json!({ "text": "more" })).await;
    assert_eq!(refused.problem(409), "budget_spent");
    let lower = json!({ "options": { "max_budget_usd": 0.01 } });
    let refused = rest.lifecycle(&id, "resume", lower).await.problem(409);
    assert_eq!(refused, "budget_spent");
    patch(&rest, &id, json!({ "max_budget_usd": 1.02 })).await;
    let answer = rest.ask(&id, "more").await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
    assert_eq!(flag(&daemon, "max-budget-usd").as_deref(), Some("1"));
}

/// The fake CLI does not start the first time, as one that is given a wrong option.
#[tokio::test]
async fn a_session_that_failed_for_an_option_is_mended() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let refusal =
        json!({ "exit_at_start": { "code": 1, "stderr": "Error: System prompt file not found: /nope\n" } });
    let cwd = daemon.work_dir("a");
    let settings = json!({ "starts": [refusal, {}] });
    fs::write(cwd.join(".fake-claude.json"), settings.to_string()).unwrap();
    let options = json!({ "settings": "/nope" });
    let made = rest.create(json!({ "cwd": cwd, "options": options })).await;
    let id = made["id"].as_str().unwrap();
    let view = rest.in_state(id, &["failed"]).await;
    assert_eq!(view["ways_out"], json!(["change_options"]), "{view:#}");
    let view = patch(&rest, id, json!({ "settings": null })).await;
    assert_eq!(view["ways_out"][0], "resume", "{view:#}");
    rest.lifecycle(id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(id, "fine").await;
}
