//! Owns what integration tests share: the test programs, a daemon under test with its REST and WebSocket clients,
//! a server for what the daemon asks over HTTP, waiting for conditions, chance, and the commands that the documents show. A test binary takes it in with `mod support;`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking, start the programs under test, show their logs and seeds"
)]
#![expect(dead_code, reason = "each test binary uses a part")]

pub(crate) mod browser_sdk;
pub(crate) mod chance;
pub(crate) mod daemon;
pub(crate) mod event_stream;
pub(crate) mod lines;
pub(crate) mod link;
pub(crate) mod login;
pub(crate) mod model_api;
pub(crate) mod pages;
pub(crate) mod proc;
pub(crate) mod programs;
pub(crate) mod rest;
pub(crate) mod server;
pub(crate) mod stand_in;
pub(crate) mod store_lock;
pub(crate) mod wait;
pub(crate) mod ws;
