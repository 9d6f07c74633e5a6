//! Owns the tests of what a real CLI asks at its end: its last hook, in every kind of stop.

use serde_json::{Value, json};

use crate::{
    support::{
        rest::Rest,
        server::Server,
        wait::{PATIENCE, wait_until},
    },
    world::{World, bash, endless, marked, marker, text},
};

/// Hooks at the end of a session: one that is called, and one that needs nobody.
fn hooks(server: &Server) -> Value {
    let url = server.url("/end").uri().to_string();
    json!([
        { "event": "SessionEnd", "target": { "type": "webhook", "url": url } },
        { "event": "SessionEnd", "target": { "type": "fixed", "output": {} } },
    ])
}

async fn called(server: &mut Server) {
    let exchange = server.next().await;
    assert_eq!(exchange.header("trunkline-event"), Some("SessionEnd"));
    let ok = "200 OK\ncontent-type: application/json";
    exchange.answer(ok, "{}").await;
}

/// The last run's exit, when its first step was this, and the fixed hook had its answer.
async fn ended(rest: &Rest, id: &str, first: &str) -> Value {
    let runs = rest.get(&format!("/v1/sessions/{id}/runs")).await.expect(200);
    let exit = runs["items"][0]["exit"].clone();
    assert_eq!(exit["stop_steps"][0]["step"], first, "{exit:#}");
    assert_eq!(exit["killed"], false, "{exit:#}");
    let records = rest.events(id, 0).await;
    let asked = records
        .iter()
        .find(|it| it["src"] == "cli" && it["data"]["request"]["callback_id"] == "trunkline/1");
    let asked = &asked.unwrap()["data"]["request_id"];
    let answers = records
        .iter()
        .filter(|it| it["src"] == "client" && it["data"]["response"]["request_id"] == *asked);
    assert_eq!(answers.count(), 1);
    exit
}

#[tokio::test]
async fn an_idle_cli_asks_its_last_hook_at_a_stop_and_a_park() {
    let world = World::start().await;
    let mut server = Server::start().await;
    for verb in ["stop", "park"] {
        let id = world.session(json!({ "hooks": hooks(&server) })).await;
        world.answer(&id, json!([{ "text": "one" }])).await;
        let ending = world.rest.lifecycle(&id, verb, json!({}));
        let (reply, ()) = tokio::join!(ending, called(&mut server));
        reply.expect(200);
        let exit = ended(&world.rest, &id, "sigint").await;
        assert_eq!(exit["code"], 0, "{verb}: {exit:#}");
    }
}

#[tokio::test]
async fn an_idle_cli_asks_its_last_hook_at_a_delete() {
    let world = World::start().await;
    let mut server = Server::start().await;
    let id = world.session(json!({ "hooks": hooks(&server) })).await;
    world.answer(&id, json!([{ "text": "one" }])).await;
    let path = format!("/v1/sessions/{id}");
    let (reply, ()) = tokio::join!(world.rest.delete(&path), called(&mut server));
    assert!(reply.status.is_success(), "{:#}", reply.body);
}

#[tokio::test]
async fn an_idle_cli_asks_its_last_hook_at_the_daemons_end() {
    let mut world = World::start().await;
    let mut server = Server::start().await;
    let id = world.session(json!({ "hooks": hooks(&server) })).await;
    world.answer(&id, json!([{ "text": "one" }])).await;
    world.daemon.signal(nix::sys::signal::Signal::SIGTERM);
    called(&mut server).await;
    assert_eq!(world.daemon.ended().code(), Some(0));
    world.daemon.start().await;
    ended(&world.daemon.rest(), &id, "sigint").await;
}

#[tokio::test]
async fn a_busy_cli_asks_its_last_hook_and_hears_the_answer() {
    let world = World::start().await;
    let mut server = Server::start().await;
    let options = json!({ "hooks": hooks(&server), "allowed_tools": ["Bash"] });
    let id = world.session(options).await;
    let marker = marker();
    world.prompt(&id, json!([bash(&endless(&marker))])).await;
    world.made("started").await;
    let stop = world.rest.lifecycle(&id, "stop", json!({}));
    let (reply, ()) = tokio::join!(stop, called(&mut server));
    assert_eq!(text(&reply.expect(200), "state"), "stopped");
    ended(&world.rest, &id, "sigterm").await;
    wait_until("nothing of it is left", PATIENCE, || marked(&marker).is_empty()).await;
}

#[tokio::test]
async fn a_cli_with_background_work_asks_its_last_hook_too() {
    let world = World::start().await;
    let mut server = Server::start().await;
    let options = json!({ "hooks": hooks(&server), "allowed_tools": ["Bash"] });
    let id = world.session(options).await;
    let marker = marker();
    let input = json!({ "command": endless(&marker), "run_in_background": true });
    let steps = json!([{ "tool": "Bash", "input": input }, { "text": "under way" }]);
    assert_eq!(world.answer(&id, steps).await, "under way");
    wait_until("it runs", PATIENCE, || !marked(&marker).is_empty()).await;
    let view = world.idle_after(&id, 1).await;
    assert_eq!(view["background_tasks"], 1);
    let stop = world.rest.lifecycle(&id, "stop", json!({}));
    let (reply, ()) = tokio::join!(stop, called(&mut server));
    reply.expect(200);
    ended(&world.rest, &id, "sigterm").await;
}
