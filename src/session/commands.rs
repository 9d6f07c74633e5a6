//! Owns what the actor does when it is asked: by callers over its handle, and by attached clients with their lines.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    claude::{
        BadAnswer, ClientLine,
        stdin::{self, ClientError},
    },
    domain::{
        Approval, ApprovalId, ApprovalKind, ConnectionId, ParkReason, PromptUuid, Resolution, Seq,
        SessionState, prompt_uuid_from_daemon,
    },
    json,
};

use super::{
    Kept, Newcomer, RefusedLine, SessionError,
    actor::Actor,
    approvals,
    control::Asker,
    decisions::{DecisionReply, PutOff},
    handle::{
        Attachment, Bounds, ClientInbox, Command, Decision, Prompt, Reply, Sent, TurnOutcome, outside_roots,
    },
    large,
    machine::{PromptDigest, digest},
    outbox::{Entry, Payload, Subject},
    process::no_turn_comes,
    prompts::{PromptCheck, PromptReply},
};

/// The mode that asks nobody.
const BYPASS: &str = "bypassPermissions";

impl Actor {
    pub(super) fn on_command(&mut self, command: Command) {
        match command {
            Command::Start {
                launch,
                admitted,
                reply,
            } => self.start(launch, admitted, reply),
            Command::Send { prompt, by, reply } => self.send_prompt(prompt, by, PromptReply::Caller(reply)),
            Command::Control {
                subtype,
                request,
                by,
                reply,
            } => self.control(subtype, &request, by, Asker::Caller(reply)),
            Command::Decide {
                approval,
                decision,
                by,
                reply,
            } => {
                self.decide(approval, &decision, by, DecisionReply::Caller(reply));
            }
            Command::Choices { fresh, reply } => {
                // The asker may have left.
                reply.send(self.choices(fresh)).ok();
            }
            Command::TellQueue { queue } => self.clients.tell_queue(&queue),
            Command::GiveWay { said, reply } => {
                self.controls.choices.give_way(&said);
                // The asker may have left.
                reply.send(Ok(())).ok();
            }
            Command::SetRules { rules, reply } => {
                self.ruling.set(rules);
                // The asker may have left.
                reply.send(Ok(())).ok();
            }
            Command::Claim { claim, reply } => self.claim(*claim, reply),
            Command::StartProjecting { reply } => self.start_projecting(reply),
            Command::WaitTurn { prompt, reply } => self.wait_turn(prompt, reply),
            Command::Attach {
                after,
                newcomer,
                sender,
                reply,
            } => {
                // The asker may have left; then the attachment is dropped, which ends it.
                reply.send(self.attach(after, newcomer, sender)).ok();
            }
            Command::Detach { connection } => self.detach(connection),
            Command::Line {
                connection,
                outside,
                line,
            } => match outside {
                Some(outside) => self.refuse_line(connection, &line, outside),
                None => self.on_line(connection, &line),
            },
            // Settling answers it.
            Command::IsAsked(question) => self.clients.ask(question),
            Command::RestartFailed { reason } => self.on_restart_failed(reason),
            Command::Park {
                reason,
                least_unused_ms,
                reply,
            } => self.park(reason, least_unused_ms, Some(reply)),
            Command::WakeFailed { failure } => self.on_wake_failed(&failure),
            // The run loop ends on it.
            Command::Close { .. } | Command::Retire { .. } => {}
        }
    }

    fn choices(&mut self, fresh: bool) -> Result<Kept, SessionError> {
        let choices = &mut self.controls.choices;
        if fresh && (self.machine.has_refused_choices() || choices.is_unusable()) {
            choices.put_aside()?;
        }
        Ok(choices.get()?.clone())
    }

    /// Why nothing can be written to the process now.
    pub(super) fn refuse_input(&self) -> Option<SessionError> {
        match self.shown_state() {
            SessionState::Starting | SessionState::Idle | SessionState::Busy | SessionState::Waiting => {
                self.way.silence.map(SessionError::KeeperSilent)
            }
            SessionState::Stopping => Some(SessionError::Stopping),
            state @ (SessionState::Stopped | SessionState::Failed | SessionState::Parked) => {
                Some(SessionError::NotLive { state })
            }
        }
    }

    fn send_prompt(&mut self, prompt: Prompt, by: String, reply: PromptReply) {
        let Prompt { uuid, line } = prompt;
        if let Some(seq) = self.prompts.earlier(uuid) {
            self.recall(uuid, seq, digest(&line));
        }
        // A repeat is acknowledged in every state: its outcome does not depend on the process.
        match self.prompts.admit(uuid, digest(&line), reply) {
            PromptCheck::Waits => {
                if let Some(why) = self.way.silence {
                    self.leave_prompts(Some(uuid), why);
                }
            }
            PromptCheck::Repeated(reply, seq) => {
                self.answer_prompt(reply, uuid, Ok(Sent { seq, repeated: true }))
            }
            PromptCheck::Conflict(reply) => {
                self.answer_prompt(reply, uuid, Err(SessionError::PromptConflict(uuid)));
            }
            PromptCheck::Write => {
                if !self.wakes() && self.refuse_input().is_some() {
                    for reply in self.prompts.on_unsent(uuid) {
                        if let Some(refusal) = self.refuse_input() {
                            self.answer_prompt(reply, uuid, Err(refusal));
                        }
                    }
                    return;
                }
                if self.machine.has_deferred() {
                    // The CLI would drop the call.
                    for reply in self.prompts.on_unsent(uuid) {
                        self.answer_prompt(reply, uuid, Err(SessionError::CallDeferred));
                    }
                    return;
                }
                self.enqueue_prompt(Entry::new(Payload::line(by, line), Subject::Prompt(uuid)));
            }
        }
    }

    /// Looks up what a prompt of an earlier run said. One whose record is no more counts as the same.
    fn recall(&mut self, uuid: PromptUuid, seq: Seq, otherwise: PromptDigest) {
        let recorded = self.record_data(seq).map_or(otherwise, |data| digest(&data));
        self.prompts.on_sent(uuid, seq, recorded);
    }

    pub(super) fn answer_prompt(
        &mut self,
        reply: PromptReply,
        uuid: PromptUuid,
        outcome: Result<Sent, SessionError>,
    ) {
        match (reply, outcome) {
            // The caller may have left; the prompt is in the journal all the same.
            (PromptReply::Caller(reply), outcome) => drop(reply.send(outcome)),
            (PromptReply::Client(connection), Ok(sent)) => self.clients.ack_prompt(connection, uuid, sent),
            (PromptReply::Client(connection), Err(error)) => {
                self.clients
                    .refuse(connection, RefusedLine::Prompt(Some(uuid)), error);
            }
        }
    }

    pub(super) fn decide(&mut self, id: ApprovalId, decision: &Decision, by: String, reply: DecisionReply) {
        let Some(approval) = self.machine.approvals().iter().find(|it| it.id == id).cloned() else {
            let error = if self.machine.is_answered(id) {
                SessionError::AlreadyDecided(id)
            } else {
                SessionError::ApprovalNotPending(id)
            };
            self.answer_decision(reply, id, Err(error));
            return;
        };
        if let Some(why) = self.way.silence
            && !matches!(reply, DecisionReply::Rule)
        {
            self.answer_decision(reply, id, Err(SessionError::KeeperSilent(why)));
            return;
        }
        if self.deciding.is_decided(id) {
            self.deciding.add(id, reply);
            return;
        }
        let approval = match large::whole_approval(&approval, &self.feed) {
            Ok(whole) => whole,
            Err(error) => {
                self.answer_decision(reply, id, Err(SessionError::Journal(error)));
                return;
            }
        };
        let answer = match approvals::complete(&approval, decision, self.may_bypass()) {
            Ok(answer) => answer,
            Err(bad) => {
                self.answer_decision(reply, id, Err(SessionError::InvalidDecision(bad)));
                return;
            }
        };
        if approval.kind == ApprovalKind::Deferred {
            self.decide_deferred(&approval, answer, by, reply);
            return;
        }
        self.deciding.add(id, reply);
        if json::member_bool(answer.get(), "interrupt") == Some(true) {
            self.turn_is_ending();
        }
        let line = Bytes::from(stdin::control_success(&approval.request_id, Some(&answer)));
        self.enqueue(Entry::new(Payload::line(by, line), Subject::Answer(id)));
    }

    /// Where the session works, and what bounds its directories.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            cwd: self.ruling.cwd().into(),
            roots: self.settings.roots.clone(),
        }
    }

    /// Whether the session may come into the mode that asks nobody: it was made for that, or is in it.
    pub(super) fn may_bypass(&self) -> bool {
        self.desk.may_bypass() || self.machine.permission_mode() == Some(BYPASS)
    }

    /// Decides about a call that a hook put off. Only a process that begins with it asks about it, so the one that put it off is
    /// parked and another started; that asks the hook, and hears the decision.
    fn decide_deferred(
        &mut self,
        approval: &Approval,
        output: Box<RawValue>,
        by: String,
        reply: DecisionReply,
    ) {
        let state = self.machine.state();
        let is_own = self.machine.run_id() == Some(approval.run_id);
        let refused = if self.wakes() || self.launching.is_some() || (!is_own && state.is_live()) {
            None
        } else if !state.is_live() {
            Some(SessionError::NotLive { state })
        } else {
            self.parkable().err().map(SessionError::NotParkable)
        };
        if let Some(error) = refused {
            self.answer_decision(reply, approval.id, Err(error));
            return;
        }
        if is_own && !self.wakes() && self.launching.is_none() {
            self.park(ParkReason::Asked, 0, None);
        }
        let decision = PutOff {
            id: approval.id,
            request_id: approval.request_id.clone(),
            by,
            output,
        };
        self.deciding.put_off(decision, reply);
    }

    /// The process is ready and has not asked about the call that was put off. It can be decided again.
    pub(super) fn on_unasked(&mut self, now: Instant) {
        let Some(id) = self.deciding.take_unasked(now) else {
            return;
        };
        for reply in self.deciding.take(id) {
            self.answer_decision(reply, id, Err(SessionError::CallNotAsked));
        }
    }

    /// No process will ask about the call that was put off.
    pub(super) fn refuse_put_off(&mut self, refusal: &dyn Fn() -> SessionError) {
        let Some(id) = self.deciding.waits_for_process().map(|put_off| put_off.id) else {
            return;
        };
        for reply in self.deciding.take(id) {
            self.answer_decision(reply, id, Err(refusal()));
        }
    }

    pub(super) fn answer_decision(
        &mut self,
        reply: DecisionReply,
        id: ApprovalId,
        outcome: Result<Resolution, SessionError>,
    ) {
        match (reply, outcome) {
            (DecisionReply::Caller(reply), outcome) => drop(reply.send(outcome)),
            (DecisionReply::Rule, Err(SessionError::InvalidDecision(_))) => self.drop_rule(id),
            (DecisionReply::Rule | DecisionReply::Left, _) => {}
            (
                DecisionReply::Client {
                    connection,
                    request_id,
                },
                Ok(_),
            ) => {
                self.clients.ack_answer(connection, &request_id);
            }
            (
                DecisionReply::Client {
                    connection,
                    request_id,
                },
                Err(error),
            ) => match self.machine.ended_approval(&request_id) {
                Some(ended) => self.clients.late_answer(connection, ended),
                None => {
                    let approval_id = Some(id);
                    let line = RefusedLine::Answer {
                        request_id,
                        approval_id,
                    };
                    self.clients.refuse(connection, line, error);
                }
            },
        }
    }

    pub(super) fn on_approval_closed(&mut self, id: ApprovalId, resolution: Resolution) {
        let by_answer = resolution.state.is_answered();
        self.ruling.forget(id);
        self.announced.remove(&(id, false));
        for (place, reply) in self.deciding.take(id).into_iter().enumerate() {
            let outcome = if place == 0 && by_answer {
                Ok(resolution.clone())
            } else {
                Err(SessionError::AlreadyDecided(id))
            };
            self.answer_decision(reply, id, outcome);
        }
    }

    fn wait_turn(&mut self, prompt: PromptUuid, reply: Reply<Arc<TurnOutcome>>) {
        let ended = self
            .ended_turns
            .iter()
            .find(|outcome| outcome.turn.prompts.contains(&prompt));
        if let Some(outcome) = ended {
            reply.send(Ok(Arc::clone(outcome))).ok();
        } else if self.machine.has_prompt(prompt) && self.expects_no_process() {
            // The process ended before the caller asked for the turn.
            reply.send(Err(no_turn_comes(&self.machine))).ok();
        } else if self.machine.has_prompt(prompt) || self.prompts.is_on_its_way(prompt) {
            self.turn_waiters.entry(prompt).or_default().push(reply);
        } else {
            reply.send(Err(SessionError::PromptNotOpen(prompt))).ok();
        }
    }

    fn attach(
        &mut self,
        after: Option<Seq>,
        newcomer: Newcomer,
        commands: mpsc::Sender<Command>,
    ) -> Result<Attachment, SessionError> {
        let connection = ConnectionId::new();
        let after = after.unwrap_or_else(|| self.feed.head().seq);
        let cursor = self.feed.cursor_over(after).map_err(SessionError::Journal)?;
        let (direct, client) = self.clients.attach(connection, newcomer);
        self.desk.came(&client);
        let present = CancellationToken::new();
        self.tracker
            .spawn(tell_of_the_end(connection, present.clone(), commands.clone()));
        Ok(Attachment {
            connection,
            authors: self
                .clients
                .decider(connection)
                .into_iter()
                .chain([self.name_of(connection)])
                .collect(),
            client,
            clients: self.clients.who_is_here(),
            view: self.shown_view(),
            feed: self.feed.clone(),
            cursor,
            direct,
            inbox: ClientInbox {
                connection,
                commands,
                bounds: self.bounds(),
                _present: Arc::new(present.drop_guard()),
            },
        })
    }

    fn on_line(&mut self, connection: ConnectionId, line: &[u8]) {
        if self.clients.client(connection).is_none() {
            // It was let go and does not know it yet.
            return;
        }
        let by = self.name_of(connection);
        match stdin::check_client_line(line) {
            Err(bad) => {
                let error = SessionError::InvalidLine(bad);
                self.clients.refuse(connection, RefusedLine::Nameless, error);
            }
            Ok(ClientLine::KeepAlive) => {}
            Ok(ClientLine::User { uuid, content, line }) => {
                let (bytes, limit) = (content_bytes(content), self.settings.max_prompt_bytes);
                let refusal = if bytes > limit {
                    Some(SessionError::PromptTooLarge { bytes, limit })
                } else {
                    stdin::is_blank(content).then_some(SessionError::EmptyPrompt)
                };
                if let Some(refusal) = refusal {
                    self.clients
                        .refuse(connection, RefusedLine::Prompt(uuid), refusal);
                    return;
                }
                // The line itself may say otherwise.
                let is_marked = self.desk.is_verbatim() && json::member(line, "client_composed").is_none();
                let (uuid, line) = match uuid {
                    Some(uuid) if !is_marked => (uuid, Bytes::copy_from_slice(line.as_bytes())),
                    Some(uuid) => (uuid, Bytes::from(stdin::complete_user_line(line, None, true))),
                    None => {
                        let uuid = prompt_uuid_from_daemon();
                        let line = stdin::complete_user_line(line, Some(uuid), is_marked);
                        (uuid, Bytes::from(line))
                    }
                };
                self.send_prompt(Prompt { uuid, line }, by, PromptReply::Client(connection));
            }
            Ok(ClientLine::ControlRequest {
                request_id,
                subtype,
                request,
            }) => {
                let id = request_id.into_owned();
                if !self.may_ask(connection, &id) {
                    return;
                }
                let asker = Asker::Client { connection, id };
                self.control(subtype.into_owned(), request.as_bytes(), by, asker);
            }
            Ok(ClientLine::ControlCancelRequest { request_id }) => {
                self.take_back_request(connection, &request_id, &by);
            }
            Ok(ClientLine::ControlResponse { request_id, outcome }) => {
                self.on_client_answer(connection, by, request_id.into_owned(), outcome);
            }
            Ok(ClientLine::UpdateEnvironmentVariables { request_id, line }) => {
                self.give_credentials(connection, by, request_id.as_deref(), line);
            }
        }
    }

    /// Refuses a line that would add a directory outside of those that the session may work in.
    fn refuse_line(&mut self, connection: ConnectionId, line: &[u8], outside: String) {
        match stdin::check_client_line(line) {
            Ok(ClientLine::ControlRequest {
                request_id, subtype, ..
            }) => {
                let line = RefusedLine::Request(request_id.into_owned());
                self.clients
                    .refuse(connection, line, outside_roots(&subtype, &outside));
            }
            Ok(ClientLine::ControlResponse { request_id, .. }) => {
                let error = SessionError::InvalidDecision(BadAnswer::OutsideRoots(outside));
                self.clients.refuse_answer(connection, &request_id, error);
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Whether a client may have one more request open, under this id. It is told if not.
    pub(super) fn may_ask(&mut self, connection: ConnectionId, id: &str) -> bool {
        let refused = if self.controls.of_client(connection, id).is_some() {
            SessionError::RequestIdInUse
        } else if self.controls.is_full(connection) {
            SessionError::Busy
        } else {
            return true;
        };
        let line = RefusedLine::Request(id.to_owned());
        self.clients.refuse(connection, line, refused);
        false
    }

    fn on_client_answer(
        &mut self,
        connection: ConnectionId,
        by: String,
        request_id: String,
        outcome: Result<Option<Box<RawValue>>, ClientError>,
    ) {
        let approval = self
            .machine
            .approvals()
            .iter()
            .find(|it| it.request_id == request_id);
        let Some(id) = approval.map(|approval| approval.id) else {
            let known = self.machine.desk().get(&request_id).is_some();
            match self.machine.ended_approval(&request_id).filter(|_| !known) {
                Some(ended) => self.clients.late_answer(connection, ended),
                None => self.answer_for_client(connection, by, request_id, outcome),
            }
            return;
        };
        let decision = match outcome {
            Ok(Some(answer)) => Decision::Raw(answer),
            Ok(None) => {
                let bad = SessionError::InvalidDecision(BadAnswer::NotAnObject);
                let approval_id = Some(id);
                let line = RefusedLine::Answer {
                    request_id,
                    approval_id,
                };
                self.clients.refuse(connection, line, bad);
                return;
            }
            Err(error) => Decision::Fail(error.error),
        };
        let reply = DecisionReply::Client {
            connection,
            request_id,
        };
        let by = self.clients.decider(connection).unwrap_or(by);
        self.decide(id, &decision, by, reply);
    }
}

/// Tells the actor when a client's last handle is gone, however that came about.
async fn tell_of_the_end(
    connection: ConnectionId,
    present: CancellationToken,
    commands: mpsc::Sender<Command>,
) {
    tokio::select! {
        () = present.cancelled() => {
            // An actor that is gone knows no clients.
            commands.send(Command::Detach { connection }).await.ok();
        }
        () = commands.closed() => {}
    }
}

/// The size of a message's content: of the text itself, not of its JSON form.
fn content_bytes(content: &str) -> usize {
    json::string(content).map_or(content.len(), |text| text.len())
}
