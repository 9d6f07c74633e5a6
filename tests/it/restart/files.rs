//! Owns daemons that are short of file descriptors: that something cannot be looked at never means that it is gone.

use std::{collections::BTreeMap, fs};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    restart::journal,
    support::{daemon::TestDaemon, proc},
};

const SESSIONS: usize = 12;
/// The descriptors that the daemon keeps for requests, the store and stops.
const RESERVED: usize = 32;

/// Soft and hard limit of open files.
fn limits(pid: i32) -> (String, String) {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut fields = line.unwrap().split_whitespace().map(str::to_owned);
    (fields.next().unwrap(), fields.next().unwrap())
}

fn open_files(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn pid_of(view: &Value) -> i32 {
    i32::try_from(view["cli"]["pid"].as_i64().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_daemon_takes_what_it_may_and_sessions_get_what_it_was_given() {
    let daemon = TestDaemon::with_fake()
        .launcher(["sh", "-c", r#"ulimit -Sn 200; exec "$@""#, "sh"])
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let cli = pid_of(&rest.session(&session).await);
    let (soft, hard) = limits(daemon.pid());
    assert_eq!(soft, hard);
    assert_ne!(hard, "200", "the test needs a higher limit itself");
    let given = ("200".to_owned(), hard);
    assert_eq!(limits(cli), given);
    assert_eq!(limits(proc::read(cli).unwrap().parent), given, "its keeper");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_cannot_look_at_its_sessions_ends_none_of_them_and_starts_none_again() {
    let limit = r#"if [ -e home/limit ]; then ulimit -n "$(cat home/limit)"; fi; exec "$@""#;
    let mut daemon = TestDaemon::with_fake()
        .launcher(["sh", "-c", limit, "sh"])
        .allow_errors()
        .start()
        .await;
    let rest = daemon.rest();
    let dir = daemon.work_dir("a");
    rest.get("/v1/sessions").await.expect(200);
    let without = open_files(daemon.pid());
    let mut sessions = BTreeMap::new();
    for _ in 0..SESSIONS {
        let id = rest.create_ready(json!({ "cwd": dir })).await;
        rest.ask(&id, "hello").await;
        let pid = pid_of(&rest.session(&id).await);
        sessions.insert(id, pid);
    }
    // First none can be attached to, then some.
    for few in [without + 12, without + RESERVED + 6] {
        daemon.kill();
        fs::write(daemon.home().join("limit"), few.to_string()).unwrap();
        daemon.start().await;
        let rest = daemon.rest();
        let mut refused = Vec::new();
        for (id, pid) in &sessions {
            assert!(proc::is_alive(*pid), "{id} was ended");
            assert_eq!(
                proc::with_env("TRUNKLINE_SESSION", id).len(),
                1,
                "{id} has no double"
            );
            let view = rest.session(id).await;
            if view["reason"].is_null() {
                assert_eq!(pid_of(&view), *pid, "{view:#}");
            } else {
                assert_eq!(view["reason"]["code"], "keeper_unresponsive", "{view:#}");
                refused.push(id.as_str());
            }
        }
        assert!(!refused.is_empty(), "{few} descriptors are enough for all");
        for path in ["messages", "resume"] {
            let body = if path == "messages" {
                json!({ "text": "hello?" })
            } else {
                json!({})
            };
            let answer = rest
                .post(&format!("/v1/sessions/{}/{path}", refused[0]), body)
                .await;
            assert_eq!(answer.problem(503), "keeper_unresponsive");
        }
        let create = rest
            .builder(Method::POST, "/v1/sessions")
            .json(&json!({ "cwd": dir }));
        let answer = create.send().await.unwrap();
        assert_eq!(answer.status(), 503);
        assert!(answer.headers().contains_key("retry-after"), "{answer:?}");
        let problem: Value = answer.json().await.unwrap();
        assert_eq!(problem["code"], "too_few_files", "{problem:#}");
        for (id, pid) in &sessions {
            assert!(proc::is_alive(*pid), "{id} was ended");
        }
    }

    daemon.kill();
    fs::remove_file(daemon.home().join("limit")).unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    for (id, pid) in &sessions {
        let view = rest.session(id).await;
        assert_eq!(
            (&view["state"], &view["cli"]["pid"], &view["reason"]),
            (&json!("idle"), &json!(pid), &Value::Null),
            "{view:#}"
        );
        let answer = rest.ask(id, "still there?").await;
        assert_eq!(answer["turn"]["number"], 2, "{answer:#}");
        let records = journal::records(&daemon, id);
        assert!(journal::own(&records, "run_lost").is_empty());
        assert_eq!(journal::own(&records, "run_started").len(), 1);
    }
}
