//! Owns the tests of who registered what: hooks of several clients, and those of the launch options.

use super::*;

#[tokio::test]
async fn hooks_of_all_clients_are_registered_together() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options = json!({ "hooks": [hook_of("x", json!({}))] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut clients = [
        daemon.attach_as("x", &id, None).await,
        daemon.attach_as("y", &id, None).await,
    ];
    let initialize = |hooks: Value| json!({ "type": "control_request", "request_id": "same", "request": { "subtype": "initialize", "hooks": hooks } });
    // Without waiting: neither is in the journal when the other comes.
    for (client, matcher) in clients.iter_mut().zip(["Edit", "Write"]) {
        let hooks = json!({ "PreToolUse": [{ "matcher": matcher, "hookCallbackIds": ["hook_0"], "onFailure": "block" }] });
        client.send(&initialize(hooks)).await;
    }
    for client in &mut clients {
        let answer = client
            .until("the answer", |frame| frame["type"] == "control_response")
            .await;
        let answer = &answer.last().unwrap()["response"];
        assert_eq!(answer["request_id"], "same");
        assert!(answer["response"]["commands"].is_array(), "{answer:#}");
    }
    let registered = async || {
        let records = records(&rest, &id).await;
        let requests = of_type(&records, "client", "control_request");
        requests.last().unwrap()["request"]["hooks"].clone()
    };
    let hooks = registered().await;
    let mut ids: Vec<_> = hooks["PreToolUse"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["hookCallbackIds"][0].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["trunkline/0", "x/hook_0", "y/hook_0"], "{hooks:#}");
    act(
        &rest,
        &id,
        json!([callback("h-1", "y/hook_0"), { "text": "done" }]),
    )
    .await;
    let [x, y] = &mut clients;
    asked(x, "h-1").await;
    x.send(&answer("h-1", json!({}))).await;
    assert_eq!(error_code(x).await, "request_not_owned");
    y.send(&answer("h-1", json!({}))).await;
    acked(y, "h-1").await;
    // New hooks of a client replace its own, and no others.
    x.send(&initialize(
        json!({ "Stop": [{ "hookCallbackIds": ["s"], "timeout": 1.5 }] }),
    ))
    .await;
    x.until("the answer", |frame| frame["type"] == "control_response")
        .await;
    let hooks = registered().await;
    let ids: Vec<_> = hooks["PreToolUse"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["hookCallbackIds"][0])
        .collect();
    assert_eq!(ids, ["trunkline/0", "y/hook_0"], "{hooks:#}");
    assert_eq!(
        hooks["Stop"],
        json!([{ "hookCallbackIds": ["x/s"], "timeout": 1.5 }])
    );
    // A value that is no map of hooks is not given to the CLI.
    x.send(&initialize(json!([1]))).await;
    assert_eq!(error_code(x).await, "invalid_line");
    let refused = rest
        .post(
            &path(&id, "control"),
            json!({ "subtype": "initialize", "hooks": { "Stop": [] } }),
        )
        .await;
    assert_eq!(refused.body["code"], "control_not_allowed", "{:#}", refused.body);
}

#[tokio::test]
async fn hooks_and_servers_of_the_options_are_registered_at_every_start() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options = json!({
        "hooks": [hook_of("x", json!({ "timeout_ms": 30_000 }))],
        "sdk_mcp_servers": { "calc": { "target": { "type": "client", "client_id": "x" } } },
    });
    let id = session_with(&daemon, "a", json!({}), options).await;
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    let fork = rest.lifecycle(&id, "fork", json!({})).await.expect(201)["id"].clone();
    for session in [id.as_str(), fork.as_str().unwrap()] {
        rest.in_state(session, &["idle"]).await;
        let mut client = daemon.attach_as("x", session, None).await;
        act(
            &rest,
            session,
            json!([message("m-1", "calc", call(1)), callback("h-1", "trunkline/0"), { "text": "done" }]),
        )
        .await;
        asked(&mut client, "h-1").await;
        for (request, payload) in [("h-1", json!({})), ("m-1", result_of(1, "three"))] {
            client.send(&answer(request, payload)).await;
            acked(&mut client, request).await;
        }
        rest.in_state(session, &["idle"]).await;
        let records = records(&rest, session).await;
        let requests = of_type(&records, "client", "control_request");
        let last = requests
            .iter()
            .rfind(|line| line["request"]["subtype"] == "initialize")
            .unwrap();
        assert_eq!(last["request"]["hooks"]["PreToolUse"][0]["timeout"], 30);
        assert_eq!(last["request"]["sdkMcpServers"], json!(["calc"]));
    }
}

fn initialize(id: &str, hooks: &Value) -> Value {
    let request = json!({ "subtype": "initialize", "hooks": hooks, "appendSystemPrompt": "be brief" });
    json!({ "type": "control_request", "request_id": id, "request": request })
}

async fn initialized(client: &mut Ws, id: &str) -> Value {
    let wanted = |frame: &Value| frame["type"] == "control_response" && frame["response"]["request_id"] == id;
    client.find("the answer to initialize", wanted).await["response"].take()
}

/// The records of the `initialize` requests that were written to the CLI.
async fn initializes(rest: &Rest, session: &str) -> Vec<Value> {
    let mut records = records(rest, session).await;
    records
        .retain(|record| record["src"] == "client" && record["data"]["request"]["subtype"] == "initialize");
    records
}

/// Every SDK registers first thing, also when it comes back.
#[tokio::test]
async fn the_same_hooks_once_more_ask_the_cli_nothing() {
    let (daemon, rest, id) = plain().await;
    let hooks = json!({
        "Stop": [{ "hookCallbackIds": ["s"] }],
        "PreToolUse": [{ "matcher": "Bash", "hookCallbackIds": ["p"], "timeout": 600 }],
    });
    let mut client = daemon.attach_as("x", &id, None).await;
    client.send(&initialize("1", &hooks)).await;
    let first = initialized(&mut client, "1").await;
    assert_eq!(initializes(&rest, &id).await.len(), 2);
    act(&rest, &id, json!([callback("h-1", "x/p"), { "text": "done" }])).await;
    asked(&mut client, "h-1").await;
    drop(client);
    let mut again = daemon.attach_as("x", &id, None).await;
    again.send(&initialize("2", &hooks)).await;
    let second = initialized(&mut again, "2").await;
    assert_eq!(second["response"], first["response"], "{second:#}");
    assert_eq!(second["pending_permission_requests"], json!([]));
    assert_eq!(initializes(&rest, &id).await.len(), 2, "the CLI was not asked");
    again.send(&answer("h-1", json!({}))).await;
    acked(&mut again, "h-1").await;
    rest.in_state(&id, &["idle"]).await;
    again
        .send(&initialize(
            "3",
            &json!({ "Stop": [{ "hookCallbackIds": ["s"] }] }),
        ))
        .await;
    initialized(&mut again, "3").await;
    assert_eq!(initializes(&rest, &id).await.len(), 3, "these are others");
}

/// New hooks would end all that are open.
#[tokio::test]
async fn new_hooks_wait_until_no_hook_is_open() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options = json!({ "hooks": [hook_of("x", json!({}))] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut owner = daemon.attach_as("x", &id, None).await;
    let mut other = daemon.attach_as("y", &id, None).await;
    act(
        &rest,
        &id,
        json!([callback("h-1", "trunkline/0"), { "text": "done" }]),
    )
    .await;
    asked(&mut owner, "h-1").await;
    let hooks = json!({ "Stop": [{ "hookCallbackIds": ["s"] }] });
    other.send(&initialize("1", &hooks)).await;
    // It was looked at by the time that a later request is answered.
    other
        .send(
            &json!({ "type": "control_request", "request_id": "2", "request": { "subtype": "mcp_status" } }),
        )
        .await;
    let status = |frame: &Value| frame["response"]["request_id"] == "2";
    other.find("the answer to what may overtake it", status).await;
    assert_eq!(initializes(&rest, &id).await.len(), 1);
    owner.send(&answer("h-1", json!({}))).await;
    acked(&mut owner, "h-1").await;
    initialized(&mut other, "1").await;
    let answered = written(&rest, &id, "h-1").await[0]["seq"].as_u64();
    let registered = initializes(&rest, &id).await.pop().unwrap();
    assert!(registered["seq"].as_u64() > answered, "{registered:#}");
    assert_eq!(registered["by"], "ws:y");
}

/// One client that takes its time delays nobody but those who register.
#[tokio::test]
async fn new_hooks_that_wait_hold_nobody_else_up() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options = json!({ "hooks": [hook_of("x", json!({}))] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut owner = daemon.attach_as("x", &id, None).await;
    let mut other = daemon.attach_as("y", &id, None).await;
    let actions = json!([callback("h-1", "trunkline/0"), { "text": "done" }]);
    act(&rest, &id, actions).await;
    asked(&mut owner, "h-1").await;
    let hooks = |event: &str| json!({ event: [{ "hookCallbackIds": ["s"] }] });
    other.send(&initialize("1", &hooks("Stop"))).await;
    other.send(&initialize("2", &hooks("SessionEnd"))).await;
    // It was looked at by the time that a later message is taken.
    let message = json!({ "role": "user", "content": "of the same client" });
    other.send(&json!({ "type": "user", "message": message })).await;
    other
        .find("the receipt", |frame| frame["type"] == "trunkline.ack")
        .await;
    rest.prompt(&id, "of another").await;
    let model = json!({ "subtype": "set_model", "model": "m" });
    rest.post(&path(&id, "control"), model).await.expect(200);
    assert_eq!(initializes(&rest, &id).await.len(), 1);
    owner.send(&answer("h-1", json!({}))).await;
    acked(&mut owner, "h-1").await;
    initialized(&mut other, "1").await;
    initialized(&mut other, "2").await;
    let registered = initializes(&rest, &id).await;
    let events: Vec<_> = registered[1..]
        .iter()
        .map(|record| record["data"]["request"]["hooks"].get("SessionEnd").is_some())
        .collect();
    assert_eq!(events, [false, true], "{registered:#?}");
}

/// A client that is away for good costs the wait once, and no park.
#[tokio::test]
async fn a_client_that_left_for_good_is_waited_for_once() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_RETURN_GRACE_MS", "4000")
        .start()
        .await;
    let rest = daemon.rest();
    let id = session_with(&daemon, "a", json!({}), json!({})).await;
    let hooks = json!({ "PreToolUse": [{ "hookCallbackIds": ["p"], "onFailure": "block" }] });
    let mut client = daemon.attach_as("x", &id, None).await;
    client.send(&initialize("1", &hooks)).await;
    initialized(&mut client, "1").await;
    drop(client);
    let mut actions: Vec<_> = (1..=5).map(|n| callback(&format!("h-{n}"), "x/p")).collect();
    actions.push(json!({ "text": "done" }));
    act_through(&rest, &id, json!(actions)).await;
    let records = records(&rest, &id).await;
    let of = |source: &str, id: &str| {
        let is_it = |record: &&Value| {
            let data = &record["data"];
            record["src"] == source && (data["request_id"] == id || data["response"]["request_id"] == id)
        };
        records.iter().find(is_it).unwrap()
    };
    for n in 2..=5 {
        let id = format!("h-{n}");
        let waited = between(of("cli", &id), of("client", &id));
        assert!(waited < 3_000, "{id}: {waited} ms");
        let given = &of("client", &id)["data"]["response"]["response"];
        assert_eq!(given["hookSpecificOutput"]["permissionDecision"], "deny");
    }
    rest.lifecycle(&id, "park", json!({})).await.expect(200);
}

/// A client without a name cannot come back: what it registered is over with it.
#[tokio::test]
async fn the_callbacks_of_a_client_without_a_name_end_with_it() {
    let (daemon, rest, id) = plain().await;
    let hooks = json!({ "PreToolUse": [{ "hookCallbackIds": ["p"], "onFailure": "block" }] });
    let mut client = daemon.attach(&id, None).await;
    let name = client.next().await["client_id"].as_str().unwrap().to_owned();
    client.send(&initialize("1", &hooks)).await;
    initialized(&mut client, "1").await;
    let refused = rest.lifecycle(&id, "park", json!({})).await;
    assert_eq!(refused.body["obstacle"], "client_callbacks", "{:#}", refused.body);
    drop(client);
    let mut asks = 0;
    // A request from before it was gone is refused, as it registered.
    wait_for("its callbacks have no opinion", PATIENCE, async || {
        asks += 1;
        let request = format!("h-{asks}");
        let actions = json!([callback(&request, &format!("{name}/p")), { "text": "done" }]);
        act_through(&rest, &id, actions).await;
        assert_eq!(reason(&rest, &id, &request).await, "no_client");
        let written = written(&rest, &id, &request).await;
        (written[0]["data"]["response"]["response"] == json!({})).then_some(())
    })
    .await;
    rest.lifecycle(&id, "park", json!({})).await.expect(200);
}
