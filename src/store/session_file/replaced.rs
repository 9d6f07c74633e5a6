//! Owns the files that a transaction has put in the place of others. Each earlier one keeps a second name until the transaction ends,
//! and comes back by a rename where it fails: a full disk allows that.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crate::files;

/// The place before a transaction.
#[derive(Clone, Copy, Debug)]
enum Earlier {
    /// A file, which has the name of [`beside`] too.
    Kept,
    Nothing,
}

/// The places that the transaction under way has changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Replaced(Arc<Mutex<BTreeMap<PathBuf, Earlier>>>);

impl Replaced {
    /// Puts a file in its place. Blocks.
    ///
    /// # Errors
    /// Those of keeping the earlier file and of [`files::replace_durably`]. The earlier file is in its place then.
    pub(super) fn put(&self, place: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut replaced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !replaced.contains_key(place) {
            replaced.insert(place.to_owned(), keep(place)?);
        }
        files::replace_durably(place, &place.with_extension("new"), bytes)
    }

    /// Ends the transaction. Blocks. A place that cannot be put right is logged, and the next change of it or the next start does it.
    pub(super) fn end(&self, is_committed: bool) {
        let mut replaced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, earlier) in std::mem::take(&mut *replaced) {
            let ended = match (is_committed, earlier) {
                (true, Earlier::Kept) => remove(&beside(&place)),
                (true, Earlier::Nothing) => Ok(()),
                // A rename of two names of one file keeps both.
                (false, Earlier::Kept) => {
                    fs::rename(beside(&place), &place).and_then(|()| remove(&beside(&place)))
                }
                (false, Earlier::Nothing) => remove(&place),
            };
            if let Err(error) = ended {
                let file = place.display();
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%file, is_committed, error, "a file was not put right at the end of its transaction");
            }
        }
    }

    /// Whether there is nothing to end.
    pub(super) fn is_empty(&self) -> bool {
        let replaced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        replaced.is_empty()
    }
}

/// The second name of an earlier file.
fn beside(place: &Path) -> PathBuf {
    place.with_extension("before")
}

/// Gives the file in this place a second name. A transaction over which the daemon died may have left that of another one.
fn keep(place: &Path) -> io::Result<Earlier> {
    let beside = beside(place);
    remove(&beside)?;
    match fs::hard_link(place, beside) {
        Ok(()) => Ok(Earlier::Kept),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Earlier::Nothing),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_transaction_that_fails_leaves_each_place_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (known, new) = (dir.path().join("known.json"), dir.path().join("new.json"));
        fs::write(&known, "before").unwrap();
        fs::write(dir.path().join("known.before"), "of a dead daemon").unwrap();
        let replaced = Replaced::default();
        for text in ["once", "twice"] {
            replaced.put(&known, text.as_bytes()).unwrap();
            replaced.put(&new, text.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&known).unwrap(), "twice");
        replaced.end(false);
        assert_eq!(fs::read_to_string(&known).unwrap(), "before");
        assert_eq!(names(dir.path()), ["known.json"]);
        assert!(replaced.is_empty());
    }

    #[test]
    fn a_transaction_that_is_committed_leaves_no_earlier_file() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("known.json");
        let replaced = Replaced::default();
        for text in ["first", "second"] {
            replaced.put(&place, text.as_bytes()).unwrap();
            replaced.end(true);
            assert_eq!(fs::read_to_string(&place).unwrap(), text);
            assert_eq!(names(dir.path()), ["known.json"]);
        }
    }

    #[test]
    fn a_file_that_could_not_be_written_is_the_earlier_one() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("known.json");
        fs::write(&place, "before").unwrap();
        // The draft has its place taken by what no file replaces.
        fs::create_dir(dir.path().join("known.new")).unwrap();
        let replaced = Replaced::default();
        replaced.put(&place, b"after").unwrap_err();
        replaced.end(false);
        assert_eq!(fs::read_to_string(&place).unwrap(), "before");
        assert_eq!(names(dir.path()), ["known.json", "known.new"]);
    }
}
