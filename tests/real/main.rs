//! Owns the tests of the running daemon with the real CLI and the stand-in model API, over REST and WebSocket.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    reason = "tests fail by panicking and start programs that use the daemon; their amounts are small"
)]

#[path = "../support/mod.rs"]
mod support;

mod background;
mod backup;
mod browser_sdk;
mod choices;
mod clients;
mod controls;
mod conversations;
mod deferred;
mod elicitation;
mod environment;
mod fork;
mod hook_events;
mod hooks;
mod host_controls;
mod interrupts;
mod last_words;
mod later;
mod limits;
mod login;
mod mcp;
mod mcp_controls;
mod money;
mod official_sdks;
mod options_change;
mod parity;
mod park;
mod permissions;
mod questions;
mod restart;
mod resume;
mod rules;
mod shrunk;
mod socket;
mod stops;
mod taken_back;
mod tools;
mod turns;
mod warm;
mod watching;
mod world;
