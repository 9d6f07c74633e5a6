//! Owns the rows of section S about conversations that no session of the daemon began: they are named to go on with, and
//! belong to one session.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use trunkline::domain::SessionId;

use crate::{
    fake::bed::{act, act_through, body, path, pid, plain, session},
    support::{
        daemon::TestDaemon,
        proc,
        rest::{Reply, Rest},
        wait::{PATIENCE, wait_for, wait_until},
    },
};

fn fresh_id() -> String {
    SessionId::new().to_string()
}

fn conversation(view: &Value) -> String {
    view["cli"]["session_id"].as_str().unwrap().to_owned()
}

/// A conversation that the CLI has and no session knows: the one that had it was deleted.
async fn left_behind(daemon: &TestDaemon) -> String {
    let rest = daemon.rest();
    let id = session(daemon, "begun", json!({})).await;
    rest.ask(&id, "hello").await;
    let left = conversation(&rest.session(&id).await);
    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    left
}

/// Asks for a session that goes on with a conversation.
async fn adopt(daemon: &TestDaemon, name: &str, settings: Value, conversation: &str) -> Reply {
    let create = body(daemon, name, settings, json!({ "resume": conversation }));
    daemon.rest().post("/v1/sessions?wait=ready", create).await
}

/// The ids that each start was told: of a new conversation, and of one to go on with.
fn told(dump: &std::path::Path) -> Vec<(Option<String>, Option<String>)> {
    let text = fs::read_to_string(dump).unwrap();
    let value = |start: &Value, flag: &str| {
        let args = start["argv"].as_array().unwrap();
        let found = args.iter().find_map(|arg| arg.as_str()?.strip_prefix(flag));
        found.map(ToOwned::to_owned)
    };
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .map(|start| (value(&start, "--session-id="), value(&start, "--resume=")))
        .collect()
}

async fn other_process(rest: &Rest, id: &str, process: i32) {
    wait_for("another process is idle", PATIENCE, async || {
        let view = rest.session(id).await;
        (view["state"] == "idle" && view["cli"]["pid"] != json!(process)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_conversation_that_no_session_knows_goes_on_in_a_new_session() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await;
    let rest = daemon.rest();
    let left = left_behind(&daemon).await;
    let dump = daemon.home().join("dump");
    let view = adopt(&daemon, "a", json!({ "dump": dump }), &left)
        .await
        .expect(201);
    assert_eq!(
        (&view["state"], view["turns"].as_u64()),
        (&json!("idle"), Some(0)),
        "{view:#}"
    );
    assert_eq!(conversation(&view), left);
    let id = view["id"].as_str().unwrap();
    // It is the same conversation over each later start, also before the session has had a turn in it.
    let process = pid(&rest, id).await;
    proc::signal(process, Signal::SIGKILL);
    other_process(&rest, id, process).await;
    rest.lifecycle(id, "stop", json!({})).await.expect(200);
    rest.lifecycle(id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(id, "go on").await;
    rest.lifecycle(id, "stop", json!({})).await.expect(200);
    rest.lifecycle(id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(id, "and on").await;
    assert_eq!(told(&dump), vec![(None, Some(left.clone())); 4]);
    let view = rest.session(id).await;
    assert_eq!((conversation(&view), &view["turns"]), (left.clone(), &json!(2)));

    // A fork has one of its own, also when it goes through a start that fails.
    let fork = rest.lifecycle(id, "fork?wait=ready", json!({})).await.expect(201);
    let fork = fork["id"].as_str().unwrap();
    rest.ask(fork, "another way").await;
    rest.lifecycle(fork, "stop", json!({})).await.expect(200);
    rest.lifecycle(fork, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    let own = conversation(&rest.session(fork).await);
    assert_ne!(own, left);
    // And a fresh start leaves it.
    rest.lifecycle(id, "stop", json!({})).await.expect(200);
    let fresh = rest
        .lifecycle(id, "resume?wait=ready", json!({ "fresh": true }))
        .await
        .expect(200);
    assert_ne!(conversation(&fresh), left);
    act_through(&rest, id, json!([{ "text": "from the beginning" }])).await;
}

#[tokio::test]
async fn an_adopted_session_can_be_forked_before_its_first_turn() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let left = left_behind(&daemon).await;
    let view = adopt(&daemon, "a", json!({}), &left).await.expect(201);
    let id = view["id"].as_str().unwrap();
    let fork = rest.lifecycle(id, "fork?wait=ready", json!({})).await.expect(201);
    assert_eq!(fork["parent_id"], json!(id));
    assert_ne!(conversation(&fork), left);
    rest.ask(fork["id"].as_str().unwrap(), "on").await;
}

#[tokio::test]
async fn an_unknown_conversation_is_not_found_and_leaves_no_session() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .start()
        .await;
    let rest = daemon.rest();
    let unknown = fresh_id();
    for path in ["/v1/sessions", "/v1/sessions?wait=ready"] {
        let create = body(&daemon, "a", json!({}), json!({ "resume": unknown }));
        let refused = rest.post(path, create).await;
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(
            detail.contains(&unknown) && detail.contains("No conversation found"),
            "{detail}"
        );
        assert_eq!(refused.problem(404), "conversation_not_found");
    }
    // A value that is no id of a conversation is refused before anything is started.
    let dump = daemon.home().join("dump");
    for bad in [
        format!("local_{unknown}"),
        "../x".to_owned(),
        "--help".to_owned(),
        String::new(),
    ] {
        let create = body(&daemon, "a", json!({ "dump": dump }), json!({ "resume": bad }));
        let refused = rest.post("/v1/sessions", create).await;
        assert_eq!(refused.body["field"], "options.resume", "{:#}", refused.body);
        assert_eq!(refused.problem(422), "invalid_field");
    }
    assert!(!dump.exists(), "something was started");
    assert_eq!(rest.get("/v1/sessions").await.expect(200)["items"], json!([]));
    let folders = fs::read_dir(daemon.data_dir().join("sessions")).unwrap().count();
    assert_eq!(folders, 0);
    wait_until("nothing is left", PATIENCE, || {
        daemon.session_processes().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_belongs_to_one_session() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let owner = session(&daemon, "owner", json!({})).await;
    rest.ask(&owner, "hello").await;
    let taken = conversation(&rest.session(&owner).await);
    for verb in ["resume", "stop"] {
        // First it lives, then it rests: it is the owner's either way.
        let refused = adopt(&daemon, "a", json!({}), &taken).await;
        assert_eq!(refused.body["session_id"], json!(owner), "{:#}", refused.body);
        assert_eq!(refused.problem(409), "conversation_taken");
        rest.lifecycle(&owner, verb, json!({})).await;
    }

    // When three callers ask at the same instant, one gets it.
    let left = left_behind(&daemon).await;
    let (a, b, c) = tokio::join!(
        adopt(&daemon, "a", json!({}), &left),
        adopt(&daemon, "b", json!({}), &left),
        adopt(&daemon, "c", json!({}), &left),
    );
    let mut statuses = [a.status, b.status, c.status].map(|status| status.as_u16());
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409]);
    let list = rest.get("/v1/sessions").await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "{list:#}");
    let folders = fs::read_dir(daemon.data_dir().join("sessions")).unwrap().count();
    assert_eq!(folders, 2);
    wait_until("a keeper and a CLI are there", PATIENCE, || {
        daemon.session_processes().len() == 2
    })
    .await;
}

/// The CLI itself may go over to another conversation.
#[tokio::test]
async fn two_sessions_that_come_to_one_conversation_never_run_at_once() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let first = session(&daemon, "first", json!({})).await;
    rest.ask(&first, "hello").await;
    let shared = conversation(&rest.session(&first).await);
    let second = session(&daemon, "second", json!({})).await;
    act_through(
        &rest,
        &second,
        json!([{ "set_session_id": shared }, { "text": "over there" }]),
    )
    .await;
    let own = conversation(&rest.session(&second).await);
    let path = format!("/v1/sessions/{second}/messages?wait=result");
    let message = json!({ "text": "where are you?", "uuid": fresh_id() });
    let refused = rest.post(&path, message.clone()).await;
    assert_eq!(refused.problem(409), "conversation_taken");
    let view = rest.in_state(&second, &["failed"]).await;
    assert_eq!(conversation(&view), own);
    assert_ne!(own, shared);
    // The message is kept for the next process, and none comes by itself: nobody waits for its turn.
    assert_eq!(rest.post(&path, message).await.problem(409), "conversation_taken");
    rest.ask(&first, "still mine").await;
}

/// Stands for a CLI in somebody's terminal.
struct ByHand(Child);

impl Drop for ByHand {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[expect(clippy::disallowed_methods, reason = "it stands for what a person does")]
fn by_hand(conversation: &str) -> ByHand {
    // The program is what counts, beside its arguments.
    let child = Command::new("sh")
        .arg0("claude")
        .args(["-c", "read -r line", "claude", "--resume", conversation])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .spawn();
    ByHand(child.unwrap())
}

#[tokio::test]
async fn a_conversation_that_somebody_has_open_is_not_adopted() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let left = left_behind(&daemon).await;
    let other = by_hand(&left);
    let refused = adopt(&daemon, "a", json!({}), &left).await;
    assert_eq!(refused.body["pid"], other.0.id(), "{:#}", refused.body);
    assert_eq!(refused.problem(409), "conversation_in_use");
    assert_eq!(rest.get("/v1/sessions").await.expect(200)["items"], json!([]));
    drop(other);
    adopt(&daemon, "a", json!({}), &left).await.expect(201);
}

/// A session that has left a conversation does not hold it, and its end does not harm who has it now.
#[tokio::test]
async fn a_conversation_that_was_left_can_be_adopted() {
    let (daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    let left = conversation(&rest.session(&id).await);
    rest.ask(&id, "/clear").await;
    rest.ask(&id, "fresh").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let view = adopt(&daemon, "b", json!({}), &left).await.expect(201);
    let adopted = view["id"].as_str().unwrap();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    act(&rest, &id, json!([{ "text": "both work" }])).await;
    rest.ask(adopted, "both work").await;
    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    rest.ask(adopted, "still here").await;
    let leases = fs::read_dir(daemon.data_dir().join("leases")).unwrap();
    let held = leases
        .flatten()
        .filter(|lease| lease.file_name().to_string_lossy().contains(&left));
    assert_eq!(held.count(), 1, "its lease went with the other session");
    let events = rest.get(&path(adopted, "turns")).await.expect(200);
    assert_eq!(events["items"].as_array().unwrap().len(), 2);
}

/// The start waits in the queue when the daemon dies: the next one goes on with the conversation, not with another.
#[tokio::test]
async fn an_adoption_that_waits_for_its_turn_outlives_the_daemon() {
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_LIMITS_PARALLEL_STARTS", "1")
        .start()
        .await;
    let rest = daemon.rest();
    let left = left_behind(&daemon).await;
    let gate = daemon.home().join("gate");
    rest.create(body(
        &daemon,
        "first",
        json!({ "init": { "wait_file": gate } }),
        json!({}),
    ))
    .await;
    let mut create = body(&daemon, "a", json!({}), json!({ "resume": left }));
    create["prompt"] = json!("go on");
    let request = rest.builder(reqwest::Method::POST, "/v1/sessions").json(&create);
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { request.send().await.is_ok() });
    let of_left = async |rest: &Rest| {
        let list = rest.get("/v1/sessions").await.expect(200);
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .find(|view| view["cli"]["session_id"] == left.as_str())
            .cloned()
    };
    wait_for("it waits for its turn", PATIENCE, async || {
        let view = of_left(&rest).await?;
        view["start_queue_position"].is_u64().then_some(())
    })
    .await;
    daemon.kill();
    waiting.join_all().await;
    fs::write(gate, "").unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    let view = wait_for("its prompt is answered", PATIENCE, async || {
        let view = of_left(&rest).await?;
        (view["turns"] == 1 && view["state"] == "idle").then_some(view)
    })
    .await;
    let runs = rest
        .get(&path(view["id"].as_str().unwrap(), "runs"))
        .await
        .expect(200);
    assert_eq!(runs["items"][0]["mode"], "resume", "{runs:#}");
}
