//! Owns how a request of the console shows its login. A browser sends a cookie to every port of a host, and an agent may have a
//! server on any: so the cookie opens nothing without the key, which the page keeps in its own storage and sends as a header, or, as
//! pages set none on a WebSocket, as a sub-protocol; and both open nothing unless the browser says that a page of ours asks.

use std::fmt::Write as _;

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, header, uri::Authority},
};

use super::{credential, hosts::is_loopback};
use crate::{
    auth::Shown,
    domain::LOGIN_LIFE_MS,
    http::{ApiError, AppState, ErrorCode, ws::LOGIN_PREFIX},
};

/// The header with the half of a login that the page keeps.
const KEY: HeaderName = HeaderName::from_static("trunkline-login");
/// The browser's word about the page that asks, which no page can set.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The beginning of the cookie's name.
const COOKIE: &str = "trunkline";
/// The paths that the cookie is for: the page also reads `/readyz` and `/metrics`.
const COOKIE_PATH: &str = "/";
/// Cookies of our name that are compared. A server of another port can add some, of narrower paths, in front of ours.
const MOST_COOKIES: usize = 8;

/// A credential that was shown, and the cookie to be sent again so that the browser keeps it.
pub(super) struct Login {
    pub(super) shown: Shown,
    pub(super) renewed: Option<HeaderValue>,
}

/// The login of a request, if it says that it has one.
///
/// # Errors
/// `login_invalid` when it does not hold, or the request is of no page of ours.
pub(super) fn take(state: &AppState, request: &Request, host: &str) -> Result<Option<Login>, ApiError> {
    let headers = request.headers();
    let Some(key) = key_of(headers) else {
        return Ok(None);
    };
    let invalid = || credential::refusal(ErrorCode::LoginInvalid);
    // Browsers name the page of every socket, and ask nobody before they send the sub-protocols of one.
    let is_named = headers.contains_key(KEY) || headers.contains_key(header::ORIGIN);
    if !is_named || !is_of_our_page(request.method(), headers, host) {
        return Err(invalid().detail("the request is of no page of this daemon"));
    }
    let cookies = cookies(headers, &cookie_name(host));
    let entered = state.logins().enter(&cookies, key).ok_or_else(invalid)?;
    let renewed = entered.renewed.and_then(|place| cookies.get(place));
    Ok(Some(Login {
        shown: entered.shown,
        renewed: renewed.and_then(|cookie| set_cookie(headers, cookie)),
    }))
}

/// The half of a login that the page shows; one that is no text is none of ours.
fn key_of(headers: &HeaderMap) -> Option<&str> {
    let in_header = headers.get(KEY).map(|key| key.to_str().unwrap_or_default());
    in_header.or_else(|| credential::protocols(headers).find_map(|name| name.strip_prefix(LOGIN_PREFIX)))
}

/// Whether the browser says that the page that asks is ours: by the Origin, or, where it sends none, as for a GET of the page's own
/// origin, by `Sec-Fetch-Site`. To another machine without TLS browsers say neither with a GET. Then it is the key's header that says
/// it: no browser sends that for a page of another origin, as preflights do not allow it.
fn is_of_our_page(method: &Method, headers: &HeaderMap, host: &str) -> bool {
    let mut sites = headers.get_all(FETCH_SITE).iter();
    let site = sites.next();
    let is_same = site.is_some_and(|site| site == "same-origin") && sites.next().is_none();
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (Some(origin), None) => is_ours(origin, host) && (site.is_none() || is_same),
        (None, _) if site.is_none() => {
            matches!(*method, Method::GET | Method::HEAD) && !is_this_machine(host)
        }
        (None, _) => is_same,
        (Some(_), Some(_)) => false,
    }
}

/// Whether a browser takes the host for one that nobody can listen to on the way.
fn is_this_machine(host: &str) -> bool {
    let authority = host.parse::<Authority>();
    authority.is_ok_and(|authority| is_loopback(authority.host()))
}

/// Whether an Origin is that of the host that was asked.
fn is_ours(origin: &HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
    ["http://", "https://"]
        .iter()
        .any(|scheme| origin.strip_prefix(scheme) == Some(host))
}

/// The values of the cookies of this name.
fn cookies<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let pairs = headers.get_all(header::COOKIE).iter();
    let pairs = pairs.filter_map(|value| value.to_str().ok());
    pairs
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(of, _)| *of == name)
        .map(|(_, value)| value)
        .take(MOST_COOKIES)
        .collect()
}

/// The name of our cookie. It has the port, as all ports of a host share their cookies, and another daemon may be at one.
fn cookie_name(host: &str) -> String {
    let authority = host.parse::<Authority>().ok();
    match authority.and_then(|authority| authority.port_u16()) {
        Some(port) => format!("{COOKIE}_{port}"),
        None => COOKIE.to_owned(),
    }
}

/// The header that gives a browser its half.
pub(in crate::http) fn set_cookie(headers: &HeaderMap, secret: &str) -> Option<HeaderValue> {
    cookie(headers, secret, LOGIN_LIFE_MS / 1_000)
}

/// The header that takes a browser its half.
pub(in crate::http) fn clear_cookie(headers: &HeaderMap) -> Option<HeaderValue> {
    cookie(headers, "", 0)
}

fn cookie(headers: &HeaderMap, secret: &str, seconds: u64) -> Option<HeaderValue> {
    let host = headers.get(header::HOST)?.to_str().ok()?.to_ascii_lowercase();
    let name = cookie_name(&host);
    let mut text =
        format!("{name}={secret}; HttpOnly; SameSite=Strict; Path={COOKIE_PATH}; Max-Age={seconds}");
    // The browser says how it reached our page. Nobody else's word is taken: a header of a proxy could be a client's own.
    let origin = headers.get(header::ORIGIN);
    let is_https = origin.is_some_and(|it| it.as_bytes().starts_with(b"https://") && is_ours(it, &host));
    if is_https {
        // A text takes all that is written into it.
        let _ = write!(text, "; Secure");
    }
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "127.0.0.1:7433";

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn only_a_browser_that_names_our_page_is_let_in() {
        let of = |method: Method, pairs: &[(HeaderName, &str)], host: &str| {
            is_of_our_page(&method, &headers(pairs), host)
        };
        let is_ours = |pairs: &[(HeaderName, &str)]| of(Method::GET, pairs, HOST);
        for ours in [
            &[(header::ORIGIN, "http://127.0.0.1:7433")][..],
            &[(header::ORIGIN, "https://127.0.0.1:7433")],
            &[
                (header::ORIGIN, "http://127.0.0.1:7433"),
                (FETCH_SITE, "same-origin"),
            ],
            &[(FETCH_SITE, "same-origin")],
        ] {
            assert!(is_ours(ours), "{ours:?}");
        }
        for other in [
            &[][..],
            &[(header::ORIGIN, "http://127.0.0.1:3000")],
            &[(header::ORIGIN, "http://localhost:7433")],
            &[(header::ORIGIN, "null")],
            &[(header::ORIGIN, "")],
            &[(FETCH_SITE, "none")],
            &[(FETCH_SITE, "same-site")],
            &[(FETCH_SITE, "cross-site")],
            &[
                (header::ORIGIN, "http://127.0.0.1:7433"),
                (FETCH_SITE, "same-site"),
            ],
            &[(FETCH_SITE, "same-origin"), (FETCH_SITE, "cross-site")],
            &[
                (header::ORIGIN, "http://127.0.0.1:7433"),
                (header::ORIGIN, "http://127.0.0.1:3000"),
            ],
        ] {
            assert!(!is_ours(other), "{other:?}");
        }
        // Browsers tell nothing of a GET to another machine without TLS.
        let far = "192.168.1.5:7433";
        assert!(of(Method::GET, &[], far) && of(Method::HEAD, &[], far));
        assert!(!of(Method::DELETE, &[], far));
        assert!(!of(Method::GET, &[(FETCH_SITE, "cross-site")], far));
        assert!(!of(
            Method::GET,
            &[(header::ORIGIN, "http://192.168.1.5:3000")],
            far
        ));
    }

    #[test]
    fn the_cookie_is_that_of_the_port_and_of_nobody_else() {
        assert_eq!(cookie_name(HOST), "trunkline_7433");
        assert_eq!(cookie_name("[::1]:7433"), "trunkline_7433");
        assert_eq!(cookie_name("desk.example"), "trunkline");
        let sent = headers(&[
            (header::COOKIE, "a=b; trunkline_7434=x;trunkline_7433=one"),
            (header::COOKIE, "trunkline=y; trunkline_7433=two"),
        ]);
        assert_eq!(cookies(&sent, "trunkline_7433"), ["one", "two"]);
        let many = format!("{}trunkline_7433=last", "trunkline_7433=x; ".repeat(20));
        assert_eq!(
            cookies(&headers(&[(header::COOKIE, &many)]), "trunkline_7433").len(),
            MOST_COOKIES
        );
    }

    #[test]
    fn the_cookie_is_for_https_alone_only_where_our_page_came_so() {
        let is_secure = |pairs: &[(HeaderName, &str)]| {
            let mut headers = headers(pairs);
            headers.insert(header::HOST, HeaderValue::from_static(HOST));
            let value = set_cookie(&headers, "secret").unwrap();
            let text = value.to_str().unwrap().to_owned();
            let plain = "trunkline_7433=secret; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000";
            assert!(text.starts_with(plain), "{text}");
            text.ends_with("; Secure")
        };
        assert!(is_secure(&[(header::ORIGIN, "https://127.0.0.1:7433")]));
        let forwarded = HeaderName::from_static("x-forwarded-proto");
        for plain in [
            &[][..],
            &[(header::ORIGIN, "http://127.0.0.1:7433")],
            &[(header::ORIGIN, "https://desk.example")],
            &[(forwarded, "https")],
        ] {
            assert!(!is_secure(plain), "{plain:?}");
        }
    }
}
