//! Owns the tests of the audit log of approvals: its filters and its exports.

use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::support::{daemon::TestDaemon, programs::fake_prompt, rest::Rest};

/// Two sessions with five approvals: allowed with other input, denied, withdrawn, declined, pending. Their sessions.
async fn history(daemon: &TestDaemon, rest: &Rest) -> [String; 2] {
    let mut sessions = Vec::new();
    for name in ["a", "b"] {
        sessions.push(rest.create_ready(json!({ "cwd": daemon.work_dir(name) })).await);
    }
    let decide = async |session: &String, actions: Value, decision: Value| {
        rest.prompt(session, &fake_prompt(&actions)).await;
        let approval = rest.pending_approval(session).await;
        let id = approval["id"].as_str().unwrap();
        rest.decide(session, id, decision).await.expect(200);
        rest.in_state(session, &["idle"]).await;
    };
    let [a, b] = [&sessions[0], &sessions[1]];
    let rules = json!([{ "type": "addRules", "rules": [{ "toolName": "Bash" }], "behavior": "allow", "destination": "session" }]);
    let allow =
        json!({ "decision": "allow", "updated_input": { "command": "ls" }, "updated_permissions": rules });
    decide(
        a,
        json!([{ "ask": { "tool": "=cmd()", "input": { "command": "rm" } } }]),
        allow,
    )
    .await;
    decide(
        b,
        json!([{ "ask": { "tool": "Bash" } }]),
        json!({ "decision": "deny" }),
    )
    .await;
    let form = json!({ "subtype": "elicitation", "mcp_server_name": "shop", "message": "?" });
    decide(b, json!([{ "request": form }]), json!({ "decision": "decline" })).await;
    let withdrawn = json!([{ "ask": { "ids": ["w-1"], "wait": false } }, { "cancel": "w-1" }]);
    rest.ask(a, &fake_prompt(&withdrawn)).await;
    rest.prompt(a, &fake_prompt(&json!([{ "ask": { "tool": "Edit" } }])))
        .await;
    rest.pending_approval(a).await;
    sessions.try_into().unwrap()
}

async fn list(rest: &Rest, query: &str) -> Vec<Value> {
    let page = rest.get(&format!("/v1/approvals?{query}")).await.expect(200);
    page["items"].as_array().unwrap().clone()
}

async fn export(rest: &Rest, path: &str, form: &str) -> (String, String) {
    let request = rest.builder(Method::GET, path).header(header::ACCEPT, form);
    let response = request.send().await.unwrap().error_for_status().unwrap();
    let content_type = response.headers()[header::CONTENT_TYPE]
        .to_str()
        .unwrap()
        .to_owned();
    (content_type, response.text().await.unwrap())
}

#[tokio::test]
async fn the_audit_log_says_who_decided_what_and_can_be_filtered() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let [a, b] = history(&daemon, &rest).await;
    let all = list(&rest, "").await;
    let states: Vec<&str> = all.iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["pending", "withdrawn", "denied", "denied", "allowed"]);
    let allowed = &all[4];
    let resolution = &allowed["resolution"];
    assert_eq!(
        (&resolution["how"], &resolution["by"]),
        (&json!("person"), &json!("rest"))
    );
    assert_eq!(
        (&resolution["input_changed"], &resolution["permissions_updated"]),
        (&json!(true), &json!(true))
    );
    // printf '{"command":"rm"}' | sha256sum
    assert_eq!(
        allowed["input_sha256"],
        "01853b600844ac1c38c64e42caa9e1f0d6cb3138d96ca0835502520c71d4704c"
    );
    assert_eq!(all[1]["resolution"]["how"], "withdrawal");
    assert_eq!(all[2]["resolution"]["permissions_updated"], false);
    assert_eq!(all[0]["resolution"], Value::Null);

    let first = allowed["requested_at"].as_str().unwrap();
    let third = all[2]["requested_at"].as_str().unwrap();
    for (query, count) in [
        ("state=denied".to_owned(), 2),
        ("kind=elicitation".to_owned(), 1),
        (format!("session={a}"), 3),
        (format!("session={b}&state=denied&kind=tool"), 1),
        ("tool=Bash".to_owned(), 2),
        ("tool=shop".to_owned(), 1),
        ("by=rest".to_owned(), 3),
        ("by=cli".to_owned(), 1),
        (format!("from={third}"), 3),
        (format!("to={third}"), 2),
        (format!("from={first}&to={third}&by=rest"), 2),
        ("tool=nothing".to_owned(), 0),
    ] {
        assert_eq!(list(&rest, &query).await.len(), count, "{query}");
    }
    for wrong in ["from=yesterday", "kind=maybe", "session=x", "who=me"] {
        let reply = rest.get(&format!("/v1/approvals?{wrong}")).await;
        assert_eq!(reply.problem(400), "invalid_query", "{wrong}");
    }
    let of_other = rest.get(&format!("/v1/sessions/{a}/approvals?session={b}")).await;
    assert_eq!(of_other.problem(400), "invalid_query");
}

#[tokio::test]
async fn the_audit_log_is_exported_whole() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let [a, _] = history(&daemon, &rest).await;
    // More than one page of the export, all asked at once.
    let many: Vec<String> = (0..240).map(|n| format!("m-{n}")).collect();
    let asked = json!([{ "ask": { "ids": many, "wait": false } }, { "silent": 1 }]);
    let c = rest.create_ready(json!({ "cwd": daemon.work_dir("c") })).await;
    rest.prompt(&c, &fake_prompt(&asked)).await;
    crate::support::wait::wait_for("all are there", crate::support::wait::PATIENCE, async || {
        let path = format!("/v1/approvals?session={c}&limit=500");
        let page = rest.get(&path).await.expect(200);
        (page["items"].as_array().unwrap().len() == 240).then_some(())
    })
    .await;

    let (content_type, lines) = export(&rest, "/v1/approvals", "application/x-ndjson").await;
    assert_eq!(content_type, "application/x-ndjson");
    let exported: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        exported,
        list(&rest, "limit=500").await,
        "the same objects in the same order"
    );
    assert_eq!(exported.len(), 245);

    let (content_type, table) = export(&rest, &format!("/v1/sessions/{a}/approvals"), "text/csv").await;
    assert_eq!(content_type, "text/csv; charset=utf-8");
    let rows: Vec<&str> = table.split_terminator("\r\n").collect();
    assert_eq!(rows.len(), 4, "a heading and the three of this session: {table}");
    assert!(rows[0].starts_with("id,session_id,run_id,seq,request_id,kind,subject,state,"));
    assert!(rows[1].contains(",Edit,pending,"), "{}", rows[1]);
    assert!(
        rows[2].contains(",withdrawn,") && rows[2].contains(",withdrawal,cli,"),
        "{}",
        rows[2]
    );
    assert!(
        rows[3].contains(",\"'=cmd()\",allowed,"),
        "no formula: {}",
        rows[3]
    );
    assert!(rows[3].contains(r#""{""behavior"":""allow"""#), "{}", rows[3]);
    let (_, denied) = export(&rest, "/v1/approvals?state=denied&by=rest", "text/csv").await;
    assert_eq!(denied.lines().count(), 3);

    for wrong in ["limit=5", "cursor=x"] {
        let request = rest
            .builder(Method::GET, &format!("/v1/approvals?{wrong}"))
            .header(header::ACCEPT, "text/csv");
        assert_eq!(rest.send(request).await.problem(400), "invalid_query");
    }
}
