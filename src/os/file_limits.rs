//! Owns the limit of open files: the daemon takes what it may, and what it starts gets back what the daemon was given. Some
//! programs misbehave with large limits: they close every file that could be open, or use `select(2)`.

use std::{io, sync::OnceLock};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::os;

/// The soft limit that this process was started with.
static GIVEN: OnceLock<u64> = OnceLock::new();

/// Raises the soft limit of open files to the hard one, and gives it.
///
/// # Errors
/// The system refuses; the limit is what it was.
pub fn raise_open_files() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let _ = GIVEN.set(soft);
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}

/// How many files this process may have open; 0 when that cannot be told.
pub fn open_files_limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft)
}

/// The soft limit for what this process starts, if it has raised its own.
pub fn given_open_files() -> Option<u64> {
    GIVEN.get().copied()
}

/// Sets the soft limit of the calling process to what the daemon was given. It makes system calls only, so it may be called
/// between fork and exec.
pub(crate) fn limit_open_files(given: Option<u64>) -> io::Result<()> {
    let Some(given) = given else { return Ok(()) };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, given.min(hard), hard)?)
}

/// How many files this process can open yet; 0 when it cannot even look.
pub fn spare_files() -> u64 {
    let Ok((soft, _)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 0;
    };
    let open = os::open_files().map(|files| u64::try_from(files.len()).unwrap_or(u64::MAX));
    open.map_or(0, |open| soft.saturating_sub(open))
}
