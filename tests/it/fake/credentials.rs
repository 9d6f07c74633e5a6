//! Owns the tests of credentials that the CLI asks for or is given: they reach it, and are kept nowhere.

use std::{fs, path::Path};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, answer_heard, of_type, records, session},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for, wait_until},
        ws::Ws,
    },
};

const SECRET: &str = "sk-PLANTED-c0ffee";

fn ask(subtype: &str, id: &str) -> Value {
    json!({ "request": { "subtype": subtype }, "id": id })
}

fn answer(request_id: &str, payload: Value) -> Value {
    json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": request_id, "response": payload },
    })
}

/// A session whose CLI tells nobody what it hears, and the file with what that is.
async fn discreet(daemon: &TestDaemon) -> (String, std::path::PathBuf) {
    // Outside of what is searched.
    let heard = daemon.work_dir("heard").join("stdin");
    let settings = json!({ "keeps_answers": true, "record_stdin": heard });
    (session(daemon, "a", settings).await, heard)
}

async fn heard_secret(heard: &Path) {
    wait_until("the CLI has the secret", PATIENCE, || {
        fs::read_to_string(heard).is_ok_and(|stdin| stdin.contains(SECRET))
    })
    .await;
}

async fn asked(client: &mut Ws, request_id: &str) {
    let wanted = |frame: &Value| frame["src"] == "cli" && frame["data"]["request_id"] == request_id;
    client.find(&format!("the request {request_id}"), wanted).await;
}

/// The data of the records of answers to a request.
async fn written(rest: &Rest, session: &str, request_id: &str) -> Vec<Value> {
    let records = records(rest, session).await;
    let answers = of_type(&records, "client", "control_response").into_iter();
    answers
        .filter(|line| line["response"]["request_id"] == request_id)
        .cloned()
        .collect()
}

fn files(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), found);
        } else if entry.file_type().unwrap().is_file() {
            found.push(entry.path());
        }
    }
}

/// The secret is in no file of the daemon, in no line of its log, and in nothing that it tells.
async fn is_kept_nowhere(daemon: &TestDaemon, session: &str) {
    let mut found = Vec::new();
    files(&daemon.data_dir(), &mut found);
    for needed in ["ndjson", "db", "db-wal"] {
        let is_there = |path: &&std::path::PathBuf| path.extension().is_some_and(|it| it == needed);
        assert!(
            found.iter().any(|path| is_there(&path)),
            "no {needed}: {found:#?}"
        );
    }
    for path in &found {
        let bytes = fs::read(path).unwrap_or_default();
        let at = memchr::memmem::find(&bytes, SECRET.as_bytes());
        assert!(at.is_none(), "{}", path.display());
    }
    let log = daemon.log();
    assert!(log.contains(" TRACE "), "the log is not at level trace: {log}");
    assert!(!log.contains(SECRET), "{log}");
    let scrape = daemon.rest().builder(Method::GET, "/metrics");
    let metrics = scrape.send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("trunkline_"), "{metrics}");
    assert!(!metrics.contains(SECRET), "{metrics}");
    let events = daemon.rest().events(session, 0).await;
    assert!(!events.iter().any(|record| record.to_string().contains(SECRET)));
}

async fn traced() -> TestDaemon {
    TestDaemon::with_fake().arg("--log-level=trace").start().await
}

#[tokio::test]
async fn a_client_gives_what_the_cli_asks_for_and_nothing_keeps_it() {
    let daemon = traced().await;
    let rest = daemon.rest();
    let (id, heard) = discreet(&daemon).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    let mut other = daemon.attach(&id, None).await;
    for (subtype, payload) in [
        ("oauth_token_refresh", json!({ "accessToken": SECRET })),
        ("host_auth_token_refresh", json!({ "authToken": SECRET })),
        ("remote_control_work_secret", json!({ "work_secret": SECRET })),
    ] {
        act(&rest, &id, json!([ask(subtype, subtype), { "text": "done" }])).await;
        asked(&mut client, subtype).await;
        client.send(&answer(subtype, payload.clone())).await;
        // The others see that there was an answer, and the CLI has it.
        let seen = other
            .find("the record of the answer", |frame| {
                frame["src"] == "client" && frame["data"]["response"]["request_id"] == subtype
            })
            .await;
        assert_eq!(seen["by"], "ws:x");
        assert_eq!(
            seen["data"]["response"],
            json!({ "subtype": "success", "request_id": subtype, "response": { "redacted": true } })
        );
        let acked = |frame: &Value| frame["type"] == "trunkline.ack" && frame["request_id"] == subtype;
        client.find("the ack", acked).await;
        let told = answer_heard(&mut other, subtype).await;
        assert_eq!(told["expected"], true, "{told:#}");
        rest.in_state(&id, &["idle"]).await;
        let stdin = fs::read_to_string(&heard).unwrap();
        let line = stdin
            .lines()
            .find(|line| line.contains(&format!("\"request_id\":\"{subtype}\"")));
        let line: Value = serde_json::from_str(line.unwrap()).unwrap();
        assert_eq!(line["response"]["response"], payload);
    }
    // A second answer, one to nothing, and a refusal whose text gives the secret away.
    client
        .send(&answer("oauth_token_refresh", json!({ "accessToken": SECRET })))
        .await;
    let error = client
        .find("an error", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(error["code"], "request_not_pending");
    assert!(!error.to_string().contains(SECRET));
    act(
        &rest,
        &id,
        json!([ask("oauth_token_refresh", "r-2"), { "text": "done" }]),
    )
    .await;
    asked(&mut client, "r-2").await;
    let refusal = json!({ "subtype": "error", "request_id": "r-2", "error": format!("{SECRET} is too old") });
    client
        .send(&json!({ "type": "control_response", "response": refusal }))
        .await;
    assert_eq!(answer_heard(&mut other, "r-2").await["expected"], true);
    let refused = &written(&rest, &id, "r-2").await[0]["response"];
    assert_eq!(
        (&refused["subtype"], &refused["error"]),
        (&json!("error"), &json!("redacted"))
    );
    rest.in_state(&id, &["idle"]).await;
    is_kept_nowhere(&daemon, &id).await;
}

#[tokio::test]
async fn without_an_answer_the_cli_is_told_that_there_is_none() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_OFFER_MS", "300")
        .start()
        .await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    // Nobody is there; then somebody who does not answer.
    act_through(
        &rest,
        &id,
        json!([ask("oauth_token_refresh", "r-1"), { "text": "done" }]),
    )
    .await;
    let mut silent = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([ask("host_auth_token_refresh", "r-2"), { "text": "done" }]),
    )
    .await;
    asked(&mut silent, "r-2").await;
    rest.in_state(&id, &["idle"]).await;
    for (request, reason) in [("r-1", "no_client"), ("r-2", "timeout")] {
        let note = wait_for("the record of the stated answer", PATIENCE, async || {
            let records = records(&rest, &id).await;
            let notes = of_type(&records, "daemon", "fallback");
            let note = notes.into_iter().find(|note| note["request_id"] == request);
            note.cloned()
        })
        .await;
        assert_eq!(note["reason"], reason);
        let answers = written(&rest, &id, request).await;
        assert_eq!(answers.len(), 1, "{answers:#?}");
        assert_eq!(answers[0]["response"]["error_code"], "unsupported_request");
    }
}

/// Has the CLI ask for credentials, and gives it some; the client that did stays.
async fn give(daemon: &TestDaemon, id: &str, request: &str) -> Ws {
    let mut client = daemon.attach_as("x", id, None).await;
    let actions = json!([ask("oauth_token_refresh", request), { "text": "done" }]);
    act(&daemon.rest(), id, actions).await;
    asked(&mut client, request).await;
    client
        .send(&answer(request, json!({ "accessToken": SECRET })))
        .await;
    client
}

#[tokio::test]
async fn over_the_death_of_the_daemon_there_is_one_answer_and_no_trace_of_the_secret() {
    let mut daemon = traced().await;
    let (id, heard) = discreet(&daemon).await;
    let mut client = give(&daemon, &id, "r-1").await;
    // An answer in the journal counts as given, and the next daemon sees that it was.
    let recorded =
        |frame: &Value| frame["src"] == "client" && frame["data"]["response"]["request_id"] == "r-1";
    client.find("the record", recorded).await;
    daemon.kill();
    heard_secret(&heard).await;
    daemon.start().await;
    let rest = daemon.rest();
    rest.in_state(&id, &["idle"]).await;
    let answers = written(&rest, &id, "r-1").await;
    assert_eq!(answers.len(), 1, "{answers:#?}");
    assert_eq!(answers[0]["response"]["response"], json!({ "redacted": true }));
    // The answer and the death meet: it was given, or the next daemon, to which nobody is attached, says that there is none.
    let _client = give(&daemon, &id, "r-2").await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    rest.in_state(&id, &["idle"]).await;
    let answers = written(&rest, &id, "r-2").await;
    assert_eq!(answers.len(), 1, "{answers:#?}");
    let was_given = answers[0]["response"]["response"] == json!({ "redacted": true });
    assert!(
        was_given || answers[0]["response"]["error_code"] == "unsupported_request",
        "{answers:#?}"
    );
    let stdin = fs::read_to_string(&heard).unwrap();
    assert_eq!(
        stdin.matches(SECRET).count(),
        1 + usize::from(was_given),
        "{stdin}"
    );
    is_kept_nowhere(&daemon, &id).await;
}

#[tokio::test]
async fn fresh_variables_reach_the_cli_and_their_values_nothing_else() {
    let daemon = traced().await;
    let rest = daemon.rest();
    let (id, heard) = discreet(&daemon).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    let mut other = daemon.attach(&id, None).await;
    let variables = json!({ "ANTHROPIC_AUTH_TOKEN": SECRET });
    let update = |id: Option<&str>| {
        let mut line = json!({ "type": "update_environment_variables", "variables": variables });
        if let Some(id) = id {
            line["request_id"] = json!(id);
        }
        line
    };
    client.send(&update(Some("mine"))).await;
    let response = client
        .find("the answer", |frame| frame["type"] == "control_response")
        .await;
    assert_eq!(
        response["response"],
        json!({ "subtype": "success", "request_id": "mine", "response": { "applied": ["ANTHROPIC_AUTH_TOKEN"] } })
    );
    client.send(&update(None)).await;
    act_through(&rest, &id, json!([{ "text": "done" }])).await;
    let stdin = fs::read_to_string(&heard).unwrap();
    let lines: Vec<Value> = stdin
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["type"] == "update_environment_variables")
        .collect();
    assert_eq!(lines.len(), 2, "{stdin}");
    assert!(lines.iter().all(|line| line["variables"] == variables));
    assert!(lines[0]["request_id"].is_string() && lines[0]["request_id"] != "mine");
    assert_eq!(lines[1].get("request_id"), None);
    let seen = other
        .find("the record", |frame| {
            frame["data"]["type"] == "update_environment_variables"
        })
        .await;
    assert_eq!(seen["by"], "ws:x");
    assert_eq!(
        seen["data"],
        json!({
            "type": "update_environment_variables", "request_id": lines[0]["request_id"], "redacted": true,
            "variables": { "ANTHROPIC_AUTH_TOKEN": "redacted" },
        })
    );
    // While nothing runs it is refused.
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    client.send(&update(Some("late"))).await;
    let error = client
        .find("an error", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(
        (&error["code"], &error["request_id"]),
        (&json!("session_not_live"), &json!("late"))
    );
    is_kept_nowhere(&daemon, &id).await;
}
