//! Owns what the actor keeps about requests of the CLI beside the journal: who left, and which answers are on their way.

use std::collections::HashMap;

use tokio::sync::mpsc;

use crate::{
    claude::hooks::HookMatcher,
    domain::{ClientId, Clock, ConnectionId, Seq, Timestamp},
    keeper::{Line, StopRequest},
    outbound::Outbound,
};

use super::{
    outside::{CallbackResult, CallbackTasks},
    registrations::HookOwner,
    route::{Presence, Routes},
};

/// How long is waited for clients.
#[derive(Clone, Copy, Debug)]
pub struct DeskTimes {
    /// How long a request that anyone may answer is offered.
    pub offer_ms: u64,
    /// How long the owner of a request may stay away.
    pub return_grace_ms: u64,
    /// How long a host that was lost may take to come back.
    pub host_grace_ms: u64,
}

impl DeskTimes {
    /// Until when one that left, or was not seen, is waited for: once, whatever is asked meanwhile and later.
    pub(super) fn return_by(self, since: Timestamp) -> Timestamp {
        since.plus_millis(self.return_grace_ms)
    }
}

/// How long owners have for what the process asks while it is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopping {
    since: Timestamp,
    /// Later than this the process may be gone.
    until: Timestamp,
}

impl Stopping {
    /// When the stated answer to what was asked at `at` is due.
    pub(super) fn due(self, at: Timestamp) -> Timestamp {
        let patient = at.max(self.since).plus_millis(STOP_PATIENCE_MS);
        patient.min(self.until.max(at))
    }
}

/// The CLI waits 1.5 s for an answer when it ends.
const STOP_PATIENCE_MS: u64 = 1_200;

/// An answer on its way to the journal.
#[derive(Debug)]
pub(super) struct Answering {
    pub(super) by: String,
    pub(super) line: Line,
    /// The client that hears of its arrival; `None` for the daemon's own answers.
    pub(super) client: Option<ConnectionId>,
}

/// The actor's part of the desk.
#[derive(Debug)]
pub(in crate::session) struct Desk {
    pub(super) routes: Routes,
    pub(super) times: DeskTimes,
    /// Since when the actor, or the run, is there to see who comes.
    since: Timestamp,
    /// Requests up to this record may have been passed on by a daemon before this one.
    pub(super) inherited: Seq,
    /// Owners that left in this run.
    left: HashMap<ClientId, (Timestamp, bool)>,
    /// By the CLI's request id.
    pub(super) answering: HashMap<String, Answering>,
    /// The hooks that were sent last, and the request that carries them.
    pub(super) sent_hooks: Option<(String, Vec<HookMatcher>)>,
    /// The turn that an interrupt was sent to because a hook said stop.
    pub(super) stopped_turn: Option<u64>,
    /// Set while the process is being stopped.
    pub(super) stopping: Option<Stopping>,
    pub(super) outside: CallbackTasks,
}

impl Desk {
    /// Messages from outside arrive through the receiver.
    pub(in crate::session) fn new(
        routes: Routes,
        times: DeskTimes,
        outbound: Outbound,
    ) -> (Self, mpsc::Receiver<CallbackResult>) {
        let (outside, received) = CallbackTasks::new(outbound);
        let desk = Self {
            routes,
            times,
            since: Clock.now(),
            inherited: Seq::ZERO,
            left: HashMap::new(),
            answering: HashMap::new(),
            sent_hooks: None,
            stopped_turn: None,
            stopping: None,
            outside,
        };
        (desk, received)
    }

    /// The journal was read up to here when the actor began.
    pub(in crate::session) fn inherit(&mut self, head: Seq) {
        self.inherited = head;
    }

    /// A process is about to be started with these routes. A client that left before gets its full time to come again.
    pub(in crate::session) fn start(&mut self, routes: Routes) {
        self.routes = routes;
        self.since = Clock.now();
        self.stopping = None;
        self.left.clear();
    }

    /// Somebody asked for a process that had been started in advance: its clients come from now on.
    pub(in crate::session) fn claim(&mut self) {
        self.since = Clock.now();
    }

    /// The process is told to end. Its questions, also those to come, are answered while it can hear it.
    pub(in crate::session) fn stop(&mut self, request: &StopRequest) {
        let since = Clock.now();
        let hears_ms = match request.interrupt_grace_ms {
            0 => request.term_grace_ms,
            grace_ms => grace_ms,
        };
        let until = since.plus_millis(hears_ms / 10 * 9);
        self.stopping = Some(match self.stopping {
            Some(earlier) => Stopping {
                until: earlier.until.min(until),
                ..earlier
            },
            None => Stopping { since, until },
        });
    }

    /// Whether the session was made to come into the mode `bypassPermissions`.
    pub(in crate::session) const fn may_bypass(&self) -> bool {
        self.routes.may_bypass
    }

    /// Whether prompts reach the model as they are, as the options of the last process say.
    pub(in crate::session) const fn is_verbatim(&self) -> bool {
        self.routes.is_verbatim
    }

    /// The request that carried hooks is over: from now on the journal says which the CLI has.
    pub(in crate::session) fn forget_hooks_of(&mut self, request_id: &str) {
        self.sent_hooks.take_if(|(id, _)| id == request_id);
    }

    /// Whether a client owns anything of the launch options, or of what is on its way into the journal.
    pub(super) fn names(&self, client: &ClientId) -> bool {
        let sent = self.sent_hooks.iter().flat_map(|(_, matchers)| matchers);
        let mut callbacks = sent.flat_map(|matcher| &matcher.callback_ids);
        self.routes.names(client)
            || callbacks.any(|id| HookOwner::of(id) == Some(HookOwner::Client(client.clone())))
    }

    pub(super) fn left(&mut self, client: ClientId, at: Timestamp, may_return: bool) {
        self.left.insert(client, (at, may_return));
    }

    pub(in crate::session) fn came(&mut self, client: &ClientId) {
        self.left.remove(client);
    }

    /// Where a client is that is not attached.
    pub(super) fn absence(&self, client: &ClientId) -> Presence {
        match self.left.get(client) {
            Some(&(at, may_return)) => Presence::Left { at, may_return },
            None => Presence::Unseen { since: self.since },
        }
    }

    /// Whether a client had left before, and cannot come back.
    pub(super) fn was_lost(&self, client: &ClientId, at: Timestamp) -> bool {
        matches!(self.left.get(client), Some((left, false)) if *left <= at)
    }

    /// Whether a client left and cannot come back.
    pub(super) fn is_lost(&self, client: &ClientId) -> bool {
        matches!(self.left.get(client), Some((_, false)))
    }
}
