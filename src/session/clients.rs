//! Owns the side channels of attached clients: what is meant for one of them only.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::{mpsc, oneshot};

use crate::{
    claude::ControlResponse,
    domain::{
        AttachedClient, ClientId, ConnectionId, PromptUuid, QueuedPrompt, Role, Timestamp, author_of_name,
    },
};

use super::{
    ClientFrame, LateAnswer, Refused, RefusedLine, SessionError, handle::Sent, machine::EndedApproval,
};

/// Frames that may wait for one client. One that does not take them is cut off.
const DIRECT_FRAMES: usize = 256;

/// The attached clients.
#[derive(Debug, Default)]
pub(super) struct Clients {
    attached: HashMap<ConnectionId, Seat>,
    /// Those that did not take what they were sent.
    cut: Vec<ConnectionId>,
    /// The questions of clients about requests of the CLI. Each asks one at a time.
    questions: Vec<Question>,
    /// Until when a host that has left may come back.
    host_until: Option<Timestamp>,
}

/// The question of a client whether an open request of the CLI is for it.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) connection: ConnectionId,
    /// The CLI's id of the request.
    pub(super) request_id: String,
    pub(super) reply: oneshot::Sender<bool>,
}

/// One attached client.
#[derive(Debug)]
struct Seat {
    direct: mpsc::Sender<ClientFrame>,
    client: ClientId,
    /// Whether it named itself, and so can be known again.
    is_named: bool,
    /// The name of the login that it came with.
    login: Option<String>,
    role: Role,
    is_host: bool,
}

/// A client that comes.
#[derive(Clone, Debug)]
pub struct Newcomer {
    /// How it names itself.
    pub client: Option<ClientId>,
    /// The name of the login that it comes with.
    pub login: Option<String>,
    /// Its right.
    pub role: Role,
    /// Whether the process was started for it.
    pub is_host: bool,
}

impl Clients {
    /// None, but a host of an earlier daemon may come back until then.
    pub(super) fn new(host_until: Option<Timestamp>) -> Self {
        Self {
            host_until,
            ..Self::default()
        }
    }

    /// Adds a client, and tells those that are there; its name is returned as well.
    pub(super) fn attach(
        &mut self,
        connection: ConnectionId,
        newcomer: Newcomer,
    ) -> (mpsc::Receiver<ClientFrame>, ClientId) {
        let Newcomer {
            client: named,
            login,
            role,
            is_host,
        } = newcomer;
        let (direct, receiver) = mpsc::channel(DIRECT_FRAMES);
        let is_named = named.is_some();
        let client = named.unwrap_or_else(|| connection.into());
        let seat = Seat {
            direct,
            client: client.clone(),
            is_named,
            login,
            role,
            is_host,
        };
        let there: Vec<_> = self.attached.keys().copied().collect();
        self.attached.insert(connection, seat);
        self.tell_who_is_here(&there);
        (receiver, client)
    }

    /// Removes a client, and tells the others; its name, and whether it gave that to itself. `None` when it was removed before.
    /// A host may come back until `host_until`.
    pub(super) fn detach(
        &mut self,
        connection: ConnectionId,
        host_until: Timestamp,
    ) -> Option<(ClientId, bool)> {
        let seat = self.attached.remove(&connection)?;
        if seat.is_host {
            self.host_until = Some(host_until);
        }
        let others: Vec<_> = self.attached.keys().copied().collect();
        self.tell_who_is_here(&others);
        Some((seat.client, seat.is_named))
    }

    /// The attached clients as others see them, the first one first.
    pub(super) fn who_is_here(&self) -> Arc<[AttachedClient]> {
        let mut all: Vec<_> = self
            .attached
            .iter()
            .map(|(connection, seat)| AttachedClient {
                connection_id: *connection,
                client_id: seat.is_named.then(|| seat.client.clone()),
                login: seat.login.clone(),
                role: seat.role,
            })
            .collect();
        // Ids sort by the time at which they were made.
        all.sort_by_key(|client| client.connection_id);
        all.into()
    }

    /// Whether the program is attached that the process was started for, or may come back.
    pub(super) fn has_host(&self, now: Timestamp) -> bool {
        self.attached.values().any(|seat| seat.is_host) || self.next_host_given_up(now).is_some()
    }

    /// When a host that has left is waited for no longer.
    pub(super) fn next_host_given_up(&self, now: Timestamp) -> Option<Timestamp> {
        self.host_until.filter(|until| *until > now)
    }

    /// A client that is to be let go because it did not take what it was sent.
    pub(super) fn next_cut(&mut self) -> Option<ConnectionId> {
        self.cut.pop()
    }

    /// The author of a client's decisions, when it came with a login and gave itself no name.
    pub(super) fn decider(&self, connection: ConnectionId) -> Option<String> {
        let seat = self.attached.get(&connection).filter(|seat| !seat.is_named)?;
        seat.login.as_deref().map(author_of_name)
    }

    /// The name of an attached client.
    pub(super) fn client(&self, connection: ConnectionId) -> Option<&ClientId> {
        self.attached.get(&connection).map(|seat| &seat.client)
    }

    /// A connection of this client.
    pub(super) fn connection_of(&self, client: &ClientId) -> Option<ConnectionId> {
        let mut attached = self.attached.iter();
        attached.find_map(|(connection, seat)| (seat.client == *client).then_some(*connection))
    }

    /// Whether this client is attached.
    pub(super) fn is_attached(&self, client: &ClientId) -> bool {
        self.connection_of(client).is_some()
    }

    /// Whether a client is attached that may answer.
    pub(super) fn can_answer(&self) -> bool {
        self.attached.values().any(|seat| seat.role == Role::Operator)
    }

    /// Tells a client that its prompt is in the journal.
    pub(super) fn ack_prompt(&mut self, connection: ConnectionId, uuid: PromptUuid, sent: Sent) {
        self.send(connection, ClientFrame::Prompted { uuid, sent });
    }

    /// Tells a client that its decision or answer was written.
    pub(super) fn ack_answer(&mut self, connection: ConnectionId, request_id: &str) {
        let request_id = request_id.to_owned();
        self.send(connection, ClientFrame::Answered { request_id });
    }

    /// Tells a client why one of its lines was not taken.
    pub(super) fn refuse(&mut self, connection: ConnectionId, line: RefusedLine, error: SessionError) {
        let refused = Box::new(Refused { line, error });
        self.send(connection, ClientFrame::Refused(refused));
    }

    /// Tells a client why its answer to a request of the CLI was not taken.
    pub(super) fn refuse_answer(&mut self, connection: ConnectionId, request_id: &str, error: SessionError) {
        let line = RefusedLine::Answer {
            request_id: request_id.to_owned(),
            approval_id: None,
        };
        self.refuse(connection, line, error);
    }

    /// Tells a client how the approval ended that it answered too late.
    pub(super) fn late_answer(&mut self, connection: ConnectionId, ended: &EndedApproval) {
        let error = if ended.resolution.state.is_answered() {
            SessionError::AlreadyDecided(ended.id)
        } else {
            SessionError::ApprovalNotPending(ended.id)
        };
        let late = Box::new(LateAnswer {
            error,
            request_id: ended.request_id.clone(),
            approval_id: ended.id,
            resolution: ended.resolution.clone(),
        });
        self.send(connection, ClientFrame::Late(late));
    }

    /// Gives a client the CLI's answer to its own request, under its own id.
    pub(super) fn control_response(&mut self, connection: ConnectionId, id: &str, answer: ControlResponse) {
        let (request_id, answer) = (id.to_owned(), Box::new(answer));
        self.send(connection, ClientFrame::Response { request_id, answer });
    }

    /// Tells each client which messages wait in the daemon now.
    pub(super) fn tell_queue(&mut self, queue: &Arc<[QueuedPrompt]>) {
        let attached: Vec<_> = self.attached.keys().copied().collect();
        for connection in attached {
            self.send(connection, ClientFrame::Queue(Arc::clone(queue)));
        }
    }

    /// Tells clients who is attached now. One that has much to read yet is left out: it must not be cut off for this, and the
    /// next change tells it all.
    fn tell_who_is_here(&mut self, told: &[ConnectionId]) {
        if told.is_empty() {
            return;
        }
        let all = self.who_is_here();
        for connection in told {
            let seat = self.attached.get(connection);
            if seat.is_some_and(|seat| seat.direct.capacity() > DIRECT_FRAMES / 2) {
                self.send(*connection, ClientFrame::Clients(Arc::clone(&all)));
            }
        }
    }

    /// Keeps the question of a client whether a request of the CLI is for it, until that is known.
    pub(super) fn ask(&mut self, question: Question) {
        self.questions.push(question);
    }

    /// Takes the questions that are not answered yet.
    pub(super) fn take_questions(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.questions)
    }

    fn send(&mut self, connection: ConnectionId, frame: ClientFrame) {
        let Some(seat) = self.attached.get(&connection) else {
            return;
        };
        if seat.direct.try_send(frame).is_err() {
            // It is let go, which ends its connection: a client that misses an answer must not go on as if it had it.
            self.cut.push(connection);
        }
    }
}
