//! Owns requests with an idempotency key: sent again over lost connections, deletions and the daemon's death, they run once.

use std::{fs, os::unix::fs::symlink, path::Path};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    api::common::{asking, assert_nothing_made, call, dumps, endless, id_of, operations, problem},
    support::{
        daemon::TestDaemon,
        programs::fake_claude,
        rest::{Reply, Rest},
        wait::{PATIENCE, wait_for},
    },
};

/// An answer, and whether it is said to be the one of an earlier request.
struct Keyed {
    reply: Reply,
    replayed: bool,
    location: Option<String>,
}

impl Keyed {
    async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let header = |name: &str| {
            let value = response.headers().get(name);
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        let (replayed, location) = (header("idempotency-replayed"), header("location"));
        assert!(matches!(replayed.as_deref(), None | Some("true")), "{replayed:?}");
        let content_type = header("content-type").unwrap_or_default();
        let status = response.status();
        let body = response.bytes().await.unwrap();
        Self {
            reply: Reply {
                status,
                content_type,
                body: serde_json::from_slice(&body).unwrap(),
            },
            replayed: replayed.is_some(),
            location,
        }
    }

    #[track_caller]
    fn first(self) -> Reply {
        assert!(!self.replayed, "{:#}", self.reply.body);
        self.reply
    }

    /// The answer, which must be the one of an earlier request.
    #[track_caller]
    fn again(self) -> Reply {
        assert!(self.replayed, "{:#}", self.reply.body);
        self.reply
    }
}

fn keyed(rest: &Rest, path: &str, key: &str, body: &Value) -> RequestBuilder {
    let request = rest.builder(Method::POST, path).header("idempotency-key", key);
    request.json(body)
}

async fn post(rest: &Rest, path: &str, key: &str, body: &Value) -> Keyed {
    Keyed::of(keyed(rest, path, key, body)).await
}

async fn sessions(rest: &Rest) -> Vec<Value> {
    let list = rest.get("/v1/sessions").await.expect(200);
    list["items"].as_array().unwrap().clone()
}

/// The one session, once there is one.
async fn the_session(rest: &Rest) -> String {
    wait_for("there is a session", PATIENCE, async || {
        sessions(rest).await.first().map(id_of)
    })
    .await
}

/// A daemon whose CLIs get ready only when `gate` is there.
async fn gated(gate: &Path) -> TestDaemon {
    let settings = json!({"init": {"wait_file": gate}});
    TestDaemon::with_fake().fake(settings).start().await
}

#[tokio::test]
async fn a_repeated_create_makes_one_session_also_after_the_daemon_was_killed() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let body = json!({"cwd": daemon.work_dir("w"), "title": "once"});
    let first = post(&rest, "/v1/sessions?wait=ready", "k", &body).await;
    let location = first.location.clone();
    let made = first.first().expect(201);
    assert_eq!(
        location,
        Some(format!("/v1/sessions/{}", made["id"].as_str().unwrap()))
    );
    for round in 0..2 {
        let rest = daemon.rest();
        let again = post(&rest, "/v1/sessions?wait=ready", "k", &body).await;
        assert_eq!(again.location, location);
        assert_eq!(again.again().expect(201), made);
        assert_eq!(sessions(&rest).await.len(), 1);
        if round == 0 {
            daemon.kill();
            daemon.start().await;
        }
    }
    // Another key, and no key, are other requests.
    let rest = daemon.rest();
    let other = post(&rest, "/v1/sessions", "other", &body)
        .await
        .first()
        .expect(201);
    let none = [rest.create(body.clone()).await, rest.create(body).await];
    let ids = [&made, &other, &none[0], &none[1]].map(id_of);
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 4);
}

#[tokio::test]
async fn of_eight_at_once_one_runs_and_all_get_its_answer() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let body = json!({"cwd": daemon.work_dir("w")});
    let posts = (0..8).map(|_| post(&rest, "/v1/sessions", "k", &body));
    let answers = futures_util::future::join_all(posts).await;
    assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
    let bodies: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.reply.expect(201))
        .collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:#?}");
    assert_eq!(sessions(&rest).await.len(), 1);
}

#[tokio::test]
async fn a_message_sent_again_is_one_turn() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let path = format!("/v1/sessions/{id}/messages?wait=result");
    let body = json!({"text": "hello"});
    let answer = post(&rest, &path, "k", &body).await.first().expect(200);
    assert_eq!(post(&rest, &path, "k", &body).await.again().expect(200), answer);
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(post(&rest, &path, "k", &body).await.again().expect(200), answer);
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(rest.turns(&id).await.len(), 1);
    // The key belongs to the path: in another session it is free.
    let other = rest.create_ready(json!({"cwd": daemon.work_dir("v")})).await;
    let path = format!("/v1/sessions/{other}/messages?wait=result");
    post(&rest, &path, "k", &body).await.first().expect(200);
    assert_eq!(rest.turns(&other).await.len(), 1);
}

#[tokio::test]
async fn another_body_or_query_under_the_same_key_is_a_conflict() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w");
    let body = json!({"cwd": cwd});
    post(&rest, "/v1/sessions", "k", &body).await.first().expect(201);
    let other = json!({"cwd": cwd, "title": "other"});
    for (path, body) in [("/v1/sessions", &other), ("/v1/sessions?wait=ready", &body)] {
        let refused = post(&rest, path, "k", body).await.first();
        let refused = problem(refused, 409, "idempotency_conflict");
        assert_eq!(
            (&refused["retryable"], &refused["side_effect_possible"]),
            (&json!(false), &json!(false))
        );
    }
    assert_eq!(sessions(&rest).await.len(), 1);
    // The refusal did not cost the first answer.
    post(&rest, "/v1/sessions", "k", &body).await.again().expect(201);
}

#[tokio::test]
async fn a_repeat_waits_for_the_first_and_is_told_when_that_takes_long() {
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("gate");
    let daemon = gated(&gate).await;
    let rest = daemon.rest();
    let path = "/v1/sessions?wait=ready";
    let body = json!({"cwd": daemon.work_dir("w")});
    let first = tokio::spawn(Keyed::of(keyed(&rest, path, "k", &body)));
    the_session(&rest).await;
    let other = json!({"cwd": daemon.work_dir("v")});
    let refused = post(&rest, path, "k", &other).await.first();
    problem(refused, 409, "idempotency_conflict");
    let late = post(&rest, path, "k", &body).await.first();
    let late = problem(late, 409, "idempotency_in_progress");
    assert_eq!(late["retryable"], true);

    let again = post(&rest, path, "k", &body);
    let opened = async { fs::write(&gate, "").unwrap() };
    let (again, ()) = tokio::join!(again, opened);
    let first = first.await.unwrap().first().expect(201);
    assert_eq!(again.again().expect(201), first);
    assert_eq!(sessions(&rest).await.len(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_finds_the_answer_when_it_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("gate");
    let daemon = gated(&gate).await;
    let rest = daemon.rest();
    let path = "/v1/sessions?wait=ready";
    let body = json!({"cwd": daemon.work_dir("w")});
    let first = tokio::spawn(Keyed::of(keyed(&rest, path, "k", &body)));
    let id = the_session(&rest).await;
    first.abort();
    assert!(first.await.is_err_and(|error| error.is_cancelled()));
    fs::write(&gate, "").unwrap();
    let again = post(&rest, path, "k", &body).await.again().expect(201);
    assert_eq!((id_of(&again), &again["state"]), (id, &json!("idle")));
    assert_eq!(sessions(&rest).await.len(), 1);
}

#[tokio::test]
async fn what_the_daemon_died_over_is_uncertain_and_not_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("gate");
    let dump = dir.path().join("dump");
    let settings = json!({"init": {"wait_file": gate}, "dump": dump});
    let mut daemon = TestDaemon::with_fake().fake(settings).start().await;
    let rest = daemon.rest();
    let create = json!({"cwd": daemon.work_dir("w"), "prompt": endless()});
    let first = tokio::spawn(keyed(&rest, "/v1/sessions?wait=ready", "k", &create).send());
    let id = the_session(&rest).await;
    wait_for("the CLI runs", PATIENCE, async || {
        (!dumps(&dump).is_empty()).then_some(())
    })
    .await;
    daemon.kill();
    assert!(
        first.await.unwrap().is_err(),
        "the daemon died before it answered"
    );
    daemon.start().await;
    fs::write(&gate, "").unwrap();
    let rest = daemon.rest();
    for _ in 0..2 {
        let again = post(&rest, "/v1/sessions?wait=ready", "k", &create).await;
        let again = problem(again.first(), 409, "outcome_unknown");
        assert_eq!(
            (&again["retryable"], &again["side_effect_possible"]),
            (&json!(false), &json!(true))
        );
    }
    let other = json!({"cwd": daemon.work_dir("w")});
    let other = post(&rest, "/v1/sessions?wait=ready", "k", &other).await;
    problem(other.first(), 409, "idempotency_conflict");
    assert_eq!(sessions(&rest).await.len(), 1);

    // A message, in the middle of whose turn the daemon dies.
    rest.in_state(&id, &["busy"]).await;
    let path = format!("/v1/sessions/{id}/messages?wait=result");
    let body = json!({"text": "queued"});
    let first = tokio::spawn(keyed(&rest, &path, "k", &body).send());
    let open = async |rest: &Rest| rest.session(&id).await["open_prompts"].as_array().unwrap().len();
    wait_for("the message is taken", PATIENCE, async || {
        (open(&rest).await == 2).then_some(())
    })
    .await;
    daemon.kill();
    assert!(first.await.unwrap().is_err());
    daemon.start().await;
    let rest = daemon.rest();
    let again = post(&rest, &path, "k", &body).await.first();
    problem(again, 409, "outcome_unknown");
    assert_eq!(open(&rest).await, 2, "the message was sent once more");
    assert_eq!(dumps(&dump).len(), 1, "the CLI was started once more");
}

#[tokio::test]
async fn a_wait_that_a_shutdown_ends_is_not_run_again() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let path = "/v1/sessions?wait=result";
    let body = json!({"cwd": daemon.work_dir("w"), "prompt": endless()});
    let first = tokio::spawn(Keyed::of(keyed(&rest, path, "k", &body)));
    let id = the_session(&rest).await;
    rest.in_state(&id, &["busy"]).await;
    daemon.stop();
    let cut = problem(first.await.unwrap().first(), 504, "wait_timeout");
    assert_eq!(
        (&cut["session_id"], &cut["side_effect_possible"]),
        (&json!(id), &json!(true))
    );
    daemon.start().await;
    let rest = daemon.rest();
    let again = post(&rest, path, "k", &body).await;
    // Its end may have come too late to be written down.
    if again.replayed {
        assert_eq!(again.reply.expect(504), cut);
    } else {
        problem(again.reply, 409, "outcome_unknown");
    }
    assert_eq!(sessions(&rest).await.len(), 1);
}

#[tokio::test]
async fn a_problem_is_repeated_as_it_was() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let unknown = format!("/v1/sessions/{}/stop", Uuid::now_v7());
    let refused = problem(
        post(&rest, &unknown, "k", &json!({})).await.first(),
        404,
        "session_not_found",
    );
    let again = post(&rest, &unknown, "k", &json!({})).await.again();
    assert_eq!(problem(again, 404, "session_not_found"), refused);
}

#[tokio::test]
async fn a_wrong_request_uses_up_no_key() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w");
    let missing = cwd.join("missing");
    for (query, body, code) in [
        ("?wait=garbage", json!({"cwd": cwd}), "invalid_query"),
        ("?wait=ready&timeout_ms=-5", json!({"cwd": cwd}), "invalid_query"),
        ("", json!({"cwd": 5}), "invalid_field"),
        ("", json!({"cwd": cwd, "prompt": " "}), "empty_prompt"),
        (
            "",
            json!({"cwd": cwd, "options": {"max_turns": 0}}),
            "invalid_option",
        ),
        ("", json!({"cwd": missing}), "cwd_missing"),
    ] {
        let refused = post(&rest, &format!("/v1/sessions{query}"), "k", &body)
            .await
            .first();
        assert_eq!(refused.body["code"], code, "{:#}", refused.body);
    }
    fs::create_dir(&missing).unwrap();
    let body = json!({"cwd": missing});
    let made = post(&rest, "/v1/sessions", "k", &body).await.first().expect(201);
    let again = post(&rest, "/v1/sessions", "k", &body).await.again().expect(201);
    assert_eq!(made["id"], again["id"]);
}

#[tokio::test]
async fn what_did_nothing_and_may_do_better_is_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let claude = dir.path().join("claude");
    let daemon = TestDaemon::with_fake().claude(&claude).start().await;
    let rest = daemon.rest();
    let body = json!({"cwd": daemon.work_dir("w")});
    for _ in 0..2 {
        let refused = post(&rest, "/v1/sessions", "k", &body).await.first();
        problem(refused, 503, "cli_not_found");
    }
    // The guards stand before the key.
    let stranger = post(&rest.with_token(None), "/v1/sessions", "k", &body).await;
    problem(stranger.first(), 401, "unauthorized");
    symlink(fake_claude(), &claude).unwrap();
    let made = post(&rest, "/v1/sessions", "k", &body).await.first().expect(201);
    assert_eq!(
        post(&rest, "/v1/sessions", "k", &body).await.again().expect(201),
        made
    );
    assert_eq!(sessions(&rest).await.len(), 1);
}

#[tokio::test]
async fn a_deleted_session_is_not_made_again_and_its_answer_is_gone() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let body = json!({"cwd": daemon.work_dir("w"), "title": "planted"});
    let made = post(&rest, "/v1/sessions", "k", &body).await.first().expect(201);
    let session = format!("/v1/sessions/{}", id_of(&made));
    let stop = format!("{session}/stop");
    post(&rest, &stop, "k", &json!({})).await.first().expect(200);
    rest.delete(&session).await.expect(204);
    for (path, body, status) in [("/v1/sessions", &body, 201), (stop.as_str(), &json!({}), 200)] {
        let again = problem(
            post(&rest, path, "k", body).await.first(),
            410,
            "response_not_kept",
        );
        assert_eq!(again["response_status"], status);
        assert!(!again.to_string().contains("planted"), "{again:#}");
    }
    assert_nothing_made(&daemon).await;
}

#[tokio::test]
async fn an_answer_too_large_to_keep_is_not_asked_for_twice() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w");
    let stdin = cwd.join("stdin");
    let payload = json!({"text": "x".repeat(2 * 1024 * 1024)});
    crate::support::programs::fake_settings(
        &cwd,
        &json!({"record_stdin": stdin, "controls": {"get_context_usage": {"response": payload}}}),
    );
    let id = rest.create_ready(json!({"cwd": cwd})).await;
    let path = format!("/v1/sessions/{id}/control");
    let body = json!({"subtype": "get_context_usage"});
    let answer = post(&rest, &path, "k", &body).await.first().expect(200);
    assert_eq!(answer["response"], payload);
    let again = problem(
        post(&rest, &path, "k", &body).await.first(),
        410,
        "response_not_kept",
    );
    assert_eq!(again["response_status"], 200);
    let asked = fs::read_to_string(&stdin).unwrap();
    assert_eq!(asked.matches("get_context_usage").count(), 1);
}

#[tokio::test]
async fn a_key_that_is_none_is_refused_on_every_post_before_anything_is_done() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let unknown = Uuid::now_v7().to_string();
    let posts = posts(&rest).await;
    let too_long = "k".repeat(256);
    for operation in &posts {
        for key in ["", "a b", &too_long] {
            let path = operation.at(&unknown, &unknown);
            let body = operation.body().unwrap_or_else(|| json!({}));
            let refused = post(&rest, &path, key, &body).await.first();
            problem(refused, 400, "invalid_idempotency_key");
        }
    }
    let body = json!({"cwd": daemon.work_dir("w")});
    let twice = keyed(&rest, "/v1/sessions", "a", &body).header("idempotency-key", "a");
    problem(Keyed::of(twice).await.first(), 400, "invalid_idempotency_key");
    assert_nothing_made(&daemon).await;
    post(&rest, "/v1/sessions", &"k".repeat(255), &body)
        .await
        .first()
        .expect(201);
}

/// Every POST of the contract.
async fn posts(rest: &Rest) -> Vec<crate::api::common::Operation> {
    let mut found = operations(rest).await;
    // These answer with a secret, which is kept under no key.
    let is_kept = |id: &str| !["create_ticket", "create_login", "create_webhook"].contains(&id);
    found.retain(|operation| operation.method == Method::POST && is_kept(&operation.id));
    assert!(found.len() >= 8, "{found:#?}");
    found
}

#[tokio::test]
async fn every_post_of_the_contract_takes_a_key() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut posts = posts(&rest).await;
    // Requests that end or need a running process come last.
    posts.sort_by_key(|operation| match operation.id.as_str() {
        "decide_approval" => 0,
        "restart_session" => 2,
        "stop_session" => 3,
        "resume_session" => 4,
        "park_session" => 5,
        _ => 1,
    });
    let view = rest
        .create(json!({"cwd": daemon.work_dir("w"), "prompt": asking()}))
        .await;
    let id = id_of(&view);
    let approval = id_of(&rest.pending_approval(&id).await);
    let webhook = rest
        .post("/v1/webhooks", json!({"url": "http://127.0.0.1:9/"}))
        .await;
    let webhook = id_of(&webhook.expect(201)["webhook"]);
    for mut operation in posts {
        operation.path = operation.path.replace("{webhook_id}", &webhook);
        let path = operation.at(&id, &approval);
        let body = operation.body().unwrap_or_else(|| json!({}));
        if operation.id == "park_session" {
            rest.in_state(&id, &["idle"]).await;
        }
        let first = post(&rest, &path, "k", &body).await.first();
        let is_refused = operation.id == "restart_daemon";
        assert_eq!(
            first.status.is_success(),
            !is_refused,
            "{}: {} {:#}",
            operation.id,
            first.status,
            first.body
        );
        let again = post(&rest, &path, "k", &body).await.again();
        assert_eq!(
            (again.status, again.body),
            (first.status, first.body),
            "{}",
            operation.id
        );
        if operation.id == "decide_approval" {
            // Without the key the second decision is one.
            problem(
                call(&rest, &operation, &id, &approval).await,
                409,
                "already_decided",
            );
            rest.in_state(&id, &["idle"]).await;
        }
    }
}
