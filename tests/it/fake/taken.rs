//! Owns what becomes of a session whose CLI opens another conversation than it was asked for.

use std::fs;

use serde_json::{Value, json};
use trunkline::domain::SessionId;

use crate::{
    fake::bed::{act_through, body, of_type, path, records, session},
    support::{
        daemon::TestDaemon,
        programs::fake_prompt,
        rest::{Reply, Rest},
        wait::{PATIENCE, wait_for},
    },
};

/// A session with a turn that has come to rest, and its conversation.
async fn at_rest(daemon: &TestDaemon, name: &str, verb: &str) -> (String, Value) {
    let rest = daemon.rest();
    let id = session(daemon, name, json!({})).await;
    rest.ask(&id, "one").await;
    rest.lifecycle(&id, verb, json!({})).await.expect(200);
    let conversation = rest.session(&id).await["cli"]["session_id"].clone();
    (id, conversation)
}

fn settings(daemon: &TestDaemon, name: &str, settings: &Value) {
    fs::write(
        daemon.work_dir(name).join(".fake-claude.json"),
        settings.to_string(),
    )
    .unwrap();
}

async fn send(rest: &Rest, id: &str, uuid: &str) -> Reply {
    let message = json!({ "text": "whose am I?", "uuid": uuid });
    rest.post(&path(id, "messages?wait=result"), message).await
}

async fn notices(rest: &Rest, id: &str, code: &str) -> usize {
    let records = records(rest, id).await;
    let notices = of_type(&records, "daemon", "notice");
    notices.iter().filter(|notice| notice["code"] == code).count()
}

#[tokio::test]
async fn a_conversation_of_another_session_is_not_taken_over() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let owner = session(&daemon, "owner", json!({})).await;
    rest.ask(&owner, "mine").await;
    let taken = rest.session(&owner).await["cli"]["session_id"].clone();
    for (name, verb) in [("resumed", "stop"), ("woken", "park")] {
        let (id, own) = at_rest(&daemon, name, verb).await;
        settings(&daemon, name, &json!({ "resume_prints": taken }));
        if verb == "stop" {
            rest.lifecycle(&id, "resume?wait=ready", json!({}))
                .await
                .expect(200);
        }
        let uuid = SessionId::new().to_string();
        let reply = send(&rest, &id, &uuid).await;
        assert!(reply.body.to_string().contains(&owner), "{:#}", reply.body);
        assert_eq!(reply.problem(409), "conversation_taken");
        let view = rest.in_state(&id, &["failed"]).await;
        assert_eq!(view["reason"]["code"], "conversation_taken", "{view:#}");
        assert_eq!(view["cli"]["session_id"], own, "the own id stays");
        assert_eq!(view["turns"], 1, "no turn is another conversation's");
        assert_eq!(view["open_prompts"][0]["state"], "queued", "{view:#}");
        assert_eq!(view["ways_out"][0], "fresh_start", "{view:#}");
        // It is written once the keeper is gone.
        wait_for("the notice", PATIENCE, async || {
            (notices(&rest, &id, "conversation_taken").await == 1).then_some(())
        })
        .await;
        // The prompt waits for a process that is in the right conversation.
        settings(&daemon, name, &json!({}));
        rest.lifecycle(&id, "resume?wait=ready", json!({}))
            .await
            .expect(200);
        let answer = send(&rest, &id, &uuid).await.expect(200);
        assert_eq!(answer["turn"]["prompts"], json!([uuid]), "{answer:#}");
        let view = rest.session(&id).await;
        assert_eq!((&view["turns"], &view["cli"]["session_id"]), (&json!(2), &own));
    }
    assert_eq!(rest.session(&owner).await["state"], "idle");
}

/// The CLI may say it before it is ready. Then a wake has begun nothing.
#[tokio::test]
async fn a_wake_into_another_conversation_begins_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (owner, taken) = at_rest(&daemon, "owner", "stop").await;
    let (id, own) = at_rest(&daemon, "woken", "park").await;
    let init = json!({ "type": "system", "subtype": "init", "session_id": taken, "uuid": "$UUID" });
    settings(&daemon, "woken", &json!({ "start": [{ "line": init }] }));
    let uuid = SessionId::new().to_string();
    let reply = send(&rest, &id, &uuid).await;
    assert!(reply.body.to_string().contains(&owner), "{:#}", reply.body);
    assert_eq!(reply.problem(409), "conversation_taken");
    let view = rest.session(&id).await;
    assert_eq!(
        (&view["state"], &view["cli"]["session_id"]),
        (&json!("parked"), &own)
    );
    settings(&daemon, "woken", &json!({}));
    send(&rest, &id, &uuid).await.expect(200);
}

#[tokio::test]
async fn a_first_start_in_another_conversation_fails() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let (owner, taken) = at_rest(&daemon, "owner", "stop").await;
    // The next daemon too knows which session has which conversation.
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let mut create = body(
        &daemon,
        "new",
        json!({ "start": [{ "set_session_id": taken }] }),
        json!({}),
    );
    create["prompt"] = json!("hello");
    let id = rest.create(create).await["id"].as_str().unwrap().to_owned();
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "conversation_taken", "{view:#}");
    assert_eq!(view["turns"], 0);
    rest.lifecycle(&owner, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    act_through(&rest, &owner, json!([{ "text": "still mine" }])).await;
}

#[tokio::test]
async fn each_change_of_the_conversation_is_a_notice() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (id, first) = at_rest(&daemon, "a", "stop").await;
    let other = SessionId::new().to_string();
    settings(
        &daemon,
        "a",
        &json!({ "resume_prints": other, "resume_keeps": "new" }),
    );
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "two").await;
    rest.ask(&id, "/clear").await;
    rest.ask(&id, "three").await;
    // A notice is written once it is decided; the turn goes on meanwhile.
    wait_for("both changes are told", PATIENCE, async || {
        (notices(&rest, &id, "conversation_changed").await == 2).then_some(())
    })
    .await;
    let records = records(&rest, &id).await;
    let notices = of_type(&records, "daemon", "notice");
    let changes: Vec<_> = notices
        .iter()
        .filter(|notice| notice["code"] == "conversation_changed")
        .map(|notice| (notice["from"].clone(), notice["to"].clone()))
        .collect();
    let now = rest.session(&id).await["cli"]["session_id"].clone();
    assert_eq!(changes, [(first, json!(other)), (json!(other), now)]);
}

/// The record of it is written by the next daemon, and by that one alone.
#[tokio::test]
async fn a_change_of_the_conversation_while_the_daemon_is_away_is_a_notice_too() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    rest.ask(&id, "one").await;
    let first = rest.session(&id).await["cli"]["session_id"].clone();
    let (gate, other) = (daemon.home().join("gate"), SessionId::new().to_string());
    let init = json!({ "type": "system", "subtype": "init", "session_id": other, "uuid": "$UUID" });
    let prompt = fake_prompt(&json!([{ "wait_file": gate }, { "line": init }, { "text": "there" }]));
    rest.prompt(&id, &prompt).await;
    rest.in_turn(&id).await;
    daemon.kill();
    fs::write(&gate, "").unwrap();
    wait_for("the turn ends without a daemon", PATIENCE, async || {
        let journal = daemon.journal(&id);
        (journal.matches(r#""type":"result""#).count() == 2).then_some(())
    })
    .await;
    for round in 0..3 {
        if round > 0 {
            daemon.kill();
        }
        daemon.start().await;
        let rest = daemon.rest();
        wait_for("the change is told", PATIENCE, async || {
            (notices(&rest, &id, "conversation_changed").await > 0).then_some(())
        })
        .await;
        let records = records(&rest, &id).await;
        let told: Vec<_> = of_type(&records, "daemon", "notice")
            .into_iter()
            .filter(|notice| notice["code"] == "conversation_changed")
            .map(|notice| (notice["from"].clone(), notice["to"].clone()))
            .collect();
        assert_eq!(told, [(first.clone(), json!(other))], "it is told once");
        assert_eq!(rest.session(&id).await["state"], "idle");
    }
}
