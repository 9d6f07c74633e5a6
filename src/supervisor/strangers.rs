//! Owns which processes are of sessions that the database does not know: it may be older than they are, or another one.
//!
//! Nobody can tell whose they are, so none is ended until somebody says so.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::domain::SessionId;

/// The sessions whose processes lived when this daemon began, and that are in no row.
#[derive(Debug, Default)]
pub(super) struct Strangers(Mutex<BTreeSet<SessionId>>);

impl Strangers {
    pub(super) fn note(&self, id: SessionId) {
        self.ids().insert(id);
    }

    pub(super) fn has(&self, id: SessionId) -> bool {
        self.ids().contains(&id)
    }

    /// Forgets one that was deleted.
    pub(super) fn forget(&self, id: SessionId) {
        self.ids().remove(&id);
    }

    pub(super) fn all(&self) -> Vec<SessionId> {
        self.ids().iter().copied().collect()
    }

    fn ids(&self) -> MutexGuard<'_, BTreeSet<SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
