//! Owns the socket that makes a session for its connection.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Error;

use crate::{
    api::common::problem,
    support::{
        daemon::TestDaemon,
        lines::{LineSocket, auth_line},
        programs::fake_prompt,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

fn user(text: &str) -> Value {
    json!({ "type": "user", "message": { "role": "user", "content": [{ "type": "text", "text": text }] },
            "parent_tool_use_id": null, "session_id": "" })
}

async fn sessions(rest: &Rest) -> Vec<Value> {
    let page = rest.get("/v1/sessions").await.expect(200);
    page["items"].as_array().unwrap().clone()
}

async fn in_state(rest: &Rest, id: &str, state: &str) -> Value {
    wait_for(&format!("the session is {state}"), PATIENCE, async || {
        Some(rest.session(id).await).filter(|view| view["state"] == state)
    })
    .await
}

/// Opens the socket with the token in a header.
async fn open(daemon: &TestDaemon, query: &str) -> LineSocket {
    let bearer = format!("Bearer {}", daemon.token());
    let path = format!("/v1/connect?{query}");
    LineSocket::open(daemon, &path, &[("authorization", &bearer)])
        .await
        .unwrap()
}

async fn refused(daemon: &TestDaemon, path: &str, headers: &[(&'static str, &str)]) -> (u16, String) {
    match LineSocket::open(daemon, path, headers).await {
        Err(Error::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            (
                response.status().as_u16(),
                String::from_utf8_lossy(body).into_owned(),
            )
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_session_is_made_for_the_connection_and_its_process_begins_with_the_clients_word() {
    let daemon = TestDaemon::with_fake()
        .env(
            "TRUNKLINE_SESSIONS_PROFILES",
            "{careful = {permission_mode = \"plan\", model = \"haiku\", betas = [\"a-beta\"]}}",
        )
        .start()
        .await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w").display().to_string();
    let path =
        format!("/v1/connect?cwd={cwd}&profile=careful&model=opus&max_turns=7&on_close=stop&title=Mine");
    let mut client = LineSocket::open(&daemon, &path, &[]).await.unwrap();
    assert_eq!(sessions(&rest).await, Vec::<Value>::new(), "before the token");
    client.send(&auth_line(daemon.token())).await;
    let hooks = json!({"Stop": [{"hookCallbackIds": ["hook_0"]}]});
    let request = json!({"subtype": "initialize", "hooks": hooks, "systemPrompt": ["Be brief."]});
    let answer = client.control("first", request).await;
    assert_eq!(answer["response"]["response"]["claude_code_version"], "9.9.9");
    let made = sessions(&rest).await.pop().unwrap();
    let id = made["id"].as_str().unwrap();
    assert_eq!(made["title"], "Mine");
    let options = &made["options"];
    assert_eq!(
        (
            &options["model"],
            &options["permission_mode"],
            &options["max_turns"],
            &options["betas"]
        ),
        (&json!("opus"), &json!("plan"), &json!(7), &json!(["a-beta"]))
    );
    let journal = daemon.journal(id);
    let greetings: Vec<_> = journal
        .lines()
        .filter(|line| line.contains(r#""subtype":"initialize""#))
        .collect();
    assert_eq!(greetings.len(), 1, "{greetings:#?}");
    assert!(greetings[0].contains("Be brief."), "{greetings:#?}");
    assert!(!journal.contains("oauth"));

    // It is over in the middle of a turn, which goes on to its end.
    let gate = daemon.work_dir("w").join("gate");
    client
        .send(&user(&fake_prompt(
            &json!([{"text": "begun"}, {"wait_file": gate}, {"text": "done"}]),
        )))
        .await;
    client.line("assistant").await;
    drop(client);
    let view = rest.session(id).await;
    assert_eq!(view["state"], "busy");
    std::fs::write(&gate, "").unwrap();
    let view = in_state(&rest, id, "stopped").await;
    assert_eq!(view["turns"], 1);
}

#[tokio::test]
async fn a_session_that_is_kept_is_come_back_to() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w").display().to_string();
    let mut client = open(&daemon, &format!("cwd={cwd}")).await;
    client.send(&user("hello")).await;
    client.line("result").await;
    drop(client);
    let made = sessions(&rest).await.pop().unwrap();
    let (id, conversation) = (
        made["id"].as_str().unwrap(),
        made["cli"]["session_id"].as_str().unwrap(),
    );
    // The last of two that would end it does; and one that keeps it, keeps it.
    let one = open(&daemon, &format!("session={id}&on_close=stop")).await;
    let mut two = open(&daemon, &format!("session={id}&on_close=stop")).await;
    two.control("1", json!({"subtype": "initialize"})).await;
    drop(one);
    two.send(&user("again")).await;
    two.line("result").await;
    let mut client = open(&daemon, &format!("session={id}")).await;
    client.control("1", json!({"subtype": "initialize"})).await;
    drop(two);
    client.control("2", json!({"subtype": "initialize"})).await;
    let file = daemon.data_dir().join("sessions").join(id).join("tether.json");
    assert!(!file.exists(), "a session that is kept is marked");
    drop(client);
    rest.lifecycle(id, "stop", json!({})).await.expect(200);
    let mut client = open(&daemon, &format!("resume={conversation}&on_close=stop")).await;
    client.control("1", json!({"subtype": "initialize"})).await;
    client.send(&user("and again")).await;
    client.line("result").await;
    drop(client);
    assert_eq!(in_state(&rest, id, "stopped").await["turns"], 3);
    assert_eq!(sessions(&rest).await.len(), 1);
    // A copy of it is another session.
    let mut client = open(&daemon, &format!("resume={conversation}&fork=true&model=opus")).await;
    client.control("1", json!({"subtype": "initialize"})).await;
    client.send(&user("elsewhere")).await;
    client.line("result").await;
    assert_eq!(rest.session(id).await["state"], "stopped");
    let is_copy = |view: &&Value| view["parent_id"] == json!(id) && view["options"]["model"] == "opus";
    assert_eq!(sessions(&rest).await.iter().filter(is_copy).count(), 1);
}

#[tokio::test]
async fn a_client_that_comes_back_while_its_session_stops_begins_anew() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w");
    // The process takes its time at the end of its input.
    std::fs::write(
        cwd.join(".fake-claude.json"),
        json!({"eof": {"delay_ms": 300}}).to_string(),
    )
    .unwrap();
    let mut query = format!("cwd={}&on_close=stop", cwd.display());
    for turn in 1..=3_u64 {
        let mut client = open(&daemon, &query).await;
        client.control("1", json!({"subtype": "initialize"})).await;
        client.send(&user("hello")).await;
        client.line("result").await;
        drop(client);
        let made = sessions(&rest).await.pop().unwrap();
        assert_eq!(made["turns"], turn, "{made:#}");
        let conversation = made["cli"]["session_id"].as_str().unwrap();
        query = format!("resume={conversation}&model=opus&on_close=stop");
    }
    assert_eq!(sessions(&rest).await.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_made_makes_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w").display().to_string();
    let path = format!("/v1/connect?cwd={cwd}");
    problem(rest.get(&path).await, 426, "upgrade_required");
    let bearer = format!("Bearer {}", daemon.token());
    let token = ("authorization", bearer.as_str());
    for (path, headers, status, told) in [
        (
            path.clone(),
            vec![token, ("sec-websocket-protocol", "trunkline.v1")],
            400,
            "unsupported_protocol",
        ),
        (
            format!("{path}&protocol=trunkline.v1"),
            vec![token],
            400,
            "unsupported_protocol",
        ),
        (format!("{path}&modle=x"), vec![token], 400, "modle"),
        (
            format!("{path}&max_turns=many"),
            vec![token],
            400,
            "invalid_query",
        ),
        (format!("{path}&profile=..%2Fx"), vec![token], 400, "profile"),
        (
            format!("{path}&max_budget_usd=NaN"),
            vec![token],
            400,
            "max_budget_usd",
        ),
        ("/v1/connect".to_owned(), vec![token], 400, "cwd"),
        (
            format!("/v1/connect?session={}&model=x", uuid::Uuid::now_v7()),
            vec![token],
            400,
            "model",
        ),
        (
            path.clone(),
            vec![("authorization", "Bearer another")],
            401,
            "unauthorized",
        ),
    ] {
        let (got, body) = refused(&daemon, &path, &headers).await;
        assert_eq!(got, status, "{path}: {body}");
        assert!(body.contains(told), "{path}: {body}");
    }
    for (query, told) in [
        (format!("cwd={cwd}&profile=none"), "invalid_query: profile"),
        (
            format!("cwd={cwd}&permission_mode=x"),
            "invalid_query: permission_mode",
        ),
        (format!("cwd={cwd}&max_turns=0"), "invalid_option"),
        ("cwd=/nowhere/at/all".to_owned(), "cwd_missing"),
        (format!("session={}", uuid::Uuid::now_v7()), "session_not_found"),
    ] {
        let mut client = open(&daemon, &query).await;
        client.send(&json!({"type": "keep_alive"})).await;
        let (code, reason) = client.close_frame().await;
        assert_eq!(code, 4404, "{query}: {reason}");
        assert!(reason.starts_with(told), "{query}: {reason}");
    }
    let viewer = auth_line(&daemon.viewer_token());
    let mut client = LineSocket::open(&daemon, &path, &[]).await.unwrap();
    client.send(&viewer).await;
    assert_eq!(client.close_frame().await.0, 4403);
    assert_eq!(sessions(&rest).await, Vec::<Value>::new());
}
