//! Owns the control requests that are under way: who asked, under which id of their own, and until when. Some are held
//! back for a while, the others wait for the CLI's answer.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::{
    claude::{ControlResponse, catalogue},
    domain::{ClientId, ConnectionId},
    metrics::ControlEnd,
};

use super::{SessionError, choices::Choices, handle::Reply, outbox::Entry};

/// Requests that one client on a socket may have open.
const OPEN_PER_CLIENT: usize = 64;
/// Requests and prompts that may be held back. The session refuses any more as busy.
const HELD: usize = 256;

/// The sender of a request.
#[derive(Debug)]
pub(super) enum Asker {
    /// A caller that waits.
    Caller(Reply<ControlResponse>),
    /// A client on a socket, with its own id of the request.
    Client { connection: ConnectionId, id: String },
}

impl Asker {
    /// Whether a caller has stopped waiting. A client on a socket is known by its connection instead.
    pub(super) fn has_left(&self) -> bool {
        matches!(self, Self::Caller(reply) if reply.is_closed())
    }

    fn is_client(&self, of: ConnectionId) -> bool {
        matches!(self, Self::Client { connection, .. } if *connection == of)
    }

    fn id_of(&self, of: ConnectionId) -> Option<String> {
        match self {
            Self::Client { connection, id } if *connection == of => Some(id.clone()),
            Self::Client { .. } | Self::Caller(_) => None,
        }
    }

    fn is_request(&self, of: ConnectionId, client_id: &str) -> bool {
        matches!(self, Self::Client { connection, id } if *connection == of && id == client_id)
    }
}

/// How an outcome counts.
pub(super) fn end_of(outcome: &Result<ControlResponse, SessionError>) -> ControlEnd {
    match outcome {
        Ok(ControlResponse { outcome: Ok(_), .. }) => ControlEnd::Success,
        Ok(_) => ControlEnd::Refused,
        Err(SessionError::Sent(sent)) if matches!(sent.error, SessionError::ControlDeadline { .. }) => {
            ControlEnd::Deadline
        }
        Err(SessionError::Busy) => ControlEnd::Unsent,
        Err(_) => ControlEnd::Lost,
    }
}

/// A request for the CLI, under the id that the CLI knows.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) subtype: String,
    pub(super) entry: Entry,
    /// Set for an interrupt.
    pub(super) interrupt: Option<Interrupt>,
    /// The whole request, and who asked, when later processes are to get what it sets.
    pub(super) choice: Option<Box<(Box<RawValue>, String)>>,
    pub(super) askers: Vec<Asker>,
    /// Set for an `initialize` with hooks, whose line is made when it is sent.
    pub(super) registers: Option<Registration>,
}

/// A client's `initialize` with new hooks. The CLI ends all hooks that are open when it gets new ones.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) client: ClientId,
    /// As the client sent it.
    pub(super) request: Bytes,
    pub(super) by: String,
    /// How long it waits at most until no hook is open.
    pub(super) until: Instant,
}

/// An entry that is held back. A prompt waits here when it came after a request, as it is meant for the session as the request
/// leaves it; and during an interrupt, which is meant for earlier input only.
#[derive(Debug)]
pub(super) enum Held {
    Request(Request),
    Prompt(Entry),
}

impl Held {
    fn request(&self) -> Option<&Request> {
        match self {
            Self::Request(request) => Some(request),
            Self::Prompt(_) => None,
        }
    }

    fn request_mut(&mut self) -> Option<&mut Request> {
        match self {
            Self::Request(request) => Some(request),
            Self::Prompt(_) => None,
        }
    }
}

/// The target of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interrupt {
    /// The turn that runs, or the next one when none does.
    pub(super) turn: u64,
    /// Whether prompts that wait are dropped too.
    pub(super) cancel_queued: bool,
}

impl Interrupt {
    /// Whether it does all that another one would.
    fn covers(self, other: Self) -> bool {
        self.turn == other.turn && (self.cancel_queued || !other.cancel_queued)
    }
}

/// A request that was sent and waits for its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) askers: Vec<Asker>,
    pub(super) subtype: String,
    pub(super) interrupt: Option<Interrupt>,
    /// When the askers are told that no answer came, and after how many milliseconds that is.
    pub(super) deadline: (Instant, u64),
}

impl Waiting {
    /// One that is sent now.
    pub(super) fn new(askers: Vec<Asker>, subtype: String, interrupt: Option<Interrupt>) -> Self {
        let ms = catalogue::deadline_ms(&subtype);
        let deadline = (Instant::now() + Duration::from_millis(ms), ms);
        Self {
            askers,
            subtype,
            interrupt,
            deadline,
        }
    }
}

/// Where a client's request is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It was not sent, or others wait for the same answer: only the asker is to be taken out.
    Ours,
    /// The CLI knows it by this id.
    Sent(String),
}

/// The requests. The daemon mints their ids, so two clients never meet.
#[derive(Debug)]
pub(super) struct Controls {
    /// The choices of earlier ones.
    pub(super) choices: Choices,
    /// Not sent yet, in the order in which they came.
    held: VecDeque<Held>,
    /// New hooks that are not sent yet. They wait for the answers of others, and so nothing else waits for them.
    registering: VecDeque<Request>,
    /// By the id that the CLI knows.
    waiting: HashMap<String, Waiting>,
    ending: Option<Ending>,
}

/// A turn that was told to end.
#[derive(Debug)]
struct Ending {
    turn: u64,
    /// How long an interrupt for it waits for the end, before it is sent after all.
    until: Instant,
    /// Those who asked for the same once more.
    askers: Vec<Asker>,
}

impl Controls {
    /// None yet.
    pub(super) fn new(choices: Choices) -> Self {
        Self {
            choices,
            held: VecDeque::new(),
            registering: VecDeque::new(),
            waiting: HashMap::new(),
            ending: None,
        }
    }

    /// Holds something back; given back when there is too much.
    pub(super) fn hold(&mut self, held: Held) -> Option<Held> {
        if self.held.len() + self.registering.len() >= HELD {
            return Some(held);
        }
        match held {
            Held::Request(request) if request.registers.is_some() => self.registering.push_back(request),
            held => self.held.push_back(held),
        }
        None
    }

    /// Whether something is held back.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty() || !self.registering.is_empty()
    }

    /// Whether something is held back that goes before what comes now: new hooks are meant for the turns behind them, but wait for
    /// others when they may not be registered yet.
    pub(super) fn holds_up(&self, may_register: bool) -> bool {
        !self.held.is_empty() || (may_register && !self.registering.is_empty())
    }

    /// Whether a prompt is held back.
    pub(super) fn has_held_prompt(&self) -> bool {
        self.held.iter().any(|held| held.request().is_none())
    }

    /// Whether no request is under way.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_held() && self.waiting.is_empty()
    }

    /// Takes what is held back, new hooks first.
    pub(super) fn take_held(&mut self) -> Option<Held> {
        let registering = self.registering.pop_front().map(Held::Request);
        registering.or_else(|| self.held.pop_front())
    }

    /// Takes what was held back first, if it may be sent now: new hooks when none is open, a request to a process that is ready,
    /// a prompt when no interrupt waits for its answer.
    pub(super) fn take_sendable(&mut self, is_ready: bool, may_register: bool) -> Option<Held> {
        if may_register && let Some(request) = self.registering.pop_front() {
            return Some(Held::Request(request));
        }
        let is_interrupting = self.is_interrupting();
        self.held.pop_front_if(|held| match held {
            Held::Request(_) => is_ready,
            Held::Prompt(_) => !is_interrupting,
        })
    }

    pub(super) fn add(&mut self, id: String, waiting: Waiting) {
        self.waiting.insert(id, waiting);
    }

    pub(super) fn take(&mut self, id: &str) -> Option<Waiting> {
        self.waiting.remove(id)
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (String, Waiting)> + use<> {
        std::mem::take(&mut self.waiting).into_iter()
    }

    /// Has the asker wait for the answer to an interrupt that does what is asked and was sent or is held back, or for the
    /// end of a turn that was told to end; given back when there is none. A second interrupt would hit the next turn.
    pub(super) fn join(&mut self, wanted: Interrupt, asker: Asker, now: Instant) -> Option<Asker> {
        let does = |known: Option<Interrupt>| known.is_some_and(|known| known.covers(wanted));
        let mut sent = self.waiting.values_mut();
        let sent = sent.find(|waiting| does(waiting.interrupt));
        // It is meant for the prompts before it, too.
        let mut held = self.held.iter_mut().rev().map_while(Held::request_mut);
        let held = held.find(|request| does(request.interrupt));
        let ending = self.ending.as_mut();
        let ending = ending.filter(|it| it.turn == wanted.turn && !wanted.cancel_queued && now < it.until);
        let askers = sent
            .map(|waiting| &mut waiting.askers)
            .or(held.map(|request| &mut request.askers))
            .or(ending.map(|ending| &mut ending.askers));
        match askers {
            Some(askers) => {
                askers.push(asker);
                None
            }
            None => Some(asker),
        }
    }

    /// Notes that a turn was told to end.
    pub(super) fn turn_is_ending(&mut self, turn: u64, until: Instant) {
        if self.ending.as_ref().is_none_or(|ending| ending.turn != turn) {
            let askers = Vec::new();
            self.ending = Some(Ending { turn, until, askers });
        }
    }

    /// A turn ended; those who had asked for that a second time are returned.
    pub(super) fn turn_ended(&mut self, turn: u64) -> Vec<Asker> {
        let ended = self.ending.take_if(|ending| ending.turn <= turn);
        ended.map_or_else(Vec::new, |ending| ending.askers)
    }

    /// Takes those who asked a second time for the end of a turn that goes on.
    pub(super) fn take_ending_overdue(&mut self, now: Instant) -> Vec<Asker> {
        let overdue = self.ending.take_if(|ending| ending.until <= now);
        overdue.map_or_else(Vec::new, |ending| ending.askers)
    }

    /// Whether an interrupt waits for its answer.
    pub(super) fn is_interrupting(&self) -> bool {
        self.waiting.values().any(|waiting| waiting.interrupt.is_some())
    }

    /// Where an open request of a client is.
    pub(super) fn of_client(&self, connection: ConnectionId, client_id: &str) -> Option<Place> {
        let asked = |askers: &[Asker]| askers.iter().any(|asker| asker.is_request(connection, client_id));
        let mut ours = self.held_requests().map(|request| &request.askers);
        let ending = self.ending.as_ref().map(|ending| &ending.askers);
        if ours.any(|askers| asked(askers)) || ending.is_some_and(|askers| asked(askers)) {
            return Some(Place::Ours);
        }
        let mut waiting = self.waiting.iter();
        let (id, waiting) = waiting.find(|(_, waiting)| asked(&waiting.askers))?;
        Some(if waiting.askers.len() > 1 {
            Place::Ours
        } else {
            Place::Sent(id.clone())
        })
    }

    /// Whether a client has as many open requests as it may.
    pub(super) fn is_full(&self, connection: ConnectionId) -> bool {
        let of_client = |asker: &&Asker| asker.is_client(connection);
        self.all_askers().filter(of_client).count() >= OPEN_PER_CLIENT
    }

    /// Takes out a client's request.
    pub(super) fn remove_request(&mut self, connection: ConnectionId, client_id: &str) -> Vec<String> {
        self.remove(|asker| asker.is_request(connection, client_id))
    }

    /// A connection is over. Its requests go over to `heir`, another connection of the same client, unless that has an
    /// open request with the same id. Those of nobody are taken out.
    pub(super) fn leave(&mut self, connection: ConnectionId, heir: Option<ConnectionId>) -> Vec<String> {
        if let Some(heir) = heir {
            let taken: HashSet<String> = self.all_askers().filter_map(|it| it.id_of(heir)).collect();
            for asker in self.all_askers_mut() {
                match asker {
                    Asker::Client { connection: of, id } if *of == connection && !taken.contains(id) => {
                        *of = heir
                    }
                    Asker::Client { .. } | Asker::Caller(_) => {}
                }
            }
        }
        self.remove(|asker| asker.is_client(connection))
    }

    fn held_requests(&self) -> impl Iterator<Item = &Request> {
        let held = self.held.iter().filter_map(Held::request);
        self.registering.iter().chain(held)
    }

    fn all_askers(&self) -> impl Iterator<Item = &Asker> {
        let held = self.held_requests().flat_map(|request| &request.askers);
        let waiting = self.waiting.values().flat_map(|waiting| &waiting.askers);
        let ending = self.ending.iter().flat_map(|ending| &ending.askers);
        held.chain(waiting).chain(ending)
    }

    fn all_askers_mut(&mut self) -> impl Iterator<Item = &mut Asker> {
        let held = self.held.iter_mut().filter_map(Held::request_mut);
        let held = self.registering.iter_mut().chain(held);
        let held = held.flat_map(|request| &mut request.askers);
        let waiting = self.waiting.values_mut().flat_map(|waiting| &mut waiting.askers);
        let ending = self.ending.iter_mut().flat_map(|ending| &mut ending.askers);
        held.chain(waiting).chain(ending)
    }

    /// Takes out the requests of callers that stopped waiting.
    pub(super) fn remove_left(&mut self) -> Vec<String> {
        self.remove(Asker::has_left)
    }

    /// Takes askers out, and with them the requests that nobody waits for any more. Those of them that the CLI works on
    /// are named. An interrupt stays: whoever asked for it meant it.
    fn remove(&mut self, gone: impl Fn(&Asker) -> bool) -> Vec<String> {
        let retain = |askers: &mut Vec<Asker>| {
            askers.retain(|asker| !gone(asker));
            askers.is_empty()
        };
        if let Some(ending) = &mut self.ending {
            retain(&mut ending.askers);
        }
        self.registering
            .retain_mut(|request| !retain(&mut request.askers));
        self.held.retain_mut(|held| {
            let request = held.request_mut();
            request.is_none_or(|request| !retain(&mut request.askers) || request.interrupt.is_some())
        });
        self.waiting
            .extract_if(|_, waiting| retain(&mut waiting.askers) && waiting.interrupt.is_none())
            .map(|(id, _)| id)
            .collect()
    }

    /// Takes registrations that have waited too long.
    pub(super) fn take_unregistered(&mut self, now: Instant) -> Vec<Held> {
        let is_overdue = |request: &Request| request.registers.as_ref().is_some_and(|it| it.until <= now);
        let all = std::mem::take(&mut self.registering).into_iter();
        let (overdue, left): (VecDeque<_>, VecDeque<_>) = all.partition(is_overdue);
        self.registering = left;
        overdue.into_iter().map(Held::Request).collect()
    }

    /// The registrations that are held back.
    pub(super) fn registrations(&self) -> impl Iterator<Item = &Registration> {
        let all = self.registering.iter();
        all.filter_map(|request| request.registers.as_ref())
    }

    /// The next deadline.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let ending = self.ending.as_ref().map(|ending| ending.until);
        let waiting = self.waiting.values().map(|waiting| waiting.deadline.0);
        let registrations = self.registrations().map(|registration| registration.until);
        waiting.chain(ending).chain(registrations).min()
    }

    /// Takes what is overdue.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<(String, Waiting)> {
        self.waiting
            .extract_if(|_, waiting| waiting.deadline.0 <= now)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::outbox::{Payload, Subject};

    fn controls() -> Controls {
        Controls::new(Choices::open(std::path::Path::new("/nowhere")))
    }

    fn client(connection: ConnectionId, id: &str) -> Asker {
        let id = id.to_owned();
        Asker::Client { connection, id }
    }

    fn waiting(askers: Vec<Asker>, interrupt: Option<Interrupt>) -> Waiting {
        Waiting {
            askers,
            subtype: "x".to_owned(),
            interrupt,
            deadline: (Instant::now(), 1),
        }
    }

    fn interrupt(turn: u64, cancel_queued: bool) -> Interrupt {
        Interrupt { turn, cancel_queued }
    }

    #[test]
    fn an_interrupt_joins_one_that_does_as_much_for_the_same_turn() {
        let mut controls = controls();
        let [a, b] = [ConnectionId::new(), ConnectionId::new()];
        let first = waiting(vec![client(a, "1")], Some(interrupt(3, false)));
        controls.add("first".to_owned(), first);
        let now = Instant::now();
        assert!(controls.join(interrupt(3, true), client(b, "1"), now).is_some());
        assert!(controls.join(interrupt(4, false), client(b, "1"), now).is_some());
        assert!(controls.join(interrupt(3, false), client(b, "1"), now).is_none());
        assert_eq!(
            controls.of_client(a, "1"),
            Some(Place::Ours),
            "another waits for it too"
        );
        assert_eq!(controls.take("first").unwrap().askers.len(), 2);
    }

    #[test]
    fn an_interrupt_joins_none_that_waits_before_a_prompt() {
        let mut controls = controls();
        let [a, b] = [ConnectionId::new(), ConnectionId::new()];
        let entry = || Entry::new(Payload::Note(Vec::new()), Subject::Nobody);
        let first = Request {
            id: "first".to_owned(),
            subtype: "interrupt".to_owned(),
            entry: entry(),
            interrupt: Some(interrupt(0, false)),
            choice: None,
            askers: vec![client(a, "1")],
            registers: None,
        };
        assert!(controls.hold(Held::Request(first)).is_none());
        let now = Instant::now();
        assert!(controls.join(interrupt(0, false), client(b, "1"), now).is_none());
        assert!(controls.hold(Held::Prompt(entry())).is_none());
        assert!(controls.join(interrupt(0, false), client(b, "2"), now).is_some());
    }

    #[test]
    fn an_interrupt_waits_a_while_for_a_turn_that_was_told_to_end() {
        let mut controls = controls();
        let a = ConnectionId::new();
        let now = Instant::now();
        let until = now + std::time::Duration::from_secs(2);
        controls.turn_is_ending(3, until);
        assert!(controls.join(interrupt(3, true), client(a, "1"), now).is_some());
        assert!(controls.join(interrupt(4, false), client(a, "1"), now).is_some());
        assert!(
            controls
                .join(interrupt(3, false), client(a, "1"), until)
                .is_some()
        );
        assert!(controls.join(interrupt(3, false), client(a, "1"), now).is_none());
        assert_eq!(controls.of_client(a, "1"), Some(Place::Ours));
        assert_eq!(controls.next_deadline(), Some(until));
        assert!(controls.take_ending_overdue(now).is_empty());
        assert!(controls.turn_ended(2).is_empty(), "another turn");
        assert_eq!(controls.turn_ended(3).len(), 1);
        assert!(controls.turn_ended(3).is_empty());
    }

    #[test]
    fn what_nobody_waits_for_is_taken_back_unless_it_is_an_interrupt() {
        let mut controls = controls();
        let [a, b] = [ConnectionId::new(), ConnectionId::new()];
        controls.add("of-a".to_owned(), waiting(vec![client(a, "1")], None));
        controls.add(
            "of-both".to_owned(),
            waiting(vec![client(a, "2"), client(b, "2")], None),
        );
        let stop = waiting(vec![client(a, "3")], Some(interrupt(1, false)));
        controls.add("stop".to_owned(), stop);
        assert_eq!(controls.leave(a, None), ["of-a"]);
        assert!(controls.is_interrupting());
        assert_eq!(
            controls.of_client(b, "2"),
            Some(Place::Sent("of-both".to_owned()))
        );
        assert_eq!(controls.of_client(a, "2"), None);
    }

    #[test]
    fn another_connection_of_the_client_inherits_what_does_not_clash() {
        let mut controls = controls();
        let [old, heir] = [ConnectionId::new(), ConnectionId::new()];
        controls.add("one".to_owned(), waiting(vec![client(old, "1")], None));
        controls.add("two".to_owned(), waiting(vec![client(old, "2")], None));
        controls.add("other".to_owned(), waiting(vec![client(heir, "2")], None));
        assert_eq!(controls.leave(old, Some(heir)), ["two"]);
        assert_eq!(controls.of_client(heir, "1"), Some(Place::Sent("one".to_owned())));
        assert_eq!(
            controls.of_client(heir, "2"),
            Some(Place::Sent("other".to_owned()))
        );
    }

    #[test]
    fn what_is_held_is_bounded_and_keeps_its_order() {
        let mut controls = controls();
        let request = |id: usize| Request {
            id: id.to_string(),
            subtype: "x".to_owned(),
            entry: Entry::new(Payload::Note(Vec::new()), Subject::Nobody),
            interrupt: None,
            choice: None,
            askers: vec![client(ConnectionId::new(), "1")],
            registers: None,
        };
        for id in 0..HELD {
            assert!(controls.hold(Held::Request(request(id))).is_none());
        }
        assert!(controls.hold(Held::Request(request(HELD))).is_some());
        for id in 0..HELD {
            let held = controls.take_held().unwrap();
            assert_eq!(held.request().unwrap().id, id.to_string());
        }
        assert!(controls.take_held().is_none());
    }
}
