//! Owns `--wait`: what a person is told meanwhile, what is asked on the spot, and what is printed at the end.

use serde_json::{Value, json};

use crate::{
    console::{
        attach::Typed,
        common::{run_with, tl, to},
        terminal::Terminal,
    },
    support::{daemon::TestDaemon, programs::fake_prompt},
};

fn asking() -> Value {
    json!([{"text": "first part"}, {"ask": {"input": {"command": "make"}}}, {"text": "second part"}])
}

#[tokio::test]
async fn who_waits_is_told_what_is_asked_and_how_to_answer() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(&daemon, &["new"]).line();
    let mut waiting = Typed::start(to(&daemon, &["send", &id, "--wait", &fake_prompt(&asking())]));
    waiting.shows("the agent waits for a person").await;
    waiting.shows("command: make").await;
    waiting.shows(&format!("trunkline approve {id} ")).await;
    tl(&daemon, &["approve", &id]).good();
    assert_eq!(waiting.code().await, 0, "{}", waiting.shown());
    waiting.shows("first part\n\nsecond part\n").await;
}

#[tokio::test]
async fn on_a_terminal_it_asks_on_the_spot() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(&daemon, &["new"]).line();
    let mut terminal = Terminal::new(&daemon, &["send", &id, "--wait", &fake_prompt(&asking())]);
    terminal.shows("command: make").await;
    terminal.shows("says why:").await;
    terminal.types("n not now\n");
    terminal.shows("second part").await;
    assert_eq!(terminal.code().await, 0, "{}", terminal.screen());
    let events = daemon.rest().events(&id, 0).await;
    let told = events
        .iter()
        .find(|it| it["data"]["type"] == "fake_answer")
        .unwrap();
    assert_eq!(told["data"]["response"]["response"]["message"], "not now");
}

#[tokio::test]
async fn it_waits_over_a_restart_of_the_daemon() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(&daemon, &["new"]).line();
    let gate = daemon.work_dir("here").join("gate");
    let held = fake_prompt(&json!([{"wait_file": gate}, {"text": "still here"}]));
    let mut waiting = Typed::start(to(&daemon, &["send", &id, "--wait", &held]));
    daemon.rest().in_turn(&id).await;
    tl(&daemon, &["restart"]).good();
    std::fs::write(&gate, "").unwrap();
    assert_eq!(waiting.code().await, 0, "{}", waiting.shown());
    waiting.shows("still here").await;
    assert_eq!(
        daemon.rest().turns(&id).await.len(),
        1,
        "the message was run again"
    );
}

#[tokio::test]
async fn a_time_limit_says_that_the_turn_goes_on() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(&daemon, &["new"]).line();
    let silent = fake_prompt(&json!([{"silent": 1}]));
    let told = tl(&daemon, &["send", &id, "--wait", "--timeout", "1", &silent]).failed(1);
    assert!(
        told.contains("the turn goes on") && told.contains("trunkline attach"),
        "{told}"
    );
}

#[tokio::test]
async fn a_prompt_may_come_from_a_pipe() {
    let daemon = TestDaemon::with_fake().start().await;
    let asks = fake_prompt(&json!([{"text": "from the pipe"}]));
    let answer = run_with(to(&daemon, &["new", "--wait"]), &asks);
    assert_eq!(
        (answer.code, answer.stdout.trim()),
        (0, "from the pipe"),
        "{answer:?}"
    );
    let answer = run_with(to(&daemon, &["send", "last", "--wait"]), &asks);
    assert_eq!(
        (answer.code, answer.stdout.trim()),
        (0, "from the pipe"),
        "{answer:?}"
    );
    let empty = tl(&daemon, &["send", "last"]).failed(2);
    assert!(empty.contains("empty"), "{empty}");
}

/// Half an answer is none, and a script must not take it for one.
#[tokio::test]
async fn an_answer_that_is_cut_short_is_a_failure() {
    let daemon = TestDaemon::with_fake().start().await;
    let dies = fake_prompt(&json!([{"text": "the first half"}, {"exit": 3}]));
    let told = tl(&daemon, &["new", "--wait", &dies]);
    assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:#?}");
    assert!(told.stderr.contains("the turn was cut short"), "{told:#?}");

    let id = tl(&daemon, &["new"]).line();
    let stays = fake_prompt(&json!([{"text": "the first half"}, {"silent": 1}]));
    let mut waiting = Typed::start(to(&daemon, &["send", &id, "--wait", &stays]));
    daemon.rest().in_turn(&id).await;
    tl(&daemon, &["stop", &id]).good();
    assert_eq!(waiting.code().await, 1, "{}", waiting.shown());
    waiting
        .shows("the turn was cut short: the session was stopped")
        .await;
    assert!(!waiting.shown().contains("the first half"), "{}", waiting.shown());
}
