//! Owns what the actor does with control requests to the CLI: when they are sent, when they are given up, and that one
//! interrupt never becomes two.

use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::{
    claude::{
        BadLine, ControlResponse, catalogue,
        control::{self, Fields},
        stdin,
    },
    domain::{ClientId, ConnectionId, RunId, SessionState},
    json,
    keeper::Line,
};

use super::{
    RefusedLine, SessionError,
    actor::Actor,
    choices::{choice_of, is_named_client, secret_line},
    control::{Asker, Held, Interrupt, Place, Registration, Request, Waiting, end_of},
    desk::own_hooks,
    machine::INITIALIZE_ID,
    notes::{ChoicesNotice, Note, Notice},
    outbox::{Due, Entry, Payload, Subject},
    process::StopCause,
};

/// How long a turn that was told to end is given, before it is told again when somebody asks for that.
const ENDING: Duration = Duration::from_secs(2);

/// How long new hooks wait until none is open.
const REGISTRATION_PATIENCE: Duration = Duration::from_secs(30);

impl Actor {
    pub(super) fn control(&mut self, subtype: String, request: &[u8], by: String, asker: Asker) {
        if asker.has_left() {
            return;
        }
        let wakes = self.wakes();
        let refusal = self.refuse_input().filter(|_| !wakes);
        let Some(request) = std::str::from_utf8(request).ok().filter(|it| json::is_object(it)) else {
            let bad = SessionError::InvalidLine(BadLine::BadControl("has no request object"));
            self.answer_asker(asker, Err(refusal.unwrap_or(bad)));
            return;
        };
        if let Some(why) = not_allowed(&asker, &subtype, request) {
            self.answer_asker(asker, Err(SessionError::ControlNotAllowed { subtype, why }));
            return;
        }
        if let Some(refusal) = refusal {
            self.answer_asker(asker, Err(refusal));
            return;
        }
        // An interrupt right behind a prompt is meant for it. The CLI would end what runs, which is nothing yet.
        let is_unbegun = self.machine.has_unbegun_prompt()
            || (self.machine.running_turn().is_none() && self.prompts.any_is_on_its_way());
        let meant = (subtype == "interrupt" && is_unbegun)
            .then(|| control::replaced(request, "cancel_queued", RawValue::TRUE.to_owned()))
            .flatten();
        let request = meant.as_deref().map_or(request, RawValue::get);
        let interrupt = (subtype == "interrupt").then(|| Interrupt {
            turn: self.machine.turn_number(),
            cancel_queued: json::member_bool(request, "cancel_queued") == Some(true),
        });
        if interrupt.is_some() && (wakes || self.machine.restart().is_some()) {
            // The interrupted process has ended, and the waiting messages have not begun.
            self.answer_asker(asker, Ok(nothing_to_do()));
            return;
        }
        if wakes && catalogue::never_wakes(&subtype) {
            // Nobody wants to pay for a process in order to look.
            let state = SessionState::Parked;
            self.answer_asker(asker, Err(SessionError::NotLive { state }));
            return;
        }
        if subtype == "initialize"
            && let Asker::Client { connection, .. } = &asker
            && let Some(client) = self.clients.client(*connection).cloned()
        {
            match own_hooks(&client, request) {
                Err(bad) => self.answer_asker(asker, Err(SessionError::InvalidLine(bad))),
                Ok(None) => self.send_control(subtype, request, by, asker, None),
                Ok(Some(_)) => self.register(&client, request, by, asker),
            }
            return;
        }
        self.send_control(subtype, request, by, asker, interrupt);
    }

    /// A client registers hooks. Those that it has are no news to the CLI.
    fn register(&mut self, client: &ClientId, request: &str, by: String, asker: Asker) {
        let is_free = self.controls.registrations().next().is_none() && !self.machine.desk().has_open_hook();
        let is_first = self.controls.registrations().all(|it| it.client != *client);
        if is_free || (is_first && self.answer_unchanged(client, request).is_some()) {
            self.send_registration(client, request, by, asker);
            return;
        }
        let id = RunId::new().to_string();
        let request = Bytes::copy_from_slice(request.as_bytes());
        self.hold(Held::Request(Request {
            entry: Entry::new(
                Payload::line(by.clone(), request.clone()),
                Subject::Control(id.clone()),
            ),
            id,
            subtype: "initialize".to_owned(),
            interrupt: None,
            choice: None,
            askers: vec![asker],
            registers: Some(Registration {
                client: client.clone(),
                request,
                by,
                until: Instant::now() + REGISTRATION_PATIENCE,
            }),
        }));
    }

    fn send_registration(&mut self, client: &ClientId, request: &str, by: String, asker: Asker) {
        match self.answer_unchanged(client, request) {
            Some(answer) => self.answer_asker(asker, Ok(answer)),
            None => self.send_control("initialize".to_owned(), request, by, asker, None),
        }
    }

    /// Sends a request, or holds it back.
    fn send_control(
        &mut self,
        subtype: String,
        request: &str,
        by: String,
        asker: Asker,
        interrupt: Option<Interrupt>,
    ) {
        let wakes = self.wakes();
        let asker = match interrupt {
            Some(wanted) => self.controls.join(wanted, asker, Instant::now()),
            None => Some(asker),
        };
        let Some(asker) = asker else {
            return;
        };
        let id = RunId::new().to_string();
        let merged = self.controls.choices.with_rules(&subtype, request);
        let written = merged.as_deref().unwrap_or(request);
        let line = match self.line_of(&id, &subtype, written, &asker) {
            Ok(line) => line,
            Err(bad) => {
                self.answer_asker(asker, Err(SessionError::InvalidLine(bad)));
                return;
            }
        };
        // A host without a name of its own comes back for a while, and is not one of a later process.
        let is_named_client = matches!(asker, Asker::Client { .. }) && is_named_client(Some(&by));
        let choice = choice_of(&subtype, request, is_named_client);
        let choice = choice.map(|choice| Box::new((choice, by.clone())));
        let line = match secret_line(&id, &subtype, request, &Fields::new()) {
            Some(_) if !self.takes_secrets() => {
                self.answer_asker(asker, Err(SessionError::SecretNotTaken));
                return;
            }
            Some(record) => Line::secret(line, record),
            None => Line::from(line),
        };
        let request = Request {
            entry: Entry::new(Payload::line(by, line), Subject::Control(id.clone())),
            id,
            subtype,
            interrupt,
            choice,
            askers: vec![asker],
            registers: None,
        };
        let is_carrying = self.machine.next_after_restore().is_some();
        let is_ready = self.machine.is_ready() && !is_carrying;
        let subtype = request.subtype.as_str();
        let may_go = match request.interrupt {
            // It is meant for what was sent before it. A prompt that waits for another interrupt came later.
            Some(_) => is_ready || !(is_carrying || self.controls.has_held_prompt()),
            None if catalogue::goes_first(subtype) => true,
            // A request that only reads changes nothing for a prompt that waits.
            None => is_ready && (!self.is_behind_held() || catalogue::may_overtake(subtype)),
        };
        if !wakes && may_go {
            self.send_request(request);
        } else {
            self.hold(Held::Request(request));
        }
    }

    /// Holds something back until the process is ready; refused as busy when that is too much.
    fn hold(&mut self, mut held: Held) {
        let entry = match &mut held {
            Held::Request(request) => &mut request.entry,
            Held::Prompt(entry) => entry,
        };
        let refused = if entry.take_room(&self.way.room) {
            self.controls.hold(held)
        } else {
            Some(held)
        };
        if let Some(refused) = refused {
            self.refuse_held_back(refused, &|| SessionError::Busy);
        }
    }

    /// Tells who waits for what was held back that it is not sent.
    pub(super) fn refuse_held_back(&mut self, held: Held, refusal: &dyn Fn() -> SessionError) {
        match held {
            Held::Request(request) => self.answer_askers(request.askers, &|| Err(refusal())),
            Held::Prompt(entry) => self.refuse_for(entry.subject, refusal),
        }
    }

    /// The line for the CLI: the request as it is, but for what a client registers.
    fn line_of(&mut self, id: &str, subtype: &str, request: &str, asker: &Asker) -> Result<Bytes, BadLine> {
        let client = match asker {
            Asker::Client { connection, .. } if subtype == "initialize" => self.clients.client(*connection),
            Asker::Client { .. } | Asker::Caller(_) => None,
        };
        let Some(client) = client.cloned() else {
            return Ok(Bytes::from(stdin::relayed_request(id, request)));
        };
        let fields = self.merged_initialize(id, &client, request)?;
        Ok(Bytes::from(stdin::control_request(id, subtype, &fields)))
    }

    /// Notes that the turn which runs was told to end.
    pub(super) fn turn_is_ending(&mut self) {
        if let Some(turn) = self.machine.running_turn() {
            self.controls.turn_is_ending(turn, Instant::now() + ENDING);
        }
    }

    /// A turn ended. Those who asked for that a second time have what they wanted.
    pub(super) fn on_turn_ended(&mut self, turn: u64) {
        let askers = self.controls.turn_ended(turn);
        self.answer_askers(askers, &|| Ok(nothing_to_do()));
    }

    fn send_request(&mut self, request: Request) {
        let Request {
            id,
            subtype,
            entry,
            interrupt,
            choice,
            askers,
            registers,
        } = request;
        if let Some(registration) = registers {
            // The state may have changed since it came.
            let Registration {
                client, request, by, ..
            } = registration;
            let request = String::from_utf8_lossy(&request);
            for asker in askers {
                self.send_registration(&client, &request, by.clone(), asker);
            }
            return;
        }
        if let Some((choice, by)) = choice.map(|choice| *choice)
            && let Err(error) = self.controls.choices.ask(&id, choice, &by)
        {
            self.answer_askers(askers, &|| Err(error.clone().into()));
            return;
        }
        self.controls.add(id, Waiting::new(askers, subtype, interrupt));
        self.enqueue(entry);
    }

    /// Sends what was held back, once it may be sent, or refuses it, once it never will. Called after everything that may
    /// have changed something.
    pub(super) fn settle_requests(&mut self) {
        if let Some(state) = self.over() {
            while let Some(held) = self.controls.take_held() {
                self.refuse_held_back(held, &|| SessionError::NotLive { state });
            }
            return;
        }
        if self.machine.is_restoring() {
            self.restore();
            return;
        }
        if self.carry_on_after_restore() {
            return;
        }
        let is_ready = self.machine.is_ready() && !self.wakes();
        while let Some(held) = self.controls.take_sendable(is_ready, self.may_register()) {
            match held {
                Held::Request(request) => self.send_request(request),
                Held::Prompt(entry) => self.enqueue(entry),
            }
        }
    }

    /// Whether the CLI may be given new hooks.
    fn may_register(&self) -> bool {
        !self.machine.desk().has_open_hook() && !self.wakes()
    }

    /// Whether what is held back goes before what comes now.
    fn is_behind_held(&self) -> bool {
        self.controls.holds_up(self.may_register())
    }

    /// The state, when there is no process and none is being started.
    fn over(&self) -> Option<SessionState> {
        let state = self.shown_state();
        let is_over = !state.is_live() && !self.wakes();
        is_over.then_some(state)
    }

    /// Writes a prompt, behind what came before it, and not into the middle of an interrupt.
    pub(super) fn enqueue_prompt(&mut self, entry: Entry) {
        let waits = self.is_behind_held() || self.controls.is_interrupting();
        if waits || self.machine.is_restoring() || self.machine.next_after_restore().is_some() {
            self.hold(Held::Prompt(entry));
        } else {
            self.enqueue(entry);
        }
    }

    /// Gives a new process what was set while its predecessors ran: one request after the other.
    fn restore(&mut self) {
        let Some(run) = self.machine.run_id() else {
            return;
        };
        let left = self.machine.left_to_restore();
        // One that an earlier daemon has sent is answered like any other.
        if left.first().is_none_or(|id| self.machine.is_asked(id)) {
            return;
        }
        let clients = &self.clients;
        let is_here = |client: &ClientId| clients.connection_of(client).is_some();
        match self
            .controls
            .choices
            .next_step(run, left, self.machine.left_out(), is_here)
        {
            Some(Ok(step)) => {
                if !step.left_out.is_empty() {
                    let note = Note::Notice(Notice::Choices(ChoicesNotice::left_out(&step.left_out)));
                    self.note(note, Subject::Nobody);
                }
                let line = Bytes::from(step.line);
                let line = match step.record {
                    Some(record) => Line::secret(line, record),
                    None => Line::from(line),
                };
                self.enqueue(Entry::new(
                    Payload::line("daemon", line),
                    Subject::Due(Due::Restore),
                ));
            }
            Some(Err(failure)) => {
                tracing::error!(session.id = %self.id, error = %failure, "the process is stopped");
                self.stop_process("daemon".to_owned(), StopCause::asked(false));
            }
            None => {}
        }
    }

    /// Writes the prompts of the last process to this one, which has what was set by now: each once the one before it is in the
    /// journal, so that none is lost for want of room and they keep their order. Says whether any is left.
    fn carry_on_after_restore(&mut self) -> bool {
        while let Some((run, prompt)) = self.machine.run_id().zip(self.machine.next_after_restore()) {
            if !self.controls.choices.restoring.begin_prompt(run, prompt.uuid) {
                return true;
            }
            let Some((by, line)) = self.record(prompt.seq) else {
                tracing::warn!(session.id = %self.id, seq = prompt.seq.get(), "a prompt that waited is not readable");
                self.machine.forget_awaited(prompt.uuid);
                continue;
            };
            let by = by.unwrap_or_else(|| "daemon".to_owned());
            self.enqueue(Entry::new(Payload::line(by, line), Subject::Due(Due::Carried)));
            return true;
        }
        false
    }

    pub(super) fn on_control_answered(&mut self, answer: ControlResponse) {
        self.controls.choices.answered(&answer);
        self.desk.forget_hooks_of(&answer.request_id);
        let Some(waiting) = self.controls.take(&answer.request_id) else {
            if answer.request_id != INITIALIZE_ID {
                let (session, request) = (self.id, &answer.request_id);
                tracing::debug!(session.id = %session, request, "an answer that nobody waits for was dropped");
            }
            return;
        };
        if waiting
            .interrupt
            .is_some_and(|it| it.turn == self.machine.turn_number())
            && answer.outcome.is_ok()
        {
            self.turn_is_ending();
        }
        self.answer_waiting(waiting, &|| Ok(answer.clone()));
    }

    /// Tells who waits for the CLI that this daemon will not hear the answer.
    pub(super) fn cut_off_requests(&mut self) {
        for (id, waiting) in self.controls.take_all() {
            self.answer_waiting(waiting, &|| Err(SessionError::CutOff.of_sent(&id)));
        }
    }

    /// Gives up what is overdue.
    pub(super) fn on_requests_deadline(&mut self, now: Instant) {
        // The turn goes on: those who asked a second time have their way.
        for asker in self.controls.take_ending_overdue(now) {
            let by = match &asker {
                Asker::Caller(_) => "rest".to_owned(),
                Asker::Client { connection, .. } => self.name_of(*connection),
            };
            self.control("interrupt".to_owned(), br#"{"subtype":"interrupt"}"#, by, asker);
        }
        for held in self.controls.take_unregistered(now) {
            self.refuse_held_back(held, &|| SessionError::Busy);
        }
        for (id, waiting) in self.controls.take_overdue(now) {
            tracing::debug!(session.id = %self.id, request = id, subtype = waiting.subtype, "no answer in time");
            self.cancel(&id, "daemon");
            let (subtype, ms) = (waiting.subtype.clone(), waiting.deadline.1);
            self.answer_waiting(waiting, &|| {
                let subtype = subtype.clone();
                Err(SessionError::ControlDeadline { subtype, ms }.of_sent(&id))
            });
        }
    }

    /// A caller may have stopped waiting: what only it waited for is taken back.
    pub(super) fn on_departure(&mut self) {
        for id in self.controls.remove_left() {
            self.cancel(&id, "daemon");
        }
    }

    /// A client left: what only it waited for is taken back, unless it has another connection.
    pub(super) fn forget_client(&mut self, connection: ConnectionId, heir: Option<ConnectionId>) {
        for id in self.controls.leave(connection, heir) {
            self.cancel(&id, "daemon");
        }
    }

    /// A client takes a request of its own back. Once the CLI works on it, the CLI answers it.
    pub(super) fn take_back_request(&mut self, connection: ConnectionId, client_id: &str, by: &str) {
        match self.controls.of_client(connection, client_id) {
            Some(Place::Sent(id)) => self.cancel(&id, by),
            Some(Place::Ours) => {
                // Nothing is named: it was not sent, or others wait for it.
                self.controls.remove_request(connection, client_id);
                let line = RefusedLine::Request(client_id.to_owned());
                self.clients
                    .refuse(connection, line, SessionError::RequestTakenBack);
            }
            None => {}
        }
    }

    /// Tells the CLI that nobody waits for an answer any more.
    pub(super) fn cancel(&mut self, id: &str, by: &str) {
        if self.outbox.is_none() {
            return;
        }
        let line = Bytes::from(stdin::control_cancel_request(id));
        self.enqueue(Entry::new(Payload::line(by, line), Subject::Nobody));
    }

    /// Tells all who asked what came of a request that was sent, and counts it.
    pub(super) fn answer_waiting(
        &mut self,
        waiting: Waiting,
        outcome: &dyn Fn() -> Result<ControlResponse, SessionError>,
    ) {
        self.metrics.control_ended(&waiting.subtype, end_of(&outcome()));
        self.answer_askers(waiting.askers, outcome);
    }

    pub(super) fn answer_askers(
        &mut self,
        askers: Vec<Asker>,
        outcome: &dyn Fn() -> Result<ControlResponse, SessionError>,
    ) {
        for asker in askers {
            self.answer_asker(asker, outcome());
        }
    }

    pub(super) fn answer_asker(&mut self, asker: Asker, outcome: Result<ControlResponse, SessionError>) {
        match (asker, outcome) {
            // The caller may have left.
            (Asker::Caller(reply), outcome) => drop(reply.send(outcome)),
            (Asker::Client { connection, id }, Ok(answer)) => {
                self.clients.control_response(connection, &id, answer);
            }
            (Asker::Client { connection, id }, Err(error)) => {
                self.clients.refuse(connection, RefusedLine::Request(id), error);
            }
        }
    }
}

fn not_allowed(asker: &Asker, subtype: &str, request: &str) -> Option<&'static str> {
    match asker {
        Asker::Caller(_) => catalogue::refusal_off_socket(subtype, request),
        Asker::Client { .. } => catalogue::refusal(subtype, request),
    }
}

/// The answer to an interrupt whose turn ended before it was sent.
fn nothing_to_do() -> ControlResponse {
    ControlResponse {
        request_id: String::new(),
        outcome: Ok(None),
        pending_permission_requests: Vec::new(),
        beside: Fields::new(),
    }
}
