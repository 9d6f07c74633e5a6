//! Owns logins at the running daemon: what ends with one, what outlasts the daemon, and that no half is written anywhere.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    api::browser::{BROWSER_PATIENCE, Browser},
    support::{
        daemon::TestDaemon,
        event_stream::EventStream,
        lines::{LineSocket, auth_line},
        login::Page,
        programs::fake_prompt,
        server::Server,
        wait::{PATIENCE, wait_for},
        ws::Ws,
    },
};

const SESSIONS: &str = "/v1/sessions";

#[tokio::test]
async fn the_end_of_a_login_closes_its_sockets_and_streams_and_no_others() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let (page, other) = (
        Page::let_in(&rest, "operator").await,
        Page::let_in(&rest, "viewer").await,
    );
    let session = format!("/v1/sessions/{id}/ws");
    let open = async |page: &Page, path: &str| {
        let ticket = page.ticket(path).await;
        let offer = [format!("ticket.{ticket}"), "trunkline.v1".to_owned()];
        let offer: Vec<&str> = offer.iter().map(String::as_str).collect();
        Ws::try_connect(daemon.url(), path, &offer, None).await.unwrap()
    };
    let mut sockets = [open(&page, &session).await, open(&page, "/v1/ws").await];
    let mut others = open(&other, &session).await;
    let with_query = format!("{session}?protocol=ndjson&ticket={}", page.ticket(&session).await);
    let by_first_line = page.ticket(&session).await;
    let mut lines = [
        LineSocket::open(&daemon, &with_query, &[]).await.unwrap(),
        LineSocket::open(&daemon, &format!("{session}?protocol=ndjson"), &[])
            .await
            .unwrap(),
    ];
    lines[1].send(&auth_line(&by_first_line)).await;
    let events = format!("/v1/events?ticket={}", page.ticket("/v1/events").await);
    let mut events = EventStream::open(&rest.with_token(None), &events, None).await;
    events.next().await;

    for (number, socket) in lines.iter_mut().enumerate() {
        let request = json!({"subtype": "initialize"});
        socket.control(&format!("{number}"), request).await;
    }

    let path = format!("/v1/logins/{}", page.id);
    page.call(Method::DELETE, &path).await.expect(204);
    for socket in &mut sockets {
        let (code, reason) = socket.close_frame().await;
        assert_eq!(code, 4401, "{reason}");
        assert!(reason.starts_with("login_invalid: "), "{reason}");
    }
    for socket in &mut lines {
        assert_eq!(socket.close_frame().await.0, 4401);
    }
    let last = events
        .until("the end", |data| data["type"] == "trunkline.login_ended")
        .await;
    assert_eq!(last.last().unwrap().name, "login_ended");
    assert_eq!(
        page.call(Method::GET, SESSIONS).await.problem(401),
        "login_invalid"
    );

    others.send(&json!({"type": "trunkline.ping"})).await;
    others
        .find("a pong", |frame| frame["type"] == "trunkline.pong")
        .await;
    other.call(Method::GET, SESSIONS).await.expect(200);
}

#[tokio::test]
async fn clients_of_a_session_are_told_who_else_is_there() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let path = format!("/v1/sessions/{id}/ws");
    let named = format!("{path}?client_id=editor");
    let mut editor = Ws::try_connect(daemon.url(), &named, &["trunkline.v1"], Some(daemon.token()))
        .await
        .unwrap();
    let who = |frame: &Value| -> Vec<[Value; 3]> {
        let all = frame["clients"].as_array().unwrap_or_else(|| panic!("{frame:#}"));
        all.iter()
            .map(|it| ["client_id", "login", "role"].map(|name| it[name].clone()))
            .collect()
    };
    let alone = [json!("editor"), Value::Null, json!("operator")];
    let first = editor.next().await;
    assert_eq!(who(&first), std::slice::from_ref(&alone));
    assert_eq!(first["clients"][0]["connection_id"], first["connection_id"]);

    let phone = Page::named(&rest, "viewer", "Chrome on Android").await;
    let ticket = format!("ticket.{}", phone.ticket("/v1/ws").await);
    let mut many = Ws::try_connect(daemon.url(), "/v1/ws", &[&ticket, "trunkline.v1"], None)
        .await
        .unwrap();
    many.send(&json!({"type": "trunkline.subscribe", "session_id": id}))
        .await;
    let both = [
        alone.clone(),
        [Value::Null, json!("Chrome on Android"), json!("viewer")],
    ];
    assert_eq!(who(&many.next().await), both, "its snapshot has all");
    let is_told = |frame: &Value| frame["type"] == "trunkline.clients";
    assert_eq!(who(&editor.find("that it came", is_told).await), both);

    many.send(&json!({"type": "trunkline.unsubscribe", "session_id": id}))
        .await;
    assert_eq!(who(&editor.find("that it left", is_told).await), [alone]);
}

#[tokio::test]
async fn a_decision_of_a_browser_has_the_name_of_its_login() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    // Records take no quotes there.
    let page = Page::named(&rest, "operator", r#"Ada's "desk": C:\"#).await;
    let own = page.call(Method::GET, "/v1/logins/current").await.expect(200);
    assert_eq!(own["author"], "login:Ada's 'desk': C:/");
    let asks = json!([{"ask": {"ids": ["w-1"], "tool": "Write", "input": {"file_path": "/tmp/x"}}}]);
    rest.prompt(&id, &fake_prompt(&asks)).await;
    let approval = rest.pending_approval(&id).await;
    let path = format!("/v1/sessions/{id}/approvals/{}", approval["id"].as_str().unwrap());
    let allow = page
        .builder(Method::POST, &path)
        .json(&json!({"decision": "allow"}));
    let decided = rest.send(allow).await.expect(200);
    assert_eq!(
        (&decided["resolution"]["by"], &decided["resolution"]["how"]),
        (&own["author"], &json!("person"))
    );
    let found = rest
        .get("/v1/approvals?by=login:Ada's%20'desk':%20C:/")
        .await
        .expect(200);
    assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found:#}");
    rest.in_state(&id, &["idle"]).await;
    // The note of the decision follows the answer.
    wait_for("the answer and its note are by the login", PATIENCE, async || {
        let events = rest.events(&id, 0).await;
        let is_by_login = |it: &&Value| it["by"] == own["author"] || it["data"]["by"] == own["author"];
        let records = events.iter().filter(is_by_login);
        let kinds: Vec<_> = records.map(|it| &it["data"]["type"]).collect();
        (kinds == ["control_response", "decision"]).then_some(())
    })
    .await;

    // By a socket, which has no name of its own.
    let session = format!("/v1/sessions/{id}/ws");
    let ticket = format!("ticket.{}", page.ticket(&session).await);
    let mut socket = Ws::try_connect(daemon.url(), &session, &[&ticket, "trunkline.v1"], None)
        .await
        .unwrap();
    let asks = json!([{"ask": {"ids": ["w-2"], "tool": "Write", "input": {"file_path": "/tmp/x"}}}]);
    rest.prompt(&id, &fake_prompt(&asks)).await;
    rest.pending_approval(&id).await;
    let response = json!({"behavior": "allow", "updatedInput": {"file_path": "/tmp/x"}});
    let answer = json!({"subtype": "success", "request_id": "w-2", "response": response});
    socket
        .send(&json!({"type": "control_response", "response": answer}))
        .await;
    rest.in_state(&id, &["idle"]).await;
    let found = rest
        .get("/v1/approvals?by=login:Ada's%20'desk':%20C:/")
        .await
        .expect(200);
    assert_eq!(found["items"].as_array().unwrap().len(), 2, "{found:#}");
    let scrape = rest.builder(Method::GET, "/metrics").send().await.unwrap();
    let ended = r#"trunkline_approvals_ended_total{kind="tool",how="person",by="login"} 2"#;
    assert!(scrape.text().await.unwrap().contains(ended));
}

#[tokio::test]
async fn a_request_that_waits_ends_with_its_login_and_its_work_goes_on() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let page = Page::let_in(&rest, "operator").await;
    let asks = json!([{"ask": {"ids": ["w-1"], "tool": "Write", "input": {"file_path": "/tmp/x"}}}]);
    let uuid = "7f0c1d9e-55b4-4c4e-9b8a-1d5a3f0b6c21";
    let wait = page
        .builder(Method::POST, &format!("/v1/sessions/{id}/messages?wait=result"))
        .header("idempotency-key", "waits")
        .json(&json!({"text": fake_prompt(&asks), "uuid": uuid}));
    let (waited, _) = tokio::join!(rest.send(wait), async {
        let approval = rest.pending_approval(&id).await;
        rest.delete(&format!("/v1/logins/{}", page.id)).await.expect(204);
        approval
    });
    let problem = &waited.body;
    assert_eq!(
        (waited.status.as_u16(), &problem["code"]),
        (401, &json!("login_invalid"))
    );
    assert_eq!(
        (&problem["uuid"], &problem["side_effect_possible"]),
        (&json!(uuid), &json!(true))
    );
    let approval = rest.pending_approval(&id).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    rest.decide(&id, &approval, json!({"decision": "allow"}))
        .await
        .expect(200);
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(rest.turns(&id).await.len(), 1, "the turn went on");
    // The next login of the same person is not told that it does not hold.
    let again = Page::let_in(&rest, "operator").await;
    let again = again
        .builder(Method::POST, &format!("/v1/sessions/{id}/messages?wait=result"))
        .header("idempotency-key", "waits")
        .json(&json!({"text": fake_prompt(&asks), "uuid": uuid}));
    assert_eq!(rest.send(again).await.problem(409), "outcome_unknown");
}

#[tokio::test]
async fn logins_outlast_the_daemon_and_their_halves_are_written_nowhere() {
    let mut daemon = TestDaemon::with_fake().arg("--log-level=trace").start().await;
    let rest = daemon.rest();
    let (page, ended) = (
        Page::let_in(&rest, "operator").await,
        Page::let_in(&rest, "operator").await,
    );
    ended.call(Method::DELETE, "/v1/logins/current").await.expect(204);
    page.call(Method::GET, SESSIONS).await.expect(200);
    daemon.stop();
    let log = daemon.log();
    assert!(log.contains(" TRACE "), "the log is not at level trace: {log}");
    let secret = page.cookie.split_once('=').unwrap().1;
    for half in [secret, page.key.as_str()] {
        assert!(!log.contains(half), "{log}");
        for name in ["trunkline.db", "trunkline.db-wal"] {
            let bytes = fs::read(daemon.data_dir().join(name)).unwrap_or_default();
            assert!(memchr::memmem::find(&bytes, half.as_bytes()).is_none(), "{name}");
        }
    }
    daemon.start().await;
    // Another port, and so another cookie's name: the browser of this test follows.
    let follow = async |page: &Page, method: Method, path: &str| {
        let rest = daemon.rest().with_token(None);
        let port = daemon.url().rsplit(':').next().unwrap();
        let secret = page.cookie.split_once('=').unwrap().1;
        let request = rest
            .builder(method, path)
            .header("cookie", format!("trunkline_{port}={secret}"))
            .header("trunkline-login", &page.key)
            .header("sec-fetch-site", "same-origin");
        rest.send(request).await
    };
    let own: Value = follow(&page, Method::GET, "/v1/logins/current").await.expect(200);
    assert_eq!(own["id"], page.id.as_str());
    let gone = follow(&ended, Method::GET, SESSIONS).await;
    assert_eq!(gone.problem(401), "login_invalid");
}

/// Has the cookie of a login, as its server is on another port of the daemon's host, and tries all that a page can.
const OTHER_PORT: &str = r#"<!doctype html><meta charset="utf-8"><script>
const { daemon, key } = SETUP;
const told = {};
const credentials = 'include';
async function tried(name, attempt) {
  told[name] = await attempt().then((it) => it, () => 'refused');
}
function opened(target) {
  return new Promise((resolve, reject) => {
    target.addEventListener('open', () => resolve('opened'), { once: true });
    target.addEventListener('error', () => reject(new Error('no')), { once: true });
  });
}
const status = (answer) => answer.status;
async function use() {
  await fetch('/v1/probe', { credentials });
  await tried('read', () => fetch(`${daemon}/v1/sessions`, { credentials }).then(status));
  await tried('unseen', () => fetch(`${daemon}/v1/sessions`, { credentials, mode: 'no-cors' }).then(() => 'unseen'));
  const headers = { 'trunkline-login': key, 'content-type': 'application/json' };
  await tried('key', () => fetch(`${daemon}/v1/sessions`, { credentials, headers }).then(status));
  const body = JSON.stringify({ path: '/v1/ws' });
  await tried('ticket', () => fetch(`${daemon}/v1/tickets`, { method: 'POST', credentials, headers, body }).then(status));
  await tried('simple', () => fetch(`${daemon}/v1/tickets`, { method: 'POST', credentials, body, mode: 'no-cors' }).then(() => 'unseen'));
  await tried('out', () => fetch(`${daemon}/v1/logins/current`, { method: 'DELETE', credentials, headers }).then(status));
  await tried('socket', () => opened(new WebSocket(`${daemon.replace('http', 'ws')}/v1/ws`)));
  await tried('events', () => opened(new EventSource(`${daemon}/v1/events`, { withCredentials: true })));
}
use().catch((error) => { told.error = String(error); })
  .finally(() => fetch('/told', { method: 'POST', body: JSON.stringify(told) }));
</script>"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_port_has_the_cookie_and_can_do_nothing_with_it() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let page = Page::let_in(&rest, "operator").await;
    let mut server = Server::start().await;
    let profile = tempfile::tempdir().unwrap();
    let _browser = Browser::open(&server.url("/page").to_string(), profile.path());
    // Even one that has learnt the key is a page of another origin.
    let setup = json!({"daemon": daemon.url(), "key": page.key});
    let text = OTHER_PORT.replace("SETUP", &setup.to_string());
    let mut sent = String::new();
    let told = async {
        loop {
            let asked = server.next().await;
            match asked.path.as_str() {
                // The cookie is set here as the daemon sets it: a browser keeps no ports.
                "/page" => {
                    let head = format!(
                        "200 OK\ncontent-type: text/html\nset-cookie: {}; HttpOnly; SameSite=Strict; Path=/v1",
                        page.cookie
                    );
                    asked.answer(&head, &text).await;
                }
                "/v1/probe" => {
                    sent = asked.header("cookie").unwrap_or_default().to_owned();
                    asked.answer("204 No Content", "").await;
                }
                "/told" => {
                    let told: Value = serde_json::from_str(&asked.body).unwrap();
                    asked.answer("204 No Content", "").await;
                    return told;
                }
                _ => asked.answer("404 Not Found", "").await,
            }
        }
    };
    let told = tokio::time::timeout(BROWSER_PATIENCE, told).await.unwrap();
    let refused = ["read", "key", "ticket", "out", "socket", "events"];
    for name in refused {
        assert_eq!(told[name], "refused", "{name}: {told:#}");
    }
    assert!(told.get("error").is_none(), "{told:#}");
    assert!(
        sent.contains(&page.cookie),
        "the other server has the cookie: {sent}"
    );
    // Its server is a program, which can say what it likes of its origin, and lacks the key.
    let stolen = rest
        .with_token(None)
        .builder(Method::GET, SESSIONS)
        .header("cookie", &sent)
        .header("origin", daemon.url())
        .header("sec-fetch-site", "same-origin");
    assert_eq!(rest.send(stolen).await.problem(401), "unauthorized");
    // All is as it was.
    page.call(Method::GET, SESSIONS).await.expect(200);
    let logins = rest.get("/v1/logins").await.expect(200);
    assert_eq!(logins["items"].as_array().unwrap().len(), 1, "{logins:#}");
}
