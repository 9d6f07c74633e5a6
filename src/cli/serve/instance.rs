//! Owns the claim on a data directory: one daemon at a time, by a lock that the system drops with the process.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use nix::fcntl::{Flock, FlockArg};

use super::super::{CliError, daemon_file::DaemonFile};

/// The claim. It ends with the process, however that ends.
#[derive(Debug)]
pub(super) struct Instance {
    data_dir: PathBuf,
    _lock: Flock<fs::File>,
}

impl Instance {
    /// Makes the directory if needed, and claims it.
    pub(super) fn acquire(data_dir: &Path) -> Result<Self, CliError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(data_dir)
            .with_context(|| format!("cannot make {}", data_dir.display()))?;
        let path = data_dir.join("lock");
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => {
                let instance = Self {
                    data_dir: data_dir.into(),
                    _lock: lock,
                };
                // One that was killed could not withdraw it.
                instance.withdraw();
                Ok(instance)
            }
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Err(CliError::AlreadyRunning(held_by(data_dir))),
            Err((_, errno)) => Err(CliError::Other(
                anyhow::Error::new(errno).context(format!("cannot lock {}", path.display())),
            )),
        }
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

fn held_by(data_dir: &Path) -> String {
    let dir = data_dir.display();
    match DaemonFile::read(data_dir) {
        Ok(Some(file)) => format!(
            "another daemon (process {}, {}) uses the data directory {dir}",
            file.pid, file.url
        ),
        // It is starting, or ending.
        _ => format!("another daemon uses the data directory {dir}"),
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
        let first = Instance::acquire(&data).unwrap();
        let second = Instance::acquire(&data).unwrap_err();
        assert!(matches!(&second, CliError::AlreadyRunning(_)), "{second:?}");

        first
            .announce(&DaemonFile {
                url: "http://127.0.0.1:7".into(),
                socket: None,
                pid: 4711,
                version: "0".into(),
                started_at: Timestamp::from_micros(0),
            })
            .unwrap();
        let second = Instance::acquire(&data).unwrap_err();
        assert!(
            second.to_string().contains("process 4711, http://127.0.0.1:7"),
            "{second}"
        );

        drop(first);
        Instance::acquire(&data).unwrap();
        assert_eq!(
            DaemonFile::read(&data).unwrap(),
            None,
            "what the dead one left is gone"
        );
    }
}
