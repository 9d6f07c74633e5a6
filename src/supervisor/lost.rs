//! Owns the question whether the database was lost: folders of sessions lie beside none, or beside an empty one.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    domain::SessionId,
    files,
    store::{Blank, SessionFile, Store},
};

use super::settings;

/// The database of a data directory is gone, and its sessions are not.
#[derive(Debug, thiserror::Error)]
#[error(
    "the database {} is {}, and {} holds {}",
    database.display(),
    blank.as_str(),
    folder.display(),
    counted(*sessions)
)]
pub struct LostDatabase {
    /// Where the database should be.
    database: PathBuf,
    /// The state of the file.
    blank: Blank,
    /// Where the folders of the sessions are.
    folder: PathBuf,
    /// How many there are.
    sessions: usize,
}

impl LostDatabase {
    /// Looks at a data directory, and changes nothing.
    ///
    /// # Errors
    /// Something could not be looked at.
    pub fn find(data_dir: &Path) -> io::Result<Option<Self>> {
        let database = settings::database_file(data_dir);
        let Some(blank) = Store::blank(&database)? else {
            return Ok(None);
        };
        let folder = settings::sessions(data_dir);
        let mut sessions = 0;
        for entry in entries(&folder)? {
            if session_of(data_dir, &entry?.path())?.is_some() {
                sessions += 1;
            }
        }
        Ok((sessions > 0).then_some(Self {
            database,
            blank,
            folder,
            sessions,
        }))
    }
}

/// The session whose folder this is. A process that nobody has asked for is of none yet, and nobody was told of a session without
/// file and journal.
pub(super) fn session_of(data_dir: &Path, dir: &Path) -> io::Result<Option<SessionId>> {
    let id = dir.file_name().and_then(|name| name.to_str()?.parse().ok());
    let Some(id) = id else { return Ok(None) };
    let is_session = !files::is_missing(&SessionFile::path(dir))
        || (files::is_missing(&settings::warm(data_dir, id)) && has_journal(dir)?);
    Ok(is_session.then_some(id))
}

fn counted(sessions: usize) -> String {
    match sessions {
        1 => "1 session".to_owned(),
        sessions => format!("{sessions} sessions"),
    }
}

/// Whether the folder of a session has records in it.
pub(super) fn has_journal(dir: &Path) -> io::Result<bool> {
    for entry in entries(dir)? {
        if entry?
            .path()
            .extension()
            .is_some_and(|extension| extension == "ndjson")
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The entries of a folder; one that is not there, or is no folder, has none.
pub(super) fn entries(dir: &Path) -> io::Result<Box<dyn Iterator<Item = io::Result<std::fs::DirEntry>>>> {
    match std::fs::read_dir(dir) {
        Ok(entries) => Ok(Box::new(entries)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(Box::new(std::iter::empty()))
        }
        Err(error) => Err(error),
    }
}
