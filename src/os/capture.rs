//! Owns short helper commands, such as asking the CLI for its version: run, collect, never longer than a deadline.

use std::{ffi::OsStr, io, path::Path, process::Stdio, time::Duration};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    time::timeout,
};

use super::file_limits::{given_open_files, limit_open_files};

/// The most of each stream that is kept, in bytes. The rest is read and dropped.
const CAPTURE_LIMIT_BYTES: usize = 256 << 10;

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The first 256 KiB of stdout.
    pub stdout: Vec<u8>,
    /// The first 256 KiB of stderr.
    pub stderr: Vec<u8>,
}

/// Why a command gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It cannot be started.
    #[error("command cannot be started")]
    Spawn(#[source] io::Error),
    /// It was still running, or its output was still open, at the deadline. It and its group were killed.
    #[error("command did not end in time")]
    Timeout,
    /// Its output cannot be read.
    #[error("output of the command cannot be read")]
    Read(#[source] io::Error),
}

/// Runs a program to its end with exactly this environment and no stdin.
///
/// # Errors
/// See [`CaptureError`].
pub async fn capture<A: AsRef<OsStr> + Sync>(
    program: &Path,
    args: &[A],
    env: &[(String, String)],
    deadline: Duration,
) -> Result<Captured, CaptureError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that runs helper commands"
    )]
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(given) = given_open_files() {
        // SAFETY: the closure runs between fork and exec and makes system calls only, getrlimit and setrlimit. It does not
        // allocate, lock or touch shared state.
        #[expect(unsafe_code, reason = "no safe way to act between fork and exec")]
        unsafe {
            command.pre_exec(move || limit_open_files(Some(given)));
        }
    }
    let mut group = Group(command.spawn().map_err(CaptureError::Spawn)?);
    let child = &mut group.0;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let run = async {
        let (stdout, stderr) = tokio::try_join!(collect(stdout), collect(stderr))?;
        let status = child.wait().await?;
        Ok(Captured {
            code: status.code(),
            stdout,
            stderr,
        })
    };
    match timeout(deadline, run).await {
        Ok(result) => result.map_err(CaptureError::Read),
        Err(_) => {
            group.kill();
            let _ = group.0.wait().await;
            Err(CaptureError::Timeout)
        }
    }
}

/// A command and all that it started. A caller that leaves before the end takes them with it.
struct Group(Child);

impl Group {
    fn kill(&self) {
        // Not reaped yet, so the group is still its own.
        if let Some(pid) = self.0.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn collect(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let Some(mut pipe) = pipe else {
        return Ok(kept);
    };
    let mut buffer = vec![0; 8 << 10];
    loop {
        let bytes = pipe.read(&mut buffer).await?;
        if bytes == 0 {
            return Ok(kept);
        }
        let room = CAPTURE_LIMIT_BYTES - kept.len();
        kept.extend_from_slice(buffer.get(..bytes.min(room)).unwrap_or_default());
    }
}
