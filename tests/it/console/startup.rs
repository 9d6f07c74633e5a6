//! Owns a CLI that dies at its start, as a person meets it: its words at once, and what to do about them.

use serde_json::{Value, json};

use crate::{
    console::{
        attach::Typed,
        common::{tl, to},
    },
    support::{
        daemon::{TestDaemon, TestDaemonBuilder},
        programs::{fake_prompt, fake_settings},
    },
};

/// A crash: the same start may work the next time.
const CRASH: &str = "TypeError: something broke\n    at main (cli.js:1:1)\n";

/// A daemon whose CLIs start like this, one after the other; the last repeats.
async fn dying(daemon: TestDaemonBuilder, starts: &Value) -> TestDaemon {
    let daemon = daemon.start().await;
    fake_settings(&daemon.home(), &json!({ "starts": starts }));
    daemon
}

fn exit(stderr: &str) -> Value {
    json!({"exit_at_start": {"code": 3, "stderr": stderr}})
}

#[tokio::test]
async fn a_crash_is_told_at_once_while_a_restart_is_due() {
    let builder = TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "600000")
        .env("TRUNKLINE_RESTART_LONGEST_DELAY_MS", "600000");
    let daemon = dying(builder, &json!([exit(CRASH)])).await;
    let mut waiting = Typed::start(to(&daemon, &["new", "--wait", "hello"]));
    waiting.shows("something broke").await;
    waiting.shows("it is started again (restart 1 in a row)").await;
    waiting.shows("hint: `trunkline doctor`").await;
    let shown = tl(&daemon, &["show", "last"]).good();
    assert!(
        shown.contains("something broke") && shown.contains("what to do"),
        "{shown}"
    );
    let watching = Typed::start(to(&daemon, &["attach", "last"]));
    watching.shows("something broke").await;
    let sending = Typed::start(to(&daemon, &["send", "last", "--wait", "and this?"]));
    sending.shows("something broke").await;
    tl(&daemon, &["stop", "last"]).good();
    assert_ne!(waiting.code().await, 0, "{}", waiting.shown());
}

#[tokio::test]
async fn a_message_outlives_a_crash_at_the_start() {
    let builder = TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "3000");
    let daemon = dying(builder, &json!([exit(CRASH), {}])).await;
    let told = tl(&daemon, &["new", "--wait", "hello"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.stdout.contains("Hello from the fake CLI"), "{told:?}");
    assert!(told.stderr.contains("something broke"), "{told:?}");
    let id = tl(&daemon, &["ls", "--json"]).json()["items"][0]["id"].clone();
    assert_eq!(daemon.rest().turns(id.as_str().unwrap()).await.len(), 1);
}

#[tokio::test]
async fn lasting_causes_are_told_with_what_to_do() {
    for (stderr, advice) in [
        ("Not logged in · Please run /login", "type /login"),
        ("Invalid API key · Please run /login", "correct ANTHROPIC_API_KEY"),
        ("Credit balance is too low", "add credit"),
        ("error: unknown option '--x'", "claude update"),
        ("Error: something broke", "`trunkline resume "),
    ] {
        let daemon = dying(TestDaemon::with_fake(), &json!([exit(stderr)])).await;
        let is_told = |text: &str| text.contains(stderr) && text.contains(advice);
        let new = tl(&daemon, &["new", "--wait", "hello"]);
        assert!(new.code == 1 && is_told(&new.stderr), "{new:?}");
        let send = tl(&daemon, &["send", "last", "--wait", "hello"]);
        assert!(send.code == 1 && is_told(&send.stderr), "{send:?}");
        let show = tl(&daemon, &["show", "last"]).good();
        assert!(is_told(&show), "{show}");
        for args in [&["attach", "last"][..], &["new", "--attach", "hello"]] {
            let watching = Typed::start(to(&daemon, args));
            watching.shows(stderr).await;
            watching.shows(advice).await;
        }
    }
}

#[tokio::test]
async fn continue_goes_on_after_somebody_logged_in() {
    let login = || exit("Not logged in · Please run /login");
    // The second start is refused, and then the first one of a session.
    let daemon = dying(TestDaemon::with_fake(), &json!([{}, login(), {}])).await;
    tl(&daemon, &["new", "--wait", "hello"]).good();
    tl(&daemon, &["stop", "last"]).good();
    tl(&daemon, &["resume", "last"]).good();
    let id = tl(&daemon, &["ls", "--json"]).json()["items"][0]["id"].clone();
    daemon.rest().in_state(id.as_str().unwrap(), &["failed"]).await;
    tl(&daemon, &["new", "--continue", "--wait", "hello"]).good();
    assert_eq!(daemon.rest().turns(id.as_str().unwrap()).await.len(), 2);

    let daemon = dying(TestDaemon::with_fake(), &json!([login(), {}])).await;
    let refused = tl(&daemon, &["new", "--wait", "hello"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let gone_on = tl(&daemon, &["new", "--continue", "--wait", "and now?"]);
    assert!(
        gone_on.code == 0 && gone_on.stderr.contains("going on with the session"),
        "{gone_on:?}"
    );
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_told() {
    let daemon = TestDaemon::with_fake().start().await;
    let told = tl(&daemon, &["new", "--wait", "--add-dir", "/nope", "hello"]);
    assert!(
        told.code == 0 && told.stderr.contains("--add-dir: there is no directory /nope"),
        "{told:?}"
    );
    let told = tl(&daemon, &["new", "--wait", "--add-dir", "/tmp", "hello"]);
    assert!(!told.stderr.contains("--add-dir"), "{told:?}");
}

#[tokio::test]
async fn a_turn_that_fails_for_want_of_a_login_says_what_to_do() {
    let daemon = TestDaemon::with_fake().start().await;
    let words = "Not logged in · Please run /login";
    let actions = json!([{"result": {"is_error": true, "result": words, "subtype": "success"}}]);
    let prompt = fake_prompt(&actions);
    let told = tl(&daemon, &["new", "--wait", &prompt]);
    assert!(
        told.code == 1 && told.stderr.contains(words) && told.stderr.contains("type /login"),
        "{told:?}"
    );
    let log = tl(&daemon, &["log", "last"]).good();
    assert!(log.contains(words) && log.contains("type /login"), "{log}");
}

#[tokio::test]
async fn attach_and_show_agree_on_the_cost_after_a_clear() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(&daemon, &["new", "hello"]).line();
    daemon.rest().in_state(&id, &["idle"]).await;
    let watching = Typed::start(to(&daemon, &["attach", "--after", "0", &id]));
    watching.shows("turn done").await;
    for prompt in ["/clear", "once more"] {
        tl(&daemon, &["send", &id, "--wait", prompt]).good();
    }
    let session = daemon.rest().session(&id).await;
    let cost = format!("session so far ${:.4}", session["cost_usd"].as_f64().unwrap());
    watching.shows(&cost).await;
    let shown = tl(&daemon, &["show", &id]).good();
    assert!(
        shown.contains(cost.trim_start_matches("session so far ")),
        "{shown}"
    );
}
