//! Owns the actor of a session: it tails the journal, keeps the state machine, and does what follows from both. It never
//! waits for a client, for the store or for the CLI.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::task::TaskTracker;

use crate::{
    domain::{ApprovalId, Clock, Projection, PromptUuid, Seq, SessionId, SessionState},
    journal::{Feed, Head, Position, ReadError, Reader, Source, Writer, WriterOptions},
    keeper::{KeeperEvent, KeeperEvents, Link, LinkHandle, StopRequest, WriteError},
};

use super::{
    LiveView, SessionError, SessionHandle,
    clients::Clients,
    control::Controls,
    decisions::Deciding,
    fallback,
    handle::{COMMANDS, Command, Launch, Reply, STOPS, Sent, Stop, TurnOutcome},
    machine::{AtRest, Effect, Machine, Outcome},
    notes::Note,
    outbox::{self, Entry, OUTBOX_ENTRIES, Payload, Subject, Unsent},
    prompts::Prompts,
};

/// How much of the journal is read at once.
const READ_BYTES: usize = 1 << 20;
/// Ended turns whose outcome can still be asked for.
const ENDED_TURNS: usize = 32;

/// What a session is made of; given by the supervisor.
#[derive(Debug)]
pub struct SessionParts {
    /// What the store knows.
    pub rest: AtRest,
    /// The folder of the journal.
    pub journal_dir: PathBuf,
    /// The journal is read from the record after this one: the one before the start of the last run.
    pub read_after: Seq,
    /// Facts of records up to this one are in the store already.
    pub projected: Seq,
    /// The link to a keeper that lives.
    pub link: Option<Link>,
    /// The session was made just now: its process is about to be asked for.
    pub fresh: bool,
    /// Where facts go.
    pub projections: mpsc::Sender<Projection>,
    /// Tracks the tasks of the session.
    pub tracker: TaskTracker,
    /// Sizes, times, paths.
    pub settings: SessionSettings,
}

/// Settings of an actor.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// The program that is started as keeper.
    pub keeper_program: PathBuf,
    /// Newest records kept in memory for live clients.
    pub ring_bytes: usize,
    /// Size at which the journal begins a new segment.
    pub segment_bytes: u64,
    /// From the close of stdin to SIGTERM, in a stop while nothing runs.
    pub eof_grace_ms: u64,
    /// From SIGTERM to SIGKILL.
    pub term_grace_ms: u64,
    /// How long `initialize` may take before the process is stopped.
    pub start_timeout_ms: u64,
}

/// The runner.
pub(super) struct Actor {
    pub(super) id: SessionId,
    pub(super) machine: Machine,
    pub(super) feed: Feed,
    pub(super) outbox: Option<mpsc::Sender<Entry>>,
    pub(super) controls: Controls,
    pub(super) prompts: Prompts,
    pub(super) deciding: Deciding,
    pub(super) clients: Clients,
    pub(super) turn_waiters: HashMap<PromptUuid, Vec<Reply<Arc<TurnOutcome>>>>,
    pub(super) ended_turns: VecDeque<Arc<TurnOutcome>>,
    pub(super) launching: Option<Launching>,
    pub(super) stop_waiters: Vec<oneshot::Sender<()>>,
    reader: Reader,
    journal_dir: PathBuf,
    position: Position,
    projected: Seq,
    projections: mpsc::Sender<Projection>,
    unsent_facts: Option<Projection>,
    pub(super) link: Option<LinkHandle>,
    cli_pid: Option<i32>,
    sent_state: Option<SessionState>,
    announced: HashSet<ApprovalId>,
    answered: HashSet<String>,
    settings: SessionSettings,
    start_deadline: Option<Instant>,
    tracker: TaskTracker,
    view: watch::Sender<Arc<LiveView>>,
    events: Option<KeeperEvents>,
    unsent: mpsc::Receiver<Unsent>,
    unsent_sender: mpsc::Sender<Unsent>,
    launched: mpsc::Receiver<Result<Link, String>>,
    launched_sender: mpsc::Sender<Result<Link, String>>,
    /// Refused because the link went: whether they were taken is known once the journal was read.
    uncertain: Vec<Unsent>,
    /// Records that are due once the keeper is gone.
    late_notes: Vec<Note>,
    waiting_start: Option<(Box<Launch>, Reply<()>)>,
}

/// A keeper that is being started.
#[derive(Debug)]
pub(super) struct Launching {
    reply: Reply<()>,
    /// What was sent meanwhile.
    pub(super) held: Vec<Entry>,
    stop_asked: Option<String>,
}

impl std::fmt::Debug for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Actor")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Opens a session: reads its journal from the start of the last run, and runs its actor from then on. When this returns
/// the view is true.
///
/// # Errors
/// `Journal` when the journal can't be read.
pub async fn open(parts: SessionParts) -> Result<SessionHandle, SessionError> {
    let reader = Reader::open(&parts.journal_dir).map_err(SessionError::Journal)?;
    let head = match &parts.link {
        Some(link) => link.hello.head,
        None => reader.head().map_err(SessionError::Journal)?,
    };
    let position = reader
        .position_after(parts.read_after.min(head.seq))
        .map_err(SessionError::Journal)?;
    let (commands_sender, commands) = mpsc::channel(COMMANDS);
    let (stops_sender, stops) = mpsc::channel(STOPS);
    let (unsent_sender, unsent) = mpsc::channel(OUTBOX_ENTRIES);
    let (launched_sender, launched) = mpsc::channel(1);
    let id = parts.rest.session;
    let machine = Machine::at_rest(parts.rest);
    let view = watch::Sender::new(Arc::new(machine.view(None)));
    let feed = Feed::new(&parts.journal_dir, head, parts.settings.ring_bytes);
    let mut actor = Actor {
        id,
        machine,
        feed: feed.clone(),
        outbox: None,
        controls: Controls::default(),
        prompts: Prompts::default(),
        deciding: Deciding::default(),
        clients: Clients::default(),
        turn_waiters: HashMap::new(),
        ended_turns: VecDeque::new(),
        launching: None,
        stop_waiters: Vec::new(),
        reader,
        journal_dir: parts.journal_dir,
        position,
        projected: parts.projected,
        projections: parts.projections,
        unsent_facts: None,
        link: None,
        cli_pid: None,
        sent_state: None,
        announced: HashSet::new(),
        answered: HashSet::new(),
        settings: parts.settings,
        start_deadline: None,
        tracker: parts.tracker.clone(),
        view,
        events: None,
        unsent,
        unsent_sender,
        launched,
        launched_sender,
        uncertain: Vec::new(),
        late_notes: Vec::new(),
        waiting_start: None,
    };
    actor.replay(head).await?;
    match parts.link {
        Some(link) => actor.take_link(link),
        None if parts.fresh => {}
        None => actor.mend_without_process()?,
    }
    actor.settle();
    let handle = SessionHandle {
        id,
        commands: commands_sender,
        stops: stops_sender,
        view: actor.view.subscribe(),
        feed,
    };
    parts.tracker.spawn(actor.run(commands, stops));
    Ok(handle)
}

impl Actor {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>, mut stops: mpsc::Receiver<Stop>) {
        loop {
            let deadline = self
                .start_deadline
                .into_iter()
                .chain(self.controls.next_deadline())
                .min();
            // Stops come first: nothing that waits may hold them up. Then what the journal says, so that commands meet
            // the newest state. All branches only receive or wait for a time, and so are cancel-safe.
            tokio::select! {
                biased;
                Some(stop) = stops.recv() => self.on_stop(stop),
                event = next_event(&mut self.events) => self.on_keeper(event),
                Some(launched) = self.launched.recv() => self.on_launched(launched),
                Some(unsent) = self.unsent.recv() => self.on_unsent(unsent),
                () = sleep_until(deadline) => self.on_deadline(),
                command = commands.recv() => match command {
                    Some(Command::Close { reply }) => {
                        self.flush_facts().await;
                        self.feed.close();
                        // The asker may have left; the actor ends all the same.
                        reply.send(()).ok();
                        return;
                    }
                    Some(command) => self.on_command(command),
                    None => {
                        self.flush_facts().await;
                        self.feed.close();
                        return;
                    }
                },
            }
            self.settle();
        }
    }

    /// Reads what the journal has without acting on it: it was acted on in its time.
    async fn replay(&mut self, head: Head) -> Result<(), SessionError> {
        while self.position_seq() < head.seq {
            let chunk = self
                .reader
                .read(self.position, head, READ_BYTES)
                .map_err(SessionError::Journal)?;
            let mut out = Outcome::default();
            self.fold(&chunk, &mut out);
            for effect in out.effects {
                if let Effect::PromptSent { uuid, seq, digest } = effect {
                    self.prompts.on_sent(uuid, seq, digest);
                }
            }
            self.send_facts(chunk.last, out.facts);
            self.flush_facts().await;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Reads what is new in the journal, and acts on it.
    fn follow(&mut self, head: Head) {
        while self.position_seq() < head.seq {
            let chunk = match self.reader.read(self.position, head, READ_BYTES) {
                Ok(chunk) => chunk,
                Err(error) => {
                    report_unreadable(self.id, &error);
                    return;
                }
            };
            let mut out = Outcome::default();
            self.fold(&chunk, &mut out);
            let last = chunk.last;
            // Facts first: whoever has seen a record finds its facts in the store after a `catch_up`.
            self.send_facts(last, out.facts);
            self.feed.publish(chunk);
            for effect in out.effects {
                self.on_effect(effect);
            }
        }
    }

    fn fold(&mut self, chunk: &crate::journal::Chunk, out: &mut Outcome) {
        for record in chunk.records() {
            let known = out.facts.len();
            self.machine.apply(&record, out);
            if record.seq <= self.projected {
                out.facts.truncate(known);
            }
        }
        self.position = chunk.end;
    }

    fn position_seq(&self) -> Seq {
        self.machine.head()
    }

    fn send_facts(&mut self, seq: Seq, facts: Vec<crate::domain::Fact>) {
        if seq <= self.projected || (facts.is_empty() && self.machine.has_run()) {
            return;
        }
        self.projected = seq;
        let projection = match self.unsent_facts.take() {
            Some(mut earlier) => {
                earlier.seq = seq;
                earlier.facts.extend(facts);
                earlier
            }
            None => Projection {
                session: self.id,
                seq,
                facts,
            },
        };
        // A store that is behind must not hold up the session: the facts wait here and go with the next ones.
        if let Err(mpsc::error::TrySendError::Full(back)) = self.projections.try_send(projection) {
            self.unsent_facts = Some(back);
        }
    }

    async fn flush_facts(&mut self) {
        if let Some(projection) = self.unsent_facts.take() {
            // The projector only ends with the daemon; the journal keeps the facts for the next one.
            self.projections.send(projection).await.ok();
        }
    }

    fn on_effect(&mut self, effect: Effect) {
        match effect {
            Effect::PromptSent { uuid, seq, digest } => {
                for reply in self.prompts.on_sent(uuid, seq, digest) {
                    self.answer_prompt(reply, uuid, Ok(Sent { seq, repeated: false }));
                }
            }
            Effect::PromptDropped(uuid, state) => {
                for waiter in self.turn_waiters.remove(&uuid).unwrap_or_default() {
                    waiter.send(Err(SessionError::PromptDropped { state })).ok();
                }
            }
            Effect::ControlAnswered(answer) => self.on_control_answered(answer),
            Effect::ApprovalClosed(id, resolution) => self.on_approval_closed(id, *resolution),
            Effect::TurnEnded(turn, result) => {
                let outcome = Arc::new(TurnOutcome { turn: *turn, result });
                for prompt in &outcome.turn.prompts {
                    for waiter in self.turn_waiters.remove(prompt).unwrap_or_default() {
                        waiter.send(Ok(Arc::clone(&outcome))).ok();
                    }
                }
                self.ended_turns.push_back(outcome);
                if self.ended_turns.len() > ENDED_TURNS {
                    self.ended_turns.pop_front();
                }
            }
            Effect::RunEnded => self.on_run_ended(),
        }
    }

    fn on_keeper(&mut self, event: Option<KeeperEvent>) {
        match event {
            Some(KeeperEvent::Head(head)) => self.follow(head),
            Some(KeeperEvent::Exited(_)) => {}
            Some(KeeperEvent::Gone) | None => self.on_gone(),
        }
    }

    /// The keeper is gone: its lock is free, so the journal is ours.
    fn on_gone(&mut self) {
        self.events = None;
        self.link = None;
        self.outbox = None;
        self.cli_pid = None;
        if let Ok(head) = self.reader.head() {
            self.follow(head);
        }
        if let Some(run_id) = self.machine.run_id() {
            self.append(&Note::RunLost { run_id });
        }
        for note in std::mem::take(&mut self.late_notes) {
            self.append(&note);
        }
        for unsent in std::mem::take(&mut self.uncertain) {
            self.on_unsent(unsent);
        }
        self.start_deadline = None;
        for waiter in self.stop_waiters.drain(..) {
            waiter.send(()).ok();
        }
        if let Some((launch, reply)) = self.waiting_start.take() {
            self.start(launch, reply);
        }
    }

    fn on_run_ended(&mut self) {
        for waiting in self.controls.take_all() {
            self.answer_asker(
                waiting.asker,
                Err(SessionError::NotLive {
                    state: self.machine.state(),
                }),
            );
        }
        for (_, waiters) in self.turn_waiters.drain() {
            for waiter in waiters {
                let state = self.machine.state();
                waiter.send(Err(SessionError::NotLive { state })).ok();
            }
        }
        self.announced.clear();
        self.answered.clear();
    }

    pub(super) fn start(&mut self, mut launch: Box<Launch>, reply: Reply<()>) {
        if self.machine.has_run() || self.launching.is_some() {
            let state = self.shown_state();
            reply.send(Err(SessionError::AlreadyLive { state })).ok();
            return;
        }
        if self.link.is_some() {
            // The last process ended, and its keeper is about to.
            if let Some((_, earlier)) = self.waiting_start.replace((launch, reply)) {
                let state = SessionState::Starting;
                earlier.send(Err(SessionError::AlreadyLive { state })).ok();
            }
            return;
        }
        let note = Note::RunStarted(super::notes::RunStarted {
            run_id: launch.plan.run,
            mode: launch.mode,
            cli_session_id: launch.cli_session,
            turns: self.machine.turns(),
            base: std::mem::take(&mut launch.base),
        });
        launch.plan.start_note = String::from_utf8_lossy(&note.to_json()).into_owned();
        self.launching = Some(Launching {
            reply,
            held: Vec::new(),
            stop_asked: None,
        });
        let program = self.settings.keeper_program.clone();
        let (tracker, launched) = (self.tracker.clone(), self.launched_sender.clone());
        self.tracker.spawn(async move {
            let link = crate::keeper::launch(&program, &launch.plan, &tracker).await;
            let link = link.map_err(|error| crate::telemetry::chain(&error));
            // The actor outlives its launches, or nobody wants the link: dropping it leaves the keeper alone.
            launched.send(link).await.ok();
        });
    }

    fn on_launched(&mut self, launched: Result<Link, String>) {
        let Some(launching) = self.launching.take() else {
            return;
        };
        match launched {
            Ok(link) => {
                self.take_link(link);
                for entry in launching.held {
                    self.enqueue(entry);
                }
                if let Some(by) = launching.stop_asked {
                    self.stop_process(by, None);
                }
                launching.reply.send(Ok(())).ok();
            }
            Err(detail) => {
                // The keeper may have come as far as the journal.
                if let Ok(head) = self.reader.head() {
                    self.follow(head);
                }
                let reason = crate::domain::FailReason {
                    code: "start_failed".to_owned(),
                    detail,
                };
                if let Some(run_id) = self.machine.run_id() {
                    self.append(&Note::RunLost { run_id });
                } else if self.machine.state() != SessionState::Failed {
                    self.append(&Note::StartFailed {
                        reason: reason.clone(),
                    });
                }
                for entry in launching.held {
                    let error = WriteError::Gone;
                    self.on_unsent(Unsent {
                        subject: entry.subject,
                        error,
                    });
                }
                for waiter in self.stop_waiters.drain(..) {
                    waiter.send(()).ok();
                }
                let reason = self.machine.reason().cloned().unwrap_or(reason);
                launching.reply.send(Err(SessionError::StartFailed(reason))).ok();
            }
        }
    }

    fn take_link(&mut self, link: Link) {
        let (sender, entries) = mpsc::channel(OUTBOX_ENTRIES);
        self.tracker.spawn(outbox::run(
            link.handle.clone(),
            entries,
            self.unsent_sender.clone(),
        ));
        self.outbox = Some(sender);
        self.cli_pid = Some(link.hello.child_pid);
        self.link = Some(link.handle);
        self.events = Some(link.events);
        self.start_deadline = Some(Instant::now() + Duration::from_millis(self.settings.start_timeout_ms));
        self.follow(link.hello.head);
    }

    /// After a start of the daemon: the records may say that a process lives although none does.
    fn mend_without_process(&mut self) -> Result<(), SessionError> {
        let note = match self.machine.run_id() {
            Some(run_id) => Note::RunLost { run_id },
            None if self.machine.state().is_live() => Note::StartFailed {
                reason: crate::domain::FailReason {
                    code: "start_failed".to_owned(),
                    detail: "the daemon ended before the process was started".to_owned(),
                },
            },
            None => return Ok(()),
        };
        self.try_append(&note)
    }

    fn on_stop(&mut self, stop: Stop) {
        if let Some(launching) = &mut self.launching {
            launching.stop_asked = Some(stop.by);
            self.stop_waiters.push(stop.reply);
        } else if self.link.is_some() {
            self.stop_waiters.push(stop.reply);
            if self.machine.has_run() && self.machine.state() != SessionState::Stopping {
                self.stop_process(stop.by, None);
            }
        } else {
            // Nothing runs. The asker may have left.
            stop.reply.send(()).ok();
        }
    }

    fn stop_process(&mut self, by: String, start_timeout_ms: Option<u64>) {
        let Some(link) = self.link.clone() else {
            return;
        };
        let request = StopRequest {
            close_stdin_first: self.machine.is_quiet(),
            eof_grace_ms: self.settings.eof_grace_ms,
            term_grace_ms: self.settings.term_grace_ms,
        };
        let note = bytes::Bytes::from(Note::StopRequested { by, start_timeout_ms }.to_json());
        self.tracker.spawn(async move {
            // A note that can't be written must not hold up the stop.
            if let Err(error) = link.note(note).await {
                tracing::warn!(%error, "the stop request was not journaled");
            }
            if link.stop(request).await.is_err() {
                tracing::debug!("the keeper ended before it was asked to stop");
            }
        });
    }

    fn on_unsent(&mut self, unsent: Unsent) {
        if unsent.error == WriteError::Gone && self.link.is_some() {
            self.uncertain.push(unsent);
            return;
        }
        let state = self.machine.state();
        match unsent.subject {
            Subject::Prompt(uuid) => {
                for reply in self.prompts.on_unsent(uuid) {
                    self.answer_prompt(reply, uuid, Err(refusal(&unsent.error, state)));
                }
            }
            Subject::Control(id) => {
                if let Some(waiting) = self.controls.take(&id) {
                    self.answer_asker(waiting.asker, Err(refusal(&unsent.error, state)));
                }
            }
            Subject::Answer(id) => {
                for reply in self.deciding.take(id) {
                    self.answer_decision(reply, id, Err(refusal(&unsent.error, state)));
                }
            }
            Subject::Nobody => {
                tracing::warn!(session.id = %self.id, error = %unsent.error, "a record was not written")
            }
        }
    }

    fn on_deadline(&mut self) {
        if self.start_deadline.is_some_and(|at| at <= Instant::now()) {
            self.start_deadline = None;
            if self.machine.state() == SessionState::Starting {
                self.stop_process("daemon".to_owned(), Some(self.settings.start_timeout_ms));
            }
        }
        for waiting in self.controls.take_overdue(Instant::now()) {
            let ms = waiting.deadline.map_or(0, |(_, ms)| ms);
            let subtype = waiting.subtype;
            self.answer_asker(waiting.asker, Err(SessionError::ControlDeadline { subtype, ms }));
        }
    }

    /// Gives an entry to the keeper, or refuses it at once.
    pub(super) fn enqueue(&mut self, entry: Entry) {
        if let Some(launching) = self
            .launching
            .as_mut()
            .filter(|it| it.held.len() < OUTBOX_ENTRIES)
        {
            launching.held.push(entry);
            return;
        }
        let (subject, error) = match self.outbox.as_ref().map(|outbox| outbox.try_send(entry)) {
            Some(Ok(())) => return,
            Some(Err(mpsc::error::TrySendError::Full(entry))) => (entry.subject, WriteError::Busy),
            Some(Err(mpsc::error::TrySendError::Closed(entry))) => (entry.subject, WriteError::Gone),
            None => (Subject::Nobody, WriteError::Gone),
        };
        self.on_unsent(Unsent { subject, error });
    }

    /// Makes the outside agree with the machine: records of ours that are due, stated answers, the view.
    fn settle(&mut self) {
        let state = self.machine.state();
        if self.machine.noted_state() == Some(state) {
            self.sent_state = None;
        } else if self.sent_state != Some(state) && self.link.is_some() == state.is_live() {
            self.sent_state = Some(state);
            let reason = self.machine.reason().cloned();
            self.note(Note::State { state, reason });
        }
        let due: Vec<_> = self
            .machine
            .approvals()
            .iter()
            .filter(|approval| !self.announced.contains(&approval.id))
            .cloned()
            .collect();
        for approval in due {
            self.announced.insert(approval.id);
            self.note(Note::Approval {
                approval_id: approval.id,
                request_id: approval.request_id.clone(),
                seq: approval.seq,
                kind: approval.kind,
                tool_name: approval.tool_name.clone(),
            });
        }
        self.answer_what_nobody_takes();
        let view = self.shown_view();
        self.view.send_replace(Arc::new(view));
    }

    fn answer_what_nobody_takes(&mut self) {
        if self.outbox.is_none() {
            return;
        }
        let due: Vec<_> = self
            .machine
            .asked()
            .filter(|asked| !self.answered.contains(&asked.request_id))
            .cloned()
            .collect();
        for asked in due {
            self.answered.insert(asked.request_id.clone());
            let line = fallback::answer(&asked);
            self.enqueue(Entry {
                payload: Payload::Line {
                    by: "daemon".to_owned(),
                    line,
                },
                subject: Subject::Nobody,
            });
            self.note(Note::Fallback {
                request_id: asked.request_id,
                subtype: asked.subtype,
            });
        }
    }

    /// Writes a record of ours: through the keeper while there is one, else by our own hand.
    pub(super) fn note(&mut self, note: Note) {
        if self.link.is_some() && !self.machine.has_run() {
            // The keeper is about to go and takes nothing more.
            self.late_notes.push(note);
        } else if self.outbox.is_some() {
            self.enqueue(Entry {
                payload: Payload::Note(note.to_json()),
                subject: Subject::Nobody,
            });
        } else if self.link.is_none() && self.launching.is_none() {
            self.append(&note);
        }
    }

    fn append(&mut self, note: &Note) {
        if let Err(error) = self.try_append(note) {
            tracing::error!(session.id = %self.id, %error, "the journal could not be written");
        }
    }

    fn try_append(&mut self, note: &Note) -> Result<(), SessionError> {
        let options = WriterOptions {
            segment_bytes: self.settings.segment_bytes,
        };
        let failed =
            |error: &dyn std::error::Error| SessionError::JournalWrite(crate::telemetry::chain(error));
        let (mut writer, _) = Writer::open(&self.journal_dir, options).map_err(|e| failed(&e))?;
        writer
            .push(Clock.now(), Source::Daemon, None, &note.to_json())
            .map_err(|e| failed(&e))?;
        let head = writer.commit().map_err(|e| failed(&e))?;
        drop(writer);
        self.follow(head);
        Ok(())
    }

    /// The state as shown: a process that is asked for counts as starting, also before its first record.
    pub(super) fn shown_state(&self) -> SessionState {
        if self.launching.is_some() || self.waiting_start.is_some() {
            SessionState::Starting
        } else {
            self.machine.state()
        }
    }

    pub(super) fn shown_view(&self) -> LiveView {
        LiveView {
            state: self.shown_state(),
            ..self.machine.view(self.cli_pid)
        }
    }
}

async fn next_event(events: &mut Option<KeeperEvents>) -> Option<KeeperEvent> {
    match events {
        Some(events) => events.recv().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn refusal(error: &WriteError, state: SessionState) -> SessionError {
    match error {
        WriteError::Busy => SessionError::Busy,
        _ => SessionError::NotLive { state },
    }
}

fn report_unreadable(id: SessionId, error: &ReadError) {
    tracing::error!(session.id = %id, error = %crate::telemetry::chain(error), "the journal could not be read");
}
