//! Owns the tests of the HTTP and WebSocket interface of the running daemon, seen by a careless user and by an attacker.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests fail by panicking, mint ids and start programs of their own"
)]

mod approvals;
mod audit;
mod bodies;
mod browser;
mod common;
mod connect;
mod connections;
mod contract;
mod cwd;
mod docs_page;
mod examination;
mod find;
mod first_line;
mod frames;
mod hosts;
mod idempotency;
mod input;
mod lifecycle;
mod logins;
mod ndjson;
mod options;
mod prompts;
mod requests;
mod roles;
mod rules;
mod schema;
mod schemathesis;
mod secrets;
mod shells;
mod socket;
mod socket_limits;
mod stand_in;
mod strict;
mod tickets;
mod trust;
mod truths;
