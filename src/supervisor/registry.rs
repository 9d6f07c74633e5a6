//! Owns the map of the sessions that are open in this process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedMutexGuard, Semaphore, SemaphorePermit};

use crate::{
    domain::{FailReason, SessionId},
    keeper::StartSweep,
    session::{Conversations, SessionHandle},
};

use super::lobby::Changes;

/// How many keepers are attached to at a time. A daemon that gets little time has then begun on few, and each is heard out.
pub(super) const ATTACHED_AT_A_TIME: usize = 16;

/// The open sessions. Lookups are short and never held over an await.
#[derive(Debug, Default)]
pub(super) struct Registry {
    sessions: Mutex<HashMap<SessionId, SessionHandle>>,
    /// Why sessions are not open whose keepers live and cannot be talked to, or do not answer.
    out_of_reach: Mutex<HashMap<SessionId, FailReason>>,
    /// The locks of the sessions that somebody opens, starts or removes just now.
    exclusive: Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>,
    /// Which session has which conversation.
    conversations: Conversations,
    /// Held by who opens a session where file descriptors are scarce.
    one_by_one: tokio::sync::Mutex<()>,
    /// Held by those who try again to attach to a keeper that did not answer.
    retries: Retries,
    start_sweep: Arc<StartSweep>,
    changes: Arc<Changes>,
}

/// So many are tried at a time.
#[derive(Debug)]
struct Retries(Semaphore);

impl Default for Retries {
    fn default() -> Self {
        Self(Semaphore::new(ATTACHED_AT_A_TIME))
    }
}

impl Registry {
    /// An empty one that marks what it learns among these changes.
    pub(super) fn new(changes: Arc<Changes>) -> Self {
        Self {
            changes,
            ..Self::default()
        }
    }

    pub(super) fn get(&self, id: SessionId) -> Option<SessionHandle> {
        // An actor that is gone is as good as none: the next who asks opens the session again.
        self.sessions()
            .get(&id)
            .filter(|handle| handle.is_open())
            .cloned()
    }

    pub(super) fn insert(&self, handle: SessionHandle) {
        let id = handle.id();
        self.sessions().insert(id, handle);
        self.out_of_reach().remove(&id);
        self.changes.mark(id);
    }

    /// Says whether that was new.
    pub(super) fn set_out_of_reach(&self, id: SessionId, reason: FailReason) -> bool {
        let is_new = self.out_of_reach().insert(id, reason).is_none();
        self.changes.mark(id);
        is_new
    }

    pub(super) fn all_out_of_reach(&self) -> Vec<SessionId> {
        self.out_of_reach().keys().copied().collect()
    }

    /// It is found out anew whether its keeper can be reached.
    pub(super) fn forget_out_of_reach(&self, id: SessionId) {
        self.out_of_reach().remove(&id);
        self.changes.mark(id);
    }

    pub(super) fn why_out_of_reach(&self, id: SessionId) -> Option<FailReason> {
        self.out_of_reach().get(&id).cloned()
    }

    pub(super) fn remove(&self, id: SessionId) -> Option<SessionHandle> {
        self.out_of_reach().remove(&id);
        self.sessions().remove(&id)
    }

    pub(super) const fn conversations(&self) -> &Conversations {
        &self.conversations
    }

    pub(super) fn all(&self) -> Vec<SessionHandle> {
        self.sessions().values().cloned().collect()
    }

    /// Held while a session is opened, started or removed: each is done by one at a time, and holds up no other session.
    pub(super) async fn exclusive(&self, id: SessionId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.exclusive.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(id).or_default())
        };
        lock.lock_owned().await
    }

    /// Held while one of many sessions is opened of which each takes file descriptors that are scarce.
    pub(super) async fn one_by_one(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.one_by_one.lock().await
    }

    /// Held while it is tried again to attach to a keeper that did not answer. `None` is never given: nobody closes it.
    pub(super) async fn retry(&self) -> Option<SemaphorePermit<'_>> {
        self.retries.0.acquire().await.ok()
    }

    /// The sweep of this daemon's start.
    pub(super) const fn start_sweep(&self) -> &Arc<StartSweep> {
        &self.start_sweep
    }

    fn out_of_reach(&self) -> MutexGuard<'_, HashMap<SessionId, FailReason>> {
        self.out_of_reach.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, SessionHandle>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
