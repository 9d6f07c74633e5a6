//! Owns the tests of deadlines and of rules that expire: they are shown, kept over the death of the daemon, and hold once.

use serde_json::{Value, json};
use trunkline::domain::{Clock, Timestamp};

use crate::{
    fake::{
        bed::{act, records},
        rules::{approvals, bash, heard, pending, session_with_rules, set_rules},
    },
    support::{
        daemon::TestDaemon,
        wait::{PATIENCE, wait_for},
    },
};

#[tokio::test]
async fn a_deadline_denies_with_a_word_and_is_shown_before() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = session_with_rules(
        &daemon,
        "a",
        json!([
            { "id": "soon", "action": "ask", "tool": "Bash", "deadline_ms": 1500, "message": "Ask again tomorrow." },
            { "id": "yes", "action": "ask", "tool": "Write", "deadline_ms": 100, "on_deadline": "allow" },
            { "id": "form", "action": "ask", "kind": "elicitation", "deadline_ms": 100 },
        ]),
    )
    .await;
    let rest = daemon.rest();
    let form = json!({ "subtype": "elicitation", "mcp_server_name": "shop", "message": "?" });
    act(
        &rest,
        &id,
        json!([
            bash("q-1", "ls"),
            { "ask": { "ids": ["q-2"], "tool": "Write" } },
            { "request": form, "id": "f-1" },
        ]),
    )
    .await;
    let shown = wait_for("the deadline is shown", PATIENCE, async || {
        let asked = approvals(&rest, &id, "").await;
        asked.into_iter().find(|it| it["deadline"].is_string())
    })
    .await;
    assert_eq!(shown["rule"], "soon");
    assert!(
        shown["deadline"].as_str() > shown["requested_at"].as_str(),
        "{shown:#}"
    );
    rest.in_state(&id, &["idle"]).await;
    let ended = approvals(&rest, &id, "how=expiry").await;
    let ends: Vec<(&str, &str)> = ended
        .iter()
        .map(|it| {
            (
                it["state"].as_str().unwrap(),
                it["resolution"]["by"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        ends,
        [
            ("denied", "expiry:soon"),
            ("allowed", "expiry:yes"),
            ("cancelled", "expiry:form")
        ]
    );
    assert!(ended[0]["resolution"]["at"].as_str() >= ended[0]["deadline"].as_str());
    let records = records(&rest, &id).await;
    let message = &heard(&records, "q-1")[0]["response"]["response"]["message"];
    assert_eq!(
        *message,
        "Nobody decided before the deadline of the rule soon. Ask again tomorrow."
    );
    for request in ["q-1", "q-2", "f-1"] {
        assert_eq!(heard(&records, request).len(), 1, "{request}");
    }
}

#[tokio::test]
async fn a_deadline_changes_with_its_rule() {
    let daemon = TestDaemon::with_fake().start().await;
    let rules = |ms: u64| json!([{ "id": "d", "action": "ask", "deadline_ms": ms }]);
    let id = session_with_rules(&daemon, "a", rules(600_000)).await;
    let rest = daemon.rest();
    let mut client = daemon.attach(&id, None).await;
    act(&rest, &id, json!([bash("q-1", "ls")])).await;
    let mut told = async || {
        let wanted = |frame: &Value| frame["data"]["type"] == "approval";
        client.until("word of the approval", wanted).await.pop().unwrap()["data"].take()
    };
    let first = told().await;
    assert_eq!(first["rule"], "d");
    // As it was: it goes on running.
    set_rules(&rest, &id, rules(600_000)).await;
    set_rules(&rest, &id, rules(900_000)).await;
    let longer = told().await;
    assert!(
        longer["deadline"].as_str() > first["deadline"].as_str(),
        "{longer:#}"
    );
    set_rules(&rest, &id, json!([])).await;
    let none = told().await;
    assert_eq!((&none["rule"], &none["deadline"]), (&Value::Null, &Value::Null));
    let shown = pending(&rest, &id, 1).await;
    assert_eq!(
        (&shown[0]["rule"], &shown[0]["deadline"]),
        (&Value::Null, &Value::Null)
    );
    // Now it is overdue at once.
    set_rules(&rest, &id, rules(1)).await;
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(approvals(&rest, &id, "how=expiry").await.len(), 1);
}

/// A deadline outlives the daemon, and is the same in its next life. An overdue one is decided at once.
#[tokio::test]
async fn a_deadline_outlives_the_daemon() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let id = session_with_rules(
        &daemon,
        "a",
        json!([
            { "id": "soon", "action": "ask", "tool": "Bash", "deadline_ms": 2000 },
            { "id": "late", "action": "ask", "tool": "Write", "deadline_ms": 600_000 },
        ]),
    )
    .await;
    let rest = daemon.rest();
    let write = json!({ "ask": { "ids": ["q-2"], "tool": "Write", "wait": false } });
    act(
        &rest,
        &id,
        json!([write, bash("q-1", "ls"), { "wait_answer": "q-2" }]),
    )
    .await;
    let before = wait_for("both deadlines are shown", PATIENCE, async || {
        let asked = approvals(&rest, &id, "state=pending").await;
        (asked.len() == 2 && asked.iter().all(|it| it["deadline"].is_string())).then_some(asked)
    })
    .await;
    daemon.kill();
    let soon = before.iter().find(|it| it["rule"] == "soon").unwrap();
    let at: Timestamp = soon["deadline"].as_str().unwrap().parse().unwrap();
    wait_for("the deadline is over", PATIENCE, async || {
        (Clock.now() > at).then_some(())
    })
    .await;
    daemon.start().await;
    let rest = daemon.rest();
    let left = pending(&rest, &id, 1).await;
    let late = before.iter().find(|it| it["rule"] == "late").unwrap();
    assert_eq!(left[0], *late, "its deadline is as it was");
    let ended = approvals(&rest, &id, "how=expiry").await;
    assert_eq!(ended[0]["resolution"]["by"], "expiry:soon");
    assert_eq!(ended[0]["deadline"], soon["deadline"]);
    let approval = late["id"].as_str().unwrap();
    rest.decide(&id, approval, json!({ "decision": "allow" }))
        .await
        .expect(200);
    rest.in_state(&id, &["idle"]).await;
    let records = records(&rest, &id).await;
    for request in ["q-1", "q-2"] {
        assert_eq!(heard(&records, request).len(), 1, "{request}");
    }
}

#[tokio::test]
async fn an_expired_rule_holds_nothing_back() {
    let daemon = TestDaemon::with_fake().start().await;
    let until = Clock.now().plus_millis(3_000);
    let id = session_with_rules(
        &daemon,
        "a",
        json!([{ "id": "hold", "action": "ask", "expires_at": until }, { "id": "all", "action": "allow" }]),
    )
    .await;
    let rest = daemon.rest();
    act(&rest, &id, json!([bash("q-1", "ls")])).await;
    rest.in_state(&id, &["idle"]).await;
    let ended = approvals(&rest, &id, "by=rule:all").await;
    let at: Timestamp = ended[0]["resolution"]["at"].as_str().unwrap().parse().unwrap();
    assert!(at >= until, "{ended:#?}");
}
