//! Tests the HTTP side through its real router, on a real store and real journals, without any agent process.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests fail by panicking and spawn what they talk to"
)]

mod bodies;
mod compression;
mod console;
mod contract;
mod conversation;
mod events;
mod export;
mod find;
mod guards;
mod harness;
mod idempotency;
mod logins;
mod protocol;
mod roles;
mod sessions;
mod sockets;
mod tickets;
