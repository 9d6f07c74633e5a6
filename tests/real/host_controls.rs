//! Owns the tests of what a host asks the CLI: each control request through its route, and the answer against its type.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trunkline::claude::controls::*;

use crate::{
    support::{
        rest::Reply,
        wait::{PATIENCE, wait_for, wait_until},
    },
    world::{World, bash, endless, fresh_id, marked, marker, text},
};

/// Sends a control request; the answer must be a success.
pub(crate) async fn control(world: &World, id: &str, request: Value) -> Value {
    let reply = try_control(world, id, request.clone()).await;
    assert_eq!(reply.status, 200, "{request}: {:#}", reply.body);
    assert_eq!(reply.body["subtype"], request["subtype"]);
    reply.body["response"].clone()
}

pub(crate) async fn try_control(world: &World, id: &str, request: Value) -> Reply {
    world
        .rest
        .post(&format!("/v1/sessions/{id}/control"), request)
        .await
}

/// As [`control`], and the answer must fit its type: a field of another type fails.
pub(crate) async fn typed<T: DeserializeOwned>(world: &World, id: &str, request: Value) -> T {
    let answer = control(world, id, request.clone()).await;
    fits(&request.to_string(), &answer)
}

#[track_caller]
pub(crate) fn fits<T: DeserializeOwned>(what: &str, answer: &Value) -> T {
    serde_json::from_value(answer.clone()).unwrap_or_else(|error| panic!("{what}: {error}\n{answer:#}"))
}

pub(crate) async fn get(world: &World, id: &str, route: &str) -> Value {
    let reply = world.rest.get(&format!("/v1/sessions/{id}/{route}")).await;
    reply.expect(200)
}

/// Requests that need nothing but a process.
#[tokio::test]
async fn what_a_host_asks_is_answered_in_the_types() {
    let world = World::start().await;
    world.write("found.txt", "in the file");
    let id = world.session(json!({})).await;
    assert_eq!(world.answer(&id, json!([{ "text": "one" }])).await, "one");

    let model: SetModelPayload =
        typed(&world, &id, json!({ "subtype": "set_model", "model": "sonnet" })).await;
    assert!(model.model.unwrap().contains("sonnet"));
    let mode = json!({ "subtype": "set_permission_mode", "mode": "acceptEdits" });
    let mode: SetPermissionModePayload = typed(&world, &id, mode).await;
    assert_eq!(mode.mode.as_deref(), Some("acceptEdits"));
    let thinking = json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": 2000 });
    typed::<NoPayload>(&world, &id, thinking).await;
    let offers: InitializePayload = typed(&world, &id, json!({ "subtype": "initialize" })).await;
    assert_eq!(offers.current_permission_mode.as_deref(), Some("acceptEdits"));
    let interrupt: InterruptPayload = typed(&world, &id, json!({ "subtype": "interrupt" })).await;
    assert_eq!(interrupt.still_queued.as_deref(), Some(&[][..]));

    let usage: ContextUsagePayload = typed(&world, &id, json!({ "subtype": "get_context_usage" })).await;
    assert!(usage.max_tokens.unwrap() > 0.0 && !usage.categories.unwrap().is_empty());
    let cost: SessionCostPayload = typed(&world, &id, json!({ "subtype": "get_session_cost" })).await;
    assert!(cost.text.unwrap().contains("cost"), "a text for people");
    let models: ListModelsPayload = typed(&world, &id, json!({ "subtype": "list_models" })).await;
    assert!(models.models.unwrap().iter().all(|model| model.value.is_some()));
    let usage: UsagePayload = typed(&world, &id, json!({ "subtype": "get_usage" })).await;
    assert!(usage.session.unwrap().total_cost_usd.unwrap() > 0.0);
    let version: BinaryVersionPayload = typed(&world, &id, json!({ "subtype": "get_binary_version" })).await;
    let view = world.rest.session(&id).await;
    assert_eq!(version.version.unwrap(), text(&view["cli"], "version"));
    wait_for("the CLI knows its files", PATIENCE, async || {
        let query = json!({ "subtype": "file_suggestions", "query": "found" });
        let found: FileSuggestionsPayload = typed(&world, &id, query).await;
        assert_eq!(found.cwd.unwrap(), world.dir().to_str().unwrap());
        let suggestions = found.suggestions.unwrap();
        suggestions
            .iter()
            .any(|it| it.path.as_deref() == Some("found.txt"))
            .then_some(())
    })
    .await;
    let path = world.dir().join("found.txt");
    let file: ReadFilePayload = typed(&world, &id, json!({ "subtype": "read_file", "path": path })).await;
    assert_eq!(file.contents.as_deref(), Some("in the file"));
    typed::<NoPayload>(
        &world,
        &id,
        json!({ "subtype": "seed_read_state", "path": path, "mtime": 1 }),
    )
    .await;
    let rules: PermissionRulesPayload =
        typed(&world, &id, json!({ "subtype": "list_permission_rules" })).await;
    assert_eq!(
        rules.state.unwrap().original_cwd.unwrap(),
        world.dir().to_str().unwrap()
    );
    let hooks: HooksListingPayload = typed(&world, &id, json!({ "subtype": "get_hooks_listing" })).await;
    assert!(hooks.event_catalog.unwrap().len() > 10);
    let plugins: ReloadPluginsPayload = typed(&world, &id, json!({ "subtype": "reload_plugins" })).await;
    assert!(!plugins.commands.unwrap().is_empty());
    let skills: ReloadSkillsPayload = typed(&world, &id, json!({ "subtype": "reload_skills" })).await;
    assert!(skills.skills.is_some());
    let styles: ReloadOutputStylesPayload =
        typed(&world, &id, json!({ "subtype": "reload_output_styles" })).await;
    assert!(
        styles
            .available_output_styles
            .unwrap()
            .contains(&"default".to_owned())
    );
    let cancelled = json!({ "subtype": "cancel_async_message", "message_uuid": fresh_id() });
    let cancelled: CancelMessagePayload = typed(&world, &id, cancelled).await;
    assert_eq!(cancelled.cancelled, Some(false));
    typed::<NoPayload>(
        &world,
        &id,
        json!({ "subtype": "set_has_subscribers", "has_subscribers": true }),
    )
    .await;
    typed::<NoPayload>(
        &world,
        &id,
        json!({ "subtype": "rename_session", "title": "named" }),
    )
    .await;
    assert_eq!(world.rest.session(&id).await["title"], "named");
    typed::<EmptyPayload>(&world, &id, json!({ "subtype": "stop_task", "task_id": "nope" })).await;
    typed::<EmptyPayload>(&world, &id, json!({ "subtype": "background_tasks" })).await;
}

/// Those of the SDK's code that are in no public type.
#[tokio::test]
async fn what_only_the_sdk_asks_is_answered_in_the_types() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    assert_eq!(world.answer(&id, json!([{ "text": "one" }])).await, "one");
    let title = json!({ "subtype": "generate_session_title", "description": "a test", "persist": false });
    typed::<GenerateTitlePayload>(&world, &id, title).await;
    let question = crate::support::programs::scripted(&json!([{ "text": "aside" }]));
    let question = json!({ "subtype": "side_question", "question": question });
    let aside: SideQuestionPayload = typed(&world, &id, question).await;
    assert_eq!(aside.response.as_deref(), Some("aside"));
    let status: StatusPayload = typed(&world, &id, json!({ "subtype": "get_status" })).await;
    assert!(!status.sections.unwrap().is_empty());
    let plan: PlanPayload = typed(&world, &id, json!({ "subtype": "get_plan" })).await;
    assert_eq!(plan.exists, Some(false));
    let text: ExportConversationPayload =
        typed(&world, &id, json!({ "subtype": "export_conversation" })).await;
    assert!(text.text.unwrap().contains("one"));
    typed::<MemoryDialogPayload>(&world, &id, json!({ "subtype": "get_memory_dialog" })).await;
    typed::<SkillsDialogPayload>(&world, &id, json!({ "subtype": "get_skills_dialog" })).await;
    typed::<SandboxDialogPayload>(&world, &id, json!({ "subtype": "get_sandbox_dialog" })).await;
    let chrome: ChromeDialogPayload = typed(&world, &id, json!({ "subtype": "get_chrome_dialog" })).await;
    assert_eq!(chrome.connected, Some(false));
    let rated = json!({
        "subtype": "message_rated", "messageUuid": fresh_id(), "sentiment": "positive",
        "surface": "assistant_text", "cleared": false,
    });
    typed::<EmptyPayload>(&world, &id, rated).await;
    let mode = json!({ "subtype": "set_mcp_permission_mode_override", "serverName": "x", "mode": null });
    let mode: McpModeOverridePayload = typed(&world, &id, mode).await;
    assert!(mode.warning.is_some());
    let paused = json!({ "subtype": "set_prompt_suggestions_paused", "paused": true });
    typed::<NoPayload>(&world, &id, paused).await;
    typed::<NoPayload>(&world, &id, json!({ "subtype": "prompt_draft_activity" })).await;
    let ping = json!({ "jsonrpc": "2.0", "method": "ping", "id": 1 });
    let message = json!({ "subtype": "mcp_message", "server_name": "nope", "message": ping });
    typed::<AnyPayload>(&world, &id, message).await;
    typed::<AnyPayload>(
        &world,
        &id,
        json!({ "subtype": "remote_control", "enabled": false }),
    )
    .await;
}

#[tokio::test]
async fn what_the_cli_refuses_is_a_conflict_in_its_words() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    for (request, code) in [
        (
            json!({ "subtype": "brand_new_thing", "x": [1.0] }),
            "unsupported_request",
        ),
        (
            json!({ "subtype": "set_color", "color": "blue" }),
            "unsupported_request",
        ),
        (
            json!({ "subtype": "set_permission_mode", "mode": "nonsense" }),
            "invalid_mode",
        ),
        (
            json!({ "subtype": "set_permission_mode", "mode": "bypassPermissions" }),
            "bypass_",
        ),
        (json!({ "subtype": "read_file", "path": "/etc/hostname" }), ""),
        (
            json!({ "subtype": "mcp_read_resource", "serverName": "x", "uri": "y" }),
            "",
        ),
        (json!({ "subtype": "channel_enable", "serverName": "x" }), ""),
        (json!({ "subtype": "mcp_authenticate", "serverName": "x" }), ""),
        (json!({ "subtype": "mcp_clear_auth", "serverName": "x" }), ""),
        (
            json!({ "subtype": "mcp_oauth_callback_url", "serverName": "x", "callbackUrl": "http://127.0.0.1/x" }),
            "",
        ),
        (json!({ "subtype": "mcp_call", "tool": "unqualified" }), ""),
        (json!({ "subtype": "claude_oauth_wait_for_completion" }), ""),
        (json!({ "subtype": "get_chrome_browsers" }), ""),
        (
            json!({ "subtype": "select_chrome_browser", "device_id": "x" }),
            "",
        ),
        (json!({ "subtype": "set_chrome_browser_hints" }), ""),
        (
            json!({ "subtype": "rewind_files", "user_message_id": fresh_id() }),
            "",
        ),
        (json!({ "subtype": "get_task_output", "task_id": "nope" }), ""),
        (
            json!({ "subtype": "update_settings", "source": "localSettings", "settings": { "model": "haiku" } }),
            "",
        ),
    ] {
        let refused = try_control(&world, &id, request.clone()).await;
        assert!(!text(&refused.body, "detail").is_empty(), "{request}");
        if !code.is_empty() {
            // Which of its reasons it names depends on the machine's settings.
            assert!(
                text(&refused.body, "error_code").starts_with(code),
                "{:#}",
                refused.body
            );
        }
        assert_eq!(refused.problem(409), "control_refused", "{request}");
    }
    assert_eq!(world.rest.session(&id).await["permission_mode"], "default");
    // A dry run that finds nothing to give back is no error.
    let ask = json!({ "subtype": "rewind_files", "user_message_id": fresh_id(), "dry_run": true });
    let dry: RewindFilesPayload = typed(&world, &id, ask).await;
    assert_eq!(dry.can_rewind, Some(false));
}

/// The CLI lets a host change few keys of its files, and says which it does not.
#[tokio::test]
async fn settings_of_files_and_directories_of_the_workspace_are_written() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    for (source, settings) in [
        ("localSettings", json!({ "outputStyle": "default" })),
        ("userSettings", json!({ "effortLevel": "low" })),
    ] {
        let request = json!({ "subtype": "update_settings", "source": source, "settings": settings });
        typed::<EmptyPayload>(&world, &id, request).await;
    }
    let kept = std::fs::read_to_string(world.dir().join(".claude/settings.local.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["outputStyle"], "default");
    let inner = world.dir().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let request = json!({ "subtype": "register_repo_root", "directory": inner });
    let root: RegisterRepoRootPayload = typed(&world, &id, request).await;
    assert_eq!(root.directory.as_deref(), inner.to_str());
    let outside = json!({ "subtype": "register_repo_root", "directory": world.daemon.work_dir("other") });
    let refused = try_control(&world, &id, outside).await;
    assert_eq!(refused.problem(409), "control_refused");
}

#[tokio::test]
async fn settings_are_applied_and_shown() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let settings = json!({ "settings": { "effortLevel": "high" } });
    let path = format!("/v1/sessions/{id}/settings");
    let reply = world.rest.patch(&path, settings).await.expect(200);
    assert_eq!(reply, json!({ "response": null }));
    let shown: SettingsPayload = fits("settings", &get(&world, &id, "settings").await["response"]);
    assert_eq!(shown.applied.unwrap().effort.as_deref(), Some("high"));
    let take_back = json!({ "settings": { "effortLevel": null } });
    world.rest.patch(&path, take_back).await.expect(200);
    let shown = get(&world, &id, "settings").await;
    assert_eq!(
        shown["response"]["effective"]["effortLevel"],
        json!(null),
        "{shown:#}"
    );
}

#[tokio::test]
async fn context_usage_has_two_depths() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    for route in [
        "context_usage",
        "context_usage?detail=summary",
        "context_usage?detail=full",
    ] {
        let usage = get(&world, &id, route).await;
        let usage: ContextUsagePayload = fits(route, &usage["response"]);
        assert!(usage.total_tokens.is_some());
    }
    let events = world.rest.events(&id, 0).await;
    let asked: Vec<_> = events
        .iter()
        .filter(|record| record["data"]["request"]["subtype"] == "get_context_usage")
        .map(|record| record["data"]["request"]["detail"].clone())
        .collect();
    assert_eq!(asked, [json!(null), json!("summary"), json!("full")]);
    let wrong = world
        .rest
        .get(&format!("/v1/sessions/{id}/context_usage?detail=all"))
        .await;
    assert_eq!(wrong.problem(400), "invalid_query");
}

#[tokio::test]
async fn files_are_given_back_what_they_held() {
    let world = World::start().await;
    world.write("a.txt", "old\n");
    let options = json!({ "enable_file_checkpointing": true, "permission_mode": "acceptEdits" });
    let id = world.session(options).await;
    let file = |name: &str| world.dir().join(name);
    let read = json!({ "tool": "Read", "input": { "file_path": file("a.txt") } });
    let change = json!({ "tool": "Write", "input": { "file_path": file("a.txt"), "content": "new\n" } });
    let make = json!({ "tool": "Write", "input": { "file_path": file("b.txt"), "content": "made\n" } });
    let message = world
        .prompt(&id, json!([read, change, make, { "text": "done" }]))
        .await;
    world.idle_after(&id, 1).await;
    let held = |name: &str| std::fs::read_to_string(file(name)).ok();
    assert_eq!(
        (held("a.txt").as_deref(), held("b.txt").as_deref()),
        (Some("new\n"), Some("made\n"))
    );

    let path = format!("/v1/sessions/{id}/rewind");
    let ask = json!({ "user_message_id": message, "dry_run": true });
    let dry = world.rest.post(&path, ask).await.expect(200);
    let dry: RewindFilesPayload = fits("rewind_files", &dry["response"]);
    assert_eq!(dry.can_rewind, Some(true));
    assert_eq!(dry.files_changed.unwrap().len(), 2);
    assert_eq!(
        held("a.txt").as_deref(),
        Some("new\n"),
        "a dry run changes nothing"
    );

    let done = world
        .rest
        .post(&path, json!({ "user_message_id": message }))
        .await
        .expect(200);
    let done: RewindFilesPayload = fits("rewind_files", &done["response"]);
    assert_eq!(done.can_rewind, Some(true));
    assert_eq!((held("a.txt").as_deref(), held("b.txt")), (Some("old\n"), None));

    let unknown = world
        .rest
        .post(&path, json!({ "user_message_id": fresh_id() }))
        .await;
    assert_eq!(unknown.problem(409), "control_refused");
}

#[tokio::test]
async fn background_tasks_are_listed_read_and_stopped() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    let none = get(&world, &id, "tasks").await;
    assert_eq!(none["items"], json!([]));
    let marker = marker();
    let command = format!("echo first words; {}", endless(&marker));
    let input = json!({ "command": command, "run_in_background": true });
    let steps =
        json!([{ "tool": "Bash", "input": input }, { "text": "under way" }, { "text": "heard of it" }]);
    assert_eq!(world.answer(&id, steps).await, "under way");
    world.made("started").await;

    let tasks = get(&world, &id, "tasks").await;
    let tasks: Vec<BackgroundTask> = fits("tasks", &tasks["items"]);
    let [task] = &tasks[..] else {
        panic!("one task runs: {tasks:?}");
    };
    assert_eq!(task.task_type.as_deref(), Some("local_bash"));
    let task = task.task_id.clone().unwrap();
    let output = get(&world, &id, &format!("tasks/{task}/output")).await;
    let output: TaskOutputPayload = fits("get_task_output", &output["response"]);
    assert_eq!(output.output.as_deref(), Some("first words\n"));

    let stop = format!("/v1/sessions/{id}/tasks/{task}/stop");
    assert_eq!(
        world.rest.post(&stop, json!({})).await.expect(200),
        json!({ "response": {} })
    );
    wait_until("it has ended", PATIENCE, || marked(&marker).is_empty()).await;
    wait_for("no task is listed", PATIENCE, async || {
        (get(&world, &id, "tasks").await["items"] == json!([])).then_some(())
    })
    .await;
    let unknown = world
        .rest
        .get(&format!("/v1/sessions/{id}/tasks/no%2Fone/output"))
        .await;
    assert_eq!(unknown.problem(409), "control_refused");
}

#[tokio::test]
async fn what_runs_is_moved_to_the_background() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    let marker = marker();
    let steps = json!([bash(&endless(&marker)), { "text": "went on" }, { "text": "heard of it" }]);
    world.prompt(&id, steps).await;
    world.made("started").await;
    let path = format!("/v1/sessions/{id}/tasks/background");
    // The CLI takes a command for one that can be moved after a while only.
    wait_for("the turn goes on without it", PATIENCE, async || {
        world.rest.post(&path, json!({})).await.expect(200);
        let turns = world.rest.turns(&id).await;
        (!turns.is_empty()).then_some(())
    })
    .await;
    let tasks = get(&world, &id, "tasks").await;
    assert_eq!(tasks["items"].as_array().unwrap().len(), 1, "{tasks:#}");
    assert!(!marked(&marker).is_empty(), "it runs still");
    world.stop(&id).await;
    assert_eq!(
        get(&world, &id, "tasks").await["items"],
        json!([]),
        "nothing runs after a stop"
    );
}

#[tokio::test]
async fn what_the_cli_offers_is_known_at_rest_and_after_a_restart() {
    let mut world = World::start().await;
    let id = world.session(json!({})).await;
    let all = async |world: &World| {
        let commands: Vec<SlashCommand> = fits("commands", &get(world, &id, "commands").await["items"]);
        let models: Vec<ModelInfo> = fits("models", &get(world, &id, "models").await["items"]);
        let agents: Vec<AgentInfo> = fits("agents", &get(world, &id, "agents").await["items"]);
        let account = get(world, &id, "account").await;
        fits::<AccountInfo>("account", &account["account"]);
        assert!(commands.iter().any(|it| it.name.as_deref() == Some("init")));
        assert!(models.iter().any(|it| it.value.as_deref() == Some("default")));
        assert!(!agents.is_empty());
        assert_eq!(account["account"]["apiKeySource"], "ANTHROPIC_API_KEY");
        account["seq"].as_u64().unwrap()
    };
    let seq = all(&world).await;
    let record = &world.rest.events(&id, seq - 1).await[0];
    assert_eq!(record["data"]["type"], "control_response", "{record:#}");
    world.stop(&id).await;
    assert_eq!(all(&world).await, seq);
    world.daemon.stop();
    world.daemon.start().await;
    world.rest = world.daemon.rest();
    assert_eq!(all(&world).await, seq);
    // The answer to its loading tells what a plug-in brought.
    world.resume(&id).await;
    control(&world, &id, json!({ "subtype": "reload_plugins" })).await;
    let commands = get(&world, &id, "commands").await;
    assert!(commands["seq"].as_u64() > get(&world, &id, "account").await["seq"].as_u64());
}

/// The title of the launch options is the first name of a conversation, not its name for ever.
#[tokio::test]
async fn a_conversation_that_was_renamed_keeps_its_name_over_a_resume() {
    let world = World::start().await;
    let id = world.session(json!({ "title": "first" })).await;
    let name = async || {
        let status: StatusPayload = typed(&world, &id, json!({ "subtype": "get_status" })).await;
        let sections = status.sections.unwrap().into_iter();
        let mut rows = sections.filter_map(|section| section.rows).flatten();
        rows.find(|row| row.label.as_deref() == Some("Session name"))
            .and_then(|row| row.value)
    };
    assert_eq!(world.answer(&id, json!([{ "text": "one" }])).await, "one");
    assert_eq!(name().await.as_deref(), Some("first"));
    control(
        &world,
        &id,
        json!({ "subtype": "rename_session", "title": "second" }),
    )
    .await;
    assert_eq!(name().await.as_deref(), Some("second"));
    assert_eq!(world.rest.session(&id).await["title"], "second");
    world.stop(&id).await;
    world.resume(&id).await;
    assert_eq!(world.answer(&id, json!([{ "text": "two" }])).await, "two");
    assert_eq!(name().await.as_deref(), Some("second"));
}
