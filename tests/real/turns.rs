//! Owns the tests of turns: what is asked, streamed, answered and booked.

use serde_json::{Value, json};

use crate::{
    support::{
        programs::scripted,
        wait::{PATIENCE, wait_for},
    },
    world::{World, bash, nanos, pid, said, text},
};

/// The text deltas among frames, joined.
fn streamed(frames: &[Value], delta: &str) -> String {
    let member = delta.trim_end_matches("_delta");
    frames
        .iter()
        .filter(|frame| frame["data"]["event"]["delta"]["type"] == delta)
        .map(|frame| text(&frame["data"]["event"]["delta"], member))
        .collect()
}

#[tokio::test]
async fn a_plain_turn_is_the_same_in_every_view() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let mut ws = world.daemon.attach(&id, Some(0)).await;
    let prompt = scripted(&json!([{ "text": "The answer." }]));
    let reply = world.rest.ask(&id, &prompt).await;
    assert_eq!(reply["result"]["result"], "The answer.");
    assert_eq!(reply["turn"]["is_error"], false);
    assert_eq!(reply["turn"]["prompts"], json!([reply["uuid"]]));
    assert_eq!(reply["turn"]["usage"]["input_tokens"], 100);
    assert_eq!(reply["turn"]["usage"]["output_tokens"], 20);
    let cost = nanos(&reply["turn"]["cost_usd"]);
    assert!(cost > 0);
    assert_eq!(nanos(&reply["result"]["total_cost_usd"]), cost);

    let view = world.idle_after(&id, 1).await;
    assert_eq!(nanos(&view["cost_usd"]), cost);
    assert_eq!(view["usage"], reply["turn"]["usage"]);
    assert_eq!(world.rest.turns(&id).await, [reply["turn"].clone()]);

    let messages = world.messages(&id).await;
    assert_eq!(messages.len(), 2, "{messages:#?}");
    assert_eq!(
        (&messages[0]["role"], said(&messages[0])),
        (&json!("user"), prompt)
    );
    assert_eq!(messages[0]["uuid"], reply["uuid"]);
    assert_eq!(
        (&messages[1]["role"], said(&messages[1])),
        (&json!("assistant"), "The answer.".to_owned())
    );

    let frames = ws
        .until("the result", |frame| frame["data"]["type"] == "result")
        .await;
    assert_eq!(frames[0]["type"], "trunkline.snapshot");
    assert_eq!(frames.last().unwrap()["data"], reply["result"]);
    let events = world.rest.events(&id, 0).await;
    let received: Vec<&Value> = frames.iter().filter(|frame| frame["seq"].is_u64()).collect();
    assert_eq!(received, events[..received.len()].iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_session_is_made_with_its_first_prompt() {
    let world = World::start().await;
    let prompt = scripted(&json!([{ "text": "The first answer." }]));
    let request = json!({ "cwd": world.dir(), "prompt": prompt, "title": "made at once" });
    let reply = world.rest.post("/v1/sessions?wait=result", request).await;
    let view = reply.expect(201);
    assert_eq!(view["outcome"]["result"]["result"], "The first answer.");
    assert_eq!(view["outcome"]["turn"]["prompts"], json!([view["prompt_uuid"]]));
    assert_eq!(view["turns"], 1);
    assert_eq!(view["title"], "made at once");
}

#[tokio::test]
async fn a_streamed_answer_arrives_while_it_is_written() {
    let world = World::start().await;
    let id = world.session(json!({ "include_partial_messages": true })).await;
    let mut ws = world.daemon.attach(&id, None).await;
    let whole = "one two three four five six seven eight nine ten";
    let step = json!({ "text": whole, "chunk_size": 8, "wait": "middle", "wait_at": 4 });
    world.prompt(&id, json!([step])).await;
    world.api.at_gate("middle").await;
    let is_text = |frame: &Value| frame["data"]["event"]["delta"]["type"] == "text_delta";
    let mut frames = ws.until("a first delta", is_text).await;
    let early = streamed(&frames, "text_delta");
    assert!(
        whole.starts_with(&early) && early.len() < whole.len(),
        "not a part: {early}"
    );
    let view = world.rest.session(&id).await;
    assert_eq!(view["state"], "busy");
    assert_eq!(view["turn"]["number"], 1);
    world.api.release("middle").await;
    frames.extend(
        ws.until("the result", |frame| frame["data"]["type"] == "result")
            .await,
    );
    assert_eq!(streamed(&frames, "text_delta"), whole);
    assert_eq!(frames.last().unwrap()["data"]["result"], whole);
    world.idle_after(&id, 1).await;
    let messages = world.messages(&id).await;
    assert_eq!(messages.len(), 2);
    assert_eq!(said(&messages[1]), whole);
}

#[tokio::test]
async fn thinking_is_streamed_and_kept_apart_from_the_answer() {
    let world = World::start().await;
    let id = world.session(json!({ "include_partial_messages": true })).await;
    let mut ws = world.daemon.attach(&id, None).await;
    let answer = world
        .answer(
            &id,
            json!([{ "thinking": "let me think about it", "text": "Thought." }]),
        )
        .await;
    assert_eq!(answer, "Thought.");
    let frames = ws
        .until("the result", |frame| frame["data"]["type"] == "result")
        .await;
    assert_eq!(streamed(&frames, "thinking_delta"), "let me think about it");
    let messages = world.messages(&id).await;
    assert_eq!(messages.len(), 2, "one message of the model is one item");
    assert_eq!(messages[1]["content"][0]["type"], "thinking");
    assert_eq!(messages[1]["content"][0]["thinking"], "let me think about it");
    assert_eq!(messages[1]["content"][1]["text"], "Thought.");
}

#[tokio::test]
async fn three_turns_share_one_process_and_one_conversation() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let process = pid(&world.rest.session(&id).await);
    for name in ["first", "second", "third"] {
        assert_eq!(world.answer(&id, json!([{ "text": name }])).await, name);
    }
    let view = world.idle_after(&id, 3).await;
    assert_eq!(pid(&view), process);
    assert_eq!(world.runs(&id).await.len(), 1);
    let turns = world.rest.turns(&id).await;
    let numbers: Vec<&Value> = turns.iter().map(|turn| &turn["number"]).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let spent: i64 = turns.iter().map(|turn| nanos(&turn["cost_usd"])).sum();
    assert_eq!(nanos(&view["cost_usd"]), spent);
    let said: Vec<String> = world.messages(&id).await.iter().map(said).collect();
    assert_eq!([&*said[1], &said[3], &said[5]], ["first", "second", "third"]);
    // The model was told of the turns before.
    let request = world.last_request().await.to_string();
    assert!(
        request.contains("first") && request.contains("second"),
        "{request}"
    );
}

#[tokio::test]
async fn a_prompt_during_a_tool_joins_the_turn() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    let wait = bash("touch started; until test -e go; do sleep 0.1; done");
    let first = world.ask(&id, json!([wait, { "text": "for both" }]));
    let second = async {
        world.made("started").await;
        world.rest.ask(&id, "one more thing").await
    };
    let open = async {
        queued(&world, &id, 2).await;
        world.write("go", "");
    };
    let (first, second, ()) = tokio::join!(first, second, open);
    assert_eq!(first["result"]["result"], "for both");
    assert!(world.last_request().await.to_string().contains("one more thing"));
    assert_eq!(second["turn"], first["turn"], "one result answers both");
    assert_eq!(first["turn"]["prompts"], json!([first["uuid"], second["uuid"]]));
    let view = world.idle_after(&id, 1).await;
    assert_eq!(view["open_prompts"], json!([]));
}

#[tokio::test]
async fn prompts_during_text_get_the_next_turn() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let held = json!([{ "text": "first answer", "wait": "middle", "wait_at": 2 }]);
    let first = world.ask(&id, held);
    let second = async {
        world.api.at_gate("middle").await;
        world.rest.ask(&id, "a second thing").await
    };
    let third = async {
        queued(&world, &id, 2).await;
        world.ask(&id, json!([{ "text": "second answer" }])).await
    };
    let open = async {
        queued(&world, &id, 3).await;
        world.api.release("middle").await;
    };
    let (first, second, third, ()) = tokio::join!(first, second, third, open);
    assert_eq!(first["result"]["result"], "first answer");
    assert_eq!(first["turn"]["prompts"], json!([first["uuid"]]));
    // The CLI answers what waited in one turn.
    assert_eq!(second["result"]["result"], "second answer");
    assert_eq!(second["turn"]["prompts"], json!([second["uuid"], third["uuid"]]));
    assert_eq!(second["turn"]["number"], 2);
    assert_eq!(third["turn"], second["turn"]);
    let view = world.idle_after(&id, 2).await;
    assert_eq!(view["open_prompts"], json!([]));
}

/// Waits until so many prompts are open and the last one is queued.
async fn queued(world: &World, id: &str, count: usize) {
    wait_for(&format!("prompt {count} is queued"), PATIENCE, async || {
        let view = world.rest.session(id).await;
        let open = view["open_prompts"].as_array().unwrap();
        (open.len() == count && open[count - 1]["state"] == "queued").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_message_that_asks_nothing_is_kept_for_the_next_turn() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let body = json!({ "text": "keep this in mind", "should_query": false });
    let path = format!("/v1/sessions/{id}/messages?wait=result");
    world.rest.post(&path, body).await.expect(200);
    assert_eq!(world.api.message_requests().await, 0);
    let view = world.rest.in_state(&id, &["idle"]).await;
    assert_eq!(nanos(&view["cost_usd"]), 0);
    assert_eq!(world.answer(&id, json!([{ "text": "so I do" }])).await, "so I do");
    assert!(
        world
            .last_request()
            .await
            .to_string()
            .contains("keep this in mind")
    );
}

#[tokio::test]
async fn an_answer_follows_the_schema() {
    let world = World::start().await;
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] });
    let id = world.session(json!({ "json_schema": schema })).await;
    let step = json!({ "tool": "StructuredOutput", "input": { "a": "value" } });
    let reply = world.ask(&id, json!([step])).await;
    assert_eq!(
        reply["result"]["structured_output"],
        json!({ "a": "value" }),
        "{reply:#}"
    );
    world.idle_after(&id, 1).await;
    let later = world
        .rest
        .get(&format!("/v1/sessions/{id}/turns/1"))
        .await
        .expect(200);
    assert_eq!(later["result"], reply["result"], "it can be read later too");
}

#[tokio::test]
async fn a_prompt_of_20_mb_is_taken() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let process = pid(&world.rest.session(&id).await);
    let prompt = "x".repeat(20 * 1024 * 1024);
    let reply = world.rest.ask(&id, &prompt).await;
    assert_eq!(reply["turn"]["prompts"], json!([reply["uuid"]]));
    assert_eq!(reply["result"]["is_error"], true);
    assert_eq!(text(&reply["result"], "result"), "Prompt is too long");
    assert_eq!(world.lines(&id, "result").await.len(), 1);
    assert_eq!(said(&world.messages(&id).await[0]).len(), prompt.len());
    // The CLI starts over, and the session works as before.
    world.rest.ask(&id, "/clear").await;
    assert_eq!(world.answer(&id, json!([{ "text": "fine" }])).await, "fine");
    assert_eq!(pid(&world.rest.session(&id).await), process);
}
