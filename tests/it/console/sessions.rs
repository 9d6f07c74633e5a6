//! Owns a person's day with sessions: make, look, talk, answer, stop, go on, delete.

use serde_json::{Value, json};

use crate::{
    console::common::{run, run_with, tl, to},
    support::{daemon::TestDaemon, programs::fake_prompt},
};

#[tokio::test]
async fn a_session_is_made_talked_to_and_ended() {
    let daemon = TestDaemon::with_fake().start().await;
    let here = daemon.work_dir("here");
    let id = tl(
        &daemon,
        &[
            "new",
            "--title",
            "First",
            "--tag",
            "t",
            "--label",
            "a=b",
            "hello there",
        ],
    )
    .line();
    assert!(id.parse::<uuid::Uuid>().is_ok(), "{id}");
    daemon.rest().in_state(&id, &["idle"]).await;

    let shown = tl(&daemon, &["show", "last"]).good();
    for expected in [
        id.as_str(),
        "First",
        "idle",
        here.to_str().unwrap(),
        "a=b",
        "hello there",
        "claude-fake-1",
    ] {
        assert!(shown.contains(expected), "{expected} is missing: {shown}");
    }
    let list = tl(&daemon, &["ls"]).good();
    let rows: Vec<&str> = list.lines().collect();
    assert_eq!(rows.len(), 2, "{list}");
    assert!(
        rows[0].starts_with("ID ") && rows[1].contains("First") && rows[1].contains("$0.0008"),
        "{list}"
    );
    assert!(!list.contains('\x1b'), "colour without a terminal: {list:?}");

    // Named by the beginning of the id, in either case.
    let answer = tl(
        &daemon,
        &[
            "send",
            &id[..12],
            "--wait",
            &fake_prompt(&json!([{"text": "forty-two"}])),
        ],
    )
    .line();
    assert_eq!(answer, "forty-two");
    let answer = run_with(
        to(&daemon, &["send", &id.to_uppercase(), "--wait", "-"]),
        "from a pipe\n",
    );
    assert_eq!((answer.code, answer.stderr.as_str()), (0, ""), "{answer:?}");
    let sent = tl(&daemon, &["send", "last", "no wait"]).line();
    assert!(sent.parse::<uuid::Uuid>().is_ok(), "{sent}");
    daemon.rest().in_state(&id, &["idle"]).await;

    let usage = tl(&daemon, &["usage", "--by", "session"]).good();
    assert!(
        usage.contains(&id[..8]) && !usage.contains(&id) && usage.contains("INPUT"),
        "{usage}"
    );
    assert_eq!(tl(&daemon, &["stop", "last"]).line(), format!("{id} stopped"));
    assert_eq!(tl(&daemon, &["stop", "last"]).line(), format!("{id} stopped"));
    let refused = tl(&daemon, &["send", "last", "anyone?"]).failed(5);
    assert!(refused.contains("trunkline resume"), "{refused}");
    let resumed = tl(&daemon, &["resume", "last"]).line();
    assert!(resumed.starts_with(&id), "{resumed}");
    let refused = tl(&daemon, &["resume", "last"]).failed(5);
    assert!(refused.contains("already"), "{refused}");
    daemon.rest().in_state(&id, &["idle"]).await;

    let copy = tl(&daemon, &["fork", &id, "--title", "Copy", "and now?"]).line();
    assert_ne!(copy, id);
    let shown = tl(&daemon, &["show", &copy]).good();
    assert!(shown.contains(&format!("forked from      {id}")), "{shown}");
    let gone = tl(&daemon, &["rm", &id, &copy]);
    assert_eq!((gone.code, gone.stdout.as_str()), (0, ""), "{gone:?}");
    let empty = tl(&daemon, &["ls"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (0, ""), "{empty:?}");
    assert!(empty.stderr.contains("trunkline new"), "{empty:?}");
    tl(&daemon, &["show", &id]).failed(4);
    tl(&daemon, &["show", "last"]).failed(4);
    tl(&daemon, &["rm", &id]).failed(4);
}

#[tokio::test]
async fn json_is_the_apis_and_nothing_else() {
    let daemon = TestDaemon::with_fake().start().await;
    let made = tl(&daemon, &["--json", "new", "hello"]).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let view = daemon.rest().in_state(&id, &["idle"]).await;
    let shown = tl(&daemon, &["show", "last", "--json"]).json();
    for field in ["id", "cwd", "state", "turns", "cost_usd", "created_at"] {
        assert_eq!(shown[field], view[field], "{field}");
    }
    assert_eq!(tl(&daemon, &["ls", "--json"]).json()["items"][0]["id"], json!(id));
    let answer = tl(&daemon, &["send", "last", "--wait", "--json", "x"]).json();
    assert_eq!(answer["result"]["subtype"], "success");
    assert_eq!(tl(&daemon, &["usage", "--json"]).json()["items"][0]["turns"], 2);
    assert!(
        tl(&daemon, &["interrupt", "last", "--json"])
            .json()
            .get("response")
            .is_some()
    );
    assert_eq!(
        tl(&daemon, &["stop", "last", "--json"]).json()["state"],
        "stopped"
    );
    assert_eq!(tl(&daemon, &["resume", "last", "--json"]).json()["id"], json!(id));
    assert!(tl(&daemon, &["config", "--json"]).json()["values"].is_object());
    assert!(
        tl(&daemon, &["doctor", "--json"]).json().is_object()
            || tl(&daemon, &["doctor", "--json"]).json().is_array()
    );
    assert!(tl(&daemon, &["openapi"]).json()["paths"].is_object());
}

#[tokio::test]
async fn what_cannot_be_said_makes_no_session() {
    let daemon = TestDaemon::with_fake().start().await;
    for (args, code) in [
        (&["new", ""][..], 2),
        (&["new", " \n "], 2),
        (&["new", "--wait", ""], 2),
        (&["new", "--cwd", "/nonexistent", "x"], 5),
        (&["new", "--permission-mode", "bypassPermissions", "x"], 5),
        (&["new", "--permission-mode", "yolo", "x"], 5),
        (&["new", "--allowed-tools", "a\nb", "x"], 5),
        (&["new", "--options", "/nonexistent", "x"], 2),
    ] {
        let ran = tl(&daemon, args);
        assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {ran:?}");
    }
    let empty = run_with(to(&daemon, &["new", "-"]), "");
    assert_eq!(empty.code, 2, "{empty:?}");
    let list = daemon.rest().get("/v1/sessions").await.expect(200);
    assert_eq!(list["items"], json!([]), "a session was made");

    let id = tl(&daemon, &["new", "hello"]).line();
    daemon.rest().in_state(&id, &["idle"]).await;
    tl(&daemon, &["fork", &id, ""]).failed(2);
    tl(&daemon, &["send", &id, ""]).failed(2);
    let list = daemon.rest().get("/v1/sessions").await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "a fork was made");
}

#[tokio::test]
async fn sessions_that_cannot_be_told_apart_or_are_not_there() {
    let daemon = TestDaemon::with_fake().start().await;
    tl(&daemon, &["show", "last"]).failed(4);
    let one = tl(&daemon, &["new", "the first one"]).line();
    let two = tl(&daemon, &["new", "the second one"]).line();
    // Ids begin with the time, so these have a beginning in common.
    let shared: String = one
        .chars()
        .zip(two.chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a)
        .collect();
    let told = tl(&daemon, &["show", &shared]).failed(2);
    for expected in [&one, &two] {
        assert!(told.contains(expected.as_str()), "{told}");
    }
    tl(&daemon, &["show", "ffff"]).failed(4);
    tl(&daemon, &["show", &uuid::Uuid::now_v7().to_string()]).failed(4);
    for nonsense in ["", "../x", "first", "*"] {
        tl(&daemon, &["show", nonsense]).failed(2);
    }
    let list = tl(&daemon, &["ls"]).good();
    let shown: Vec<&str> = list
        .lines()
        .skip(1)
        .map(|row| row.split_whitespace().next().unwrap())
        .collect();
    for short in &shown {
        tl(&daemon, &["show", short]).good();
    }
    assert_eq!(shown.len(), 2);
}

#[tokio::test]
async fn what_a_session_asks_is_decided_from_the_command_line() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let ask = |actions: Value| fake_prompt(&actions);
    let id = tl(
        &daemon,
        &[
            "new",
            &ask(json!([{"ask": {"n": 2, "input": {"command": "make test"}}}, {"text": "over"}])),
        ],
    )
    .line();
    rest.pending_approval(&id).await;
    let list =
        crate::support::wait::wait_for("both are pending", crate::support::wait::PATIENCE, async || {
            let list = rest
                .get(&format!("/v1/sessions/{id}/approvals?state=pending"))
                .await
                .expect(200);
            (list["items"].as_array().unwrap().len() == 2).then_some(list)
        })
        .await;
    let shown = tl(&daemon, &["show", "last"]).good();
    assert_eq!(shown.matches("command: make test").count(), 2, "{shown}");
    let several = tl(&daemon, &["approve", "last"]).failed(2);
    let first = list["items"][0]["id"].as_str().unwrap();
    assert!(several.contains(first), "{several}");
    let denied = tl(&daemon, &["deny", "last", first, "-m", "not now"]);
    assert!(
        denied.code == 0 && denied.stderr.contains("denied: Bash make test"),
        "{denied:?}"
    );
    let bad = tl(&daemon, &["approve", "last", "--input", "ls"]).failed(2);
    assert!(bad.contains("JSON"), "{bad}");
    let allowed = tl(
        &daemon,
        &["approve", "last", "--input", r#"{"command":"make lint"}"#],
    );
    assert!(
        allowed.code == 0 && allowed.stderr.contains("allowed"),
        "{allowed:?}"
    );
    rest.in_state(&id, &["idle"]).await;
    let events = rest.events(&id, 0).await;
    let told: Vec<&Value> = events
        .iter()
        .filter(|it| it["data"]["type"] == "fake_answer")
        .map(|it| &it["data"]["response"]["response"])
        .collect();
    assert_eq!(told[0]["message"], "not now");
    assert_eq!(told[1]["updatedInput"], json!({"command": "make lint"}));
    tl(&daemon, &["approve", "last"]).failed(4);
    tl(&daemon, &["deny", "last"]).failed(4);

    let endless = ask(json!([{"text": "on and on"}, {"silent": 1}]));
    tl(&daemon, &["send", &id, &endless]).good();
    rest.in_turn(&id).await;
    let interrupted = tl(&daemon, &["interrupt", "last"]);
    assert!(
        interrupted.code == 0 && interrupted.stderr.contains("interrupted"),
        "{interrupted:?}"
    );
    rest.in_state(&id, &["idle"]).await;
}

#[tokio::test]
async fn a_failed_turn_and_a_failed_start_are_told_with_their_reason() {
    let daemon = TestDaemon::with_fake().start().await;
    let failing =
        fake_prompt(&json!([{"result": {"subtype": "error_max_turns", "is_error": true, "result": null}}]));
    let ran = tl(&daemon, &["new", "--wait", &failing]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert!(
        ran.stderr.contains("error: the turn failed: error_max_turns"),
        "{ran:?}"
    );
    // A program that reads the answer sees by the code alone that it is none.
    let ran = tl(&daemon, &["send", "last", "--wait", "--json", &failing]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let answer: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["result"]["subtype"], "error_max_turns", "{answer}");
    assert!(ran.stderr.contains("error: the turn failed"), "{ran:?}");

    crate::support::programs::fake_settings(
        &daemon.work_dir("here"),
        &json!({"exit_at_start": {"code": 1, "stderr": "your account is locked"}}),
    );
    let ran = tl(&daemon, &["new", "--wait", "hello"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("your account is locked"), "{ran:?}");
    let shown = tl(&daemon, &["show", "last"]).good();
    assert!(
        shown.contains("failed") && shown.contains("your account is locked"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_message_that_looks_like_a_flag_and_text_that_would_drive_the_terminal() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(&daemon, &["new", "--", "--help"]).line();
    daemon.rest().in_state(&id, &["idle"]).await;
    assert_eq!(daemon.rest().session(&id).await["last_prompt"], "--help");
    let nasty = fake_prompt(&json!([{"text": "\u{1b}]0;owned\u{7}\u{1b}[2Jclean\u{9b}31m"}]));
    let answer = tl(&daemon, &["send", "last", "--wait", &nasty]).good();
    assert!(answer.contains("clean"), "{answer:?}");
    assert!(!answer.chars().any(|c| c.is_control() && c != '\n'), "{answer:?}");
    let title = "\u{1b}[31mred";
    tl(&daemon, &["new", "--title", title, "x"]).line();
    let list = tl(&daemon, &["ls"]).good();
    assert!(!list.contains('\u{1b}'), "{list:?}");
    // A reader that goes away is no failure.
    let head = run({
        let mut shell = std::process::Command::new("sh");
        let program = crate::support::programs::trunkline();
        shell
            .args(["-c", "\"$0\" openapi | head -n 1", program.to_str().unwrap()])
            .env("HOME", daemon.home());
        shell
    });
    assert_eq!((head.code, head.stderr.as_str()), (0, ""), "{head:?}");
}
