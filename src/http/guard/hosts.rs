//! Owns which hosts are ours and which pages may talk to us. It stops pages that reach the daemon through a name that
//! was re-pointed at loopback, and pages of other origins.

use std::{collections::HashSet, net::IpAddr};

use axum::http::{HeaderMap, HeaderValue, Uri, header, uri::Authority};

use crate::http::{ApiError, ErrorCode};

/// The allow-lists, in lower case.
#[derive(Debug)]
pub(in crate::http) struct HostPolicy {
    hosts: HashSet<String>,
    origins: HashSet<String>,
}

impl HostPolicy {
    pub(in crate::http) fn new(hosts: &[String], origins: &[String]) -> Self {
        let lower = |names: &[String]| {
            names
                .iter()
                .map(|name| name.trim_end_matches('/').to_ascii_lowercase())
                .collect()
        };
        Self {
            hosts: lower(hosts),
            origins: lower(origins),
        }
    }

    /// The host that the request is meant for, in lower case and with its port.
    pub(in crate::http) fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<String, ApiError> {
        let mut values = headers.get_all(header::HOST).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(ErrorCode::HostMissing.into());
        };
        let authority = value
            .to_str()
            .ok()
            .and_then(|text| text.parse::<Authority>().ok())
            .ok_or_else(|| ApiError::new(ErrorCode::HostMissing))?;
        // A request line with a whole URL names a host of its own.
        for authority in [Some(&authority), uri.authority()].into_iter().flatten() {
            if !self.is_ours(authority) {
                return Err(ErrorCode::HostForbidden.into());
            }
        }
        Ok(authority.as_str().to_ascii_lowercase())
    }

    /// Refuses pages of other origins. Programs that are no browser send no Origin.
    pub(super) fn check_origin(&self, headers: &HeaderMap, host: &str) -> Result<(), ApiError> {
        for value in headers.get_all(header::ORIGIN) {
            let origin = value.to_str().unwrap_or_default().to_ascii_lowercase();
            let same = ["http://", "https://"]
                .iter()
                .any(|scheme| origin.strip_prefix(scheme) == Some(host));
            if !same && !self.origins.contains(&origin) {
                return Err(ErrorCode::OriginForbidden.into());
            }
        }
        Ok(())
    }

    /// Whether pages of other origins may use the daemon.
    pub(in crate::http) fn has_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    /// The origin of a page that the configuration lets in, as the browser wrote it.
    pub(in crate::http) fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut values = headers.get_all(header::ORIGIN).iter();
        let (origin, None) = (values.next()?, values.next()) else {
            return None;
        };
        let text = origin.to_str().ok()?.to_ascii_lowercase();
        self.origins.contains(&text).then(|| origin.clone())
    }

    fn is_ours(&self, authority: &Authority) -> bool {
        let whole = authority.as_str().to_ascii_lowercase();
        if whole.contains('@') {
            return false;
        }
        let host = authority.host().to_ascii_lowercase();
        is_loopback(&host) || self.hosts.contains(&host) || self.hosts.contains(&whole)
    }
}

/// Loopback under any port: a tunnel may give us another one.
pub(super) fn is_loopback(host: &str) -> bool {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> HostPolicy {
        HostPolicy::new(
            &["Desk.example".to_owned(), "tunnel.example:8443".to_owned()],
            &["https://app.example".to_owned()],
        )
    }

    fn host(value: &str, uri: &str) -> Result<String, ErrorCode> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(value).unwrap());
        policy()
            .check_host(&uri.parse().unwrap(), &headers)
            .map_err(|error| error.code())
    }

    #[test]
    fn loopback_and_configured_hosts_are_ours() {
        for ours in [
            "localhost",
            "LOCALHOST:7433",
            "127.0.0.1:7433",
            "127.8.9.10",
            "[::1]:7433",
            "desk.example",
            "DESK.example:1",
            "tunnel.example:8443",
        ] {
            assert_eq!(host(ours, "/"), Ok(ours.to_ascii_lowercase()), "{ours}");
        }
        assert!(host("localhost", "http://127.0.0.1:7433/v1/sessions").is_ok());
    }

    #[test]
    fn every_other_host_is_refused() {
        for other in [
            "attacker.example:7433",
            "127.0.0.1.nip.io",
            "localhost.attacker.example",
            "tunnel.example",
            "tunnel.example:1",
            "0.0.0.0:7433",
            "192.168.1.2",
            "localhost@attacker.example",
            "attacker@localhost",
            "[::]",
        ] {
            assert_eq!(host(other, "/"), Err(ErrorCode::HostForbidden), "{other}");
        }
        assert_eq!(host("", "/"), Err(ErrorCode::HostMissing));
        assert_eq!(
            host("localhost", "http://attacker.example/"),
            Err(ErrorCode::HostForbidden)
        );
    }

    #[test]
    fn no_host_or_two_hosts_are_refused() {
        let mut headers = HeaderMap::new();
        let check = |headers: &HeaderMap| policy().check_host(&Uri::from_static("/"), headers).is_err();
        assert!(check(&headers));
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(!check(&headers));
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(check(&headers));
    }

    #[test]
    fn only_our_own_pages_and_configured_ones_may_call() {
        let allowed = |origin: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
            policy().check_origin(&headers, "localhost:7433").is_ok()
        };
        for good in [
            "http://localhost:7433",
            "https://LOCALHOST:7433",
            "https://app.example",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in [
            "null",
            "",
            "http://localhost:3000",
            "http://localhost",
            "https://evil.example",
            "http://app.example",
            "ftp://localhost:7433",
            "http://localhost:7433.evil.example",
        ] {
            assert!(!allowed(bad), "{bad}");
        }
        assert!(policy().check_origin(&HeaderMap::new(), "localhost:7433").is_ok());
    }
}
