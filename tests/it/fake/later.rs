//! Owns the checks of what can be read later: the result of a turn, its use, tasks, to-do lists, and what the CLI said about limits.

use serde_json::{Value, json};

use crate::{
    fake::{
        bed::{act, act_through, path, session},
        metrics::Scrape,
    },
    support::{
        daemon::TestDaemon,
        wait::{PATIENCE, wait_for},
    },
};

#[tokio::test]
async fn the_result_of_a_turn_can_be_read_at_any_later_time() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let said = json!({ "text": "two", "result": null, "structured_output": { "n": 1.50 }, "stop_reason": "end_turn", "ttft_ms": 12,
        "permission_denials": [{ "tool_name": "Bash", "tool_use_id": "t", "tool_input": {} }],
        "origin": { "kind": "peer", "from": "a", "name": "b", "server": "c" } });
    act_through(&rest, &id, json!([{ "text": "one" }, { "result": said }])).await;
    let missing = rest.get(&path(&id, "turns/2")).await;
    assert_eq!(missing.problem(404), "turn_not_found");
    act(&rest, &id, json!([{ "text": "half" }, { "exit": 3 }])).await;
    wait_for("both turns have ended", PATIENCE, async || {
        (rest.turns(&id).await.len() == 2).then_some(())
    })
    .await;

    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let list = rest.turns(&id).await;
    let first = rest.get(&path(&id, "turns/1")).await.expect(200);
    assert_eq!(first["turn"], list[0]);
    let result = &first["result"];
    for member in [
        "structured_output",
        "stop_reason",
        "ttft_ms",
        "permission_denials",
        "origin",
    ] {
        assert_eq!(result[member], said[member], "{result:#}");
    }
    assert_eq!(
        (&result["type"], &result["subtype"]),
        (&json!("result"), &json!("success"))
    );
    let second = rest.get(&path(&id, "turns/2")).await.expect(200);
    assert_eq!(second["turn"]["outcome"], "cut_short");
    assert_eq!(second["result"], Value::Null);
    for wrong in ["0", "-1", "x", "1.5"] {
        let answer = rest.get(&path(&id, &format!("turns/{wrong}"))).await;
        assert_eq!(answer.problem(400), "invalid_id", "{wrong}");
    }
}

fn limit(kind: Option<&str>, status: &str, utilization: f64) -> Value {
    let mut info = json!({ "status": status, "utilization": utilization, "resetsAt": 1_790_000_000, "isUsingOverage": false });
    if let Some(kind) = kind {
        info["rateLimitType"] = json!(kind);
    }
    json!({ "line": { "type": "rate_limit_event", "rate_limit_info": info, "session_id": "$SESSION_ID", "uuid": "$UUID" } })
}

#[tokio::test]
async fn the_newest_word_about_each_limit_is_kept_with_its_session() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    assert_eq!(
        rest.get("/v1/rate-limits").await.expect(200),
        json!({ "items": [], "next_cursor": null })
    );
    let (a, b) = (
        session(&daemon, "a", json!({})).await,
        session(&daemon, "b", json!({})).await,
    );
    let of_a = json!([limit(Some("five_hour"), "allowed", 0.5), limit(Some("seven_day"), "allowed_warning", 0.9), { "text": "a" }]);
    act_through(&rest, &a, of_a).await;
    let of_b = json!([limit(Some("five_hour"), "allowed_warning", 0.75), limit(None, "rejected", 1.0), { "text": "b" }]);
    act_through(&rest, &b, of_b).await;
    let nonsense =
        json!([{ "line": { "type": "rate_limit_event", "rate_limit_info": [1] } }, { "text": "c" }]);
    act_through(&rest, &b, nonsense).await;

    let expected = [
        (Value::Null, "rejected", 1.0, &b),
        (json!("five_hour"), "allowed_warning", 0.75, &b),
        (json!("seven_day"), "allowed_warning", 0.9, &a),
    ];
    let list = rest.get("/v1/rate-limits").await.expect(200);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 3, "{list:#}");
    for (item, (kind, status, used, session)) in items.iter().zip(&expected) {
        assert_eq!(
            (
                &item["kind"],
                &item["status"],
                &item["utilization"],
                &item["session_id"]
            ),
            (kind, &json!(status), &json!(used), &json!(session)),
            "{list:#}"
        );
        assert_eq!(item["resets_at"], "2026-09-21T14:13:20.000000Z");
        assert_eq!(item["info"]["isUsingOverage"], false);
        let record = rest
            .get(&path(session, &format!("events/{}", item["seq"])))
            .await
            .expect(200);
        assert_eq!(record["data"]["type"], "rate_limit_event");
        assert_eq!(record["ts"], item["at"]);
    }
    let own = &rest.session(&a).await["rate_limits"];
    assert_eq!(
        (&own[0]["kind"], &own[0]["utilization"]),
        (&json!("five_hour"), &json!(0.5)),
        "{own:#}"
    );
    assert_eq!(own.as_array().unwrap().len(), 2);
    let scrape = Scrape::of(&rest).await;
    scrape.expect(
        r#"trunkline_rate_limit_events_total{kind="five_hour",status="allowed"}"#,
        1.0,
    );
    scrape.expect(r#"trunkline_rate_limit_utilization{kind="five_hour"}"#, 0.75);

    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(
        rest.get("/v1/rate-limits").await.expect(200),
        list,
        "a restart changes nothing"
    );
    let scrape = Scrape::of(&rest).await;
    scrape.expect(r#"trunkline_rate_limit_utilization{kind="unnamed"}"#, 1.0);
    scrape.expect(
        r#"trunkline_rate_limit_reset_timestamp_seconds{kind="seven_day"}"#,
        1_790_000_000.0,
    );
    rest.lifecycle(&b, "stop", json!({})).await.expect(200);
    rest.delete(&format!("/v1/sessions/{b}")).await.expect(204);
    let list = rest.get("/v1/rate-limits").await.expect(200);
    let left: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["session_id"])
        .collect();
    assert_eq!(left, [&json!(a), &json!(a)], "{list:#}");
}

#[tokio::test]
async fn usage_keeps_the_kinds_of_cache_searches_and_what_a_model_can_take() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let usage = |n: u64| {
        json!({ "input_tokens": n, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 30,
            "cache_creation": { "ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20 },
            "server_tool_use": { "web_search_requests": 2 }, "service_tier": "priority" })
    };
    // The totals of the process run on.
    let models = |n: u64| {
        json!({ "m": { "inputTokens": n, "outputTokens": n, "cacheReadInputTokens": n, "cacheCreationInputTokens": 3 * n,
            "cacheCreationEphemeral5mInputTokens": n, "cacheCreationEphemeral1hInputTokens": 2 * n, "webSearchRequests": n,
            "costUSD": 0.5, "contextWindow": 200_000, "maxOutputTokens": 32_000 } })
    };
    for n in 1..=2 {
        let said = json!({ "usage": usage(n), "modelUsage": models(n) });
        act_through(&rest, &id, json!([{ "text": "x" }, { "result": said }])).await;
    }
    let turns = rest.turns(&id).await;
    let second = &turns[1];
    let parts = [
        "cache_creation_5m_input_tokens",
        "cache_creation_1h_input_tokens",
        "web_search_requests",
    ];
    assert_eq!(
        parts.map(|part| second["usage"][part].as_u64()),
        [10, 20, 2].map(Some),
        "{second:#}"
    );
    assert_eq!(second["service_tier"], "priority");
    let model = &second["models"][0];
    assert_eq!(
        parts.map(|part| model["tokens"][part].as_u64()),
        [1, 2, 1].map(Some),
        "{second:#}"
    );
    assert_eq!(
        (&model["context_window"], &model["max_output_tokens"]),
        (&json!(200_000), &json!(32_000))
    );
    let view = rest.session(&id).await;
    assert_eq!(
        parts.map(|part| view["usage"][part].as_u64()),
        [20, 40, 4].map(Some),
        "{view:#}"
    );
    for (by, expected) in [("day", [20, 40, 4]), ("model", [2, 4, 2])] {
        let sums = rest.get(&format!("/v1/usage?group_by={by}")).await.expect(200);
        let sum = &sums["items"][0]["usage"];
        assert_eq!(
            parts.map(|part| sum[part].as_u64()),
            expected.map(Some),
            "{sums:#}"
        );
    }
}

/// A line of the CLI about a task.
fn task(subtype: &str, id: &str, mut said: Value) -> Value {
    said["type"] = json!("system");
    said["subtype"] = json!(subtype);
    said["task_id"] = json!(id);
    said["session_id"] = json!("$SESSION_ID");
    json!({ "line": said })
}

#[tokio::test]
async fn tasks_that_ended_are_kept_and_sub_agents_are_a_tree() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let agent = |parent: Option<&str>, depth: u64| {
        json!({ "task_type": "local_agent", "subagent_type": "general-purpose", "description": "look", "tool_use_id": "t",
            "is_backgrounded": true, "spawn_depth": depth, "parent_task_id": parent, "prompt": "x" })
    };
    let used = |tokens: u64| json!({ "total_tokens": tokens, "tool_uses": 1, "duration_ms": 5 });
    let ended = |status: &str, tokens: u64| json!({ "status": status, "output_file": "/tmp/x.output", "summary": "found it", "usage": used(tokens) });
    let lines = json!([
        task("task_started", "a1", agent(None, 1)),
        task("task_started", "a2", agent(Some("a1"), 2)),
        task("task_progress", "a2", json!({ "description": "Running x", "usage": used(10), "last_tool_name": "Bash" })),
        task("task_updated", "a2", json!({ "patch": { "status": "killed", "end_time": 1 } })),
        task("task_notification", "a2", ended("stopped", 20)),
        task("task_notification", "a1", ended("completed", 100)),
        task("task_started", "b1", json!({ "task_type": "local_bash", "description": "sleep 9", "is_backgrounded": true })),
        { "text": "x" },
    ]);
    act_through(&rest, &id, lines).await;
    let tasks = rest.get(&path(&id, "tasks")).await.expect(200);
    let history = tasks["history"].as_array().unwrap();
    let ids: Vec<_> = history
        .iter()
        .map(|task| task["task_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["b1", "a2", "a1"], "{tasks:#}");
    let second = &history[1];
    let told = [
        "status",
        "summary",
        "output_file",
        "parent_task_id",
        "description",
        "last_tool",
    ]
    .map(|it| second[it].as_str());
    let expected = ["stopped", "found it", "/tmp/x.output", "a1", "look", "Bash"].map(Some);
    assert_eq!(told, expected, "{tasks:#}");
    assert_eq!(second["usage"], used(20));
    assert!(
        second["ended_at"].is_string() && history[0]["ended_at"].is_null(),
        "{tasks:#}"
    );
    let tree = &tasks["agents"];
    assert_eq!(tree.as_array().unwrap().len(), 1, "{tree:#}");
    assert_eq!(
        (
            &tree[0]["usage"]["total_tokens"],
            &tree[0]["total"]["total_tokens"]
        ),
        (&json!(100), &json!(120))
    );
    assert_eq!(tree[0]["children"][0]["task_id"], "a2");

    // The one that runs ends with its process.
    act(&rest, &id, json!([{ "exit": 3 }])).await;
    rest.in_state(&id, &["failed", "starting", "idle"]).await;
    wait_for("the task has ended", PATIENCE, async || {
        let tasks = rest.get(&path(&id, "tasks")).await.expect(200);
        (tasks["history"][0]["status"] == "cut_short").then_some(())
    })
    .await;
    daemon.kill();
    daemon.start().await;
    let again = daemon.rest().get(&path(&id, "tasks")).await.expect(200);
    assert_eq!(again["agents"], *tree);
    assert!(again["history"][0]["ended_at"].is_string());
}

/// A call of a tool and its result, as the CLI prints them.
fn tool_call(call: &str, tool: &str, input: Value, result: Value) -> [Value; 2] {
    let call_line = json!({ "type": "assistant", "parent_tool_use_id": null, "session_id": "$SESSION_ID", "uuid": "$UUID",
        "message": { "id": call, "type": "message", "role": "assistant", "model": "m", "content": [
            { "type": "tool_use", "id": call, "name": tool, "input": input }] } });
    let refused = result == Value::Null;
    let result_line = json!({ "type": "user", "parent_tool_use_id": null, "session_id": "$SESSION_ID", "uuid": "$UUID",
        "message": { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": call, "content": "x", "is_error": refused }] },
        "tool_use_result": result });
    [json!({ "line": call_line }), json!({ "line": result_line })]
}

#[tokio::test]
async fn the_agents_list_of_what_it_means_to_do_is_a_route() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let nothing = json!({ "items": [], "seq": null, "at": null });
    assert_eq!(rest.get(&path(&id, "todos")).await.expect(200), nothing);
    let todos = json!([{ "content": "Mend it", "status": "in_progress", "activeForm": "Mending it" }, { "content": "Test it", "status": "pending", "activeForm": "Testing it" }]);
    let mut lines = Vec::new();
    lines.extend(tool_call(
        "t1",
        "TodoWrite",
        json!({ "todos": todos }),
        json!({ "oldTodos": [], "newTodos": todos }),
    ));
    lines.extend(tool_call("t2", "TodoWrite", json!({ "todos": [] }), Value::Null));
    lines.push(json!({ "text": "x" }));
    act_through(&rest, &id, json!(lines)).await;
    let list = rest.get(&path(&id, "todos")).await.expect(200);
    assert_eq!(
        list["items"].as_array().unwrap().len(),
        2,
        "a refused call changes nothing: {list:#}"
    );
    let first = &list["items"][0];
    assert_eq!(
        (&first["subject"], &first["active_form"], &first["id"]),
        (&json!("Mend it"), &json!("Mending it"), &Value::Null)
    );

    let mut lines = Vec::new();
    let create = |n: u32| json!({ "subject": format!("task {n}"), "description": "at length" });
    for n in 1..=2 {
        let made = json!({ "task": { "id": n.to_string(), "subject": format!("task {n}") } });
        lines.extend(tool_call(&format!("c{n}"), "TaskCreate", create(n), made));
    }
    let update = json!({ "taskId": "2", "status": "completed", "addBlockedBy": ["1"], "owner": "me" });
    lines.extend(tool_call(
        "u1",
        "TaskUpdate",
        update,
        json!({ "success": true, "taskId": "2", "updatedFields": ["status"] }),
    ));
    lines.push(json!({ "text": "x" }));
    act_through(&rest, &id, json!(lines)).await;
    let list = rest.get(&path(&id, "todos")).await.expect(200);
    let second = &list["items"][1];
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "{list:#}");
    assert_eq!(
        (
            &second["subject"],
            &second["status"],
            &second["owner"],
            &second["blocked_by"]
        ),
        (&json!("task 2"), &json!("completed"), &json!("me"), &json!(["1"]))
    );
    assert_eq!(second["description"], "at length");
    let record = rest
        .get(&path(&id, &format!("events/{}", list["seq"])))
        .await
        .expect(200);
    assert_eq!(record["data"]["tool_use_result"]["taskId"], "2");
}

#[tokio::test]
async fn what_a_host_says_of_a_message_reaches_the_cli_over_rest_and_sockets() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    let options = json!({ "verbatim_prompts": true, "plugins": [{ "type": "local", "path": "/srv/plugin" }],
        "env": { "CLAUDE_AGENT_SDK_CLIENT_APP": "editor/1.2" } });
    let id = rest.create_ready(json!({ "cwd": cwd, "options": options })).await;
    let messages = path(&id, "messages?wait=result");
    let about = json!({ "text": "one", "pasted_content": ["a", [{ "type": "text", "text": "b" }]], "inline_pastes": ["c"],
        "origin": { "kind": "human" } });
    rest.post(&messages, about.clone()).await.expect(200);
    rest.post(&messages, json!({ "text": "two", "client_composed": false }))
        .await
        .expect(200);
    let mut client = daemon.attach(&id, None).await;
    for line in [
        json!({ "type": "user", "message": { "role": "user", "content": "/three" } }),
        json!({ "type": "user", "message": { "role": "user", "content": "/four" }, "uuid": "0190b2c4-7d1e-7f3a-8b5c-1d2e3f4a5b6c" }),
        json!({ "type": "user", "message": { "role": "user", "content": "/five" }, "client_composed": false }),
    ] {
        client.send(&line).await;
        client.cli_line("result").await;
    }
    let records = rest.events(&id, 0).await;
    let said: Vec<&Value> = records
        .iter()
        .map(|record| &record["data"])
        .filter(|data| data["type"] == "user")
        .collect();
    let composed = said.iter().filter(|line| line["parent_tool_use_id"].is_null());
    let composed: Vec<_> = composed
        .map(|line| {
            (
                line["message"]["content"].clone(),
                line["client_composed"].as_bool(),
            )
        })
        .collect();
    let expected = [
        ("one", Some(true)),
        ("two", None),
        ("/three", Some(true)),
        ("/four", Some(true)),
        ("/five", Some(false)),
    ];
    assert_eq!(composed, expected.map(|(text, composed)| (json!(text), composed)));
    for member in ["pasted_content", "inline_pastes", "origin"] {
        assert_eq!(said[0][member], about[member], "{said:#?}");
    }
    for wrong in [
        json!({ "text": "x", "origin": [] }),
        json!({ "text": "x", "pasted_content": {} }),
    ] {
        assert_eq!(rest.post(&messages, wrong).await.problem(422), "invalid_field");
    }
}
