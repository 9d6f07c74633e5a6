//! Owns the claim on a data directory: one daemon at a time, by a lock that the system drops with the process.

use std::{
    fs,
    io::Write as _,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use nix::fcntl::{Flock, FlockArg};

use super::super::{CliError, daemon_file::DaemonFile};
use crate::files;

/// The claim. It ends with the process, however that ends.
#[derive(Debug)]
pub(in crate::cli) struct Instance {
    data_dir: PathBuf,
    lock: Flock<fs::File>,
}

impl Instance {
    /// Makes the directory if needed, and claims it, or takes over the claim of the program that this process was before: the
    /// open file of its lock. Clients go on finding that one's successor.
    pub(in crate::cli) fn acquire(data_dir: &Path, inherited: Option<OwnedFd>) -> Result<Self, CliError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(data_dir)
            .with_context(|| format!("cannot make {}", data_dir.display()))?;
        let path = data_dir.join("lock");
        let inherited = inherited
            .map(fs::File::from)
            .filter(|file| is_file_at(file, &path));
        let is_handed_over = inherited.is_some();
        let file = match inherited {
            Some(file) => file,
            None => {
                let mut lock = fs::OpenOptions::new();
                lock.write(true).create(true).truncate(false).mode(0o600);
                files::open_own(&path, &lock).with_context(|| format!("cannot open {}", path.display()))?
            }
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => {
                // A daemon that is refused before there is a daemon.json tells its user this pid. A failed write is no
                // reason to end.
                let _ = lock
                    .set_len(0)
                    .and_then(|()| writeln!(&*lock, "{}", std::process::id()));
                let instance = Self {
                    data_dir: data_dir.into(),
                    lock,
                };
                if !is_handed_over {
                    // One that was killed could not withdraw it.
                    instance.withdraw();
                }
                Ok(instance)
            }
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Err(CliError::AlreadyRunning(held_by(data_dir))),
            Err((_, errno)) => Err(CliError::Other(
                anyhow::Error::new(errno).context(format!("cannot lock {}", path.display())),
            )),
        }
    }

    /// The open file of the lock.
    pub(super) fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Tells clients where the daemon is.
    pub(super) fn announce(&self, file: &DaemonFile) -> Result<(), CliError> {
        let path = self.data_dir.join("daemon.json");
        Ok(file
            .write(&self.data_dir)
            .with_context(|| format!("cannot write {}", path.display()))?)
    }

    /// Clients find no daemon from now on.
    pub(super) fn withdraw(&self) {
        if let Err(error) = DaemonFile::remove(&self.data_dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "daemon.json cannot be removed");
        }
    }
}

/// Whether an open file is the one at `path`.
fn is_file_at(file: &fs::File, path: &Path) -> bool {
    let same =
        |open: fs::Metadata, known: fs::Metadata| (open.dev(), open.ino()) == (known.dev(), known.ino());
    file.metadata()
        .and_then(|open| Ok(same(open, fs::metadata(path)?)))
        .unwrap_or(false)
}

fn held_by(data_dir: &Path) -> String {
    let dir = data_dir.display();
    match DaemonFile::read(data_dir) {
        Ok(Some(file)) => format!(
            "another daemon (process {}, {}) uses the data directory {dir}",
            file.pid, file.url
        ),
        // It is starting, or ending.
        _ => match files::read_to_string(&data_dir.join("lock")) {
            Ok(pid) if !pid.trim().is_empty() => {
                format!(
                    "another daemon (process {}) uses the data directory {dir}",
                    pid.trim()
                )
            }
            _ => format!("another daemon uses the data directory {dir}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    #[test]
    fn one_at_a_time_and_the_second_hears_who_is_first() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let first = Instance::acquire(&data, None).unwrap();
        let second = Instance::acquire(&data, None).unwrap_err();
        assert!(matches!(&second, CliError::AlreadyRunning(_)), "{second:?}");
        // Before it has said where it listens.
        let me = format!("process {})", std::process::id());
        assert!(second.to_string().contains(&me), "{second}");

        first
            .announce(&DaemonFile {
                url: "http://127.0.0.1:7".into(),
                socket: None,
                pid: 4711,
                version: "0".into(),
                started_at: Timestamp::from_micros(0),
            })
            .unwrap();
        let second = Instance::acquire(&data, None).unwrap_err();
        assert!(
            second.to_string().contains("process 4711, http://127.0.0.1:7"),
            "{second}"
        );

        // The open file alone says who is first, however often it is locked.
        let lock = first.lock().try_clone_to_owned().unwrap();
        let next = Instance::acquire(&data, Some(lock)).unwrap();
        assert!(
            DaemonFile::read(&data).unwrap().is_some(),
            "clients go on finding it"
        );
        let other = fs::File::open("/dev/null").unwrap();
        assert!(
            Instance::acquire(&data, Some(other.into())).is_err(),
            "another file claims nothing"
        );
        drop(next);

        drop(first);
        Instance::acquire(&data, None).unwrap();
        assert_eq!(
            DaemonFile::read(&data).unwrap(),
            None,
            "what the dead one left is gone"
        );
    }
}
