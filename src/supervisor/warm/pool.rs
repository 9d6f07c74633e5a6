//! Owns which processes were started in advance, and how the profiles fare that they were started for. When two callers
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
pub(super) struct Spare {
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

impl Spare {
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

/// How a profile fares.
#[derive(Clone, Debug, Default)]
struct Fare {
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
    spares: Vec<Spare>,
    /// The directories of those that are being stopped: they hold their places until they are gone.
    leaving: Vec<PathBuf>,
    fares: Vec<Fare>,
    /// Starts that somebody asked for and that have no room yet.
    waiting: usize,
    is_closed: bool,
    /// Whether one did not go although it was told to.
    has_remains: bool,
}

/// Somebody wants room: nothing is started in advance as long as this is kept.
#[derive(Debug)]
pub(crate) struct Wish {
    pool: Arc<Pool>,
}

impl Drop for Wish {
    fn drop(&mut self) {
        self.pool.state().waiting -= 1;
        self.pool.changed.notify_one();
    }
}

/// A process that is being stopped.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) spare: Spare,
    pool: Arc<Pool>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        if let Some(place) = state.leaving.iter().position(|cwd| *cwd == self.spare.cwd) {
            state.leaving.swap_remove(place);
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
                fares: vec![Fare::default(); profiles],
                ..State::default()
            }),
            changed: Notify::new(),
            left: watch::Sender::new(0),
        }
    }

    /// Adds a process that is about to be started; gives it back when the pool is closed.
    pub(super) fn add(&self, spare: Spare) -> Result<(), Box<Spare>> {
        let mut state = self.state();
        if state.is_closed {
            return Err(Box::new(spare));
        }
        state.spares.push(spare);
        Ok(())
    }

    /// The oldest that is ready, not too old, and what would be launched.
    pub(super) fn claim(&self, key: &LaunchKey, max_age: Duration) -> Option<Spare> {
        let mut state = self.state();
        let fits = |it: &Spare| it.is_ready() && !it.is_older_than(max_age) && it.key == *key;
        let place = state.spares.iter().position(fits)?;
        Some(state.spares.remove(place))
    }

    /// The one of this session, to be stopped.
    pub(super) fn take(self: &Arc<Self>, id: SessionId) -> Option<Leaving> {
        self.give_up(|spare| spare.session.id() == id)
    }

    /// The one whose place or turn stands in the way of a process in `cwd`: one that is not ready, if there is, else the
    /// oldest.
    pub(super) fn make_room(self: &Arc<Self>, refusal: Refusal, cwd: &Path) -> Option<Leaving> {
        let is_in_the_way = |spare: &Spare| match refusal {
            Refusal::Live { .. } => true,
            Refusal::LivePerCwd { .. } => spare.cwd == cwd,
            Refusal::Waiting { .. } => spare.is_starting(),
        };
        self.give_up(|spare| spare.is_starting() && is_in_the_way(spare))
            .or_else(|| self.give_up(is_in_the_way))
    }

    /// The one that has a turn to start which others wait for.
    pub(super) fn make_way(self: &Arc<Self>) -> Option<Leaving> {
        self.give_up(Spare::is_starting)
    }

    /// Those that would not be started like this any more, and those that are too old. `keys` are what would be.
    pub(super) fn take_stale(
        self: &Arc<Self>,
        keys: &[Result<LaunchKey, SupervisorError>],
        max_age: Duration,
    ) -> Vec<(Leaving, WarmEnd)> {
        let mut stale = Vec::new();
        let is_changed = |spare: &Spare| {
            let key = keys.get(spare.profile).and_then(|key| key.as_ref().ok());
            key != Some(&spare.key)
        };
        while let Some(spare) = self.give_up(is_changed) {
            if let Some(fare) = self.state().fares.get_mut(spare.spare.profile) {
                let at = Instant::now() + CHANGE_PAUSE;
                fare.not_before = fare.not_before.max(Some(at));
            }
            stale.push((spare, WarmEnd::Changed));
        }
        while let Some(spare) = self.give_up(|spare| spare.is_older_than(max_age)) {
            stale.push((spare, WarmEnd::Aged));
        }
        stale
    }

    /// All of them; no other comes after this.
    pub(super) fn close(self: &Arc<Self>) -> Vec<Leaving> {
        self.state().is_closed = true;
        std::iter::from_fn(|| self.give_up(|_| true)).collect()
    }

    /// Whether one that is being stopped stands in the way of a process in `cwd`.
    pub(super) fn is_leaving(&self, refusal: Refusal, cwd: &Path) -> bool {
        let state = self.state();
        match refusal {
            Refusal::Live { .. } | Refusal::Waiting { .. } => !state.leaving.is_empty(),
            Refusal::LivePerCwd { .. } => state.leaving.iter().any(|leaving| leaving == cwd),
        }
    }

    /// Whether any is being stopped.
    pub(super) fn is_anything_leaving(&self) -> bool {
        !self.state().leaving.is_empty()
    }

    /// One did not go.
    pub(super) fn remains(&self) {
        self.state().has_remains = true;
    }

    /// Whether one did not go.
    pub(super) fn has_remains(&self) -> bool {
        self.state().has_remains
    }

    /// The processes, of those that have one.
    pub(crate) fn clis(&self) -> Vec<(SessionId, i32)> {
        let state = self.state();
        let spares = state.spares.iter();
        spares
            .filter_map(|spare| Some((spare.session.id(), spare.session.view().cli_pid?)))
            .collect()
    }

    /// The oldest, as memory is scarce; for a while no profile gets another.
    pub(super) fn give_up_for_memory(self: &Arc<Self>) -> Option<Leaving> {
        let spare = self.give_up(|_| true)?;
        let at = Instant::now() + MEMORY_PAUSE;
        for fare in &mut self.state().fares {
            fare.not_before = fare.not_before.max(Some(at));
        }
        Some(spare)
    }

    /// Keeps the room that becomes free for somebody.
    pub(crate) fn wish(self: &Arc<Self>) -> Wish {
        self.state().waiting += 1;
        Wish {
            pool: Arc::clone(self),
        }
    }

    /// Tells when one has left. Subscribe first, then look.
    pub(super) fn left(&self) -> watch::Receiver<u64> {
        self.left.subscribe()
    }

    /// Whether a profile that is to have so many may get another now.
    pub(super) fn wants(&self, profile: usize, count: usize) -> bool {
        let state = self.state();
        let mut of_profile = state.spares.iter().filter(|spare| spare.profile == profile);
        let has = of_profile.clone().count();
        // Wait for the outcome of the last one, or its failure would come too late.
        let is_open = of_profile.any(|spare| !spare.has_started());
        let fare = state.fares.get(profile);
        let may = fare.is_none_or(|fare| fare.not_before.is_none_or(|at| at <= Instant::now()));
        !state.is_closed && state.waiting == 0 && !is_open && has < count && may
    }

    /// When something is due by itself: a profile may be tried again, or a process is too old.
    pub(super) fn next(&self, max_age: Duration) -> Option<Instant> {
        let state = self.state();
        let tries = state.fares.iter().filter_map(|fare| fare.not_before);
        let now = Instant::now();
        let ages = state
            .spares
            .iter()
            .filter_map(|spare| spare.since.checked_add(max_age));
        tries.filter(|at| *at > now).chain(ages).min()
    }

    /// One is ready.
    pub(super) fn is_well(&self, profile: usize) {
        if let Some(fare) = self.state().fares.get_mut(profile) {
            fare.failure = None;
        }
        self.changed.notify_one();
    }

    /// One was of use.
    pub(super) fn was_useful(&self, profile: usize) {
        if let Some(fare) = self.state().fares.get_mut(profile) {
            *fare = Fare::default();
        }
        self.changed.notify_one();
    }

    /// One was of no use; tells how often in a row that was, and how long the profile is left alone.
    pub(super) fn failed(&self, profile: usize, reason: FailReason) -> (u32, Duration) {
        let mut state = self.state();
        let Some(fare) = state.fares.get_mut(profile) else {
            return (0, Duration::ZERO);
        };
        fare.failures = fare.failures.saturating_add(1);
        let pause = pause_after(fare.failures);
        fare.not_before = Some(Instant::now() + pause);
        fare.failure = Some(reason);
        let failures = fare.failures;
        drop(state);
        self.changed.notify_one();
        (failures, pause)
    }

    /// How a profile stands.
    pub(super) fn stock(&self, profile: usize) -> Stock {
        let state = self.state();
        let of_profile = || state.spares.iter().filter(|spare| spare.profile == profile);
        Stock {
            ready: of_profile().filter(|spare| spare.is_ready()).count(),
            starting: of_profile().filter(|spare| spare.is_starting()).count(),
            failure: state.fares.get(profile).and_then(|fare| fare.failure.clone()),
        }
    }

    fn give_up(self: &Arc<Self>, which: impl Fn(&Spare) -> bool) -> Option<Leaving> {
        let mut state = self.state();
        let place = state.spares.iter().position(which)?;
        let spare = state.spares.remove(place);
        state.leaving.push(spare.cwd.clone());
        drop(state);
        Some(Leaving {
            spare,
            pool: Arc::clone(self),
        })
    }

    /// Has one that was claimed in vain leave.
    pub(super) fn reject(self: &Arc<Self>, spare: Spare) -> Leaving {
        self.state().leaving.push(spare.cwd.clone());
        Leaving {
            spare,
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
        assert!(pool.wants(0, 1) && !pool.wants(0, 0));
        assert_eq!(pool.failed(0, reason()).0, 1);
        assert!(!pool.wants(0, 1));
        pool.is_well(0);
        assert!(pool.stock(0).failure.is_none());
        assert_eq!(pool.failed(0, reason()).0, 2);
        pool.was_useful(0);
        assert!(pool.wants(0, 1));
        assert_eq!(pool.failed(0, reason()).0, 1);
    }
}
