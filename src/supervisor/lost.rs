//! Owns the question whether the database was lost: folders of sessions lie beside none, or beside an empty one.
//!
//! A daemon that began with a new database would know none of these sessions, and would take their processes for nobody's.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    domain::SessionId,
    files,
    store::{Blank, Store},
};

use super::settings;

/// The database of a data directory is gone, and its sessions are not.
#[derive(Debug, thiserror::Error)]
#[error(
    "the database {} is {}, and {} holds {}; put the database back, or move that folder away to begin anew",
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
            let path = entry?.path();
            let id = path
                .file_name()
                .and_then(|name| name.to_str()?.parse::<SessionId>().ok());
            // A process that nobody has asked for is in no database, and a start that came to nothing has no journal.
            if let Some(id) = id
                && files::is_missing(&settings::warm(data_dir, id))
                && has_journal(&path)?
            {
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
