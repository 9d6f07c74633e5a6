//! Owns what a version before left behind, in `tests/fixtures/before`, and what its clients say: both are still understood.
#![expect(
    clippy::disallowed_methods,
    reason = "a client names its messages and requests"
)]

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    daemon::TestDaemon,
    programs::{fake_prompt, repository},
    rest::Rest,
    wait::{PATIENCE, wait_until},
};

/// The token of its data directory.
const TOKEN: &str = "an-earlier-daemon-made-this-token-for-itself";

/// Makes a database of the statements on its input.
const LOAD: &str = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.stdin.read())";

/// A file of the fixture, with the directory of this test in the place of its own.
fn text(path: &Path, root: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.replace("@ROOT@", root.to_str().unwrap())
}

/// Copies a folder of text files.
fn copy(from: &Path, to: &Path, root: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to, root);
        } else {
            fs::write(to, text(&path, root)).unwrap();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "starts a program of the test")]
fn load(database: &Path, statements: &str) {
    use std::io::Write as _;
    let mut python = Command::new("python3")
        .args(["-c", LOAD])
        .arg(database)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    python
        .stdin
        .take()
        .unwrap()
        .write_all(statements.as_bytes())
        .unwrap();
    assert!(python.wait().unwrap().success());
}

/// The text with other ids: each is the same for the others of the same copy.
fn with_other_ids(text: &str, number: usize) -> String {
    let is_id = |at: usize| {
        let id = text.get(at..at + 36);
        id.is_some_and(|id| id.parse::<uuid::Uuid>().is_ok())
    };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if is_id(at) {
            out += &text[at..at + 28];
            write!(out, "{number:08x}").unwrap();
            at += 36;
        } else {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            out += &rest[..next];
            at += next;
        }
    }
    out
}

/// A daemon on the data of the version before.
async fn updated() -> TestDaemon {
    updated_with(1).await
}

/// As [`updated`], with its sessions many times over.
async fn updated_with(copies: usize) -> TestDaemon {
    let mut daemon = TestDaemon::with_fake().start().await;
    assert!(daemon.stop().success());
    let (data, home) = (daemon.data_dir(), daemon.home());
    let root = home.parent().unwrap();
    let fixture = repository("tests/fixtures/before");
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir(&data).unwrap();
    copy(&fixture.join("sessions"), &data.join("sessions"), root);
    copy(&fixture.join("conversations"), &home.join(".claude-fake"), root);
    for name in ["one", "two", "bad"] {
        daemon.work_dir(name);
    }
    let mut statements = text(&fixture.join("database.sql"), root);
    let apart = ["_sqlx_migrations", "probe", "sqlite_stat1", "idempotency_keys"];
    let of_no_session = |row: &str| {
        apart
            .iter()
            .any(|table| row.starts_with(&format!("INSERT INTO \"{table}\"")))
    };
    // A text may have lines.
    let rows: String = statements
        .split(";\n")
        .filter(|row| row.starts_with("INSERT INTO ") && !of_no_session(row))
        .fold(String::new(), |rows, row| rows + row + ";\n");
    statements += "\nBEGIN;\n";
    for number in 1..copies {
        statements += &with_other_ids(&rows, number);
        for entry in fs::read_dir(fixture.join("sessions")).unwrap() {
            let folder = entry.unwrap();
            let id = with_other_ids(folder.file_name().to_str().unwrap(), number);
            let to = data.join("sessions").join(id);
            fs::create_dir(&to).unwrap();
            for file in fs::read_dir(folder.path()).unwrap() {
                let file = file.unwrap();
                let journal = with_other_ids(&text(&file.path(), root), number);
                fs::write(to.join(file.file_name()), journal).unwrap();
            }
        }
    }
    statements += "COMMIT;\n";
    load(&daemon.database(), &statements);
    fs::copy(fixture.join("mark"), data.join("mark")).unwrap();
    fs::write(data.join("token"), format!("{TOKEN}\n")).unwrap();
    daemon.start().await;
    daemon
}

/// Asserts that an answer has what the version before answered, and perhaps more.
fn has(now: &Value, before: &Value, place: &str) {
    match (now, before) {
        (Value::Object(now), Value::Object(before)) => {
            for (name, before) in before {
                let now = now.get(name).unwrap_or_else(|| panic!("{place}/{name} is gone"));
                has(now, before, &format!("{place}/{name}"));
            }
        }
        (Value::Array(now), Value::Array(before)) => {
            assert_eq!(now.len(), before.len(), "{place}: {now:#?}");
            for (number, (now, before)) in now.iter().zip(before).enumerate() {
                has(now, before, &format!("{place}/{number}"));
            }
        }
        _ => assert_eq!(now, before, "{place}"),
    }
}

#[tokio::test]
async fn a_data_directory_of_the_version_before_is_as_it_was() {
    let daemon = updated().await;
    let rest = daemon.rest();
    assert_eq!(daemon.token(), TOKEN);
    let root = daemon.home().parent().unwrap().to_owned();
    let fixture = repository("tests/fixtures/before");
    let answers: BTreeMap<String, Value> =
        serde_json::from_str(&text(&fixture.join("answers.json"), &root)).unwrap();
    assert!(answers.len() > 20, "{:?}", answers.keys());
    for (path, before) in &answers {
        has(&rest.get(path).await.expect(200), before, path);
    }
    let mut sessions = BTreeMap::new();
    for entry in fs::read_dir(fixture.join("sessions")).unwrap() {
        let folder = entry.unwrap();
        let id = folder.file_name().into_string().unwrap();
        let before = text(&folder.path().join("00000000000000000001.ndjson"), &root);
        let path = format!("/v1/sessions/{id}/events");
        let request = rest
            .builder(Method::GET, &path)
            .header("accept", "application/x-ndjson");
        let now = request.send().await.unwrap().text().await.unwrap();
        assert_eq!(now, before, "{id}");
        assert_eq!(daemon.journal(&id), before, "{id}");
        let view = rest.session(&id).await;
        sessions.insert(view["title"].as_str().unwrap_or_default().to_owned(), id);
    }

    // They go on where they were.
    let story = &sessions["A story that was renamed"];
    rest.lifecycle(story, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    let before = rest.session(story).await;
    rest.ask(story, &fake_prompt(&json!([{"dump": 1}, {"text": "again"}])))
        .await;
    let after = rest.session(story).await;
    assert_eq!(after["turns"], before["turns"].as_u64().unwrap() + 1);
    assert!(
        after["cost_usd"].as_f64() > before["cost_usd"].as_f64(),
        "{after:#}"
    );
    let records = rest.events(story, before["head_seq"].as_u64().unwrap()).await;
    let dump = records
        .iter()
        .find(|it| it["data"]["type"] == "fake_dump")
        .unwrap();
    let argv = dump["data"]["argv"].to_string();
    for part in ["--resume=", "--model=haiku", "/work/two"] {
        assert!(argv.contains(part), "{part}: {argv}");
    }
    let parked = &sessions["Parked"];
    rest.ask(parked, "and you?").await;
    assert_eq!(rest.session(parked).await["state"], "idle");
}

/// The requests of the commands of the version before, in their order: the method, the path below a session, the body, and the status
/// that they expect with members that they read.
const REQUESTS: [(&str, &str, &str, u16, &[&str]); 17] = [
    (
        "GET",
        "",
        "",
        200,
        &[
            "id",
            "state",
            "cwd",
            "model",
            "permission_mode",
            "turns",
            "cost_usd",
            "last_prompt",
        ],
    ),
    ("GET", "/approvals?state=pending", "", 200, &["items"]),
    ("POST", "/messages", r#"{"text":"hello"}"#, 202, &["uuid", "seq"]),
    (
        "POST",
        "/messages?wait=result",
        r#"{"text":"and again"}"#,
        200,
        &["uuid", "seq", "turn", "result"],
    ),
    ("POST", "/interrupt", r#"{"cancel_queued":false}"#, 200, &[]),
    ("PUT", "/model", r#"{"model":"opus"}"#, 200, &[]),
    ("PUT", "/permission_mode", r#"{"mode":"plan"}"#, 200, &[]),
    ("POST", "/control", r#"{"subtype":"mcp_status"}"#, 200, &[]),
    (
        "PATCH",
        "",
        r#"{"title":"new","labels":{"a":"b"}}"#,
        200,
        &["title", "labels"],
    ),
    ("GET", "/turns", "", 200, &["items", "next_cursor"]),
    ("GET", "/runs", "", 200, &["items", "next_cursor"]),
    ("GET", "/messages?limit=10", "", 200, &["items", "next_cursor"]),
    ("GET", "/rules", "", 200, &["items"]),
    ("POST", "/fork", "{}", 201, &["id", "parent_id"]),
    ("POST", "/park", "{}", 200, &["state", "parked"]),
    ("POST", "/stop", "{}", 200, &["state"]),
    ("POST", "/resume", "{}", 200, &["state"]),
];

async fn send(rest: &Rest, method: &str, path: &str, body: &str, status: u16) -> Value {
    let mut request = rest.builder(method.parse().unwrap(), path);
    if !body.is_empty() {
        request = request
            .header("content-type", "application/json")
            .body(body.to_owned());
    }
    if method == "POST" {
        request = request.header("idempotency-key", uuid::Uuid::now_v7().to_string());
    }
    let reply = rest.send(request).await;
    assert_eq!(reply.status.as_u16(), status, "{method} {path}: {:#}", reply.body);
    reply.body
}

#[tokio::test]
async fn requests_of_clients_of_the_version_before_are_understood() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    send(&rest, "GET", "/readyz", "", 200).await;
    let cwd = daemon.work_dir("w").display().to_string();
    let uuid = uuid::Uuid::now_v7();
    let body = json!({"cwd": cwd, "prompt": {"text": "hello", "uuid": uuid}, "options": {"model": "haiku"}});
    let made = send(&rest, "POST", "/v1/sessions", &body.to_string(), 201).await;
    let id = made["id"].as_str().unwrap();
    rest.in_state(id, &["idle"]).await;
    for (method, path, body, status, members) in REQUESTS {
        let answer = send(&rest, method, &format!("/v1/sessions/{id}{path}"), body, status).await;
        for member in members {
            assert!(
                answer.get(member).is_some(),
                "{method} {path}: {member}: {answer:#}"
            );
        }
        rest.in_state(id, &["idle", "parked", "stopped"]).await;
    }
    for (path, member) in [
        ("/v1/sessions?limit=50", "/items/0/id"),
        ("/v1/approvals?limit=50&state=pending", "/items"),
        ("/v1/usage?group_by=day", "/items/0/cost_usd"),
        ("/v1/rules", "/items"),
    ] {
        let answer = send(&rest, "GET", path, "", 200).await;
        assert!(answer.pointer(member).is_some(), "{path}: {answer:#}");
    }

    // Its frames, as its clients send and read them.
    let mut client = daemon.attach(id, None).await;
    let snapshot = client.next().await;
    for member in [
        "type",
        "session",
        "pending_approvals",
        "head_seq",
        "connection_id",
    ] {
        assert!(snapshot.get(member).is_some(), "{member}: {snapshot:#}");
    }
    assert_eq!(snapshot["type"], "trunkline.snapshot");
    let ask = json!([{"ask": {"tool": "Bash", "input": {"command": "make"}}}, {"text": "made"}]);
    let message = json!({"role": "user", "content": fake_prompt(&ask)});
    let uuid = uuid::Uuid::now_v7();
    client
        .send(&json!({"type": "user", "message": message, "uuid": uuid}))
        .await;
    let ack = client
        .find("an ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    assert_eq!(ack["uuid"], json!(uuid), "{ack:#}");
    let asked = client.cli_line("control_request").await;
    let asked = asked.get("data").unwrap_or(&asked);
    let response = json!({"behavior": "allow", "updatedInput": asked["request"]["input"]});
    let response = json!({"subtype": "success", "request_id": asked["request_id"], "response": response});
    client
        .send(&json!({"type": "control_response", "response": response}))
        .await;
    client.cli_line("result").await;
    let request = json!({"subtype": "set_model", "model": "sonnet"});
    client
        .send(&json!({"type": "control_request", "request_id": "m1", "request": request}))
        .await;
    let answer =
        |frame: &Value| frame["type"] == "control_response" && frame["response"]["request_id"] == "m1";
    client.find("an answer under the client's own id", answer).await;
    client.send(&json!({"type": "trunkline.ping", "id": "p"})).await;
    client
        .find("a pong", |frame| {
            frame["type"] == "trunkline.pong" && frame["id"] == "p"
        })
        .await;
    client.close().await;
    send(&rest, "DELETE", &format!("/v1/sessions/{id}"), "", 204).await;
}

/// The database is migrated before the first answer; the files of the sessions come while the daemon works.
#[tokio::test]
async fn many_sessions_of_the_version_before_get_their_files_while_the_daemon_answers() {
    const COPIES: usize = 40;
    let daemon = updated_with(COPIES).await;
    let rest = daemon.rest();
    let list = rest.get("/v1/sessions?limit=500").await.expect(200);
    let sessions = list["items"].as_array().unwrap();
    assert_eq!(sessions.len(), 5 * COPIES);
    let (titled, of_forks): (Vec<_>, Vec<_>) = sessions.iter().partition(|it| it["parent_id"].is_null());
    assert_eq!((titled.len(), of_forks.len()), (4 * COPIES, COPIES));
    assert!(of_forks.iter().all(|fork| fork["parent_deleted"] == false));
    let folder = daemon.data_dir().join("sessions");
    wait_until("all sessions have their files", PATIENCE, || {
        sessions.iter().all(|session| {
            let id = session["id"].as_str().unwrap();
            folder.join(id).join("session.json").exists()
        })
    })
    .await;
    rest.get("/readyz").await.expect(200);
}
