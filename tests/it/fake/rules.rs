//! Owns the tests of rules: what they decide without a client, at once or at a deadline, and what they never decide.

use std::fs;

use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, answer_heard, body, of_type, path, plain, records},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

/// Allows `git status`, denies `rm`, and has a person asked for `git push`.
fn three() -> Value {
    json!([
        { "id": "no-rm", "action": "deny", "tool": "Bash", "input": { "command": { "command_prefix": ["rm"] } },
          "message": "Nothing is removed here." },
        { "id": "push", "action": "ask", "tool": "Bash", "input": { "command": { "command_prefix": ["git", "push"] } } },
        { "id": "status", "action": "allow", "tool": "Bash", "input": { "command": { "command_prefix": ["git", "status"] } } },
    ])
}

pub(crate) async fn session_with_rules(daemon: &TestDaemon, name: &str, rules: Value) -> String {
    let mut body = body(daemon, name, json!({}), json!({}));
    body["rules"] = rules;
    daemon.rest().create_ready(body).await
}

pub(crate) async fn set_rules(rest: &Rest, session: &str, rules: Value) {
    rest.put(&path(session, "rules"), json!({ "items": rules }))
        .await
        .expect(200);
}

pub(crate) fn bash(request: &str, command: &str) -> Value {
    json!({ "ask": { "ids": [request], "tool": "Bash", "input": { "command": command } } })
}

pub(crate) async fn approvals(rest: &Rest, session: &str, query: &str) -> Vec<Value> {
    let list = rest
        .get(&path(session, &format!("approvals?{query}")))
        .await
        .expect(200);
    let mut items = list["items"].as_array().unwrap().clone();
    items.sort_by_key(|item| item["seq"].as_u64());
    items
}

/// Waits until so many approvals are pending and a rule, or none, was found for each; oldest first.
pub(crate) async fn pending(rest: &Rest, session: &str, count: usize) -> Vec<Value> {
    wait_for(&format!("{count} pending approvals"), PATIENCE, async || {
        let items = approvals(rest, session, "state=pending").await;
        (items.len() == count).then_some(items)
    })
    .await
}

pub(crate) fn heard<'a>(records: &'a [Value], request: &str) -> Vec<&'a Value> {
    let answers = of_type(records, "cli", "fake_answer").into_iter();
    answers.filter(|answer| answer["request_id"] == request).collect()
}

#[tokio::test]
async fn rules_decide_without_a_client() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = session_with_rules(&daemon, "a", three()).await;
    let rest = daemon.rest();
    act_through(
        &rest,
        &id,
        json!([bash("q-1", "git status -s"), bash("q-2", "ls; rm x")]),
    )
    .await;
    let ended = approvals(&rest, &id, "how=rule").await;
    assert_eq!(ended.len(), 2, "{ended:#?}");
    for (approval, state, rule) in [(&ended[0], "allowed", "status"), (&ended[1], "denied", "no-rm")] {
        assert_eq!(
            (&approval["state"], &approval["rule"]),
            (&json!(state), &json!(rule))
        );
        assert_eq!(approval["resolution"]["by"], format!("rule:{rule}"));
        assert_eq!(approval["resolution"]["how"], "rule");
        assert_eq!(approval["deadline"], Value::Null);
    }
    let records = wait_for("both decisions are told", PATIENCE, async || {
        let records = records(&rest, &id).await;
        (of_type(&records, "daemon", "decision").len() == 2).then_some(records)
    })
    .await;
    let allowed = &heard(&records, "q-1")[0]["response"]["response"];
    assert_eq!(
        *allowed,
        json!({ "behavior": "allow", "updatedInput": { "command": "git status -s" } })
    );
    let denied = &heard(&records, "q-2")[0]["response"]["response"];
    assert_eq!(
        *denied,
        json!({ "behavior": "deny", "message": "Nothing is removed here." })
    );
    let told = of_type(&records, "daemon", "approval");
    assert_eq!(
        (&told[0]["rule"], &told[1]["rule"]),
        (&json!("status"), &json!("no-rm"))
    );
    assert_eq!(of_type(&records, "daemon", "decision")[1]["by"], "rule:no-rm");

    // A command that only looks like it waits, and so does one that a person is to decide.
    act(
        &rest,
        &id,
        json!([bash("q-3", "git status && git log"), bash("q-4", "git push")]),
    )
    .await;
    let asked = pending(&rest, &id, 1).await;
    assert_eq!(asked[0]["rule"], Value::Null);
    let approval = asked[0]["id"].as_str().unwrap();
    rest.decide(&id, approval, json!({ "decision": "deny" }))
        .await
        .expect(200);
    let asked = wait_for("the push is asked for", PATIENCE, async || {
        let asked = pending(&rest, &id, 1).await;
        asked
            .into_iter()
            .find(|approval| approval["request_id"] == "q-4" && approval["rule"] == "push")
    })
    .await;
    assert_eq!(rest.session(&id).await["pending_approvals"][0]["rule"], "push");
    let approval = asked["id"].as_str().unwrap();
    rest.decide(&id, approval, json!({ "decision": "allow" }))
        .await
        .expect(200);
    rest.in_state(&id, &["idle"]).await;
}

#[tokio::test]
async fn a_line_that_is_not_understood_waits_for_a_person() {
    let daemon = TestDaemon::with_fake().start().await;
    let allow_else = json!([three()[0], { "id": "all", "action": "allow" }]);
    let id = session_with_rules(&daemon, "a", allow_else).await;
    let rest = daemon.rest();
    let line = "tool=$(cat tool.txt); $tool -f x";
    act(
        &rest,
        &id,
        json!([
            bash("q-1", "cat > a.txt <<'E'\nrm is denied\nE"),
            bash("q-2", "make 2>&1 | tail -$N &"),
            bash("q-3", "rm \"$x\" 2>/dev/null || true"),
            bash("q-4", line),
        ]),
    )
    .await;
    for (request, decision) in [("q-1", "allow"), ("q-4", "deny")] {
        let asked = wait_for("the rule asks a person", PATIENCE, async || {
            let asked = approvals(&rest, &id, "state=pending").await;
            asked
                .into_iter()
                .find(|approval| approval["request_id"] == request && approval["rule"] == "no-rm")
        })
        .await;
        rest.decide(
            &id,
            asked["id"].as_str().unwrap(),
            json!({ "decision": decision }),
        )
        .await
        .expect(200);
    }
    rest.in_state(&id, &["idle"]).await;
    let ended = approvals(&rest, &id, "how=rule").await;
    let by: Vec<&str> = ended
        .iter()
        .map(|it| it["resolution"]["by"].as_str().unwrap())
        .collect();
    assert_eq!(by, ["rule:all", "rule:no-rm"]);

    let query = json!({ "tool": "Bash", "input": { "command": line } });
    let verdict = rest.post(&path(&id, "rules/test"), query).await.expect(200);
    assert_eq!(
        (&verdict["decision"], &verdict["rule"]["id"]),
        (&json!("ask"), &json!("no-rm"))
    );
    let why = verdict["why"].as_str().unwrap();
    assert!(why.contains("is not fully understood"), "{why}");
}

#[tokio::test]
async fn the_rules_of_the_configuration_come_after_the_sessions_own() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "[[rules]]\nid = \"all\"\naction = \"allow\"\ntool = \"Bash\"\n\
        [[rules]]\naction = \"deny\"\ntool = \"Write\"\n";
    fs::write(file.path(), text).unwrap();
    let daemon = TestDaemon::with_fake()
        .arg("--config")
        .arg(file.path())
        .start()
        .await;
    let rest = daemon.rest();
    let own = json!([{ "id": "own", "action": "deny", "tool": "Bash", "input": { "command": { "glob": "*secret*" } } }]);
    let id = session_with_rules(&daemon, "a", own).await;
    let write = json!({ "ask": { "ids": ["q-3"], "tool": "Write", "input": { "file_path": "x" } } });
    act_through(
        &rest,
        &id,
        json!([bash("q-1", "ls"), bash("q-2", "cat secret"), write]),
    )
    .await;
    let ended = approvals(&rest, &id, "how=rule").await;
    let rules: Vec<&str> = ended.iter().map(|it| it["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["all", "own", "config-2"]);
    let records = records(&rest, &id).await;
    let denied = &heard(&records, "q-3")[0]["response"]["response"];
    assert_eq!(denied["message"], "The rule config-2 denies this.");
    let listed = rest.get("/v1/rules").await.expect(200);
    assert_eq!(listed["items"][1]["id"], "config-2");
}

#[tokio::test]
async fn what_is_pending_is_looked_at_again() {
    let (_daemon, rest, id) = plain().await;
    act(
        &rest,
        &id,
        json!([bash("q-1", "git status"), bash("q-2", "make"), bash("q-3", "ls")]),
    )
    .await;
    pending(&rest, &id, 1).await;
    // A rule that does not match changes nothing; one that does decides.
    let no = json!({ "action": "allow", "tool": "Write" });
    rest.post(&path(&id, "rules"), no).await.expect(201);
    pending(&rest, &id, 1).await;
    let yes = json!({ "id": "s", "action": "allow", "input": { "command": { "command_prefix": ["git", "status"] } } });
    rest.post(&path(&id, "rules"), yes).await.expect(201);
    wait_for("the second question", PATIENCE, async || {
        let asked = approvals(&rest, &id, "state=pending").await;
        asked.into_iter().find(|it| it["request_id"] == "q-2")
    })
    .await;
    // A whole list in the place of the old one.
    set_rules(
        &rest,
        &id,
        json!([{ "id": "m", "action": "deny", "input": { "command": { "glob": "make*" } } }]),
    )
    .await;
    wait_for("the third question", PATIENCE, async || {
        let asked = approvals(&rest, &id, "state=pending").await;
        asked.into_iter().find(|it| it["request_id"] == "q-3")
    })
    .await;
    // Rules for a mode decide once the session is in it.
    set_rules(
        &rest,
        &id,
        json!([{ "id": "edits", "action": "allow", "mode": ["acceptEdits"] }]),
    )
    .await;
    pending(&rest, &id, 1).await;
    rest.put(&path(&id, "permission_mode"), json!({ "mode": "acceptEdits" }))
        .await
        .expect(200);
    rest.in_state(&id, &["idle"]).await;
    let ended = approvals(&rest, &id, "how=rule").await;
    let by: Vec<&str> = ended
        .iter()
        .map(|it| it["resolution"]["by"].as_str().unwrap())
        .collect();
    assert_eq!(by, ["rule:s", "rule:m", "rule:edits"]);
}

/// Under any rules, a question, a plan, a form and a dialog wait for a person.
#[tokio::test]
async fn a_rule_that_allows_all_answers_no_question() {
    let daemon = TestDaemon::with_fake().start().await;
    let all = json!([{ "action": "allow" }, { "action": "deny" }]);
    let mut body = body(
        &daemon,
        "a",
        json!({}),
        json!({ "supported_dialog_kinds": ["pick"] }),
    );
    body["rules"] = all;
    let id = daemon.rest().create_ready(body).await;
    let rest = daemon.rest();
    let questions = json!({ "questions": [
        { "question": "Which?", "header": "W", "multiSelect": false,
          "options": [{ "label": "a", "description": "a" }, { "label": "b", "description": "b" }] },
        { "question": "What else?", "header": "E", "multiSelect": true,
          "options": [{ "label": "c", "description": "c" }, { "label": "d", "description": "d" }] }] });
    let form = json!({ "subtype": "elicitation", "mcp_server_name": "shop", "message": "?", "mode": "form",
        "requested_schema": { "type": "object", "properties": {} } });
    let dialog = json!({ "subtype": "request_user_dialog", "dialog_kind": "pick", "payload": {} });
    act(
        &rest,
        &id,
        json!([
            { "request": form, "id": "f-1", "wait": false },
            { "request": dialog, "id": "d-1", "wait": false },
            { "ask": { "ids": ["p-1"], "tool": "ExitPlanMode", "input": { "plan": "p" }, "wait": false } },
            { "ask": { "ids": ["t-1"], "tool": "Bash", "extra": { "requires_user_interaction": true }, "wait": false } },
            bash("q-0", "ls"),
            { "ask": { "ids": ["q-1"], "tool": "AskUserQuestion", "input": questions } },
        ]),
    )
    .await;
    // The command between them shows that the rule works.
    wait_for("the command is allowed", PATIENCE, async || {
        let decided = approvals(&rest, &id, "how=rule").await;
        (decided.len() == 1).then_some(())
    })
    .await;
    let asked = pending(&rest, &id, 5).await;
    assert!(
        asked.iter().all(|approval| approval["rule"].is_null()),
        "{asked:#?}"
    );
    let question = asked
        .iter()
        .find(|approval| approval["kind"] == "question")
        .unwrap();
    let answers = json!({ "decision": "answer", "answers": { "Which?": "b", "What else?": ["c", "d"] } });
    let approval = question["id"].as_str().unwrap();
    rest.decide(&id, approval, answers).await.expect(200);
    let mut client = daemon.attach(&id, Some(0)).await;
    let answer = answer_heard(&mut client, "q-1").await;
    assert_eq!(answer["valid"], true, "{answer:#}");
    assert_eq!(
        answer["response"]["response"]["updatedInput"]["answers"],
        json!({ "Which?": "b", "What else?": "c, d" })
    );
    assert_eq!(pending(&rest, &id, 4).await.len(), 4);
}

/// Rules outlive the daemon too, and look at what was asked while there was none.
#[tokio::test]
async fn what_was_asked_without_a_daemon_is_decided_by_the_next_one() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let id = session_with_rules(&daemon, "a", three()).await;
    let gate = daemon.home().join("gate");
    let rest = daemon.rest();
    act(
        &rest,
        &id,
        json!([{ "wait_file": gate }, bash("q-1", "git status")]),
    )
    .await;
    rest.in_state(&id, &["busy"]).await;
    daemon.kill();
    fs::write(&gate, "").unwrap();
    wait_for("the CLI has asked", PATIENCE, async || {
        let is_asked = daemon.journal(&id).contains(r#""request_id":"q-1""#);
        is_asked.then_some(())
    })
    .await;
    daemon.start().await;
    let rest = daemon.rest();
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(approvals(&rest, &id, "by=rule:status").await.len(), 1);
    assert_eq!(heard(&records(&rest, &id).await, "q-1").len(), 1);
}

/// The first valid decision wins, be it a person's or a rule's; each request gets one answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_races_a_rule() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    let (mut persons, mut rules) = (0, 0);
    for round in 0..20 {
        let request = format!("q-{round}");
        set_rules(&rest, &id, json!([])).await;
        act(&rest, &id, json!([bash(&request, "ls")])).await;
        let asked = pending(&rest, &id, 1).await;
        let approval = asked[0]["id"].as_str().unwrap();
        let rule = json!({ "id": format!("r{round}"), "action": "deny" });
        let rules_path = path(&id, "rules");
        let (decided, _) = tokio::join!(
            rest.decide(&id, approval, json!({ "decision": "allow" })),
            rest.post(&rules_path, rule),
        );
        let heard = answer_heard(&mut client, &request).await;
        let behavior = &heard["response"]["response"]["behavior"];
        if decided.status == 200 {
            persons += 1;
            assert_eq!(behavior, "allow");
            assert_eq!(decided.body["resolution"]["by"], "rest");
        } else {
            rules += 1;
            assert_eq!(behavior, "deny");
            assert_eq!(
                decided.body["approval"]["resolution"]["by"],
                format!("rule:r{round}"),
                "{:#}",
                decided.body
            );
            assert_eq!(decided.problem(409), "already_decided");
        }
        rest.in_state(&id, &["idle"]).await;
    }
    assert_eq!(persons + rules, 20);
    let records = records(&rest, &id).await;
    for round in 0..20 {
        assert_eq!(heard(&records, &format!("q-{round}")).len(), 1, "round {round}");
    }
}

/// A client that answers too late on a socket learns the decision.
#[tokio::test]
async fn a_client_that_comes_too_late_is_told_the_decision() {
    let (daemon, rest, id) = plain().await;
    let gate = daemon.home().join("gate");
    let mut client = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([
            bash("q-1", "ls"),
            { "ask": { "ids": ["q-2"], "wait": false } },
            { "wait_file": gate },
            { "cancel": "q-2" },
        ]),
    )
    .await;
    let asked = pending(&rest, &id, 1).await;
    let approval = asked[0]["id"].as_str().unwrap();
    let deny = json!({ "decision": "deny", "message": "No." });
    rest.decide(&id, approval, deny).await.expect(200);
    fs::write(&gate, "").unwrap();
    rest.in_state(&id, &["idle"]).await;
    for (request, code, state, how, by) in [
        ("q-1", "already_decided", "denied", "person", "rest"),
        ("q-2", "approval_not_pending", "withdrawn", "withdrawal", "cli"),
    ] {
        let answer = json!({ "type": "control_response", "response": { "subtype": "success",
            "request_id": request, "response": { "behavior": "allow" } } });
        client.send(&answer).await;
        let error = client
            .find("the refusal", |frame| frame["type"] == "trunkline.error")
            .await;
        assert_eq!(
            (&error["code"], &error["request_id"]),
            (&json!(code), &json!(request))
        );
        let decision = &error["resolution"];
        assert_eq!(
            (&decision["state"], &decision["how"], &decision["by"]),
            (&json!(state), &json!(how), &json!(by)),
            "{error:#}"
        );
    }
    let answer = json!({ "type": "control_response", "response": { "subtype": "success",
        "request_id": "never-asked", "response": { "behavior": "allow" } } });
    client.send(&answer).await;
    let error = client
        .find("the refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(error["code"], "request_not_pending");
    let written = records(&rest, &id).await;
    assert_eq!(of_type(&written, "client", "control_response").len(), 1);
}

#[tokio::test]
async fn a_path_is_where_it_leads() {
    let daemon = TestDaemon::with_fake().start().await;
    let rules = json!([{ "id": "here", "action": "allow", "tool": "Write", "input": { "file_path": { "path_prefix": "." } } }]);
    let id = session_with_rules(&daemon, "a", rules).await;
    let cwd = daemon.work_dir("a");
    std::os::unix::fs::symlink("/etc", cwd.join("out")).unwrap();
    let rest = daemon.rest();
    let write = |request: &str, file: &str| json!({ "ask": { "ids": [request], "tool": "Write", "input": { "file_path": cwd.join(file) } } });
    act(
        &rest,
        &id,
        json!([write("q-1", "new/file"), write("q-2", "out/passwd")]),
    )
    .await;
    let asked = wait_for("the second is asked for", PATIENCE, async || {
        let asked = approvals(&rest, &id, "state=pending").await;
        asked.into_iter().find(|it| it["request_id"] == "q-2")
    })
    .await;
    assert_eq!(approvals(&rest, &id, "by=rule:here").await.len(), 1);
    let approval = asked["id"].as_str().unwrap();
    rest.decide(&id, approval, json!({ "decision": "deny" }))
        .await
        .expect(200);
    rest.in_state(&id, &["idle"]).await;
}
