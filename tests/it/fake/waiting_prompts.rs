//! Owns messages that wait in the daemon: given in their order once the session does nothing, and changed, held and taken back
//! until then.

use serde_json::{Value, json};
use trunkline::domain::RunId;

use crate::{
    fake::bed::{act, of_type, path, plain, records},
    support::{
        programs::fake_prompt,
        rest::Rest,
        wait::{PATIENCE, wait_for},
        ws::Ws,
    },
};

fn says(text: &str) -> String {
    fake_prompt(&json!([{ "text": text }]))
}

/// Queues a message; its id.
async fn queue(rest: &Rest, id: &str, text: &str, held: bool) -> String {
    let body = json!({ "text": says(text), "held": held });
    let queued = rest.post(&path(id, "prompts"), body).await.expect(201);
    assert_eq!(queued["text"], says(text));
    queued["uuid"].as_str().unwrap().to_owned()
}

async fn waiting(rest: &Rest, id: &str) -> Vec<Value> {
    let list = rest.get(&path(id, "prompts")).await.expect(200);
    list["items"].as_array().unwrap().clone()
}

/// Waits until the agent has answered so many times; the answers.
async fn answers(rest: &Rest, id: &str, count: usize) -> Vec<String> {
    wait_for(&format!("{count} answers"), PATIENCE, async || {
        let records = records(rest, id).await;
        let said = of_type(&records, "cli", "assistant").into_iter();
        let said = said.map(|line| {
            line["message"]["content"][0]["text"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        });
        let said: Vec<String> = said.collect();
        (said.len() >= count).then_some(said)
    })
    .await
}

#[tokio::test]
async fn messages_wait_for_their_turn_and_can_be_changed_until_then() {
    let (daemon, rest, id) = plain().await;
    let gate = daemon.home().join("gate");
    act(&rest, &id, json!([{ "text": "first" }, { "wait_file": gate }])).await;
    rest.in_turn(&id).await;
    let one = queue(&rest, &id, "one", false).await;
    let two = queue(&rest, &id, "two", false).await;
    let three = queue(&rest, &id, "three", true).await;
    let four = queue(&rest, &id, "four", false).await;
    let order: Vec<_> = waiting(&rest, &id)
        .await
        .iter()
        .map(|it| it["uuid"].clone())
        .collect();
    assert_eq!(order, [one.as_str(), &two, &three, &four]);
    assert_eq!(rest.session(&id).await["queued_prompts"], 4);

    rest.delete(&path(&id, &format!("prompts/{one}")))
        .await
        .expect(204);
    let edit = json!({ "text": says("second") });
    let changed = rest
        .patch(&path(&id, &format!("prompts/{two}")), edit)
        .await
        .expect(200);
    assert_eq!(changed["held"], false);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(answers(&rest, &id, 2).await, ["first", "second"]);

    // A message that was given is the CLI's. A held one holds those behind it.
    for reply in [
        rest.delete(&path(&id, &format!("prompts/{two}"))).await,
        rest.patch(&path(&id, &format!("prompts/{two}")), json!({ "held": true }))
            .await,
    ] {
        assert_eq!(reply.problem(409), "prompt_given");
    }
    let gone = rest.delete(&path(&id, &format!("prompts/{one}"))).await;
    assert_eq!(gone.problem(404), "prompt_not_found");
    let left: Vec<_> = waiting(&rest, &id)
        .await
        .iter()
        .map(|it| it["held"].clone())
        .collect();
    assert_eq!(left, [true, false]);
    let release = rest
        .patch(&path(&id, &format!("prompts/{three}")), json!({ "held": false }))
        .await;
    release.expect(200);
    assert_eq!(answers(&rest, &id, 4).await, ["first", "second", "three", "four"]);
    assert!(waiting(&rest, &id).await.is_empty());
}

#[tokio::test]
async fn messages_wait_over_the_death_of_the_daemon() {
    let (mut daemon, rest, id) = plain().await;
    let uuid = *RunId::new().as_uuid();
    let body = json!({ "text": says("late"), "held": true, "uuid": uuid });
    rest.post(&path(&id, "prompts"), body.clone()).await.expect(201);
    rest.post(&path(&id, "prompts"), body).await.expect(201);
    for (wrong, status, code) in [
        (json!({ "text": "other", "uuid": uuid }), 409, "prompt_conflict"),
        (json!({ "text": " " }), 422, "empty_prompt"),
        (json!({ "text": "a", "content": [] }), 422, "invalid_field"),
    ] {
        let refused = rest.post(&path(&id, "prompts"), wrong).await;
        assert_eq!(refused.problem(status), code);
    }
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let waits = waiting(&rest, &id).await;
    assert_eq!((waits.len(), &waits[0]["uuid"]), (1, &json!(uuid)));
    rest.patch(&path(&id, &format!("prompts/{uuid}")), json!({ "held": false }))
        .await
        .expect(200);
    assert_eq!(answers(&rest, &id, 1).await, ["late"]);
}

#[tokio::test]
async fn what_a_host_says_of_a_message_waits_with_it() {
    let (_daemon, rest, id) = plain().await;
    let pasted = json!(["a", [{ "type": "text", "text": "b" }]]);
    let about = json!({
        "text": says("one"), "held": true, "client_composed": true, "pasted_content": pasted, "inline_pastes": ["c"],
        "origin": { "kind": "human" },
    });
    let mut uuids = Vec::new();
    for _ in 0..2 {
        let queued = rest.post(&path(&id, "prompts"), about.clone()).await.expect(201);
        for member in ["client_composed", "pasted_content", "inline_pastes", "origin"] {
            assert_eq!(queued[member], about[member], "{queued:#}");
        }
        uuids.push(queued["uuid"].as_str().unwrap().to_owned());
    }
    for wrong in [json!({ "origin": [] }), json!({ "pasted_content": {} })] {
        let mut body = wrong;
        body["text"] = json!("x");
        assert_eq!(
            rest.post(&path(&id, "prompts"), body).await.problem(422),
            "invalid_field"
        );
    }
    let route = |uuid: &String| path(&id, &format!("prompts/{uuid}"));
    let changed = json!({ "text": says("two"), "held": false });
    rest.patch(&route(&uuids[0]), json!({ "held": false }))
        .await
        .expect(200);
    rest.patch(&route(&uuids[1]), changed).await.expect(200);
    assert_eq!(answers(&rest, &id, 2).await, ["one", "two"]);
    let records = records(&rest, &id).await;
    let said = of_type(&records, "client", "user");
    for member in ["client_composed", "pasted_content", "inline_pastes", "origin"] {
        assert_eq!(said[0][member], about[member], "{said:#?}");
    }
    // Where it comes from stays; what was pasted stood in the words that are gone.
    assert_eq!(said[1]["origin"], about["origin"]);
    assert_eq!(said[1]["client_composed"], true);
    assert_eq!(
        (&said[1]["pasted_content"], &said[1]["inline_pastes"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn every_client_is_told_of_the_messages_that_wait() {
    let (daemon, rest, id) = plain().await;
    let gate = daemon.home().join("gate");
    act(&rest, &id, json!([{ "text": "first" }, { "wait_file": gate }])).await;
    rest.in_turn(&id).await;
    let mut one = daemon.attach(&id, None).await;
    let snapshot = one.next().await;
    assert_eq!(snapshot["queue"], json!([]), "{snapshot:#}");
    let mut many = Ws::try_connect(daemon.url(), "/v1/ws", &["trunkline.v1"], Some(daemon.token()))
        .await
        .unwrap();
    many.send(&json!({"type": "trunkline.subscribe", "session_id": id}))
        .await;
    many.find("the snapshot", |frame| frame["queue"] == json!([]))
        .await;

    let first = queue(&rest, &id, "one", false).await;
    let second = queue(&rest, &id, "two", true).await;
    let change = async |body: Value| {
        let path = path(&id, &format!("prompts/{first}"));
        rest.patch(&path, body).await
    };
    change(json!({ "text": says("changed") })).await.expect(200);
    change(json!({ "held": true })).await.expect(200);
    let third = queue(&rest, &id, "three", false).await;
    rest.delete(&path(&id, &format!("prompts/{third}")))
        .await
        .expect(204);
    change(json!({ "held": false })).await.expect(200);
    std::fs::write(&gate, "").unwrap();
    let told = [
        json!([[first, says("one"), false]]),
        json!([[first, says("one"), false], [second, says("two"), true]]),
        json!([[first, says("changed"), false], [second, says("two"), true]]),
        json!([[first, says("changed"), true], [second, says("two"), true]]),
        json!([
            [first, says("changed"), true],
            [second, says("two"), true],
            [third, says("three"), false]
        ]),
        json!([[first, says("changed"), true], [second, says("two"), true]]),
        json!([[first, says("changed"), false], [second, says("two"), true]]),
        // It was given to the agent.
        json!([[second, says("two"), true]]),
    ];
    for client in [&mut one, &mut many] {
        for expected in &told {
            let is_told = |frame: &Value| frame["type"] == "trunkline.queue";
            let frame = client.find("the queue", is_told).await;
            let queue = frame["queue"].as_array().unwrap();
            let queue = queue.iter().map(|it| json!([it["uuid"], it["text"], it["held"]]));
            assert_eq!(&queue.collect::<Value>(), expected, "{frame:#}");
        }
    }

    // A long one is shortened, as are those behind it; who comes now sees the same.
    for letter in ["a", "b"] {
        let body = json!({ "text": letter.repeat(50_000), "held": true });
        rest.post(&path(&id, "prompts"), body).await.expect(201);
    }
    let is_long = |frame: &Value| frame["type"] == "trunkline.queue" && frame["queue"][2].is_object();
    let frame = one.find("both", is_long).await;
    let snapshot = daemon.attach(&id, None).await.next().await;
    for queue in [&frame["queue"], &snapshot["queue"]] {
        let sizes = [1, 2].map(|at| queue[at]["text"].as_str().unwrap().len());
        assert_eq!(sizes, [50_000, 1024]);
        assert_eq!(
            (&queue[1]["truncated"], &queue[2]["truncated"]),
            (&json!(false), &json!(true))
        );
    }
    let whole = waiting(&rest, &id).await.pop().unwrap();
    assert_eq!(whole["text"].as_str().unwrap().len(), 50_000);
}
