//! Owns the tests of questions and plans.

use serde_json::json;

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
