//! Owns the tests of the daemon as a service: what it tells a service manager and takes from it, its units, and its duties as
//! process 1 of a container.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests and their helpers fail by panicking"
)]

mod commands;
mod container;
mod image;
mod install;
mod layout;
mod log;
mod machine;
mod manager;
mod notify;
mod sockets;
mod systemd;
mod units;
