//! Owns the tests of sections L and S about restarts: a process that dies unasked is started again, up to a limit.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use trunkline::domain::Timestamp;
use uuid::Uuid;

use crate::{
    fake::bed::{act, act_through, body, of_type, path, pid, records, session},
    support::{
        daemon::TestDaemon,
        proc,
        programs::fake_prompt,
        rest::Rest,
        wait::{PATIENCE, wait_for, wait_until},
    },
};

/// Restarts come at once, and so many of them.
async fn eager(max_restarts: u32) -> TestDaemon {
    TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", max_restarts.to_string())
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await
}

/// The first restart comes in half a minute at the earliest.
async fn patient() -> TestDaemon {
    TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "60000")
        .start()
        .await
}

async fn runs(rest: &Rest, id: &str) -> Vec<Value> {
    let runs = rest.get(&path(id, "runs")).await.expect(200);
    runs["items"].as_array().unwrap().clone()
}

/// The view once a restart is due.
async fn due(rest: &Rest, id: &str) -> Value {
    wait_for("a restart is due", PATIENCE, async || {
        let view = rest.session(id).await;
        view["restart"].is_object().then_some(view)
    })
    .await
}

/// The states that the journal tells of, in their order, each with the number of the restart that is due.
async fn states(rest: &Rest, id: &str) -> Vec<(String, u64)> {
    let records = records(rest, id).await;
    of_type(&records, "daemon", "state")
        .iter()
        .map(|state| {
            let attempt = state["restart"]["attempt"].as_u64().unwrap_or(0);
            (state["state"].as_str().unwrap().to_owned(), attempt)
        })
        .collect()
}

#[tokio::test]
async fn a_crash_at_start_is_tried_again_with_growing_pauses() {
    let daemon = eager(3).await;
    let crash = json!({ "exit_at_start": { "code": 1, "stderr": "a bad day\n" } });
    let settings = json!({ "starts": [crash, crash, crash, {}] });
    let id = session(&daemon, "a", settings).await;
    let rest = daemon.rest();
    let view = rest.session(&id).await;
    assert_eq!(
        (&view["state"], &view["restart"]),
        (&json!("idle"), &Value::Null),
        "{view:#}"
    );
    assert_eq!(runs(&rest, &id).await.len(), 4);
    let states = states(&rest, &id).await;
    let attempts: Vec<u64> = states
        .iter()
        .map(|(_, attempt)| *attempt)
        .filter(|it| *it > 0)
        .collect();
    assert_eq!(attempts, [1, 2, 3], "{states:?}");
    assert!(
        states
            .iter()
            .all(|(state, _)| state == "starting" || state == "idle"),
        "{states:?}"
    );
    act_through(&rest, &id, json!([{ "text": "fine" }])).await;

    // Each pause is twice the one before, less up to a half that is left to chance.
    let records = records(&rest, &id).await;
    let ends = records
        .iter()
        .filter(|record| record["data"]["type"] == "run_exited");
    let dues = records
        .iter()
        .filter(|record| record["data"]["restart"]["at"].is_string());
    for ((end, due), longest) in ends.zip(dues).zip([20, 40, 80]) {
        let [end, due] = [&end["ts"], &due["data"]["restart"]["at"]]
            .map(|at| at.as_str().unwrap().parse::<Timestamp>().unwrap());
        let pause = due.millis_since(end);
        assert!(
            (longest / 2..=longest).contains(&pause),
            "{pause} ms, not about {longest}"
        );
    }
}

/// A session that failed as its CLI died again and again, with `last_words` on stderr.
async fn given_up(daemon: &TestDaemon, settings: Value, last_words: &str) -> (String, Value) {
    let rest = daemon.rest();
    let made = rest.create(body(daemon, "a", settings, json!({}))).await;
    let id = made["id"].as_str().unwrap().to_owned();
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "crash_loop", "{view:#}");
    let detail = view["reason"]["detail"].as_str().unwrap();
    assert!(
        detail.contains("2 restarts") && detail.contains(last_words),
        "{detail}"
    );
    (id, view)
}

#[tokio::test]
async fn a_cli_that_exits_at_each_start_is_given_up() {
    let daemon = eager(2).await;
    let crash = json!({ "exit_at_start": { "code": 1, "stderr": "a bad day\n" } });
    let rest = daemon.rest();
    let (id, view) = given_up(&daemon, crash, "a bad day").await;
    let id = id.as_str();
    assert_eq!(
        (&view["restart"], &view["cli"]["pid"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(runs(&rest, id).await.len(), 3);
    wait_until("nothing is left", PATIENCE, || {
        daemon.session_processes().is_empty()
    })
    .await;
}

/// A start that succeeds does not set the counter back: only a stable time does.
#[tokio::test]
async fn a_cli_that_lives_for_a_while_each_time_is_given_up_and_one_that_is_stable_is_not() {
    let lives = json!({ "after_init": [{ "sleep_ms": 3000 }, { "stderr": "it hurts\n" }, { "exit": 1 }] });
    let daemon = eager(1).await;
    let rest = daemon.rest();
    let mut unstable = body(&daemon, "a", lives.clone(), json!({}));
    unstable["restart"] = json!({ "stable_ms": 60_000 });
    let unstable = rest.create_ready(unstable).await;
    let mut stable = body(&daemon, "b", lives, json!({}));
    stable["restart"] = json!({ "stable_ms": 1000 });
    let stable = rest.create_ready(stable).await;
    let view = rest.in_state(&unstable, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "crash_loop", "{view:#}");
    assert_eq!(runs(&rest, &unstable).await.len(), 2);
    wait_for("it is started for the third time", PATIENCE, async || {
        (runs(&rest, &stable).await.len() >= 3).then_some(())
    })
    .await;
    assert_ne!(rest.session(&stable).await["state"], "failed");
}

#[tokio::test]
async fn a_usage_limit_in_the_middle_of_work_is_no_crash() {
    let daemon = eager(3).await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    let limit = "Claude AI usage limit reached|1760000000";
    act(
        &rest,
        &id,
        json!([{ "text": "half" }, { "stderr": format!("{limit}\n") }, { "exit": 1 }]),
    )
    .await;
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "cli_exited", "{view:#}");
    assert!(
        view["reason"]["detail"].as_str().unwrap().contains(limit),
        "{view:#}"
    );
    assert_eq!(view["restart"], Value::Null);
    assert_eq!(runs(&rest, &id).await.len(), 1);
    // Once there is something to use again, a person goes on.
    rest.post(&path(&id, "resume?wait=ready"), json!({}))
        .await
        .expect(200);
    act_through(&rest, &id, json!([{ "text": "second" }])).await;
}

/// As at a resume, the directory is named and not the CLI.
#[tokio::test]
async fn a_directory_that_is_gone_when_a_restart_is_due_is_named() {
    let daemon = eager(2).await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    let process = pid(&rest, &id).await;
    fs::remove_dir_all(daemon.work_dir("a")).unwrap();
    proc::signal(process, Signal::SIGKILL);
    let view = rest.in_state(&id, &["failed"]).await;
    assert!(
        view["reason"]["detail"].as_str().unwrap().contains("/work/a"),
        "{view:#}"
    );
    assert_eq!(runs(&rest, &id).await.len(), 1);
    daemon.work_dir("a");
    rest.post(&path(&id, "resume?wait=ready"), json!({}))
        .await
        .expect(200);
    act_through(&rest, &id, json!([{ "text": "second" }])).await;
}

#[tokio::test]
async fn a_crash_loop_ends_although_each_start_succeeds() {
    let daemon = eager(2).await;
    let settings = json!({ "after_init": [{ "stderr": "it hurts\n" }, { "exit": 7 }] });
    let rest = daemon.rest();
    let (id, view) = given_up(&daemon, settings, "it hurts").await;
    let id = id.as_str();
    assert_eq!(
        view["ways_out"],
        json!(["resume", "fresh_start"]),
        "nothing can be forked yet"
    );
    assert_eq!(view["restart"], Value::Null);
    assert_eq!(runs(&rest, id).await.len(), 3);

    // A resume begins a new row.
    fs::write(daemon.work_dir("a").join(".fake-claude.json"), "{}").unwrap();
    rest.post(&path(id, "resume?wait=ready"), json!({}))
        .await
        .expect(200);
    act_through(&rest, id, json!([{ "text": "fine" }])).await;
    let view = rest.session(id).await;
    assert_eq!(view["ways_out"], json!([]));
}

#[tokio::test]
async fn an_exit_in_mid_turn_with_code_0_is_no_stop() {
    let daemon = eager(3).await;
    let id = session(&daemon, "a", json!({ "dump": daemon.home().join("dump") })).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    let before = pid(&rest, &id).await;
    act(&rest, &id, json!([{ "text": "half" }, { "exit": 0 }])).await;
    wait_until("the process is gone", PATIENCE, || !proc::is_alive(before)).await;
    let after = wait_for("another process is idle", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["state"] == "idle").then_some(view)
    })
    .await;
    assert_ne!(after["cli"]["pid"], json!(before));
    // The turn is not run again by itself, and the next one works.
    let turns = rest.turns(&id).await;
    assert_eq!(turns.len(), 2, "{turns:#?}");
    assert!(
        turns.iter().any(|turn| turn["subtype"] == "interrupted"),
        "{turns:#?}"
    );
    act_through(&rest, &id, json!([{ "text": "second" }])).await;
    let dump = fs::read_to_string(daemon.home().join("dump")).unwrap();
    let starts: Vec<Value> = dump
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(starts.len(), 2);
    let conversation = after["cli"]["session_id"].as_str().unwrap();
    assert!(
        starts[0]["argv"]
            .to_string()
            .contains(&format!("--session-id={conversation}"))
    );
    assert!(
        starts[1]["argv"]
            .to_string()
            .contains(&format!("--resume={conversation}"))
    );
}

#[tokio::test]
async fn an_idle_cli_that_ends_with_code_0_is_left_alone_and_one_that_is_killed_is_not() {
    let daemon = eager(3).await;
    let rest = daemon.rest();
    let made = rest
        .create(body(
            &daemon,
            "a",
            json!({ "after_init": [{ "exit": 0 }] }),
            json!({}),
        ))
        .await;
    let ended = made["id"].as_str().unwrap();
    let view = rest.in_state(ended, &["stopped", "failed"]).await;
    assert_eq!(view["state"], "stopped");
    assert_eq!(runs(&rest, ended).await.len(), 1);

    let killed = session(&daemon, "b", json!({})).await;
    act_through(&rest, &killed, json!([{ "text": "first" }])).await;
    let before = pid(&rest, &killed).await;
    proc::signal(before, Signal::SIGKILL);
    wait_for("another process is idle", PATIENCE, async || {
        let view = rest.session(&killed).await;
        (view["state"] == "idle" && view["cli"]["pid"] != json!(before)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn permanent_causes_are_not_tried_again() {
    let daemon = eager(3).await;
    let rest = daemon.rest();
    for (name, stderr) in [
        ("flag", "error: unknown option '--nonsense'\n"),
        ("login", "Invalid API key · Please run /login\n"),
        ("limit", "Claude AI usage limit reached|1760000000\n"),
    ] {
        let settings = json!({ "exit_at_start": { "code": 1, "stderr": stderr } });
        let made = rest.create(body(&daemon, name, settings, json!({}))).await;
        let id = made["id"].as_str().unwrap();
        let view = rest.in_state(id, &["failed"]).await;
        assert_eq!(view["reason"]["code"], "start_failed", "{view:#}");
        assert!(view["reason"]["detail"].as_str().unwrap().contains(stderr.trim()));
        assert_eq!(runs(&rest, id).await.len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_stop_takes_a_restart_back() {
    let daemon = patient().await;
    let id = session(&daemon, "a", json!({ "merge": false })).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    let gate = daemon.home().join("gate");
    act(
        &rest,
        &id,
        json!([{ "text": "half" }, { "wait_file": gate }, { "exit": 3 }]),
    )
    .await;
    act(&rest, &id, json!([{ "text": "queued" }])).await;
    fs::write(&gate, "").unwrap();
    let view = due(&rest, &id).await;
    assert_eq!(view["state"], "starting", "{view:#}");
    assert_eq!(view["restart"]["attempt"], 1);
    assert_eq!(view["restart"]["reason"]["code"], "cli_exited");
    assert_eq!(view["open_prompts"][0]["state"], "queued", "{view:#}");
    assert_eq!(view["open_prompts"].as_array().unwrap().len(), 1);
    assert_eq!(view["cli"]["pid"], Value::Null);
    // There is nothing to interrupt, and nobody waits for that.
    rest.lifecycle(&id, "interrupt", json!({})).await.expect(200);

    let view = rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert_eq!(
        (&view["state"], &view["restart"]),
        (&json!("stopped"), &Value::Null),
        "{view:#}"
    );
    assert_eq!(view["open_prompts"], json!([]));
    let states = states(&rest, &id).await;
    assert!(states.iter().all(|(state, _)| state != "failed"), "{states:?}");
    assert_eq!(runs(&rest, &id).await.len(), 1);
    assert_eq!(rest.delete(&format!("/v1/sessions/{id}")).await.status, 204);
}

#[tokio::test]
async fn a_delete_takes_a_restart_back() {
    let daemon = patient().await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    due(&rest, &id).await;
    assert_eq!(rest.delete(&format!("/v1/sessions/{id}")).await.status, 204);
    assert!(daemon.session_processes().is_empty());
}

#[tokio::test]
async fn a_resume_does_not_wait_for_a_restart() {
    let daemon = patient().await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    due(&rest, &id).await;
    let view = rest
        .post(&path(&id, "resume?wait=ready"), json!({}))
        .await
        .expect(200);
    assert_eq!(
        (&view["state"], &view["restart"]),
        (&json!("idle"), &Value::Null),
        "{view:#}"
    );
    assert_eq!(runs(&rest, &id).await.len(), 2);
}

#[tokio::test]
async fn prompts_that_were_not_begun_go_to_the_next_process_once_each() {
    let daemon = eager(3).await;
    let id = session(&daemon, "a", json!({ "merge": false })).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    let gate = daemon.home().join("gate");
    let begun = act(
        &rest,
        &id,
        json!([{ "text": "half" }, { "wait_file": gate }, { "exit": 3 }]),
    )
    .await;
    let mut queued = Vec::new();
    for name in ["one", "two"] {
        let accepted = act(&rest, &id, json!([{ "text": name }])).await;
        queued.push(accepted["uuid"].as_str().unwrap().to_owned());
    }
    // A caller that waits for the answer gets it, whichever process gives it.
    let waits = {
        let (rest, path) = (rest.clone(), path(&id, "messages?wait=result"));
        let text = fake_prompt(&json!([{ "text": "three" }]));
        TaskTracker::new().spawn(async move { rest.post(&path, json!({ "text": text })).await })
    };
    wait_for("all wait", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["open_prompts"].as_array().unwrap().len() == 4).then_some(())
    })
    .await;
    fs::write(&gate, "").unwrap();
    let answer = waits.await.unwrap();
    assert!(answer.status.is_success(), "{:#}", answer.body);
    let view = rest.in_state(&id, &["idle"]).await;
    assert_eq!(view["open_prompts"], json!([]));

    let records = records(&rest, &id).await;
    let lines_of = |uuid: &str| {
        let mine = |record: &&Value| record["src"] == "client" && record["data"]["uuid"] == uuid;
        records.iter().filter(mine).count()
    };
    assert_eq!(
        lines_of(begun["uuid"].as_str().unwrap()),
        1,
        "what was begun is not run again"
    );
    let started = of_type(&records, "daemon", "run_started");
    assert_eq!(started.len(), 2);
    let carried: Vec<&str> = started[1]["carried"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| prompt["uuid"].as_str().unwrap())
        .collect();
    assert_eq!(carried[..2], queued[..], "in their order");
    assert_eq!(carried.len(), 3);
    for uuid in &carried {
        assert_eq!(lines_of(uuid), 2, "once to each process");
        let answered = rest.turns(&id).await;
        let of = answered
            .iter()
            .filter(|turn| turn["prompts"].to_string().contains(uuid));
        assert_eq!(of.count(), 1, "answered once");
    }
}

#[tokio::test]
async fn a_conversation_of_which_nothing_was_kept_begins_anew() {
    let daemon = eager(1).await;
    let id = session(&daemon, "a", json!({ "merge": false, "save": "never" })).await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    act(
        &rest,
        &id,
        json!([{ "text": "half" }, { "wait_file": gate }, { "exit": 3 }]),
    )
    .await;
    let queued = act(&rest, &id, json!([{ "text": "queued" }])).await;
    fs::write(&gate, "").unwrap();
    let turn = wait_for("the prompt that waited is answered", PATIENCE, async || {
        let turns = rest.turns(&id).await;
        turns
            .into_iter()
            .find(|turn| turn["prompts"] == json!([queued["uuid"]]))
    })
    .await;
    assert_eq!(turn["is_error"], false, "{turn:#}");
    let modes: Vec<Value> = runs(&rest, &id)
        .await
        .iter()
        .map(|run| run["mode"].clone())
        .collect();
    let mut modes: Vec<&str> = modes.iter().map(|mode| mode.as_str().unwrap()).collect();
    modes.sort_unstable();
    assert_eq!(modes, ["new", "new", "resume"]);
}

#[tokio::test]
async fn a_prompt_in_the_wait_is_taken_and_goes_to_the_next_process() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "4000")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    due(&rest, &id).await;
    act_through(&rest, &id, json!([{ "text": "second" }])).await;
    assert_eq!(runs(&rest, &id).await.len(), 2);
}

#[tokio::test]
async fn a_conversation_that_kills_each_process_is_named_with_its_ways_out() {
    let daemon = eager(2).await;
    let poisoned = json!({ "exit_at_start": { "code": 1, "stderr": "cannot read the transcript\n" } });
    let settings = json!({ "starts": [{}, poisoned, poisoned, {}] });
    let id = session(&daemon, "a", settings).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    let conversation = rest.session(&id).await["cli"]["session_id"].clone();
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "conversation_unusable", "{view:#}");
    assert!(
        view["reason"]["detail"]
            .as_str()
            .unwrap()
            .contains("cannot read the transcript")
    );
    assert_eq!(view["ways_out"], json!(["fresh_start", "fork", "resume"]));

    let fresh = rest
        .post(&path(&id, "resume?wait=ready"), json!({ "fresh": true }))
        .await
        .expect(200);
    assert_eq!(fresh["id"], json!(id));
    assert_ne!(fresh["cli"]["session_id"], conversation);
    act_through(&rest, &id, json!([{ "text": "second" }])).await;
}

#[tokio::test]
async fn a_session_may_have_a_policy_of_its_own() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut body = body(&daemon, "a", json!({ "after_init": [{ "exit": 7 }] }), json!({}));
    body["restart"] = json!({ "max_restarts": 1, "first_delay_ms": 10 });
    let made = rest.create(body.clone()).await;
    let id = made["id"].as_str().unwrap();
    let view = rest.in_state(id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "crash_loop", "{view:#}");
    assert_eq!(runs(&rest, id).await.len(), 2);
    body["restart"] = json!({ "max_restart": 1 });
    assert_eq!(rest.post("/v1/sessions", body).await.status, 422);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_at_the_moment_of_a_death_is_taken_or_may_be_sent_again() {
    let daemon = eager(9).await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let (mut asked, messages) = (Vec::new(), path(&id, "messages"));
    for death in 0..4 {
        rest.in_state(&id, &["idle"]).await;
        let mut sending = JoinSet::new();
        proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
        for number in 1..=10 {
            let message = json!({ "uuid": Uuid::from_u128(death * 10 + number), "text": "still there?" });
            let (rest, messages) = (rest.clone(), messages.clone());
            sending.spawn(async move { (rest.post(&messages, message.clone()).await, message) });
        }
        for (reply, message) in sending.join_all().await {
            if !reply.status.is_success() {
                assert_eq!(reply.body["retryable"], true, "{:#}", reply.body);
                wait_for("it is taken", PATIENCE, async || {
                    let again = rest.post(&messages, message.clone()).await;
                    again.status.is_success().then_some(())
                })
                .await;
            }
            asked.push(message["uuid"].clone());
        }
    }
    wait_for("no prompt is open", PATIENCE, async || {
        let view = rest.in_state(&id, &["idle"]).await;
        (view["open_prompts"] == json!([])).then_some(())
    })
    .await;
    let records = records(&rest, &id).await;
    for uuid in asked {
        let is_there = records
            .iter()
            .any(|it| it["src"] == "client" && it["data"]["uuid"] == uuid);
        assert!(is_there, "{uuid} was taken and is not there");
    }
}
