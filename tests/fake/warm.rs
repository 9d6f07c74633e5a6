//! Owns the tests of processes that are started before anybody asks for a session: who gets them, who never sees them, what
//! they stand back for, and what is left of them.

use std::{collections::BTreeSet, fs, path::PathBuf, time::Instant};

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    bed::{act_through, answer_heard, body, of_type, path, pid, records, session},
    metrics::Scrape,
    rules::bash,
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
    // What it costs is its own.
    let usage = rest.get("/v1/usage?group_by=session").await.expect(200);
    assert_eq!(usage["items"].as_array().unwrap().len(), 1);
    assert_eq!(usage["items"][0]["turns"], 1);
    assert_eq!(usage["items"][0]["cost_usd"], done["cost_usd"]);

    ready(&rest, 1).await;
    assert_ne!(spare(&daemon), waits);
    let scrape = Scrape::of(&rest).await;
    // Each record of the session is counted once, those from before it was claimed too.
    let counted = u32::try_from(records.len()).unwrap();
    assert!((scrape.records() - before - f64::from(counted)).abs() < 0.5);
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

#[tokio::test]
async fn a_directory_or_settings_file_that_was_made_anew_is_another_one() {
    let daemon = profiles(
        "{ name = \"app\", cwd = \"~/app\", options = { settings = \"/tmp/trunkline-no-such-settings.json\" } }",
    )
    .home_file("app/x", "")
    .start()
    .await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    // The old one is kept, so that the new one is no copy of it down to its number.
    fs::rename(daemon.home().join("app"), daemon.home().join("old")).unwrap();
    fs::create_dir(daemon.home().join("app")).unwrap();
    let mut create = app(&daemon);
    create["options"] = json!({ "settings": "/tmp/trunkline-no-such-settings.json" });
    assert_ne!(rest.create_ready(create).await, waits);
    gone(&daemon, &waits).await;
    ready(&rest, 1).await;
    assert!((ended(&rest, "changed").await - 1.0).abs() < 0.5);
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

#[tokio::test]
async fn no_session_is_refused_for_want_of_room_that_a_waiting_process_has() {
    let daemon = keeping(1, &json!({}))
        .env("TRUNKLINE_LIMITS_LIVE_PROCESSES", "2")
        .start()
        .await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    let first = session(&daemon, "a", json!({})).await;
    assert_eq!(spare(&daemon), waits, "there is room for both");
    let second = session(&daemon, "b", json!({})).await;
    gone(&daemon, &waits).await;
    let third = rest
        .post("/v1/sessions", body(&daemon, "c", json!({}), json!({})))
        .await;
    assert_eq!(third.problem(429), "too_many_sessions", "the limit is the limit");
    assert!(spares(&daemon).is_empty());
    // Room that is free again is taken again, and given back to a resume.
    rest.lifecycle(&second, "stop", json!({})).await.expect(200);
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    rest.lifecycle(&second, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    gone(&daemon, &waits).await;
    rest.in_state(&first, &["idle"]).await;
    assert!((ended(&rest, "room").await - 2.0).abs() < 0.5);
    assert_eq!(stock(&rest).await["failure"], Value::Null);
}

#[tokio::test]
async fn a_directory_that_is_full_of_waiting_processes_has_room() {
    let daemon = keeping(2, &json!({}))
        .env("TRUNKLINE_LIMITS_LIVE_PER_CWD", "2")
        .start()
        .await;
    let rest = daemon.rest();
    ready(&rest, 2).await;
    let waits = spares(&daemon);
    let mut create = app(&daemon);
    create["options"] = json!({ "model": "another" });
    let first = rest.create_ready(create.clone()).await;
    let second = rest.create_ready(create.clone()).await;
    assert!(!waits.contains(&first) && !waits.contains(&second));
    assert_eq!(
        rest.post("/v1/sessions", create).await.problem(429),
        "too_many_sessions"
    );
    for waits in waits {
        gone(&daemon, &waits).await;
    }
}

#[tokio::test]
async fn nobody_waits_for_the_start_of_a_process_that_nobody_asked_for() {
    let daemon = keeping(1, &json!({ "init": { "never": true } }))
        .env("TRUNKLINE_LIMITS_PARALLEL_STARTS", "1")
        .env("TRUNKLINE_LIMITS_QUEUED_STARTS", "0")
        .start()
        .await;
    let rest = daemon.rest();
    wait_for("a process is being started", PATIENCE, async || {
        (stock(&rest).await["starting"] == 1).then_some(())
    })
    .await;
    let waits = spare(&daemon);
    // Without room in the queue either.
    let first = session(&daemon, "a", json!({})).await;
    gone(&daemon, &waits).await;
    rest.ask(&first, "hello").await;
    let scrape = Scrape::of(&rest).await;
    scrape.expect(
        r#"trunkline_warm_processes_ended_total{profile="app",end="failed"}"#,
        0.0,
    );
}

#[tokio::test]
async fn a_start_that_is_queued_goes_first() {
    let daemon = keeping(1, &json!({ "init": { "never": true } }))
        .env("TRUNKLINE_LIMITS_PARALLEL_STARTS", "1")
        .start()
        .await;
    let rest = daemon.rest();
    wait_for("a process is being started", PATIENCE, async || {
        (stock(&rest).await["starting"] == 1).then_some(())
    })
    .await;
    let waits = spare(&daemon);
    let creates = ["a", "b", "c"].map(|name| body(&daemon, name, json!({}), json!({})));
    let made = join_all(creates.map(|create| rest.create_ready(create))).await;
    assert_eq!(made.len(), 3);
    gone(&daemon, &waits).await;
}

#[tokio::test]
async fn a_profile_that_cannot_start_is_told_of_once_and_left_alone_longer_and_longer() {
    let daemon = keeping(
        2,
        &json!({ "exit_at_start": { "code": 1, "stderr": "error: unknown option" } }),
    )
    .start()
    .await;
    let rest = daemon.rest();
    let begun = Instant::now();
    let failure = wait_for("it failed three times", PATIENCE, async || {
        (ended(&rest, "failed").await > 2.5).then_some(stock(&rest).await["failure"].clone())
    })
    .await;
    // After the first try a second passes, after the second one two.
    assert!(begun.elapsed().as_millis() > 2_000, "{:?}", begun.elapsed());
    assert_eq!(failure["code"], "start_failed");
    assert!(
        failure["detail"].as_str().unwrap().contains("unknown option"),
        "{failure:#}"
    );
    let scrape = Scrape::of(&rest).await;
    scrape.expect(r#"trunkline_warm_failing{profile="app"}"#, 1.0);
    assert!(list(&rest).await.is_empty());
    let told = daemon.log().matches("was of no use").count();
    assert_eq!(told, 1, "{}", daemon.log());
    wait_until("nothing is left of it", PATIENCE, || {
        fs::read_dir(daemon.data_dir().join("sessions")).unwrap().count() == 0
    })
    .await;
    // Others are not held up, and it recovers by itself.
    session(&daemon, "a", json!({})).await;
    fs::write(daemon.home().join("app/.fake-claude.json"), "{}").unwrap();
    ready(&rest, 2).await;
    assert_eq!(stock(&rest).await["failure"], Value::Null);
}

#[tokio::test]
async fn a_directory_that_is_missing_is_named_and_is_used_once_it_is_there() {
    let daemon = profiles("{ name = \"app\", cwd = \"~/later\" }").start().await;
    let rest = daemon.rest();
    wait_for("it is said what is missing", PATIENCE, async || {
        (stock(&rest).await["failure"]["code"] == "cwd_unusable").then_some(())
    })
    .await;
    fs::create_dir(daemon.home().join("later")).unwrap();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    let create = json!({ "cwd": daemon.home().join("later") });
    assert_eq!(rest.create_ready(create).await, waits);
}

#[tokio::test]
async fn one_that_is_too_old_is_replaced() {
    let daemon = keeping(1, &json!({}))
        .env("TRUNKLINE_WARM_MAX_AGE_MS", "1500")
        .start()
        .await;
    let rest = daemon.rest();
    let mut seen = BTreeSet::new();
    wait_for("three have taken turns", PATIENCE, async || {
        seen.extend(spares(&daemon));
        (seen.len() >= 3).then_some(())
    })
    .await;
    assert!(ended(&rest, "aged").await > 0.5);
    let folders = || fs::read_dir(daemon.data_dir().join("sessions")).unwrap().count();
    wait_until("only the last one is there", PATIENCE, || folders() <= 1).await;
    assert_eq!(stock(&rest).await["failure"], Value::Null);
    assert!(!daemon.log().contains("was of no use"), "{}", daemon.log());
}

#[tokio::test]
async fn another_cli_makes_all_anew() {
    let programs = tempfile::tempdir().unwrap();
    let program = programs.path().join("claude");
    let link = |target: &str| {
        let to = crate::support::programs::fake_claude();
        let text = format!("#!/bin/sh\n# {target}\nexec {} \"$@\"\n", to.display());
        let new = programs.path().join("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        fs::rename(&new, &program).unwrap();
    };
    link("first");
    let daemon = keeping(1, &json!({})).claude(&program).start().await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    link("second one");
    let id = rest.create_ready(app(&daemon)).await;
    assert_ne!(id, waits, "it was started from another program");
    gone(&daemon, &waits).await;
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    assert_eq!(rest.create_ready(app(&daemon)).await, waits);
    // Without anybody asking, too.
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    link("and the third");
    gone(&daemon, &waits).await;
}

#[tokio::test]
async fn they_end_with_the_daemon_whatever_becomes_of_the_sessions() {
    let mut daemon = keeping(2, &json!({}))
        .env("TRUNKLINE_STOP_ON_SHUTDOWN", "detach")
        .start()
        .await;
    let rest = daemon.rest();
    ready(&rest, 2).await;
    let mine = rest.create_ready(app(&daemon)).await;
    ready(&rest, 2).await;
    let waits = spares(&daemon);
    assert!(daemon.stop().success());
    for id in &waits {
        assert!(processes(id).is_empty() && !folder(&daemon, id).exists());
    }
    assert!(spares(&daemon).is_empty());
    assert!(!processes(&mine).is_empty(), "sessions live on");
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(list(&rest).await, std::slice::from_ref(&mine));
    rest.ask(&mine, "hello").await;
    ready(&rest, 2).await;
    rest.lifecycle(&mine, "stop", json!({})).await.expect(200);
}

#[tokio::test]
async fn what_a_dead_daemon_left_is_removed_and_what_was_claimed_lives_on() {
    let mut daemon = keeping(2, &json!({}))
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "1")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await;
    let rest = daemon.rest();
    ready(&rest, 2).await;
    let mine = rest.create_ready(app(&daemon)).await;
    ready(&rest, 2).await;
    let waits = spares(&daemon);
    let mut all = waits.iter();
    let (lives, dies) = (all.next().unwrap(), all.next().unwrap());
    daemon.kill();
    // One dies together with its keeper, the other lives on.
    for pid in processes(dies) {
        proc::signal(pid, Signal::SIGKILL);
    }
    assert!(!processes(lives).is_empty());
    daemon.start().await;
    // When the daemon answers, they are gone.
    for id in &waits {
        assert!(processes(id).is_empty() && !folder(&daemon, id).exists(), "{id}");
    }
    assert!(spares(&daemon).is_disjoint(&waits));
    let rest = daemon.rest();
    assert_eq!(list(&rest).await, std::slice::from_ref(&mine));
    ready(&rest, 2).await;
    // The session is what it was, its restart policy included.
    rest.ask(&mine, "hello").await;
    let first = pid(&rest, &mine).await;
    proc::signal(first, Signal::SIGKILL);
    wait_for("another process takes its place", PATIENCE, async || {
        let view = rest.session(&mine).await;
        (view["state"] == "idle" && view["cli"]["pid"] != first).then_some(())
    })
    .await;
    let records = records(&rest, &mine).await;
    assert_eq!(of_type(&records, "daemon", "claimed").len(), 1);
}

#[tokio::test]
async fn one_that_waits_is_not_parked_and_is_used_from_its_claim_on() {
    let daemon = keeping(1, &json!({}))
        .env("TRUNKLINE_PARK_IDLE_MS", "4000")
        .env("TRUNKLINE_PARK_GRACE_MS", "0")
        .start()
        .await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    // Another session shows that the time has passed.
    let clock = session(&daemon, "a", json!({})).await;
    rest.in_state(&clock, &["parked"]).await;
    assert_eq!(spare(&daemon), waits);
    assert_eq!(stock(&rest).await["ready"], 1);
    let view = rest
        .post("/v1/sessions?wait=ready", app(&daemon))
        .await
        .expect(201);
    assert_eq!((&view["id"], &view["state"]), (&json!(waits), &json!("idle")));
    assert_eq!(rest.session(&waits).await["state"], "idle");
    rest.in_state(&waits, &["parked"]).await;
    rest.ask(&waits, "hello").await;
}

#[tokio::test]
async fn one_that_waits_goes_before_a_session_when_memory_is_scarce() {
    let large = json!({ "memory_bytes": 64 << 20 });
    let daemon = keeping(1, &large)
        .env("TRUNKLINE_PARK_MEMORY_BUDGET_BYTES", (160 << 20).to_string())
        .env("TRUNKLINE_PARK_MEASURE_MS", "200")
        .env("TRUNKLINE_PARK_GRACE_MS", "0")
        .start()
        .await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    let first = session(&daemon, "a", large.clone()).await;
    assert_eq!(spare(&daemon), waits, "there is room for both");
    let second = session(&daemon, "b", large).await;
    gone(&daemon, &waits).await;
    for id in [first, second] {
        assert_eq!(rest.session(&id).await["state"], "idle");
    }
}
