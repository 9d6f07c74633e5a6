//! The checks that a request must pass before any handler sees it.

use axum::{
    body::Body,
    http::{Method, Request, header},
};

use crate::http::harness::Bed;

#[tokio::test]
async fn every_route_of_data_needs_the_token() {
    let bed = Bed::start().await;
    let anonymous = |path: &str| {
        Request::builder()
            .uri(path)
            .header(header::HOST, "localhost")
            .body(Body::empty())
            .unwrap()
    };
    for path in [
        "/v1/sessions",
        "/readyz",
        "/metrics",
        "/openapi.json/",
        "/no/such/path",
        "/v1/sessions/x/ws",
        &format!("/v1/sessions?token={}", bed.token),
        &format!("/v1/sessions?access_token={}", bed.token),
    ] {
        let answer = bed.send(anonymous(path)).await;
        assert!(
            answer.header(header::WWW_AUTHENTICATE).starts_with("Bearer"),
            "{path}"
        );
        answer.problem(401, "unauthorized");
    }
    assert_eq!(bed.send(anonymous("/healthz")).await.expect(200)["status"], "ok");
    // A wrong token is no reason to refuse what needs none.
    let wrong = Request::builder()
        .uri("/openapi.json")
        .header(header::HOST, "localhost")
        .header(header::AUTHORIZATION, "Bearer wrong");
    bed.send(wrong.body(Body::empty()).unwrap()).await.expect(200);
}

#[tokio::test]
async fn a_document_is_sent_once_to_a_client_that_keeps_it() {
    let bed = Bed::start().await;
    for (path, content_type) in [
        ("/openapi.json", "application/json"),
        ("/asyncapi.yaml", "application/yaml"),
        ("/docs", "text/html; charset=utf-8"),
    ] {
        let ask = async |method: Method, known: &str| {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header(header::HOST, "localhost")
                .header(header::IF_NONE_MATCH, known);
            bed.send(request.body(Body::empty()).unwrap()).await
        };
        let first = ask(Method::GET, "\"another\"").await;
        assert_eq!(first.status, 200, "{path}");
        assert_eq!(first.header(header::CONTENT_TYPE), content_type);
        let policy = first.header(header::CONTENT_SECURITY_POLICY);
        assert!(
            policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(first.header(header::CACHE_CONTROL), "no-cache");
        let tag = first.header(header::ETAG);
        assert!(tag.starts_with('"') && tag.len() > 20, "{tag}");
        for known in [tag, &format!("\"another\", W/{tag}"), "*"] {
            let again = ask(Method::GET, known).await;
            assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""), "{known}");
            assert_eq!(again.header(header::ETAG), tag);
        }
        let head = ask(Method::HEAD, "").await;
        assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
        assert_eq!(head.header(header::CONTENT_LENGTH), first.text.len().to_string());
        assert_eq!(head.header(header::CONTENT_SECURITY_POLICY), policy);
        assert_eq!(head.header(header::ETAG), tag);
        let post = ask(Method::POST, "").await;
        post.problem(405, "method_not_allowed");
    }
}

#[tokio::test]
async fn only_the_right_token_in_the_right_place_counts() {
    let bed = Bed::start().await;
    let token = bed.token.clone();
    for wrong in [
        format!("Bearer {token}x"),
        "Bearer ".to_owned(),
        token.clone(),
        format!("Basic {token}"),
        format!("Bearer{token}"),
    ] {
        let request = Request::builder()
            .uri("/v1/sessions")
            .header(header::HOST, "localhost")
            .header(header::AUTHORIZATION, &wrong);
        let answer = bed.send(request.body(Body::empty()).unwrap()).await;
        answer.problem(401, "unauthorized");
    }
    // The sub-protocol list carries the token for WebSockets only.
    let request = Request::builder()
        .uri("/v1/sessions")
        .header(header::HOST, "localhost")
        .header(header::SEC_WEBSOCKET_PROTOCOL, format!("bearer.{token}"));
    bed.send(request.body(Body::empty()).unwrap())
        .await
        .problem(401, "unauthorized");
    let request = Request::builder()
        .uri("/v1/sessions")
        .header(header::HOST, "localhost")
        .header(header::AUTHORIZATION, format!("bearer {token}"));
    bed.send(request.body(Body::empty()).unwrap()).await.expect(200);
}

#[tokio::test]
async fn foreign_hosts_are_refused_on_every_route_before_routing() {
    let bed = Bed::start().await;
    for path in [
        "/healthz",
        "/",
        "/openapi.json",
        "/v1/sessions",
        "/v1/sessions/x/ws",
        "/none",
    ] {
        for host in ["attacker.example:7433", "127.0.0.1.nip.io", "0.0.0.0"] {
            let request = Request::builder()
                .uri(path)
                .header(header::HOST, host)
                .header(header::AUTHORIZATION, format!("Bearer {}", bed.token));
            let answer = bed.send(request.body(Body::empty()).unwrap()).await;
            answer.problem(421, "host_forbidden");
        }
    }
    let bare = Request::builder().uri("/healthz").body(Body::empty()).unwrap();
    bed.send(bare).await.problem(400, "host_missing");
    let absolute = bed.request(Method::GET, "http://attacker.example/v1/sessions");
    bed.send(absolute.body(Body::empty()).unwrap())
        .await
        .problem(421, "host_forbidden");
    let absolute = bed.request(Method::GET, "http://127.0.0.1:7433/v1/sessions");
    bed.send(absolute.body(Body::empty()).unwrap()).await.expect(200);
}

#[tokio::test]
async fn pages_of_other_origins_are_refused_even_with_the_token() {
    let bed = Bed::with(|config, _| config.allowed_origins = vec!["https://app.example".to_owned()]).await;
    for (origin, allowed) in [
        ("http://127.0.0.1:7433", true),
        ("https://app.example", true),
        ("https://evil.example", false),
        ("http://127.0.0.1:3000", false),
        ("null", false),
    ] {
        let request = bed
            .request(Method::GET, "/v1/sessions")
            .header(header::ORIGIN, origin);
        let answer = bed.send(request.body(Body::empty()).unwrap()).await;
        if allowed {
            answer.expect(200);
        } else {
            answer.problem(403, "origin_forbidden");
        }
    }
}

#[tokio::test]
async fn what_a_page_can_send_without_asking_is_no_json() {
    let bed = Bed::start().await;
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "jsonx",
        "",
    ] {
        for path in [
            "/v1/sessions",
            "/v1/sessions/00000000-0000-0000-0000-000000000000/stop",
        ] {
            let request = bed
                .request(Method::POST, path)
                .header(header::CONTENT_TYPE, content_type);
            let answer = bed.send(request.body(Body::from("{}")).unwrap()).await;
            answer.problem(415, "unsupported_media_type");
        }
    }
    let request = bed
        .request(Method::POST, "/v1/sessions")
        .body(Body::from("{}"))
        .unwrap();
    bed.send(request).await.problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems_too() {
    let bed = Bed::start().await;
    for path in ["/v1", "/v1/sessions/", "/v2/sessions", "/v1/sessions/a/b/c"] {
        bed.get(path).await.problem(404, "route_not_found");
    }
    let answer = bed.call(Method::DELETE, "/v1/sessions").await;
    let allow = answer.header(header::ALLOW).to_owned();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow:?}");
    answer.problem(405, "method_not_allowed");
    bed.call(Method::OPTIONS, "/v1/approvals")
        .await
        .problem(405, "method_not_allowed");
}

/// A preflight for a page of this origin, as a browser sends it: without the token.
fn preflight(origin: &str) -> Request<Body> {
    let request = Request::builder()
        .method(Method::OPTIONS)
        .uri("/v1/sessions")
        .header(header::HOST, "localhost")
        .header(header::ORIGIN, origin)
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
        .header(
            header::ACCESS_CONTROL_REQUEST_HEADERS,
            "authorization,content-type,idempotency-key",
        )
        .header("access-control-request-private-network", "true");
    request.body(Body::empty()).unwrap()
}

const APP: &str = "https://app.example";

async fn with_app() -> Bed {
    Bed::with(|config, _| config.allowed_origins = vec![APP.to_owned()]).await
}

#[tokio::test]
async fn a_preflight_of_an_allowed_page_needs_no_token() {
    let bed = with_app().await;
    let answer = bed.send(preflight(APP)).await;
    let told = |name: &str| answer.header(name).to_owned();
    assert_eq!(told("access-control-allow-origin"), APP);
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        assert!(told("access-control-allow-methods").contains(method), "{method}");
    }
    for name in [
        "authorization",
        "content-type",
        "idempotency-key",
        "last-event-id",
    ] {
        assert!(told("access-control-allow-headers").contains(name), "{name}");
    }
    assert_eq!(told("access-control-allow-private-network"), "true");
    assert_eq!(told("access-control-allow-credentials"), "");
    assert_eq!(told("vary"), "origin");
    answer.expect(204);
}

#[tokio::test]
async fn an_allowed_page_may_read_answers_and_problems() {
    let bed = with_app().await;
    let good = bed.request(Method::GET, "/v1/sessions");
    let lost = bed.request(Method::GET, "/no/such/path");
    let anonymous = Request::builder()
        .uri("/v1/sessions")
        .header(header::HOST, "localhost");
    for (request, status) in [(good, 200), (lost, 404), (anonymous, 401)] {
        let request = request.header(header::ORIGIN, APP).body(Body::empty()).unwrap();
        let answer = bed.send(request).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("access-control-allow-origin"), APP);
        for name in ["location", "retry-after", "x-request-id", "idempotency-replayed"] {
            assert!(
                answer.header("access-control-expose-headers").contains(name),
                "{name}"
            );
        }
        assert_eq!(answer.header("access-control-allow-credentials"), "");
        assert_eq!(answer.header("vary"), "origin");
    }
}

#[tokio::test]
async fn no_other_page_is_told_anything() {
    let allows = |answer: &crate::http::harness::Answer| {
        let mut names = answer.headers.keys();
        names.any(|name| name.as_str().starts_with("access-control-"))
    };
    for bed in [with_app().await, Bed::start().await] {
        for origin in ["https://evil.example", "null", "https://app.example.evil.example"] {
            let answer = bed.send(preflight(origin)).await;
            assert!(!allows(&answer), "{:?}", answer.headers);
            answer.problem(403, "origin_forbidden");
        }
        // A program, and the daemon's own page.
        let own = bed
            .request(Method::GET, "/v1/sessions")
            .header(header::ORIGIN, "http://127.0.0.1:7433");
        for request in [bed.request(Method::GET, "/v1/sessions"), own] {
            let answer = bed.send(request.body(Body::empty()).unwrap()).await;
            assert!(!allows(&answer), "{:?}", answer.headers);
            answer.expect(200);
        }
        // An OPTIONS that is no preflight is a request like any other.
        let mut plain = preflight(APP);
        plain.headers_mut().remove(header::ACCESS_CONTROL_REQUEST_METHOD);
        let status = bed.send(plain).await.status;
        assert!([401, 403].contains(&status.as_u16()), "{status}");
    }
}
