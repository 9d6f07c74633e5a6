//! Owns the deaths at the turning points of a session's life: of the daemon, the keeper and the CLI, alone and together.

use std::{fs, path::Path, time::Duration};

use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    restart::{
        follower::{Beacon, Follower},
        journal,
    },
    support::{
        chance::Chance,
        daemon::TestDaemon,
        proc,
        programs::fake_prompt,
        rest::Rest,
        wait::{PATIENCE, pass, wait_for, wait_until},
    },
};

fn cli_of(view: &Value) -> i32 {
    i32::try_from(view["cli"]["pid"].as_i64().unwrap()).unwrap()
}

/// The parent of the CLI.
fn keeper_of(cli: i32) -> i32 {
    proc::read(cli).unwrap().parent
}

async fn gone(pid: i32) {
    wait_until(&format!("{pid} is gone"), PATIENCE, || !proc::is_alive(pid)).await;
}

/// Every way out of a resting session works: it can be listed, resumed, used, forked and deleted.
async fn check_ways_out(rest: &Rest, session: &str) {
    let list = rest.get("/v1/sessions").await.expect(200);
    let items = list["items"].as_array().unwrap();
    assert!(items.iter().any(|item| item["id"] == session), "{list:#}");
    rest.lifecycle(session, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    let answer = rest.ask(session, "are you there?").await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
    let fork = rest
        .lifecycle(session, "fork?wait=ready", json!({}))
        .await
        .expect(201);
    let fork = fork["id"].as_str().unwrap();
    rest.ask(fork, "and you?").await;
    for id in [fork, session] {
        let deleted = rest.delete(&format!("/v1/sessions/{id}")).await;
        assert_eq!(deleted.status, 204, "{:#}", deleted.body);
        assert_eq!(
            rest.get(&format!("/v1/sessions/{id}")).await.problem(404),
            "session_not_found"
        );
    }
}

fn touch(path: &Path) {
    fs::write(path, "").unwrap();
}

#[tokio::test]
async fn a_start_goes_on_without_the_daemon() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let cwd = daemon.work_dir("a");
    let gate = cwd.join("gate");
    let settings = json!({ "init": { "wait_file": gate } });
    fs::write(cwd.join(".fake-claude.json"), settings.to_string()).unwrap();
    let rest = daemon.rest();
    let view = rest.create(json!({ "cwd": cwd, "prompt": "first" })).await;
    let session = view["id"].as_str().unwrap();
    let path = format!("/v1/sessions/{session}/messages");
    let second = json!({ "text": "second", "uuid": "7e6f2a34-5d1c-4b7e-9a51-0c0ffee00002" });
    rest.post(&path, second.clone()).await.expect(202);

    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let after = rest.session(session).await;
    assert_eq!(after["state"], "starting", "{after:#}");
    assert_eq!(after["cli"]["pid"], view["cli"]["pid"]);
    assert_eq!(rest.post(&path, second).await.expect(202)["repeated"], true);
    daemon.kill();
    touch(&gate);
    daemon.start().await;
    let rest = daemon.rest();
    let idle = rest.in_state(session, &["idle"]).await;
    assert_eq!(idle["cli"]["pid"], view["cli"]["pid"]);
    let records = journal::records(&daemon, session);
    let prompts: Vec<_> = records
        .iter()
        .filter(|record| record["src"] == "client" && record["data"]["type"] == "user")
        .map(|record| record["data"]["message"]["content"].clone())
        .collect();
    assert_eq!(prompts, ["first", "second"], "each was written once");
    let answered: usize = rest
        .turns(session)
        .await
        .iter()
        .map(|turn| turn["prompts"].as_array().unwrap().len())
        .sum();
    assert_eq!(answered, 2);
}

/// At any moment, a client finds afterwards a whole session that it can use.
#[tokio::test]
async fn a_daemon_that_dies_in_a_create_leaves_nothing_half() {
    let mut chance = Chance::new();
    let mut daemon = TestDaemon::with_fake().start().await;
    for round in 0..8 {
        let rest = daemon.rest();
        let body = json!({ "cwd": daemon.work_dir(&format!("w{round}")), "prompt": "hello" });
        let request = rest.builder(Method::POST, "/v1/sessions").json(&body);
        let mut posting = JoinSet::new();
        posting.spawn(async move { request.send().await.is_ok() });
        pass(chance.moment(60)).await;
        daemon.kill();
        posting.join_all().await;
        daemon.start().await;
    }
    let rest = daemon.rest();
    let list = rest.get("/v1/sessions?limit=100").await.expect(200);
    let sessions = list["items"].as_array().unwrap();
    for session in sessions {
        let id = session["id"].as_str().unwrap();
        let view = rest.in_state(id, &["idle", "stopped", "failed"]).await;
        if view["state"] != "idle" {
            assert_eq!(view["cli"]["pid"], Value::Null, "{view:#}");
            rest.lifecycle(id, "resume?wait=ready", json!({}))
                .await
                .expect(200);
        }
        rest.ask(id, "still there?").await;
        journal::records(&daemon, id);
        let deleted = rest.delete(&format!("/v1/sessions/{id}")).await;
        assert_eq!(deleted.status, 204, "{:#}", deleted.body);
    }
    wait_until("no process is left without a session", PATIENCE, || {
        daemon.session_processes().is_empty()
    })
    .await;
    let folders = fs::read_dir(daemon.data_dir().join("sessions")).unwrap().count();
    assert_eq!(folders, 0, "folders without a session");
}

/// The daemon died over a start that was to wait for its turn, before there was a session.
#[tokio::test]
async fn a_start_that_was_never_made_leaves_no_folder() {
    let mut daemon = TestDaemon::with_fake().start().await;
    daemon.kill();
    let folder = daemon
        .data_dir()
        .join("sessions/0198c0de-1d1e-7000-8000-5ca1ab1e0000");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("queued.json"), r#"{"prompt":null}"#).unwrap();
    fs::write(folder.join("queued.new"), r#"{"pro"#).unwrap();
    daemon.start().await;
    assert!(!folder.exists());
    let list = daemon.rest().get("/v1/sessions").await.expect(200);
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn a_stop_goes_on_without_the_daemon() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let cwd = daemon.work_dir("a");
    let last_words = cwd.join("last-words");
    let settings = json!({ "eof": { "delay_ms": 1500, "touch": last_words } });
    fs::write(cwd.join(".fake-claude.json"), settings.to_string()).unwrap();
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": cwd })).await;
    rest.ask(&session, "hello").await;
    let cli = cli_of(&rest.session(&session).await);
    let mut stopping = JoinSet::new();
    let request = rest.builder(Method::POST, &format!("/v1/sessions/{session}/stop"));
    stopping.spawn(async move { request.send().await.is_ok() });
    rest.in_state(&session, &["stopping"]).await;
    daemon.kill();
    stopping.join_all().await;
    daemon.start().await;
    let rest = daemon.rest();
    let view = rest.in_state(&session, &["stopped"]).await;
    assert_eq!(view["reason"], Value::Null, "{view:#}");
    assert!(!proc::is_alive(cli));
    assert!(last_words.exists(), "the CLI had its time");
    let runs = rest
        .get(&format!("/v1/sessions/{session}/runs"))
        .await
        .expect(200);
    assert_eq!(runs["items"][0]["exit"]["intent"], "stop", "{runs:#}");
    fs::remove_file(cwd.join(".fake-claude.json")).unwrap();
    check_ways_out(&rest, &session).await;
}

#[tokio::test]
async fn a_failed_session_stays_failed_and_can_go_on() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&session, "hello").await;
    proc::signal(cli_of(&rest.session(&session).await), Signal::SIGKILL);
    // The record that says so comes once the keeper is gone.
    wait_for("the state is in the journal", PATIENCE, async || {
        let records = rest.events(&session, 0).await;
        let last = &records.last()?["data"];
        (last["type"] == "state" && last["state"] == "failed").then_some(())
    })
    .await;
    let before = rest.session(&session).await;
    assert_eq!(before["reason"]["code"], "cli_killed", "{before:#}");
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let after = rest.session(&session).await;
    for field in [
        "state",
        "reason",
        "head_seq",
        "turns",
        "cost_usd",
        "updated_at",
        "cli",
    ] {
        assert_eq!(after[field], before[field], "{field}: {after:#}");
    }
    check_ways_out(&rest, &session).await;
}

/// The CLI dies while no daemon looks, with a request open and a turn half done.
#[tokio::test]
async fn the_keeper_alone_sees_the_end_of_the_cli() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&session, "hello").await;
    rest.prompt(
        &session,
        &fake_prompt(&json!([{ "stderr": "I feel faint\n" }, { "ask": {} }])),
    )
    .await;
    let approval = rest.pending_approval(&session).await;
    let cli = cli_of(&rest.session(&session).await);
    let keeper = keeper_of(cli);
    daemon.kill();
    proc::signal(cli, Signal::SIGKILL);
    gone(keeper).await;
    daemon.start().await;
    let rest = daemon.rest();
    let view = rest.session(&session).await;
    assert_eq!(view["state"], "failed", "{view:#}");
    assert_eq!(view["reason"]["code"], "cli_killed");
    let detail = view["reason"]["detail"].as_str().unwrap();
    assert!(detail.contains("I feel faint"), "{detail}");
    check_abandoned(&rest, &session, &approval).await;
    check_ways_out(&rest, &session).await;
}

async fn check_abandoned(rest: &Rest, session: &str, approval: &Value) {
    let id = approval["id"].as_str().unwrap();
    let pending = rest.get("/v1/approvals?state=pending").await.expect(200);
    assert_eq!(pending["items"], json!([]));
    let path = format!("/v1/sessions/{session}/approvals/{id}");
    assert_eq!(rest.get(&path).await.expect(200)["state"], "abandoned");
    let late = rest.decide(session, id, json!({ "decision": "allow" })).await;
    assert_eq!(late.problem(409), "approval_not_pending");
}

#[tokio::test]
async fn a_keeper_that_is_killed_takes_its_cli_along_and_is_missed_at_once() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&session, "hello").await;
    rest.prompt(
        &session,
        &fake_prompt(&json!([
            { "child": { "setsid": true, "double_fork": true, "ignore_term": true } },
            { "ask": {} },
        ])),
    )
    .await;
    let approval = rest.pending_approval(&session).await;
    let mut client = daemon.attach(&session, Some(0)).await;
    let child = client
        .until("the child", |frame| frame["data"]["type"] == "fake_child")
        .await
        .pop()
        .unwrap();
    let child = i32::try_from(child["data"]["pid"].as_i64().unwrap()).unwrap();
    let cli = cli_of(&rest.session(&session).await);
    proc::signal(keeper_of(cli), Signal::SIGKILL);
    let failed = client
        .until("the failure", |frame| {
            frame["data"]["type"] == "state" && frame["data"]["state"] == "failed"
        })
        .await
        .pop()
        .unwrap();
    assert_eq!(failed["data"]["reason"]["code"], "keeper_lost", "{failed:#}");
    gone(cli).await;
    gone(child).await;
    let view = rest.session(&session).await;
    assert_eq!(view["state"], "failed", "{view:#}");
    assert_eq!(view["cli"]["pid"], Value::Null);
    check_abandoned(&rest, &session, &approval).await;

    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let view = rest.session(&session).await;
    assert_eq!(view["reason"]["code"], "keeper_lost", "{view:#}");
    check_abandoned(&rest, &session, &approval).await;
    check_ways_out(&rest, &session).await;
}

/// The end of the machine, as far as a test can have it: everything is killed at once in the middle of a stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_death_of_all_the_journal_goes_on_where_it_was() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&session, "hello").await;
    let beacon = Beacon::new(&daemon);
    let mut follower = Follower::start(&beacon, &session, None);
    for _ in 0..3 {
        let rest = daemon.rest();
        let flood = fake_prompt(&json!([{ "flood": 50_000, "rate": 5000 }]));
        rest.prompt(&session, &flood).await;
        follower.more(300, Duration::from_secs(10)).await;
        let cli = cli_of(&rest.session(&session).await);
        let keeper = keeper_of(cli);
        daemon.kill();
        proc::signal(keeper, Signal::SIGKILL);
        proc::signal(cli, Signal::SIGKILL);
        gone(cli).await;
        daemon.start().await;
        beacon.moved(&daemon);
        let rest = daemon.rest();
        let view = rest.session(&session).await;
        assert_eq!(view["state"], "failed", "{view:#}");
        assert_eq!(view["reason"]["code"], "keeper_lost");
        rest.lifecycle(&session, "resume?wait=ready", json!({}))
            .await
            .expect(200);
        let answer = rest.ask(&session, "go on").await;
        assert_eq!(answer["result"]["subtype"], "success");
    }
    let records = journal::parse(&follower.has_all_of(&daemon, &session).await);
    assert_eq!(journal::own(&records, "run_started").len(), 4);
    assert_eq!(journal::own(&records, "run_lost").len(), 3);
    let turns = daemon.rest().turns(&session).await;
    let ends: Vec<_> = turns
        .iter()
        .map(|turn| turn["subtype"].as_str().unwrap())
        .collect();
    let expected = [
        "success",
        "interrupted",
        "success",
        "interrupted",
        "success",
        "interrupted",
        "success",
    ];
    assert_eq!(ends, expected);
    daemon
        .rest()
        .lifecycle(&session, "stop", json!({}))
        .await
        .expect(200);
    check_ways_out(&daemon.rest(), &session).await;
}

/// A prompt that the keeper had taken, and the CLI's full pipe had not, is neither lost nor doubled by a repeat.
#[tokio::test]
async fn a_prompt_that_waits_for_a_deaf_cli_is_written_once() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let cwd = daemon.work_dir("a");
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": cwd })).await;
    let cli = cli_of(&rest.session(&session).await);
    proc::signal(cli, Signal::SIGSTOP);
    let path = format!("/v1/sessions/{session}/messages");
    let big = json!({ "text": "x".repeat(300_000), "uuid": "7e6f2a34-5d1c-4b7e-9a51-0c0ffee00003" });
    let behind = json!({ "text": "behind", "uuid": "7e6f2a34-5d1c-4b7e-9a51-0c0ffee00004" });
    rest.post(&path, big.clone()).await.expect(202);
    // Its record is due when its first byte can be written, and so is the answer.
    let request = rest.builder(Method::POST, &path).json(&behind);
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { request.send().await.is_ok() });
    pass(Duration::from_millis(100)).await;
    daemon.kill();
    waiting.join_all().await;
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(rest.post(&path, big).await.expect(202)["repeated"], true);
    let again = rest.builder(Method::POST, &path).json(&behind);
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { again.send().await.is_ok_and(|reply| reply.status() == 202) });
    proc::signal(cli, Signal::SIGCONT);
    assert_eq!(waiting.join_all().await, [true]);
    rest.in_state(&session, &["idle"]).await;
    let records = journal::records(&daemon, &session);
    let written = records
        .iter()
        .filter(|record| record["src"] == "client" && record["data"]["message"]["content"] == "behind")
        .count();
    assert_eq!(written, 1);
}

/// A process that is killed loses its connection and its lock one after the other: no order of the two may matter.
#[tokio::test]
async fn many_keepers_are_killed_and_each_is_missed() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut sessions = Vec::new();
    for place in 0..6 {
        let cwd = daemon.work_dir(&format!("w{place}"));
        sessions.push(rest.create_ready(json!({ "cwd": cwd })).await);
    }
    for session in &sessions {
        let flood = fake_prompt(&json!([{ "flood": 100_000, "rate": 2000 }]));
        rest.prompt(session, &flood).await;
    }
    for session in &sessions {
        proc::signal(keeper_of(cli_of(&rest.session(session).await)), Signal::SIGKILL);
    }
    for session in &sessions {
        let view = rest.in_state(session, &["failed"]).await;
        assert_eq!(view["reason"]["code"], "keeper_lost", "{view:#}");
        rest.lifecycle(session, "resume?wait=ready", json!({}))
            .await
            .expect(200);
        let records = journal::records(&daemon, session);
        assert_eq!(journal::own(&records, "run_lost").len(), 1);
    }
}
