//! Owns the daemon's death under the real CLI while it waits for all kinds of answers at once: a person's, and a client's.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    restart::journal,
    support::{daemon::TestDaemon, model_api::ModelApi, programs::scripted, rest::Rest, ws::Ws},
};

const QUESTION: &str = "Which colour?";

fn bash(command: &str) -> Value {
    json!({ "tool": "Bash", "input": { "command": command } })
}

fn ask() -> Value {
    let options = ["Red", "Blue"].map(|label| json!({ "label": label, "description": label }));
    let question =
        json!({ "question": QUESTION, "header": "Colour", "multiSelect": false, "options": options });
    json!({ "tool": "AskUserQuestion", "input": { "questions": [question] } })
}

/// A session with a hook before tools that the client `x` answers, or the stated denial if it does not.
async fn hooked(rest: &Rest, cwd: &Path) -> String {
    let hook = json!({
        "event": "PreToolUse", "matcher": "Bash", "on_failure": "block",
        "target": { "type": "client", "client_id": "x" },
    });
    let options = json!({ "hooks": [hook], "allowed_tools": ["Bash"] });
    rest.create_ready(json!({ "cwd": cwd, "options": options })).await
}

async fn begin(rest: &Rest, session: &str, step: Value, last: &str) {
    rest.prompt(session, &scripted(&json!([step, { "text": last }])))
        .await;
}

/// Answers a request over a socket.
async fn answer(client: &mut Ws, request_id: &Value, payload: Value) {
    let response = json!({ "subtype": "success", "request_id": request_id, "response": payload });
    client
        .send(&json!({ "type": "control_response", "response": response }))
        .await;
}

/// The lines written to the CLI as the answer to one of its requests.
fn written<'a>(records: &'a [Value], request_id: &Value) -> Vec<&'a Value> {
    records
        .iter()
        .filter(|record| record["src"] == "client" && record["data"]["response"]["request_id"] == *request_id)
        .collect()
}

/// The results of the tools, as the model hears them.
fn given_back(records: &[Value]) -> String {
    let users = journal::cli_lines(records, "user");
    users.iter().map(|line| line["message"].to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_a_question_and_a_hook_that_wait_together_survive_the_daemon() {
    let api = ModelApi::start();
    let mut daemon = TestDaemon::with_real(&api).start().await;
    let rest = daemon.rest();
    let dirs = ["permission", "question", "hook"].map(|name| daemon.work_dir(name));
    let made = |place: usize, name: &str| fs::read_to_string(dirs[place].join(name)).ok();
    let permission = rest.create_ready(json!({ "cwd": dirs[0] })).await;
    let question = rest.create_ready(json!({ "cwd": dirs[1] })).await;
    let hook = hooked(&rest, &dirs[2]).await;
    let mut owner = daemon.attach_as("x", &hook, None).await;
    begin(&rest, &permission, bash("echo once >> made.txt"), "It ran.").await;
    begin(&rest, &question, ask(), "thanks").await;
    begin(&rest, &hook, bash("echo asked >> asked.txt"), "It ran too.").await;
    let tool = rest.pending_approval(&permission).await;
    let form = rest.pending_approval(&question).await;
    let is_hook =
        |frame: &Value| frame["src"] == "cli" && frame["data"]["request"]["subtype"] == "hook_callback";
    let callback = owner.until("the hook", is_hook).await.pop().unwrap()["data"].take();

    daemon.kill();
    for (place, name) in [(0, "made.txt"), (2, "asked.txt"), (2, "changed.txt")] {
        assert_eq!(made(place, name), None, "nothing runs unanswered");
    }
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(rest.pending_approval(&permission).await, tool);
    assert_eq!(rest.pending_approval(&question).await, form);

    // Another client is not the owner, and an answer to one is none to another.
    let mut other = daemon.attach_as("y", &hook, None).await;
    answer(&mut other, &callback["request_id"], json!({})).await;
    let refusal = other
        .find("the refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(refusal["code"], "request_not_owned", "{refusal:#}");
    let id_of = |approval: &Value| approval["id"].as_str().unwrap().to_owned();
    let wrong = rest
        .decide(&question, &id_of(&tool), json!({ "decision": "allow" }))
        .await;
    assert_eq!(wrong.problem(404), "approval_not_found");

    // The last that was asked is answered first.
    let mut owner = daemon.attach_as("x", &hook, None).await;
    let snapshot = owner.next().await;
    assert_eq!(
        snapshot["pending_requests"][0]["request_id"], callback["request_id"],
        "{snapshot:#}"
    );
    let allow = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow",
        "updatedInput": { "command": "echo once >> changed.txt" },
    } });
    answer(&mut owner, &callback["request_id"], allow.clone()).await;
    owner
        .until("the ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    let chosen = json!({ "decision": "answer", "answers": { QUESTION: "Blue" } });
    let decided = rest.decide(&question, &id_of(&form), chosen.clone()).await;
    assert_eq!(decided.expect(200)["state"], "allowed");
    let decided = rest
        .decide(&permission, &id_of(&tool), json!({ "decision": "allow" }))
        .await;
    assert_eq!(decided.expect(200)["state"], "allowed");
    for session in [&permission, &question, &hook] {
        rest.in_state(session, &["idle"]).await;
    }

    // A repeated answer is refused, by this daemon and by the next.
    for _ in 0..2 {
        let rest = daemon.rest();
        let late = rest
            .decide(&permission, &id_of(&tool), json!({ "decision": "deny" }))
            .await;
        assert_eq!(late.problem(409), "already_decided");
        let late = rest.decide(&question, &id_of(&form), chosen.clone()).await;
        assert_eq!(late.problem(409), "already_decided");
        let mut owner = daemon.attach_as("x", &hook, None).await;
        assert_eq!(owner.next().await["pending_requests"], json!([]));
        answer(&mut owner, &callback["request_id"], json!({})).await;
        let refusal = owner
            .find("the refusal", |frame| frame["type"] == "trunkline.error")
            .await;
        assert_eq!(refusal["code"], "request_not_pending", "{refusal:#}");
        daemon.kill();
        daemon.start().await;
    }
    assert_eq!(made(0, "made.txt").as_deref(), Some("once\n"));
    assert_eq!(made(2, "changed.txt").as_deref(), Some("once\n"));
    assert_eq!(made(2, "asked.txt"), None);
    for (session, request, by, results) in [
        (&permission, &tool["request_id"], "rest", "It ran."),
        (&question, &form["request_id"], "rest", "thanks"),
        (&hook, &callback["request_id"], "ws:x", "It ran too."),
    ] {
        let records = journal::records(&daemon, session);
        let answers = written(&records, request);
        assert_eq!(answers.len(), 1, "{answers:#?}");
        assert_eq!(answers[0]["by"], by);
        assert_eq!(journal::own(&records, "fallback").len(), 0);
        let ends = journal::cli_lines(&records, "result");
        assert_eq!(ends.len(), 1, "{ends:#?}");
        assert_eq!(ends[0]["result"], results);
    }
    let records = journal::records(&daemon, &hook);
    assert_eq!(
        written(&records, &callback["request_id"])[0]["data"]["response"]["response"],
        allow
    );
    let told = given_back(&journal::records(&daemon, &question));
    assert!(told.contains("Blue") && !told.contains("Red"), "{told}");
}
