//! Owns the actor's part in answering the CLI: each open request gets its owner's answer, or the stated one when that is due.

use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::{
    claude::{
        BadAnswer, BadLine, answer,
        control::Fields,
        options::HookTarget,
        stdin::{self, ClientError},
    },
    domain::{Approval, Clock, ConnectionId, RunId, Timestamp},
    json,
    keeper::Line,
    session::{
        SessionError,
        actor::Actor,
        approvals,
        clients::Question,
        notes::Note,
        outbox::{Due, Entry, Payload, Subject},
        view::PendingRequest,
    },
};

use super::{
    book::{About, Asked, same_value},
    fallback::{self, Fallback, FallbackReason},
    route::{self, Owner, Presence, Route},
    state::Answering,
};

/// How long a turn may run on after a hook said that it stops here.
const HOOK_STOP_MS: u64 = 5_000;

/// The name of the daemon as the answerer of last resort.
pub(super) const DAEMON: &str = "daemon";

impl Actor {
    /// Answers what can be answered now.
    pub(in crate::session) fn serve_desk(&mut self) {
        if self.outbox.is_none() {
            return;
        }
        let now = Clock.now();
        let waiting: Vec<_> = self.machine.desk().open().to_vec();
        for asked in waiting {
            let id = &asked.request.request_id;
            if self.desk.answering.contains_key(id) {
                continue;
            }
            if let Some(decided) = self.decided(&asked) {
                self.desk.outside.forget(id);
                self.give_decided(id.clone(), decided);
                continue;
            }
            let route = self.route(&asked);
            let due = self.due(&asked, &route);
            if let Some((_, reason)) = due.filter(|(at, _)| *at <= now) {
                self.fall_back(&asked, &route, reason);
                continue;
            }
            match &route.owner {
                Owner::Fixed(index) => self.give_fixed(id, *index),
                Owner::Webhook(index) => self.call_webhook(&asked, *index, due.map(|(at, _)| at), now),
                Owner::Url => self.bridge(&asked),
                Owner::Client(_) | Owner::Anyone | Owner::Nobody(_) => {}
            }
        }
        self.stop_for_hook(now);
    }

    /// A person's decision about the call that a hook had put off and is asked about again.
    fn decided(&self, asked: &Asked) -> Option<Answering> {
        let decision = self.deciding.waits_for_process()?;
        let is_it = approvals::deferred_id(asked.about.call()?) == decision.request_id;
        is_it.then(|| Answering {
            by: decision.by.clone(),
            line: stdin::control_success(&asked.request.request_id, Some(&decision.output)).into(),
            client: None,
        })
    }

    /// Gives the CLI that decision in the hook's place. A record before it says so: else it would be the hook's own.
    fn give_decided(&mut self, request_id: String, decided: Answering) {
        if let Some(decision) = self.deciding.waits_for_process() {
            let note = Note::CallDecided {
                request_id: request_id.clone(),
                approval_id: decision.id,
                by: decision.by.clone(),
            };
            self.note(note, Subject::Nobody);
        }
        self.desk.answering.insert(request_id.clone(), decided);
        self.write_answer(request_id);
    }

    fn give_fixed(&mut self, request_id: &str, index: usize) {
        let target = self.desk.routes.hooks.get(index).map(|hook| &hook.target);
        if let Some(HookTarget::Fixed { output }) = target {
            let line = stdin::control_success(request_id, Some(output.raw()));
            self.give(request_id.to_owned(), format!("fixed:{index}"), line);
        }
    }

    /// When there is something to do although nothing happens.
    pub(in crate::session) fn desk_deadline(&self) -> Option<Instant> {
        self.outbox.as_ref()?;
        let open = self.machine.desk().open().iter();
        let waiting = open.filter(|asked| !self.desk.answering.contains_key(&asked.request.request_id));
        let due = waiting.filter_map(|asked| Some(self.due(asked, &self.route(asked))?.0));
        let next = due
            .chain(self.hook_stop_due().map(|(at, _)| at))
            .chain(self.next_given_up())
            .min()?;
        Some(Instant::now() + Duration::from_millis(next.millis_since(Clock.now()).saturating_add(1)))
    }

    /// The requests that wait for a client, oldest first.
    pub(in crate::session) fn pending_requests(&self) -> Vec<PendingRequest> {
        let open = self.machine.desk().open().iter();
        open.filter(|asked| !self.desk.answering.contains_key(&asked.request.request_id))
            .filter_map(|asked| {
                let route = self.route(asked);
                let deadline = self.due(asked, &route).map(|(at, _)| at);
                let client_id = match route.owner {
                    Owner::Client(client) => Some(client),
                    Owner::Anyone => None,
                    Owner::Webhook(_) | Owner::Url | Owner::Fixed(_) | Owner::Nobody(_) => return None,
                };
                Some(PendingRequest {
                    asked: std::sync::Arc::clone(asked),
                    client_id,
                    deadline,
                })
            })
            .collect()
    }

    /// Answers clients that ask whether a request of the CLI is for them, once the rules have seen it.
    pub(in crate::session) fn answer_questions(&mut self) {
        for question in self.clients.take_questions() {
            match self.is_asked(&question) {
                // The client may have left.
                Some(is_asked) => drop(question.reply.send(is_asked)),
                None => self.clients.ask(question),
            }
        }
    }

    /// Whether a request of the CLI waits for an answer that may be the client's; `None` while rules look at it.
    fn is_asked(&self, question: &Question) -> Option<bool> {
        let (request_id, is_it) = (question.request_id.as_str(), |it: &Approval| {
            it.request_id == question.request_id
        });
        let Some(client) = self.clients.client(question.connection) else {
            return Some(false);
        };
        if let Some(approval) = self.machine.approvals().iter().find(|it| is_it(it)) {
            let is_open = self.machine.open_approvals().iter().any(|it| is_it(it));
            if self.deciding.is_decided(approval.id) {
                return Some(false);
            }
            return (!is_open || self.ruling.of(approval.id).is_some()).then_some(true);
        }
        let asked = self.machine.desk().get(request_id);
        let asked = asked.filter(|_| !self.desk.answering.contains_key(request_id));
        Some(asked.is_some_and(|asked| match self.route(asked).owner {
            Owner::Anyone => true,
            Owner::Client(owner) => owner == *client,
            Owner::Webhook(_) | Owner::Url | Owner::Fixed(_) | Owner::Nobody(_) => false,
        }))
    }

    /// A client answers a request that is no approval.
    pub(in crate::session) fn answer_for_client(
        &mut self,
        connection: ConnectionId,
        by: String,
        request_id: String,
        outcome: Result<Option<Box<RawValue>>, ClientError>,
    ) {
        let is_secret = match self.machine.desk().get(&request_id) {
            None => Err(SessionError::RequestNotPending),
            Some(_) if self.desk.answering.contains_key(&request_id) => Err(SessionError::RequestNotPending),
            Some(asked) => match self.route(asked).owner {
                Owner::Anyone => Ok(asked.about.is_credentials()),
                Owner::Client(owner) if self.clients.client(connection) == Some(&owner) => Ok(false),
                _ => Err(SessionError::RequestOfAnotherClient),
            },
        };
        let unfit = self
            .machine
            .desk()
            .get(&request_id)
            .and_then(|asked| unfit(&asked.about, &outcome))
            .map(|why| SessionError::InvalidLine(BadLine::BadControl(why)));
        let misfit = match (&outcome, self.machine.desk().get(&request_id)) {
            (Ok(Some(output)), Some(asked)) => self.check_output(&asked.about, output).err(),
            _ => None,
        };
        let unfit = unfit.or_else(|| misfit.map(SessionError::InvalidDecision));
        let is_secret = match (is_secret, unfit) {
            (Ok(is_secret), None) => is_secret,
            (Err(error), _) | (Ok(_), Some(error)) => {
                self.clients.refuse_answer(connection, &request_id, error);
                return;
            }
        };
        let text = match &outcome {
            Ok(payload) => stdin::control_success(&request_id, payload.as_deref()),
            Err(error) => stdin::control_error(&request_id, &error.error, error.error_code.as_deref()),
        };
        let line = if is_secret {
            Line::secret(text, stdin::redacted_response(&request_id, outcome.is_ok()))
        } else {
            Line::from(text)
        };
        let client = Some(connection);
        let answering = Answering { by, line, client };
        self.desk.answering.insert(request_id.clone(), answering);
        self.write_answer(request_id);
    }

    /// Refuses a hook's output of which the CLI would drop a part without a word.
    pub(super) fn check_output(&self, about: &About, output: &RawValue) -> Result<(), BadAnswer> {
        match about {
            About::Hook { event, .. } => answer::check_hook_output(event, output.get(), self.may_bypass()),
            _ => Ok(()),
        }
    }

    /// Gives the CLI an answer that is no client's.
    pub(super) fn give(&mut self, request_id: String, by: String, line: impl Into<Line>) {
        let answering = Answering {
            by,
            line: line.into(),
            client: None,
        };
        self.desk.answering.insert(request_id.clone(), answering);
        self.write_answer(request_id);
    }

    /// Gives the stated answer, and says why in a record.
    pub(super) fn fall_back(&mut self, asked: &Asked, route: &Route, reason: FallbackReason) {
        self.desk.outside.forget(&asked.request.request_id);
        let line = fallback::answer(asked, route, reason);
        self.give(asked.request.request_id.clone(), DAEMON.to_owned(), line);
        self.note_fallback(Fallback {
            request_id: asked.request.request_id.clone(),
            subtype: asked.request.subtype.clone(),
            reason,
        });
    }

    /// Writes the record of a stated answer, as soon as there is room for it.
    pub(in crate::session) fn note_fallback(&mut self, fallback: Fallback) {
        let note = Note::Fallback {
            request_id: fallback.request_id.clone(),
            subtype: fallback.subtype.clone(),
            reason: Some(fallback.reason),
        };
        self.note(note, Subject::Due(Due::Fallback(fallback)));
    }

    /// Sends the answer to a request, unless the CLI took that back.
    pub(in crate::session) fn write_answer(&mut self, request_id: String) {
        if self.machine.desk().get(&request_id).is_none() {
            self.desk.answering.remove(&request_id);
            return;
        }
        let Some(answering) = self.desk.answering.get(&request_id) else {
            return;
        };
        let payload = Payload::line(answering.by.clone(), answering.line.clone());
        let subject = match answering.client {
            Some(_) => Subject::Reply(request_id),
            None => Subject::Due(Due::Answer(request_id)),
        };
        self.enqueue(Entry::new(payload, subject));
    }

    /// The answer of a client was not taken: the request waits on.
    pub(in crate::session) fn answer_refused(&mut self, request_id: &str, error: SessionError) {
        let answering = self.desk.answering.remove(request_id);
        if let Some(connection) = answering.and_then(|answering| answering.client) {
            self.clients.refuse_answer(connection, request_id, error);
        }
    }

    /// A request is open no longer: an answer is in the journal, or the CLI took it back.
    pub(in crate::session) fn on_asked_closed(&mut self, request_id: &str, is_answered: bool) {
        self.desk.outside.forget(request_id);
        let answering = self.desk.answering.remove(request_id);
        let Some(connection) = answering.and_then(|answering| answering.client) else {
            return;
        };
        if is_answered {
            self.clients.ack_answer(connection, request_id);
        } else {
            let error = SessionError::RequestNotPending;
            self.clients.refuse_answer(connection, request_id, error);
        }
    }

    /// The process ended: what was open is open no longer.
    pub(in crate::session) fn close_desk(&mut self) {
        let open: Vec<_> = self.desk.answering.keys().cloned().collect();
        for request_id in open {
            self.on_asked_closed(&request_id, false);
        }
        self.desk.sent_hooks = None;
        self.desk.stopped_turn = None;
        self.desk.stopping = None;
        self.desk.outside.close();
    }

    /// The interrupt was not taken: it is due again.
    pub(in crate::session) fn desk_stop_refused(&mut self) {
        self.desk.stopped_turn = None;
    }

    pub(super) fn route(&self, asked: &Asked) -> Route {
        let registrations = self.machine.desk().registrations();
        let route = route::route(asked, registrations, &self.desk.routes, self.takes_secrets());
        match &route.owner {
            // Its registrations have ended with it.
            Owner::Client(client) if self.desk.was_lost(client, asked.at) => route.ended(),
            _ => route,
        }
    }

    fn due(&self, asked: &Asked, route: &Route) -> Option<(Timestamp, FallbackReason)> {
        let presence = match &route.owner {
            Owner::Client(client) if !self.clients.is_attached(client) => self.desk.absence(client),
            Owner::Anyone if !self.clients.can_answer() => Presence::Unseen { since: asked.at },
            _ => Presence::Attached,
        };
        let due = route.due(asked, presence, self.desk.times);
        let early = route.due_early(asked, presence);
        let due = due.into_iter().chain(early).min_by_key(|(at, _)| *at);
        let Some(stopping) = self.desk.stopping else {
            return due;
        };
        // Nobody comes back in time, and nobody has asked for what an unclaimed process does.
        let is_alone = presence != Presence::Attached || self.unclaimed.is_some();
        let last = if is_alone {
            (asked.at, FallbackReason::NoClient)
        } else {
            (stopping.due(asked.at), FallbackReason::Late)
        };
        due.into_iter().chain([last]).min_by_key(|(at, _)| *at)
    }

    /// When the turn that runs is interrupted because a hook said that it ends, and which one that is.
    fn hook_stop_due(&self) -> Option<(Timestamp, u64)> {
        let stop = self.machine.desk().hook_stop()?;
        let runs = self.machine.running_turn() == Some(stop.turn);
        (runs && self.desk.stopped_turn != Some(stop.turn))
            .then(|| (stop.at.plus_millis(HOOK_STOP_MS), stop.turn))
    }

    /// A hook's `continue: false` ends the turn also when the CLI runs on.
    fn stop_for_hook(&mut self, now: Timestamp) {
        let Some((_, turn)) = self.hook_stop_due().filter(|(at, _)| *at <= now) else {
            return;
        };
        self.desk.stopped_turn = Some(turn);
        if self.controls.is_interrupting() {
            // Somebody was faster, and one interrupt must not become two.
            return;
        }
        self.turn_is_ending();
        let id = RunId::new().to_string();
        let line = stdin::control_request(&id, "interrupt", &Fields::new());
        self.enqueue(Entry::new(
            Payload::line(DAEMON, line),
            Subject::Due(Due::HookStop),
        ));
    }
}

/// Why the CLI could not use an answer of a client: it would take a hook for one without an opinion, and wait on for a
/// server's. Beyond its form, the content of an answer is the client's affair.
fn unfit(about: &About, outcome: &Result<Option<Box<RawValue>>, ClientError>) -> Option<&'static str> {
    let Ok(payload) = outcome else {
        return None;
    };
    let payload = payload.as_deref().map(RawValue::get);
    match about {
        About::Hook { .. } if payload.is_some_and(|payload| !json::is_object(payload)) => {
            Some("has a hook output that is no object")
        }
        About::Mcp { id: Some(id), .. } => {
            let response = payload.and_then(|payload| json::member(payload, "mcp_response"));
            let of = response.and_then(|response| json::member(response, "id"));
            (!of.is_some_and(|of| same_value(of, id.get())))
                .then_some("has no mcp_response with the id of the message")
        }
        _ => None,
    }
}
