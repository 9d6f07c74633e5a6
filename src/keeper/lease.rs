//! Owns leases: a file per conversation of the CLI, whose lock is held for as long as a process may work on it.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use super::report::{LaunchFailure, LaunchFailureCause as Cause};
use crate::files;

/// Opens the lease file and takes its lock for as long as the file is held.
pub(super) fn take(path: &Path) -> Result<File, LaunchFailure> {
    let failed = |error| LaunchFailure::of_file(Cause::Lease, error);
    loop {
        let mut lease = File::options();
        lease
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let file = files::open_own(path, &lease).map_err(failed)?;
        match file.try_lock() {
            // One that was removed before it was locked would lock nobody out.
            Ok(()) if is_at(&file, path).map_err(failed)? => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let held = io::Error::from(io::ErrorKind::WouldBlock);
                return Err(LaunchFailure::new(Cause::LeaseHeld, held));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// Removes the lease files in `dir` that nobody holds: what keepers that were killed leave behind.
///
/// # Errors
/// The directory cannot be read. A file that cannot be opened or removed stays.
pub fn remove_free_leases(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        match files::open_own(&path, File::options().read(true)) {
            Ok(file) if file.try_lock().is_ok() => {
                // It is locked until it is gone, so nobody takes it in between.
                let _ = fs::remove_file(&path);
            }
            // Nobody can hold it, and it stands in the way of who will want to.
            Err(error) if files::is_not_a_file(&error) => drop(fs::remove_file(&path)),
            _ => {}
        }
    }
    Ok(())
}

/// Whether the path still names this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_holds_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (held, free) = (dir.path().join("held"), dir.path().join("free"));
        let lease = take(&held).unwrap();
        drop(take(&free).unwrap());
        remove_free_leases(dir.path()).unwrap();
        assert!(held.exists() && !free.exists());
        assert!(matches!(take(&held).unwrap_err().cause, Cause::LeaseHeld));
        drop(lease);
        take(&held).unwrap();
    }

    #[test]
    fn leases_that_are_removed_all_the_time_have_one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lease");
        let holders = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let Ok(lease) = take(&path) else { continue };
                        let others = holders.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        assert_eq!(others, 0, "two hold it");
                        std::thread::yield_now();
                        holders.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(lease);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..2_000 {
                    remove_free_leases(dir.path()).unwrap();
                }
            });
        });
    }
}
