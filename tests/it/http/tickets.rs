//! Owns tickets at the router: each opens one path once, for a short time, with the role that it was made for.

use axum::{
    body::Body,
    http::{Method, Request, header},
};
use serde_json::{Value, json};

use crate::http::harness::{Answer, Bed};

const PATH: &str = "/v1/sessions";

/// Asks for a ticket with this token.
async fn ask(bed: &Bed, token: &str, body: Value) -> Answer {
    let request = bed
        .request_with(token, Method::POST, "/v1/tickets")
        .header(header::CONTENT_TYPE, "application/json");
    bed.send(request.body(Body::from(body.to_string())).unwrap())
        .await
}

async fn ticket(bed: &Bed, body: Value) -> String {
    let made = ask(bed, &bed.token, body).await.expect(201);
    made["ticket"].as_str().unwrap().to_owned()
}

/// A request that has no credential but what is in its path.
fn plain(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "localhost")
}

async fn open(bed: &Bed, path: &str, ticket: &str) -> Answer {
    let separator = if path.contains('?') { '&' } else { '?' };
    let request = plain(Method::GET, &format!("{path}{separator}ticket={ticket}"));
    bed.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_ticket_opens_its_path_once() {
    let bed = Bed::start().await;
    let made = ask(&bed, &bed.token, json!({"path": PATH})).await.expect(201);
    assert_eq!((&made["path"], &made["role"]), (&json!(PATH), &json!("operator")));
    assert!(made["expires_at"].as_str().unwrap().ends_with('Z'), "{made:#}");
    let one = made["ticket"].as_str().unwrap();
    // Any query goes with it, and a wrong one is told as ever.
    open(&bed, "/v1/sessions?limit=3", one).await.expect(200);
    let again = open(&bed, PATH, one).await;
    assert!(again.header(header::WWW_AUTHENTICATE).starts_with("Bearer"));
    let problem = again.problem(401, "ticket_invalid");
    assert!(
        problem["detail"].as_str().unwrap().contains("/v1/tickets"),
        "{problem:#}"
    );
    open(&bed, PATH, "unknown").await.problem(401, "ticket_invalid");
    let two = ticket(&bed, json!({"path": PATH})).await;
    open(&bed, "/v1/usage", &two).await.problem(401, "ticket_invalid");
    let three = ticket(&bed, json!({"path": PATH})).await;
    open(&bed, "/v1/sessions?typo=3", &three)
        .await
        .problem(400, "invalid_query");
}

#[tokio::test]
async fn a_head_uses_a_ticket_up_as_a_get_does() {
    let bed = Bed::start().await;
    let ticket = ticket(&bed, json!({"path": PATH})).await;
    let head = async || {
        let request = plain(Method::HEAD, &format!("{PATH}?ticket={ticket}"));
        bed.send(request.body(Body::empty()).unwrap()).await
    };
    head().await.expect(200);
    open(&bed, PATH, &ticket).await.problem(401, "ticket_invalid");
    assert_eq!(head().await.status, 401);
}

#[tokio::test]
async fn a_ticket_is_no_token() {
    let bed = Bed::start().await;
    let ticket = ticket(&bed, json!({"path": PATH})).await;
    let bearer = bed.request_with(&ticket, Method::GET, PATH);
    bed.send(bearer.body(Body::empty()).unwrap())
        .await
        .problem(401, "unauthorized");
    let change = plain(Method::POST, &format!("{PATH}?ticket={ticket}"))
        .header(header::CONTENT_TYPE, "application/json");
    bed.send(change.body(Body::from("{}")).unwrap())
        .await
        .problem(401, "unauthorized");
    // The sub-protocol list makes no difference: a ticket is for reading.
    let upgrade = plain(Method::POST, PATH)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_PROTOCOL, format!("ticket.{ticket}"));
    bed.send(upgrade.body(Body::from("{}")).unwrap())
        .await
        .problem(401, "unauthorized");
    open(&bed, PATH, &bed.token).await.problem(401, "ticket_invalid");
    // None of this has used it up, and foreign pages and hosts do not either.
    let path = format!("{PATH}?ticket={ticket}");
    let foreign = plain(Method::GET, &path).header(header::ORIGIN, "https://evil.example");
    bed.send(foreign.body(Body::empty()).unwrap())
        .await
        .problem(403, "origin_forbidden");
    let foreign = Request::builder().uri(&path).header(header::HOST, "evil.example");
    bed.send(foreign.body(Body::empty()).unwrap())
        .await
        .problem(421, "host_forbidden");
    // A header counts more, and leaves the ticket as it is.
    let both = bed.request(Method::GET, &path);
    bed.send(both.body(Body::empty()).unwrap()).await.expect(200);
    open(&bed, PATH, &ticket).await.expect(200);
}

#[tokio::test]
async fn a_ticket_that_is_too_old_opens_nothing() {
    let bed = Bed::with(|config, _| config.ticket_ms = 0).await;
    let ticket = ticket(&bed, json!({"path": PATH})).await;
    open(&bed, PATH, &ticket).await.problem(401, "ticket_invalid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_use_a_ticket_at_once_one_is_let_in() {
    let bed = Bed::start().await;
    for _ in 0..20 {
        let ticket = ticket(&bed, json!({"path": PATH})).await;
        let tries = (0..8).map(|_| {
            let (router, path) = (bed.router(), format!("{PATH}?ticket={ticket}"));
            tokio::spawn(async move {
                let request = plain(Method::GET, &path).body(Body::empty()).unwrap();
                tower::ServiceExt::oneshot(router, request)
                    .await
                    .unwrap()
                    .status()
                    .as_u16()
            })
        });
        let tries: Vec<_> = tries.collect();
        let mut answers = Vec::new();
        for answer in tries {
            answers.push(answer.await.unwrap());
        }
        answers.sort_unstable();
        assert_eq!(answers, [200, 401, 401, 401, 401, 401, 401, 401]);
    }
}

#[tokio::test]
async fn a_viewer_makes_tickets_for_viewers() {
    let bed = Bed::start().await;
    let only_of_operators = "/v1/daemon/configuration";
    let viewer = bed.viewer_token.clone();
    let made = ask(&bed, &viewer, json!({"path": PATH})).await.expect(201);
    assert_eq!(made["role"], "viewer");
    open(&bed, PATH, made["ticket"].as_str().unwrap())
        .await
        .expect(200);
    for body in [
        json!({"path": PATH, "role": "operator"}),
        json!({"path": only_of_operators}),
    ] {
        ask(&bed, &viewer, body).await.problem(403, "role_forbidden");
    }
    let refused = json!({"path": only_of_operators, "role": "viewer"});
    ask(&bed, &bed.token, refused)
        .await
        .problem(403, "role_forbidden");
    let own = ticket(&bed, json!({"path": only_of_operators})).await;
    open(&bed, only_of_operators, &own).await.expect(200);
}

#[tokio::test]
async fn a_ticket_is_for_a_path_that_is_read() {
    let bed = Bed::start().await;
    let stop = "/v1/sessions/00000000-0000-4000-8000-000000000001/stop";
    for path in ["", "/", "/v1/none", stop, "/v1/sessions?limit=1"] {
        let problem = ask(&bed, &bed.token, json!({"path": path})).await;
        assert_eq!(problem.problem(422, "invalid_field")["field"], "path", "{path}");
    }
    let body = json!({"path": PATH, "role": "admin"});
    ask(&bed, &bed.token, body).await.problem(422, "invalid_field");
}

#[tokio::test]
async fn few_tickets_wait_at_once_and_no_viewer_takes_the_places_of_operators() {
    let bed = Bed::start().await;
    let viewer = bed.viewer_token.clone();
    let mut last = String::new();
    for _ in 0..128 {
        let made = ask(&bed, &viewer, json!({"path": PATH})).await.expect(201);
        last = made["ticket"].as_str().unwrap().to_owned();
    }
    let full = ask(&bed, &viewer, json!({"path": PATH})).await;
    let seconds: u64 = full.header(header::RETRY_AFTER).parse().unwrap();
    assert!((1..=31).contains(&seconds), "{seconds}");
    full.problem(429, "too_many_tickets");
    ticket(&bed, json!({"path": PATH})).await;
    // A use makes room.
    open(&bed, PATH, &last).await.expect(200);
    ask(&bed, &viewer, json!({"path": PATH})).await.expect(201);
}
