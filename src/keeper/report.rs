//! Owns the one line that a keeper prints: whether the process runs, or why not.

use std::{error::Error, fmt, io};

use serde::{Deserialize, Serialize};

use crate::domain::ErrorCode;

/// The line on the keeper's stdout.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    Ready(Ready),
    Failed(LaunchFailure),
}

/// The process runs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) child_pid: i32,
    pub(super) child_start_time: u64,
}

/// Why a keeper could not start the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{cause}: {detail}")]
pub struct LaunchFailure {
    /// The cause.
    pub cause: LaunchFailureCause,
    /// The operating system's words.
    pub detail: String,
}

/// The step on the way to a running process that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchFailureCause {
    /// The plan is not one.
    Plan,
    /// Another process writes this journal: the session has a living keeper.
    JournalLocked,
    /// The journal cannot be opened or written.
    Journal,
    /// The lease is held by somebody else.
    LeaseHeld,
    /// The lease file cannot be opened.
    Lease,
    /// The socket cannot be made.
    Socket,
    /// The identity file cannot be written.
    Identity,
    /// The program to start does not exist.
    ProgramMissing,
    /// The program to start is not an executable file, or may not be executed.
    ProgramNotExecutable,
    /// The working directory does not exist.
    CwdMissing,
    /// The working directory is not a directory.
    CwdNotDirectory,
    /// The working directory may not be entered.
    CwdForbidden,
    /// Arguments and environment are longer than the system takes.
    TooLong,
    /// The system has no room for another process.
    TooFewProcesses,
    /// The disk has no room for a file that a start needs.
    DiskFull,
    /// Anything else that the system said no to.
    System,
}

impl LaunchFailureCause {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::JournalLocked => "journal_locked",
            Self::Journal => "journal",
            Self::LeaseHeld => "lease_held",
            Self::Lease => "lease",
            Self::Socket => "socket",
            Self::Identity => "identity",
            Self::ProgramMissing => "program_missing",
            Self::ProgramNotExecutable => "program_not_executable",
            Self::CwdMissing => ErrorCode::CwdMissing.as_str(),
            Self::CwdNotDirectory => "cwd_not_directory",
            Self::CwdForbidden => "cwd_forbidden",
            Self::TooLong => "too_long",
            Self::TooFewProcesses => ErrorCode::TooFewProcesses.as_str(),
            Self::DiskFull => "disk_full",
            Self::System => "system",
        }
    }
}

impl fmt::Display for LaunchFailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan => "launch plan is malformed",
            Self::JournalLocked => "journal is in use by another process",
            Self::Journal => "journal cannot be written",
            Self::LeaseHeld => "lease is held by another process",
            Self::Lease => "lease file cannot be opened",
            Self::Socket => "socket cannot be made",
            Self::Identity => "identity file cannot be written",
            Self::ProgramMissing => "program does not exist",
            Self::ProgramNotExecutable => "program cannot be executed",
            Self::CwdMissing => "working directory does not exist",
            Self::CwdNotDirectory => "working directory is not a directory",
            Self::CwdForbidden => "working directory may not be entered",
            Self::TooLong => "arguments and environment are too long",
            Self::TooFewProcesses => "system has no room for another process",
            Self::DiskFull => "disk has no room",
            Self::System => "process cannot be started",
        })
    }
}

impl LaunchFailure {
    pub(super) fn new(cause: LaunchFailureCause, detail: impl fmt::Display) -> Self {
        Self {
            cause,
            detail: detail.to_string(),
        }
    }

    /// The failure of this part of a start: of the disk, if it had no room.
    pub(super) fn of_file(part: LaunchFailureCause, error: impl Error + 'static) -> Self {
        let mut causes =
            std::iter::successors(Some(&error as &(dyn Error + 'static)), |error| (*error).source());
        let is_full = causes.any(|cause| {
            cause.downcast_ref::<io::Error>().is_some_and(|error| {
                matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                )
            })
        });
        if is_full {
            Self::new(LaunchFailureCause::DiskFull, format!("{part}: {error}"))
        } else {
            Self::new(part, error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_failures_of_a_file() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let failure = LaunchFailure::of_file(LaunchFailureCause::Identity, io::Error::from(kind));
            assert_eq!(failure.cause, LaunchFailureCause::DiskFull);
            assert!(
                failure.detail.starts_with("identity file cannot be written: "),
                "{failure}"
            );
        }
        let other = io::Error::from(io::ErrorKind::PermissionDenied);
        let failure = LaunchFailure::of_file(LaunchFailureCause::Identity, other);
        assert_eq!(failure.cause, LaunchFailureCause::Identity);
    }
}
