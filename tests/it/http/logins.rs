//! Owns logins at the router: how one is made and ended, and all that does not open anything.

use axum::{
    body::Body,
    http::{Method, Request, header, request::Builder},
};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use trunkline::journal::Source;

use crate::http::harness::{Answer, Bed};

const LOGINS: &str = "/v1/logins";
const CURRENT: &str = "/v1/logins/current";
const SESSIONS: &str = "/v1/sessions";
const HOST: &str = "127.0.0.1:7433";
const OURS: &str = "http://127.0.0.1:7433";

/// A browser that was let in.
#[derive(Clone)]
struct Page {
    id: String,
    cookie: String,
    key: String,
}

fn plain(method: Method, path: &str) -> Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, HOST)
}

async fn ticket(bed: &Bed, path: &str, role: &str) -> String {
    let request = bed
        .request(Method::POST, "/v1/tickets")
        .header(header::CONTENT_TYPE, "application/json");
    let body = json!({"path": path, "role": role}).to_string();
    let made = bed
        .send(request.body(Body::from(body)).unwrap())
        .await
        .expect(201);
    made["ticket"].as_str().unwrap().to_owned()
}

/// Asks for a login with nothing but what is in the body.
async fn ask(bed: &Bed, body: Value) -> Answer {
    let request = plain(Method::POST, LOGINS)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ORIGIN, OURS);
    bed.send(request.body(Body::from(body.to_string())).unwrap())
        .await
}

fn page(made: &Answer) -> Page {
    assert_eq!(made.status, 201, "{}", made.text);
    let cookie = made.header(header::SET_COOKIE).split(';').next().unwrap();
    Page {
        id: made.json["login"]["id"].as_str().unwrap().to_owned(),
        cookie: cookie.to_owned(),
        key: made.json["key"].as_str().unwrap().to_owned(),
    }
}

async fn let_in(bed: &Bed, role: &str) -> Page {
    let ticket = ticket(bed, LOGINS, role).await;
    page(&ask(bed, json!({"ticket": ticket})).await)
}

impl Page {
    /// A request as the browser makes it for our page.
    fn request(&self, method: Method, path: &str) -> Builder {
        plain(method, path)
            .header(header::COOKIE, &self.cookie)
            .header("trunkline-login", &self.key)
            .header(header::ORIGIN, OURS)
    }

    async fn call(&self, bed: &Bed, method: Method, path: &str) -> Answer {
        let request = self.request(method, path);
        bed.send(request.body(Body::empty()).unwrap()).await
    }

    async fn send(&self, bed: &Bed, method: Method, path: &str, body: Value) -> Answer {
        let request = self
            .request(method, path)
            .header(header::CONTENT_TYPE, "application/json");
        bed.send(request.body(Body::from(body.to_string())).unwrap())
            .await
    }

    async fn ticket(&self, bed: &Bed, path: &str) -> String {
        let made = self
            .send(bed, Method::POST, "/v1/tickets", json!({"path": path}))
            .await;
        made.expect(201)["ticket"].as_str().unwrap().to_owned()
    }
}

async fn send(bed: &Bed, request: Builder) -> Answer {
    bed.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_ticket_makes_a_login_that_needs_no_token() {
    let bed = Bed::start().await;
    let ticket = ticket(&bed, LOGINS, "operator").await;
    let made = ask(&bed, json!({"ticket": ticket, "name": "Firefox"})).await;
    let cookie = made.header(header::SET_COOKIE).to_owned();
    let (name, attributes) = cookie.split_once(';').unwrap();
    assert!(name.starts_with("trunkline_7433="), "{cookie}");
    assert_eq!(attributes, " HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000");
    let page = page(&made);
    assert!(!name.contains(&page.key), "the halves differ");
    let login = &made.json["login"];
    assert_eq!(login["role"], "operator", "{login:#}");
    assert_eq!(login["name"], "Firefox");

    page.call(&bed, Method::GET, SESSIONS).await.expect(200);
    let own = page.call(&bed, Method::GET, CURRENT).await.expect(200);
    assert_eq!((&own["id"], &own["is_current"]), (&login["id"], &json!(true)));
    let bad = page
        .send(&bed, Method::POST, SESSIONS, json!({"cwd": "relative"}))
        .await;
    assert_eq!(
        bad.status, 422,
        "an operator's login changes things: {}",
        bad.text
    );
    // A GET of a page's own origin has no Origin.
    let read = plain(Method::GET, SESSIONS)
        .header(header::COOKIE, format!("other=1; {}", page.cookie))
        .header("trunkline-login", &page.key)
        .header("sec-fetch-site", "same-origin");
    send(&bed, read).await.expect(200);
    let metrics = bed.get("/metrics").await.text;
    assert!(
        metrics.contains(r#"trunkline_logins{role="operator"} 1"#),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_token_makes_a_login_of_its_role() {
    let bed = Bed::start().await;
    for (token, role) in [(&bed.token, "operator"), (&bed.viewer_token, "viewer")] {
        let request = bed
            .request_with(token, Method::POST, LOGINS)
            .header(header::CONTENT_TYPE, "application/json");
        let made = bed.send(request.body(Body::from("{}")).unwrap()).await;
        assert_eq!(made.json["login"]["role"], role, "{}", made.text);
        page(&made).call(&bed, Method::GET, SESSIONS).await.expect(200);
    }
    let wrong = bed
        .request_with("wrong", Method::POST, LOGINS)
        .header(header::CONTENT_TYPE, "application/json");
    bed.send(wrong.body(Body::from("{}")).unwrap())
        .await
        .problem(401, "unauthorized");
    ask(&bed, json!({})).await.problem(401, "unauthorized");
    let page = let_in(&bed, "operator").await;
    let of_login = page.send(&bed, Method::POST, LOGINS, json!({})).await;
    of_login.problem(401, "unauthorized");
}

#[tokio::test]
async fn the_cookie_alone_and_the_key_alone_open_nothing() {
    let bed = Bed::start().await;
    let (page, other) = (let_in(&bed, "operator").await, let_in(&bed, "operator").await);
    let ours = |path: &str| {
        plain(Method::GET, path)
            .header(header::ORIGIN, OURS)
            .header("sec-fetch-site", "same-origin")
    };
    for path in [SESSIONS, LOGINS, CURRENT, "/v1/events", "/metrics"] {
        let cookie = ours(path).header(header::COOKIE, &page.cookie);
        send(&bed, cookie).await.problem(401, "unauthorized");
        let key = ours(path).header("trunkline-login", &page.key);
        send(&bed, key).await.problem(401, "login_invalid");
    }
    // The halves of two logins, a half in the place of the other, and the cookie of another port.
    let secret = page.cookie.split_once('=').unwrap().1;
    for (cookie, key) in [
        (page.cookie.as_str(), other.key.as_str()),
        (&page.cookie, secret),
        (&format!("trunkline_7433={}", page.key), &page.key),
        (&format!("trunkline_7434={secret}"), &page.key),
        (&format!("trunkline={secret}"), &page.key),
        ("trunkline_7433=", &page.key),
    ] {
        let mixed = ours(SESSIONS)
            .header(header::COOKIE, cookie)
            .header("trunkline-login", key);
        send(&bed, mixed).await.problem(401, "login_invalid");
    }
    // A server of another port can set cookies of our name, and keeps nobody out by that.
    let tossed = ours(SESSIONS)
        .header(header::COOKIE, format!("trunkline_7433=planted; {}", page.cookie))
        .header("trunkline-login", &page.key);
    send(&bed, tossed).await.expect(200);
    // Neither half is a token, or a ticket.
    for half in [secret, &page.key] {
        let bearer = bed.request_with(half, Method::GET, SESSIONS);
        send(&bed, bearer).await.problem(401, "unauthorized");
        let ticket = plain(Method::GET, &format!("{SESSIONS}?ticket={half}"));
        send(&bed, ticket).await.problem(401, "ticket_invalid");
    }
}

#[tokio::test]
async fn a_socket_shows_the_key_as_a_sub_protocol() {
    let bed = Bed::with(|config, _| config.allowed_hosts = vec!["192.168.1.5".to_owned()]).await;
    let page = let_in(&bed, "operator").await;
    let offer = format!("trunkline.v1, login.{}", page.key);
    let socket = |host: &str, offer: &str| {
        Request::builder()
            .uri(CURRENT)
            .header(header::HOST, host)
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_PROTOCOL, offer)
    };
    let with_cookie = |offer: &str| socket(HOST, offer).header(header::COOKIE, &page.cookie);
    let of_ours = with_cookie(&offer).header(header::ORIGIN, OURS);
    let login = send(&bed, of_ours).await.expect(200);
    assert_eq!(login["id"], page.id.as_str());

    let wrong = with_cookie("trunkline.v1, login.wrong").header(header::ORIGIN, OURS);
    let without_cookie = socket(HOST, &offer).header(header::ORIGIN, OURS);
    let other_port = with_cookie(&offer).header(header::ORIGIN, "http://127.0.0.1:3000");
    let far = "192.168.1.5:7433";
    let unnamed = socket(far, &offer).header(header::COOKIE, &page.cookie);
    for request in [wrong, without_cookie, with_cookie(&offer), unnamed] {
        send(&bed, request).await.problem(401, "login_invalid");
    }
    send(&bed, other_port).await.problem(403, "origin_forbidden");
    // Without an upgrade the header says nothing.
    let plain = plain(Method::GET, CURRENT)
        .header(header::COOKIE, &page.cookie)
        .header(header::ORIGIN, OURS)
        .header(header::SEC_WEBSOCKET_PROTOCOL, &offer);
    send(&bed, plain).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn only_a_page_of_the_daemon_has_a_login() {
    let bed = Bed::with(|config, _| {
        config.allowed_hosts = vec!["192.168.1.5".to_owned()];
        config.allowed_origins = vec![
            "https://app.example".to_owned(),
            "http://127.0.0.1:5173".to_owned(),
        ];
    })
    .await;
    let page = let_in(&bed, "operator").await;
    let from = async |headers: &[(&str, &str)]| {
        let mut request = plain(Method::GET, SESSIONS)
            .header(header::COOKIE, &page.cookie)
            .header("trunkline-login", &page.key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        send(&bed, request).await
    };
    for foreign in [
        "http://127.0.0.1:3000",
        "http://localhost:7433",
        "https://evil.example",
        "null",
    ] {
        from(&[("origin", foreign)])
            .await
            .problem(403, "origin_forbidden");
    }
    for none_of_ours in [
        &[][..],
        &[("origin", "https://app.example")],
        &[("origin", "http://127.0.0.1:5173")],
        &[("sec-fetch-site", "none")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "iframe")],
        &[("origin", OURS), ("sec-fetch-site", "same-site")],
    ] {
        from(none_of_ours).await.problem(401, "login_invalid");
    }
    from(&[("origin", OURS)]).await.expect(200);
    // A browser says nothing to another machine without TLS, and so nothing is asked for there with a GET.
    let secret = page.cookie.split_once('=').unwrap().1;
    let far = |method: Method| {
        Request::builder()
            .method(method)
            .uri(CURRENT)
            .header(header::HOST, "192.168.1.5:7433")
            .header(header::COOKIE, format!("trunkline_7433={secret}"))
    };
    let with_key = |method| far(method).header("trunkline-login", &page.key);
    send(&bed, with_key(Method::GET)).await.expect(200);
    send(&bed, with_key(Method::DELETE))
        .await
        .problem(401, "login_invalid");
    send(&bed, far(Method::GET)).await.problem(401, "unauthorized");
    // No page of another origin learns that it may send the key.
    let preflight = plain(Method::OPTIONS, SESSIONS)
        .header(header::ORIGIN, "https://app.example")
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, "GET")
        .header(header::ACCESS_CONTROL_REQUEST_HEADERS, "trunkline-login");
    let answer = send(&bed, preflight).await;
    let allowed = answer.header(header::ACCESS_CONTROL_ALLOW_HEADERS).to_owned();
    assert!(!allowed.contains("trunkline-login"), "{allowed}");
    assert_eq!(answer.header(header::ACCESS_CONTROL_ALLOW_CREDENTIALS), "");
}

#[tokio::test]
async fn a_token_and_a_ticket_go_before_a_login() {
    let bed = Bed::start().await;
    let page = let_in(&bed, "operator").await;
    let both = |token: &str| {
        page.request(Method::PUT, "/v1/sessions/x/seen")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::CONTENT_TYPE, "application/json")
    };
    let viewer = bed
        .send(both(&bed.viewer_token).body(Body::from("{}")).unwrap())
        .await;
    viewer.problem(403, "role_forbidden");
    let wrong = bed.send(both("wrong").body(Body::from("{}")).unwrap()).await;
    wrong.problem(401, "unauthorized");
    let path = format!("{SESSIONS}?ticket=wrong");
    page.call(&bed, Method::GET, &path)
        .await
        .problem(401, "ticket_invalid");
}

#[tokio::test]
async fn a_ticket_makes_one_login_and_nothing_else() {
    let bed = Bed::start().await;
    let used = ticket(&bed, LOGINS, "operator").await;
    page(&ask(&bed, json!({"ticket": used})).await);
    ask(&bed, json!({"ticket": used}))
        .await
        .problem(401, "ticket_invalid");
    let elsewhere = ticket(&bed, SESSIONS, "operator").await;
    ask(&bed, json!({"ticket": elsewhere}))
        .await
        .problem(401, "ticket_invalid");
    // It opens no list, and is used up by a name that cannot be.
    let other = ticket(&bed, LOGINS, "operator").await;
    let list = plain(Method::GET, &format!("{LOGINS}?ticket={other}"));
    send(&bed, list).await.problem(401, "ticket_invalid");
    ask(&bed, json!({"ticket": other}))
        .await
        .problem(401, "ticket_invalid");
    for name in ["", "\u{1b}[2J", &"x".repeat(65)] {
        let ticket = ticket(&bed, LOGINS, "operator").await;
        let refused = ask(&bed, json!({"ticket": ticket, "name": name})).await;
        assert_eq!(refused.problem(422, "invalid_field")["field"], "name");
        ask(&bed, json!({"ticket": ticket}))
            .await
            .problem(401, "ticket_invalid");
    }
    // Pages of other origins, and bodies that are no JSON, do not use one up.
    let kept = ticket(&bed, LOGINS, "operator").await;
    let body = || Body::from(json!({"ticket": kept}).to_string());
    let foreign = plain(Method::POST, LOGINS)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ORIGIN, "http://127.0.0.1:3000");
    bed.send(foreign.body(body()).unwrap())
        .await
        .problem(403, "origin_forbidden");
    let simple = plain(Method::POST, LOGINS).header(header::CONTENT_TYPE, "text/plain");
    bed.send(simple.body(body()).unwrap())
        .await
        .problem(415, "unsupported_media_type");
    let large = json!({"ticket": kept, "name": "x".repeat(8 * 1024)});
    ask(&bed, large).await.problem(413, "body_too_large");
    page(&ask(&bed, json!({"ticket": kept})).await);
    let logins = bed.get(LOGINS).await.expect(200);
    assert_eq!(logins["items"].as_array().unwrap().len(), 2, "{logins:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_at_once_with_one_ticket_one_is_let_in() {
    let bed = Bed::start().await;
    for _ in 0..10 {
        let ticket = ticket(&bed, LOGINS, "operator").await;
        let tries = (0..2).map(|_| {
            let request = plain(Method::POST, LOGINS).header(header::CONTENT_TYPE, "application/json");
            let body = Body::from(json!({"ticket": ticket}).to_string());
            let answer = bed.router().oneshot(request.body(body).unwrap());
            tokio::spawn(async move { answer.await.unwrap().status().as_u16() })
        });
        let tries: Vec<_> = tries.collect();
        let mut answers = Vec::new();
        for answer in tries {
            answers.push(answer.await.unwrap());
        }
        answers.sort_unstable();
        assert_eq!(answers, [201, 401]);
    }
}

#[tokio::test]
async fn logging_out_takes_the_cookie_back_and_ends_the_login() {
    let bed = Bed::start().await;
    let (page, other) = (let_in(&bed, "operator").await, let_in(&bed, "operator").await);
    let unused = page.ticket(&bed, SESSIONS).await;
    let out = page.call(&bed, Method::DELETE, CURRENT).await;
    assert_eq!(out.status, 204, "{}", out.text);
    let cookie = out.header(header::SET_COOKIE);
    assert!(
        cookie.starts_with("trunkline_7433=;") && cookie.contains("Max-Age=0"),
        "{cookie}"
    );
    let gone = page.call(&bed, Method::GET, SESSIONS).await;
    gone.problem(401, "login_invalid");
    let late = plain(Method::GET, &format!("{SESSIONS}?ticket={unused}"));
    send(&bed, late).await.problem(401, "ticket_invalid");
    other.call(&bed, Method::GET, SESSIONS).await.expect(200);
    // With a token there is nothing to log out of.
    bed.call(Method::DELETE, CURRENT)
        .await
        .problem(404, "login_not_found");
    bed.get(CURRENT).await.problem(404, "login_not_found");
    bed.call(Method::DELETE, &format!("{LOGINS}/{}", other.id))
        .await
        .expect(204);
    bed.call(Method::DELETE, &format!("{LOGINS}/{}", other.id))
        .await
        .problem(404, "login_not_found");
    bed.call(Method::DELETE, &format!("{LOGINS}/x"))
        .await
        .problem(400, "invalid_id");
    other
        .call(&bed, Method::GET, SESSIONS)
        .await
        .problem(401, "login_invalid");
    // A browser with an ended login at hand can log in again.
    let again = ticket(&bed, LOGINS, "viewer").await;
    page_again(
        &other
            .send(&bed, Method::POST, LOGINS, json!({"ticket": again}))
            .await,
    );
}

fn page_again(made: &Answer) {
    assert_eq!(made.json["login"]["role"], "viewer", "{}", made.text);
}

#[tokio::test]
async fn a_viewers_login_only_watches_and_sees_itself() {
    let bed = Bed::start().await;
    let (viewer, operator) = (let_in(&bed, "viewer").await, let_in(&bed, "operator").await);
    viewer.call(&bed, Method::GET, SESSIONS).await.expect(200);
    for (method, path) in [
        (Method::POST, SESSIONS),
        (Method::PUT, "/v1/sessions/x/model"),
        (Method::POST, "/v1/daemon/restart"),
    ] {
        let refused = viewer.send(&bed, method, path, json!({})).await;
        refused.problem(403, "role_forbidden");
    }
    let as_operator = json!({"path": LOGINS, "role": "operator"});
    let refused = viewer.send(&bed, Method::POST, "/v1/tickets", as_operator).await;
    refused.problem(403, "role_forbidden");
    let ids = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .map(|it| it["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let own = viewer.call(&bed, Method::GET, LOGINS).await.expect(200);
    assert_eq!(ids(&own), [viewer.id.as_str()]);
    let by_token = bed.request_with(&bed.viewer_token, Method::GET, LOGINS);
    assert_eq!(send(&bed, by_token).await.expect(200)["items"], json!([]));
    let all = operator.call(&bed, Method::GET, LOGINS).await.expect(200);
    assert_eq!(ids(&all).len(), 2);
    let path = format!("{LOGINS}/{}", operator.id);
    viewer
        .call(&bed, Method::DELETE, &path)
        .await
        .problem(404, "login_not_found");
    operator.call(&bed, Method::GET, SESSIONS).await.expect(200);
    let own = format!("{LOGINS}/{}", viewer.id);
    let ended = viewer.call(&bed, Method::DELETE, &own).await;
    assert!(ended.header(header::SET_COOKIE).contains("Max-Age=0"));
    assert_eq!(ended.status, 204);
}

#[tokio::test]
async fn a_login_ends_its_event_streams_at_once() {
    let bed = Bed::start().await;
    let id = bed.session(&[]).await;
    let page = let_in(&bed, "operator").await;
    let events = format!("/v1/sessions/{id}/events");
    let mut streams = Vec::new();
    for path in ["/v1/events", &events] {
        let ticket = page.ticket(&bed, path).await;
        let request = plain(Method::GET, &format!("{path}?ticket={ticket}"))
            .header(header::ACCEPT, "text/event-stream");
        let answer = bed
            .router()
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        streams.push(answer.into_body().into_data_stream());
    }
    page.call(&bed, Method::DELETE, CURRENT).await.expect(204);
    for mut stream in streams {
        let mut text = String::new();
        while let Some(part) = stream.next().await {
            text.push_str(std::str::from_utf8(&part.unwrap()).unwrap());
        }
        let last = "event: login_ended\ndata: {\"type\":\"trunkline.login_ended\"}\n\n";
        assert!(text.ends_with(last), "{text}");
    }
}

#[tokio::test]
async fn a_login_ends_its_exports_as_parts_of_the_whole() {
    let bed = Bed::start().await;
    let id = bed.session(&[(Source::Daemon, r#"{"type":"note"}"#)]).await;
    let page = let_in(&bed, "viewer").await;
    let export = format!("/v1/sessions/{id}/export");
    let mut exports = Vec::new();
    for (path, accept) in [
        ("/v1/approvals".to_owned(), "text/csv"),
        (export.clone(), "*/*"),
        (format!("{export}?format=ndjson"), "*/*"),
    ] {
        let request = page.request(Method::GET, &path).header(header::ACCEPT, accept);
        let request = request.body(Body::empty()).unwrap();
        let answer = bed.router().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        exports.push((path, answer.into_body().into_data_stream()));
    }
    let ticket = page.ticket(&bed, &export).await;
    let link = plain(Method::GET, &format!("{export}?format=json&ticket={ticket}"));
    let answer = bed
        .router()
        .oneshot(link.body(Body::empty()).unwrap())
        .await
        .unwrap();
    assert_eq!(answer.status(), 200, "a link carries a ticket");
    exports.push(("a link".to_owned(), answer.into_body().into_data_stream()));
    page.call(&bed, Method::DELETE, CURRENT).await.expect(204);
    for (path, mut stream) in exports {
        let part = stream.next().await.expect("an end that is no end");
        assert!(part.is_err(), "{path}: {part:?}");
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn no_answer_with_a_secret_is_kept_under_a_key() {
    let bed = Bed::start().await;
    let mut keys = Vec::new();
    for _ in 0..2 {
        let request = bed
            .request(Method::POST, LOGINS)
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", "one");
        let made = bed.send(request.body(Body::from("{}")).unwrap()).await;
        assert_eq!(made.header("idempotency-replayed"), "");
        keys.push(page(&made).key);
    }
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn the_cookie_is_secure_only_where_the_page_came_over_https() {
    let bed = Bed::start().await;
    for (origin, is_secure) in [("https://127.0.0.1:7433", true), (OURS, false)] {
        let request = bed
            .request(Method::POST, LOGINS)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ORIGIN, origin)
            .header("x-forwarded-proto", "https");
        let made = bed.send(request.body(Body::from("{}")).unwrap()).await;
        let cookie = made.header(header::SET_COOKIE);
        assert_eq!(cookie.ends_with("; Secure"), is_secure, "{cookie}");
    }
}
