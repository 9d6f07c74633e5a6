//! Owns the knowledge of which session has which conversation of the CLI, for all sessions of the daemon.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::domain::{CliSessionId, SessionId};

/// Every conversation that a session has, or had, and the session. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Conversations(Arc<Mutex<HashMap<CliSessionId, SessionId>>>);

impl Conversations {
    /// Notes that a session has a conversation. The first session that has it keeps it.
    pub fn claim(&self, id: CliSessionId, session: SessionId) {
        self.owners().entry(id).or_insert(session);
    }

    /// The session that has a conversation, if it is another one than `session`.
    pub fn other_owner(&self, id: CliSessionId, session: SessionId) -> Option<SessionId> {
        let owner = self.owners().get(&id).copied();
        owner.filter(|owner| *owner != session)
    }

    /// Forgets a session that is deleted.
    pub fn forget(&self, session: SessionId) {
        self.owners().retain(|_, owner| *owner != session);
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<CliSessionId, SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_stays_with_its_first_session() {
        let all = Conversations::default();
        let (first, second) = (SessionId::new(), SessionId::new());
        let id = CliSessionId::new();
        all.claim(id, first);
        all.clone().claim(id, second);
        assert_eq!(all.other_owner(id, second), Some(first));
        assert_eq!(all.other_owner(id, first), None);
        assert_eq!(all.other_owner(CliSessionId::new(), first), None);
        all.forget(first);
        assert_eq!(all.other_owner(id, second), None);
    }
}
