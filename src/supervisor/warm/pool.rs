//! Owns which processes were started in advance, and how long each profile waits after failures. When two callers
//! ask for the same one, one gets it.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::DropGuard;

use crate::{
    admission::Refusal,
    domain::{CliSessionId, Clock, FailReason, SessionId, SessionState, Timestamp},
    metrics::WarmEnd,
    session::{LiveView, SessionHandle},
};

use super::{super::SupervisorError, key::LaunchKey};

/// After the first failure in a row, how long a profile is left alone; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// After something has changed, how long a profile is left alone: more may change.
const CHANGE_PAUSE: Duration = Duration::from_secs(5);

/// After memory was scarce, how long all profiles are left alone.
const MEMORY_PAUSE: Duration = Duration::from_secs(300);

/// A process that was started in advance.
#[derive(Debug)]
pub(super) struct WarmProcess {
    /// Its profile's place in the configuration.
    pub(super) profile: usize,
    pub(super) session: SessionHandle,
    pub(super) cli_session: CliSessionId,
    pub(super) cwd: PathBuf,
    pub(super) key: LaunchKey,
    pub(super) since: Instant,
    /// The same by the clock of the world, which goes on while the machine sleeps.
    pub(super) since_at: Timestamp,
    /// Ends the task that watches it.
    pub(super) _watched: DropGuard,
}

impl WarmProcess {
    fn is_starting(&self) -> bool {
        self.session.view().state == SessionState::Starting
    }

    fn is_older_than(&self, age: Duration) -> bool {
        let by_the_world = Duration::from_millis(Clock.now().millis_since(self.since_at));
        self.since.elapsed().max(by_the_world) >= age
    }

    fn has_started(&self) -> bool {
        let state = self.session.view().state;
        matches!(
            state,
            SessionState::Idle | SessionState::Busy | SessionState::Waiting
        )
    }

    fn is_ready(&self) -> bool {
        let view = self.session.view();
        view.state == SessionState::Idle && !has_turned(&view)
    }
}

/// Whether the CLI has begun a turn by itself.
pub(super) fn has_turned(view: &LiveView) -> bool {
    view.turns > 0 || view.turn.is_some()
}

/// How a profile is left alone after failures.
#[derive(Clone, Debug, Default)]
struct ProfileBackoff {
    /// Processes in a row that were of no use: they did not start, or died unclaimed.
    failures: u32,
    /// No further one before this.
    not_before: Option<Instant>,
    /// Why the last one failed; `None` once another is ready.
    failure: Option<FailReason>,
}

/// The processes of a profile at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Stock {
    pub(super) ready: usize,
    pub(super) starting: usize,
    pub(super) failure: Option<FailReason>,
}

/// The processes that wait for somebody.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
    /// Told when the profiles are to be looked at.
    pub(super) changed: Notify,
    /// Counts what has left.
    left: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    processes: Vec<WarmProcess>,
    /// The directories of those that are being stopped: they hold their places until they are gone.
    discarding: Vec<PathBuf>,
    backoffs: Vec<ProfileBackoff>,
    /// Starts that somebody asked for and that have no room yet.
    waiting: usize,
    is_closed: bool,
    /// Whether one did not go although it was told to.
    has_leftover: bool,
}

/// Somebody wants room: nothing is started in advance as long as this is kept.
#[derive(Debug)]
pub(crate) struct RefillPause {
    pool: Arc<Pool>,
}

impl Drop for RefillPause {
    fn drop(&mut self) {
        self.pool.state().waiting -= 1;
        self.pool.changed.notify_one();
    }
}

/// A process that is being stopped.
#[derive(Debug)]
pub(super) struct Discarding {
    pub(super) process: WarmProcess,
    pool: Arc<Pool>,
}

impl Drop for Discarding {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        if let Some(place) = state.discarding.iter().position(|cwd| *cwd == self.process.cwd) {
            state.discarding.swap_remove(place);
        }
        drop(state);
        self.pool.left.send_modify(|left| *left += 1);
        self.pool.changed.notify_one();
    }
}

impl Pool {
    pub(crate) fn new(profiles: usize) -> Self {
        Self {
            state: Mutex::new(State {
                backoffs: vec![ProfileBackoff::default(); profiles],
                ..State::default()
            }),
            changed: Notify::new(),
            left: watch::Sender::new(0),
        }
    }

    /// Adds a process that is about to be started; gives it back when the pool is closed.
    pub(super) fn add(&self, process: WarmProcess) -> Result<(), Box<WarmProcess>> {
        let mut state = self.state();
        if state.is_closed {
            return Err(Box::new(process));
        }
        state.processes.push(process);
        Ok(())
    }

    /// The oldest that is ready, not too old, and what would be launched.
    pub(super) fn claim(&self, key: &LaunchKey, max_age: Duration) -> Option<WarmProcess> {
        let mut state = self.state();
        let fits = |it: &WarmProcess| it.is_ready() && !it.is_older_than(max_age) && it.key == *key;
        let place = state.processes.iter().position(fits)?;
        Some(state.processes.remove(place))
    }

    /// The one of this session, to be stopped.
    pub(super) fn take(self: &Arc<Self>, id: SessionId) -> Option<Discarding> {
        self.give_up(|process| process.session.id() == id)
    }

    /// The one whose place or turn stands in the way of a process in `cwd`: one that is not ready, if there is, else the
    /// oldest.
    pub(super) fn make_room(self: &Arc<Self>, refusal: Refusal, cwd: &Path) -> Option<Discarding> {
        let is_in_the_way = |process: &WarmProcess| match refusal {
            Refusal::Live { .. } => true,
            Refusal::LivePerCwd { .. } => process.cwd == cwd,
            Refusal::Waiting { .. } => process.is_starting(),
        };
        self.give_up(|process| process.is_starting() && is_in_the_way(process))
            .or_else(|| self.give_up(is_in_the_way))
    }

    /// The one that has a turn to start which others wait for.
    pub(super) fn make_way(self: &Arc<Self>) -> Option<Discarding> {
        self.give_up(WarmProcess::is_starting)
    }

    /// Those that would not be started like this any more, and those that are too old. `keys` are what would be.
    pub(super) fn take_stale(
        self: &Arc<Self>,
        keys: &[Result<LaunchKey, SupervisorError>],
        max_age: Duration,
    ) -> Vec<(Discarding, WarmEnd)> {
        let mut stale = Vec::new();
        let is_changed = |process: &WarmProcess| {
            let key = keys.get(process.profile).and_then(|key| key.as_ref().ok());
            key != Some(&process.key)
        };
        while let Some(process) = self.give_up(is_changed) {
            if let Some(backoff) = self.state().backoffs.get_mut(process.process.profile) {
                let at = Instant::now() + CHANGE_PAUSE;
                backoff.not_before = backoff.not_before.max(Some(at));
            }
            stale.push((process, WarmEnd::Changed));
        }
        while let Some(process) = self.give_up(|process| process.is_older_than(max_age)) {
            stale.push((process, WarmEnd::Aged));
        }
        stale
    }

    /// All of them; no other comes after this.
    pub(super) fn close(self: &Arc<Self>) -> Vec<Discarding> {
        self.state().is_closed = true;
        std::iter::from_fn(|| self.give_up(|_| true)).collect()
    }

    /// Whether one that is being stopped stands in the way of a process in `cwd`.
    pub(super) fn is_leaving(&self, refusal: Refusal, cwd: &Path) -> bool {
        let state = self.state();
        match refusal {
            Refusal::Live { .. } | Refusal::Waiting { .. } => !state.discarding.is_empty(),
            Refusal::LivePerCwd { .. } => state.discarding.iter().any(|discarding| discarding == cwd),
        }
    }

    /// Whether any is being stopped.
    pub(super) fn is_anything_leaving(&self) -> bool {
        !self.state().discarding.is_empty()
    }

    /// One did not go.
    pub(super) fn mark_leftover(&self) {
        self.state().has_leftover = true;
    }

    /// Whether one did not go.
    pub(super) fn has_leftover(&self) -> bool {
        self.state().has_leftover
    }

    /// The processes, of those that have one.
    pub(crate) fn clis(&self) -> Vec<(SessionId, i32)> {
        let state = self.state();
        let processes = state.processes.iter();
        processes
            .filter_map(|process| Some((process.session.id(), process.session.view().cli_pid?)))
            .collect()
    }

    /// The oldest, as memory is scarce; for a while no profile gets another.
    pub(super) fn give_up_for_memory(self: &Arc<Self>) -> Option<Discarding> {
        let process = self.give_up(|_| true)?;
        let at = Instant::now() + MEMORY_PAUSE;
        for backoff in &mut self.state().backoffs {
            backoff.not_before = backoff.not_before.max(Some(at));
        }
        Some(process)
    }

    /// Keeps the room that becomes free for somebody.
    pub(crate) fn pause_refill(self: &Arc<Self>) -> RefillPause {
        self.state().waiting += 1;
        RefillPause {
            pool: Arc::clone(self),
        }
    }

    /// Tells when one has left. Subscribe first, then look.
    pub(super) fn left(&self) -> watch::Receiver<u64> {
        self.left.subscribe()
    }

    /// Whether a profile that is to have so many may get another now.
    pub(super) fn may_refill(&self, profile: usize, count: usize) -> bool {
        let state = self.state();
        let mut of_profile = state
            .processes
            .iter()
            .filter(|process| process.profile == profile);
        let has = of_profile.clone().count();
        // Wait for the outcome of the last one, or its failure would come too late.
        let is_open = of_profile.any(|process| !process.has_started());
        let backoff = state.backoffs.get(profile);
        let may = backoff.is_none_or(|backoff| backoff.not_before.is_none_or(|at| at <= Instant::now()));
        !state.is_closed && state.waiting == 0 && !is_open && has < count && may
    }

    /// When something is due by itself: a profile may be tried again, or a process is too old.
    pub(super) fn next(&self, max_age: Duration) -> Option<Instant> {
        let state = self.state();
        let tries = state.backoffs.iter().filter_map(|backoff| backoff.not_before);
        let now = Instant::now();
        let ages = state
            .processes
            .iter()
            .filter_map(|process| process.since.checked_add(max_age));
        tries.filter(|at| *at > now).chain(ages).min()
    }

    /// One is ready.
    pub(super) fn is_well(&self, profile: usize) {
        if let Some(backoff) = self.state().backoffs.get_mut(profile) {
            backoff.failure = None;
        }
        self.changed.notify_one();
    }

    /// One was of use.
    pub(super) fn was_useful(&self, profile: usize) {
        if let Some(backoff) = self.state().backoffs.get_mut(profile) {
            *backoff = ProfileBackoff::default();
        }
        self.changed.notify_one();
    }

    /// One was of no use; tells how often in a row that was, and how long the profile is left alone.
    pub(super) fn failed(&self, profile: usize, reason: FailReason) -> (u32, Duration) {
        let mut state = self.state();
        let Some(backoff) = state.backoffs.get_mut(profile) else {
            return (0, Duration::ZERO);
        };
        backoff.failures = backoff.failures.saturating_add(1);
        let pause = pause_after(backoff.failures);
        backoff.not_before = Some(Instant::now() + pause);
        backoff.failure = Some(reason);
        let failures = backoff.failures;
        drop(state);
        self.changed.notify_one();
        (failures, pause)
    }

    /// How a profile stands.
    pub(super) fn stock(&self, profile: usize) -> Stock {
        let state = self.state();
        let of_profile = || {
            state
                .processes
                .iter()
                .filter(|process| process.profile == profile)
        };
        Stock {
            ready: of_profile().filter(|process| process.is_ready()).count(),
            starting: of_profile().filter(|process| process.is_starting()).count(),
            failure: state
                .backoffs
                .get(profile)
                .and_then(|backoff| backoff.failure.clone()),
        }
    }

    fn give_up(self: &Arc<Self>, which: impl Fn(&WarmProcess) -> bool) -> Option<Discarding> {
        let mut state = self.state();
        let place = state.processes.iter().position(which)?;
        let process = state.processes.remove(place);
        state.discarding.push(process.cwd.clone());
        drop(state);
        Some(Discarding {
            process,
            pool: Arc::clone(self),
        })
    }

    /// Has one that was claimed in vain leave.
    pub(super) fn reject(self: &Arc<Self>, process: WarmProcess) -> Discarding {
        self.state().discarding.push(process.cwd.clone());
        Discarding {
            process,
            pool: Arc::clone(self),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pause_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_fails_is_tried_less_and_less_often() {
        let pauses: Vec<u64> = (1..=11).map(|failures| pause_after(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(pause_after(u32::MAX), LONGEST_PAUSE);
    }

    #[test]
    fn what_was_of_use_ends_the_row_and_what_is_only_ready_does_not() {
        let pool = Pool::new(1);
        let reason = || FailReason {
            code: FailReason::START_FAILED.to_owned(),
            detail: String::new(),
        };
        assert!(pool.may_refill(0, 1) && !pool.may_refill(0, 0));
        assert_eq!(pool.failed(0, reason()).0, 1);
        assert!(!pool.may_refill(0, 1));
        pool.is_well(0);
        assert!(pool.stock(0).failure.is_none());
        assert_eq!(pool.failed(0, reason()).0, 2);
        pool.was_useful(0);
        assert!(pool.may_refill(0, 1));
        assert_eq!(pool.failed(0, reason()).0, 1);
    }
}
