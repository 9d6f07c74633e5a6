//! Owns the start of the agent process: its group, its tie to the keeper, and the reasons why it may not start.

use std::{
    io,
    os::{fd::AsFd, unix::process::CommandExt as _},
    path::Path,
    process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::{
        signal::{SigHandler, SigSet, Signal, signal},
        stat::{Mode, umask},
    },
    unistd::{AccessFlags, Pid, access, getpid},
};

use super::{
    plan::{LaunchPlan, RUN_MARKER},
    report::{LaunchFailure, LaunchFailureCause as Cause},
};
use crate::os;

/// A started process and our ends of its pipes, which do not block.
pub(super) struct Child {
    /// Also the id of its process group.
    pub(super) pid: Pid,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// Starts the process of the plan in its own group, with the umask that this process was given. It gets no file but its three
/// pipes, no ignored and no blocked signal, and is killed when this thread ends.
pub(super) fn spawn(plan: &LaunchPlan, mask: Mode) -> Result<Child, LaunchFailure> {
    check_cwd(&plan.cwd)?;
    let parent = getpid();
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that starts agent processes"
    )]
    let mut command = Command::new(&plan.program);
    command
        .args(&plan.args)
        .env_clear()
        .envs(plan.env.iter().map(|(name, value)| (name, value)))
        .env(RUN_MARKER, plan.run.to_string())
        .current_dir(&plan.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    // SAFETY: the closure runs between fork and exec of a process with one thread, and makes system calls only: prctl, getppid,
    // sigaction, sigprocmask, umask. It does not allocate, lock or touch shared state.
    #[expect(unsafe_code, reason = "no safe way to act between fork and exec")]
    unsafe {
        command.pre_exec(move || {
            os::die_with_parent(parent)?;
            // Ignored signals stay ignored over an exec; whoever started the daemon may have ignored some.
            for number in Signal::iterator() {
                // SIGKILL and SIGSTOP cannot be set and need not be.
                let _ = signal(number, SigHandler::SigDfl);
            }
            SigSet::empty().thread_set_mask()?;
            umask(mask);
            Ok(())
        });
    }
    let mut child = command.spawn().map_err(|error| explain(plan, &error))?;
    let system = |error: io::Error| LaunchFailure::new(Cause::System, error);
    let pid = i32::try_from(child.id()).map_err(|error| LaunchFailure::new(Cause::System, error))?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(LaunchFailure::new(Cause::System, "no pipes"));
    };
    do_not_block(&stdin).map_err(system)?;
    do_not_block(&stdout).map_err(system)?;
    do_not_block(&stderr).map_err(system)?;
    Ok(Child {
        pid: Pid::from_raw(pid),
        stdin,
        stdout,
        stderr,
    })
}

fn do_not_block(pipe: &impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(pipe, FcntlArg::F_GETFL)?);
    fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// The start itself says only that some file was not found, so the directory is looked at before.
fn check_cwd(cwd: &Path) -> Result<(), LaunchFailure> {
    let failed = |cause, error: io::Error| Err(LaunchFailure::new(cause, error));
    match cwd.metadata() {
        Ok(metadata) if !metadata.is_dir() => {
            failed(Cause::CwdNotDirectory, io::ErrorKind::NotADirectory.into())
        }
        Ok(_) => match access(cwd, AccessFlags::X_OK) {
            Ok(()) => Ok(()),
            Err(errno) => failed(Cause::CwdForbidden, errno.into()),
        },
        Err(error) => failed(
            match error.kind() {
                io::ErrorKind::NotFound => Cause::CwdMissing,
                io::ErrorKind::NotADirectory => Cause::CwdNotDirectory,
                io::ErrorKind::PermissionDenied => Cause::CwdForbidden,
                _ => Cause::System,
            },
            error,
        ),
    }
}

fn explain(plan: &LaunchPlan, error: &io::Error) -> LaunchFailure {
    let is_path = plan.program.components().count() > 1;
    let cause = match error.kind() {
        // A script whose interpreter is missing.
        io::ErrorKind::NotFound if is_path && plan.program.exists() => Cause::ProgramNotExecutable,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Cause::ProgramMissing,
        io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory | io::ErrorKind::ExecutableFileBusy => {
            Cause::ProgramNotExecutable
        }
        io::ErrorKind::ArgumentListTooLong => Cause::TooLong,
        // EAGAIN of fork(2).
        io::ErrorKind::WouldBlock => Cause::TooFewProcesses,
        _ => Cause::System,
    };
    LaunchFailure::new(cause, error)
}
