//! Owns the fresh credentials that a client gives the CLI unasked. The journal gets their names only.

use bytes::Bytes;

use crate::{
    claude::stdin,
    domain::{ConnectionId, RunId},
    keeper::Line,
};

use super::{
    RefusedLine, SessionError,
    actor::Actor,
    control::{Asker, Waiting},
    outbox::{Entry, Payload, Subject},
};

/// The CLI's name for it; no control request, but answered like one.
const KIND: &str = "update_environment_variables";

impl Actor {
    /// Whether what a client gives can be kept out of the journal. Only an older keeper can't; while there is none nothing
    /// is written.
    pub(super) fn takes_secrets(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.takes_secrets())
    }

    /// Passes a client's `update_environment_variables` on. With an id the CLI answers it, as if it were a control request.
    pub(super) fn give_credentials(
        &mut self,
        connection: ConnectionId,
        by: String,
        client_id: Option<&str>,
        line: &str,
    ) {
        if client_id.is_some_and(|id| !self.may_ask(connection, id)) {
            return;
        }
        let refusal = self.refuse_input();
        if let Some(error) = refusal.or((!self.takes_secrets()).then_some(SessionError::SecretNotTaken)) {
            let line = client_id.map_or(RefusedLine::Nameless, |id| RefusedLine::Request(id.to_owned()));
            self.clients.refuse(connection, line, error);
            return;
        }
        let id = client_id.map(|_| RunId::new().to_string());
        let (text, record) = stdin::relayed_variables(line, id.as_deref());
        let line = Line::secret(Bytes::from(text), Bytes::from(record));
        let subject = match (id, client_id) {
            (Some(id), Some(client_id)) => {
                let asker = Asker::Client {
                    connection,
                    id: client_id.to_owned(),
                };
                self.controls
                    .add(id.clone(), Waiting::new(vec![asker], KIND.to_owned(), None));
                Subject::Control(id)
            }
            _ => Subject::Credentials(connection),
        };
        self.enqueue(Entry::new(Payload::line(by, line), subject));
    }
}
