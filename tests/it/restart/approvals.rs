//! Owns the daemon's death over what waits for a person: each is answered by the next daemon, correctly and once.

use std::{collections::HashMap, fs, path::Path};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    restart::journal,
    support::{
        chance::Chance,
        daemon::TestDaemon,
        model_api::ModelApi,
        programs::{fake_prompt, scripted},
        rest::Rest,
        wait::{PATIENCE, pass, wait_for},
    },
};

/// Deaths of the daemon while answers are on their way.
const DEATHS: usize = 12;

fn questions() -> Value {
    let options = ["Red", "Blue"].map(|label| json!({ "label": label, "description": label }));
    json!({ "questions": [{ "question": "Which colour?", "header": "Colour", "multiSelect": false, "options": options }] })
}

/// The requests that wait for a person in a session, by their kind.
async fn waiting(rest: &Rest, session: &str, count: usize) -> HashMap<String, Value> {
    wait_for(&format!("{count} pending approvals"), PATIENCE, async || {
        let path = format!("/v1/sessions/{session}/approvals?state=pending");
        let list = rest.get(&path).await.expect(200);
        let items = list["items"].as_array().unwrap().iter();
        let found: HashMap<_, _> = items
            .map(|item| (item["kind"].as_str().unwrap().to_owned(), item.clone()))
            .collect();
        (found.len() == count).then_some(found)
    })
    .await
}

fn id_of(approval: &Value) -> &str {
    approval["id"].as_str().unwrap()
}

/// The answers that a CLI was given, in order.
fn answers(records: &[Value]) -> Vec<&Value> {
    records
        .iter()
        .filter(|record| record["src"] == "client" && record["data"]["type"] == "control_response")
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_and_a_question_survive_the_daemon() {
    let api = ModelApi::start();
    let mut daemon = TestDaemon::with_real(&api).start().await;
    let rest = daemon.rest();
    let (a, b) = (daemon.work_dir("a"), daemon.work_dir("b"));
    let tool = rest.create_ready(json!({ "cwd": a })).await;
    let asks = rest.create_ready(json!({ "cwd": b })).await;
    let run = json!({ "tool": "Bash", "input": { "command": "echo once >> made.txt" } });
    let ask = json!({ "tool": "AskUserQuestion", "input": questions() });
    rest.prompt(&tool, &scripted(&json!([run, { "text": "It ran." }])))
        .await;
    rest.prompt(&asks, &scripted(&json!([ask, { "text": "thanks" }])))
        .await;
    let permission = waiting(&rest, &tool, 1).await.remove("tool").unwrap();
    let question = waiting(&rest, &asks, 1).await.remove("question").unwrap();
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(waiting(&rest, &tool, 1).await["tool"], permission);
    assert_eq!(waiting(&rest, &asks, 1).await["question"], question);
    let inbox = rest.get("/v1/approvals?state=pending").await.expect(200);
    assert_eq!(inbox["items"].as_array().unwrap().len(), 2);
    let answer = json!({ "decision": "answer", "answers": { "Which colour?": "Blue" } });
    // One session's approval is not the other's.
    let wrong = rest.decide(&tool, id_of(&question), answer.clone()).await;
    assert_eq!(wrong.problem(404), "approval_not_found");
    let decisions = [
        (&tool, &permission, json!({ "decision": "allow" })),
        (&asks, &question, answer),
    ];
    for (session, approval, decision) in &decisions {
        let decided = rest.decide(session, id_of(approval), decision.clone()).await;
        assert_eq!(decided.expect(200)["state"], "allowed");
        rest.in_state(session, &["idle"]).await;
    }
    assert_eq!(fs::read_to_string(a.join("made.txt")).unwrap(), "once\n");
    let records = journal::records(&daemon, &asks);
    let user = journal::cli_lines(&records, "user");
    let told: String = user.iter().map(|line| line["message"].to_string()).collect();
    assert!(
        told.contains("Blue") && !told.contains("Red"),
        "the model hears the answer: {told}"
    );
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    for (session, approval, decision) in &decisions {
        let late = rest.decide(session, id_of(approval), decision.clone()).await;
        assert_eq!(late.problem(409), "already_decided");
        let records = journal::records(&daemon, session);
        assert_eq!(answers(&records).len(), 1);
        assert_eq!(answers(&records)[0]["by"], "rest");
        assert_eq!(journal::cli_lines(&records, "result").len(), 1);
    }
}

/// The daemon dies while answers to a permission and to a question are on their way to it, through it, or behind it. The
/// next daemon says of them exactly what the CLI heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_over_which_the_daemon_dies_counts_once_or_not_at_all() {
    let mut chance = Chance::new();
    let mut daemon = TestDaemon::with_fake().start().await;
    let stdin = daemon.home().join("stdin");
    let cwd = daemon.work_dir("a");
    fs::write(
        cwd.join(".fake-claude.json"),
        json!({ "record_stdin": stdin }).to_string(),
    )
    .unwrap();
    let session = daemon.rest().create_ready(json!({ "cwd": cwd })).await;
    let (mut in_time, mut in_vain) = (0, 0);
    for round in 0..DEATHS {
        let ids = [format!("t-{round}"), format!("q-{round}")];
        let prompt = fake_prompt(&json!([
            { "ask": { "ids": [ids[0]], "wait": false } },
            { "ask": { "ids": [ids[1]], "tool": "AskUserQuestion", "input": questions(), "wait": false } },
            { "wait_answer": ids[0] },
            { "wait_answer": ids[1] },
        ]));
        daemon.rest().prompt(&session, &prompt).await;
        let asked = waiting(&daemon.rest(), &session, 2).await;
        let before = [
            (&asked["tool"], json!({ "decision": "deny", "message": "before" })),
            (
                &asked["question"],
                json!({ "decision": "answer", "answers": { "Which colour?": "before" } }),
            ),
        ];
        let mut on_their_way = JoinSet::new();
        for (approval, decision) in &before {
            let path = format!("/v1/sessions/{session}/approvals/{}", id_of(approval));
            let request = daemon.rest().builder(Method::POST, &path).json(decision);
            // An answer may never come.
            on_their_way.spawn(async move { request.send().await.map(|reply| reply.status()).ok() });
        }
        pass(chance.moment(4)).await;
        daemon.kill();
        let told = on_their_way.join_all().await;
        daemon.start().await;
        let rest = daemon.rest();
        for (approval, _) in &before {
            let decision = match approval["kind"].as_str() {
                Some("question") => json!({ "decision": "answer", "answers": { "Which colour?": "after" } }),
                _ => json!({ "decision": "deny", "message": "after" }),
            };
            let second = rest.decide(&session, id_of(approval), decision).await;
            if second.status == 200 {
                in_vain += 1;
                assert!(
                    second.body["resolution"]["response"]
                        .to_string()
                        .contains("after")
                );
            } else {
                in_time += 1;
                let first = &second.body["approval"]["resolution"];
                assert!(
                    first["response"].to_string().contains("before"),
                    "{:#}",
                    second.body
                );
                assert_eq!(second.problem(409), "already_decided");
            }
        }
        let confirmed = told.iter().flatten().filter(|status| status.as_u16() == 200);
        assert!(confirmed.count() <= in_time, "what was confirmed counts");
        rest.in_state(&session, &["idle"]).await;
    }
    println!("in time: {in_time}, in vain: {in_vain}");
    let records = journal::records(&daemon, &session);
    let written: Vec<_> = answers(&records)
        .iter()
        .map(|record| record["data"].clone())
        .collect();
    assert_eq!(written.len(), 2 * DEATHS);
    assert_eq!(read_answers(&stdin), written);
    let heard = journal::cli_lines(&records, "fake_answer");
    assert_eq!(heard.len(), 2 * DEATHS);
    for answer in heard {
        assert_eq!(
            (&answer["expected"], &answer["valid"]),
            (&json!(true), &json!(true)),
            "{answer:#}"
        );
    }
    let path = format!("/v1/sessions/{session}/approvals?limit=500");
    let log = daemon.rest().get(&path).await.expect(200);
    let logged = |answer: &Value| {
        let mut log = log["items"].as_array().unwrap().iter();
        let found = log.find(|item| item["request_id"] == answer["response"]["request_id"]);
        found.unwrap()["resolution"]["response"].clone()
    };
    for answer in &written {
        assert_eq!(logged(answer), answer["response"]["response"]);
    }
}

/// The answers that the CLI read.
fn read_answers(stdin: &Path) -> Vec<Value> {
    let text = fs::read_to_string(stdin).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["type"] == "control_response").collect()
}
