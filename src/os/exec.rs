//! Owns the two ends of a daemon that becomes another program in its place, under the same process id: the step itself, and the
//! keepers, which are children of the process and so of a program that did not start them.

use std::{
    convert::Infallible,
    ffi::{CString, OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use nix::{
    sys::wait::{WaitPidFlag, WaitStatus, waitpid},
    unistd::{Pid, execve},
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::file_limits::{given_open_files, limit_open_files};
use crate::os;

/// Becomes `program`, with exactly this environment. Files that are not marked to stay open are closed.
///
/// Signals that are blocked stay so, and those that wait are delivered to the program once it lets them through.
///
/// # Errors
/// The system refuses the program; nothing has changed then but the limit of open files, which is as this process was given it.
pub fn replace_this_process(
    program: &Path,
    args: &[OsString],
    env: &[(OsString, OsString)],
) -> io::Result<Infallible> {
    let mut argv = vec![text(program.as_os_str())?];
    for arg in args {
        argv.push(text(arg)?);
    }
    let mut envp = Vec::with_capacity(env.len());
    for (name, value) in env {
        let mut entry = name.clone();
        entry.push("=");
        entry.push(value);
        envp.push(text(&entry)?);
    }
    limit_open_files(given_open_files())?;
    Ok(execve(&text(program.as_os_str())?, &argv, &envp)?)
}

fn text(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
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
