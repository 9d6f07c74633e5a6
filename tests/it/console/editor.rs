//! Owns `attach` on a terminal that can be painted on: its line editor, its questions, and what survives.

use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    console::{common::tl, terminal::Terminal},
    support::{
        daemon::TestDaemon,
        programs::{fake_prompt, fake_settings},
        wait::{PATIENCE, wait_until},
    },
};

/// A daemon whose agent does this for each message, and a session of it.
pub(crate) async fn with_session(prompt: &Value) -> (TestDaemon, String) {
    let daemon = TestDaemon::with_fake().start().await;
    fake_settings(&daemon.work_dir("here"), &json!({ "prompt": prompt }));
    let id = tl(&daemon, &["new"]).line();
    daemon.rest().in_state(&id, &["idle"]).await;
    (daemon, id)
}

/// The messages that the agent got.
async fn messages(daemon: &TestDaemon, id: &str) -> Vec<String> {
    let events = daemon.rest().events(id, 0).await;
    let sent = events
        .iter()
        .filter(|it| it["src"] == "client" && it["data"]["type"] == "user");
    sent.map(|it| match &it["data"]["message"]["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
    })
    .collect()
}

/// The answers that the agent got.
async fn answers(daemon: &TestDaemon, id: &str) -> Vec<Value> {
    let events = daemon.rest().events(id, 0).await;
    let told = events.iter().filter(|it| it["data"]["type"] == "fake_answer");
    told.map(|it| it["data"]["response"]["response"].clone())
        .collect()
}

#[tokio::test]
async fn a_tool_is_allowed_and_its_outcome_shown() {
    let asks = json!([{"ask": {"input": {"command": "make test"}}}, {"text": "tests are green"}]);
    let (daemon, id) = with_session(&asks).await;
    let mut terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.line("| $0.0000 >").await;
    terminal.enters("please test").await;
    terminal.shows("command: make test").await;
    terminal.line("answer >").await;
    terminal.enters("y").await;
    terminal.shows("tests are green").await;
    terminal.shows("* Bash make test -> ").await;
    terminal.shows("- turn done").await;
    terminal.line("$0.0008 >").await;
    assert_eq!(answers(&daemon, &id).await[0]["behavior"], "allow");
    assert_eq!(messages(&daemon, &id).await, ["please test"]);
    terminal.enters("?").await;
    terminal.shows("Ctrl-D on an empty line leaves").await;
    terminal.line(">").await;
    terminal.types("\u{4}");
    assert_eq!(terminal.code().await, 0, "{}", terminal.screen());
    assert_eq!(daemon.rest().session(&id).await["state"], "idle");
}

#[tokio::test]
async fn a_question_drops_an_answer_and_keeps_a_message() {
    let (daemon, id) = with_session(&json!([{"text": "fine"}])).await;
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.line("$0.0000 >").await;
    terminal.types("half a mess");
    terminal.line("half a mess").await;
    let asks = fake_prompt(&json!([
        {"ask": {"input": {"command": "touch one.txt"}, "wait": false}},
        {"ask": {"input": {"command": "rm -rf precious"}}},
    ]));
    tl(&daemon, &["send", &id, &asks]).good();
    terminal.shows("command: touch one.txt").await;
    terminal.line("answer >").await;
    terminal.types("y");
    terminal.line("answer > y").await;
    let path = format!("/v1/sessions/{id}/approvals?state=pending");
    let list = daemon.rest().get(&path).await.expect(200);
    let items = list["items"].as_array().unwrap();
    let first = items
        .iter()
        .find(|it| it["request"]["input"]["command"] == "touch one.txt");
    let first = first.unwrap()["id"].as_str().unwrap();
    let allow = json!({"decision": "allow"});
    daemon.rest().decide(&id, first, allow).await.expect(200);
    terminal.shows("command: rm -rf precious").await;
    terminal.line("answer >").await;
    terminal.types("\r");
    terminal
        .until("the second question is asked again", |screen| {
            screen.matches("command: rm -rf precious").count() >= 2
        })
        .await;
    terminal.line("answer >").await;
    terminal.enters("n not that").await;
    // The message is there again, and is sent whole.
    terminal.line("half a mess").await;
    terminal.types("age\r");
    wait_until("the message arrives", PATIENCE, || {
        terminal.screen().contains("fine")
    })
    .await;
    daemon.rest().in_state(&id, &["idle"]).await;
    let told = answers(&daemon, &id).await;
    let behaviors: Vec<&Value> = told.iter().map(|it| &it["behavior"]).collect();
    assert_eq!(behaviors, ["allow", "deny"]);
    assert_eq!(told[1]["message"], "not that");
    assert_eq!(messages(&daemon, &id).await.last().unwrap(), "half a message");
}

#[tokio::test]
async fn pasted_lines_are_one_message_and_arrive_whole() {
    let (daemon, id) = with_session(&json!([{"text": "read"}])).await;
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.line("$0.0000 >").await;
    terminal.types("\u{1b}[200~one\ntwo\nthree\u{1b}[201~");
    terminal.line("three").await;
    terminal.types("\r");
    terminal.shows("read").await;
    terminal.line("$0.0008 >").await;
    let long = format!("{}end of it", "0123456789 abcdef\n".repeat(6_000));
    terminal.types(&format!("\u{1b}[200~{long}\u{1b}[201~"));
    terminal.line("end of it").await;
    terminal.types("\r");
    wait_until("both are there", PATIENCE, || {
        tl(&daemon, &["show", &id]).stdout.contains("turns            2")
    })
    .await;
    let sent = messages(&daemon, &id).await;
    assert_eq!(sent[0], "one\ntwo\nthree");
    assert_eq!((sent[1].len(), sent[1] == long), (long.len(), true));
    assert_eq!(sent.len(), 2);
}

#[tokio::test]
async fn pasted_characters_that_are_not_seen_are_escapes_on_the_screen_and_in_the_message() {
    let (daemon, id) = with_session(&json!([{"text": "read"}])).await;
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.line("$0.0000 >").await;
    terminal.types("\u{1b}[200~see \u{1b}[31mred\u{7} and \u{202e}dne\u{1b}[201~");
    let shown = r"see \u{1b}[31mred\u{7} and \u{202e}dne";
    terminal.line(shown).await;
    assert!(!terminal.screen().contains('\u{202e}'), "{}", terminal.screen());
    terminal.types("\r");
    terminal.shows("read").await;
    assert_eq!(messages(&daemon, &id).await, [shown]);
}

#[tokio::test]
async fn the_history_is_private_and_survives() {
    let (daemon, id) = with_session(&json!([{"text": "noted"}])).await;
    let mut first = Terminal::new(&daemon, &["attach", &id]);
    first.line("$0.0000 >").await;
    first.enters("remember me").await;
    first.shows("noted").await;
    first.line("$0.0008 >").await;
    first.types("\u{4}");
    assert_eq!(first.code().await, 0, "{}", first.screen());
    let kept = daemon.data_dir().join("history");
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let second = Terminal::new(&daemon, &["attach", &id]);
    // Joining shows what was said.
    second.shows("> remember me").await;
    second.line("$0.0008 >").await;
    second.types("\u{1b}[A");
    second.line("$0.0008 > remember me").await;
}

#[tokio::test]
async fn commands_are_completed_and_change_the_session() {
    let (daemon, id) = with_session(&json!([{"text": "fine"}])).await;
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.line("$0.0000 >").await;
    terminal.types("/mode accept");
    terminal.line("/mode accept").await;
    terminal.types("\t");
    terminal.line("/mode acceptEdits").await;
    terminal.types("\r");
    terminal.shows("| acceptEdits |").await;
    terminal.enters("y").await;
    terminal.shows("was not sent").await;
    assert!(messages(&daemon, &id).await.is_empty());
}

#[tokio::test]
async fn escape_interrupts_and_a_stopped_session_is_resumed() {
    let (daemon, id) = with_session(&json!([{"text": "endless"}, {"silent": 1}])).await;
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.line("$0.0000 >").await;
    terminal.enters("begin").await;
    terminal.shows("endless").await;
    terminal.types("\u{1b}");
    terminal.shows("- interrupted; Ctrl-D leaves").await;
    daemon.rest().in_state(&id, &["idle"]).await;
    tl(&daemon, &["stop", &id]).good();
    fake_settings(
        &daemon.work_dir("here"),
        &json!({"prompt": [{"text": "here again"}]}),
    );
    terminal.shows("- session stopped").await;
    terminal.line(">").await;
    terminal.enters("go on").await;
    terminal.shows("resume it and send the message?").await;
    terminal.line("answer >").await;
    terminal.enters("y").await;
    terminal.shows("here again").await;
    assert_eq!(messages(&daemon, &id).await.last().unwrap(), "go on");
}

#[tokio::test]
async fn ctrl_c_interrupts_and_leaves_no_old_sign_behind() {
    let (daemon, id) = with_session(&json!([{"text": "endless"}, {"silent": 1}])).await;
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.line("$0.0000 >").await;
    terminal.enters("begin").await;
    terminal.shows("endless").await;
    let is_busy = |screen: &str| screen.lines().any(|line| line.starts_with("busy"));
    terminal.until("it is busy", is_busy).await;
    terminal.types("half a thought\u{3}");
    terminal.shows("- interrupted; Ctrl-D leaves").await;
    daemon.rest().in_state(&id, &["idle"]).await;
    terminal
        .until("only the sign of now is there", |screen| {
            !is_busy(screen) && !screen.contains("half a thought")
        })
        .await;
    terminal.enters("/stop").await;
    terminal.shows("- session stopped").await;
    terminal.enters("/stop").await;
    terminal.shows("- the session is stopped already").await;
    assert!(!terminal.screen().contains("- stopped"), "{}", terminal.screen());
}

#[tokio::test]
async fn it_comes_back_to_a_daemon_that_was_restarted() {
    let (daemon, id) = with_session(&json!([{"text": "at your service"}])).await;
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.line("$0.0000 >").await;
    tl(&daemon, &["restart"]).good();
    terminal.shows("- connected again").await;
    terminal.enters("still there?").await;
    terminal.shows("at your service").await;
}

#[tokio::test]
async fn a_message_to_a_stopped_session_is_kept_over_a_restart() {
    let (daemon, id) = with_session(&json!([{"text": "here again"}])).await;
    tl(&daemon, &["stop", &id]).good();
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.shows("the session is stopped").await;
    terminal.enters("go on").await;
    terminal.line("answer >").await;
    tl(&daemon, &["restart"]).good();
    terminal.shows("- connected again").await;
    terminal
        .until("it asks again", |screen| {
            screen.matches("resume it and send the message?").count() == 2
        })
        .await;
    terminal.line("answer >").await;
    terminal.enters("y").await;
    terminal.shows("here again").await;
    assert_eq!(messages(&daemon, &id).await, ["go on"]);
}

#[tokio::test]
async fn it_can_be_left_while_the_daemon_hangs() {
    let (daemon, id) = with_session(&json!([{"text": "fine"}])).await;
    let mut terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.line("$0.0000 >").await;
    daemon.signal(Signal::SIGSTOP);
    terminal.enters("are you there?").await;
    terminal.line(">").await;
    terminal.types("\u{4}");
    let code = terminal.code().await;
    daemon.signal(Signal::SIGCONT);
    assert_eq!(code, 0, "{}", terminal.screen());
    assert!(
        terminal.said().contains("may not have arrived"),
        "{}",
        terminal.screen()
    );
}

#[tokio::test]
async fn a_terminal_without_a_cursor_gets_plain_lines() {
    let (daemon, id) = with_session(&json!([{"text": "fine"}])).await;
    let mut terminal = Terminal::without_cursor(&daemon, &["attach", &id]);
    terminal.shows("lines are read as they come").await;
    terminal.shows("session ").await;
    terminal.types("hello\n");
    terminal.shows("fine").await;
    assert_eq!(messages(&daemon, &id).await, ["hello"]);
    terminal.types("\u{4}");
    assert_eq!(terminal.code().await, 0, "{}", terminal.screen());
}

#[tokio::test]
async fn plain_asks_the_terminal_nothing() {
    let (daemon, id) = with_session(&json!([{"text": "fine"}])).await;
    let coloured = |said: &str| said.contains("\u{1b}[1m") || said.contains("\u{1b}[2m");
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    // The prompt may be painted before the first lines.
    terminal.shows("session ").await;
    terminal.line("$0.0000 >").await;
    assert!(coloured(&terminal.said()), "{:?}", terminal.said());
    let plain = Terminal::new(&daemon, &["attach", "--plain", &id]);
    plain.shows("session ").await;
    assert!(!plain.said().contains("\u{1b}[6n"), "{:?}", plain.said());
}
