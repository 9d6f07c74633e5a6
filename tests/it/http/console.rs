//! Owns the console's files as a browser gets them: at which addresses, with which headers, and without a token.

use axum::{
    body::Body,
    http::{HeaderMap, Method, StatusCode, header},
};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;
use trunkline::http::{Console, ConsoleFile};

use crate::http::harness::Bed;

const HTML: &str = "<!doctype html><title>the console</title>";
const SCRIPT: &str = "/assets/index-B1x9_z-0.js";
const YEAR: &str = "public, max-age=31536000, immutable";

const fn plain(path: &'static str, content: &'static str) -> ConsoleFile {
    ConsoleFile {
        path,
        plain: content.as_bytes(),
        gzip: None,
        brotli: None,
    }
}

/// A console with a file of each kind. Its compressed forms are words, so that a test sees which one came.
async fn bed() -> Bed {
    let script = ConsoleFile {
        gzip: Some(b"zipped"),
        brotli: Some(b"br"),
        ..plain("assets/index-B1x9_z-0.js", "console.log('a script')")
    };
    Bed::with_console(Console::new(&[
        script,
        plain("index.html", HTML),
        plain("assets/chunks/deep-1.css", "a {}"),
        plain("sw.js", "self"),
        plain("manifest.webmanifest", "{}"),
        plain("quiet.svg", "<svg/>"),
    ]))
    .await
}

/// An answer to a browser, which has no token.
struct Got {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Got {
    #[track_caller]
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

async fn ask(bed: &Bed, method: Method, path: &str, headers: &[(header::HeaderName, &str)]) -> Got {
    let mut request = axum::http::Request::builder().method(method).uri(path);
    if headers.iter().all(|(name, _)| name != header::HOST) {
        request = request.header(header::HOST, "127.0.0.1:7433");
    }
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    let response = bed
        .router()
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    Got {
        status: parts.status,
        headers: parts.headers,
        body: body.collect().await.unwrap().to_bytes().to_vec(),
    }
}

async fn get(bed: &Bed, path: &str) -> Got {
    ask(bed, Method::GET, path, &[]).await
}

#[tokio::test]
async fn every_address_of_a_page_has_the_page_without_a_token() {
    let bed = bed().await;
    for path in [
        "/",
        "/?q=login&state=working",
        "/needs",
        "/needs?state=decided",
        "/needs/7f3c",
        "/s/0198",
        "/s/0198/r/42",
        "/s/0198/r/42/raw",
        "/s/0198/agent/toolu_1",
        "/s/0198/changes",
        "/new?cwd=%2Ftmp",
        "/watch",
        "/usage",
        "/health",
        "/settings/logins",
        "/open",
        "/login",
    ] {
        let page = get(&bed, path).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.body, HTML.as_bytes(), "{path}");
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(page.header("cache-control"), "no-cache", "{path}");
    }
    // A stale token of a browser does no harm.
    let wrong = ask(&bed, Method::GET, "/", &[(header::AUTHORIZATION, "Bearer old")]).await;
    assert_eq!(wrong.status, 200);
}

#[tokio::test]
async fn a_browser_lets_the_page_do_nothing_but_its_work() {
    let bed = bed().await;
    for path in ["/", "/s/0198", SCRIPT, "/sw.js"] {
        let got = get(&bed, path).await;
        let policy = got.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types trunkline-template",
        ] {
            assert!(policy.split("; ").any(|it| it == part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(got.header(name), value, "{path} {name}");
        }
        assert!(got.header("permissions-policy").contains("microphone=()"));
    }
}

#[tokio::test]
async fn files_with_hashed_names_are_kept_and_the_others_asked_for() {
    let bed = bed().await;
    for (path, content_type, cache) in [
        (SCRIPT, "text/javascript; charset=utf-8", YEAR),
        ("/assets/chunks/deep-1.css", "text/css; charset=utf-8", YEAR),
        ("/sw.js", "text/javascript; charset=utf-8", "no-cache"),
        ("/manifest.webmanifest", "application/manifest+json", "no-cache"),
        ("/quiet.svg", "image/svg+xml", "no-cache"),
    ] {
        let got = get(&bed, path).await;
        assert_eq!(got.status, 200, "{path}");
        assert_eq!(got.header("content-type"), content_type, "{path}");
        assert_eq!(got.header("cache-control"), cache, "{path}");
    }
}

#[tokio::test]
async fn a_file_comes_in_the_smallest_form_that_the_browser_takes() {
    let bed = bed().await;
    let mut tags = Vec::new();
    for (takes, coding, body) in [
        ("gzip, deflate, br, zstd", "br", &b"br"[..]),
        ("gzip", "gzip", b"zipped"),
        ("br;q=0, gzip", "gzip", b"zipped"),
        ("identity", "", b"console.log('a script')"),
    ] {
        let got = ask(&bed, Method::GET, SCRIPT, &[(header::ACCEPT_ENCODING, takes)]).await;
        assert_eq!(got.header("content-encoding"), coding, "{takes}");
        assert_eq!(got.body, body, "{takes}");
        assert_eq!(got.header("vary"), "accept-encoding");
        tags.push(got.header("etag").to_owned());
    }
    assert_eq!(tags[1], tags[2]);
    tags.dedup();
    assert_eq!(tags.len(), 3, "each form has a tag of its own: {tags:?}");
    let without = ask(
        &bed,
        Method::GET,
        "/quiet.svg",
        &[(header::ACCEPT_ENCODING, "br")],
    )
    .await;
    assert_eq!(without.header("content-encoding"), "");
    assert_eq!(without.body, b"<svg/>");
}

#[tokio::test]
async fn a_browser_that_has_a_file_is_told_so() {
    let bed = bed().await;
    for path in ["/", "/s/0198", SCRIPT] {
        let takes = (header::ACCEPT_ENCODING, "br");
        let first = ask(&bed, Method::GET, path, std::slice::from_ref(&takes)).await;
        let tag = first.header("etag");
        assert!(tag.starts_with('"') && tag.len() > 20, "{tag}");
        let known = (header::IF_NONE_MATCH, tag);
        let again = ask(&bed, Method::GET, path, &[takes.clone(), known]).await;
        assert_eq!(again.status, 304, "{path}");
        assert!(again.body.is_empty());
        assert_eq!(again.header("etag"), tag);
        assert_eq!(again.header("cache-control"), first.header("cache-control"));
        let other = (header::IF_NONE_MATCH, "\"another\"");
        let head = ask(&bed, Method::HEAD, path, &[takes, other]).await;
        assert_eq!(
            (head.status.as_u16(), head.body.is_empty()),
            (200, true),
            "{path}"
        );
        assert_eq!(head.header("content-length"), first.body.len().to_string());
        assert_eq!(head.header("etag"), tag);
    }
}

#[tokio::test]
async fn the_console_opens_no_other_path() {
    let bed = bed().await;
    // Nobody learns which paths there are without the token.
    for path in [
        "/nothing",
        "/index.html",
        "/s",
        "/needs/",
        "/v1/sessions",
        "/v1/../sw.js",
        "/sw.js/",
        "/assets",
    ] {
        let got = get(&bed, path).await;
        assert_eq!(got.status, 401, "{path}");
    }
    bed.get("/nothing").await.problem(404, "route_not_found");
    for path in [
        "/assets/none.js",
        "/assets/../sw.js",
        "/assets/%2e%2e/sw.js",
        "/assets/chunks",
    ] {
        bed.get(path).await.problem(404, "route_not_found");
        let got = get(&bed, path).await;
        assert_eq!(got.header("cache-control"), "no-store", "{path}");
    }
    for path in ["/", SCRIPT, "/s/0198"] {
        bed.call(Method::POST, path)
            .await
            .problem(405, "method_not_allowed");
        let foreign = ask(&bed, Method::GET, path, &[(header::HOST, "attacker.example")]).await;
        assert_eq!(foreign.status, 421, "{path}");
        let page = [(header::ORIGIN, "http://127.0.0.1:3000")];
        let foreign = ask(&bed, Method::GET, path, &page).await;
        assert_eq!(foreign.status, 403, "{path}");
    }
}

#[tokio::test]
async fn a_program_without_a_console_says_how_to_get_one() {
    let bed = Bed::with_console(Console::new(&[])).await;
    for path in ["/", "/s/0198", "/login"] {
        let got = get(&bed, path).await;
        assert_eq!(got.status, 200, "{path}");
        let text = String::from_utf8(got.body.clone()).unwrap();
        assert!(
            text.contains("make run") && text.contains("Node 20") && !text.contains("<script"),
            "{text}"
        );
        let policy = got.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; ") && !policy.contains("script-src"),
            "{policy}"
        );
        assert_eq!(got.header("cache-control"), "no-cache");
    }
    bed.get("/assets/index.js").await.problem(404, "route_not_found");
    assert_eq!(get(&bed, "/sw.js").await.status, 401);
}
