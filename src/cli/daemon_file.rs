//! Owns `daemon.json`: how local clients find the daemon. It is there exactly while a daemon is ready.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{domain::Timestamp, files};

/// A running daemon's description of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DaemonFile {
    /// Base URL of the HTTP API.
    pub(super) url: String,
    /// Unix socket of the API, if it has one.
    pub(super) socket: Option<PathBuf>,
    /// Process id.
    pub(super) pid: u32,
    /// Version of the program.
    pub(super) version: String,
    /// When it got ready.
    pub(super) started_at: Timestamp,
}

impl DaemonFile {
    /// Reads the file of a data directory; `None` if there is none.
    pub(super) fn read(data_dir: &Path) -> io::Result<Option<Self>> {
        match files::read(&path(data_dir)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the file, readable by its owner only. A reader sees the old or the new one, never a part.
    pub(super) fn write(&self, data_dir: &Path) -> io::Result<()> {
        let new = data_dir.join("daemon.json.new");
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        files::replace(&path(data_dir), &new, &text)
    }

    /// Removes the file of a data directory.
    pub(super) fn remove(data_dir: &Path) -> io::Result<()> {
        fs::remove_file(path(data_dir))
    }
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("daemon.json")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_private() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(DaemonFile::read(dir.path()).unwrap(), None);
        let file = DaemonFile {
            url: "http://127.0.0.1:7433".into(),
            socket: None,
            pid: 7,
            version: "0.1.0".into(),
            started_at: Timestamp::from_micros(0),
        };
        file.write(dir.path()).unwrap();
        assert_eq!(DaemonFile::read(dir.path()).unwrap(), Some(file));
        let mode = fs::metadata(path(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        DaemonFile::remove(dir.path()).unwrap();
        assert_eq!(DaemonFile::read(dir.path()).unwrap(), None);

        fs::write(path(dir.path()), "{").unwrap();
        assert!(DaemonFile::read(dir.path()).is_err());
    }
}
