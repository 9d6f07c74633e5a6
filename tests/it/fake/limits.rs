//! Owns the limits: how many processes there may be, how many start at a time, and the queue that starts wait in.

use std::{collections::BTreeSet, fs, path::PathBuf};

use futures_util::future::join_all;
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::{
    fake::bed::{body, of_type, path, records, session},
    support::{
        daemon::{TestDaemon, TestDaemonBuilder},
        proc,
        rest::{Reply, Rest},
        wait::{PATIENCE, wait_for, wait_until},
    },
};

fn limited(limits: &[(&str, u32)]) -> TestDaemonBuilder {
    limits
        .iter()
        .fold(TestDaemon::with_fake(), |daemon, (key, value)| {
            daemon.env(format!("TRUNKLINE_LIMITS_{key}"), value.to_string())
        })
}

/// A POST and the `Retry-After` of its answer.
async fn post(rest: &Rest, path: &str, body: Value) -> (Reply, Option<u64>) {
    let response = rest.builder(Method::POST, path).json(&body).send().await.unwrap();
    let after = response.headers().get(header::RETRY_AFTER);
    let after = after.map(|value| value.to_str().unwrap().parse().unwrap());
    let content_type = response.headers()[header::CONTENT_TYPE]
        .to_str()
        .unwrap()
        .to_owned();
    let reply = Reply {
        status: response.status(),
        content_type,
        body: response.json().await.unwrap(),
    };
    (reply, after)
}

/// A session whose CLI gets ready once the file is there, and that file.
async fn held_start(daemon: &TestDaemon, name: &str) -> (String, PathBuf) {
    let gate = daemon.home().join(format!("gate-{name}"));
    let body = body(daemon, name, json!({ "init": { "wait_file": gate } }), json!({}));
    let view = daemon.rest().create(body).await;
    (id(&view), gate)
}

fn id(view: &Value) -> String {
    view["id"].as_str().unwrap().to_owned()
}

async fn position(rest: &Rest, session: &str) -> Option<u64> {
    rest.session(session).await["start_queue_position"].as_u64()
}

async fn all(rest: &Rest) -> Vec<Value> {
    let page = rest.get("/v1/sessions?limit=500").await.expect(200);
    page["items"].as_array().unwrap().clone()
}

/// The prompt was taken, so it is not lost with the start that it waited for.
#[tokio::test]
async fn the_prompt_of_a_start_that_is_stopped_in_the_queue_comes_with_the_resume() {
    let daemon = limited(&[("PARALLEL_STARTS", 1)]).start().await;
    let rest = daemon.rest();
    let (_first, gate) = held_start(&daemon, "first").await;
    let mut create = body(&daemon, "second", json!({}), json!({}));
    create["prompt"] = json!("do not forget me");
    let second = id(&rest.create(create).await);
    assert_eq!(position(&rest, &second).await, Some(1));
    rest.lifecycle(&second, "stop", json!({})).await.expect(200);
    assert_eq!(rest.session(&second).await["state"], "stopped");
    fs::write(gate, "").unwrap();
    rest.lifecycle(&second, "resume", json!({})).await.expect(200);
    wait_for("the prompt is answered", PATIENCE, async || {
        let view = rest.session(&second).await;
        (view["turns"] == 1).then_some(())
    })
    .await;
    let records = records(&rest, &second).await;
    assert_eq!(of_type(&records, "client", "user").len(), 1, "{records:#?}");
    // It came once: not again with the next start.
    rest.lifecycle(&second, "stop", json!({})).await.expect(200);
    rest.lifecycle(&second, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    assert_eq!(rest.session(&second).await["turns"], 1);
}

/// A daemon that ends starts none of its queue at its end, and its earlier starts count for the next one.
#[tokio::test]
async fn a_daemon_that_is_replaced_starts_no_more_at_a_time_than_may_start() {
    let mut daemon = limited(&[("PARALLEL_STARTS", 1)])
        .env("TRUNKLINE_STOP_ON_SHUTDOWN", "detach")
        .start()
        .await;
    let mut gates = Vec::new();
    let mut sessions = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let (session, gate) = held_start(&daemon, name).await;
        sessions.push(session);
        gates.push(gate);
    }
    assert!(daemon.stop().success());
    daemon.start().await;
    let rest = daemon.rest();
    let starting = async |rest: &Rest| {
        let views = all(rest).await;
        views.iter().filter(|view| !view["cli"]["pid"].is_null()).count()
    };
    assert_eq!(starting(&rest).await, 1);
    assert_eq!(position(&rest, &sessions[3]).await, Some(3));
    for gate in gates {
        fs::write(gate, "").unwrap();
    }
    for session in &sessions {
        rest.in_state(session, &["idle"]).await;
        rest.lifecycle(session, "stop", json!({})).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_creates_at_once_start_so_many_at_a_time_and_none_is_lost() {
    const STARTS: usize = 20;
    const QUEUED: usize = 40;
    let daemon = limited(&[
        ("PARALLEL_STARTS", 20),
        ("QUEUED_STARTS", 40),
        ("LIVE_PROCESSES", 200),
    ])
    .start()
    .await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let mut create = body(&daemon, "a", json!({ "init": { "wait_file": gate } }), json!({}));
    create["prompt"] = json!("hello");
    let creates = (0..200).map(|_| post(&rest, "/v1/sessions", create.clone()));
    let mut made = BTreeSet::new();
    let mut refused = 0;
    for (reply, retry_after) in join_all(creates).await {
        if reply.status == 201 {
            assert_eq!(reply.body["state"], "starting", "{:#}", reply.body);
            made.insert(id(&reply.body));
        } else {
            assert_eq!(retry_after, Some(5));
            assert_eq!(reply.body["limit"], "limits.queued_starts");
            assert_eq!(reply.body["limit_value"], QUEUED);
            assert_eq!(reply.problem(503), "start_queue_full");
            refused += 1;
        }
    }
    // Nothing gets ready yet, so nothing is left to chance.
    assert_eq!((made.len(), refused), (STARTS + QUEUED, 200 - STARTS - QUEUED));
    let views = all(&rest).await;
    assert_eq!(views.iter().map(id).collect::<BTreeSet<_>>(), made);
    let positions: Vec<u64> = views
        .iter()
        .filter_map(|view| view["start_queue_position"].as_u64())
        .collect();
    assert_eq!(positions.len(), QUEUED);
    assert_eq!(
        positions.into_iter().collect::<BTreeSet<_>>(),
        (1..=QUEUED as u64).collect()
    );
    let with_process = |views: &[Value]| views.iter().filter(|view| !view["cli"]["pid"].is_null()).count();
    assert_eq!(with_process(&views), STARTS);

    fs::write(&gate, "").unwrap();
    wait_for("every session to have its answer", PATIENCE * 3, async || {
        let views = all(&rest).await;
        let done = |view: &Value| view["state"] == "idle" && view["turns"] == 1;
        views.iter().all(done).then_some(())
    })
    .await;
    // A start lasts from the record that asks for it to the answer to `initialize`.
    let mut edges = Vec::new();
    for session in &made {
        let records = records(&rest, session).await;
        let at = |kind: &str| {
            let record = records.iter().find(|record| record["data"]["type"] == kind);
            record.unwrap()["ts"].as_str().unwrap().to_owned()
        };
        edges.push((at("run_started"), 1));
        edges.push((at("control_response"), -1));
    }
    edges.sort();
    let mut starting = 0;
    for (at, step) in edges {
        starting += step;
        assert!(starting <= 20, "{starting} at {at}");
    }
}

#[tokio::test]
async fn starts_wait_in_their_order_show_their_place_and_can_be_taken_out() {
    let daemon = limited(&[("PARALLEL_STARTS", 1)]).start().await;
    let rest = daemon.rest();
    let (first, gate) = held_start(&daemon, "first").await;
    let mut waiting = Vec::new();
    for name in ["b", "c", "d", "e"] {
        let mut create = body(&daemon, name, json!({}), json!({}));
        create["prompt"] = json!("hello");
        let view = rest.create(create).await;
        assert_eq!(view["state"], "starting");
        assert_eq!(view["start_queue_position"], waiting.len() + 1);
        assert_eq!(view["cli"]["pid"], Value::Null);
        waiting.push(id(&view));
    }
    let [b, c, d, e] = [0, 1, 2, 3].map(|place: usize| waiting[place].clone());
    assert_eq!(position(&rest, &first).await, None);
    let mut client = daemon.attach(&b, None).await;
    let snapshot = client.next().await;
    assert_eq!(snapshot["session"]["start_queue_position"], 1, "{snapshot:#}");

    let view = rest.lifecycle(&c, "stop", json!({})).await.expect(200);
    assert_eq!(
        (&view["state"], &view["reason"]),
        (&json!("stopped"), &Value::Null)
    );
    assert_eq!(view["start_queue_position"], Value::Null);
    rest.delete(&format!("/v1/sessions/{e}")).await.expect(204);
    assert_eq!(position(&rest, &d).await, Some(2));
    // A resume is a start like others; a second one finds it.
    let view = rest.lifecycle(&c, "resume", json!({})).await.expect(200);
    assert_eq!(view["start_queue_position"], 3);
    let second = rest.lifecycle(&c, "resume", json!({})).await;
    assert_eq!(second.problem(409), "session_already_live");

    fs::write(gate, "").unwrap();
    for session in [&b, &d] {
        wait_for("the prompt to be answered", PATIENCE, async || {
            let view = rest.session(session).await;
            (view["turns"] == 1 && view["state"] == "idle").then_some(())
        })
        .await;
    }
    rest.in_state(&c, &["idle"]).await;
    client
        .until("the run", |frame| frame["data"]["type"] == "run_started")
        .await;
    let mut started = Vec::new();
    for session in [&first, &b, &d, &c] {
        let records = records(&rest, session).await;
        let run = records
            .iter()
            .find(|it| it["data"]["type"] == "run_started")
            .unwrap();
        started.push(run["ts"].as_str().unwrap().to_owned());
    }
    assert!(started.is_sorted(), "{started:?}");
    let of_c = records(&rest, &c).await;
    assert_eq!(of_type(&of_c, "daemon", "stop_requested").len(), 1);
    assert_eq!(of_type(&of_c, "daemon", "run_started").len(), 1);
    assert_eq!(rest.get(&format!("/v1/sessions/{e}")).await.status, 404);
}

#[tokio::test]
async fn over_the_limit_of_processes_every_start_is_refused_until_one_ends() {
    let daemon = limited(&[("LIVE_PROCESSES", 2)]).start().await;
    let rest = daemon.rest();
    let first = session(&daemon, "a", json!({})).await;
    rest.ask(&first, "hello").await;
    let second = session(&daemon, "b", json!({})).await;
    rest.lifecycle(&second, "stop", json!({})).await.expect(200);
    let third = session(&daemon, "c", json!({})).await;
    let create = body(&daemon, "d", json!({}), json!({}));
    for (path, body) in [
        ("/v1/sessions".to_owned(), create.clone()),
        (path(&second, "resume"), json!({})),
        (path(&first, "fork"), json!({})),
    ] {
        let (reply, retry_after) = post(&rest, &path, body).await;
        assert_eq!(retry_after, Some(5), "{path}");
        assert_eq!(reply.body["limit"], "limits.live_processes");
        assert_eq!(reply.body["limit_value"], 2);
        assert_eq!(reply.body["retryable"], true);
        assert_eq!(reply.body["side_effect_possible"], false);
        assert_eq!(reply.problem(429), "too_many_sessions", "{path}");
    }
    assert_eq!(all(&rest).await.len(), 3, "who is refused leaves nothing");
    rest.lifecycle(&third, "stop", json!({})).await.expect(200);
    rest.create_ready(create).await;
    // A process that dies makes room, too.
    let pid = crate::fake::bed::pid(&rest, &first).await;
    proc::signal(pid, nix::sys::signal::Signal::SIGKILL);
    rest.in_state(&first, &["failed", "stopped"]).await;
    rest.lifecycle(&second, "resume?wait=ready", json!({}))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_key_that_was_refused_for_want_of_room_can_be_used_again() {
    let daemon = limited(&[("LIVE_PROCESSES", 1)]).start().await;
    let rest = daemon.rest();
    let first = session(&daemon, "a", json!({})).await;
    let create = body(&daemon, "b", json!({}), json!({}));
    let send = async || {
        let request = rest.builder(Method::POST, "/v1/sessions").json(&create);
        rest.send(request.header("idempotency-key", "k")).await
    };
    assert_eq!(send().await.problem(429), "too_many_sessions");
    rest.lifecycle(&first, "stop", json!({})).await.expect(200);
    let made = send().await.expect(201);
    assert_eq!(send().await.expect(201)["id"], made["id"]);
}

#[tokio::test]
async fn a_directory_can_have_a_limit_of_its_own() {
    let daemon = limited(&[("LIVE_PER_CWD", 1)]).start().await;
    let rest = daemon.rest();
    let first = session(&daemon, "a", json!({})).await;
    session(&daemon, "b", json!({})).await;
    // The same directory by another name is the same.
    let link = daemon.home().join("link");
    std::os::unix::fs::symlink(daemon.work_dir("a"), &link).unwrap();
    for cwd in [daemon.work_dir("a"), link] {
        let refused = rest.post("/v1/sessions", json!({ "cwd": cwd })).await;
        assert_eq!(refused.body["limit"], "limits.live_per_cwd");
        assert_eq!(refused.problem(429), "too_many_sessions");
    }
    rest.lifecycle(&first, "stop", json!({})).await.expect(200);
    session(&daemon, "a", json!({})).await;
}

#[tokio::test]
async fn a_start_that_fails_lets_the_next_one_begin() {
    let daemon = limited(&[("PARALLEL_STARTS", 1)]).start().await;
    let rest = daemon.rest();
    let (first, _) = held_start(&daemon, "first").await;
    let fails = json!({ "exit_at_start": { "code": 1, "stderr": "no" } });
    let failing = id(&rest.create(body(&daemon, "b", fails, json!({}))).await);
    let gone = daemon.work_dir("c");
    let missing = id(&rest.create(body(&daemon, "c", json!({}), json!({}))).await);
    fs::remove_dir_all(&gone).unwrap();
    let last = id(&rest.create(body(&daemon, "d", json!({}), json!({}))).await);
    assert_eq!(position(&rest, &last).await, Some(3));
    rest.lifecycle(&first, "stop", json!({})).await.expect(200);
    rest.in_state(&last, &["idle"]).await;
    for session in [failing, missing] {
        let view = rest.in_state(&session, &["failed"]).await;
        assert_eq!(view["reason"]["code"], "start_failed", "{view:#}");
    }
}

/// A restart that is due is no start yet: sessions whose CLIs die before they are ready do not wait for turns that they hold
/// themselves.
#[tokio::test]
async fn a_cli_that_dies_in_its_start_keeps_no_turn_over_the_pause_before_the_next() {
    let daemon = limited(&[("PARALLEL_STARTS", 1)])
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "2")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "100")
        .start()
        .await;
    let rest = daemon.rest();
    let dies_once = json!({ "starts_file": daemon.home().join("starts"), "starts": [{ "exit_at_start": { "code": 3 } }, {}] });
    let view = rest.create(body(&daemon, "a", dies_once, json!({}))).await;
    let view = rest.in_state(&id(&view), &["idle", "failed"]).await;
    assert_eq!(view["state"], "idle", "{view:#}");
    // Nobody else is held up while a restart waits for its time.
    let dies = json!({ "exit_at_start": { "code": 3 } });
    let mut long = body(&daemon, "b", dies, json!({}));
    long["restart"] = json!({ "first_delay_ms": 600_000, "longest_delay_ms": 600_000 });
    let waits = rest.create(long).await;
    wait_for("a restart is due", PATIENCE, async || {
        rest.session(&id(&waits)).await["restart"]
            .is_object()
            .then_some(())
    })
    .await;
    session(&daemon, "c", json!({})).await;
}

/// On a disk that is full, not even that can be written.
#[tokio::test]
async fn a_first_start_whose_failure_cannot_be_written_comes_to_rest_once_it_can() {
    let daemon = limited(&[("PARALLEL_STARTS", 1)]).allow_errors().start().await;
    let rest = daemon.rest();
    let (_first, gate) = held_start(&daemon, "first").await;
    let waits = id(&rest.create(body(&daemon, "b", json!({}), json!({}))).await);
    let folder = daemon.data_dir().join("sessions").join(&waits);
    let aside = daemon.home().join("aside");
    // A file in the place of the folder refuses every record.
    fs::rename(&folder, &aside).unwrap();
    fs::write(&folder, "").unwrap();
    fs::write(gate, "").unwrap();
    wait_until("the start to fail", PATIENCE, || {
        daemon.log().contains("the journal could not be written")
    })
    .await;
    fs::remove_file(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();

    let view = rest.in_state(&waits, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "start_failed", "{view:#}");
    let told = async || {
        let records = records(&rest, &waits).await;
        let failed = of_type(&records, "daemon", "start_failed").len();
        let last = of_type(&records, "daemon", "state")
            .last()
            .map(|it| it["state"].clone());
        (failed == 1 && last == Some(json!("failed"))).then_some(())
    };
    wait_for("both records to be there", PATIENCE, told).await;
    rest.lifecycle(&waits, "resume?wait=ready", json!({}))
        .await
        .expect(200);
}

#[tokio::test]
async fn starts_that_wait_outlive_the_daemon_with_their_prompts() {
    let mut daemon = limited(&[("PARALLEL_STARTS", 1)]).start().await;
    let rest = daemon.rest();
    let (first, gate) = held_start(&daemon, "first").await;
    let mut create = body(&daemon, "b", json!({}), json!({}));
    create["prompt"] = json!("hello");
    let waits = id(&rest.create(create).await);
    let stopped = id(&rest.create(body(&daemon, "c", json!({}), json!({}))).await);
    rest.lifecycle(&stopped, "stop", json!({})).await.expect(200);
    daemon.kill();
    fs::write(gate, "").unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    wait_for("the prompt to be answered", PATIENCE, async || {
        let view = rest.session(&waits).await;
        (view["turns"] == 1 && view["state"] == "idle").then_some(())
    })
    .await;
    rest.in_state(&first, &["idle"]).await;
    assert_eq!(rest.session(&stopped).await["state"], "stopped");
    let of_waits = records(&rest, &waits).await;
    assert_eq!(of_type(&of_waits, "daemon", "run_started").len(), 1);
    let file = daemon
        .data_dir()
        .join("sessions")
        .join(&waits)
        .join("queued.json");
    wait_until("what it waited with to go", PATIENCE, || !file.exists()).await;
}

/// A fork copies the conversation, which outlives the session that it was asked of.
#[tokio::test]
async fn a_fork_that_waits_keeps_its_parents_conversation_when_the_parent_is_deleted() {
    let mut daemon = limited(&[("PARALLEL_STARTS", 1)]).start().await;
    let rest = daemon.rest();
    let parent = session(&daemon, "parent", json!({})).await;
    rest.ask(&parent, "hello").await;
    let conversation = rest.session(&parent).await["cli"]["session_id"].clone();
    let (_, gate) = held_start(&daemon, "first").await;
    let fork = async |body: Value| {
        let fork = rest.lifecycle(&parent, "fork", body).await.expect(201);
        assert_eq!(fork["state"], "starting", "{fork:#}");
        id(&fork)
    };
    let waits = fork(json!({ "prompt": "go on" })).await;
    let stopped = fork(json!({})).await;
    rest.lifecycle(&stopped, "stop", json!({})).await.expect(200);
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    rest.delete(&format!("/v1/sessions/{parent}")).await.expect(204);
    fs::write(gate, "").unwrap();
    wait_for("the prompt to be answered", PATIENCE, async || {
        let view = rest.session(&waits).await;
        (view["turns"] == 1 && view["state"] == "idle").then_some(())
    })
    .await;
    rest.lifecycle(&stopped, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    for fork in [waits, stopped] {
        let view = rest.session(&fork).await;
        assert_eq!(
            (&view["parent_id"], &view["parent_deleted"]),
            (&json!(parent), &json!(true))
        );
        let cli = i32::try_from(view["cli"]["pid"].as_i64().unwrap()).unwrap();
        let command = proc::read(cli).unwrap().command;
        let resume = format!("--resume={}", conversation.as_str().unwrap());
        assert!(
            command.contains(&resume) && command.contains("--fork-session"),
            "{command}"
        );
    }
}

#[tokio::test]
async fn an_orderly_end_takes_waiting_starts_out() {
    let mut daemon = limited(&[("PARALLEL_STARTS", 1)]).start().await;
    held_start(&daemon, "first").await;
    let rest = daemon.rest();
    let waits = id(&rest.create(body(&daemon, "b", json!({}), json!({}))).await);
    assert!(daemon.stop().success());
    daemon.start().await;
    let view = daemon.rest().session(&waits).await;
    assert_eq!(view["state"], "stopped", "{view:#}");
    assert!(proc::with_env("TRUNKLINE_SESSION", &waits).is_empty());
    daemon
        .rest()
        .lifecycle(&waits, "resume?wait=ready", json!({}))
        .await
        .expect(200);
}
