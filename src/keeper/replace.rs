//! Owns the two ends of a daemon that becomes another program in its place, under the same process id: the step itself, and the
//! keepers, which are children of the process and so of a program that did not start them.

use std::{
    convert::Infallible, ffi::OsString, io, os::unix::process::CommandExt as _, path::Path, process::Command,
};

use nix::{
    sys::wait::{WaitPidFlag, WaitStatus, waitpid},
    unistd::Pid,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::os;

/// Becomes `program`, with exactly this environment. Files that are not marked to stay open are closed.
///
/// # Errors
/// The system refuses the program; nothing has changed then.
pub fn replace_this_process(
    program: &Path,
    args: &[OsString],
    env: &[(OsString, OsString)],
) -> io::Result<Infallible> {
    #[expect(
        clippy::disallowed_methods,
        reason = "no process is started: this one becomes another program"
    )]
    let mut command = Command::new(program);
    command.args(args).env_clear();
    command.envs(env.iter().map(|(name, value)| (name, value)));
    Err(command.exec())
}

/// The children that the program before this one left to it. Call it before this program starts any.
///
/// # Errors
/// The processes cannot be listed.
pub fn inherited_children() -> io::Result<Vec<Pid>> {
    os::children()
}

/// Reaps `children` as they end, until all have, or `end`.
pub async fn reap_inherited(mut children: Vec<Pid>, end: CancellationToken) {
    // Before the first look, so that no end is missed.
    let Ok(mut ended) = signal(SignalKind::child()) else {
        return;
    };
    loop {
        children.retain(|pid| {
            matches!(
                waitpid(*pid, Some(WaitPidFlag::WNOHANG)),
                Ok(WaitStatus::StillAlive)
            )
        });
        if children.is_empty() {
            return;
        }
        // Both are cancel-safe.
        tokio::select! {
            _ = ended.recv() => {}
            () = end.cancelled() => return,
        }
    }
}
