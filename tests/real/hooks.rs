//! Owns the tests of hooks that a client or a webhook answers.

use serde_json::{Value, json};

use crate::{
    support::{server::Server, ws::Ws},
    world::{World, bash, text},
};

/// The party that answers the hooks of a test.
enum Target {
    Client(Box<Ws>),
    Webhook(Box<Server>),
}

impl Target {
    /// A session with one hook before tools, for each kind of target.
    async fn sessions(world: &World, with: Value) -> Vec<(String, Self)> {
        let mut sessions = Vec::new();
        let server = Server::start().await;
        let url = server.url("/hook").uri().to_string();
        for target in [
            json!({ "type": "client", "client_id": "x" }),
            json!({ "type": "webhook", "url": url, "secret": "k" }),
        ] {
            let mut hook = json!({ "event": "PreToolUse", "matcher": "Bash", "target": target });
            for (name, value) in with.as_object().unwrap() {
                hook[name] = value.clone();
            }
            sessions.push(world.session(json!({ "hooks": [hook] })).await);
        }
        let client = world.daemon.attach_as("x", &sessions[0], None).await;
        let targets = [Self::Client(Box::new(client)), Self::Webhook(Box::new(server))];
        sessions.into_iter().zip(targets).collect()
    }

    /// Waits until it is asked, and answers; what it was asked.
    async fn reply(&mut self, output: Value) -> Value {
        match self {
            Self::Client(client) => {
                let asked = hook_asked(client).await;
                let id = &asked["request_id"];
                client.send(&answer(id, output)).await;
                asked["request"].clone()
            }
            Self::Webhook(server) => {
                let exchange = server.next().await;
                assert_eq!(exchange.method, "POST");
                assert!(exchange.header("webhook-signature").unwrap().starts_with("v1,"));
                let asked = serde_json::from_str(&exchange.body).unwrap();
                exchange
                    .answer("200 OK\ncontent-type: application/json", &output.to_string())
                    .await;
                asked
            }
        }
    }
}

pub(crate) fn answer(id: &Value, output: Value) -> Value {
    json!({ "type": "control_response", "response": { "subtype": "success", "request_id": id, "response": output } })
}

pub(crate) async fn hook_asked(client: &mut Ws) -> Value {
    let is_hook =
        |frame: &Value| frame["src"] == "cli" && frame["data"]["request"]["subtype"] == "hook_callback";
    client.until("a hook", is_hook).await.pop().unwrap()["data"].take()
}

pub(crate) fn decision(decision: &str, with: Value) -> Value {
    let mut output = json!({ "hookEventName": "PreToolUse", "permissionDecision": decision });
    for (name, value) in with.as_object().unwrap() {
        output[name] = value.clone();
    }
    json!({ "hookSpecificOutput": output })
}

/// The words that the model was told.
async fn told(world: &World) -> String {
    world.last_request().await["messages"].to_string()
}

#[tokio::test]
async fn a_hook_denies() {
    let world = World::start().await;
    for (id, mut target) in Target::sessions(&world, json!({})).await {
        world
            .prompt(&id, json!([bash("touch denied.txt"), { "text": "ok" }]))
            .await;
        let output = decision("deny", json!({ "permissionDecisionReason": "not on my watch" }));
        let asked = target.reply(output).await;
        assert_eq!(asked["input"]["tool_input"]["command"], "touch denied.txt");
        assert_eq!(asked["callback_id"], "trunkline/0");
        world.idle_after(&id, 1).await;
        assert!(!world.exists("denied.txt"));
        assert!(told(&world).await.contains("not on my watch"));
    }
}

/// The log must not say that something ran where the CLI's own rule, another hook or a person held it.
#[tokio::test]
async fn a_call_that_a_hook_allowed_and_others_held_is_overruled() {
    let world = World::start().await;
    let hook = |said: &str| {
        json!({ "event": "PreToolUse", "matcher": "Bash",
        "target": { "type": "fixed", "output": decision(said, json!({})) } })
    };
    for (options, by_person) in [
        (
            json!({ "hooks": [hook("allow")], "disallowed_tools": ["Bash(touch:*)"] }),
            false,
        ),
        (json!({ "hooks": [hook("allow"), hook("deny")] }), false),
        (json!({ "hooks": [hook("allow"), hook("ask")] }), true),
    ] {
        let id = world.session(options.clone()).await;
        world
            .prompt(&id, json!([bash("touch held.txt"), { "text": "ok" }]))
            .await;
        if by_person {
            let approval = world.rest.pending_approval(&id).await;
            world.decide(&id, &approval, json!({ "decision": "deny" })).await;
        }
        world.idle_after(&id, 1).await;
        assert!(!world.exists("held.txt"));
        let log = world
            .rest
            .get(&format!("/v1/sessions/{id}/approvals"))
            .await
            .expect(200);
        let entries = log["items"].as_array().unwrap();
        let states: Vec<_> = entries.iter().map(|entry| text(entry, "state")).collect();
        assert_eq!(
            states.iter().filter(|it| *it == "denied").count(),
            1,
            "{options} {log:#}"
        );
        assert_eq!(
            states.iter().filter(|it| *it == "overruled").count(),
            1,
            "{options} {log:#}"
        );
        assert_eq!(states.len(), 2, "{options} {log:#}");
        for entry in entries {
            assert_eq!(entry["resolution"]["ran_sha256"], Value::Null, "{entry:#}");
        }
    }
}

#[tokio::test]
async fn a_hook_allows_with_another_input() {
    let world = World::start().await;
    for (place, (id, mut target)) in Target::sessions(&world, json!({})).await.into_iter().enumerate() {
        world
            .prompt(&id, json!([bash("touch asked.txt"), { "text": "ok" }]))
            .await;
        let changed = format!("changed-{place}.txt");
        let input = json!({ "updatedInput": { "command": format!("touch {changed}") } });
        target.reply(decision("allow", input)).await;
        world.idle_after(&id, 1).await;
        assert!(world.exists(&changed) && !world.exists("asked.txt"));
    }
}

#[tokio::test]
async fn a_hook_has_a_person_asked() {
    let world = World::start().await;
    for (id, mut target) in Target::sessions(&world, json!({})).await {
        world
            .prompt(&id, json!([bash("touch asked.txt"), { "text": "ok" }]))
            .await;
        let reason = json!({ "permissionDecisionReason": "a person must see this" });
        target.reply(decision("ask", reason)).await;
        let approval = world.rest.pending_approval(&id).await;
        assert_eq!(
            approval["request"]["decision_reason_type"], "hook",
            "{approval:#}"
        );
        world
            .decide(&id, &approval, json!({ "decision": "deny", "message": "no" }))
            .await;
        world.idle_after(&id, 1).await;
        assert!(!world.exists("asked.txt"));
    }
}

#[tokio::test]
async fn a_hook_blocks() {
    let world = World::start().await;
    for (id, mut target) in Target::sessions(&world, json!({})).await {
        world
            .prompt(&id, json!([bash("touch blocked.txt"), { "text": "ok" }]))
            .await;
        target
            .reply(json!({ "decision": "block", "reason": "blocked by rule 7" }))
            .await;
        world.idle_after(&id, 1).await;
        assert!(!world.exists("blocked.txt"));
        assert!(told(&world).await.contains("blocked by rule 7"));
    }
}

/// The CLI ends the turn after the tool that the hook was asked about: that one still runs.
#[tokio::test]
async fn a_hook_stops_the_turn() {
    let world = World::start().await;
    for (id, mut target) in Target::sessions(&world, json!({})).await {
        world
            .prompt(&id, json!([bash("echo the last"), { "text": "never said" }]))
            .await;
        target
            .reply(json!({ "continue": false, "stopReason": "enough" }))
            .await;
        world.idle_after(&id, 1).await;
        let results = world.lines(&id, "result").await;
        assert_eq!(results[0]["terminal_reason"], "hook_stopped", "{results:#?}");
        // Nothing hits the next turn.
        world.prompt(&id, json!([{ "text": "on we go" }])).await;
        world.idle_after(&id, 2).await;
        let results = world.lines(&id, "result").await;
        assert_eq!(results[1]["result"], "on we go", "{results:#?}");
    }
}

/// A tool that waits for a person, or runs on and on, would keep the turn going: then the daemon ends it.
#[tokio::test]
async fn a_hook_stops_a_turn_that_the_cli_goes_on_with() {
    let world = World::start().await;
    for (id, mut target) in Target::sessions(&world, json!({})).await {
        world
            .prompt(&id, json!([bash("touch stopped.txt"), { "text": "never said" }]))
            .await;
        target.reply(json!({ "continue": false })).await;
        let approval = world.rest.pending_approval(&id).await;
        world.idle_after(&id, 1).await;
        assert!(!world.exists("stopped.txt"));
        assert_eq!(world.approval(&id, &approval).await["state"], "withdrawn");
        let results = world.lines(&id, "result").await;
        assert_eq!(results[0]["subtype"], "error_during_execution", "{results:#?}");
    }
}

#[tokio::test]
async fn a_hook_that_nobody_answers_in_time_blocks_or_passes_as_registered() {
    let world = World::start().await;
    for (on_failure, runs) in [("block", false), ("continue", true)] {
        let hook = json!({
            "event": "PreToolUse", "timeout_ms": 3000, "on_failure": on_failure,
            "target": { "type": "client", "client_id": "x" },
        });
        let options = json!({ "hooks": [hook], "allowed_tools": ["Bash"] });
        let id = world.session(options).await;
        let mut silent = world.daemon.attach_as("x", &id, None).await;
        world
            .prompt(&id, json!([bash("touch late.txt"), { "text": "ok" }]))
            .await;
        hook_asked(&mut silent).await;
        world.idle_after(&id, 1).await;
        assert_eq!(world.exists("late.txt"), runs, "{on_failure}");
        assert_eq!(
            world.lines(&id, "control_cancel_request").await,
            Vec::<Value>::new(),
            "the CLI did not have to give up"
        );
    }
}

/// A webhook that gives no answer is no way around the policy that it stands for.
#[tokio::test]
async fn a_webhook_that_gives_no_answer_in_time_fails_closed() {
    let world = World::start().await;
    let silent = Server::start().await;
    let mut broken = Server::start().await;
    let url = |server: &Server| server.url("/hook").uri().to_string();
    let stated = json!({ "decision": "block", "reason": "the policy is out of reach" });
    let block = json!({ "on_failure": "block" });
    for (url, with, words, reason) in [
        (
            url(&silent),
            block.clone(),
            "the hook could not be asked",
            "timeout",
        ),
        (
            url(&silent),
            json!({ "fallback": stated }),
            "the policy is out of reach",
            "timeout",
        ),
        (
            url(&broken),
            block,
            "the hook could not be asked",
            "webhook_failed",
        ),
    ] {
        let target = json!({ "type": "webhook", "url": url, "secret": "k" });
        let mut hook =
            json!({ "event": "PreToolUse", "matcher": "Bash", "timeout_ms": 3000, "target": target });
        for (name, value) in with.as_object().unwrap() {
            hook[name] = value.clone();
        }
        // Without the hook nobody would be asked.
        let options = json!({ "hooks": [hook], "allowed_tools": ["Bash"] });
        let id = world.session(options).await;
        world
            .prompt(&id, json!([bash("touch unseen.txt"), { "text": "ok" }]))
            .await;
        let answers_nonsense = async {
            loop {
                broken
                    .next()
                    .await
                    .answer("200 OK\ncontent-type: application/json", "no JSON")
                    .await;
            }
        };
        tokio::select! {
            _ = world.idle_after(&id, 1) => {}
            () = answers_nonsense => {}
        }
        assert!(!world.exists("unseen.txt"), "{with}");
        let told = told(&world).await;
        assert!(told.contains(words), "{told}");
        assert_eq!(
            world.lines(&id, "control_cancel_request").await,
            Vec::<Value>::new(),
            "the CLI did not have to give up"
        );
        let asked = world.lines(&id, "control_request").await.remove(0);
        let records = world.rest.events(&id, 0).await;
        let answers: Vec<_> = records
            .iter()
            .filter(|it| it["src"] == "client" && it["data"]["response"]["request_id"] == asked["request_id"])
            .collect();
        assert_eq!(answers.len(), 1, "{answers:#?}");
        assert_eq!(answers[0]["by"], "daemon");
        let notes: Vec<_> = records
            .iter()
            .filter(|record| record["data"]["type"] == "fallback")
            .map(|record| &record["data"]["reason"])
            .collect();
        assert_eq!(notes, [reason]);
    }
}

/// Hooks around a turn reach their client too, and what it says reaches the CLI as it is.
#[tokio::test]
async fn hooks_of_other_events_are_asked_too() {
    let world = World::start().await;
    let events = ["UserPromptSubmit", "PermissionRequest", "PostToolUse", "Stop"];
    let hooks =
        events.map(|event| json!({ "event": event, "target": { "type": "client", "client_id": "x" } }));
    let id = world.session(json!({ "hooks": hooks })).await;
    let mut client = world.daemon.attach_as("x", &id, None).await;
    world
        .prompt(&id, json!([bash("touch asked.txt"), { "text": "ok" }]))
        .await;
    let also = |event: &str| json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": format!("heard at {event}") } });
    let decided = json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": {
        "behavior": "allow", "updatedInput": { "command": "touch decided.txt" },
    } } });
    for (place, event) in events.into_iter().enumerate() {
        let asked = hook_asked(&mut client).await;
        let request = &asked["request"];
        assert_eq!(request["callback_id"], format!("trunkline/{place}"), "{asked:#}");
        assert_eq!(request["input"]["hook_event_name"], event, "{asked:#}");
        let output = match event {
            "PermissionRequest" => decided.clone(),
            "Stop" => json!({}),
            _ => also(event),
        };
        client.send(&answer(&asked["request_id"], output)).await;
    }
    world.idle_after(&id, 1).await;
    assert!(world.exists("decided.txt") && !world.exists("asked.txt"));
    let told = told(&world).await;
    for event in ["UserPromptSubmit", "PostToolUse"] {
        assert!(told.contains(&format!("heard at {event}")), "{told}");
    }
}

#[tokio::test]
async fn a_client_registers_hooks_by_its_own_initialize() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let mut client = world.daemon.attach_as("editor", &id, None).await;
    let hooks = json!({ "PreToolUse": [{ "matcher": "Bash", "hookCallbackIds": ["hook_0"] }] });
    client
        .send(&json!({ "type": "control_request", "request_id": "req_1", "request": { "subtype": "initialize", "hooks": hooks } }))
        .await;
    let frames = client
        .until("the answer", |frame| frame["type"] == "control_response")
        .await;
    let answered = &frames.last().unwrap()["response"];
    assert_eq!(answered["request_id"], "req_1");
    assert_eq!(answered["response"]["hooks_applied"], true, "{answered:#}");
    assert_eq!(answered["pending_permission_requests"], json!([]), "{answered:#}");
    world
        .prompt(&id, json!([bash("touch mine.txt"), { "text": "ok" }]))
        .await;
    let asked = hook_asked(&mut client).await;
    assert_eq!(asked["request"]["callback_id"], "editor/hook_0", "{asked:#}");
    let output = decision("deny", json!({ "permissionDecisionReason": "no" }));
    client.send(&answer(&asked["request_id"], output)).await;
    world.idle_after(&id, 1).await;
    assert!(!world.exists("mine.txt"));
}

fn initialize(id: &str, hooks: &Value) -> Value {
    json!({ "type": "control_request", "request_id": id, "request": { "subtype": "initialize", "hooks": hooks } })
}

async fn initialized(client: &mut Ws, id: &str) -> Value {
    let wanted = |frame: &Value| frame["type"] == "control_response" && frame["response"]["request_id"] == id;
    client.find("the answer", wanted).await["response"].take()
}

/// The CLI ends the hooks that are open when it gets new ones, and drops the prompt with them.
#[tokio::test]
async fn hooks_of_another_client_end_none_that_is_open() {
    let world = World::start().await;
    let hook = json!({ "event": "UserPromptSubmit", "target": { "type": "client", "client_id": "x" } });
    let id = world.session(json!({ "hooks": [hook] })).await;
    let mut owner = world.daemon.attach_as("x", &id, None).await;
    let mut other = world.daemon.attach_as("y", &id, None).await;
    world.prompt(&id, json!([{ "text": "heard" }])).await;
    let asked = hook_asked(&mut owner).await;
    let hooks = json!({ "PostToolUse": [{ "hookCallbackIds": ["s"] }] });
    other.send(&initialize("1", &hooks)).await;
    owner.send(&answer(&asked["request_id"], json!({}))).await;
    let answered = initialized(&mut other, "1").await;
    assert_eq!(answered["response"]["hooks_applied"], true, "{answered:#}");
    world.idle_after(&id, 1).await;
    let results = world.lines(&id, "result").await;
    assert_eq!(results[0]["result"], "heard", "{results:#?}");
}

#[tokio::test]
async fn a_client_that_comes_back_with_its_hooks_keeps_what_is_open() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    let hooks = json!({ "PreToolUse": [{ "matcher": "Bash", "hookCallbackIds": ["hook_0"] }] });
    let mut client = world.daemon.attach_as("editor", &id, None).await;
    client.send(&initialize("1", &hooks)).await;
    initialized(&mut client, "1").await;
    world
        .prompt(&id, json!([bash("touch run.txt"), { "text": "ok" }]))
        .await;
    let asked = hook_asked(&mut client).await;
    drop(client);
    let mut again = world.daemon.attach_as("editor", &id, None).await;
    again.send(&initialize("2", &hooks)).await;
    let answered = initialized(&mut again, "2").await;
    assert_eq!(answered["response"]["hooks_applied"], true, "{answered:#}");
    again.send(&answer(&asked["request_id"], json!({}))).await;
    world.idle_after(&id, 1).await;
    assert!(world.exists("run.txt"));
    assert_eq!(
        world.lines(&id, "control_cancel_request").await,
        Vec::<Value>::new(),
        "nothing was taken back"
    );
}

/// The CLI runs the call all the same, and ends the turn behind it.
#[tokio::test]
async fn a_hook_that_ends_the_turn_has_denied_no_call() {
    let world = World::start().await;
    let output = json!({ "continue": false, "stopReason": "enough" });
    let hook =
        json!({ "event": "PreToolUse", "matcher": "Bash", "target": { "type": "fixed", "output": output } });
    let id = world
        .session(json!({ "hooks": [hook], "allowed_tools": ["Bash"] }))
        .await;
    world
        .prompt(&id, json!([bash("touch made"), { "text": "done" }]))
        .await;
    world.idle_after(&id, 1).await;
    assert!(world.exists("made"));
    let path = format!("/v1/sessions/{id}/approvals");
    let log = world.rest.get(&path).await.expect(200);
    assert_eq!(log["items"], json!([]), "{log:#}");
}

/// Nobody is asked in either case.
#[tokio::test]
async fn the_log_has_what_a_hook_changed_and_what_the_cli_denied() {
    let world = World::start().await;
    let log = async |id: &str, how: &str| {
        let path = format!("/v1/sessions/{id}/approvals?how={how}");
        let list = world.rest.get(&path).await.expect(200);
        list["items"].as_array().unwrap().clone()
    };
    let output = json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": "allow",
        "updatedInput": { "command": "touch safe" } } });
    let hook =
        json!({ "event": "PreToolUse", "matcher": "Bash", "target": { "type": "fixed", "output": output } });
    let id = world.session(json!({ "hooks": [hook] })).await;
    world
        .answer(&id, json!([bash("touch danger"), { "text": "done" }]))
        .await;
    assert!(world.exists("safe") && !world.exists("danger"));
    let entries = log(&id, "hook").await;
    assert_eq!(entries.len(), 1, "{entries:#?}");
    let end = &entries[0]["resolution"];
    assert_eq!(
        (&end["by"], &end["input_changed"]),
        (&json!("fixed:0"), &json!(true))
    );
    assert_ne!(entries[0]["input_sha256"], end["ran_sha256"]);

    let id = world.session(json!({ "permission_mode": "dontAsk" })).await;
    world
        .answer(&id, json!([bash("node -e 1"), { "text": "done" }]))
        .await;
    let entries = log(&id, "cli").await;
    assert_eq!(entries.len(), 1, "{entries:#?}");
    assert_eq!(
        (
            &entries[0]["state"],
            &entries[0]["reason_type"],
            &entries[0]["subject"]
        ),
        (&json!("denied"), &json!("mode"), &json!("Bash"))
    );
    assert_eq!(entries[0]["request"]["tool_input"]["command"], "node -e 1");
}

#[tokio::test]
async fn a_prompt_that_a_hook_blocks_is_no_success() {
    let world = World::start().await;
    let output = json!({ "decision": "block", "reason": "not on a Sunday" });
    let hooks = json!([{ "event": "UserPromptSubmit", "target": { "type": "fixed", "output": output } }]);
    let id = world.session(json!({ "hooks": hooks })).await;
    let reply = world.ask(&id, json!([{ "text": "never" }])).await;
    assert_eq!(reply["turn"]["outcome"], "blocked", "{reply:#}");
    assert_eq!(world.rest.turns(&id).await[0]["outcome"], "blocked");
}
