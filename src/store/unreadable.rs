//! Owns what is known of rows that cannot be read: one of them must not hide the others, nor be forgotten.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::QueryError;

/// The sessions whose rows could not be read, by what the column of their ids says.
#[derive(Clone, Debug, Default)]
pub(super) struct Unreadable {
    ids: Arc<Mutex<BTreeSet<String>>>,
}

impl Unreadable {
    /// Notes a row and says so, once.
    pub(super) fn note(&self, id: &str, why: &QueryError) {
        if self.ids().insert(id.to_owned()) {
            tracing::warn!(
                session.id = id,
                error = %why,
                "a session is left out, as its row of the database cannot be read; it can be deleted"
            );
        }
    }

    /// Forgets one that was mended or deleted.
    pub(super) fn forget(&self, id: &str) {
        self.ids().remove(id);
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.ids().iter().cloned().collect()
    }

    fn ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
