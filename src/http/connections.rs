//! Owns the limits on open sockets and streams. A connection over a limit is refused, never queued.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{ApiError, ErrorCode};
use crate::domain::SessionId;

/// Counts open connections. Cloning gives another handle on the same counts.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: usize,
    limit_per_session: usize,
    // Held for a few instructions, never across an await.
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_session: HashMap<SessionId, usize>,
}

/// The right to one open connection; dropping it gives the place back.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    shared: Arc<Shared>,
    /// The session of a client of one session.
    session: Option<SessionId>,
}

impl Connections {
    pub(super) fn new(limit: usize, limit_per_session: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                limit,
                limit_per_session,
                open: Mutex::default(),
            }),
        }
    }

    /// Open connections.
    pub(super) fn total(&self) -> usize {
        self.shared.open().total
    }

    /// Takes a place for a client of `session`.
    pub(super) fn admit(&self, session: SessionId) -> Result<ConnectionPermit, ApiError> {
        self.take(Some(session))
    }

    /// Takes a place for a client that is of no session alone.
    pub(super) fn admit_any(&self) -> Result<ConnectionPermit, ApiError> {
        self.take(None)
    }

    fn take(&self, session: Option<SessionId>) -> Result<ConnectionPermit, ApiError> {
        let mut open = self.shared.open();
        if open.total >= self.shared.limit {
            return Err(ErrorCode::TooManyConnections.into());
        }
        if let Some(session) = session {
            let of_session = open.by_session.get(&session).copied().unwrap_or(0);
            if of_session >= self.shared.limit_per_session {
                return Err(ErrorCode::TooManyClients.into());
            }
            open.by_session.insert(session, of_session + 1);
        }
        open.total += 1;
        Ok(ConnectionPermit {
            shared: Arc::clone(&self.shared),
            session,
        })
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        // The counts are whole at every instruction that can panic.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.shared.open();
        open.total = open.total.saturating_sub(1);
        let Some(session) = self.session else {
            return;
        };
        if let Some(count) = open.by_session.get_mut(&session) {
            *count -= 1;
            if *count == 0 {
                open.by_session.remove(&session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_refuse_and_a_closed_connection_makes_room() {
        let connections = Connections::new(3, 2);
        let (one, two) = (SessionId::new(), SessionId::new());
        let first = connections.admit(one).unwrap();
        let _second = connections.admit(one).unwrap();
        let refused = connections.admit(one).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::TooManyClients);
        let _third = connections.admit(two).unwrap();
        let refused = connections.admit(two).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::TooManyConnections);
        assert_eq!(connections.total(), 3);
        drop(first);
        assert_eq!(connections.total(), 2);
        connections.admit(one).unwrap();
        assert_eq!(connections.shared.open().by_session.len(), 2);
    }
}
