//! Owns finding and exporting at the running daemon: in which turn a hit is, and that a conversation goes on meanwhile.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{daemon::TestDaemon, programs::fake_prompt};

#[tokio::test]
async fn a_conversation_that_goes_on_is_found_by_turn_and_exported_as_it_is() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    for text in ["The first needle.", "Nothing.", "The last NEEDLE."] {
        rest.ask(&id, &fake_prompt(&json!([{"text": text}]))).await;
    }
    let asks = json!([{"ask": {"ids": ["w-1"], "tool": "Write", "input": {"file_path": "/tmp/needle"}}}]);
    rest.prompt(&id, &fake_prompt(&asks)).await;
    rest.pending_approval(&id).await;

    let page = rest
        .get(&format!("/v1/sessions/{id}/find?q=needle"))
        .await
        .expect(200);
    let answers = page["items"].as_array().unwrap().iter();
    let turns: Vec<(&Value, &Value)> = answers
        .filter(|hit| hit["who"] == "agent")
        .map(|hit| (&hit["turn"], &hit["excerpt"]["words"]))
        .collect();
    let wanted = [(&json!(3), &json!("NEEDLE")), (&json!(1), &json!("needle"))];
    assert_eq!(turns, wanted, "{page:#}");
    let prompts = page["items"].as_array().unwrap().iter();
    let prompts: Vec<&Value> = prompts
        .filter(|hit| hit["who"] == "you")
        .map(|hit| &hit["turn"])
        .collect();
    let not_ended = Value::Null;
    assert_eq!(prompts, [&not_ended, &json!(3), &json!(1)], "{page:#}");

    let export = format!("/v1/sessions/{id}/export?format=ndjson");
    let exported = rest.builder(Method::GET, &export).send().await.unwrap();
    let exported = exported.text().await.unwrap();
    let events = rest
        .builder(Method::GET, &format!("/v1/sessions/{id}/events"))
        .header("accept", "application/x-ndjson");
    let events = events.send().await.unwrap().text().await.unwrap();
    assert!(
        events.starts_with(&exported),
        "nothing but new records is missing"
    );
    let text = rest
        .builder(Method::GET, &format!("/v1/sessions/{id}/export"))
        .send();
    let text = text.await.unwrap().text().await.unwrap();
    assert!(text.contains("The last NEEDLE."), "{text}");
}
