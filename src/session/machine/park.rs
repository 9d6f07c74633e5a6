//! Owns what the records say about parking: what stands in its way, since when nothing was asked of the session, and what a
//! process that is parked leaves.

use crate::{
    claude::Envelope,
    domain::{Fact, ParkObstacle, ParkReason, Parked, SessionState, Timestamp},
    json,
};

use super::{Effect, Machine, Outcome, unasked::blocks};

/// Tools that leave something running in the CLI whose end it does not announce.
const TIMERS: [&str; 3] = ["CronCreate", "Monitor", "ScheduleWakeup"];

/// Whether the model has set timers in this run.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers(bool);

impl Timers {
    /// The model calls tools.
    pub(super) fn on_assistant(&mut self, line: &Envelope<'_>) {
        let text = line.line.as_bytes();
        let may_be = |name: &str| memchr::memmem::find(text, name.as_bytes()).is_some();
        if self.0 || !TIMERS.into_iter().any(may_be) {
            return;
        }
        self.0 = blocks(line).into_iter().any(|block| {
            let Some([Some(kind), Some(name)]) = json::members(block, ["type", "name"]) else {
                return false;
            };
            let is = |value: &str, wanted: &str| json::string(value).as_deref() == Some(wanted);
            is(kind, "tool_use") && TIMERS.into_iter().any(|timer| is(name, timer))
        });
    }
}

impl Machine {
    /// The first piece of work that the end of the process would cut short, as far as the records say.
    pub(in crate::session) fn park_obstacle(&self) -> Option<ParkObstacle> {
        let desk = self.desk();
        let state = match self.state() {
            // A call that was put off waits without a process, too.
            SessionState::Waiting if !self.waits_for_answer() => SessionState::Idle,
            state => state,
        };
        Some(match state {
            SessionState::Starting => ParkObstacle::Starting,
            SessionState::Busy => ParkObstacle::Busy,
            SessionState::Waiting => ParkObstacle::Waiting,
            SessionState::Stopping => ParkObstacle::Stopping,
            SessionState::Stopped | SessionState::Failed | SessionState::Parked => ParkObstacle::NotLive,
            SessionState::Idle if !desk.open().is_empty() => ParkObstacle::RequestOpen,
            SessionState::Idle if self.background_tasks > 0 => ParkObstacle::BackgroundTasks,
            SessionState::Idle if self.timers.0 => ParkObstacle::Timers,
            SessionState::Idle => return None,
        })
    }

    /// Since when nothing was asked of the session, and nothing of it ended.
    pub(in crate::session) fn unused_since(&self) -> Option<Timestamp> {
        self.used_at
    }

    /// Whether the process is stopped to be parked.
    pub(in crate::session) fn is_parking(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.park.is_some())
    }

    /// Since when the session is parked, and why.
    pub(in crate::session) fn parked(&self) -> Option<Parked> {
        self.parked.filter(|_| self.state() == SessionState::Parked)
    }

    /// The daemon wants the process to end. Work that began after this decision goes first: then it is as if nothing had
    /// been said.
    pub(super) fn on_park_requested(&mut self, reason: ParkReason, out: &mut Outcome) {
        if self.park_obstacle().is_some() {
            out.effects.push(Effect::ParkVoid);
        } else if let Some(run) = &mut self.run {
            run.stop_asked = true;
            run.park = Some(reason);
        }
    }

    /// Whether a process that a wake has started is not ready yet, or is to be started again.
    pub(in crate::session) fn is_waking(&self) -> bool {
        let is_on_its_way = match &self.run {
            // The daemon itself may have given it up; what was to be sent is told of that at its end.
            Some(run) => {
                run.unfit.is_some()
                    || run.restore.refused.is_some()
                    || run.start_timeout_ms.is_some()
                    || !(run.is_ready() || run.stop_asked)
            }
            None => self.restart.is_some(),
        };
        is_on_its_way && self.parked.is_some()
    }

    /// The state that a wake is started from.
    pub(in crate::session) fn woken_from(&self) -> Option<Parked> {
        self.parked
    }

    /// A wake that came to nothing leaves the session parked, as it was.
    pub(super) fn go_back_to_park(&mut self, out: &mut Outcome) {
        if self.restart.is_some() {
            return;
        }
        let parked = self.parked.filter(|_| self.rest == SessionState::Failed);
        match (parked, &self.reason) {
            (Some(parked), Some(reason)) => {
                // The reason stays: a fresh start has to know it.
                out.effects.push(Effect::WakeFailed(reason.clone()));
                self.rest = SessionState::Parked;
                out.facts.push(Fact::Parked(parked));
            }
            _ if self.rest == SessionState::Parked => {}
            _ => self.parked = None,
        }
    }

    /// Lets go of a park whose end could not be recorded.
    pub(in crate::session) fn forget_park(&mut self) {
        self.rest = SessionState::Stopped;
    }

    /// A process that was being parked ended, however it did.
    pub(super) fn come_to_park(&mut self, reason: ParkReason, at: Timestamp, out: &mut Outcome) {
        let parked = Parked { since: at, reason };
        self.rest = SessionState::Parked;
        self.reason = None;
        self.parked = Some(parked);
        out.facts.push(Fact::Parked(parked));
    }
}
