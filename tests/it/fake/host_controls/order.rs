//! Owns the order in which what clients send is written to the CLI, also while it waits.

use std::fs;

use serde_json::{Value, json};
use trunkline::domain::SessionId;

use super::{ask, open_gate, outcome, starting};
use crate::{
    fake::bed::{of_type, plain, records, session},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for},
        ws::Ws,
    },
};

/// Sends a prompt over the socket, and waits for nothing.
async fn say(client: &mut Ws, text: &str) -> String {
    let uuid = SessionId::new().to_string();
    let message = json!({ "role": "user", "content": text });
    let line = json!({ "type": "user", "message": message, "uuid": uuid });
    client.send(&line).await;
    uuid
}

/// The lines that clients had written to the CLI: the ids of prompts, and the models that were set.
async fn written(rest: &Rest, id: &str) -> Vec<String> {
    let records = records(rest, id).await;
    let of_clients = records.iter().filter(|record| record["src"] == "client");
    let text = |record: &Value| match record["data"]["type"].as_str()? {
        "user" => Some(record["data"]["uuid"].as_str()?.to_owned()),
        "control_request" if record["data"]["request"]["subtype"] == "interrupt" => {
            Some("interrupt".to_owned())
        }
        "control_request" => Some(record["data"]["request"]["model"].as_str()?.to_owned()),
        _ => None,
    };
    of_clients.filter_map(text).collect()
}

#[tokio::test]
async fn a_message_behind_a_change_of_the_model_runs_with_that_model() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = starting(&daemon, json!({})).await;
    let mut client = daemon.attach(&id, None).await;
    let before = say(&mut client, "before").await;
    let is_ack = |frame: &Value| frame["type"] == "trunkline.ack";
    client.find("the ack of the first prompt", is_ack).await;
    ask(
        &mut client,
        "1",
        json!({ "subtype": "set_model", "model": "one" }),
    )
    .await;
    let with_one = say(&mut client, "with one").await;
    ask(
        &mut client,
        "2",
        json!({ "subtype": "set_model", "model": "two" }),
    )
    .await;
    let with_two = say(&mut client, "with two").await;
    // It is meant for what was sent before it.
    ask(&mut client, "stop", json!({ "subtype": "interrupt" })).await;
    let after = say(&mut client, "after").await;
    // Lines of one client are taken in their order, so this has all of them taken.
    ask(&mut client, "no", json!({ "subtype": "end_session" })).await;
    outcome(&mut client, "no").await;
    assert_eq!(written(&rest, &id).await, [before.as_str()]);
    open_gate(&daemon);
    outcome(&mut client, "stop").await;
    wait_for("all are written", PATIENCE, async || {
        (written(&rest, &id).await.len() == 7).then_some(())
    })
    .await;
    assert_eq!(
        written(&rest, &id).await,
        [&before, "one", &with_one, "two", &with_two, "interrupt", &after]
    );
}

#[tokio::test]
async fn what_wakes_a_session_is_written_in_the_order_in_which_it_came() {
    let (daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    rest.lifecycle(&id, "park", json!({})).await.expect(200);
    let before = written(&rest, &id).await;
    let mut client = daemon.attach(&id, None).await;
    ask(
        &mut client,
        "1",
        json!({ "subtype": "set_model", "model": "one" }),
    )
    .await;
    let behind = say(&mut client, "behind").await;
    wait_for("the turn has ended", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["state"] == "idle" && view["turns"] == 2).then_some(())
    })
    .await;
    let written = written(&rest, &id).await;
    assert_eq!(written[before.len()..], ["one".to_owned(), behind]);
    let records = records(&rest, &id).await;
    let models = of_type(&records, "cli", "assistant");
    assert_eq!(models.last().unwrap()["message"]["model"], "one");
}

/// A message that waits until an interrupt is answered is not overtaken by what changes how it runs.
#[tokio::test]
async fn nothing_overtakes_a_message_that_waits_for_an_interrupt() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("answer");
    let settings = json!({ "controls": { "interrupt": { "wait_file": gate } } });
    let id = session(&daemon, "a", settings).await;
    let mut client = daemon.attach(&id, None).await;
    ask(&mut client, "stop", json!({ "subtype": "interrupt" })).await;
    let waits = say(&mut client, "waits").await;
    ask(
        &mut client,
        "1",
        json!({ "subtype": "set_model", "model": "one" }),
    )
    .await;
    // A request that only reads is not held up.
    ask(&mut client, "look", json!({ "subtype": "mcp_status" })).await;
    outcome(&mut client, "look").await;
    assert_eq!(written(&rest, &id).await, ["interrupt"]);
    fs::write(&gate, "").unwrap();
    outcome(&mut client, "1").await;
    assert_eq!(written(&rest, &id).await, ["interrupt", waits.as_str(), "one"]);
}
