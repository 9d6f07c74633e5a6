//! Owns the settings of the HTTP side. `config` fills them in.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// How the daemon serves HTTP.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Host names that count as ours beside the loopback ones: `name` for any port, `name:port` for one.
    pub allowed_hosts: Vec<String>,
    /// Origins of pages that may use the daemon beside its own, as browsers send them: `https://host[:port]`.
    pub allowed_origins: Vec<String>,
    /// Largest prompt in bytes, and so the largest WebSocket message. Bodies with a prompt may be a little larger.
    pub max_prompt_bytes: usize,
    /// Most sockets and streams of one session.
    pub max_connections_per_session: usize,
    /// Most sockets and streams in all.
    pub max_connections: usize,
    /// Most connections that have shown no token.
    pub max_unauthenticated_connections: usize,
    /// Milliseconds in which the head of a request must have come.
    pub header_timeout_ms: u64,
    /// Milliseconds that a connection may be kept between two requests.
    pub idle_timeout_ms: u64,
    /// Milliseconds in which the next piece of a request's body must have come.
    pub body_timeout_ms: u64,
    /// Milliseconds between two pings of a WebSocket. Two without an answer end it.
    pub ping_interval_ms: u64,
    /// Milliseconds in which a WebSocket client must take one frame.
    pub send_timeout_ms: u64,
    /// Milliseconds that a closing WebSocket waits for the client's close frame.
    pub close_timeout_ms: u64,
    /// Milliseconds in which a ticket must be used.
    pub ticket_ms: u64,
    /// Milliseconds after which clients that are told of a shutdown are to come back.
    pub reconnect_after_ms: u64,
    /// Launch options by the name that `GET /v1/connect` takes for them.
    pub profiles: BTreeMap<String, Map<String, Value>>,
}

/// The configuration that a daemon began with, for people.
#[derive(Clone, Debug, Default)]
pub struct InForce {
    /// The file that was read, if there was one.
    pub file: Option<String>,
    /// Each key with its value and where that came from. Secrets are left out.
    pub values: Vec<(String, Value, String)>,
    /// Names of the variables that sessions get from the daemon.
    pub variables: Vec<String>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_prompt_bytes: 64 * 1024 * 1024,
            max_connections_per_session: 64,
            max_connections: 1_024,
            max_unauthenticated_connections: 256,
            header_timeout_ms: 15_000,
            idle_timeout_ms: 120_000,
            body_timeout_ms: 30_000,
            ping_interval_ms: 20_000,
            send_timeout_ms: 30_000,
            close_timeout_ms: 2_000,
            ticket_ms: 30_000,
            reconnect_after_ms: 2_000,
            profiles: BTreeMap::new(),
        }
    }
}
