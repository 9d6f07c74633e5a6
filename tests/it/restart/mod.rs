//! Owns the tests of a daemon that dies and comes back, and of what its sessions and clients notice: nothing, if they can.
#![expect(clippy::unwrap_used, reason = "tests and their helpers fail by panicking")]

mod approvals;
mod asked;
mod backoff;
mod before;
mod closing;
mod copied;
mod deletions;
mod files;
mod follower;
mod frozen;
mod instance;
mod journal;
mod lost;
mod many;
mod moments;
mod not_files;
mod phases;
mod real;
mod rebuild;
mod replaced;
mod retention;
mod session_files;
mod shutdown;
mod sockets;
mod stopping;
mod unreadable;
mod versions;
