//! Owns the daemon's side of a start: run the keeper, hand over the plan, wait for its report, connect.

use std::{
    io,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{
    link::{AttachError, Link, attach},
    plan::LaunchPlan,
    report::{LaunchFailure, LaunchFailureCause, Report},
};

/// How long a keeper may take to report. It takes milliseconds unless a disk hangs.
const READY_DEADLINE: Duration = Duration::from_secs(15);

/// The longest report, and the most of a keeper's stderr that is read.
const REPORT_LIMIT_BYTES: u64 = 64 << 10;

/// Why a run could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The keeper said why. When the process itself could not be started, the journal has the `run_exited` record.
    #[error(transparent)]
    Failed(#[from] LaunchFailure),
    /// The plan cannot be written as JSON; a path is not UTF-8.
    #[error("launch plan cannot be written as JSON")]
    Plan(#[source] serde_json::Error),
    /// The keeper's own program cannot be run.
    #[error("keeper program cannot be run")]
    Keeper(#[source] io::Error),
    /// The keeper ended, or closed its report, without saying anything.
    #[error("keeper ended without a report: {stderr}")]
    NoReport {
        /// Its output on stderr.
        stderr: String,
    },
    /// The keeper said nothing in time and was killed, and with it what it had started.
    #[error("keeper did not report in time")]
    Timeout,
    /// The keeper ran but could not be connected to; it was asked to stop.
    #[error("keeper cannot be attached to")]
    Attach(#[source] AttachError),
}

impl LaunchError {
    /// The cause, where it is known. EAGAIN from fork(2), as under `ulimit -u`, is a want of processes.
    pub fn cause(&self) -> Option<LaunchFailureCause> {
        match self {
            Self::Keeper(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Some(LaunchFailureCause::TooFewProcesses)
            }
            Self::Failed(failure) => Some(failure.cause),
            _ => None,
        }
    }
}

/// Starts a keeper with `plan` and connects to it. The keeper is a process of its own session: it outlives this one.
/// A task of `tracker` reaps it; that task ends with the link.
///
/// Run it where it is not cancelled: a keeper whose launch is dropped half-way waits for a daemon to attach to it, for no longer
/// than its orphan grace.
///
/// # Errors
/// See [`LaunchError`].
pub async fn launch(
    keeper_program: &Path,
    plan: &LaunchPlan,
    tracker: &TaskTracker,
) -> Result<Link, LaunchError> {
    let plan_text = serde_json::to_vec(plan).map_err(LaunchError::Plan)?;
    let mut keeper = spawn(keeper_program).map_err(LaunchError::Keeper)?;
    let report = timeout(READY_DEADLINE, hand_over(&mut keeper, &plan_text)).await;
    match report {
        Ok(Ok(Report::Ready(_))) => {}
        Ok(Ok(Report::Failed(failure))) => {
            reap(keeper, None, tracker);
            return Err(failure.into());
        }
        Ok(Err(error)) => {
            let _ = keeper.start_kill();
            reap(keeper, None, tracker);
            return Err(error);
        }
        Err(_) => {
            let _ = keeper.start_kill();
            reap(keeper, None, tracker);
            return Err(LaunchError::Timeout);
        }
    }
    match attach_to_new(&plan.identity_file, tracker).await {
        Ok(link) => {
            reap(keeper, Some(&link), tracker);
            Ok(link)
        }
        Err(error) => {
            // Nobody will talk to it, so it shall not live.
            if let Some(pid) = keeper.id().and_then(|pid| i32::try_from(pid).ok()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
            reap(keeper, None, tracker);
            Err(LaunchError::Attach(error))
        }
    }
}

/// Attaches to a keeper that has just said that it is ready: silence is want of time, on one side or the other.
async fn attach_to_new(identity_file: &Path, tracker: &TaskTracker) -> Result<Link, AttachError> {
    let until = Instant::now() + READY_DEADLINE;
    loop {
        match attach(identity_file, tracker).await {
            Err(AttachError::Silent) if Instant::now() < until => {}
            attached => return attached,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts keepers")]
fn spawn(keeper_program: &Path) -> io::Result<Child> {
    Command::new(keeper_program)
        .arg0("trunkline")
        .arg("keeper")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(false)
        .spawn()
}

/// Writes the plan and reads the report.
async fn hand_over(keeper: &mut Child, plan: &[u8]) -> Result<Report, LaunchError> {
    if let Some(mut stdin) = keeper.stdin.take() {
        // A keeper that ended early says why on its other pipes.
        let _ = stdin.write_all(plan).await;
    }
    let mut report = Vec::new();
    if let Some(stdout) = keeper.stdout.take() {
        let _ = stdout.take(REPORT_LIMIT_BYTES).read_to_end(&mut report).await;
    }
    if let Ok(report) = serde_json::from_slice(&report) {
        return Ok(report);
    }
    let mut stderr = Vec::new();
    if let Some(pipe) = keeper.stderr.take() {
        let _ = pipe.take(REPORT_LIMIT_BYTES).read_to_end(&mut stderr).await;
    }
    Err(LaunchError::NoReport {
        stderr: String::from_utf8_lossy(&stderr).trim().to_owned(),
    })
}

/// Reaps the keeper when it ends. Once the link is gone the runtime does it by itself, so that this task does not keep a
/// daemon from ending while the keeper lives on.
fn reap(mut keeper: Child, link: Option<&Link>, tracker: &TaskTracker) {
    let over = link.map(|link| link.handle.over());
    tracker.spawn(async move {
        let ended = keeper.wait();
        match over {
            Some(over) => {
                let _ = over.run_until_cancelled(ended).await;
            }
            None => {
                let _ = ended.await;
            }
        }
    });
}
