//! Owns the tests of questions and plans.

use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn questions_are_answered() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let options = |labels: [&str; 2]| labels.map(|label| json!({ "label": label, "description": label }));
    let questions = json!([
        { "question": "Which colour?", "header": "Colour", "multiSelect": false, "options": options(["Red", "Blue"]) },
        { "question": "Which sizes?", "header": "Sizes", "multiSelect": true, "options": options(["Small", "Large"]) },
    ]);
    let ask = json!({ "tool": "AskUserQuestion", "input": { "questions": questions } });
    world.prompt(&id, json!([ask, { "text": "thanks" }])).await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["kind"], "question");
    assert_eq!(approval["request"]["input"]["questions"][1]["multiSelect"], true);
    let answers = json!({ "Which colour?": "Blue", "Which sizes?": "Small, Large" });
    let decided = world
        .decide(
            &id,
            &approval,
            json!({ "decision": "answer", "answers": answers }),
        )
        .await;
    assert_eq!(decided["state"], "allowed");
    world.idle_after(&id, 1).await;
    let request = world.last_request().await;
    let told = request["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .to_string();
    assert!(
        told.contains("Blue") && told.contains("Small, Large"),
        "the model hears the answers: {told}"
    );
    assert!(!told.contains("Red"));
}

#[tokio::test]
async fn an_approved_plan_changes_the_mode() {
    let world = World::start().await;
    let id = world.session(json!({ "permission_mode": "plan" })).await;
    assert_eq!(world.rest.session(&id).await["permission_mode"], "plan");
    let write = json!({ "tool": "Write", "input": { "file_path": "${PLAN_FILE}", "content": "# The plan\n1. do it\n" } });
    let leave = json!({ "tool": "ExitPlanMode", "input": {} });
    world
        .prompt(&id, json!([write, leave, { "text": "begun" }]))
        .await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["kind"], "plan");
    assert_eq!(approval["request"]["input"]["plan"], "# The plan\n1. do it\n");
    assert_eq!(world.rest.session(&id).await["permission_mode"], "plan");
    world.decide(&id, &approval, json!({ "decision": "allow" })).await;
    let view = world.idle_after(&id, 1).await;
    assert_eq!(view["permission_mode"], "default");
}

#[tokio::test]
async fn a_rejected_plan_leaves_the_mode() {
    let world = World::start().await;
    let id = world.session(json!({ "permission_mode": "plan" })).await;
    let write =
        json!({ "tool": "Write", "input": { "file_path": "${PLAN_FILE}", "content": "# The plan\n" } });
    let leave = json!({ "tool": "ExitPlanMode", "input": {} });
    let steps = json!([write, leave, { "text": "I think again" }]);
    world.prompt(&id, steps).await;
    let approval = world.rest.pending_approval(&id).await;
    let deny = json!({ "decision": "deny", "message": "begin with the tests" });
    world.decide(&id, &approval, deny).await;
    let view = world.idle_after(&id, 1).await;
    assert_eq!(view["permission_mode"], "plan");
    assert!(
        world
            .last_request()
            .await
            .to_string()
            .contains("begin with the tests")
    );
}

/// One question, asked in the middle of a turn.
async fn one_question(world: &World) -> (String, Value) {
    let id = world.session(json!({})).await;
    let options = ["Red", "Blue"].map(|label| json!({ "label": label, "description": label }));
    let question =
        json!({ "question": "Which colour?", "header": "Colour", "multiSelect": true, "options": options });
    let ask = json!({ "tool": "AskUserQuestion", "input": { "questions": [question] } });
    world.prompt(&id, json!([ask, { "text": "thanks" }])).await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["questions"][0]["question"], "Which colour?");
    assert_eq!(approval["requires_user_interaction"], true);
    (id, approval)
}

/// The words that the model was told last.
async fn told(world: &World, id: &str) -> String {
    world.idle_after(id, 1).await;
    let request = world.last_request().await;
    request["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .to_string()
}

#[tokio::test]
async fn several_labels_and_a_note_are_an_answer() {
    let world = World::start().await;
    let (id, approval) = one_question(&world).await;
    let decision = json!({
        "decision": "answer",
        "answers": { "Which colour?": ["Red", "Blue"] },
        "notes": { "Which colour?": "rather light" },
    });
    let decided = world.decide(&id, &approval, decision).await;
    assert_eq!(decided["resolution"]["input_changed"], true);
    let told = told(&world, &id).await;
    assert!(told.contains("Red, Blue"), "{told}");
    assert!(told.contains("rather light"), "{told}");
}

#[tokio::test]
async fn free_text_is_an_answer() {
    let world = World::start().await;
    let (id, approval) = one_question(&world).await;
    let decision = json!({ "decision": "answer", "answers": { "Which colour?": "a shade of grey" } });
    world.decide(&id, &approval, decision).await;
    let told = told(&world, &id).await;
    assert!(told.contains("a shade of grey"), "{told}");
}

#[tokio::test]
async fn a_question_can_be_skipped() {
    let world = World::start().await;
    let (id, approval) = one_question(&world).await;
    let decision = json!({ "decision": "answer", "skipped": ["Which colour?"] });
    let decided = world.decide(&id, &approval, decision).await;
    assert_eq!(decided["state"], "allowed", "{decided:#}");
    let told = told(&world, &id).await;
    assert!(!told.contains("is_error\":true"), "the tool goes through: {told}");
    assert!(!told.contains("\"Red\""), "nothing is answered: {told}");
}

#[tokio::test]
async fn a_question_can_be_refused() {
    let world = World::start().await;
    let (id, approval) = one_question(&world).await;
    let deny = json!({ "decision": "deny", "message": "decide for yourself" });
    let decided = world.decide(&id, &approval, deny).await;
    assert_eq!(decided["state"], "denied", "{decided:#}");
    let told = told(&world, &id).await;
    assert!(told.contains("decide for yourself"), "{told}");
    assert_eq!(
        world.rest.turns(&id).await[0]["subtype"],
        "success",
        "the turn goes on"
    );
}

/// In the CLI's own words, over a socket.
#[tokio::test]
async fn a_question_is_answered_over_the_socket() {
    let world = World::start().await;
    let (id, approval) = one_question(&world).await;
    let mut client = world.daemon.attach(&id, None).await;
    let mut input = approval["request"]["input"].clone();
    input["answers"] = json!({ "Which colour?": "Blue" });
    let response = json!({ "subtype": "success", "request_id": approval["request_id"],
        "response": { "behavior": "allow", "updatedInput": input } });
    client
        .send(&json!({ "type": "control_response", "response": response }))
        .await;
    let told = told(&world, &id).await;
    assert!(told.contains("Blue") && !told.contains("Red"), "{told}");
    let ended = world.approval(&id, &approval).await;
    assert!(
        ended["resolution"]["by"].as_str().unwrap().starts_with("ws:"),
        "{ended:#}"
    );
}

/// Only a person answers a question: no mode and no rule of the CLI.
#[tokio::test]
async fn a_question_is_asked_also_where_all_else_is_allowed() {
    let world = World::start().await;
    let options = json!({ "permission_mode": "acceptEdits", "allowed_tools": ["AskUserQuestion", "Bash"] });
    let id = world.session(options).await;
    let question = json!({ "question": "Which?", "header": "W", "multiSelect": false,
        "options": [{ "label": "A", "description": "a" }, { "label": "B", "description": "b" }] });
    let ask = json!({ "tool": "AskUserQuestion", "input": { "questions": [question] } });
    world.prompt(&id, json!([ask, { "text": "thanks" }])).await;
    let approval = world.rest.pending_approval(&id).await;
    let answer = json!({ "decision": "answer", "answers": { "Which?": "B" } });
    world.decide(&id, &approval, answer).await;
    assert!(told(&world, &id).await.contains(r#"\"B\""#));
}

/// A plan that waits for its approval.
async fn plan(world: &World) -> (String, Value) {
    let id = world.session(json!({ "permission_mode": "plan" })).await;
    let write =
        json!({ "tool": "Write", "input": { "file_path": "${PLAN_FILE}", "content": "# The plan\n" } });
    let leave = json!({ "tool": "ExitPlanMode", "input": {} });
    world
        .prompt(&id, json!([write, leave, { "text": "begun" }]))
        .await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["plan"], "# The plan\n", "{approval:#}");
    (id, approval)
}

#[tokio::test]
async fn a_plan_is_edited_and_goes_on_in_another_mode() {
    let world = World::start().await;
    let (id, approval) = plan(&world).await;
    let decision = json!({ "decision": "allow", "plan": "# A better plan\n", "next_mode": "acceptEdits" });
    let decided = world.decide(&id, &approval, decision).await;
    let resolution = &decided["resolution"];
    assert_eq!(
        (&resolution["input_changed"], &resolution["permissions_updated"]),
        (&json!(true), &json!(true)),
        "{decided:#}"
    );
    let view = world.idle_after(&id, 1).await;
    assert_eq!(view["permission_mode"], "acceptEdits");
    let file = approval["plan_file"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), "# A better plan\n");
    assert!(world.last_request().await.to_string().contains("# A better plan"));
}

/// A mode that a session must be started for cannot be had by way of a plan: the CLI would drop it without a word.
#[tokio::test]
async fn a_plan_does_not_lead_to_a_mode_that_was_not_launched() {
    let world = World::start().await;
    let (id, approval) = plan(&world).await;
    let decision = json!({ "decision": "allow", "next_mode": "bypassPermissions" });
    let plan = approval["id"].as_str().unwrap();
    let refused = world.rest.decide(&id, plan, decision).await;
    assert_eq!(refused.problem(400), "invalid_decision");
    world.decide(&id, &approval, json!({ "decision": "allow" })).await;
    let view = world.idle_after(&id, 1).await;
    assert_ne!(view["permission_mode"], "bypassPermissions");
}
