//! Owns starts that fail, stops that come twice, and what a deletion leaves: nothing.

use serde_json::json;

use crate::{
    api::{
        common::{assert_nothing_made, call, endless, id_of, operations, problem},
        requests::refused_upgrade,
    },
    support::{
        daemon::TestDaemon,
        programs::{fake_prompt, fake_settings},
        wait::{PATIENCE, wait_for},
    },
};

#[tokio::test]
async fn stopping_is_idempotent_also_at_once_and_of_what_is_dead() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = id_of(
        &rest
            .create(json!({"cwd": daemon.work_dir("w"), "prompt": endless()}))
            .await,
    );
    rest.in_state(&id, &["busy"]).await;
    let stops = (0..6).map(|_| rest.lifecycle(&id, "stop", json!({})));
    for reply in futures_util::future::join_all(stops).await {
        assert_eq!(reply.expect(200)["state"], "stopped");
    }
    assert!(
        daemon.session_processes().is_empty(),
        "stop answered before the process was gone"
    );
    assert_eq!(
        rest.lifecycle(&id, "stop", json!({})).await.expect(200)["state"],
        "stopped"
    );
    assert_eq!(
        rest.lifecycle(&id, "interrupt", json!({})).await.expect(200)["response"],
        json!(null)
    );
    let exits = rest.events(&id, 0).await;
    let exits = exits
        .iter()
        .filter(|it| it["data"]["type"] == "run_exited")
        .count();
    assert_eq!(exits, 1);

    rest.post(&format!("/v1/sessions/{id}/resume?wait=ready"), json!({}))
        .await
        .expect(200);
    problem(
        rest.lifecycle(&id, "resume", json!({})).await,
        409,
        "session_already_live",
    );
    rest.prompt(&id, &fake_prompt(&json!([{"crash": "SIGKILL"}])))
        .await;
    let dead = rest.in_state(&id, &["failed"]).await;
    assert!(
        dead["reason"]["detail"].as_str().unwrap().contains("signal 9"),
        "{dead:#}"
    );
    assert_eq!(
        rest.lifecycle(&id, "interrupt", json!({})).await.expect(200)["response"],
        json!(null)
    );
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    // There is a way on.
    rest.post(&format!("/v1/sessions/{id}/resume?wait=ready"), json!({}))
        .await
        .expect(200);
    let answer = rest.ask(&id, "still there?").await;
    assert_eq!(answer["turn"]["subtype"], "success", "{answer:#}");
}

#[tokio::test]
async fn deleting_a_busy_session_leaves_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = id_of(
        &rest
            .create(json!({"cwd": daemon.work_dir("w"), "prompt": endless()}))
            .await,
    );
    rest.in_state(&id, &["busy"]).await;
    let mut sockets = Vec::new();
    for after in [None, Some(0)] {
        sockets.push(daemon.attach(&id, after).await);
    }
    let waiting = {
        let (rest, id) = (rest.clone(), id.clone());
        tokio::spawn(async move {
            rest.post(
                &format!("/v1/sessions/{id}/messages?wait=result"),
                json!({"text": "queued"}),
            )
            .await
        })
    };
    wait_for("the second message is open", PATIENCE, async || {
        let open = rest.session(&id).await["open_prompts"].as_array().unwrap().len();
        (open == 2).then_some(())
    })
    .await;

    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    assert!(
        daemon.session_processes().is_empty(),
        "the process outlived the answer"
    );
    assert!(
        !daemon.data_dir().join("sessions").join(&id).exists(),
        "the journal is still there"
    );
    for mut socket in sockets {
        let (code, reason) = socket.close_frame().await;
        assert_eq!(code, 4410, "{reason}");
    }
    let reply = waiting.await.unwrap();
    assert!(
        reply.status.is_client_error(),
        "{} {:#}",
        reply.status,
        reply.body
    );
    assert_eq!(reply.content_type, "application/problem+json");

    for operation in operations(&rest)
        .await
        .iter()
        .filter(|it| it.path.contains("{id}"))
    {
        if operation.id == "attach_session" {
            assert_eq!(
                refused_upgrade(&daemon, &id, "").await,
                (404, "session_not_found".into())
            );
        } else {
            problem(call(&rest, operation, &id, &id).await, 404, "session_not_found");
        }
    }
    assert_eq!(rest.get("/v1/sessions").await.expect(200)["items"], json!([]));
    assert_eq!(rest.get("/v1/approvals").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn without_a_cli_no_session_is_made() {
    let daemon = TestDaemon::with_fake()
        .claude("/nonexistent/claude")
        .start()
        .await;
    let rest = daemon.rest();
    for path in ["/v1/sessions", "/v1/sessions?wait=ready"] {
        let found = problem(
            rest.post(path, json!({"cwd": daemon.work_dir("w"), "prompt": "x"}))
                .await,
            503,
            "cli_not_found",
        );
        assert_eq!(found["searched"], json!(["/nonexistent/claude"]));
    }
    assert_nothing_made(&daemon).await;
    let ready = problem(rest.get("/readyz").await, 503, "not_ready");
    assert_eq!(ready["readiness"]["cli"], json!(null));
    // Alive, though not able to work.
    rest.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_cli_that_ends_at_once_fails_the_session_with_its_words() {
    let words = "error: something is wrong with your account";
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dir = daemon.work_dir("w");
    fake_settings(&dir, &json!({"exit_at_start": {"code": 1, "stderr": words}}));
    let session = json!({"cwd": dir, "prompt": "hello"});
    let found = problem(
        rest.post("/v1/sessions?wait=ready", session).await,
        502,
        "start_failed",
    );
    assert!(found["detail"].as_str().unwrap().contains(words), "{found:#}");
    let id = found["session_id"].as_str().expect("the session's id").to_owned();
    let view = rest.session(&id).await;
    assert_eq!(view["state"], "failed");
    assert!(
        view["reason"]["detail"].as_str().unwrap().contains(words),
        "{view:#}"
    );
    let records = rest.events(&id, 0).await;
    assert!(
        records.iter().any(|it| it["src"] == "stderr"),
        "stderr is not in the journal"
    );

    fake_settings(&dir, &json!({"exit_at_start": {"code": 0}}));
    // An end with code 0 before the CLI was ready is a failed start as well.
    problem(
        rest.post(&format!("/v1/sessions/{id}/resume?wait=ready"), json!({}))
            .await,
        502,
        "start_failed",
    );
    assert_eq!(rest.session(&id).await["state"], "failed");
    fake_settings(&dir, &json!({}));
    let view = rest
        .post(&format!("/v1/sessions/{id}/resume?wait=ready"), json!({}))
        .await
        .expect(200);
    assert_eq!(
        (&view["state"], &view["reason"]),
        (&json!("idle"), &json!(null)),
        "{view:#}"
    );
    rest.ask(&id, "hello again").await;
}

#[tokio::test]
async fn a_slow_start_takes_messages_and_a_wait_for_it_has_a_limit() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dir = daemon.work_dir("w");
    let gate = dir.join("gate");
    fake_settings(&dir, &json!({"init": {"wait_file": gate}}));
    let path = "/v1/sessions?wait=ready&timeout_ms=300";
    let found = problem(rest.post(path, json!({"cwd": dir})).await, 504, "wait_timeout");
    let id = found["session_id"].as_str().unwrap().to_owned();
    assert_eq!(rest.session(&id).await["state"], "starting");
    rest.prompt(&id, "early").await;
    std::fs::write(&gate, "").unwrap();
    let turns = wait_for("the early message was answered", PATIENCE, async || {
        let turns = rest.turns(&id).await;
        (!turns.is_empty()).then_some(turns)
    })
    .await;
    assert_eq!(turns.len(), 1);
}

#[tokio::test]
async fn a_cli_that_never_gets_ready_is_given_up_and_one_that_swallows_an_interrupt_is_reported() {
    let daemon = TestDaemon::with_fake()
        // Time enough for the one below that does get ready.
        .env("TRUNKLINE_SESSIONS_START_TIMEOUT_MS", "6000")
        .fake(json!({"controls": {"set_model": {"error": "no such model", "error_code": "bad_model"}}}))
        .start()
        .await;
    let rest = daemon.rest();
    let dir = daemon.work_dir("never");
    fake_settings(&dir, &json!({"init": {"never": true}}));
    let id = id_of(&rest.create(json!({"cwd": dir})).await);
    let view = rest.in_state(&id, &["failed"]).await;
    assert!(view["reason"]["code"].as_str().is_some(), "{view:#}");
    wait_for("its process is gone", PATIENCE, async || {
        daemon.session_processes().is_empty().then_some(())
    })
    .await;

    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let model = rest.session(&id).await["model"].clone();
    let refused = problem(
        rest.put(&format!("/v1/sessions/{id}/model"), json!({"model": "m"}))
            .await,
        409,
        "control_refused",
    );
    assert_eq!(
        (&refused["detail"], &refused["error_code"]),
        (&json!("no such model"), &json!("bad_model"))
    );
    assert_eq!(rest.session(&id).await["model"], model);
    let refused = rest
        .put(
            &format!("/v1/sessions/{id}/permission_mode"),
            json!({"mode": "bypassPermissions"}),
        )
        .await;
    assert_eq!(
        problem(refused, 409, "control_refused")["error_code"],
        "bypass_not_launched"
    );
    assert_ne!(rest.session(&id).await["permission_mode"], "bypassPermissions");
}
