//! Owns what becomes of a session with the program that it was made for: while that is there, when it comes back with other
//! arguments, and when it, or the daemon, dies at a bad moment.

use std::{fs, os::unix::process::ExitStatusExt as _};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    daemon::{TestDaemon, TestDaemonBuilder},
    lines::LineSocket,
    programs::fake_prompt,
    rest::Rest,
    stand_in::StandIn,
    wait::{PATIENCE, wait_for, wait_until},
};

/// The one session that is there, once it is as wanted.
async fn only(rest: &Rest, what: &str, is_it: impl Fn(&Value) -> bool + Send + Sync) -> Value {
    wait_for(what, PATIENCE, async || {
        let page = rest.get("/v1/sessions").await.expect(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 1, "more than one session: {page:#}");
        items.first().filter(|it| is_it(it)).cloned()
    })
    .await
}

/// A daemon that waits for lost hosts only a moment.
fn impatient() -> TestDaemonBuilder {
    TestDaemon::with_fake().env("TRUNKLINE_SESSIONS_HOST_GRACE_MS", "300")
}

async fn host(daemon: &TestDaemon, args: &[&str]) -> StandIn {
    let mut host = StandIn::start(daemon, "w", args);
    host.initialize(json!({})).await;
    host.line("control_response").await;
    host
}

#[tokio::test]
async fn a_session_whose_host_is_there_is_not_parked() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_PARK_IDLE_MS", "200")
        .start()
        .await;
    let rest = daemon.rest();
    let mut host = host(&daemon, &[]).await;
    host.prompt("hello").await;
    host.line("result").await;
    let hosted = only(&rest, "a turn", |view| view["turns"] == 1).await;
    let path = format!("/v1/connect?cwd={}", daemon.work_dir("c").display());
    let bearer = format!("Bearer {}", daemon.token());
    let mut page = LineSocket::open(&daemon, &path, &[("authorization", &bearer)])
        .await
        .unwrap();
    page.control("1", json!({"subtype": "initialize"})).await;
    let items = rest.get("/v1/sessions").await.expect(200)["items"].clone();
    let connected = items
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["id"] != hosted["id"]);
    let connected = connected.unwrap()["id"].as_str().unwrap();
    // A third one is parked, although it was used later.
    let cwd = daemon.work_dir("o");
    let other = rest.create_ready(json!({"cwd": cwd})).await;
    rest.ask(&other, "hello").await;
    rest.in_state(&other, &["parked"]).await;
    for id in [hosted["id"].as_str().unwrap(), connected] {
        let refused = rest.lifecycle(id, "park", json!({})).await;
        assert_eq!(refused.body["obstacle"], "host_attached", "{:#}", refused.body);
        assert_eq!(refused.problem(409), "session_not_parkable");
        assert_eq!(rest.session(id).await["state"], "idle");
    }
    host.end_input();
    assert_eq!(host.ended().await.0.code(), Some(0));
}

#[tokio::test]
async fn a_host_that_comes_back_has_what_its_arguments_say() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut first = host(&daemon, &["--model=opus"]).await;
    first.prompt("hello").await;
    first.line("result").await;
    let view = only(&rest, "a turn", |view| view["turns"] == 1).await;
    let id = view["id"].as_str().unwrap();
    // Somebody has set other things meanwhile.
    let settings = json!({"subtype": "apply_flag_settings",
        "settings": {"model": "sonnet", "effortLevel": "low", "permissions": {"defaultMode": "plan"}}});
    rest.post(&format!("/v1/sessions/{id}/control"), settings)
        .await
        .expect(200);
    rest.put(
        &format!("/v1/sessions/{id}/permission_mode"),
        json!({"mode": "plan"}),
    )
    .await
    .expect(200);
    first.end_input();
    assert_eq!(first.ended().await.0.code(), Some(0));

    let resume = format!("--resume={}", view["cli"]["session_id"].as_str().unwrap());
    let mut second = host(
        &daemon,
        &[&resume, "--model=haiku", "--permission-mode=acceptEdits"],
    )
    .await;
    second.prompt(&fake_prompt(&json!([{"dump": 1}]))).await;
    let argv = second.line("fake_dump").await["argv"].to_string();
    assert!(
        argv.contains("--model=haiku") && argv.contains("--permission-mode=acceptEdits"),
        "{argv}"
    );
    let journal = daemon.journal(id);
    let given = journal
        .lines()
        .rfind(|line| line.contains("trunkline-restore-settings") && line.contains(r#""src":"client""#))
        .unwrap();
    assert!(
        given.contains("effortLevel"),
        "what it does not say stays: {given}"
    );
    assert!(
        !given.contains("sonnet") && !given.contains("defaultMode"),
        "{given}"
    );

    // It is killed; the next one comes to the process that runs on.
    second.signal(Signal::SIGKILL);
    second.ended().await;
    let pid = rest.session(id).await["cli"]["pid"].clone();
    let mut third = host(&daemon, &[&resume, "--model=opus", "--permission-mode=default"]).await;
    let view = rest.session(id).await;
    assert_eq!(
        (&view["cli"]["pid"], &view["model"], &view["permission_mode"]),
        (&pid, &json!("opus"), &json!("default")),
        "{view:#}"
    );
    third.prompt(&fake_prompt(&json!([{"crash": "SIGSEGV"}]))).await;
    let (status, _, errors) = third.ended().await;
    assert_eq!(
        status.signal(),
        Some(Signal::SIGSEGV as i32),
        "{status:?} {errors}"
    );
}

#[tokio::test]
async fn options_of_the_address_are_for_a_session_that_has_stopped() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let bearer = format!("Bearer {}", daemon.token());
    let headers = [("authorization", bearer.as_str())];
    let cwd = daemon.work_dir("w").display().to_string();
    let id = rest
        .create_ready(json!({"cwd": cwd, "options": {"model": "opus"}}))
        .await;
    rest.ask(&id, "hello").await;
    let conversation = rest.session(&id).await["cli"]["session_id"].clone();
    let path = format!(
        "/v1/connect?resume={}&model=haiku&permission_mode=plan",
        conversation.as_str().unwrap()
    );
    let mut client = LineSocket::open(&daemon, &path, &headers).await.unwrap();
    client.send_text("{\"type\":\"keep_alive\"}\n").await;
    let (code, reason) = client.close_frame().await;
    assert!(code >= 4000 && reason.contains("options"), "{code} {reason}");
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);

    let mut client = LineSocket::open(&daemon, &path, &headers).await.unwrap();
    client.control("1", json!({"subtype": "initialize"})).await;
    let message = json!({"role": "user", "content": fake_prompt(&json!([{"dump": 1}]))});
    client.send(&json!({"type": "user", "message": message})).await;
    let argv = client.line("fake_dump").await["argv"].to_string();
    assert!(
        argv.contains("--model=haiku") && argv.contains("--permission-mode=plan"),
        "{argv}"
    );
    assert_eq!(rest.session(&id).await["options"]["model"], "haiku");
}

/// The socket of a stand-in that has sent its launch, and nothing else yet.
async fn launch(daemon: &TestDaemon, args: &[&str], ids: (&str, &str)) -> LineSocket {
    let bearer = format!("Bearer {}", daemon.token());
    let headers = [
        ("authorization", bearer.as_str()),
        ("sec-websocket-protocol", "trunkline.stdio"),
    ];
    let mut socket = LineSocket::open(daemon, "/v1/stdio", &headers).await.unwrap();
    let mut argv = vec!["--output-format=stream-json", "--input-format=stream-json"];
    argv.extend(args);
    let line =
        json!({"type": "control_request", "request_id": "init-1", "request": {"subtype": "initialize"}});
    socket
        .send(
            &json!({"type": "trunkline.launch", "argv": argv, "cwd": daemon.work_dir("w"), "env": {},
            "is_whole_env": false, "line": line.to_string(), "session": ids.0, "client": ids.1}),
        )
        .await;
    socket
}

async fn runs(rest: &Rest, id: &str) -> usize {
    let runs = rest.get(&format!("/v1/sessions/{id}/runs")).await.expect(200);
    runs["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_launch_that_is_said_again_is_made_once() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let ids = [(); 4].map(|()| uuid::Uuid::now_v7().to_string());
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let conversation = |view: &Value| format!("--resume={}", view["cli"]["session_id"].as_str().unwrap());
    let mut resume = String::new();
    for (round, ids) in [(1, (ids[0], ids[1])), (2, (ids[2], ids[3]))] {
        let args: Vec<&str> = Some(resume.as_str())
            .filter(|it| !it.is_empty())
            .into_iter()
            .collect();
        let unheard = launch(&daemon, &args, ids).await;
        let is_there = |view: &Value| view["state"] == "idle" && view["turns"] == round - 1;
        let view = only(&daemon.rest(), "a session", is_there).await;
        daemon.kill();
        drop(unheard);
        daemon.start().await;
        let rest = daemon.rest();
        let mut heard = launch(&daemon, &args, ids).await;
        let told = heard.line("trunkline.session").await;
        let id = told["session"].as_str().unwrap();
        assert_eq!(view["id"], id);
        let answer = heard.line("control_response").await;
        assert_eq!(answer["response"]["request_id"], "init-1", "{answer}");
        let message = json!({"role": "user", "content": "hello"});
        heard.send(&json!({"type": "user", "message": message})).await;
        let lines = heard.until(|line| line["type"] == "result").await;
        assert!(
            lines.iter().all(|line| line["type"] != "control_response"),
            "{lines:#?}"
        );
        heard.send(&json!({"type": "trunkline.end_of_input"})).await;
        let exit = heard.line("trunkline.exit").await;
        assert_eq!(exit["code"], 0);
        let view = only(&rest, "the end", |view| view["state"] == "stopped").await;
        assert_eq!(runs(&rest, id).await, round);
        resume = conversation(&view);
    }
}

#[tokio::test]
async fn a_host_that_is_told_to_end_while_no_daemon_is_there_ends() {
    let mut daemon = impatient().start().await;
    let mut host = host(&daemon, &[]).await;
    host.prompt("hello").await;
    host.line("result").await;
    let view = only(&daemon.rest(), "a turn", |view| view["turns"] == 1).await;
    daemon.kill();
    host.signal(Signal::SIGTERM);
    let (status, lines, errors) = host.ended().await;
    assert!(!status.success(), "{status:?} {errors}");
    assert!(lines.iter().all(|line| line.starts_with('{')), "{lines:#?}");
    // The next daemon ends what the host has left.
    daemon.start().await;
    let rest = daemon.rest();
    only(&rest, "the end", |view| view["state"] == "stopped").await;
    let id = view["id"].as_str().unwrap();
    let tether = daemon.data_dir().join("sessions").join(id).join("tether.json");
    wait_until("nothing is left of the host", PATIENCE, || !tether.exists()).await;
    rest.lifecycle(id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_host_that_is_killed_has_a_while_to_come_back() {
    let daemon = impatient().start().await;
    let rest = daemon.rest();
    let gate = daemon.work_dir("w").join("gate");
    let mut host = host(&daemon, &[]).await;
    host.prompt(&fake_prompt(
        &json!([{"text": "one"}, {"wait_file": gate}, {"text": "two"}]),
    ))
    .await;
    host.line("assistant").await;
    host.signal(Signal::SIGKILL);
    host.ended().await;
    let log = || daemon.log().contains("connection lost");
    wait_until("it is known to be lost, and no fault of its own", PATIENCE, log).await;
    // Its turn goes on, and then the session ends.
    fs::write(&gate, "").unwrap();
    let view = only(&rest, "the end", |view| view["state"] == "stopped").await;
    assert_eq!(view["turns"], 1, "{view:#}");

    // Told to end, and killed at once: it may have told nobody.
    let resume = format!("--resume={}", view["cli"]["session_id"].as_str().unwrap());
    let host = self::host(&daemon, &[&resume]).await;
    host.signal(Signal::SIGTERM);
    host.signal(Signal::SIGKILL);
    host.ended().await;
    let view = only(&rest, "the end", |view| view["state"] == "stopped").await;
    assert_eq!(runs(&rest, view["id"].as_str().unwrap()).await, 2);
}

/// The memory of a process.
fn resident_kib(pid: i32) -> i64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    resident
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn a_host_that_reads_nothing_holds_nobody_up() {
    let daemon = impatient().start().await;
    let rest = daemon.rest();
    let mut silent = host(&daemon, &["--include-partial-messages"]).await;
    let view = only(&rest, "a session", |view| view["state"] == "idle").await;
    let id = view["id"].as_str().unwrap();
    let mut watcher = daemon.attach(id, None).await;
    let before = resident_kib(silent.pid());
    let flood = json!([{"flood": 1500, "bytes": 20_000}, {"text": "end"}]);
    silent.prompt(&fake_prompt(&flood)).await;
    // Everybody else hears all of it.
    watcher.cli_line("result").await;
    let cwd = daemon.work_dir("o");
    let other = rest.create_ready(json!({"cwd": cwd})).await;
    rest.ask(&other, "hello").await;
    let held = resident_kib(silent.pid()) - before;
    assert!(held < 16 * 1024, "it holds {held} KiB of 30 MB that were printed");
    // It ends when it is told to, although its output goes nowhere.
    silent.signal(Signal::SIGTERM);
    let status = silent.end_unread().await;
    assert!(!status.success());
    rest.in_state(id, &["stopped"]).await;
}
