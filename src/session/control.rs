//! Owns the control requests that wait for the CLI's answer: who asked, under which id of their own, and until when.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::{claude::ControlResponse, domain::ConnectionId};

use super::handle::Reply;

/// Requests that one client on a socket may have open.
const OPEN_PER_CLIENT: usize = 64;

/// Who asked.
#[derive(Debug)]
pub(super) enum Asker {
    /// A caller that waits.
    Caller(Reply<ControlResponse>),
    /// A client on a socket, with its own id of the request.
    Client { connection: ConnectionId, id: String },
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) asker: Asker,
    pub(super) subtype: String,
    /// When the asker is told that no answer came; a client on a socket waits for as long as it likes.
    pub(super) deadline: Option<(Instant, u64)>,
}

/// The requests that wait, by the id that the CLI knows. The daemon mints those, so two clients never meet.
#[derive(Debug, Default)]
pub(super) struct Controls {
    waiting: HashMap<String, Waiting>,
}

impl Controls {
    pub(super) fn add(&mut self, id: String, waiting: Waiting) {
        self.waiting.insert(id, waiting);
    }

    pub(super) fn take(&mut self, id: &str) -> Option<Waiting> {
        self.waiting.remove(id)
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }

    /// The CLI's id of an open request of a client.
    pub(super) fn of_client(&self, connection: ConnectionId, client_id: &str) -> Option<&str> {
        self.waiting
            .iter()
            .find_map(|(id, waiting)| match &waiting.asker {
                Asker::Client {
                    connection: of,
                    id: known,
                } if *of == connection && known == client_id => Some(id.as_str()),
                _ => None,
            })
    }

    /// Whether a client has as many open requests as it may.
    pub(super) fn is_full(&self, connection: ConnectionId) -> bool {
        let of_client = |waiting: &&Waiting| matches!(&waiting.asker, Asker::Client { connection: of, .. } if *of == connection);
        self.waiting.values().filter(of_client).count() >= OPEN_PER_CLIENT
    }

    /// A connection is over. Its requests go over to `heir`, another connection of the same client, unless that has an
    /// open request with the same id. Those of nobody are forgotten, and returned by the CLI's id and their subtype.
    pub(super) fn leave(
        &mut self,
        connection: ConnectionId,
        heir: Option<ConnectionId>,
    ) -> Vec<(String, String)> {
        let mut left = Vec::new();
        let of_it = |waiting: &Waiting| matches!(&waiting.asker, Asker::Client { connection: of, .. } if *of == connection);
        for (id, mut waiting) in self
            .waiting
            .extract_if(|_, waiting| of_it(waiting))
            .collect::<Vec<_>>()
        {
            match (&mut waiting.asker, heir) {
                (
                    Asker::Client {
                        connection,
                        id: known,
                    },
                    Some(heir),
                ) if self.of_client(heir, known).is_none() => {
                    *connection = heir;
                    self.waiting.insert(id, waiting);
                }
                _ => left.push((id, waiting.subtype)),
            }
        }
        left
    }

    /// The next deadline.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.waiting
            .values()
            .filter_map(|waiting| waiting.deadline.map(|(at, _)| at))
            .min()
    }

    /// Takes what is overdue.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<Waiting> {
        self.waiting
            .extract_if(|_, waiting| waiting.deadline.is_some_and(|(at, _)| at <= now))
            .map(|(_, waiting)| waiting)
            .collect()
    }
}
