//! Owns keepers that live and do nothing, as one that was stopped or that a swapping machine gives no time: their processes are
//! kept for as long as nobody wants them stopped.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use trunkline::domain::RunId;

use crate::{
    restart::{
        journal,
        versions::{Bed, bed},
    },
    support::{
        daemon::TestDaemon,
        proc,
        rest::Rest,
        wait::{PATIENCE, pass, wait_for, wait_until},
    },
};

/// A daemon that has begun on a session whose keeper does nothing while the file `frozen` is there.
async fn frozen() -> Bed {
    let mut bed = bed(1).await;
    std::fs::write(bed.daemon.home().join("frozen"), "").unwrap();
    bed.daemon.start().await;
    let view = bed.daemon.rest().session(&bed.session).await;
    assert_eq!(view["reason"]["code"], "keeper_unresponsive", "{view:#}");
    assert!(proc::is_alive(bed.cli), "it was given up");
    bed
}

async fn list_of(rest: &Rest) -> Vec<Value> {
    let page = rest.get("/v1/sessions").await.expect(200);
    page["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_that_does_not_answer_keeps_its_process_and_is_attached_to_once_it_does() {
    let bed = frozen().await;
    let (daemon, session) = (&bed.daemon, bed.session.as_str());
    let rest = daemon.rest();
    assert_eq!(list_of(&rest).await[0]["reason"]["code"], "keeper_unresponsive");
    for (path, body) in [("messages", json!({ "text": "hello?" })), ("resume", json!({}))] {
        let refused = rest.post(&format!("/v1/sessions/{session}/{path}"), body).await;
        assert_eq!(refused.body["retryable"], true, "{:#}", refused.body);
        assert_eq!(refused.problem(503), "keeper_unresponsive");
    }
    assert!(proc::is_alive(bed.cli), "it was left alone");
    assert_eq!(
        proc::with_env("TRUNKLINE_RUN", &bed.run).len(),
        1,
        "and has no double"
    );

    std::fs::remove_file(daemon.home().join("frozen")).unwrap();
    wait_until("the keeper is attached to", PATIENCE, || {
        daemon
            .log()
            .contains("a session whose keeper did not answer goes on")
    })
    .await;
    let view = rest.in_state(session, &["idle"]).await;
    assert_eq!(
        (&view["cli"]["pid"], &view["reason"]),
        (&json!(bed.cli), &Value::Null),
        "{view:#}"
    );
    let answer = rest.ask(session, "can you hear me?").await;
    assert_eq!(answer["turn"]["number"], 2, "{answer:#}");
    let records = journal::records(daemon, session);
    assert!(journal::own(&records, "run_lost").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_that_hangs_up_on_a_daemon_that_starts_keeps_its_process() {
    let mut bed = bed(1).await;
    std::fs::write(bed.daemon.home().join("frozen"), "turn away").unwrap();
    bed.daemon.start().await;
    let (daemon, session) = (&bed.daemon, bed.session.as_str());
    let rest = daemon.rest();
    let view = rest.session(session).await;
    assert_eq!(view["reason"]["code"], "keeper_unresponsive", "{view:#}");
    assert!(proc::is_alive(bed.cli), "it was given up");
    std::fs::remove_file(daemon.home().join("frozen")).unwrap();
    let view = wait_for("the keeper is attached to", PATIENCE, async || {
        let view = rest.session(session).await;
        view["cli"]["pid"].is_number().then_some(view)
    })
    .await;
    assert_eq!(view["cli"]["pid"], bed.cli, "{view:#}");
    rest.ask(session, "can you hear me?").await;

    // The same under a daemon that runs, for longer than one that is of no use is borne.
    std::fs::write(daemon.home().join("frozen"), "turn away").unwrap();
    wait_for("the silence is told", PATIENCE, async || {
        let view = rest.session(session).await;
        (view["reason"]["code"] == "keeper_unresponsive").then_some(())
    })
    .await;
    pass(Duration::from_secs(6)).await;
    assert!(proc::is_alive(bed.cli), "it was given up");
    rest.lifecycle(session, "stop", json!({})).await.expect(200);
    assert!(!proc::is_alive(bed.cli));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_keeper_hangs_up_can_be_deleted() {
    let mut bed = bed(1).await;
    std::fs::write(bed.daemon.home().join("frozen"), "turn away").unwrap();
    bed.daemon.start().await;
    let deleted = bed
        .daemon
        .rest()
        .delete(&format!("/v1/sessions/{}", bed.session))
        .await;
    assert_eq!(deleted.status, 204, "{:#}", deleted.body);
    assert!(!proc::is_alive(bed.cli));
    assert!(!proc::is_alive(i32::try_from(bed.keeper.id()).unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_a_keeper_that_does_not_answer() {
    let bed = frozen().await;
    let (daemon, session) = (&bed.daemon, bed.session.as_str());
    let rest = daemon.rest();
    rest.lifecycle(session, "stop", json!({})).await.expect(200);
    assert!(!proc::is_alive(bed.cli));
    assert!(!proc::is_alive(i32::try_from(bed.keeper.id()).unwrap()));
    rest.lifecycle(session, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(session, "there again?").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_stops_all_ends_a_keeper_that_does_not_answer() {
    let mut bed = frozen().await;
    assert_eq!(bed.daemon.stop().code(), Some(0));
    assert!(!proc::is_alive(bed.cli));
    assert!(!proc::is_alive(i32::try_from(bed.keeper.id()).unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_that_falls_silent_keeps_its_process_and_is_attached_to_again_once_it_answers() {
    let mut bed = bed(1).await;
    bed.daemon.start().await;
    let (daemon, session) = (&bed.daemon, bed.session.as_str());
    let rest = daemon.rest();
    rest.in_state(session, &["idle"]).await;
    std::fs::write(daemon.home().join("frozen"), "hang up").unwrap();
    let is_told = async || {
        let view = rest.session(session).await;
        (view["reason"]["code"] == "keeper_unresponsive").then_some(())
    };
    wait_for("the silence is told", PATIENCE, is_told).await;
    assert_eq!(list_of(&rest).await[0]["reason"]["code"], "keeper_unresponsive");
    let refused = rest
        .post(
            &format!("/v1/sessions/{session}/messages"),
            json!({ "text": "hello?" }),
        )
        .await;
    assert_eq!(refused.body["retryable"], true, "{:#}", refused.body);
    // Longer than one that is of no use is borne.
    pass(Duration::from_secs(6)).await;
    assert!(proc::is_alive(bed.cli), "it was given up");

    std::fs::remove_file(daemon.home().join("frozen")).unwrap();
    let is_back = async || {
        let view = rest.session(session).await;
        view["reason"].is_null().then_some(view)
    };
    let view = wait_for("the keeper is attached to", PATIENCE, is_back).await;
    assert_eq!(
        (&view["state"], &view["cli"]["pid"]),
        (&json!("idle"), &json!(bed.cli)),
        "{view:#}"
    );
    let answer = rest.ask(session, "can you hear me?").await;
    assert_eq!(answer["turn"]["number"], 2, "{answer:#}");
    assert!(journal::own(&journal::records(daemon, session), "run_lost").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_a_keeper_that_has_fallen_silent() {
    let mut bed = bed(1).await;
    bed.daemon.start().await;
    let (daemon, session) = (&bed.daemon, bed.session.as_str());
    let rest = daemon.rest();
    rest.in_state(session, &["idle"]).await;
    std::fs::write(daemon.home().join("frozen"), "hang up").unwrap();
    let is_told = async || {
        let view = rest.session(session).await;
        (view["reason"]["code"] == "keeper_unresponsive").then_some(())
    };
    wait_for("the silence is told", PATIENCE, is_told).await;
    rest.lifecycle(session, "stop", json!({})).await.expect(200);
    assert!(!proc::is_alive(bed.cli));
    rest.lifecycle(session, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(session, "there again?").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_keeper_leaves_no_message_without_an_answer() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&session, "hello").await;
    let view = rest.session(&session).await;
    let cli = i32::try_from(view["cli"]["pid"].as_i64().unwrap()).unwrap();
    let keeper = proc::read(cli).unwrap().parent;
    proc::signal(keeper, Signal::SIGSTOP);
    let path = format!("/v1/sessions/{session}/messages");
    let uuid = RunId::new().to_string();
    let message = json!({ "text": "are you there?", "uuid": uuid });
    let refused = rest.post(&path, message.clone()).await;
    assert_eq!(refused.body["retryable"], true, "{:#}", refused.body);
    assert_eq!(refused.body["side_effect_possible"], true, "{:#}", refused.body);
    assert_eq!(refused.body["uuid"], uuid, "{:#}", refused.body);
    assert_eq!(refused.problem(503), "keeper_unresponsive");
    let view = rest.session(&session).await;
    assert_eq!(view["reason"]["code"], "keeper_unresponsive", "{view:#}");

    // Later requests are refused at once. A repeat may have been taken, another one was not.
    let again = rest.post(&path, message.clone()).await;
    assert_eq!(again.body["side_effect_possible"], true, "{:#}", again.body);
    assert_eq!(again.problem(503), "keeper_unresponsive");
    let other = rest.post(&path, json!({ "text": "and you?" })).await;
    assert_eq!(other.body["side_effect_possible"], false, "{:#}", other.body);
    assert_eq!(other.problem(503), "keeper_unresponsive");

    proc::signal(keeper, Signal::SIGCONT);
    wait_for("the keeper is heard again", PATIENCE, async || {
        rest.session(&session).await["reason"].is_null().then_some(())
    })
    .await;
    let answer = rest
        .post(&format!("{path}?wait=result"), message)
        .await
        .expect(200);
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
    let records = journal::records(&daemon, &session);
    let sent = |text: &str| {
        let lines = records.iter().filter(|record| record["src"] == "client");
        lines.filter(|line| line.to_string().contains(text)).count()
    };
    assert_eq!((sent("are you there?"), sent("and you?")), (1, 0));
}
