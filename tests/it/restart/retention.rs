//! Owns the tests of journals that shrink: compacted and removed records, and all that must be known of them afterwards.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};

use super::rebuild::{lose, rebuild, same, story};
use crate::support::{
    daemon::TestDaemon,
    programs::{clean_env, fake_prompt, trunkline},
    rest::Rest,
    wait::{PATIENCE, wait_until},
};

/// A daemon whose journals begin a new file with each process.
fn daemon(keep_ms: u64) -> crate::support::daemon::TestDaemonBuilder {
    TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_SEGMENT_BYTES", "65536")
        .env("TRUNKLINE_JOURNAL_COMPACT_AFTER_MS", "1")
        .env("TRUNKLINE_JOURNAL_KEEP_MS", keep_ms.to_string())
}

/// A session of two processes that streams, and stops.
async fn streamed(daemon: &TestDaemon, rest: &Rest) -> String {
    let options = json!({ "include_partial_messages": true });
    let made = json!({ "cwd": daemon.work_dir("a"), "options": options });
    let id = rest.create_ready(made).await;
    let text = json!([{ "text": "a text that comes in pieces ", "repeat": 20, "chunk_size": 8 }]);
    rest.ask(&id, &fake_prompt(&text)).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "once more").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    id
}

/// The tables, without the count of writes of a session's file: a removal writes it.
fn dump(database: &std::path::Path) -> BTreeMap<String, Vec<Value>> {
    let mut tables = super::rebuild::dump(database);
    for row in tables.get_mut("sessions").unwrap() {
        row.as_object_mut().unwrap().remove("revision");
    }
    tables
}

/// `trunkline gc` where no daemon runs.
#[expect(clippy::disallowed_methods, reason = "starts the program under test")]
fn run_gc(daemon: &TestDaemon, keep_ms: u64) -> std::process::Output {
    std::process::Command::new(trunkline())
        .args(["gc", "--json", "--data-dir"])
        .arg(daemon.data_dir())
        .env_clear()
        .envs(clean_env(&daemon.home(), "http://127.0.0.1:9"))
        .env("TRUNKLINE_JOURNAL_COMPACT_AFTER_MS", "1")
        .env("TRUNKLINE_JOURNAL_KEEP_MS", keep_ms.to_string())
        .env("TRUNKLINE_SERVER_LISTEN", "127.0.0.1:0")
        .output()
        .unwrap()
}

async fn gc(rest: &Rest) -> Value {
    rest.post("/v1/daemon/gc", json!({})).await.expect(200)
}

fn is_piece(record: &Value) -> bool {
    record["data"]["type"] == "stream_event"
}

fn files(daemon: &TestDaemon, id: &str) -> BTreeMap<String, Vec<u8>> {
    let dir = daemon.data_dir().join("sessions").join(id);
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect()
}

#[tokio::test]
async fn pieces_of_whole_messages_go_and_the_range_is_named() {
    let mut daemon = daemon(0).start().await;
    let rest = daemon.rest();
    let id = streamed(&daemon, &rest).await;
    let at = |what: &str| format!("/v1/sessions/{id}/{what}");
    let before = rest.events(&id, 0).await;
    let messages = rest.get(&at("messages")).await.expect(200);
    let export = rest.get(&at("export?format=markdown")).await.expect(200);
    assert!(before.iter().filter(|record| is_piece(record)).count() > 20);

    let untouched = files(&daemon, &id);
    let would = rest
        .post("/v1/daemon/gc", json!({ "dry_run": true }))
        .await
        .expect(200);
    assert!(would["compacted"]["bytes"].as_u64().unwrap() > 1_000, "{would:#}");
    assert_eq!(files(&daemon, &id), untouched, "a dry run changes nothing");
    let done = gc(&rest).await;
    assert_eq!(done["compacted"]["segments"], 1, "{done:#}");
    assert_eq!(gc(&rest).await["compacted"]["segments"], 0, "it is done once");

    let page = rest.get(&at("events?limit=5000")).await.expect(200);
    let gaps = page["missing"].as_array().unwrap();
    assert!(
        !gaps.is_empty() && gaps.iter().all(|gap| gap["reason"] == "compacted"),
        "{gaps:#?}"
    );
    let is_gone = |seq: u64| {
        gaps.iter().any(|gap| {
            (gap["first_seq"].as_u64().unwrap()..=gap["last_seq"].as_u64().unwrap()).contains(&seq)
        })
    };
    let left: Vec<_> = before
        .iter()
        .filter(|record| !is_gone(record["seq"].as_u64().unwrap()))
        .cloned()
        .collect();
    assert_eq!(page["items"], json!(left), "what is left is as it was");
    let gone: Vec<_> = before
        .iter()
        .filter(|record| is_gone(record["seq"].as_u64().unwrap()))
        .collect();
    assert!(gone.iter().all(|record| is_piece(record)));
    let text = |page: &Value| -> Vec<Value> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| json!([item["role"], item["content"], item["uuid"]]))
            .collect()
    };
    assert_eq!(
        text(&rest.get(&at("messages")).await.expect(200)),
        text(&messages)
    );
    assert_eq!(rest.get(&at("export?format=markdown")).await.expect(200), export);
    let record = at(&format!("events/{}", gone[1]["seq"]));
    assert_eq!(rest.get(&record).await.problem(410), "records_compacted");

    // From the end, and over a socket: the memory of the daemon has all of it until it is started again.
    assert!(daemon.stop().success());
    daemon.start().await;
    let rest = daemon.rest();
    let back = rest.get(&at("events?limit=5000&order=desc")).await.expect(200);
    let mut items = back["items"].as_array().unwrap().clone();
    items.reverse();
    assert_eq!(json!(items), json!(left));
    let mut socket = daemon.attach(&id, Some(0)).await;
    let gap = socket
        .find("a gap", |frame| frame["type"] == "trunkline.gap")
        .await;
    assert_eq!(gap["reason"], "compacted");
    socket
        .find("the end", |frame| frame["seq"] == page["head_seq"])
        .await;

    // Nothing of it is lost for the next daemon, nor for the next process.
    assert!(daemon.stop().success());
    daemon.start().await;
    let rest = daemon.rest();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "and on").await;
    assert!(!daemon.journal(&id).contains("records_missing"));
    let metrics = rest.get("/metrics").await.expect(200);
    assert!(
        metrics
            .as_str()
            .unwrap()
            .contains("trunkline_records_missing_total 0"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_database_is_made_again_of_compacted_journals() {
    let mut daemon = daemon(0).start().await;
    let rest = daemon.rest();
    story(&daemon, &rest).await;
    streamed(&daemon, &rest).await;
    assert!(daemon.stop().success());
    let before = dump(&daemon.database());
    let done = run_gc(&daemon, 0);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    rebuild(&daemon);
    same(&before, &dump(&daemon.database()));
}

#[tokio::test]
async fn what_must_not_go_with_removed_records_is_kept() {
    let mut daemon = daemon(1).allow_errors().start().await;
    let rest = daemon.rest();
    story(&daemon, &rest).await;
    let id = streamed(&daemon, &rest).await;
    let at = |what: &str| format!("/v1/sessions/{id}/{what}");
    let turns = rest.turns(&id).await;
    let messages = rest.get(&at("messages")).await.expect(200);
    let first = messages["items"][0].clone();
    let done = gc(&rest).await;
    assert!(done["removed"]["segments"].as_u64().unwrap() >= 1, "{done:#}");

    // A request that begins with them is refused; a stream is told, and goes on.
    let refused = rest.get(&at("events")).await;
    let oldest = refused.body["oldest_seq"].as_u64().unwrap();
    assert_eq!(refused.problem(410), "records_compacted");
    assert!(oldest > 1);
    let kept = rest
        .get(&at(&format!("events?after={}", oldest - 1)))
        .await
        .expect(200);
    assert_eq!(kept["items"][0]["seq"], oldest);
    assert_eq!(kept["missing"], Value::Null);
    assert!(daemon.stop().success());
    daemon.start().await;
    let rest = daemon.rest();
    let mut socket = daemon.attach(&id, Some(0)).await;
    let gap = socket
        .find("a gap", |frame| frame["type"] == "trunkline.gap")
        .await;
    assert_eq!(
        (&gap["first_seq"], &gap["last_seq"], &gap["reason"]),
        (&json!(1), &json!(oldest - 1), &json!("removed"))
    );
    socket
        .find("the end", |frame| frame["seq"] == kept["head_seq"])
        .await;
    let back = rest.get(&at("events?limit=5000&order=desc")).await.expect(200);
    assert_eq!(
        back["missing"],
        json!([{ "first_seq": 1, "last_seq": oldest - 1, "reason": "removed" }])
    );

    // Turns, costs, the ids of prompts.
    assert_eq!(rest.turns(&id).await, turns);
    let turn = rest.get(&at("turns/1")).await.expect(200);
    assert_eq!(turn["turn"]["cost_usd"], turns[0]["cost_usd"], "{turn:#}");
    assert_eq!(
        rest.get(&at("messages")).await.expect(200)["items"][0]["content"],
        "once more"
    );
    let fork = rest.lifecycle(&id, "fork", json!({ "at": first["uuid"] })).await;
    assert_eq!(fork.problem(422), "message_not_forkable");
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    let again = json!({ "text": "something", "uuid": first["uuid"] });
    let again = rest.post(&at("messages"), again).await.expect(202);
    assert_eq!(again["repeated"], true, "{again:#}");
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);

    assert!(daemon.stop().success());
    let before = dump(&daemon.database());
    rebuild(&daemon);
    same(&before, &dump(&daemon.database()));
    // Once more, on top of the ledger that there is.
    daemon.start().await;
    let done = gc(&daemon.rest()).await;
    assert!(done["removed"]["segments"].as_u64().unwrap() >= 1, "{done:#}");
    assert!(daemon.stop().success());
    let before = dump(&daemon.database());
    lose(&daemon);
    rebuild(&daemon);
    same(&before, &dump(&daemon.database()));
    assert!(!daemon.journal(&id).contains("records_missing"));
}

#[tokio::test]
async fn a_session_that_has_a_process_is_left_alone() {
    let daemon = daemon(1).start().await;
    let rest = daemon.rest();
    let id = streamed(&daemon, &rest).await;
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    let before = files(&daemon, &id);
    let done = gc(&rest).await;
    assert_eq!(done["live"], 1, "{done:#}");
    let segments = |files: &BTreeMap<String, Vec<u8>>| -> Vec<String> {
        files
            .keys()
            .filter(|name| name.starts_with("000"))
            .cloned()
            .collect()
    };
    assert_eq!(segments(&files(&daemon, &id)), segments(&before));
}

/// The address of a daemon that was killed stays in its file.
#[tokio::test]
async fn gc_works_by_itself_after_the_daemon_was_killed() {
    let mut daemon = daemon(0).start().await;
    streamed(&daemon, &daemon.rest()).await;
    daemon.kill();
    let done = run_gc(&daemon, 0);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let outcome: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(outcome["compacted"]["segments"], 1, "{outcome:#}");
}

#[tokio::test]
async fn gc_fails_and_says_why_where_a_journal_is_damaged() {
    let mut daemon = daemon(1).allow_errors().start().await;
    let id = streamed(&daemon, &daemon.rest()).await;
    assert!(daemon.stop().success());
    let whole = files(&daemon, &id);
    let (first, bytes) = whole.iter().find(|(name, _)| name.starts_with("000")).unwrap();
    let path = daemon.data_dir().join("sessions").join(&id).join(first);
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 200].fill(b'#');
    fs::write(&path, &damaged).unwrap();
    let done = run_gc(&daemon, 1);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains(&id) && said.contains("damaged"), "{said}");
    let outcome: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        (&outcome["failed"], &outcome["removed"]["segments"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(fs::read(&path).unwrap(), damaged);
}

/// The daemon is killed at every moment of it that leaves something behind; the next look does what is left.
#[tokio::test]
async fn a_kill_in_the_middle_loses_nothing() {
    let mut daemon = daemon(1).start().await;
    let rest = daemon.rest();
    let id = streamed(&daemon, &rest).await;
    assert!(daemon.stop().success());
    let dir = daemon.data_dir().join("sessions").join(&id);
    let before = dump(&daemon.database());
    let whole = files(&daemon, &id);
    assert!(run_gc(&daemon, 1).status.success());
    let after = files(&daemon, &id);
    let ledger = after["ledger.ndjson"].clone();
    let removed = after["removed.json"].clone();
    let first = whole.keys().find(|name| name.starts_with("000")).unwrap().clone();
    assert!(!after.contains_key(&first));
    let half = ledger[..ledger.len() / 2].to_vec();
    type Left<'a> = Vec<(&'a str, &'a [u8])>;
    let moments: [(&str, Left<'_>); 4] = [
        ("in the draft of the ledger", vec![("ledger.new", &half)]),
        ("before the ledger is in its place", vec![("ledger.new", &ledger)]),
        ("before the range is named", vec![("ledger.ndjson", &ledger)]),
        (
            "before the first file goes",
            vec![("ledger.ndjson", &ledger), ("removed.json", &removed)],
        ),
    ];
    for (moment, left) in moments {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::remove_file(path).unwrap();
            }
        }
        for (name, bytes) in &whole {
            fs::write(dir.join(name), bytes).unwrap();
        }
        for (name, bytes) in left {
            fs::write(dir.join(name), bytes).unwrap();
        }
        lose(&daemon);
        rebuild(&daemon);
        same(&before, &dump(&daemon.database()));
        assert!(run_gc(&daemon, 1).status.success(), "{moment}");
        assert!(!dir.join(&first).exists(), "{moment}");
        lose(&daemon);
        rebuild(&daemon);
        same(&before, &dump(&daemon.database()));
    }
    daemon.start().await;
    let rest = daemon.rest();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "and on").await;
    assert!(!daemon.journal(&id).contains("records_missing"));
}

/// Kills as they come, while looks at journals run one after the other.
#[tokio::test]
async fn kills_while_journals_are_compacted_lose_nothing() {
    let mut daemon = daemon(0)
        .env("TRUNKLINE_JOURNAL_LOOK_EVERY_MS", "1000")
        .start()
        .await;
    let rest = daemon.rest();
    let id = streamed(&daemon, &rest).await;
    let text = |rest: Rest| {
        let at = format!("/v1/sessions/{id}/messages");
        async move {
            let page = rest.get(&at).await.expect(200);
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["content"].clone())
                .collect::<Vec<_>>()
        }
    };
    let before = text(rest.clone()).await;
    for _ in 0..5 {
        let asked = daemon.rest();
        let mut look = tokio::task::JoinSet::new();
        look.spawn(async move { asked.post("/v1/daemon/gc", json!({})).await });
        tokio::task::yield_now().await;
        daemon.kill();
        look.shutdown().await;
        daemon.start().await;
        assert_eq!(text(daemon.rest()).await, before);
    }
    gc(&daemon.rest()).await;
    let dir = daemon.data_dir().join("sessions").join(&id);
    wait_until("no draft is left", PATIENCE, || {
        !fs::read_dir(&dir).unwrap().any(|entry| {
            entry
                .unwrap()
                .path()
                .extension()
                .is_some_and(|it| it == "compact")
        })
    })
    .await;
    assert!(!daemon.journal(&id).contains("records_missing"));
}
