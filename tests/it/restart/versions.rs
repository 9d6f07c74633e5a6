//! Owns keepers of other versions than the daemon: one before it, frozen in `tests/programs/keeper_v1.py`, and one that nobody
//! here knows.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    restart::journal,
    support::{
        daemon::TestDaemon,
        proc,
        programs::repository,
        wait::{PATIENCE, pass, wait_until},
    },
};

/// A session whose process is kept by the other keeper, and no daemon.
pub(crate) struct Bed {
    pub(crate) daemon: TestDaemon,
    pub(crate) session: String,
    pub(crate) keeper: Child,
    /// The id of the run that the other keeper keeps. Tests run side by side, so each has its own.
    pub(crate) run: String,
    pub(crate) cli: i32,
}

impl Drop for Bed {
    fn drop(&mut self) {
        // It is gone, save after a failure.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Makes a session with a turn, ends its process, and starts its next one below a keeper of `version`.
/// The keeper does nothing while the file `frozen` is in the daemon's HOME; if that says `hang up` it has hung up before, and if it
/// says `turn away` it hangs up on all who connect too.
#[expect(clippy::disallowed_methods, reason = "starts a program of the test")]
pub(crate) async fn bed(version: u32) -> Bed {
    let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
    let rest = daemon.rest();
    let dir = daemon.work_dir("a");
    let session = rest.create_ready(json!({ "cwd": dir })).await;
    rest.ask(&session, "hello").await;
    let view = rest.session(&session).await;
    let pid = view["cli"]["pid"].as_i64().unwrap();
    let conversation = view["cli"]["session_id"].as_str().unwrap().to_owned();
    let split = |name: &str| -> Vec<String> {
        let bytes = fs::read(format!("/proc/{pid}/{name}")).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        text.split_terminator('\0').map(str::to_owned).collect()
    };
    let argv: Vec<String> = split("cmdline")
        .into_iter()
        .map(|it| it.replace("--session-id=", "--resume="))
        .collect();
    assert!(
        argv.iter()
            .any(|it| it.contains(&format!("--resume={conversation}"))),
        "{argv:?}"
    );
    let mut env: BTreeMap<String, String> = split("environ")
        .iter()
        .filter_map(|it| it.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let run = Uuid::now_v7().to_string();
    env.insert("TRUNKLINE_RUN".into(), run.clone());
    assert_eq!(daemon.stop().code(), Some(0));

    let records = journal::records(&daemon, &session);
    let mut start_note = journal::own(&records, "run_started")[0].clone();
    start_note["run_id"] = json!(run);
    start_note["mode"] = json!("resume");
    start_note["turns"] = json!(1);
    let initialize = records.iter().find(|it| it["src"] == "client").unwrap()["data"].clone();
    assert_eq!(initialize["request"]["subtype"], "initialize");
    let folder = daemon.data_dir().join("sessions").join(&session);
    let job = json!({
        "version": version, "session": session, "run": run, "argv": argv, "env": env, "cwd": dir,
        "journal_dir": folder, "identity_file": folder.join("keeper.json"), "heard": daemon.home().join("heard"),
        "lease_file": daemon.data_dir().join("leases").join(&conversation), "socket": daemon.home().join("k"),
        "start_note": start_note, "first_lines": [initialize],
        "frozen_while": daemon.home().join("frozen"),
    });
    let mut keeper = Command::new("python3")
        .arg(repository("tests/programs/keeper_v1.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    keeper
        .stdin
        .take()
        .unwrap()
        .write_all(job.to_string().as_bytes())
        .unwrap();
    let mut said = String::new();
    let mut stdout = BufReader::new(keeper.stdout.take().unwrap());
    stdout.read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    let cli = proc::with_env("TRUNKLINE_RUN", &run)[0].pid;
    // The CLI says nothing more by itself then.
    wait_until("initialize is answered", PATIENCE, || {
        let text = daemon.journal(&session);
        text.matches("\"control_response\"").count() == 2
    })
    .await;
    Bed {
        daemon,
        session,
        keeper,
        run,
        cli,
    }
}

/// The frames that the keeper heard, one JSON object each.
fn heard(daemon: &TestDaemon) -> Vec<Value> {
    let text = fs::read_to_string(daemon.home().join("heard")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_of_the_version_before_is_attached_to_read_written_to_and_stopped() {
    let mut bed = bed(1).await;
    bed.daemon.start().await;
    let (daemon, session) = (&bed.daemon, bed.session.as_str());
    let rest = daemon.rest();
    let view = rest.in_state(session, &["idle"]).await;
    assert_eq!(view["cli"]["pid"], bed.cli, "{view:#}");
    let result = rest.ask(session, "can you hear me?").await;
    assert_eq!(result["turn"]["number"], 2, "{result:#}");
    let stopped = rest.lifecycle(session, "stop", json!({})).await.expect(200);
    assert_eq!(
        (&stopped["state"], &stopped["turns"]),
        (&json!("stopped"), &json!(2)),
        "{stopped:#}"
    );
    assert!(!proc::is_alive(bed.cli));

    let records = journal::records(daemon, session);
    let exits = journal::own(&records, "run_exited");
    assert_eq!(
        (&exits[1]["run_id"], &exits[1]["intent"]),
        (&json!(bed.run), &json!("stop"))
    );
    assert_eq!(exits.len(), 2);
    let runs = rest
        .get(&format!("/v1/sessions/{session}/runs"))
        .await
        .expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 2, "{runs:#}");
    // It was spoken to in its own language, and in no word of a later one.
    let heard = heard(daemon);
    assert_eq!(heard[0], json!({ "hello": 1 }));
    assert!(
        heard
            .iter()
            .filter_map(|it| it["tag"].as_u64())
            .all(|tag| tag <= 7),
        "{heard:?}"
    );
    // The next process is kept by this program.
    rest.lifecycle(session, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(session, "and now?").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_of_a_version_that_nobody_knows_is_named_left_alone_and_can_be_stopped() {
    let mut bed = bed(9).await;
    bed.daemon.start().await;
    let (daemon, session) = (&bed.daemon, bed.session.as_str());
    let rest = daemon.rest();
    let before = journal::records(daemon, session).len();
    let view = rest.session(session).await;
    assert_eq!(view["reason"]["code"], "keeper_incompatible", "{view:#}");
    assert!(
        view["reason"]["detail"].as_str().unwrap().contains("0.0.9"),
        "{view:#}"
    );
    let list = rest.get("/v1/sessions").await.expect(200);
    assert_eq!(
        list["items"][0]["reason"]["code"], "keeper_incompatible",
        "{list:#}"
    );
    for path in ["messages", "resume", "interrupt"] {
        let body = if path == "messages" {
            json!({ "text": "hello?" })
        } else {
            json!({})
        };
        let refused = rest.post(&format!("/v1/sessions/{session}/{path}"), body).await;
        assert_eq!(refused.body["link_version"], 9, "{:#}", refused.body);
        assert_eq!(refused.problem(409), "keeper_incompatible");
    }
    assert!(proc::is_alive(bed.cli), "it was left alone");
    assert_eq!(
        proc::with_env("TRUNKLINE_RUN", &bed.run).len(),
        1,
        "and has no double"
    );
    assert_eq!(journal::records(daemon, session).len(), before);
    assert!(
        heard(daemon).iter().all(|it| it["tag"].is_null()),
        "nothing was asked of it but whether it talks"
    );

    let stopped = rest.lifecycle(session, "stop", json!({})).await.expect(200);
    assert_eq!(
        (&stopped["state"], &stopped["reason"]),
        (&json!("stopped"), &Value::Null),
        "{stopped:#}"
    );
    wait_until("the process is gone", PATIENCE, || !proc::is_alive(bed.cli)).await;
    rest.lifecycle(session, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(session, "there again?").await;
    let records = journal::records(daemon, session);
    assert_eq!(journal::own(&records, "run_started").len(), 3);
}

/// Older keepers go on with a file that was taken away. Nobody reads it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_keeper_without_its_journal_gets_no_stream_of_notes() {
    let mut bed = bed(1).await;
    let folder = bed.daemon.data_dir().join("sessions").join(&bed.session);
    let file = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|it| it == "ndjson"))
        .unwrap();
    fs::rename(file, bed.daemon.data_dir().join("elsewhere")).unwrap();
    bed.daemon.start().await;
    let (daemon, session) = (&bed.daemon, bed.session.as_str());
    let said = || {
        let log = daemon.log();
        log.matches("records are missing from a journal").count()
    };
    wait_until("it is said", PATIENCE, || said() > 0).await;
    // A stream of them would be thousands by then.
    pass(Duration::from_secs(2)).await;
    assert!(said() <= 2, "{}", daemon.log());
    let notes = heard(daemon).iter().filter(|it| it["tag"] == 3).count();
    assert!(notes <= 10, "{notes} notes");
    let rest = daemon.rest();
    rest.lifecycle(session, "stop", json!({})).await.expect(200);
    assert!(!proc::is_alive(bed.cli));
}
