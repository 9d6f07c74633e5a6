//! Owns the tests of processes that are started before anybody asks for a session: who gets them, who never sees them, what
//! they stand back for, and what is left of them.

mod room;
mod unasked;
mod upkeep;

use std::{collections::BTreeSet, fs, path::PathBuf};

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    fake::{
        bed::{act_through, answer_heard, of_type, path, pid, records},
        metrics::Scrape,
        rules::bash,
    },
    support::{
        daemon::{TestDaemon, TestDaemonBuilder},
        proc,
        rest::Rest,
        wait::{PATIENCE, wait_for, wait_until},
    },
};

/// A daemon that keeps so many processes ready for sessions in `~/app`, whose CLI behaves as `settings` say.
fn keeping(count: usize, settings: &Value) -> TestDaemonBuilder {
    profiles(&format!("{{ name = \"app\", cwd = \"~/app\", count = {count} }}"))
        .home_file("app/.fake-claude.json", &settings.to_string())
}

fn profiles(list: &str) -> TestDaemonBuilder {
    TestDaemon::with_fake().env("TRUNKLINE_WARM_PROFILES", format!("[{list}]"))
}

fn app(daemon: &TestDaemon) -> Value {
    json!({ "cwd": daemon.home().join("app") })
}

/// The state of the first profile.
async fn stock(rest: &Rest) -> Value {
    rest.get("/readyz").await.expect(200)["warm"][0].clone()
}

/// Waits until so many processes of the first profile are ready and none is on its way.
async fn ready(rest: &Rest, count: usize) {
    wait_for(&format!("{count} processes are ready"), PATIENCE, async || {
        let stock = stock(rest).await;
        (stock["ready"] == count && stock["starting"] == 0).then_some(())
    })
    .await;
}

/// The ids of the sessions that nobody has asked for.
fn spares(daemon: &TestDaemon) -> BTreeSet<String> {
    let files = fs::read_dir(daemon.data_dir().join("warm")).unwrap();
    files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// The only such id.
fn spare(daemon: &TestDaemon) -> String {
    let spares = spares(daemon);
    assert_eq!(spares.len(), 1, "{spares:?}");
    spares.into_iter().next().unwrap()
}

/// Processes of a session: its keeper, its CLI.
fn processes(session: &str) -> Vec<i32> {
    proc::with_env("TRUNKLINE_SESSION", session)
        .into_iter()
        .map(|process| process.pid)
        .collect()
}

/// The CLI of a session.
fn cli(session: &str) -> i32 {
    *processes(session)
        .last()
        .unwrap_or_else(|| panic!("{session} has no process"))
}

fn folder(daemon: &TestDaemon, session: &str) -> PathBuf {
    daemon.data_dir().join("sessions").join(session)
}

/// Waits until nothing is left of a session that nobody had asked for.
async fn gone(daemon: &TestDaemon, session: &str) {
    wait_until("the process and its folder are gone", PATIENCE, || {
        processes(session).is_empty()
            && !folder(daemon, session).exists()
            && !spares(daemon).contains(session)
    })
    .await;
}

async fn list(rest: &Rest) -> Vec<String> {
    let page = rest.get("/v1/sessions?limit=500").await.expect(200);
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|view| view["id"].as_str().unwrap().to_owned())
        .collect()
}

async fn ended(rest: &Rest, end: &str) -> f64 {
    let series = format!(r#"trunkline_warm_processes_ended_total{{profile="app",end="{end}"}}"#);
    Scrape::of(rest).await.value(&series)
}

#[tokio::test]
async fn a_session_gets_the_process_that_waits_for_it_and_another_takes_its_place() {
    let daemon = keeping(1, &json!({})).start().await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    let process = cli(&waits);
    let conversation = fs::read_to_string(daemon.data_dir().join("warm").join(&waits)).unwrap();

    let mut create = app(&daemon);
    create["title"] = json!("mine");
    create["tag"] = json!("t");
    create["labels"] = json!({ "a": "b" });
    create["prompt"] = json!("hello");
    let before = Scrape::of(&rest).await.records();
    let view = rest.post("/v1/sessions?wait=ready", create).await.expect(201);
    assert_eq!(view["id"], waits.as_str(), "{view:#}");
    assert_eq!(view["cli"]["pid"], process);
    assert_eq!(view["cli"]["session_id"], conversation.as_str());
    assert_eq!(
        (&view["title"], &view["tag"], &view["labels"]),
        (&json!("mine"), &json!("t"), &json!({ "a": "b" }))
    );

    let done = wait_for("the prompt is answered", PATIENCE, async || {
        let view = rest.session(&waits).await;
        (view["state"] == "idle" && view["turns"] == 1).then_some(view)
    })
    .await;
    assert_eq!(pid(&rest, &waits).await, process, "the same process");
    let records = records(&rest, &waits).await;
    assert_eq!(records[0]["data"]["type"], "run_started");
    assert_eq!(of_type(&records, "daemon", "run_started").len(), 1);
    assert_eq!(of_type(&records, "daemon", "claimed")[0]["profile"], "app");
    let place = |kind: &str| records.iter().position(|it| it["data"]["type"] == kind).unwrap();
    assert!(place("claimed") < place("user"), "{records:#?}");
    // The process is older than the session.
    let created = done["created_at"].as_str().unwrap();
    assert!(records[0]["ts"].as_str().unwrap() < created);
    assert!(records[place("claimed")]["ts"].as_str().unwrap() >= created);
    let runs = rest.get(&path(&waits, "runs")).await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 1);
    // Its cost is its own.
    let usage = rest.get("/v1/usage?group_by=session").await.expect(200);
    assert_eq!(usage["items"].as_array().unwrap().len(), 1);
    assert_eq!(usage["items"][0]["turns"], 1);
    assert_eq!(usage["items"][0]["cost_usd"], done["cost_usd"]);

    ready(&rest, 1).await;
    assert_ne!(spare(&daemon), waits);
    // Each record of the session is counted once, those from before it was claimed too.
    let scrape = wait_for("as many are counted as there are", PATIENCE, async || {
        let scrape = Scrape::of(&rest).await;
        let all = u32::try_from(crate::fake::bed::records(&rest, &waits).await.len()).unwrap();
        ((scrape.records() - before - f64::from(all)).abs() < 0.5).then_some(scrape)
    })
    .await;
    scrape.expect(
        r#"trunkline_warm_processes_ended_total{profile="app",end="claimed"}"#,
        1.0,
    );
    // It is a session like others.
    rest.lifecycle(&waits, "stop", json!({})).await.expect(200);
    rest.lifecycle(&waits, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    assert_eq!(rest.ask(&waits, "again").await["turn"]["number"], 2);
    rest.delete(&format!("/v1/sessions/{waits}")).await.expect(204);
    assert!(!folder(&daemon, &waits).exists());
}

#[tokio::test]
async fn nobody_sees_a_process_that_waits() {
    let daemon = keeping(2, &json!({})).start().await;
    let rest = daemon.rest();
    ready(&rest, 2).await;
    assert!(list(&rest).await.is_empty());
    for id in spares(&daemon) {
        let routes = [
            "",
            "/events",
            "/messages",
            "/turns",
            "/runs",
            "/rules",
            "/approvals",
        ];
        for route in routes {
            let reply = rest.get(&format!("/v1/sessions/{id}{route}")).await;
            assert_eq!(reply.problem(404), "session_not_found", "{route}");
        }
        for route in ["messages", "stop", "resume", "fork", "interrupt"] {
            let reply = rest.post(&path(&id, route), json!({ "text": "x" })).await;
            assert!(
                reply.status == 404 || reply.status == 422 || reply.status == 400,
                "{route}: {}",
                reply.status
            );
        }
        let reply = rest.post(&path(&id, "messages"), json!({ "text": "x" })).await;
        assert_eq!(reply.problem(404), "session_not_found");
        let reply = rest.lifecycle(&id, "stop", json!({})).await;
        assert_eq!(reply.problem(404), "session_not_found");
        assert_eq!(
            rest.delete(&format!("/v1/sessions/{id}")).await.problem(404),
            "session_not_found"
        );
    }
    assert_eq!(rest.get("/readyz").await.expect(200)["live_sessions"], 0);
    let scrape = Scrape::of(&rest).await;
    for state in ["starting", "idle", "busy", "failed", "stopped"] {
        scrape.expect(&format!(r#"trunkline_sessions{{state="{state}"}}"#), 0.0);
    }
    scrape.expect("trunkline_processes", 0.0);
    assert!(scrape.records().abs() < 0.5);
    scrape.expect(r#"trunkline_warm_processes{profile="app",state="ready"}"#, 2.0);
    scrape.expect(r#"trunkline_warm_wanted{profile="app"}"#, 2.0);
    // Nothing that was asked harmed them.
    assert_eq!(stock(&rest).await["ready"], 2);
}

#[tokio::test]
async fn only_what_would_be_launched_the_same_is_given() {
    let daemon = profiles(
        "{ name = \"app\", cwd = \"~/app\", options = { model = \"m\", env = { A = \"1\" }, \
         settings = { x = 1 }, hooks = [{ event = \"Stop\", target = { type = \"client\", client_id = \"c\" } }] } }",
    )
    .home_file("app/x", "")
    .home_file("other/x", "")
    .start()
    .await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    let home = daemon.home();
    let same = json!({
        "model": "m", "env": { "A": "1" }, "settings": { "x": 1 },
        "hooks": [{ "event": "Stop", "target": { "type": "client", "client_id": "c" } }],
    });
    let with = |key: &str, value: Value| {
        let mut options = same.clone();
        options[key] = value;
        json!({ "cwd": home.join("app"), "options": options })
    };
    for different in [
        json!({ "cwd": home.join("other"), "options": same }),
        with("model", json!("n")),
        with("model", Value::Null),
        with("env", json!({ "A": "2" })),
        with("settings", json!({ "x": 2 })),
        with("permission_mode", json!("plan")),
        with("system_prompt", json!("be brief")),
        with(
            "hooks",
            json!([{ "event": "Stop", "target": { "type": "client", "client_id": "d" } }]),
        ),
        with(
            "hooks",
            json!([{ "event": "Stop", "target": { "type": "fixed", "output": {} } }]),
        ),
        with("mcp_servers", json!({ "s": { "command": "true" } })),
    ] {
        let id = rest.create_ready(different.clone()).await;
        assert_ne!(id, waits, "{different:#}");
    }
    assert_eq!(spare(&daemon), waits, "nobody got it");
    // The same in other words.
    let link = home.join("link");
    std::os::unix::fs::symlink(home.join("app"), &link).unwrap();
    let mut create = with("permission_prompts", Value::Null);
    create["cwd"] = json!(link);
    create["options"]["allowed_tools"] = json!([]);
    assert_eq!(rest.create_ready(create).await, waits);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_ask_at_once_each_gets_a_process_of_its_own() {
    let daemon = keeping(3, &json!({})).start().await;
    let rest = daemon.rest();
    ready(&rest, 3).await;
    let waits = spares(&daemon);
    let mut create = app(&daemon);
    create["prompt"] = json!("hello");
    let made = join_all((0..8).map(|_| rest.create(create.clone()))).await;
    let ids: BTreeSet<String> = made
        .iter()
        .map(|view| view["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 8, "nobody shares one");
    assert_eq!(
        ids.intersection(&waits).count(),
        3,
        "all that waited were given away"
    );
    let mut pids = BTreeSet::new();
    for id in &ids {
        wait_for("the prompt is answered", PATIENCE, async || {
            let view = rest.session(id).await;
            (view["state"] == "idle" && view["turns"] == 1).then_some(())
        })
        .await;
        pids.insert(pid(&rest, id).await);
        let records = records(&rest, id).await;
        assert_eq!(of_type(&records, "client", "user").len(), 1);
    }
    assert_eq!(pids.len(), 8);
    let missed = Scrape::of(&rest)
        .await
        .value(r#"trunkline_warm_missed_total{profile="app"}"#);
    assert!((missed - 5.0).abs() < 0.5, "{missed}");
    ready(&rest, 3).await;
}

#[tokio::test]
async fn a_key_gives_the_same_session_and_takes_no_second_process() {
    let daemon = keeping(1, &json!({})).start().await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    let create = app(&daemon);
    let send = async || {
        let request = rest.builder(Method::POST, "/v1/sessions").json(&create);
        rest.send(request.header("idempotency-key", "k"))
            .await
            .expect(201)
    };
    let first = send().await;
    assert_eq!(first["id"], waits.as_str());
    ready(&rest, 1).await;
    let next = spare(&daemon);
    assert_eq!(send().await["id"], first["id"]);
    assert_eq!(spare(&daemon), next);
}

#[tokio::test]
async fn what_a_session_brings_holds_from_its_first_prompt_on() {
    let daemon = keeping(1, &json!({}))
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    let mut create = app(&daemon);
    create["rules"] = json!([{ "id": "look", "action": "allow", "tool": "Bash",
        "input": { "command": { "command_prefix": ["git", "status"] } } }]);
    create["restart"] = json!({ "max_restarts": 1 });
    assert_eq!(rest.create_ready(create).await, waits);
    let mut client = daemon.attach(&waits, None).await;
    act_through(&rest, &waits, json!([bash("r1", "git status")])).await;
    assert_eq!(answer_heard(&mut client, "r1").await["valid"], true);
    assert_eq!(
        rest.get(&path(&waits, "rules")).await.expect(200)["items"][0]["id"],
        "look"
    );
    // The daemon's own policy restarts nothing; the session's does.
    let first = pid(&rest, &waits).await;
    proc::signal(first, Signal::SIGKILL);
    wait_for("another process takes its place", PATIENCE, async || {
        let view = rest.session(&waits).await;
        (view["state"] == "idle" && view["cli"]["pid"] != first).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_that_died_is_passed_over_and_nothing_is_left_of_it() {
    let daemon = keeping(1, &json!({}))
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "5")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "1")
        .start()
        .await;
    let rest = daemon.rest();
    // At the moment of its death, whatever the daemon knows of it by then; and of a CLI alone, or with its keeper.
    for with_keeper in [false, true, false] {
        ready(&rest, 1).await;
        let waits = spare(&daemon);
        let all = processes(&waits);
        let victims = if with_keeper {
            all.as_slice()
        } else {
            &all[all.len() - 1..]
        };
        for victim in victims {
            proc::signal(*victim, Signal::SIGKILL);
            wait_until("it is dead", PATIENCE, || !proc::is_alive(*victim)).await;
        }
        let mut create = app(&daemon);
        create["prompt"] = json!("hello");
        let view = rest.post("/v1/sessions?wait=ready", create).await.expect(201);
        let id = view["id"].as_str().unwrap().to_owned();
        assert_ne!(id, waits);
        wait_for("the prompt is answered", PATIENCE, async || {
            (rest.session(&id).await["turns"] == 1).then_some(())
        })
        .await;
        gone(&daemon, &waits).await;
        rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
        assert!(list(&rest).await.is_empty(), "it is no failed session");
    }
}
