//! Owns large requests of the CLI, and many of them: memory and lists hold a part, and each is answered as a whole.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, answer_heard, of_type, path, plain, records, session_with},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        server::Server,
        wait::{PATIENCE, wait_for},
    },
};

/// More than stands in a list.
fn content() -> String {
    "0123456789".repeat(20_000)
}

fn write(id: &str) -> Value {
    json!({ "ask": { "ids": [id], "tool": "Write", "input": { "file_path": "/tmp/x", "content": content() } } })
}

async fn listed(rest: &Rest, session: &str) -> Value {
    let page = rest.get(&path(session, "approvals")).await.expect(200);
    page["items"][0].clone()
}

#[tokio::test]
async fn a_large_request_is_listed_in_part_and_allowed_as_a_whole() {
    let (mut daemon, rest, id) = plain().await;
    act(&rest, &id, json!([write("w-1")])).await;
    let part = rest.pending_approval(&id).await;
    let input = json!({ "file_path": "/tmp/x", "content": content() });
    let approval = part["id"].as_str().unwrap().to_owned();
    let snapshot = daemon.attach(&id, None).await.next().await;
    for part in [&part, &snapshot["pending_approvals"][0]] {
        assert_eq!(part["request_truncated"], true);
        assert_eq!(part["left_out"], json!(["input.content"]));
        assert_eq!(part["request"]["input"], json!({ "file_path": "/tmp/x" }));
        assert_eq!(part["subject"], "Write");
        assert!(part["request_bytes"].as_u64().unwrap() > 200_000);
        assert!(part.to_string().len() < 4_000);
    }
    let show = path(&id, &format!("approvals/{approval}"));
    let whole = rest.get(&show).await.expect(200);
    assert_eq!(whole["request_truncated"], false);
    assert!(whole["request"]["input"] == input, "all of it can be read");

    // The next daemon knows no more than its journal says.
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    rest.in_state(&id, &["waiting"]).await;
    let mut client = daemon.attach(&id, None).await;
    let decided = rest
        .decide(&id, &approval, json!({ "decision": "allow" }))
        .await
        .expect(200);
    let heard = answer_heard(&mut client, "w-1").await;
    let given = &heard["response"]["response"]["updatedInput"];
    assert!(
        heard["valid"] == true && *given == input,
        "the tool runs with all of it"
    );
    let end = &decided["resolution"];
    assert_eq!(
        (&end["input_changed"], &end["ran_sha256"]),
        (&json!(false), &decided["input_sha256"])
    );
    let listed = listed(&rest, &id).await;
    assert_eq!(listed["resolution"]["response_truncated"], true);
    assert!(listed.to_string().len() < 8_000);
    let lines = rest
        .builder(Method::GET, &path(&id, "approvals"))
        .header("accept", "application/x-ndjson");
    let exported = rest.send(lines).await;
    assert!(
        exported.body["request"]["input"] == input,
        "an export has all of it"
    );
}

#[tokio::test]
async fn a_large_input_that_comes_back_in_another_spelling_is_the_same() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    for (request, given, changed) in [("w-1", content(), false), ("w-2", "other".to_owned(), true)] {
        act(&rest, &id, json!([write(request)])).await;
        rest.pending_approval(&id).await;
        let updated = format!(r#"{{ "file_path" : "/tmp\/x", "content" : "{given}" }}"#);
        let answer = format!(
            r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"{request}","response":{{"behavior":"allow","updatedInput":{updated}}}}}}}"#
        );
        client.send_text(&answer).await;
        rest.in_state(&id, &["idle"]).await;
        let listed = listed(&rest, &id).await;
        assert_eq!(listed["state"], "allowed");
        assert_eq!(listed["resolution"]["input_changed"], changed, "{request}");
    }
}

#[tokio::test]
async fn rules_see_all_of_a_large_request() {
    let (_daemon, rest, id) = plain().await;
    let deny = json!([{ "action": "deny", "input": { "content": { "glob": "*secret" } } }]);
    rest.put(&path(&id, "rules"), json!({ "items": deny }))
        .await
        .expect(200);
    let input = json!({ "file_path": "/tmp/x", "content": format!("{}secret", content()) });
    act(
        &rest,
        &id,
        json!([{ "ask": { "tool": "Write", "input": input } }]),
    )
    .await;
    rest.in_state(&id, &["idle"]).await;
    let listed = listed(&rest, &id).await;
    assert_eq!(
        (&listed["state"], &listed["resolution"]["how"]),
        (&json!("denied"), &json!("rule"))
    );
}

#[tokio::test]
async fn a_webhook_and_the_log_get_all_of_a_large_hook() {
    let mut server = Server::start().await;
    let url = server.url("/hook").uri().to_string();
    let daemon = TestDaemon::with_fake().start().await;
    let hook = json!({ "event": "PreToolUse", "target": { "type": "webhook", "url": url } });
    let id = session_with(&daemon, "a", json!({}), json!({ "hooks": [hook] })).await;
    let rest = daemon.rest();
    let input = json!({ "file_path": "/tmp/x", "content": content() });
    let asked = json!({ "hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": input });
    let callback = json!({ "subtype": "hook_callback", "callback_id": "trunkline/0", "input": asked });
    act(&rest, &id, json!([{ "request": callback, "id": "h-1" }])).await;
    let request = server.next().await;
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert!(body["input"]["tool_input"] == input, "the webhook sees all of it");
    // The same input, spelled in another way.
    let same = format!(r#"{{ "file_path" : "/tmp\/x", "content" : "{}" }}"#, content());
    let output = format!(
        r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{same}}}}}"#
    );
    request
        .answer("200 OK\ncontent-type: application/json", &output)
        .await;
    rest.in_state(&id, &["idle"]).await;
    let entry = listed(&rest, &id).await;
    assert_eq!(entry["resolution"]["how"], "hook", "{entry:#}");
    assert_eq!(entry["resolution"]["input_changed"], false);
    let show = path(&id, &format!("approvals/{}", entry["id"].as_str().unwrap()));
    let whole = rest.get(&show).await.expect(200);
    assert!(
        whole["request"]["input"]["tool_input"] == input,
        "the log has all of it"
    );
}

#[tokio::test]
async fn requests_of_which_too_many_are_open_wait_and_none_is_denied() {
    let (daemon, rest, id) = plain().await;
    let ids: Vec<String> = (0..300).map(|n| format!("q-{n}")).collect();
    act(&rest, &id, json!([{ "ask": { "ids": ids } }])).await;
    let view = wait_for("all are asked", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["waiting_approvals"] == 44).then_some(view)
    })
    .await;
    let open = view["pending_approvals"].as_array().unwrap();
    assert_eq!(open.len(), 256);
    assert_eq!(open[255]["request_id"], "q-255");
    let metrics = rest.get("/metrics").await.body.as_str().unwrap().to_owned();
    assert!(metrics.contains("trunkline_requests_waiting 44"), "{metrics}");
    // Also one that waits takes an answer.
    let mut client = daemon.attach(&id, None).await;
    let answer = |request: &str| json!({ "type": "control_response", "response": { "subtype": "success", "request_id": request, "response": { "behavior": "allow" } } });
    client.send(&answer("q-299")).await;
    answer_heard(&mut client, "q-299").await;
    // When one closes, the next one opens.
    let first = open[0]["id"].as_str().unwrap();
    rest.decide(&id, first, json!({ "decision": "deny" }))
        .await
        .expect(200);
    let view = rest.session(&id).await;
    assert_eq!(view["waiting_approvals"], 42, "{view:#}");
    assert_eq!(view["pending_approvals"][255]["request_id"], "q-256");
    // A rule decides all that is left, one bound after the other.
    let rules = json!({ "items": [{ "action": "allow", "tool": "Bash" }] });
    rest.put(&path(&id, "rules"), rules).await.expect(200);
    rest.in_state(&id, &["idle"]).await;
    let records = records(&rest, &id).await;
    let answers = of_type(&records, "cli", "fake_answer");
    assert_eq!(answers.len(), 300);
    let denied = |answer: &&&Value| answer["response"]["response"]["behavior"] == "deny";
    assert_eq!(answers.iter().filter(denied).count(), 1);
    assert!(
        answers
            .iter()
            .all(|answer| answer["valid"] == true && answer["expected"] == true)
    );
}
