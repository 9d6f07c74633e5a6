//! Owns the contract against the running daemon: every documented operation is there, and what it answers is what the
//! document says.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    api::{
        common::{Operation, asking, call, id_of, operations},
        schema::{faults, resolved},
    },
    support::{daemon::TestDaemon, login::Page},
};

#[tokio::test]
async fn every_documented_operation_is_served() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let operations = operations(&rest).await;
    let nobody = Uuid::now_v7().to_string();
    // The answer of a stream has no end.
    for operation in operations.iter().filter(|it| it.id != "watch_sessions") {
        let reply = call(&rest, operation, &nobody, &nobody).await;
        let code = reply.body["code"].as_str().unwrap_or_default();
        assert!(
            ![
                "route_not_found",
                "method_not_allowed",
                "unsupported_media_type",
                "invalid_field",
                "invalid_json"
            ]
            .contains(&code),
            "{} {}: {:#}",
            operation.method,
            operation.path,
            reply.body
        );
        assert!(!reply.status.is_server_error(), "{operation:?}: {:#}", reply.body);
    }
    let ids: BTreeMap<&str, usize> = operations.iter().fold(BTreeMap::new(), |mut ids, operation| {
        *ids.entry(&operation.id).or_default() += 1;
        ids
    });
    assert!(
        ids.values().all(|count| *count == 1),
        "an operation id is used twice: {ids:?}"
    );
    // The committed document is the one that the daemon serves.
    let committed =
        std::fs::read_to_string(crate::support::programs::repository("openapi/trunkline.json")).unwrap();
    let served = rest.get("/openapi.json").await.expect(200);
    assert_eq!(serde_json::from_str::<Value>(&committed).unwrap(), served);
}

#[tokio::test]
async fn answers_are_as_documented() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let document = rest.get("/openapi.json").await.expect(200);
    let operations = operations(&rest).await;
    let session = json!({
        "cwd": daemon.work_dir("w"), "prompt": "hello", "title": "t", "tag": "g", "labels": {"a": "b"},
        "options": {"model": "m", "env": {"A": "b"}, "max_budget_usd": 3.5, "system_prompt": "be brief"}
    });
    let made = rest.post("/v1/sessions?wait=result", session).await.expect(201);
    check(&document, "create_session", 201, &made);
    let id = id_of(&made);
    rest.prompt(&id, &asking()).await;
    let approval = id_of(&rest.pending_approval(&id).await);

    // In this order: what ends the session comes last.
    let mut checked = BTreeSet::new();
    for name in [
        "get_session",
        "list_sessions",
        "update_session",
        "send_message",
        "list_messages",
        "find_in_session",
        "list_events",
        "get_event",
        "put_session_off",
        "take_session_up",
        "set_session_seen",
        "set_session_unread",
        "queue_prompt",
        "list_queued_prompts",
        "change_queued_prompt",
        "list_processes",
        "complete_directories",
        "examine_daemon",
        "list_approvals",
        "list_session_approvals",
        "get_approval",
        "decide_approval",
        "get_approval",
        "set_model",
        "set_permission_mode",
        "set_thinking",
        "send_control",
        "get_context_usage",
        "list_mcp_servers",
        "set_mcp_servers",
        "set_mcp_server",
        "reconnect_mcp_server",
        "rewind_files",
        "get_settings",
        "apply_settings",
        "list_tasks",
        "background_tasks",
        "stop_task",
        "get_task_output",
        "list_commands",
        "list_models",
        "list_agents",
        "get_account",
        "interrupt_session",
        "set_session_rules",
        "add_session_rule",
        "list_session_rules",
        "test_session_rules",
        "list_rules",
        "test_rules",
        "list_turns",
        "get_turn",
        "list_rate_limits",
        "list_todos",
        "list_runs",
        "get_usage",
        "get_health",
        "get_readiness",
        "get_daemon_configuration",
        "collect_journals",
        "create_ticket",
        "create_login",
        "list_logins",
        "fork_session",
        "park_session",
        "get_session",
        "restart_session",
        "stop_session",
        "list_commands",
        "resume_session",
        "list_sessions",
        "list_runs",
        "list_approvals",
    ] {
        let operation = operations.iter().find(|it| it.id == name).unwrap();
        let reply = call(&rest, operation, &id, &approval).await;
        assert!(reply.status.is_success(), "{name}: {:#}", reply.body);
        check(&document, name, reply.status.as_u16(), &reply.body);
        checked.insert(name);
    }
    let made = rest
        .post("/v1/webhooks", json!({"url": "http://127.0.0.1:9/"}))
        .await
        .expect(201);
    check(&document, "create_webhook", 201, &made);
    let webhook = id_of(&made["webhook"]);
    for name in ["list_webhooks", "get_webhook", "update_webhook", "test_webhook"] {
        let mut operation = operations.iter().find(|it| it.id == name).unwrap().clone();
        operation.path = operation.path.replace("{webhook_id}", &webhook);
        let body = call(&rest, &operation, &id, &approval).await.expect(200);
        check(&document, name, 200, &body);
        checked.insert(name);
    }
    let page = Page::let_in(&rest, "viewer").await;
    let own = page.call(Method::GET, "/v1/logins/current").await.expect(200);
    check(&document, "get_current_login", 200, &own);
    checked.insert("get_current_login");
    let failed = rest.ask_failing(&id).await;
    check(&document, "send_message", 200, &failed);
    for operation in operations
        .iter()
        .filter(|it| it.path.contains("{id}") && it.id != "attach_session")
    {
        let reply = call(&rest, operation, "nonsense", &approval).await;
        check(&document, &operation.id, reply.status.as_u16(), &reply.body);
    }
    for id_of_operation in ["remove_session_rule", "take_back_prompt", "delete_session"] {
        let gone = operations.iter().find(|it| it.id == id_of_operation).unwrap();
        assert_eq!(call(&rest, gone, &id, &approval).await.status, 204);
    }
    let known = |operation: &&Operation| {
        ![
            "attach_session",
            "attach_sessions",
            "connect_session",
            "stand_in",
            // A stream without an end.
            "watch_sessions",
            "get_openapi",
            "get_asyncapi",
            "get_docs",
            // A file.
            "export_session",
            // Text for a scraper.
            "get_metrics",
            "delete_session",
            "remove_session_rule",
            "take_back_prompt",
            "create_session",
            "create_webhook",
            "delete_webhook",
            "delete_login",
            "delete_current_login",
            // It needs an approval about a file.
            "get_approval_file",
            // Its answer to a request that it takes is looked at where daemons are started again.
            "restart_daemon",
        ]
        .contains(&operation.id.as_str())
    };
    let missed: Vec<_> = operations
        .iter()
        .filter(known)
        .map(|operation| operation.id.as_str())
        .filter(|id| !checked.contains(id))
        .collect();
    assert!(missed.is_empty(), "not looked at here: {missed:?}");
}

impl crate::support::rest::Rest {
    /// A turn that fails: its fields differ from those of one that does not.
    async fn ask_failing(&self, id: &str) -> Value {
        let actions = json!([{"result": {"subtype": "error_max_turns", "is_error": true, "result": null,
            "total_cost_usd": null, "modelUsage": null}}]);
        self.ask(id, &crate::support::programs::fake_prompt(&actions))
            .await
    }
}

/// Checks a body against the schema of an operation's answer.
fn check(document: &Value, operation: &str, status: u16, body: &Value) {
    let responses = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .find(|it| it["operationId"] == operation)
        .map(|it| &it["responses"])
        .unwrap();
    let response = responses
        .get(status.to_string())
        .or_else(|| responses.get("default"))
        .unwrap_or_else(|| panic!("{operation} does not document {status}"));
    let content = &resolved(document, response)["content"];
    let media = content
        .get("application/json")
        .or_else(|| content.get("application/problem+json"))
        .unwrap_or_else(|| panic!("{operation} documents no JSON for {status}"));
    let faults = faults(document, &media["schema"], body);
    assert!(faults.is_empty(), "{operation} {status}: {faults:#?}\n{body:#}");
}
