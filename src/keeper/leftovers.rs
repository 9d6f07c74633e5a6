//! Owns the search for processes of a run whose keeper is dead. A living keeper needs none of this.

use std::io;

use nix::sys::signal::{Signal, kill};

use super::{os, plan::RUN_MARKER};
use crate::domain::RunId;

/// How often the processes are listed; each round can only find what the last one missed.
const ROUNDS: u32 = 10;

/// The environment entry of every process of a run.
pub(super) fn marker(run: RunId) -> String {
    format!("{RUN_MARKER}={run}")
}

/// Kills every process of this user that carries the marker of `run`, and gives how many were found.
///
/// The agent itself dies with its keeper, but tools in sessions of their own do not. Call it once [`super::attach`] said that
/// the keeper's process is gone; it reads all of `/proc`, so call it where blocking is allowed.
///
/// # Errors
/// The processes cannot be listed.
pub fn kill_leftovers(run: RunId) -> io::Result<usize> {
    let marker = marker(run);
    let mut killed = 0;
    for _ in 0..ROUNDS {
        let found = os::survivors(marker.as_bytes(), false)?;
        if found.is_empty() {
            break;
        }
        killed += found.len();
        for pid in found {
            // It may have ended by itself.
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
    Ok(killed)
}

/// Whether this process lives, which one that nobody has reaped yet does not.
pub fn is_running(pid: i32) -> bool {
    let pid = nix::unistd::Pid::from_raw(pid);
    os::start_time(pid).is_ok() && !os::is_zombie(pid)
}
