//! Owns the tests of "always allow": each kind of permission update that an answer can carry, and what it changes.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    support::wait::{PATIENCE, wait_for},
    world::{World, bash, text},
};

/// A command that the CLI asks about.
const COMMAND: &str = "node -e 1";

/// How often the session has asked.
async fn asked(world: &World, id: &str) -> usize {
    let path = format!("/v1/sessions/{id}/approvals");
    let list = world.rest.get(&path).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    // The log also has what the CLI denied by itself.
    items.filter(|item| item["resolution"]["how"] != "cli").count()
}

/// The update of this kind that the CLI suggests.
#[track_caller]
fn suggested(approval: &Value, kind: &str) -> Value {
    let suggestions = approval["suggestions"].as_array().unwrap();
    let found = suggestions.iter().find(|update| update["type"] == kind);
    found
        .unwrap_or_else(|| panic!("no {kind} in {approval:#}"))
        .clone()
}

async fn allow_with(world: &World, id: &str, approval: &Value, update: Value) {
    let allow = json!({ "decision": "allow", "updated_permissions": [update] });
    let decided = world.decide(id, approval, allow).await;
    assert_eq!(decided["resolution"]["permissions_updated"], true, "{decided:#}");
    assert_eq!(decided["resolution"]["input_changed"], false, "{decided:#}");
}

fn settings(file: &Path) -> Value {
    let text = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_slice(&text).unwrap()
}

/// Allows a command for good, with the rule in `destination`: neither the same turn nor the next one asks again.
async fn allowed_for_good(world: &World, destination: &str) -> String {
    let id = world.session(json!({})).await;
    world
        .prompt(&id, json!([bash(COMMAND), bash(COMMAND), { "text": "twice" }]))
        .await;
    let approval = world.rest.pending_approval(&id).await;
    let mut rule = suggested(&approval, "addRules");
    let expected = json!({ "type": "addRules", "behavior": "allow", "destination": "localSettings",
        "rules": [{ "toolName": "Bash", "ruleContent": COMMAND }] });
    assert_eq!(rule, expected);
    rule["destination"] = json!(destination);
    allow_with(world, &id, &approval, rule).await;
    world.idle_after(&id, 1).await;
    assert_eq!(
        world
            .answer(&id, json!([bash(COMMAND), { "text": "again" }]))
            .await,
        "again"
    );
    assert_eq!(asked(world, &id).await, 1);
    id
}

/// The files in which the CLI keeps rules, and whose they are.
fn rule_files(world: &World) -> [(&'static str, PathBuf); 3] {
    let project = world.dir().join(".claude");
    [
        ("localSettings", project.join("settings.local.json")),
        ("projectSettings", project.join("settings.json")),
        ("userSettings", world.daemon.home().join(".claude/settings.json")),
    ]
}

/// A rule in a file is in that one only, holds over a resume, and for other sessions there.
async fn rule_is_kept_in(world: &World, destination: &str) {
    let id = allowed_for_good(world, destination).await;
    for (name, file) in rule_files(world) {
        let has_rule =
            file.exists() && settings(&file)["permissions"]["allow"] == json!([format!("Bash({COMMAND})")]);
        assert_eq!(has_rule, name == destination, "{}", file.display());
    }
    world.stop(&id).await;
    world.resume(&id).await;
    let steps = || json!([bash(COMMAND), { "text": "still" }]);
    assert_eq!(world.answer(&id, steps()).await, "still");
    assert_eq!(asked(world, &id).await, 1, "the resumed session does not ask");
    let other = world.session(json!({})).await;
    assert_eq!(world.answer(&other, steps()).await, "still");
    assert_eq!(asked(world, &other).await, 0);
}

#[tokio::test]
async fn a_rule_of_the_directory_for_oneself_is_kept() {
    let world = World::start().await;
    rule_is_kept_in(&world, "localSettings").await;
}

/// A file that comes with the project may allow nothing before its directory is trusted.
fn trust(world: &World) {
    let file = world.daemon.home().join(".claude.json");
    let trusted =
        json!({ "projects": { world.dir().to_str().unwrap(): { "hasTrustDialogAccepted": true } } });
    std::fs::write(file, trusted.to_string()).unwrap();
}

#[tokio::test]
async fn a_rule_of_the_project_is_kept() {
    let world = World::start().await;
    trust(&world);
    rule_is_kept_in(&world, "projectSettings").await;
}

#[tokio::test]
async fn a_rule_of_a_project_that_is_not_trusted_is_kept_and_does_not_count() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let steps = json!([bash(COMMAND), bash(COMMAND), { "text": "twice" }]);
    world.prompt(&id, steps).await;
    let first = world.rest.pending_approval(&id).await;
    let mut rule = suggested(&first, "addRules");
    rule["destination"] = json!("projectSettings");
    allow_with(&world, &id, &first, rule).await;
    let second = world.rest.pending_approval(&id).await;
    assert_ne!(second["id"], first["id"]);
    world.decide(&id, &second, json!({ "decision": "allow" })).await;
    world.idle_after(&id, 1).await;
    let [_, (_, file), _] = rule_files(&world);
    assert_eq!(
        settings(&file)["permissions"]["allow"],
        json!([format!("Bash({COMMAND})")])
    );
    wait_for("the CLI says why", PATIENCE, async || {
        let records = world.rest.events(&id, 0).await;
        let mut stderr = records.iter().filter(|record| record["src"] == "stderr");
        let told = stderr.any(|record| record["data"].to_string().contains("has not been trusted"));
        told.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_rule_of_the_user_is_kept() {
    let world = World::start().await;
    rule_is_kept_in(&world, "userSettings").await;
}

#[tokio::test]
async fn a_rule_of_the_session_ends_with_the_process() {
    let world = World::start().await;
    let id = allowed_for_good(&world, "session").await;
    for (_, file) in rule_files(&world) {
        assert!(!file.exists(), "{}", file.display());
    }
    world.stop(&id).await;
    world.resume(&id).await;
    world
        .prompt(&id, json!([bash(COMMAND), { "text": "no more" }]))
        .await;
    let approval = world.rest.pending_approval(&id).await;
    world.decide(&id, &approval, json!({ "decision": "deny" })).await;
    world.idle_after(&id, 3).await;
    assert_eq!(asked(&world, &id).await, 2);
}

#[tokio::test]
async fn rules_can_deny_and_be_taken_back() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let rules = |kind: &str, behavior: &str| {
        json!({ "type": kind, "rules": [{ "toolName": "Bash", "ruleContent": COMMAND }],
            "behavior": behavior, "destination": "session" })
    };
    let steps = || json!([bash(COMMAND), { "text": "done" }]);
    world.prompt(&id, steps()).await;
    let approval = world.rest.pending_approval(&id).await;
    allow_with(&world, &id, &approval, rules("addRules", "deny")).await;
    world.idle_after(&id, 1).await;
    // Denied by the rule, without a question.
    assert_eq!(world.answer(&id, steps()).await, "done");
    let told = world.last_request().await.to_string();
    assert!(told.contains("denied"), "{told}");
    assert_eq!(asked(&world, &id).await, 1);
    // Another command's answer takes it back.
    world
        .prompt(&id, json!([bash("node -e 2"), bash(COMMAND), { "text": "done" }]))
        .await;
    let approval = world.rest.pending_approval(&id).await;
    allow_with(&world, &id, &approval, rules("removeRules", "deny")).await;
    let approval = wait_for("the command is asked about again", PATIENCE, async || {
        let approval = world.rest.pending_approval(&id).await;
        (approval["request"]["input"]["command"] == COMMAND).then_some(approval)
    })
    .await;
    world.decide(&id, &approval, json!({ "decision": "allow" })).await;
    world.idle_after(&id, 3).await;
}

#[tokio::test]
async fn a_mode_that_an_answer_sets_holds_and_stays() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let write = |name: &str| {
        let path = world.dir().join(name);
        json!({ "tool": "Write", "input": { "file_path": path, "content": "x\n" } })
    };
    world
        .prompt(&id, json!([write("one"), write("two"), { "text": "both" }]))
        .await;
    let approval = world.rest.pending_approval(&id).await;
    let mode = suggested(&approval, "setMode");
    assert_eq!(
        mode,
        json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" })
    );
    allow_with(&world, &id, &approval, mode).await;
    let view = world.idle_after(&id, 1).await;
    assert_eq!(view["permission_mode"], "acceptEdits");
    assert!(world.exists("one") && world.exists("two"));
    assert_eq!(view["unasked_tool"], Value::Null);
    world.stop(&id).await;
    let view = world.resume(&id).await;
    assert_eq!(view["permission_mode"], "acceptEdits");
    world
        .answer(&id, json!([write("three"), { "text": "without a question" }]))
        .await;
    assert!(world.exists("three"));
    assert_eq!(asked(&world, &id).await, 1);
}

/// A client can see that files are changed and nobody was asked, whatever the reason.
#[tokio::test]
async fn a_rule_of_a_file_by_which_nobody_is_asked_can_be_seen() {
    let world = World::start().await;
    let write = |name: &str| {
        let path = world.dir().join(name);
        json!({ "tool": "Write", "input": { "file_path": path, "content": "x\n" } })
    };
    std::fs::create_dir(world.dir().join(".claude")).unwrap();
    let rules = json!({ "permissions": { "allow": ["Write"] } });
    world.write(".claude/settings.local.json", &rules.to_string());
    let id = world.session(json!({})).await;
    world
        .answer(&id, json!([write("one"), { "text": "without a question" }]))
        .await;
    assert!(world.exists("one"));
    let view = world.rest.session(&id).await;
    assert_eq!(view["unasked_tool"], "Write", "{view:#}");
    let id = world.session(json!({ "allowed_tools": ["Write"] })).await;
    world
        .answer(&id, json!([write("two"), { "text": "as was told" }]))
        .await;
    assert_eq!(world.rest.session(&id).await["unasked_tool"], Value::Null);
}

#[tokio::test]
async fn a_directory_that_an_answer_adds_is_open_from_then_on() {
    let world = World::start().await;
    let other = world.daemon.work_dir("other");
    for name in ["one", "two", "three"] {
        std::fs::write(other.join(name), name).unwrap();
    }
    let read = |name: &str| json!({ "tool": "Read", "input": { "file_path": other.join(name) } });
    let id = world.session(json!({})).await;
    world
        .prompt(&id, json!([read("one"), read("two"), { "text": "both" }]))
        .await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["reason_type"], "workingDir", "{approval:#}");
    let add = json!({ "type": "addDirectories", "directories": [other], "destination": "session" });
    allow_with(&world, &id, &approval, add).await;
    world.idle_after(&id, 1).await;
    world
        .answer(&id, json!([read("three"), { "text": "the third" }]))
        .await;
    assert!(world.last_request().await.to_string().contains("three"));
    assert_eq!(asked(&world, &id).await, 1);
    // The CLI's own suggestion for a command that writes there.
    let touch = format!("touch {}", world.daemon.work_dir("third").join("made").display());
    world.prompt(&id, json!([bash(&touch), { "text": "made" }])).await;
    let approval = world.rest.pending_approval(&id).await;
    let add = suggested(&approval, "addDirectories");
    assert_eq!(add["destination"], "session", "{add:#}");
    allow_with(&world, &id, &approval, add).await;
    world.idle_after(&id, 3).await;
    assert!(!text(&approval, "blocked_path").is_empty());
}

#[tokio::test]
async fn rules_can_be_replaced_and_directories_closed() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let rules = |kind: &str, behavior: &str, commands: &[&str]| {
        let rules: Vec<_> = commands
            .iter()
            .map(|command| json!({ "toolName": "Bash", "ruleContent": command }))
            .collect();
        json!({ "type": kind, "rules": rules, "behavior": behavior, "destination": "session" })
    };
    let (first, second) = ("node -e 1", "node -e 2");
    world.prompt(&id, json!([bash(first), { "text": "done" }])).await;
    let approval = world.rest.pending_approval(&id).await;
    allow_with(&world, &id, &approval, rules("addRules", "allow", &[first])).await;
    world.idle_after(&id, 1).await;
    // From now on the second command is allowed, and the first is asked about again.
    world.prompt(&id, json!([bash(second), { "text": "done" }])).await;
    let approval = world.rest.pending_approval(&id).await;
    allow_with(&world, &id, &approval, rules("replaceRules", "allow", &[second])).await;
    world.idle_after(&id, 2).await;
    assert_eq!(
        world.answer(&id, json!([bash(second), { "text": "free" }])).await,
        "free"
    );
    world.prompt(&id, json!([bash(first), { "text": "done" }])).await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["request"]["input"]["command"], first, "{approval:#}");
    world.decide(&id, &approval, json!({ "decision": "allow" })).await;
    world.idle_after(&id, 4).await;

    let other = world.daemon.work_dir("other");
    std::fs::write(other.join("one"), "one").unwrap();
    let read =
        || json!([{ "tool": "Read", "input": { "file_path": other.join("one") } }, { "text": "read" }]);
    let directories = |kind: &str| json!({ "type": kind, "directories": [other], "destination": "session" });
    world.prompt(&id, read()).await;
    let approval = world.rest.pending_approval(&id).await;
    allow_with(&world, &id, &approval, directories("addDirectories")).await;
    world.idle_after(&id, 5).await;
    assert_eq!(world.answer(&id, read()).await, "read");
    world
        .prompt(&id, json!([bash("node -e 3"), { "text": "done" }]))
        .await;
    let approval = world.rest.pending_approval(&id).await;
    allow_with(&world, &id, &approval, directories("removeDirectories")).await;
    world.idle_after(&id, 7).await;
    world.prompt(&id, read()).await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["reason_type"], "workingDir", "{approval:#}");
    world.decide(&id, &approval, json!({ "decision": "deny" })).await;
    world.idle_after(&id, 8).await;
}

/// An answer that the CLI would refuse or drop without a word is refused first, and the request stays open; a `null` where
/// it wants a member left out is made good.
#[tokio::test]
async fn an_answer_is_such_that_the_cli_takes_it() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let mut client = world.daemon.attach(&id, None).await;
    let steps = json!([bash("touch one"), bash("touch two"), { "text": "done" }]);
    world.prompt(&id, steps).await;
    let answer = |approval: &Value, response: Value| {
        json!({ "type": "control_response", "response": { "subtype": "success", "request_id": approval["request_id"],
            "response": response } })
    };
    let first = world.rest.pending_approval(&id).await;
    let rule = json!({ "toolName": "Bash" });
    for wrong in [
        json!({ "behavior": "allow", "toolUseID": 5 }),
        json!({ "behavior": "deny", "interrupt": "yes" }),
        json!({ "behavior": "allow", "updatedInput": [] }),
        json!({ "behavior": "allow", "updated_input": { "command": "touch three" } }),
        json!({ "behavior": "allow", "updatedPermissions": [{ "type": "addRules", "rules": [rule], "behavior": "allow" }] }),
        json!({ "behavior": "allow", "updatedPermissions": [
            { "type": "addRules", "rules": vec![&rule; 4096], "behavior": "allow", "destination": "session" }] }),
    ] {
        client.send(&answer(&first, wrong.clone())).await;
        let error = client
            .find("the refusal", |frame| frame["type"] == "trunkline.error")
            .await;
        assert_eq!(error["code"], "invalid_decision", "{wrong}");
        assert_eq!(error["request_id"], first["request_id"], "{wrong}");
    }
    assert_eq!(world.rest.session(&id).await["state"], "waiting");
    let allow =
        json!({ "behavior": "allow", "updatedInput": null, "updatedPermissions": null, "toolUseID": null });
    client.send(&answer(&first, allow)).await;
    let second = wait_for("the second call", PATIENCE, async || {
        let next = world.rest.pending_approval(&id).await;
        (next["id"] != first["id"]).then_some(next)
    })
    .await;
    assert!(world.exists("one"));
    let deny = json!({ "behavior": "deny", "message": "not two", "interrupt": null, "toolUseID": null });
    client.send(&answer(&second, deny)).await;
    world.idle_after(&id, 1).await;
    assert!(!world.exists("two"));
    let told = world.last_request().await.to_string();
    assert!(
        told.contains("not two") && !told.contains("invalid permission result"),
        "{told}"
    );
}

/// The CLI does not look again at what it has asked.
#[tokio::test]
async fn what_always_allow_covers_is_asked_no_more() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let other = world.daemon.work_dir("other");
    for name in ["a", "b", "c"] {
        std::fs::write(other.join(name), name).unwrap();
    }
    let read = |name: &str| json!({ "name": "Read", "input": { "file_path": other.join(name) } });
    let hostname = json!({ "name": "Read", "input": { "file_path": "/etc/hostname" } });
    let steps = json!([{ "tools": [read("a"), read("b"), read("c"), hostname] }, { "text": "read" }]);
    world.prompt(&id, steps).await;
    let path = format!("/v1/sessions/{id}/approvals?state=pending");
    let open = wait_for("all four are asked for", PATIENCE, async || {
        let list = world.rest.get(&path).await.expect(200);
        let items = list["items"].as_array().unwrap().clone();
        (items.len() == 4).then_some(items)
    })
    .await;
    let of = |name: &str| {
        let file = if name == "hostname" {
            "/etc/hostname".into()
        } else {
            other.join(name)
        };
        let is = |item: &&Value| item["request"]["input"]["file_path"] == json!(file);
        open.iter().find(is).unwrap()
    };
    let first = of("a");
    allow_with(&world, &id, first, suggested(first, "addRules")).await;
    let rest = wait_for("the siblings are covered", PATIENCE, async || {
        let list = world.rest.get(&path).await.expect(200);
        let items = list["items"].as_array().unwrap().clone();
        (items.len() == 1).then_some(items)
    })
    .await;
    assert_eq!(
        rest[0]["id"],
        of("hostname")["id"],
        "a file elsewhere is a person's"
    );
    for name in ["b", "c"] {
        let ended = world.approval(&id, of(name)).await;
        assert_eq!(ended["state"], "allowed");
        assert_eq!(ended["resolution"]["how"], "covered");
        assert_eq!(
            ended["resolution"]["by"],
            format!("covered:{}", text(first, "id"))
        );
    }
    world.decide(&id, &rest[0], json!({ "decision": "deny" })).await;
    world.idle_after(&id, 1).await;
}

/// For a link the CLI suggests the directory that the link is in, and with that rule in force it asks for the link.
#[tokio::test]
async fn a_link_out_of_an_allowed_directory_stays_open() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let (open_dir, secrets) = (world.daemon.work_dir("open"), world.daemon.work_dir("secrets"));
    std::fs::write(open_dir.join("a"), "a").unwrap();
    std::fs::write(secrets.join("s"), "a planted secret").unwrap();
    std::os::unix::fs::symlink(secrets.join("s"), open_dir.join("link")).unwrap();
    let read = |name: &str| json!({ "name": "Read", "input": { "file_path": open_dir.join(name) } });
    let steps = json!([{ "tools": [read("a"), read("link")] }, { "text": "read" }]);
    world.prompt(&id, steps).await;
    let path = format!("/v1/sessions/{id}/approvals?state=pending");
    let open = wait_for("both are asked for", PATIENCE, async || {
        let list = world.rest.get(&path).await.expect(200);
        let items = list["items"].as_array().unwrap().clone();
        (items.len() == 2).then_some(items)
    })
    .await;
    let of = |name: &str| {
        let is = |item: &&Value| item["request"]["input"]["file_path"] == json!(open_dir.join(name));
        open.iter().find(is).unwrap()
    };
    let (first, link) = (of("a"), of("link"));
    assert_eq!(suggested(link, "addRules"), suggested(first, "addRules"));
    allow_with(&world, &id, first, suggested(first, "addRules")).await;
    assert_eq!(world.approval(&id, link).await["state"], "pending");
    world.decide(&id, link, json!({ "decision": "deny" })).await;
    world.idle_after(&id, 1).await;
    let told = world.last_request().await["messages"].to_string();
    assert!(!told.contains("a planted secret"), "{told}");
}

#[tokio::test]
async fn accepting_edits_settles_an_open_write_of_the_session() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let write = |path: PathBuf| json!({ "tool": "Write", "input": { "file_path": path, "content": "x" } });
    let steps = json!([
        write(world.dir().join("made.txt")),
        write(world.dir().join(".claude/settings.local.json")),
        { "text": "written" },
    ]);
    world.prompt(&id, steps).await;
    let first = world.rest.pending_approval(&id).await;
    let path = format!("/v1/sessions/{id}/permission_mode");
    world.rest.put(&path, json!({ "mode": "acceptEdits" })).await;
    let second = wait_for("the next one is asked for", PATIENCE, async || {
        let next = world.rest.pending_approval(&id).await;
        (next["id"] != first["id"]).then_some(next)
    })
    .await;
    assert!(world.exists("made.txt"));
    let ended = world.approval(&id, &first).await;
    assert_eq!(ended["resolution"]["by"], "covered:acceptEdits", "{ended:#}");
    assert_eq!(second["reason_type"], "safetyCheck");
    world.decide(&id, &second, json!({ "decision": "deny" })).await;
    world.idle_after(&id, 1).await;
}
