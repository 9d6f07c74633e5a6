//! Owns the tests of the effort that a person typed as a command: the CLI's answer says it, and the next process has it.

use serde_json::json;

use super::{crash, daemon, heard, last_request, park, session, set};
use crate::{
    fake::bed::{of_type, pid, records},
    support::{
        proc,
        programs::fake_prompt,
        wait::{PATIENCE, wait_for},
    },
};

/// The command, and the answer of the CLI to it.
fn typed(command: &str, answer: &str) -> String {
    format!("{command} {}", fake_prompt(&json!([{ "text": answer }])))
}

#[tokio::test]
async fn an_effort_that_was_typed_holds_until_somebody_sets_another() {
    let mut daemon = daemon().await;
    let id = session(&daemon, json!({}), json!({})).await;
    let rest = daemon.rest();
    let answer = "Set effort level to low (this session only): Quick";
    rest.ask(&id, &typed("/effort low", answer)).await;
    for end in ["park", "crash"] {
        match end {
            "park" => park(&rest, &id).await,
            _ => crash(&rest, &id).await,
        }
        rest.ask(&id, end).await;
        assert_eq!(heard(&daemon), ["initialize", "apply_flag_settings", end]);
        let settings = last_request(&daemon, "apply_flag_settings")["settings"].clone();
        assert_eq!(settings, json!({ "effortLevel": "low" }), "after the {end}");
    }
    set(&rest, &id, json!({ "effortLevel": "max" })).await;
    // No command, whatever the model says.
    rest.ask(&id, &typed("what does /effort do?", answer)).await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    park(&rest, &id).await;
    rest.ask(&id, "last").await;
    let settings = last_request(&daemon, "apply_flag_settings")["settings"].clone();
    assert_eq!(
        settings,
        json!({ "effortLevel": "max" }),
        "the records were read again"
    );
    let records = records(&rest, &id).await;
    assert!(of_type(&records, "daemon", "notice").is_empty());
}

#[tokio::test]
async fn an_effort_that_nobody_could_read_is_told() {
    let daemon = daemon().await;
    let rest = daemon.rest();
    let id = session(&daemon, json!({}), json!({})).await;
    let command = format!("/effort low {}", fake_prompt(&json!([{ "silent": 1 }])));
    rest.prompt(&id, &command).await;
    rest.in_turn(&id).await;
    proc::signal(pid(&rest, &id).await, nix::sys::signal::Signal::SIGKILL);
    let notice = wait_for("a notice", PATIENCE, async || {
        let records = records(&rest, &id).await;
        of_type(&records, "daemon", "notice").first().copied().cloned()
    })
    .await;
    assert_eq!(notice["code"], "effort_unknown");
    // Once for each process, and none for a process in which nobody typed it.
    rest.in_state(&id, &["idle"]).await;
    rest.ask(&id, "next").await;
    crash(&rest, &id).await;
    let answer = "Set effort level to low in a manner that nobody knows";
    rest.ask(&id, &typed("/effort low", &answer.replace("Set", "Put")))
        .await;
    park(&rest, &id).await;
    let records = records(&rest, &id).await;
    assert_eq!(of_type(&records, "daemon", "notice").len(), 2);
}
