//! Owns the tests of the official browser SDK, unmodified, with the real CLI: it shows the token by its first line.
//! `official_sdks` compares that its callbacks are called as they are without a daemon.

use serde_json::{Value, json};

use crate::{
    support::browser_sdk::BrowserSdk,
    world::{World, fresh_id, text},
};

/// The outcome of a story with a session.
async fn story(world: &World, name: &str) -> (String, Value) {
    let id = world.session(json!({})).await;
    let outcome = BrowserSdk::start(&world.daemon, &id, name).outcome().await;
    (id, outcome)
}

#[tokio::test]
async fn a_plain_query_has_two_turns_and_closes() {
    let world = World::start().await;
    let (id, outcome) = story(&world, "plain").await;
    assert_eq!(outcome["results"], json!(["Hello.", "And again."]));
    // The CLI may have said something behind the result, and the end is no error.
    let rest = outcome["rest"].as_array().unwrap();
    assert!(!rest.contains(&json!("result")), "{outcome:#}");
    let types: Vec<_> = outcome["types"].as_array().unwrap().iter().collect();
    let printed = world.rest.events(&id, 0).await;
    let printed: Vec<_> = printed
        .iter()
        .filter(|record| record["src"] == "cli")
        .map(|record| &record["data"]["type"])
        .filter(|kind| !kind.as_str().unwrap().starts_with("control_"))
        .collect();
    // The SDK keeps a few kinds to itself, and adds none.
    for kind in ["system", "assistant", "result"] {
        let count = |types: &[&Value]| types.iter().filter(|it| **it == kind).count();
        assert!(
            count(&types) > 0 && count(&types) <= count(&printed),
            "{kind}: {outcome:#}"
        );
    }
    assert_eq!(
        world.rest.session(&id).await["state"],
        "idle",
        "the session stays"
    );
    let journal = world.daemon.journal(&id) + &world.daemon.log();
    assert!(!journal.contains(world.daemon.token()) && !journal.contains("oauth"));
}

#[tokio::test]
async fn a_turn_is_interrupted_and_the_model_and_the_mode_are_changed() {
    let world = World::start().await;
    let id = world.session(json!({"allowed_tools": ["Bash"]})).await;
    let mut sdk = BrowserSdk::start(&world.daemon, &id, "controls");
    assert_eq!(sdk.said().await, json!({"running": true}));
    world.made("started").await;
    sdk.go_on().await;
    let outcome = sdk.outcome().await;
    assert_eq!(outcome["cut"], "error_during_execution");
    let view = world.rest.session(&id).await;
    assert!(text(&view, "model").contains("opus"), "{view:#}");
    assert_eq!(view["permission_mode"], "plan");
}

#[tokio::test]
async fn a_client_that_decides_first_takes_the_request_from_the_sdk() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let mut person = world.daemon.attach(&id, None).await;
    let mut sdk = BrowserSdk::start(&world.daemon, &id, "another_is_first");
    assert_eq!(sdk.said().await, json!({"asked": true}));
    let asked = person
        .until("the request", |frame| {
            frame["src"] == "cli" && frame["data"]["request"]["subtype"] == "can_use_tool"
        })
        .await
        .pop()
        .unwrap();
    let asked = &asked["data"];
    let answer = json!({"behavior": "allow", "updatedInput": asked["request"]["input"]});
    let response = json!({"subtype": "success", "request_id": asked["request_id"], "response": answer});
    person
        .send(&json!({"type": "control_response", "response": response}))
        .await;
    assert_eq!(sdk.outcome().await, json!({"result": "done", "isAborted": true}));
    assert!(world.exists("other.txt"));
}

#[tokio::test]
async fn a_reply_that_the_cli_would_misread_ends_the_query_and_the_request_stays() {
    let world = World::start().await;
    let (id, outcome) = story(&world, "refused").await;
    let error = text(&outcome, "error");
    assert!(
        error.contains("4400") && error.contains("invalid_decision"),
        "{error}"
    );
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["subject"], "Bash");
    assert!(!world.exists("misspelt.txt"));
}

#[tokio::test]
async fn a_session_that_is_not_there_is_said_behind_the_token() {
    let world = World::start().await;
    let unknown = fresh_id();
    let outcome = BrowserSdk::start(&world.daemon, &unknown, "no_such_session")
        .outcome()
        .await;
    let error = text(&outcome, "error");
    assert!(
        error.contains("4404") && error.contains("session_not_found"),
        "{error}"
    );
}

#[tokio::test]
async fn a_session_is_made_for_a_query_and_ends_with_it() {
    let world = World::start().await;
    let path = format!("/v1/connect?cwd={}&on_close=stop", world.dir().display());
    let outcome = BrowserSdk::start_at(&world.daemon, &path, "hooks")
        .outcome()
        .await;
    assert_eq!(outcome["asked"], json!([["PreToolUse", "touch denied.txt"]]));
    assert_eq!(
        (&outcome["result"], &outcome["isTold"]),
        (&json!("done"), &json!(true))
    );
    let made = world.rest.get("/v1/sessions").await.expect(200);
    let id = text(&made["items"][0], "id");
    world.rest.in_state(&id, &["stopped"]).await;
    let records = world.rest.events(&id, 0).await;
    let greetings = records
        .iter()
        .filter(|record| record["data"]["request"]["subtype"] == "initialize");
    assert_eq!(greetings.count(), 1, "the process began with the SDK's own word");
}
