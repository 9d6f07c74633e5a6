//! Owns the tests of webhooks for people's programs: what they are told, how it is signed, and that it comes whatever happens.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use hmac::{Hmac, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::{
    fake::bed::{act, act_through, body, session, session_with},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        server::{Exchange, Server},
        wait::{PATIENCE, wait_for},
    },
};

/// A webhook that was made: its id and its secret.
async fn made(rest: &Rest, mut request: Value, server: &Server) -> (String, String) {
    request["url"] = json!(server.url("/told?key=PLANTED-QUERY"));
    let made = rest.post("/v1/webhooks", request).await.expect(201);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&made["webhook"]["id"]), text(&made["secret"]))
}

async fn view(rest: &Rest, id: &str) -> Value {
    rest.get(&format!("/v1/webhooks/{id}")).await.expect(200)
}

async fn until(rest: &Rest, id: &str, what: &str, holds: impl Fn(&Value) -> bool + Send + Sync) -> Value {
    wait_for(what, PATIENCE, async || {
        let view = view(rest, id).await;
        holds(&view).then_some(view)
    })
    .await
}

fn told(exchange: &Exchange) -> Value {
    serde_json::from_str(&exchange.body).unwrap()
}

fn assert_signed(exchange: &Exchange, secret: &str) {
    let key = BASE64_STANDARD
        .decode(secret.strip_prefix("whsec_").unwrap())
        .unwrap();
    let header = |name: &str| exchange.header(name).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(
        format!(
            "{}.{}.{}",
            header("webhook-id"),
            header("webhook-timestamp"),
            exchange.body
        )
        .as_bytes(),
    );
    let expected = format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!(header("webhook-signature"), expected);
}

/// Takes the next event, with success.
async fn take(server: &mut Server) -> (Value, Option<String>) {
    let exchange = server.next().await;
    let (told, id) = (told(&exchange), exchange.header("webhook-id").map(str::to_owned));
    exchange.answer("204 No Content", "").await;
    (told, id)
}

#[tokio::test]
async fn programs_are_told_signed_and_without_a_word_of_what_is_said() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (mut quiet, mut open) = (Server::start().await, Server::start().await);
    let (id, secret) = made(&rest, json!({ "filter": { "tag": "told" } }), &quiet).await;
    let content =
        json!({ "content": true, "events": ["turn_ended", "approval_opened"], "filter": { "label": "a=b" } });
    let (_, open_secret) = made(&rest, content, &open).await;
    // Somebody else's session is told of to nobody.
    let other = session(&daemon, "other", json!({})).await;
    act_through(&rest, &other, json!([])).await;

    let mut mine = body(&daemon, "PLANTED-DIRECTORY", json!({ "cost": 0.25 }), json!({}));
    mine["tag"] = json!("told");
    mine["labels"] = json!({ "a": "b" });
    mine["title"] = json!("PLANTED-TITLE");
    let mine = rest.create_ready(mine).await;
    act(
        &rest,
        &mine,
        json!([{ "ask": { "tool": "Bash", "input": { "command": "PLANTED-COMMAND" } } }]),
    )
    .await;
    let approval = rest.pending_approval(&mine).await;
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let exchange = quiet.next().await;
        assert_signed(&exchange, &secret);
        assert!(!exchange.body.contains("PLANTED"), "{}", exchange.body);
        assert!(!exchange.body.contains("Bash"), "{}", exchange.body);
        let told = told(&exchange);
        assert_eq!(exchange.header("trunkline-event"), told["type"].as_str());
        assert_eq!(told["data"]["session_id"], json!(mine));
        assert_eq!(told["data"]["approval_id"], approval["id"], "{told:#}");
        assert!(told["data"].get("content").is_none(), "{told:#}");
        kinds.push(told["type"].as_str().unwrap().to_owned());
        exchange.answer("200 OK", "whatever").await;
    }
    kinds.sort();
    assert_eq!(kinds, ["approval_opened", "needs_attention"]);
    let exchange = open.next().await;
    assert_signed(&exchange, &open_secret);
    let content = told(&exchange)["data"]["content"].clone();
    assert_eq!(content["title"], "PLANTED-TITLE");
    assert_eq!(content["request"]["input"]["command"], "PLANTED-COMMAND");
    exchange.answer("200 OK", "").await;

    let approval = approval["id"].as_str().unwrap();
    rest.decide(&mine, approval, json!({ "decision": "deny" }))
        .await
        .expect(200);
    let (ended, _) = take(&mut quiet).await;
    assert_eq!(ended["type"], "turn_ended");
    let turn = &rest.turns(&mine).await[0];
    assert_eq!(ended["data"]["turn"], turn["number"]);
    assert_eq!(ended["data"]["cost_usd"], 0.25);
    assert_eq!(ended["data"]["outcome"], "success");
    let (ended, _) = take(&mut open).await;
    let prompt = ended["data"]["content"]["prompt"].as_str().unwrap();
    assert!(prompt.starts_with("FAKE:"), "{ended:#}");

    let view = until(&rest, &id, "all is delivered", |view| view["delivered"] == 3).await;
    assert_eq!((&view["pending"], &view["last_status"]), (&json!(0), &json!(204)));
    let list = rest.get("/v1/webhooks").await.expect(200).to_string();
    for hidden in [&secret, &open_secret, "PLANTED-QUERY"] {
        assert!(!list.contains(hidden), "{list}");
        assert!(!daemon.log().contains(hidden));
    }
    // A viewer sees none of it.
    let viewer = rest.with_token(Some(&daemon.viewer_token()));
    for path in ["/v1/webhooks", &format!("/v1/webhooks/{id}")] {
        assert_eq!(viewer.get(path).await.problem(403), "role_forbidden");
    }
}

#[tokio::test]
async fn an_event_outlives_the_daemon() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let mut server = Server::start().await;
    let (id, secret) = made(&daemon.rest(), json!({ "events": ["turn_ended"] }), &server).await;
    let mine = session(&daemon, "a", json!({})).await;
    act_through(&daemon.rest(), &mine, json!([])).await;
    // It has come, and no answer goes back before the daemon is dead.
    let first = server.next().await;
    daemon.kill();
    daemon.start().await;
    let again = server.next().await;
    assert_signed(&again, &secret);
    assert_eq!(again.header("webhook-id"), first.header("webhook-id"));
    assert_eq!(again.body, first.body);
    again.answer("200 OK", "").await;
    let rest = daemon.rest();
    let view = until(&rest, &id, "it is delivered", |view| view["pending"] == 0).await;
    assert_eq!((&view["delivered"], &view["dropped"]), (&json!(1), &json!(0)));
    // The turn of a parked session that wakes is told of too, once.
    rest.lifecycle(&mine, "park", json!({})).await.expect(200);
    act_through(&rest, &mine, json!([])).await;
    let (woken, _) = take(&mut server).await;
    assert_eq!(woken["data"]["turn"], 2);
    until(&rest, &id, "it is delivered", |view| view["delivered"] == 2).await;
    assert!(server.is_quiet());
}

#[tokio::test]
async fn a_program_that_fails_is_told_again_and_one_that_is_gone_is_not() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut server = Server::start().await;
    let (id, secret) = made(&rest, json!({ "events": ["turn_ended"] }), &server).await;
    let mine = session(&daemon, "a", json!({})).await;
    act_through(&rest, &mine, json!([])).await;
    let first = server.next().await;
    let message = first.header("webhook-id").unwrap().to_owned();
    first.answer("500 Internal Server Error", "PLANTED").await;
    let view = until(&rest, &id, "the failure shows", |view| view["last_status"] == 500).await;
    assert_eq!(view["pending"], 1, "{view:#}");
    assert!(!view["last_error"].as_str().unwrap().contains("PLANTED"));
    let again = server.next().await;
    assert_eq!(again.header("webhook-id"), Some(message.as_str()));
    assert_eq!(again.header("trunkline-attempt"), Some("2"));
    assert_signed(&again, &secret);
    again.answer("200 OK", "").await;
    until(&rest, &id, "it is delivered", |view| view["delivered"] == 1).await;

    act_through(&rest, &mine, json!([])).await;
    server.next().await.answer("410 Gone", "").await;
    let gone = until(&rest, &id, "it is disabled", |view| view["enabled"] == false).await;
    assert_eq!((&gone["dropped"], &gone["pending"]), (&json!(1), &json!(0)));
    act_through(&rest, &mine, json!([])).await;
    // A list waits for what is being stored.
    assert_eq!(rest.turns(&mine).await.len(), 3);
    assert!(server.is_quiet());
    let back = rest
        .patch(&format!("/v1/webhooks/{id}"), json!({ "enabled": true }))
        .await
        .expect(200);
    assert_eq!(back["events"], json!(["turn_ended"]));
    act_through(&rest, &mine, json!([])).await;
    assert_eq!(take(&mut server).await.0["data"]["turn"], 4);
    let metrics = rest.get("/metrics").await.body.as_str().unwrap().to_owned();
    for line in [
        r#"trunkline_webhook_attempts_total{event="turn_ended",outcome="failed"} 1"#,
        r#"trunkline_webhook_attempts_total{event="turn_ended",outcome="gone"} 1"#,
        "trunkline_webhook_deliveries_dropped_total 1",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
}

#[tokio::test]
async fn a_program_that_hangs_or_answers_for_ever_holds_up_nobody() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (mut hangs, mut streams) = (Server::start().await, Server::start().await);
    made(&rest, json!({ "events": ["turn_ended"] }), &hangs).await;
    let (id, _) = made(&rest, json!({ "events": ["turn_ended"] }), &streams).await;
    let mine = session(&daemon, "a", json!({})).await;
    act_through(&rest, &mine, json!([])).await;
    let held = hangs.next().await;
    let mut endless = streams.next().await;
    endless.begin_events().await;
    until(&rest, &id, "the head of the answer counts", |view| {
        view["delivered"] == 1
    })
    .await;
    endless.gone().await;
    for turn in 2..5 {
        act_through(&rest, &mine, json!([])).await;
        assert_eq!(take(&mut streams).await.0["data"]["turn"], turn);
    }
    assert!(hangs.is_quiet(), "one at a time");
    drop(held);
}

#[tokio::test]
async fn the_budget_is_told_of_and_a_redirect_is_not_followed() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (mut server, mut elsewhere) = (Server::start().await, Server::start().await);
    let events = json!({ "events": ["budget_spent", "session_failed"] });
    let (id, _) = made(&rest, events, &server).await;
    let mine = session_with(
        &daemon,
        "a",
        json!({ "cost": 0.02 }),
        json!({ "max_budget_usd": 0.03 }),
    )
    .await;
    for _ in 0..2 {
        act_through(&rest, &mine, json!([])).await;
    }
    let exchange = server.next().await;
    let told = told(&exchange);
    assert_eq!(told["type"], "budget_spent");
    assert_eq!(
        (&told["data"]["limit_usd"], &told["data"]["cost_usd"]),
        (&json!(0.03), &json!(0.04))
    );
    let away = format!("302 Found\nlocation: {}", elsewhere.url("/"));
    exchange.answer(&away, "").await;
    until(&rest, &id, "it is no success", |view| view["last_status"] == 302).await;
    assert_eq!(take(&mut server).await.0["type"], "budget_spent");
    assert!(elsewhere.is_quiet());
    // A failure is told by its code alone: the detail holds what the CLI printed.
    let pid = crate::fake::bed::pid(&rest, &mine).await;
    crate::support::proc::signal(pid, nix::sys::signal::Signal::SIGKILL);
    let (failed, _) = take(&mut server).await;
    assert_eq!(
        (&failed["type"], &failed["data"]["state"]),
        (&json!("session_failed"), &json!("failed"))
    );
    assert_eq!(
        failed["data"]["reason"],
        rest.session(&mine).await["reason"]["code"]
    );
}

#[tokio::test]
async fn a_session_that_goes_silent_is_told_of_once() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_LIVENESS_AFTER_MS", "1000")
        .env("TRUNKLINE_LIVENESS_ACTION", "report")
        .start()
        .await;
    let rest = daemon.rest();
    let mut server = Server::start().await;
    made(&rest, json!({ "events": ["needs_attention"] }), &server).await;
    let mine = session(&daemon, "a", json!({})).await;
    act(&rest, &mine, json!([{ "silent": 1 }])).await;
    let (told, _) = take(&mut server).await;
    assert_eq!(told["data"]["reason"], "silent", "{told:#}");
    assert_eq!(told["data"]["session_id"], json!(mine));
}

#[tokio::test]
async fn webhooks_of_the_configuration_are_told_and_changed_there_alone() {
    let mut server = Server::start().await;
    let secret = "whsec_Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZQ==";
    let receivers = format!(
        "[{{ name = \"ops\", url = \"{}\", secret = \"{secret}\", events = [\"turn_ended\"] }}]",
        server.url("/").uri()
    );
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_WEBHOOKS_RECEIVERS", receivers)
        .start()
        .await;
    let rest = daemon.rest();
    let list = rest.get("/v1/webhooks").await.expect(200);
    let ops = &list["items"][0];
    assert_eq!((&ops["name"], &ops["enabled"]), (&json!("ops"), &json!(true)));
    let path = format!("/v1/webhooks/{}", ops["id"].as_str().unwrap());
    let change = json!({ "enabled": false });
    assert_eq!(rest.patch(&path, change).await.problem(409), "webhook_configured");
    assert_eq!(rest.delete(&path).await.problem(409), "webhook_configured");
    let test = format!("{path}/test");
    let (tested, ()) = tokio::join!(rest.post(&test, json!({})), async {
        let exchange = server.next().await;
        assert_signed(&exchange, secret);
        assert_eq!(told(&exchange)["type"], "test");
        exchange.answer("403 Forbidden", "").await;
    });
    let tested = tested.expect(200);
    assert_eq!(
        (&tested["delivered"], &tested["status"]),
        (&json!(false), &json!(403))
    );
    let shown = rest.get("/v1/daemon/configuration").await.expect(200).to_string();
    assert!(
        shown.contains("webhooks.receivers") && !shown.contains(secret),
        "{shown}"
    );
    // It is the same one after a restart.
    daemon.stop();
    daemon.start().await;
    let mine = session(&daemon, "a", json!({})).await;
    act_through(&daemon.rest(), &mine, json!([])).await;
    assert_eq!(take(&mut server).await.0["type"], "turn_ended");
    let again = daemon.rest().get("/v1/webhooks").await.expect(200);
    assert_eq!(again["items"][0]["id"], ops["id"]);
}

#[tokio::test]
async fn what_no_webhook_can_be_is_refused_by_its_field() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    for (request, field) in [
        (json!({ "url": "ftp://x/" }), "url"),
        (json!({ "url": "http://user:PLANTED@x/" }), "url"),
        (json!({ "url": "http://x/", "secret": "PLANTED" }), "secret"),
        (json!({ "url": "http://x/", "events": ["other"] }), "events[0]"),
        (
            json!({ "url": "http://x/", "filter": { "label": "x" } }),
            "filter",
        ),
        (
            json!({ "url": "http://x/", "filter": { "needs": 1 } }),
            "filter.needs",
        ),
        (json!({}), "url"),
    ] {
        let reply = rest.post("/v1/webhooks", request.clone()).await;
        assert!(!reply.body.to_string().contains("PLANTED"), "{:#}", reply.body);
        let body = reply.expect(422);
        assert_eq!(body["code"], "invalid_field", "{request}");
        if request.get("url").is_some() {
            assert_eq!(body["field"], field, "{request}");
        }
    }
    let none = "/v1/webhooks/019b7a3e-7c11-7f60-8d2a-6f5d1d0c2a10";
    assert_eq!(rest.get(none).await.problem(404), "webhook_not_found");
    for _ in 0..32 {
        rest.post("/v1/webhooks", json!({ "url": "http://127.0.0.1:9/" }))
            .await
            .expect(201);
    }
    let more = rest
        .post("/v1/webhooks", json!({ "url": "http://127.0.0.1:9/" }))
        .await;
    assert_eq!(more.problem(409), "too_many_webhooks");
}
