//! Owns the map of the sessions that are open in this process.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use tokio::sync::MutexGuard;

use crate::{domain::SessionId, session::SessionHandle};

/// The open sessions. Lookups are short and never held over an await.
#[derive(Debug, Default)]
pub(super) struct Registry {
    sessions: Mutex<HashMap<SessionId, SessionHandle>>,
    opening: tokio::sync::Mutex<()>,
}

impl Registry {
    pub(super) fn get(&self, id: SessionId) -> Option<SessionHandle> {
        // An actor that is gone is as good as none: the next who asks opens the session again.
        self.sessions()
            .get(&id)
            .filter(|handle| handle.is_open())
            .cloned()
    }

    pub(super) fn insert(&self, handle: SessionHandle) {
        self.sessions().insert(handle.id(), handle);
    }

    pub(super) fn remove(&self, id: SessionId) -> Option<SessionHandle> {
        self.sessions().remove(&id)
    }

    pub(super) fn all(&self) -> Vec<SessionHandle> {
        self.sessions().values().cloned().collect()
    }

    /// Held while a session is opened or removed.
    pub(super) async fn opening(&self) -> MutexGuard<'_, ()> {
        self.opening.lock().await
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, SessionHandle>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
