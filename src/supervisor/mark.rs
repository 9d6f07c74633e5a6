//! Owns the mark of a data directory: what tells processes of its sessions from those of any other daemon's.

use std::{
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use uuid::Uuid;

use super::SupervisorError;
use crate::files;

/// The file with the random part of the mark.
const FILE: &str = "mark";

/// The mark of this data directory. It is the same for each daemon that works on it, and another one for a copy of it: a
/// daemon on a copy must not take the processes of the original for its own.
pub(super) fn of(data_dir: &Path) -> Result<String, SupervisorError> {
    let path = data_dir.join(FILE);
    let random = random(&path).map_err(SupervisorError::files(&path))?;
    let place = data_dir.metadata().map_err(SupervisorError::files(data_dir))?;
    let place = format!("{}:{}", place.dev(), place.ino());
    Ok(Uuid::new_v5(&random, place.as_bytes()).to_string())
}

fn random(path: &Path) -> io::Result<Uuid> {
    match files::read_to_string(path).map(|text| text.trim().parse::<Uuid>()) {
        Ok(Ok(random)) => return Ok(random),
        // There is none, or what a loss of power left of one.
        Ok(Err(_)) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {}
        // One that cannot be read just now is not made anew: processes that live carry it.
        Err(error) => return Err(error),
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| io::Error::other("no random bytes"))?;
    let random = uuid::Builder::from_random_bytes(bytes).into_uuid();
    let mut new = std::fs::OpenOptions::new();
    new.write(true).create(true).truncate(true).mode(0o600);
    writeln!(files::open_own(path, &new)?, "{random}")?;
    Ok(random)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_stays_with_the_directory_and_a_copy_has_another() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir(&first).unwrap();
        fs::create_dir(&second).unwrap();
        let mark = of(&first).unwrap();
        assert_eq!(of(&first).unwrap(), mark);
        fs::copy(first.join(FILE), second.join(FILE)).unwrap();
        assert_ne!(of(&second).unwrap(), mark);
        let moved = dir.path().join("c");
        fs::rename(&first, &moved).unwrap();
        assert_eq!(of(&moved).unwrap(), mark);
        fs::write(moved.join(FILE), "rubbish").unwrap();
        assert_ne!(of(&moved).unwrap(), mark);
    }
}
