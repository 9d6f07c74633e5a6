//! Owns the tests of a database that is made again from the sessions: by a start that finds none, and by `trunkline rebuild`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::support::{
    daemon::TestDaemon,
    proc,
    programs::{clean_env, fake_prompt, trunkline},
    rest::Rest,
    wait::{PATIENCE, wait_until},
};

/// All rows of the tables of a database, but for keys and probes, which are lost, and for what SQLite and the migrations keep.
const DUMP: &str = "import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
skip = ('idempotency_keys', 'probe', '_sqlx_migrations')
names = [n for (n,) in db.execute(\"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'\") if n not in skip]
tables = {}
for name in names:
    rows = db.execute('SELECT * FROM ' + name)
    columns = [c[0] for c in rows.description]
    made = [{c: (v.hex() if isinstance(v, bytes) else v) for c, v in zip(columns, row)} for row in rows]
    tables[name] = sorted(made, key=lambda row: json.dumps(row, sort_keys=True))
print(json.dumps(tables))";

#[expect(clippy::disallowed_methods, reason = "another program reads the database")]
pub(super) fn dump(database: &Path) -> BTreeMap<String, Vec<Value>> {
    let output = Command::new("python3")
        .args(["-c", DUMP])
        .arg(database)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "starts the program under test")]
pub(super) fn run(daemon: &TestDaemon, command: &str) -> Output {
    Command::new(trunkline())
        .args([command, "--json", "--data-dir"])
        .arg(daemon.data_dir())
        .env_clear()
        .envs(clean_env(&daemon.home(), "http://127.0.0.1:9"))
        .output()
        .unwrap()
}

/// The report of `trunkline rebuild`.
pub(super) fn rebuild(daemon: &TestDaemon) -> Value {
    let output = run(daemon, "rebuild");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Takes the database away, with what SQLite keeps beside it.
pub(super) fn lose(daemon: &TestDaemon) {
    for suffix in ["", "-wal", "-shm"] {
        let file = PathBuf::from(format!("{}{suffix}", daemon.database().display()));
        let _ = fs::remove_file(file);
    }
}

pub(super) fn same(before: &BTreeMap<String, Vec<Value>>, after: &BTreeMap<String, Vec<Value>>) {
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>()
    );
    for (table, before) in before {
        let after = &after[table];
        assert_eq!(before.len(), after.len(), "{table}: {before:#?}\n{after:#?}");
        for (before, after) in before.iter().zip(after) {
            assert_eq!(before, after, "{table}");
        }
    }
}

/// The CLI's news beside a conversation: a limit, a task that ends, one that its process leaves running, and a list of what is
/// to do.
fn told_beside() -> Value {
    let line = |mut line: Value| {
        line["session_id"] = json!("$SESSION_ID");
        line["uuid"] = json!("$UUID");
        json!({ "line": line })
    };
    let task = |subtype: &str, id: &str| {
        line(
            json!({ "type": "system", "subtype": subtype, "task_id": id, "task_type": "local_bash", "description": "sleep 9",
            "is_backgrounded": true, "status": "completed", "summary": "slept" }),
        )
    };
    let todos = json!([{ "content": "Mend it", "status": "pending", "activeForm": "Mending it" }]);
    let call = json!([{ "type": "tool_use", "id": "t1", "name": "TodoWrite", "input": { "todos": todos } }]);
    let result = json!([{ "type": "tool_result", "tool_use_id": "t1", "content": "x" }]);
    json!([
        line(json!({ "type": "rate_limit_event", "rate_limit_info": { "status": "allowed", "rateLimitType": "five_hour", "utilization": 0.5 } })),
        task("task_started", "a"),
        task("task_notification", "a"),
        task("task_started", "b"),
        line(json!({ "type": "assistant", "parent_tool_use_id": null,
            "message": { "id": "m", "type": "message", "role": "assistant", "model": "m", "content": call } })),
        line(json!({ "type": "user", "parent_tool_use_id": null, "message": { "role": "user", "content": result },
            "tool_use_result": { "oldTodos": [], "newTodos": todos } })),
        { "text": "x" },
    ])
}

/// Sessions with all that a database says of some.
pub(super) async fn story(daemon: &TestDaemon, rest: &Rest) {
    let cwd = daemon.work_dir("a");
    let made = json!({ "cwd": cwd, "title": "first", "labels": { "team": "a" }, "restart": { "max_restarts": 1 },
        "options": { "model": "opus", "env": { "KEY": "value" } } });
    let id = rest.create_ready(made).await;
    let webhook = json!({ "url": "http://127.0.0.1:9/hook", "enabled": false });
    rest.post("/v1/webhooks", webhook).await.expect(201);
    let at = |what: &str| format!("/v1/sessions/{id}/{what}");
    rest.ask(&id, "hello").await;
    rest.prompt(
        &id,
        &fake_prompt(&json!([{ "ask": { "ids": ["q-1"], "input": { "command": "ls" } } }])),
    )
    .await;
    let asked = rest.pending_approval(&id).await;
    rest.decide(&id, asked["id"].as_str().unwrap(), json!({ "decision": "allow" }))
        .await
        .expect(200);
    rest.ask(&id, "after the answer").await;
    rest.ask(&id, &fake_prompt(&told_beside())).await;
    // The file has what holds between two choices that the journal has.
    rest.put(&at("model"), json!({ "model": "sonnet" }))
        .await
        .expect(200);
    let patch = json!({ "title": "second", "tag": "t", "labels": { "team": "b", "x": "y" } });
    rest.patch(&format!("/v1/sessions/{id}"), patch).await.expect(200);
    rest.put(&at("model"), json!({ "model": "haiku" }))
        .await
        .expect(200);
    let rules = json!([{ "id": "r", "action": "allow", "tool": "Read" }]);
    rest.put(&at("rules"), json!({ "items": rules }))
        .await
        .expect(200);
    rest.post(&at("prompts"), json!({ "text": "later", "held": true }))
        .await
        .expect(201);
    rest.delete(&at("seen")).await.expect(200);
    let fork = rest
        .lifecycle(&id, "fork?wait=ready", json!({ "title": "fork" }))
        .await
        .expect(201);
    let fork = fork["id"].as_str().unwrap();
    rest.ask(fork, "of its own").await;
    let orphan = rest
        .lifecycle(fork, "fork?wait=ready", json!({}))
        .await
        .expect(201);
    let orphan = orphan["id"].as_str().unwrap();
    rest.ask(orphan, "without a parent").await;
    rest.delete(&format!("/v1/sessions/{fork}")).await.expect(204);
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "again").await;
    for id in [id.as_str(), orphan] {
        rest.lifecycle(id, "stop", json!({})).await.expect(200);
    }
    rest.create_ready(json!({ "cwd": cwd, "title": "parked" })).await;
    rest.create_ready(json!({ "cwd": daemon.work_dir("b") })).await;
    for session in rest.get("/v1/sessions").await.expect(200)["items"]
        .as_array()
        .unwrap()
    {
        let id = session["id"].as_str().unwrap();
        match session["title"].as_str() {
            Some("parked") => drop(rest.lifecycle(id, "park", json!({})).await.expect(200)),
            _ => drop(rest.lifecycle(id, "stop", json!({})).await.expect(200)),
        }
    }
}

#[tokio::test]
async fn a_database_that_is_made_again_is_as_it_was() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    story(&daemon, &rest).await;
    let refused = run(&daemon, "rebuild");
    assert!(!refused.status.success(), "a daemon uses the directory");
    assert!(daemon.stop().success());
    let before = dump(&daemon.database());
    for (table, count) in [
        ("approvals", 1),
        ("rate_limits", 1),
        ("tasks", 2),
        ("todos", 1),
        ("webhooks", 1),
    ] {
        assert_eq!(before[table].len(), count, "{table}");
    }
    assert!(before["turns"].len() >= 5);

    let made = rebuild(&daemon);
    assert_eq!(
        (&made["sessions"], &made["recovered"], &made["unreadable"]),
        (&json!(4), &json!(0), &json!(0))
    );
    let kept = PathBuf::from(made["kept"].as_str().unwrap());
    same(&before, &dump(&kept));
    same(&before, &dump(&daemon.database()));
    // A start finds nothing to read again.
    daemon.start().await;
    assert!(daemon.stop().success());
    same(&before, &dump(&daemon.database()));
}

#[tokio::test]
async fn a_start_without_a_database_makes_it_again_and_ends_no_process() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest
        .create_ready(json!({ "cwd": daemon.work_dir("a"), "title": "kept" }))
        .await;
    let deleted = rest.create_ready(json!({ "cwd": daemon.work_dir("b") })).await;
    rest.ask(&id, "hello").await;
    rest.lifecycle(&deleted, "stop", json!({})).await.expect(200);
    let before = rest.session(&id).await;
    let pid = before["cli"]["pid"].clone();
    for is_empty in [false, true] {
        daemon.kill();
        lose(&daemon);
        if is_empty {
            fs::write(daemon.database(), "").unwrap();
        }
        let sessions = daemon.data_dir().join("sessions");
        // Half a deletion is ended, and not undone.
        let _ = fs::rename(
            sessions.join(&deleted),
            sessions.join(format!(".deleted-{deleted}")),
        );
        // A rebuild that was killed has left this.
        fs::write(format!("{}.new", daemon.database().display()), "half").unwrap();
        daemon.start().await;
        let rest = daemon.rest();
        let view = rest.session(&id).await;
        assert_eq!(
            (&view["title"], &view["cli"]["pid"]),
            (&json!("kept"), &pid),
            "{view:#}"
        );
        for field in ["cost_usd", "turns", "created_at", "state", "cwd"] {
            assert_eq!(view[field], before[field], "{field}");
        }
        let process = i32::try_from(pid.as_i64().unwrap()).unwrap();
        assert!(proc::is_alive(process));
        rest.get(&format!("/v1/sessions/{deleted}")).await.problem(404);
        assert_eq!(fs::read_dir(&sessions).unwrap().count(), 1);
        rest.get("/readyz").await.expect(200);
    }
    daemon.rest().ask(&id, "and on").await;

    // It goes with the next start, although that has a database.
    daemon.kill();
    let half =
        ["", "-wal", "-shm"].map(|side| PathBuf::from(format!("{}.new{side}", daemon.database().display())));
    for file in &half {
        fs::write(file, "half").unwrap();
    }
    daemon.start().await;
    assert!(half.iter().all(|file| !file.exists()));
}

#[tokio::test]
async fn a_session_without_its_file_is_recovered_and_resumed_with_a_directory() {
    let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    let mut ids = Vec::new();
    for _ in 0..2 {
        let id = rest.create_ready(json!({ "cwd": cwd, "title": "mine" })).await;
        rest.ask(&id, "hello").await;
        rest.lifecycle(&id, "stop", json!({})).await.expect(200);
        ids.push(id);
    }
    let turns = rest.turns(&ids[0]).await;
    daemon.kill();
    lose(&daemon);
    let file = |id: &str| daemon.data_dir().join("sessions").join(id).join("session.json");
    let (gone, broken) = (file(&ids[0]), file(&ids[1]));
    fs::remove_file(gone).unwrap();
    fs::write(broken, "no JSON").unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    for id in &ids {
        let view = rest.session(id).await;
        assert_eq!(
            (&view["title"], &view["state"]),
            (&json!("recovered"), &json!("stopped")),
            "{view:#}"
        );
        for verb in ["resume", "restart", "fork"] {
            let refused = rest.lifecycle(id, verb, json!({})).await;
            assert_eq!(refused.problem(409), "cwd_unknown", "{verb}");
        }
    }
    assert_eq!(rest.turns(&ids[0]).await, turns);
    let resume = json!({ "cwd": cwd });
    for id in &ids {
        rest.lifecycle(id, "resume?wait=ready", resume.clone())
            .await
            .expect(200);
        assert_eq!(rest.session(id).await["cwd"], json!(cwd));
        rest.ask(id, "and on").await;
    }
    let elsewhere = json!({ "cwd": daemon.work_dir("b") });
    let refused = rest.lifecycle(&ids[0], "restart", elsewhere).await;
    assert_eq!(refused.problem(422), "cwd_differs");
}

#[tokio::test]
async fn a_database_that_no_daemon_can_use_is_left_alone_and_rebuild_is_named() {
    let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
    let rest = daemon.rest();
    let id = rest
        .create_ready(json!({ "cwd": daemon.work_dir("a"), "title": "kept" }))
        .await;
    rest.ask(&id, "hello").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert!(daemon.stop().success());
    let whole = fs::read(daemon.database()).unwrap();
    let newer = "import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute(\"INSERT INTO _sqlx_migrations SELECT 9000, description, installed_on, success, checksum, execution_time FROM _sqlx_migrations LIMIT 1\")
db.commit()";
    for what in ["garbage", "newer"] {
        fs::write(daemon.database(), &whole).unwrap();
        if what == "garbage" {
            fs::write(
                daemon.database(),
                "no database at all, but long enough to be one".repeat(100),
            )
            .unwrap();
        } else {
            execute(newer, &daemon.database());
        }
        let before = fs::read(daemon.database()).unwrap();
        let said = daemon.log().len();
        daemon.launch();
        assert_eq!(daemon.ready_or_ended().await.unwrap_err().code(), Some(1));
        let said = daemon.log().split_off(said);
        let lines: Vec<_> = said.lines().filter(|line| line.contains("error: ")).collect();
        assert!(
            matches!(lines[..], [line] if line.contains("`trunkline rebuild`")),
            "{what}: {said}"
        );
        assert_eq!(fs::read(daemon.database()).unwrap(), before, "{what}");
        let doctor = run(&daemon, "doctor");
        assert!(String::from_utf8_lossy(&doctor.stdout).contains("trunkline rebuild"));

        let made = rebuild(&daemon);
        assert_eq!(made["sessions"], 1, "{made:#}");
        assert_eq!(
            fs::read(made["kept"].as_str().unwrap()).unwrap(),
            before,
            "{what}"
        );
        daemon.start().await;
        assert_eq!(daemon.rest().session(&id).await["title"], "kept");
        assert!(daemon.stop().success());
    }
}

#[expect(clippy::disallowed_methods, reason = "another program changes the database")]
fn execute(program: &str, database: &Path) {
    let done = Command::new("python3")
        .args(["-c", program])
        .arg(database)
        .status();
    assert!(done.unwrap().success());
}

#[tokio::test]
async fn sums_outlive_the_records_that_they_are_of_and_the_database() {
    let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    for text in ["one", "two"] {
        rest.ask(&id, text).await;
    }
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let before = rest.session(&id).await;
    assert_eq!(before["turns"], 2, "{before:#}");
    daemon.kill();
    let folder = daemon.data_dir().join("sessions").join(&id);
    let journal = folder.join("00000000000000000001.ndjson");
    let length = fs::metadata(&journal).unwrap().len();
    let cut = fs::OpenOptions::new().write(true).open(&journal).unwrap();
    cut.set_len(length / 3).unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    rest.events(&id, 0).await;
    let file = folder.join("session.json");
    let turns =
        || serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap()["totals"]["turns"].clone();
    wait_until("the file has the sums", PATIENCE, || turns() == 2).await;
    daemon.kill();
    lose(&daemon);
    daemon.start().await;
    let rest = daemon.rest();
    let after = rest.session(&id).await;
    for sum in ["turns", "cost_usd", "usage"] {
        assert_eq!(after[sum], before[sum], "{sum}: {after:#}");
    }
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "three").await;
    assert_eq!(rest.session(&id).await["turns"], 3);
    assert_eq!(rest.turns(&id).await.last().unwrap()["number"], 3);
}
