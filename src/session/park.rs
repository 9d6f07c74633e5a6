//! Owns the actor's side of parking: when its process is ended to save memory, what is sent to the session meanwhile and
//! afterwards, and the wake that follows from it.
//!
//! A park is decided here, written to the journal, and holds once it is read back from there: what the CLI began before that
//! makes it void. So nothing that was accepted is ever cut short, and a daemon that dies in the middle leaves behind all that
//! the next one needs.

use std::time::Duration;

use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::Instant,
};

use crate::{
    admission::Refusal,
    domain::{
        Clock, ErrorCode, FailReason, ParkObstacle, ParkReason, SessionId, SessionState, Timestamp, Usd,
    },
};

use super::{
    SessionError,
    actor::Actor,
    handle::Reply,
    notes::Note,
    outbox::{Backlog, Entry, Subject},
    process::StopCause,
};

/// Between two tries to ask for a wake that could not be asked for.
const ASK_PAUSE: Duration = Duration::from_millis(200);
/// After a wake was asked for, when it is asked for again if nothing came of it.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Between two tries to park what something stood in the way of.
const PARK_AGAIN: Duration = Duration::from_secs(5);

/// Why a message did not wake its session.
#[derive(Clone, Debug)]
pub struct WakeFailure {
    /// The code of the fault.
    pub code: ErrorCode,
    /// In words.
    pub detail: String,
    /// The limit that was in the way.
    pub room: Option<Refusal>,
    /// The limit on costs, when nothing of it is left.
    pub budget: Option<SpentBudget>,
    /// Why the process that was started did not get ready.
    pub reason: Option<FailReason>,
}

/// A limit on costs of which nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpentBudget {
    /// The limit.
    pub limit: Usd,
    /// The cost so far.
    pub spent: Usd,
    /// Turns whose cost is not known and so is not in the sum.
    pub unknown_turns: u64,
}

impl WakeFailure {
    /// The daemon ends.
    pub(super) fn shutting_down() -> Self {
        Self {
            code: ErrorCode::ShuttingDown,
            detail: "the daemon is shutting down".to_owned(),
            room: None,
            budget: None,
            reason: None,
        }
    }

    /// A process was started and did not get ready.
    pub(super) fn of(reason: FailReason) -> Self {
        Self {
            code: reason.error_code(),
            detail: reason.detail.clone(),
            room: None,
            budget: None,
            reason: Some(reason),
        }
    }
}

/// The park that is under way, and what waits for the wake.
#[derive(Debug)]
pub(super) struct Parking {
    sink: mpsc::Sender<SessionId>,
    /// Whether a later process can go on with the conversation.
    pub(super) keeps_conversation: bool,
    /// Decided, and not in the journal yet.
    decided: Option<ParkReason>,
    /// Whether the keeper was told.
    stop_sent: bool,
    /// Those who asked for the park.
    waiting: Vec<Reply<()>>,
    /// Messages sent to the session meanwhile.
    pub(super) held: Backlog,
    /// Somebody stopped the session while its keeper was about to go: nothing wakes it any more.
    is_stopped: bool,
    /// When the wake is to be asked for.
    wake_at: Option<Instant>,
    /// Since when nothing is asked of it, as the timer knows it, and when that is long enough.
    idle: Option<(Timestamp, Instant)>,
}

impl Parking {
    pub(super) fn new(sink: mpsc::Sender<SessionId>, keeps_conversation: bool) -> Self {
        Self {
            sink,
            keeps_conversation,
            decided: None,
            stop_sent: false,
            waiting: Vec::new(),
            held: Backlog::default(),
            is_stopped: false,
            wake_at: None,
            idle: None,
        }
    }

    /// When something is to be done.
    pub(super) fn next(&self) -> Option<Instant> {
        let idle = self.idle.map(|(_, at)| at);
        idle.into_iter().chain(self.wake_at).min()
    }

    /// The keeper was told to stop a process that is being parked.
    pub(super) fn told(&mut self) {
        self.stop_sent = true;
    }
}

impl Actor {
    /// Whether what is sent to the session now has to wait for its next process, and makes for one.
    pub(super) fn wakes(&self) -> bool {
        self.launching.is_none()
            && !self.parking.is_stopped
            && (self.parking.decided.is_some()
                || self.machine.is_parking()
                || self.machine.state() == SessionState::Parked)
    }

    /// Whether something waits that wakes the session.
    pub(super) fn is_woken(&self) -> bool {
        let is_wanted = !self.parking.held.is_empty()
            || self.controls.has_held()
            || self.deciding.waits_for_process().is_some();
        self.wakes() && is_wanted
    }

    /// Since when the session could be parked, or what stands in the way.
    pub(super) fn parkable(&self) -> Result<Timestamp, ParkObstacle> {
        if self.launching.is_some() {
            return Err(ParkObstacle::Starting);
        }
        if self.unclaimed.is_some() {
            // Nobody could wake it.
            return Err(ParkObstacle::NotLive);
        }
        if let Some(obstacle) = self.machine.park_obstacle() {
            return Err(obstacle);
        }
        if self.link.is_none() || self.takeover.is_some() {
            return Err(ParkObstacle::NotLive);
        }
        if !self.parking.keeps_conversation {
            return Err(ParkObstacle::ConversationNotKept);
        }
        if self.serves_callbacks() {
            return Err(ParkObstacle::ClientCallbacks);
        }
        if self.clients.has_host(Clock.now()) {
            return Err(ParkObstacle::HostAttached);
        }
        if self.is_input_under_way() || !self.turn_waiters.is_empty() {
            return Err(ParkObstacle::InputUnderWay);
        }
        self.machine.unused_since().ok_or(ParkObstacle::Starting)
    }

    /// Whether something that was sent is not in the journal yet, or not answered.
    pub(super) fn is_input_under_way(&self) -> bool {
        self.prompts.any_is_on_its_way() || !self.controls.is_empty() || !self.deciding.is_empty()
    }

    /// Ends the process to save what it takes, unless that would cut something short.
    pub(super) fn park(&mut self, reason: ParkReason, least_unused_ms: u64, reply: Option<Reply<()>>) {
        if self.machine.state() == SessionState::Parked && self.launching.is_none() && !self.may_have_keeper()
        {
            if let Some(reply) = reply {
                // The asker may have left.
                reply.send(Ok(())).ok();
            }
            return;
        }
        if self.parking.decided.is_none() && !self.machine.is_parking() {
            let obstacle = match self.parkable() {
                Ok(since) if Clock.now().millis_since(since) < least_unused_ms => {
                    Some(ParkObstacle::RecentlyUsed)
                }
                Ok(_) => None,
                Err(obstacle) => Some(obstacle),
            };
            if let Some(obstacle) = obstacle {
                if let Some(reply) = reply {
                    reply.send(Err(SessionError::NotParkable(obstacle))).ok();
                }
                return;
            }
            self.parking.decided = Some(reason);
            let note = Note::StopRequested {
                by: "daemon".to_owned(),
                start_timeout_ms: None,
                silent_for_ms: None,
                park: Some(reason),
            };
            self.note(note, Subject::Park);
        }
        self.parking.waiting.extend(reply);
    }

    /// The park is off: the record of it was not written, or something else was first.
    pub(super) fn park_is_off(&mut self) {
        self.parking.decided = None;
        self.parking.stop_sent = false;
        // A stop that left the process to the park has to do its own work now.
        let left = self.stop_waiters.iter().rev().find(|stop| stop.keeps_park);
        if let Some(stop) = left
            && self.machine.has_run()
            && self.machine.state() != SessionState::Stopping
        {
            self.stop_process(stop.by.clone(), StopCause::asked(stop.is_urgent));
        }
    }

    /// Whether a park is under way.
    pub(super) fn is_being_parked(&self) -> bool {
        self.parking.decided.is_some() || self.machine.is_parking()
    }

    /// Leaves a process that is being parked less time, if somebody waits for its end who has none. Not before the record of
    /// the park holds: else it would be a stop.
    pub(super) fn hasten_park(&mut self) {
        if self.machine.is_parking() && self.stop_waiters.iter().any(|stop| stop.is_urgent) {
            self.parking.stop_sent = true;
            self.stop_process("daemon".to_owned(), StopCause::Escalate);
        }
    }

    /// Keeps what is under way in step with what the records say.
    pub(super) fn settle_parking(&mut self) {
        if self.machine.is_parking() {
            self.parking.decided = None;
            self.parking.idle = None;
            if !std::mem::replace(&mut self.parking.stop_sent, true) {
                self.stop_process("daemon".to_owned(), StopCause::AlreadyRecorded);
                self.hasten_park();
            }
            return;
        }
        if self.parking.decided.is_some() {
            self.parking.idle = None;
            return;
        }
        self.parking.stop_sent = false;
        let state = self.machine.state();
        self.parking.is_stopped &= state == SessionState::Parked;
        if state == SessionState::Parked && !self.parking.is_stopped {
            if self.launching.is_some() {
                self.parking.wake_at = None;
            }
        } else {
            self.parking.wake_at = None;
            let obstacle = self.parkable().err().unwrap_or(ParkObstacle::InputUnderWay);
            self.answer_parks(&|| Err(SessionError::NotParkable(obstacle)));
            if self.launching.is_none() && !self.machine.is_waking() {
                for entry in self.parking.held.take() {
                    match self.refuse_input() {
                        None => self.enqueue(entry),
                        Some(SessionError::KeeperSilent(why)) => {
                            self.refuse_for(entry.subject, &|| SessionError::KeeperSilent(why));
                        }
                        Some(_) => self.refuse_for(entry.subject, &|| match state {
                            SessionState::Stopping | SessionState::Parked => SessionError::Stopping,
                            state => SessionError::NotLive { state },
                        }),
                    }
                }
            }
        }
        self.time_idleness();
    }

    /// Answers who asked for a park that is done, and asks for the wake that follows. The view has to be true by then, and the
    /// place of the process given back: both look at it.
    pub(super) fn settle_parked(&mut self) {
        let is_parked = self.machine.state() == SessionState::Parked
            && !self.machine.is_parking()
            && self.parking.decided.is_none()
            && !self.parking.is_stopped;
        if !is_parked {
            return;
        }
        // Nothing is started while the last keeper is about to go.
        if self.launching.is_some() {
            self.answer_parks(&|| Ok(()));
        } else if !self.may_have_keeper() {
            self.answer_parks(&|| Ok(()));
            self.ask_for_wake();
        }
    }

    fn answer_parks(&mut self, outcome: &dyn Fn() -> Result<(), SessionError>) {
        for reply in std::mem::take(&mut self.parking.waiting) {
            // The asker may have left.
            reply.send(outcome()).ok();
        }
    }

    fn ask_for_wake(&mut self) {
        if !self.is_woken() {
            self.parking.wake_at = None;
            return;
        }
        let now = Instant::now();
        if self.parking.wake_at.is_some_and(|at| now < at) {
            return;
        }
        match self.parking.sink.try_send(self.id) {
            // It is made at most once, however often it is asked for.
            Ok(()) => self.parking.wake_at = Some(now + ASK_AGAIN),
            Err(TrySendError::Full(_)) => self.parking.wake_at = Some(now + ASK_PAUSE),
            Err(TrySendError::Closed(_)) => self.on_wake_failed(&WakeFailure::shutting_down()),
        }
    }

    /// The session stays parked; who sent something to it is told why.
    pub(super) fn on_wake_failed(&mut self, failure: &WakeFailure) {
        if self.machine.state() != SessionState::Parked || self.launching.is_some() {
            return;
        }
        self.parking.wake_at = None;
        self.refuse_put_off(&|| SessionError::NotWoken(Box::new(failure.clone())));
        let held = self.parking.held.take();
        self.refuse_waking(held, failure);
        while let Some(held) = self.controls.take_held() {
            self.refuse_held_back(held, &|| SessionError::NotWoken(Box::new(failure.clone())));
        }
    }

    /// Tells who sent something to a parked session why it was not woken.
    pub(super) fn refuse_waking(&mut self, held: Vec<Entry>, failure: &WakeFailure) {
        for Entry { subject, .. } in held {
            self.refuse_for(subject, &|| SessionError::NotWoken(Box::new(failure.clone())));
        }
    }

    /// Keeps the timer in step with since when nothing is asked of the session.
    fn time_idleness(&mut self) {
        let after_ms = self.settings.park_after_ms;
        let since = self.parkable().ok().filter(|_| after_ms > 0);
        if self.parking.idle.map(|(since, _)| since) == since {
            return;
        }
        self.parking.idle = since.map(|since| {
            let passed = Clock.now().millis_since(since);
            let left = Duration::from_millis(after_ms.saturating_sub(passed));
            (since, Instant::now() + left)
        });
    }

    /// Parks a session of which nothing was asked for long.
    pub(super) fn on_idle(&mut self, now: Instant) {
        if self.parking.idle.is_some_and(|(_, at)| at <= now) {
            // If it comes to nothing, it is tried again.
            self.parking.idle = self.parking.idle.map(|(since, _)| (since, now + PARK_AGAIN));
            self.park(ParkReason::Idle, 0, None);
        }
    }

    /// Stops a session that is parked: nothing wakes it any more.
    pub(super) fn stop_parked(&mut self, by: String) {
        if self.machine.state() != SessionState::Parked {
            return;
        }
        let note = Note::StopRequested {
            by,
            start_timeout_ms: None,
            silent_for_ms: None,
            park: None,
        };
        if self.may_have_keeper() {
            // It is about to go and holds the journal.
            self.parking.is_stopped = true;
            self.late_notes.push(note);
        } else if !self.append(&note) {
            self.machine.forget_park();
        }
    }
}
