//! Owns how a file beside the journal is read and replaced: one that holds what no record may.

use std::{io, path::Path};

use crate::files;

/// All bytes of a file in the folder of a journal; `None` when there is none.
///
/// # Errors
/// Those of opening and reading; it is something else than a file.
pub fn read_beside(dir: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    match files::read(&dir.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts a file that only its owner can read in the place of what was there: a reader sees all of it or nothing.
///
/// # Errors
/// Those of writing and renaming.
pub fn replace_beside(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = dir.join(name);
    files::replace(&path, &path.with_extension("new"), bytes)
}
