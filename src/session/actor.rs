//! Owns the actor of a session: it tails the journal, keeps the state machine, and does what follows from both. It never
//! waits for a client, for the store or for the CLI.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::Arc,
};

use tokio::{
    sync::{Notify, mpsc, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    admission::{Slot, StartPermit},
    domain::{
        ApprovalId, Clock, FailReason, Liveness, ParkObstacle, Projection, PromptState, PromptUuid, Seq,
        SessionId, SessionState, Timestamp, fact::CliTotals, rule::Rules,
    },
    journal::{Chunk, Feed, Head, Position, ReadError, Reader},
    keeper::{KeeperEvent, KeeperEvents, Link, LinkHandle, StartSweep},
    metrics::SessionMetrics,
    outbound::Outbound,
    telemetry,
};

use super::{
    LiveView, SessionError, SessionHandle,
    choices::Choices,
    clients::Clients,
    control::Controls,
    damage::{self, Start},
    decisions::Deciding,
    desk::{CallbackResult, Desk, DeskTimes, Routes},
    handle::{Bounds, COMMANDS, Command, Reply, STOPS, Sent, Stop, TurnOutcome},
    liveness::Listening,
    machine::{AtRest, Effect, Machine, Outcome},
    notes::{self, Note, Notice, Unwritten},
    outbox::{Due, Entry, OUTBOX_ENTRIES, Subject, Told, Unsent, Way},
    park::{Parking, WakeFailure},
    process::Launching,
    projection_queue::{self, ProjectionQueue},
    prompts::Prompts,
    restart::Restarting,
    roots::Roots,
    ruling::{Looked, Ruling},
    takeover::{Attaching, Lost},
    warm::Prewarmed,
};

/// How much of the journal is read at once.
pub(super) const READ_BYTES: usize = 1 << 20;
/// Ended turns whose outcome can still be asked for.
const ENDED_TURNS: usize = 32;

/// The parts that the supervisor gives to a session.
#[derive(Debug)]
pub struct SessionParts {
    /// The session as the store knows it.
    pub rest: AtRest,
    /// Where the session works.
    pub cwd: PathBuf,
    /// The rules that decide approvals.
    pub rules: Rules,
    /// The folder of the journal.
    pub journal_dir: PathBuf,
    /// The journal is read from the record after this one: the one before the start of the last run.
    pub read_after: Seq,
    /// Prompts of earlier runs, each with its record.
    pub earlier_prompts: Vec<(PromptUuid, Seq)>,
    /// The CLI's last known running totals of the conversation.
    pub totals: Option<CliTotals>,
    /// Facts of records up to this one are in the store already.
    pub projected: Seq,
    /// The link to a keeper that lives.
    pub link: Option<Link>,
    /// The place of its process.
    pub slot: Option<Slot>,
    /// The session was made just now: its process is about to be asked for.
    pub fresh: bool,
    /// Nobody has asked for the session yet, and the store does not know it.
    pub warm: bool,
    /// Calls webhooks and MCP servers.
    pub outbound: Outbound,
    /// Where the launch options send hooks and MCP messages.
    pub routes: Routes,
    /// Where it is said that a restart is due.
    pub restarts: mpsc::Sender<SessionId>,
    /// Where it is said that a parked session needs a process.
    pub wakes: mpsc::Sender<SessionId>,
    /// Whether the CLI keeps the conversation, so that a later process can go on with it.
    pub keeps_conversation: bool,
    /// Whether it has a host, which comes, or may come back to this daemon.
    pub awaits_host: bool,
    /// Where facts go.
    pub projections: mpsc::Sender<Projection>,
    /// Tracks the tasks of the session.
    pub tracker: TaskTracker,
    /// Where it is counted what happens.
    pub metrics: SessionMetrics,
    /// Sizes, times, paths.
    pub settings: SessionSettings,
}

/// Settings of an actor.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// The program that is started as keeper.
    pub keeper_program: PathBuf,
    /// Where a living keeper says how to reach it.
    pub identity_file: PathBuf,
    /// The mark of the data directory, which its processes carry.
    pub data_mark: String,
    /// Ends what runs left that a daemon which starts finds lost.
    pub start_sweep: Arc<StartSweep>,
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
    /// When silence is too long.
    pub liveness: Liveness,
    /// How long nothing is asked of a session before it is parked; 0 = for ever.
    pub park_after_ms: u64,
    /// How long is waited for clients that answer the CLI.
    pub desk: DeskTimes,
    /// The largest content of a user message in bytes, as callers of the handle are held to it too.
    pub max_prompt_bytes: usize,
    /// The bounds of added directories.
    pub roots: Roots,
}

/// The runner.
pub(super) struct Actor {
    pub(super) id: SessionId,
    pub(super) machine: Machine,
    pub(super) settings: SessionSettings,
    pub(super) metrics: SessionMetrics,
    pub(super) tracker: TaskTracker,

    // The journal, and how far it was read.
    pub(super) reader: Reader,
    pub(super) journal_dir: PathBuf,
    pub(super) feed: Feed,
    pub(super) position: Position,
    pub(super) projected: Seq,
    pub(super) projections: mpsc::Sender<Projection>,
    pub(super) projection_queue: ProjectionQueue,
    /// Set while nobody has asked for the session.
    pub(super) unclaimed: Option<Prewarmed>,

    // The process.
    pub(super) link: Option<LinkHandle>,
    pub(super) events: Option<KeeperEvents>,
    pub(super) cli_pid: Option<i32>,
    pub(super) outbox: Option<mpsc::Sender<Entry>>,
    pub(super) way: Way,
    pub(super) launching: Option<Launching>,
    pub(super) restarting: Restarting,
    pub(super) parking: Parking,
    pub(super) listening: Listening,
    /// Held while a process lives.
    pub(super) slot: Option<Slot>,
    /// Held while it is getting ready.
    pub(super) start_permit: Option<StartPermit>,
    pub(super) start_deadline: Option<Instant>,
    pub(super) takeover: Option<Lost>,
    pub(super) stop_waiters: Vec<Stop>,
    /// Cancelled once what a lost run had left behind was looked for and killed.
    pub(super) sweep: Option<CancellationToken>,
    /// The attempt to attach to a keeper that lost us.
    pub(super) attaching: Option<Attaching>,
    /// Refused because the link went: whether they were taken is known once the journal was read.
    pub(super) uncertain: Vec<Unsent>,
    /// Records that are due once the keeper is gone.
    pub(super) late_notes: Vec<Note>,
    looks: mpsc::Receiver<Looked>,
    told: mpsc::Receiver<Told>,
    pub(super) told_sender: mpsc::Sender<Told>,
    launched: mpsc::Receiver<Result<Link, FailReason>>,
    pub(super) launched_sender: mpsc::Sender<Result<Link, FailReason>>,

    // Those who wait.
    pub(super) prompts: Prompts,
    pub(super) controls: Controls,
    /// Told when a caller stops waiting.
    departures: Arc<Notify>,
    pub(super) deciding: Deciding,
    pub(super) ruling: Ruling,
    pub(super) clients: Clients,
    pub(super) desk: Desk,
    outside: mpsc::Receiver<CallbackResult>,
    pub(super) turn_waiters: HashMap<PromptUuid, Vec<Reply<Arc<TurnOutcome>>>>,
    /// Prompts that came with the launch and are written by the keeper.
    pub(super) launch_prompts: Vec<PromptUuid>,
    pub(super) ended_turns: VecDeque<Arc<TurnOutcome>>,

    // The last state sent to the keeper, which the journal may not have yet; kept so that it is not sent twice.
    pub(super) sent_state: Option<(SessionState, Option<Timestamp>)>,
    /// Approvals, and whether it was their end that was announced.
    pub(super) announced: HashSet<(ApprovalId, bool)>,
    /// Records among them that were refused for want of room; they are sent again at `retry_at`.
    pub(super) refused: Vec<Due>,
    pub(super) retry_at: Option<Instant>,
    /// The record of a failed start, for which the disk had no room.
    pub(super) unwritten: Option<Note>,
    /// The end of the missing records that were reported last.
    pub(super) noticed_missing: Option<Seq>,
    /// A stop of our own.
    pub(super) stop_sent: bool,

    pub(super) view: watch::Sender<Arc<LiveView>>,
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
    let mut rest = parts.rest.clone();
    let known_turns = rest.turns;
    let Start {
        reader,
        head,
        position,
        cut,
        headless,
    } = damage::start(&parts, &mut rest)?;
    let (commands_sender, commands) = mpsc::channel(COMMANDS);
    let (stops_sender, stops) = mpsc::channel(STOPS);
    let (told_sender, told) = mpsc::channel(OUTBOX_ENTRIES);
    let (launched_sender, launched) = mpsc::channel(1);
    let cwd = parts.cwd.as_path().into();
    let (ruling, looks) = Ruling::new(parts.rules, parts.cwd);
    let id = rest.session;
    let machine = Machine::at_rest(rest);
    let view = watch::Sender::new(Arc::new(machine.view(None)));
    let (desk, outside) = Desk::new(parts.routes, parts.settings.desk, parts.outbound);
    let host_until = parts
        .awaits_host
        .then(|| Clock.now().plus_millis(parts.settings.desk.host_grace_ms));
    let feed = Feed::new(&parts.journal_dir, head, parts.settings.ring_bytes);
    let mut actor = Actor {
        id,
        machine,
        feed: feed.clone(),
        outbox: None,
        way: Way::default(),
        controls: Controls::new(Choices::open(&parts.journal_dir)),
        departures: Arc::new(Notify::new()),
        prompts: Prompts::of_earlier_runs(parts.earlier_prompts),
        deciding: Deciding::default(),
        ruling,
        looks,
        clients: Clients::new(host_until),
        desk,
        outside,
        turn_waiters: HashMap::new(),
        launch_prompts: Vec::new(),
        ended_turns: VecDeque::new(),
        launching: None,
        restarting: Restarting::new(parts.restarts),
        parking: Parking::new(parts.wakes, parts.keeps_conversation),
        listening: Listening::default(),
        slot: parts.slot,
        start_permit: None,
        stop_waiters: Vec::new(),
        sweep: None,
        attaching: None,
        reader,
        journal_dir: parts.journal_dir,
        position,
        projected: parts.projected,
        projections: parts.projections,
        projection_queue: ProjectionQueue::default(),
        unclaimed: parts.warm.then(Prewarmed::default),
        link: None,
        cli_pid: None,
        sent_state: None,
        announced: HashSet::new(),
        refused: Vec::new(),
        retry_at: None,
        unwritten: None,
        stop_sent: false,
        noticed_missing: None,
        settings: parts.settings,
        metrics: parts.metrics,
        start_deadline: None,
        takeover: None,
        tracker: parts.tracker.clone(),
        view,
        events: None,
        told,
        told_sender,
        launched,
        launched_sender,
        uncertain: Vec::new(),
        late_notes: Vec::new(),
    };
    // A record that is read may say that they are missing.
    if let Some(missing) = headless {
        actor.machine.expect_missing(missing);
    }
    let unwritten = actor.replay(head).await?;
    if let Some(missing) = cut {
        actor.machine.expect_missing(missing);
    }
    actor.desk.inherit(head.seq);
    match parts.link {
        Some(link) => {
            actor.take_link(link);
            actor.hold_start_permit();
        }
        None if parts.fresh => {}
        None => {
            actor.machine.trust(known_turns, parts.totals.clone());
            actor.mend_without_process()?;
        }
    }
    actor.machine.trust(known_turns, parts.totals);
    for told in unwritten.into_notices() {
        actor.tell(told);
    }
    actor.settle();
    let handle = SessionHandle {
        id,
        bounds: Bounds {
            cwd,
            roots: actor.settings.roots.clone(),
        },
        commands: commands_sender,
        stops: stops_sender,
        departures: Arc::clone(&actor.departures),
        view: actor.view.subscribe(),
        feed,
        released: CancellationToken::new(),
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
                .chain(self.retry_at)
                .chain(self.controls.next_deadline())
                .chain(self.desk_deadline())
                .chain(self.takeover.map(|takeover| takeover.next))
                .chain(self.next_ruling())
                .chain(self.deciding.next())
                .chain(self.restarting.next())
                .chain(self.listening.next())
                .chain(self.parking.next())
                .min();
            let has_facts = self.projection_queue.is_due() && self.unclaimed.is_none();
            let store = has_facts.then(|| self.projections.clone());
            // Stops come first: nothing that waits may hold them up. Then what the journal says, so that commands meet
            // the newest state. All branches only receive or wait for a time, and so are cancel-safe.
            tokio::select! {
                biased;
                Some(stop) = stops.recv() => self.on_stop(stop),
                Some(room) = room_in(store) => self.send_into(room),
                event = next_event(&mut self.events) => self.on_keeper(event),
                Some(launched) = self.launched.recv() => self.on_launched(launched),
                () = granted(&mut self.launching) => self.spawn_keeper(),
                () = swept(self.sweep.as_ref()) => self.on_swept(),
                Some(told) = self.told.recv() => self.on_told(told),
                () = self.departures.notified() => self.on_departure(),
                Some(looked) = self.looks.recv() => self.on_looked(looked),
                Some(outside) = self.outside.recv() => self.on_outside(outside),
                () = sleep_until(deadline) => self.on_deadline(),
                command = commands.recv() => match command {
                    Some(Command::Close { reply }) => {
                        self.cut_off_requests();
                        self.flush_facts().await;
                        self.feed.close();
                        // The asker may have left; the actor ends all the same.
                        reply.send(()).ok();
                        return;
                    }
                    Some(Command::Retire { reply }) => {
                        if self.launching.is_none() && !self.may_have_keeper() && self.machine.restart().is_none() {
                            self.flush_facts().await;
                            self.feed.close();
                            reply.send(Ok(())).ok();
                            return;
                        }
                        let state = self.shown_state();
                        reply.send(Err(SessionError::AlreadyLive { state })).ok();
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

    /// Reads what the journal has without acting on it, or counting it: it was acted on in its time. The notices that are
    /// returned follow from what no daemon saw.
    async fn replay(&mut self, head: Head) -> Result<Unwritten, SessionError> {
        let mut unwritten = Unwritten::default();
        self.controls.choices.begin_replay();
        while self.position_seq() < head.seq {
            let chunk = self
                .reader
                .read_after(self.position_seq(), self.position, head, READ_BYTES)
                .map_err(SessionError::Journal)?;
            let mut out = Outcome::default();
            let bytes = self.fold(&chunk, &mut out);
            for effect in out.effects {
                match effect {
                    Effect::PromptSent { uuid, seq, digest } => {
                        self.prompts.on_sent(uuid, seq, digest);
                    }
                    // The daemon may have died before it wrote down what that had set.
                    Effect::ControlAnswered(answer) => self.controls.choices.answered(&answer),
                    Effect::Choice(record) => self.controls.choices.on_record(record),
                    Effect::RulesUpdated(seq, answer) => self.controls.choices.rules_updated(seq, &answer),
                    Effect::StopAsked(seq) => self.controls.choices.stopped(seq),
                    Effect::EffortTyped(prompt) => self.controls.choices.effort_typed(prompt),
                    Effect::TurnEnded(turn, result) => {
                        self.controls.choices.turn_ended(&turn, result.as_deref());
                    }
                    Effect::PromptDropped(prompt, PromptState::Cancelled) => {
                        self.controls.choices.prompt_cancelled(prompt);
                    }
                    Effect::RunEnded => {
                        // It was told in its time.
                        let _ = self.controls.choices.run_ended(|_| false);
                    }
                    Effect::Notice(told) => unwritten.add(told),
                    Effect::NoticeRead(told) => unwritten.read(&told),
                    _ => {}
                }
            }
            self.send_facts(chunk.last, (out.facts, bytes));
            self.flush_facts().await;
            tokio::task::yield_now().await;
        }
        self.controls.choices.end_replay();
        Ok(unwritten)
    }

    /// Reads what is new in the journal, and acts on it.
    pub(super) fn follow(&mut self, head: Head) {
        while self.position_seq() < head.seq {
            let chunk = match self
                .reader
                .read_after(self.position_seq(), self.position, head, READ_BYTES)
            {
                Ok(chunk) => chunk,
                Err(error) => {
                    report_unreadable(self.id, &error);
                    return;
                }
            };
            let mut out = Outcome::default();
            let bytes = self.fold(&chunk, &mut out);
            let last = chunk.last;
            self.count(out.counted);
            // Facts first: whoever has seen a record finds its facts in the store after a `catch_up`.
            self.send_facts(last, (out.facts, bytes));
            self.feed.publish(chunk);
            if !out.effects.is_empty() {
                self.give_back();
                self.show();
            }
            for effect in out.effects {
                self.on_effect(effect);
            }
        }
    }

    fn fold(&mut self, chunk: &Chunk, out: &mut Outcome) -> usize {
        let bytes = projection_queue::fold(&mut self.machine, chunk, self.projected, &self.reader, out);
        self.position = chunk.end;
        bytes
    }

    /// The data of an older record; `None` when it can't be read.
    pub(super) fn record_data(&self, seq: Seq) -> Option<Vec<u8>> {
        self.record(seq).map(|(_, data)| data)
    }

    /// The writer of an older record, and its data; `None` when it can't be read.
    pub(super) fn record(&self, seq: Seq) -> Option<(Option<String>, Vec<u8>)> {
        self.reader.record(seq, self.feed.head()).ok()
    }

    fn position_seq(&self) -> Seq {
        self.machine.head()
    }

    fn on_effect(&mut self, effect: Effect) {
        match effect {
            Effect::PromptSent { uuid, seq, digest } => {
                for (reply, repeated) in self.prompts.on_sent(uuid, seq, digest) {
                    self.answer_prompt(reply, uuid, Ok(Sent { seq, repeated }));
                }
            }
            Effect::EffortTyped(prompt) => self.controls.choices.effort_typed(prompt),
            Effect::PromptDropped(uuid, state) => {
                if state == PromptState::Cancelled {
                    self.controls.choices.prompt_cancelled(uuid);
                }
                for waiter in self.turn_waiters.remove(&uuid).unwrap_or_default() {
                    waiter.send(Err(SessionError::PromptDropped { state })).ok();
                }
            }
            Effect::ControlAnswered(answer) => self.on_control_answered(answer),
            Effect::AskedClosed(id, is_answered) => self.on_asked_closed(&id, is_answered),
            Effect::ApprovalClosed(id, resolution) => self.on_approval_closed(id, *resolution),
            Effect::Choice(record) => self.controls.choices.on_record(record),
            Effect::RulesUpdated(seq, answer) => self.controls.choices.rules_updated(seq, &answer),
            Effect::StopAsked(seq) => self.controls.choices.stopped(seq),
            Effect::Granted(granted) => self.ruling.grant(granted),
            Effect::TurnEnded(turn, result) => {
                self.metrics.turn_ended(&turn);
                self.controls.choices.turn_ended(&turn, result.as_deref());
                self.on_turn_ended(turn.number);
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
            Effect::StrayResult(seq) => {
                tracing::warn!(session.id = %self.id, seq = seq.get(), "a result of the CLI ends no turn");
            }
            Effect::Notice(told) => self.tell(told),
            Effect::NoticeRead(told) => self.uncertain.retain(|unsent| !unsent.is_notice(&told)),
            Effect::Claimed => self.on_claimed(),
            Effect::RunEnded => self.on_run_ended(),
            Effect::ParkVoid => {
                self.refuse_put_off(&|| SessionError::NotParkable(ParkObstacle::Busy));
                self.park_is_off();
            }
            Effect::WakeFailed(reason) => self.on_wake_failed(&WakeFailure::of(reason)),
        }
    }

    /// Writes down what a person may want to know.
    fn tell(&mut self, told: notes::Told) {
        tracing::warn!(session.id = %self.id, code = told.code.as_str(), detail = told.detail, "a notice about a conversation");
        self.write_notice(told);
    }

    pub(super) fn write_notice(&mut self, told: notes::Told) {
        let due = Subject::Due(Due::Notice(told.clone()));
        self.note(Note::Notice(Notice::Told(told)), due);
    }

    fn on_keeper(&mut self, event: Option<KeeperEvent>) {
        match event {
            Some(KeeperEvent::Head(head)) => self.follow(head),
            Some(KeeperEvent::Exited(_)) => {}
            Some(KeeperEvent::Gone) | None => self.on_link_lost(),
        }
    }
}

/// Waits until a store that is behind takes facts again.
async fn room_in(store: Option<mpsc::Sender<Projection>>) -> Option<mpsc::OwnedPermit<Projection>> {
    match store {
        // It only ends with the daemon.
        Some(store) => store.reserve_owned().await.ok(),
        None => std::future::pending().await,
    }
}

async fn next_event(events: &mut Option<KeeperEvents>) -> Option<KeeperEvent> {
    match events {
        Some(events) => events.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits for the permit of a start that waits.
async fn granted(launching: &mut Option<Launching>) {
    match launching.as_mut().and_then(Launching::waiting_permit) {
        Some(permit) => permit.granted().await,
        None => std::future::pending().await,
    }
}

/// Waits until what a lost run had left behind is gone.
async fn swept(sweep: Option<&CancellationToken>) {
    match sweep {
        Some(sweep) => sweep.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

pub(super) fn report_unreadable(id: SessionId, error: &ReadError) {
    tracing::error!(session.id = %id, error = %telemetry::chain(error), "the journal could not be read");
}
