//! Owns the marks on sessions that may look different now. Marks are kept from the moment that somebody watches.

use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use crate::domain::SessionId;

/// The sessions that may have changed since they were looked at. There are never more marks than sessions.
#[derive(Debug, Default)]
pub(in crate::supervisor) struct Changes {
    is_watched: AtomicBool,
    // Held for a few instructions, never across an await.
    marked: Mutex<HashSet<SessionId>>,
    is_marked: Notify,
}

impl Changes {
    /// Keeps marks from now on.
    pub(super) fn watch(&self) {
        self.is_watched.store(true, Ordering::Release);
    }

    /// A session may look different now.
    pub(in crate::supervisor) fn mark(&self, id: SessionId) {
        if self.is_watched.load(Ordering::Acquire) {
            self.marked().insert(id);
            self.is_marked.notify_one();
        }
    }

    /// Waits for a mark.
    ///
    /// CANCEL-SAFETY: a mark that nobody waited for is told to the next who does.
    pub(super) async fn marks(&self) {
        self.is_marked.notified().await;
    }

    /// The marked sessions. Their marks are gone.
    pub(super) fn take(&self) -> HashSet<SessionId> {
        std::mem::take(&mut *self.marked())
    }

    fn marked(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
