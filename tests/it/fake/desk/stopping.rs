//! Owns what the CLI asks while it is being stopped: its owners answer as long as it can hear them.

use std::{fs, time::Duration};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{answer, asked, callback, hook_of, written};
use crate::{
    fake::bed::{act, body, of_type, path, records, session_with},
    support::{
        daemon::{TestDaemon, TestDaemonBuilder},
        rest::Rest,
        server::Server,
        wait::{PATIENCE, pass, wait_for, wait_until},
    },
};

/// A hook before the end of the session, with this target.
fn last_hook(target: Value) -> Value {
    json!({ "event": "SessionEnd", "target": target })
}

/// The CLI asks a hook before its end, and goes on without the answer.
fn last_call(id: &str, callback: &str) -> Value {
    let input = json!({ "hook_event_name": "SessionEnd", "reason": "other" });
    json!({ "request": { "subtype": "hook_callback", "callback_id": callback, "input": input }, "id": id, "wait": false })
}

/// A permission that the CLI asks for, without waiting.
fn permission(id: &str) -> Value {
    json!({ "ask": { "ids": [id], "input": { "command": "ls" }, "wait": false } })
}

fn heard(id: &str) -> Value {
    json!({ "wait_answer": id })
}

/// The steps of the stop of a session's last process.
async fn steps(rest: &Rest, session: &str) -> Vec<String> {
    let runs = rest.get(&path(session, "runs")).await.expect(200);
    let steps = runs["items"][0]["exit"]["stop_steps"].as_array().unwrap().clone();
    steps
        .iter()
        .map(|step| step["step"].as_str().unwrap().to_owned())
        .collect()
}

/// A process that hears no answer is killed, and late: these tests see that it need not be.
fn patient() -> TestDaemonBuilder {
    TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "20000")
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "20000")
        .env("TRUNKLINE_STOP_SHUTDOWN_DEADLINE_MS", "200000")
}

#[tokio::test]
async fn whatever_is_asked_in_a_stop_is_answered() {
    let daemon = patient().start().await;
    let rest = daemon.rest();
    let mut server = Server::start().await;
    let url = server.url("/end").uri().to_string();
    let fixed = json!({ "systemMessage": "bye" });
    let hooks = json!([
        last_hook(json!({ "type": "fixed", "output": fixed })),
        last_hook(json!({ "type": "webhook", "url": url })),
        last_hook(json!({ "type": "client", "client_id": "x" })),
        last_hook(json!({ "type": "client", "client_id": "away" })),
    ]);
    let asks: Vec<_> = (0..4)
        .map(|place| last_call(&format!("h-{place}"), &format!("trunkline/{place}")))
        .chain([permission("p-1")])
        .chain((0..4).map(|place| heard(&format!("h-{place}"))))
        .chain([heard("p-1")])
        .collect();
    let settings = json!({ "term": { "do": asks } });
    let id = session_with(&daemon, "a", settings, json!({ "hooks": hooks })).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    // A turn runs: the stop is a SIGTERM.
    act(&rest, &id, json!([{ "text": "on it" }, { "silent": 1 }])).await;
    rest.in_state(&id, &["busy"]).await;
    let stop = rest.lifecycle(&id, "stop", json!({}));
    let answers = async {
        let exchange = server.next().await;
        let ok = "200 OK\ncontent-type: application/json";
        exchange.answer(ok, r#"{"systemMessage":"noted"}"#).await;
        asked(&mut client, "h-2").await;
        client
            .send(&answer("h-2", json!({ "systemMessage": "so long" })))
            .await;
        let approval = rest.pending_approval(&id).await;
        let approval = approval["id"].as_str().unwrap().to_owned();
        let allow = json!({ "decision": "allow" });
        rest.decide(&id, &approval, allow).await.expect(200);
    };
    let (stopped, ()) = tokio::join!(stop, answers);
    assert_eq!(stopped.expect(200)["state"], "stopped");
    for (id_of, by) in [
        ("h-0", "fixed:0"),
        ("h-1", "webhook:1"),
        ("h-3", "daemon"),
        ("p-1", "rest"),
    ] {
        let written = written(&rest, &id, id_of).await;
        assert_eq!(written.len(), 1, "{id_of}: {written:#?}");
        assert_eq!(written[0]["by"], by, "{id_of}");
    }
    let given = |records: &[Value]| records[0]["data"]["response"]["response"].clone();
    assert_eq!(given(&written(&rest, &id, "h-0").await), fixed);
    assert_eq!(given(&written(&rest, &id, "h-3").await), json!({}));
    assert_eq!(written(&rest, &id, "h-2").await.len(), 1);
    assert_eq!(steps(&rest, &id).await, ["sigterm", "exited"]);
}

/// At the end of input the CLI asks nothing, so a session that has something to ask gets a SIGINT first.
#[tokio::test]
async fn an_idle_stop_lets_the_last_hook_be_asked() {
    let daemon = patient().start().await;
    let rest = daemon.rest();
    let hooks = json!([last_hook(
        json!({ "type": "fixed", "output": { "systemMessage": "bye" } })
    )]);
    let settings = json!({ "int": { "do": [last_call("h-0", "trunkline/0"), heard("h-0")] } });
    for verb in ["stop", "park"] {
        let id = session_with(&daemon, verb, settings.clone(), json!({ "hooks": hooks })).await;
        rest.lifecycle(&id, verb, json!({})).await.expect(200);
        assert_eq!(written(&rest, &id, "h-0").await.len(), 1, "{verb}");
        assert_eq!(steps(&rest, &id).await, ["sigint", "exited"], "{verb}");
    }
    let id = session_with(&daemon, "none", settings, json!({})).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert_eq!(
        steps(&rest, &id).await,
        ["close_stdin", "exited"],
        "nothing would be asked"
    );
}

#[tokio::test]
async fn a_cli_that_takes_no_interrupt_is_stopped_as_ever() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "300")
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "300")
        .start()
        .await;
    let rest = daemon.rest();
    let ignore = json!({ "ignore": true });
    let settings = json!({ "int": ignore, "eof": ignore, "term": ignore });
    let hooks = json!([last_hook(json!({ "type": "fixed", "output": {} }))]);
    let id = session_with(&daemon, "a", settings, json!({ "hooks": hooks })).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let expected = ["sigint", "close_stdin", "sigterm", "sigkill", "exited"];
    assert_eq!(steps(&rest, &id).await, expected);
}

/// Clients have been told to go by then, and are not waited for.
#[tokio::test]
async fn the_end_of_the_daemon_is_no_end_of_answers() {
    let mut daemon = patient().start().await;
    let rest = daemon.rest();
    let mut server = Server::start().await;
    let url = server.url("/end").uri().to_string();
    let hooks = json!([
        last_hook(json!({ "type": "webhook", "url": url })),
        hook_of(
            "x",
            json!({ "event": "SessionEnd", "fallback": { "systemMessage": "without x" } })
        ),
    ]);
    let asks = json!([
        last_call("h-0", "trunkline/0"),
        last_call("h-1", "trunkline/1"),
        heard("h-0"),
        heard("h-1"),
    ]);
    let settings = json!({ "int": { "do": asks } });
    let id = session_with(&daemon, "a", settings, json!({ "hooks": hooks })).await;
    let _client = daemon.attach_as("x", &id, None).await;
    daemon.signal(Signal::SIGTERM);
    let exchange = server.next().await;
    assert_eq!(exchange.header("trunkline-event"), Some("SessionEnd"));
    let ok = "200 OK\ncontent-type: application/json";
    exchange.answer(ok, r#"{"systemMessage":"noted"}"#).await;
    assert_eq!(daemon.ended().code(), Some(0));
    daemon.start().await;
    let rest_again = daemon.rest();
    drop(rest);
    assert_eq!(written(&rest_again, &id, "h-0").await.len(), 1);
    let without = written(&rest_again, &id, "h-1").await;
    assert_eq!(
        without[0]["data"]["response"]["response"]["systemMessage"],
        "without x"
    );
    assert_eq!(steps(&rest_again, &id).await, ["sigint", "exited"]);
}

#[tokio::test]
async fn a_process_that_nobody_asked_for_calls_nobody_at_its_end() {
    let mut server = Server::start().await;
    let url = server.url("/end").uri().to_string();
    let profile = format!(
        "[{{ name = \"app\", cwd = \"~/app\", options = {{ hooks = [{{ event = \"SessionEnd\", \
         target = {{ type = \"webhook\", url = \"{url}\" }} }}] }} }}]"
    );
    let asks = json!([last_call("h-0", "trunkline/0"), { "touch": "asked" }, heard("h-0")]);
    let settings = json!({ "term": { "do": asks }, "int": { "do": asks } });
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_WARM_PROFILES", profile)
        .home_file("app/.fake-claude.json", &settings.to_string())
        .start()
        .await;
    let rest = daemon.rest();
    wait_for("a process is ready", PATIENCE, async || {
        let ready = rest.get("/readyz").await.expect(200);
        (ready["warm"][0]["ready"] == 1).then_some(())
    })
    .await;
    drop(rest);
    assert_eq!(daemon.stop().code(), Some(0));
    assert!(daemon.home().join("app/asked").exists(), "it asks at a signal");
    assert!(server.is_quiet());
}

/// Work in the background is no silence: its stop closes no input first, and the end of the daemon waits for it.
#[tokio::test]
async fn the_end_of_the_daemon_waits_for_background_work() {
    let mut daemon = patient()
        .env("TRUNKLINE_STOP_FINISH_TURNS_MS", "60000")
        .start()
        .await;
    let rest = daemon.rest();
    let go = daemon.home().join("go");
    let tasks = |tasks: Value| json!({ "line": { "type": "system", "subtype": "background_tasks_changed", "tasks": tasks } });
    let task = json!([{ "task_id": "t1", "task_type": "local_agent", "description": "dig" }]);
    let actions = json!([
        tasks(task), { "text": "under way" }, { "result": {} }, { "wait_file": go }, tasks(json!([])),
        { "turn": { "do": [{ "text": "it is found" }] } },
    ]);
    let id = session_with(&daemon, "a", json!({}), json!({})).await;
    act(&rest, &id, actions).await;
    wait_for("the turn is over", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["turns"] == 1 && view["background_tasks"] == 1).then_some(())
    })
    .await;
    daemon.signal(Signal::SIGTERM);
    wait_until("the daemon begins to end", PATIENCE, || {
        daemon.log().contains("shutting down")
    })
    .await;
    // Without the wait the session would be stopped by then.
    pass(Duration::from_millis(300)).await;
    fs::write(&go, "").unwrap();
    assert_eq!(daemon.ended().code(), Some(0));
    daemon.start().await;
    let rest = daemon.rest();
    let records = records(&rest, &id).await;
    let results = of_type(&records, "cli", "result");
    assert_eq!(results.len(), 2, "{results:#?}");
    assert_eq!(steps(&rest, &id).await, ["close_stdin", "exited"]);
}

#[tokio::test]
async fn background_work_is_stopped_with_its_input_open() {
    let daemon = patient().start().await;
    let rest = daemon.rest();
    let task = json!([{ "task_id": "t1", "task_type": "local_bash", "description": "dig" }]);
    let line = json!({ "line": { "type": "system", "subtype": "background_tasks_changed", "tasks": task } });
    let prompt = crate::support::programs::fake_prompt(&json!([line, { "text": "under way" }]));
    let id = rest.create_ready(body(&daemon, "a", json!({}), json!({}))).await;
    rest.ask(&id, &prompt).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert_eq!(steps(&rest, &id).await, ["sigterm", "exited"]);
}

/// A request from before the stop has its answer too.
#[tokio::test]
async fn what_was_asked_before_a_stop_is_answered_in_it() {
    let daemon = patient().start().await;
    let rest = daemon.rest();
    let settings = json!({ "term": { "do": [heard("h-1")] } });
    let options = json!({ "hooks": [hook_of("x", json!({}))] });
    let id = session_with(&daemon, "a", settings, options).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    act(
        &rest,
        &id,
        json!([callback("h-1", "trunkline/0"), { "silent": 1 }]),
    )
    .await;
    asked(&mut client, "h-1").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert_eq!(written(&rest, &id, "h-1").await.len(), 1);
    assert_eq!(steps(&rest, &id).await, ["sigterm", "exited"]);
}
