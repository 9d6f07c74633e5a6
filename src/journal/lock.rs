//! Owns the lock of a journal's folder: only its holder changes what is in it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::writer::{OpenError, open_or_make};
use crate::files;

const LOCK_FILE: &str = "lock";

/// The longest that a compaction holds the lock of a folder, with room for a slow disk.
const MOMENT: Duration = Duration::from_millis(500);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(2);

/// How long the lock is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as a compaction may hold it.
    OfAWriter,
    /// Not at all.
    None,
}

/// The lock of a folder without a writer. It is held until it is dropped, which is to be soon: a writer waits for it.
#[derive(Debug)]
pub struct FolderLock {
    pub(super) dir: PathBuf,
    _lock: File,
}

impl FolderLock {
    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes the lock; `None` when the journal has a writer.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn take(dir: &Path) -> Result<Option<Self>, OpenError> {
        match take(dir, Patience::None) {
            Ok(lock) => Ok(Some(Self {
                dir: dir.to_owned(),
                _lock: lock,
            })),
            Err(OpenError::Locked { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Takes the lock of the folder `dir`.
#[expect(
    clippy::disallowed_methods,
    reason = "a lock of flock(2) has no wait with a deadline, and this one is held for milliseconds"
)]
pub(super) fn take(dir: &Path, patience: Patience) -> Result<File, OpenError> {
    let path = lock_file(dir);
    let failed = |source| OpenError::Io {
        path: path.clone(),
        source,
    };
    let lock = open_or_make(&path).map_err(failed)?;
    let until = Instant::now() + MOMENT;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if patience == Patience::OfAWriter && Instant::now() < until => {
                thread::sleep(PAUSE);
            }
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked { dir: dir.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
}

/// The file whose lock the writer of the journal in `dir` holds.
pub fn lock_file(dir: &Path) -> PathBuf {
    dir.join(LOCK_FILE)
}

/// Whether the journal in `dir` has a writer. Unlike [`super::Writer::open`] it changes nothing. Where no lock can be there is no
/// writer; those who write find out that they can't.
///
/// # Errors
/// It cannot be told, as for want of a file descriptor: there may be a writer.
pub fn is_locked(dir: &Path) -> io::Result<bool> {
    let lock = match files::open(&lock_file(dir), OpenOptions::new().read(true)) {
        Ok(lock) => lock,
        Err(error) if files::is_inconclusive(&error) => return Err(error),
        Err(_) => return Ok(false),
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
