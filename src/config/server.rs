//! Owns `[server]`.

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Problem, is_plain};

/// The listener, who may talk to it, and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Address and port; port 0 picks a free one.
    #[serde(deserialize_with = "listen_address")]
    pub listen: SocketAddr,
    /// `Host` names that are accepted beside loopback names.
    pub allowed_hosts: Vec<String>,
    /// `Origin` values that are accepted beside our own.
    pub allowed_origins: Vec<String>,
    /// Allows a listener that is not loopback.
    pub insecure: bool,
    /// The largest user message.
    pub max_prompt_bytes: u64,
    /// Streaming connections (WebSocket and event streams) at a time.
    pub max_connections: u32,
    /// Those of them that belong to one session.
    pub max_connections_per_session: u32,
    /// Connections that have shown no token.
    pub max_unauthenticated_connections: u32,
    /// Time for the head of a request.
    pub header_timeout_ms: u64,
    /// How long a connection is kept between two requests.
    pub idle_timeout_ms: u64,
    /// Time for the next piece of a request's body.
    pub body_timeout_ms: u64,
    /// Time between two pings on a WebSocket.
    pub ping_interval_ms: u64,
    /// How long one send to a client may take before it is dropped.
    pub send_timeout_ms: u64,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7433)),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            insecure: false,
            max_prompt_bytes: 64 * 1024 * 1024,
            max_connections: 1_024,
            max_connections_per_session: 64,
            max_unauthenticated_connections: 256,
            header_timeout_ms: 15_000,
            idle_timeout_ms: 120_000,
            body_timeout_ms: 30_000,
            ping_interval_ms: 20_000,
            send_timeout_ms: 30_000,
        }
    }
}

impl Server {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if !self.listen.ip().is_loopback() && !self.insecure {
            problems.push(Problem::new(
                "server.listen",
                format!(
                    "{} is reachable from other machines, and the connection is not encrypted; listen on \
                     127.0.0.1 behind a TLS proxy or an SSH tunnel, or say --insecure",
                    self.listen
                ),
            ));
        }
        if self
            .allowed_hosts
            .iter()
            .any(|host| !is_plain(host) || host.contains(['/', '*', ' ']))
        {
            problems.push(Problem::new(
                "server.allowed_hosts",
                "takes host names such as trunkline.example.org, without scheme, path or wildcard",
            ));
        }
        let is_origin = |text: &String| {
            text.strip_prefix("https://")
                .or_else(|| text.strip_prefix("http://"))
                .is_some_and(|rest| is_plain(rest) && !rest.contains(['/', '*', ' ']))
        };
        if !self.allowed_origins.iter().all(is_origin) {
            problems.push(Problem::new(
                "server.allowed_origins",
                "takes origins such as https://trunkline.example.org, without a path or wildcard",
            ));
        }
        for (key, value, least) in [
            ("server.max_prompt_bytes", self.max_prompt_bytes, 1024),
            ("server.max_connections", self.max_connections.into(), 1),
            (
                "server.max_connections_per_session",
                self.max_connections_per_session.into(),
                1,
            ),
            (
                "server.max_unauthenticated_connections",
                self.max_unauthenticated_connections.into(),
                8,
            ),
            ("server.header_timeout_ms", self.header_timeout_ms, 1_000),
            ("server.idle_timeout_ms", self.idle_timeout_ms, 1_000),
            ("server.body_timeout_ms", self.body_timeout_ms, 1_000),
            ("server.ping_interval_ms", self.ping_interval_ms, 1_000),
            ("server.send_timeout_ms", self.send_timeout_ms, 1_000),
        ] {
            if value < least {
                problems.push(Problem::new(key, format!("must be at least {least}")));
            }
        }
        if self.max_prompt_bytes > MOST_PROMPT_BYTES {
            problems.push(Problem::new(
                "server.max_prompt_bytes",
                format!("must be at most {MOST_PROMPT_BYTES}"),
            ));
        }
    }
}

/// A prompt is held in memory as one line, so there is an end to what can be allowed.
const MOST_PROMPT_BYTES: u64 = 1024 * 1024 * 1024;

/// People write `localhost`; the listener needs an address.
fn listen_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.clone(),
    };
    numeric.parse().map_err(|_| {
        serde::de::Error::custom(format_args!(
            "{text:?} is not an address with a port, such as 127.0.0.1:7433 or [::1]:0"
        ))
    })
}
