//! Owns the tests of the routes of rules: lists, changes, the dry run, and what is refused.

use std::fs;

use serde_json::{Value, json};

use crate::support::{daemon::TestDaemon, rest::Rest};

fn path(session: &str, route: &str) -> String {
    format!("/v1/sessions/{session}/{route}")
}

async fn ids(rest: &Rest, session: &str) -> Vec<String> {
    let list = rest.get(&path(session, "rules")).await.expect(200);
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|rule| rule["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn rules_are_listed_added_replaced_and_removed() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let first = json!({ "id": "a", "action": "deny", "tool": "Write", "message": "No." });
    let id = rest
        .create_ready(json!({ "cwd": daemon.work_dir("a"), "rules": [first] }))
        .await;
    let rules = path(&id, "rules");
    assert_eq!(rest.get(&rules).await.expect(200), json!({ "items": [first] }));

    // At the end, at a place, and with an id of our own making.
    let added = rest
        .post(&rules, json!({ "id": "b", "action": "ask" }))
        .await
        .expect(201);
    assert_eq!(added, json!({ "id": "b", "action": "ask" }));
    let minted = rest
        .post(
            &format!("{rules}?position=1"),
            json!({ "action": "allow", "tool": "Read" }),
        )
        .await
        .expect(201);
    let minted = minted["id"].as_str().unwrap().to_owned();
    assert_eq!(ids(&rest, &id).await, ["a", &minted, "b"]);
    let twice = rest.post(&rules, json!({ "id": "b", "action": "deny" })).await;
    assert_eq!(twice.body["rule_id"], "b");
    assert_eq!(twice.problem(409), "rule_exists");
    let gone = rest.delete(&path(&id, &format!("rules/{minted}"))).await;
    assert_eq!(gone.status, 204);
    let gone = rest.delete(&path(&id, &format!("rules/{minted}"))).await;
    assert_eq!(gone.problem(404), "rule_not_found");
    assert_eq!(ids(&rest, &id).await, ["a", "b"]);

    // The list that was read can be written back.
    let list = rest.get(&rules).await.expect(200);
    assert_eq!(rest.put(&rules, list.clone()).await.expect(200), list);
    let full = json!({ "items": [
        { "id": "z", "action": "ask", "tool": "Bash", "input": {
            "command": { "command_prefix": ["git", "push"] }, "description": { "regex": "[a-z ]*" },
            "file": { "path_prefix": "src" }, "x": { "glob": "*" } },
          "cwd": "/", "agent": "sub", "mode": ["default"], "kind": "tool", "expires_at": "2040-01-02T03:04:05.000000Z",
          "deadline_ms": 60000, "on_deadline": "deny", "message": "Too late." },
        { "id": "a", "action": "deny" },
    ] });
    assert_eq!(rest.put(&rules, full.clone()).await.expect(200), full);

    // At rest, and in the next life of the daemon.
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    daemon.stop();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(rest.get(&rules).await.expect(200), full);
    rest.post(&rules, json!({ "id": "late", "action": "allow" }))
        .await
        .expect(201);
    assert_eq!(ids(&rest, &id).await, ["z", "a", "late"]);
    let verdict = rest
        .post(&path(&id, "rules/test"), json!({ "tool": "Read" }))
        .await
        .expect(200);
    assert_eq!(verdict["rule"]["id"], "a");

    rest.delete(&format!("/v1/sessions/{id}")).await;
    assert_eq!(rest.get(&rules).await.problem(404), "session_not_found");
}

#[tokio::test]
async fn a_fork_inherits_the_rules() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let rules = json!([{ "id": "a", "action": "deny", "tool": "Write" }]);
    let id = rest
        .create_ready(json!({ "cwd": daemon.work_dir("a"), "rules": rules }))
        .await;
    rest.ask(&id, "hello").await;
    let fork = rest.lifecycle(&id, "fork", json!({})).await.expect(201);
    let fork = fork["id"].as_str().unwrap();
    rest.put(&path(&id, "rules"), json!({ "items": [] }))
        .await
        .expect(200);
    let kept = rest.get(&path(fork, "rules")).await.expect(200);
    assert_eq!(kept, json!({ "items": rules }));
}

#[tokio::test]
async fn the_dry_run_says_which_rule_and_why() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        file.path(),
        "[[rules]]\nid = \"writes\"\naction = \"deny\"\ntool = \"Write\"\n",
    )
    .unwrap();
    let daemon = TestDaemon::with_fake()
        .arg("--config")
        .arg(file.path())
        .start()
        .await;
    let rest = daemon.rest();
    let rules = json!([
        { "id": "old", "action": "deny", "expires_at": "2020-01-01T00:00:00Z" },
        { "id": "sub", "action": "deny", "agent": "sub" },
        { "id": "plan", "action": "deny", "mode": ["plan"] },
        { "id": "publish", "action": "deny", "input": { "command": { "command_prefix": ["npm", "publish"] } } },
        { "id": "git", "action": "ask", "tool": "Bash", "deadline_ms": 5, "on_deadline": "allow",
          "input": { "command": { "command_prefix": ["git", "status"] } } },
        { "id": "here", "action": "allow", "input": { "file_path": { "path_prefix": "." } } },
    ]);
    let cwd = daemon.work_dir("a");
    let id = rest.create_ready(json!({ "cwd": cwd, "rules": rules })).await;
    let test = async |query: Value| rest.post(&path(&id, "rules/test"), query).await.expect(200);

    let verdict = test(json!({ "tool": "Bash", "input": { "command": "git status" } })).await;
    assert_eq!(
        (&verdict["decision"], &verdict["source"]),
        (&json!("ask"), &json!("session"))
    );
    assert_eq!(
        (&verdict["rule"]["id"], &verdict["on_deadline"]),
        (&json!("git"), &json!("allow"))
    );
    assert_eq!(verdict["why"], "all conditions hold: tool, input.command");
    assert_eq!(
        verdict["passed"],
        json!([
            { "id": "old", "source": "session", "why_not": "it has expired" },
            { "id": "sub", "source": "session", "why_not": "another agent asks" },
            { "id": "plan", "source": "session", "why_not": "the session is in another permission mode" },
            { "id": "publish", "source": "session", "why_not": "input.command does not match" },
        ])
    );
    let verdict = test(json!({ "tool": "Bash", "input": { "command": "git status; rm x" } })).await;
    // It may be the command, so a person is asked; nothing is allowed at the deadline.
    assert_eq!(
        (&verdict["rule"]["id"], &verdict["on_deadline"]),
        (&json!("git"), &json!("deny"))
    );
    let verdict = test(json!({ "tool": "Bash", "input": { "command": "$x build" } })).await;
    assert_eq!(
        (&verdict["rule"]["id"], &verdict["decision"]),
        (&json!("publish"), &json!("ask"))
    );
    assert_eq!(
        verdict["why"],
        "the command line is not fully understood, and may run what the rule denies: a person decides"
    );
    for (query, rule, decision) in [
        (json!({ "tool": "Bash", "agent": "a-1" }), json!("sub"), "deny"),
        (json!({ "tool": "Bash", "mode": "plan" }), json!("plan"), "deny"),
        (
            json!({ "tool": "Edit", "input": { "file_path": cwd.join("x") } }),
            json!("here"),
            "allow",
        ),
        (
            json!({ "tool": "Edit", "input": { "file_path": "/etc/passwd" } }),
            Value::Null,
            "ask",
        ),
        (
            json!({ "tool": "Edit", "input": { "file_path": "x" }, "cwd": "/etc" }),
            json!("here"),
            "allow",
        ),
        (
            json!({ "tool": "Write", "input": { "file_path": "/x" } }),
            json!("writes"),
            "deny",
        ),
        (json!({ "tool": "AskUserQuestion" }), Value::Null, "ask"),
        (json!({ "tool": "Read" }), Value::Null, "ask"),
    ] {
        let verdict = test(query.clone()).await;
        assert_eq!(verdict["rule"]["id"], rule, "{query}: {verdict:#}");
        assert_eq!(verdict["decision"], decision, "{query}");
    }

    // Without a session only the configuration's rules are tried.
    let verdict = rest
        .post("/v1/rules/test", json!({ "tool": "Write" }))
        .await
        .expect(200);
    assert_eq!(
        (&verdict["rule"]["id"], &verdict["source"]),
        (&json!("writes"), &json!("config"))
    );
    let verdict = rest
        .post("/v1/rules/test", json!({ "tool": "Bash" }))
        .await
        .expect(200);
    assert_eq!(
        (&verdict["decision"], &verdict["rule"]),
        (&json!("ask"), &Value::Null)
    );
    assert_eq!(verdict["why"], "no rule matches");
    let list = rest.get("/v1/approvals").await.expect(200);
    assert_eq!(list["items"], json!([]), "nothing was decided");
}

#[tokio::test]
async fn a_wrong_rule_is_refused_with_its_place() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    let id = rest.create_ready(json!({ "cwd": cwd })).await;
    let rules = path(&id, "rules");
    let good = json!({ "id": "good", "action": "ask" });
    for (rule, code, field) in [
        (json!({ "action": "allow", "tool": "[" }), "invalid_rule", "tool"),
        (
            json!({ "action": "deny", "kind": "question" }),
            "invalid_rule",
            "action",
        ),
        (
            json!({ "action": "allow", "input": { "command": { "regex": "(" } } }),
            "invalid_rule",
            "input.command.regex",
        ),
        (
            json!({ "action": "allow", "deadline_ms": 5 }),
            "invalid_rule",
            "deadline_ms",
        ),
        (json!({ "action": "perhaps" }), "invalid_field", "action"),
        (
            json!({ "action": "allow", "colour": "red" }),
            "invalid_field",
            "colour",
        ),
        (
            json!({ "action": "allow", "input": { "command": "ls" } }),
            "invalid_field",
            "input.command",
        ),
    ] {
        let one = rest.post(&rules, rule.clone()).await;
        assert_eq!(one.body["field"], field, "{rule}: {:#}", one.body);
        assert_eq!(one.problem(422), code, "{rule}");
        let many = rest.put(&rules, json!({ "items": [good, rule] })).await;
        assert_eq!(
            many.body["field"],
            format!("items[1].{field}"),
            "{rule}: {:#}",
            many.body
        );
        assert_eq!(many.problem(422), code);
        let made = rest
            .post("/v1/sessions", json!({ "cwd": cwd, "rules": [rule] }))
            .await;
        assert_eq!(made.body["field"], format!("rules[0].{field}"), "{rule}");
        assert_eq!(made.problem(422), code);
    }
    let twice = rest.put(&rules, json!({ "items": [good, good] })).await;
    assert_eq!(twice.body["field"], "items[1].id");
    assert_eq!(twice.problem(422), "invalid_rule");
    assert_eq!(ids(&rest, &id).await, Vec::<String>::new());
    let unknown = "019b7a3e-7c11-7f60-8d2a-6f5d1d0c2a10";
    for reply in [
        rest.get(&path(unknown, "rules")).await,
        rest.post(&path(unknown, "rules"), good.clone()).await,
        rest.post(&path(unknown, "rules/test"), json!({ "tool": "x" }))
            .await,
        rest.delete(&path(unknown, "rules/x")).await,
    ] {
        assert_eq!(reply.problem(404), "session_not_found");
    }
}
