//! Owns the policy of parking over many sessions: wakes, and whose process goes when another needs its place or the memory.

use std::{path::Path, sync::atomic::Ordering, time::Duration};

use tokio::sync::mpsc;

use crate::{
    admission::{Admitted, Refusal},
    domain::{Clock, ParkReason, SessionId, SessionState, Timestamp},
    os,
    session::{Launch, Occasion, SessionHandle, WakeFailure},
    telemetry,
};

use super::{SessionView, Supervisor, SupervisorError, budget::refuse_spent, requests::Opening};

/// Sessions whose wake may wait to be begun; one that finds no room asks again.
pub(super) const WAKES: usize = 256;
/// Sessions that are parked for one start at most: others may take the room.
const ROOM_TRIES: usize = 8;
/// File descriptors that must be left for a start: pipes, the link, the journal, and requests meanwhile.
const STARTING_FILES: u64 = 32;

impl Supervisor {
    /// Ends the process of a session that does nothing, and returns after its end. The next message starts another. Parking
    /// what is parked is no error.
    ///
    /// # Errors
    /// `SessionNotFound`, `Session` (`NotParkable`, `StopTimedOut`).
    pub async fn park(&self, id: SessionId) -> Result<SessionView, SupervisorError> {
        let session = self.handle(id).await?;
        let deadline = self.shared.settings.stop_deadline();
        session.park(ParkReason::Asked, 0, deadline).await?;
        self.session(id).await
    }

    /// The right to start a process. Where the limits leave no room, another session that does nothing may be parked for it.
    ///
    /// # Errors
    /// `TooFewFiles`, `NoRoom`.
    pub(super) async fn admit(&self, id: SessionId, cwd: &str) -> Result<Admitted, SupervisorError> {
        self.refuse_without_files()?;
        let cwd = Path::new(cwd);
        let _pause = self.shared.warm.pause_refill();
        let mut tries = ROOM_TRIES;
        loop {
            let refusal = match self.admit_before_spares(id, cwd).await {
                Err(SupervisorError::NoRoom(refusal)) => refusal,
                other => return other,
            };
            let within = match refusal {
                Refusal::Live { .. } => None,
                Refusal::LivePerCwd { .. } => Some(cwd),
                // Those that wait are not there because of others that do nothing.
                Refusal::Waiting { .. } => return Err(refusal.into()),
            };
            if tries == 0 || !self.make_room(within).await {
                return Err(refusal.into());
            }
            // Somebody else may be faster to take it.
            tries -= 1;
        }
    }

    /// A start that fails half-way for want of file descriptors helps nobody.
    pub(super) fn refuse_without_files(&self) -> Result<(), SupervisorError> {
        if os::spare_files() < STARTING_FILES {
            return Err(SupervisorError::TooFewFiles);
        }
        Ok(())
    }

    async fn make_room(&self, within: Option<&Path>) -> bool {
        let park = self.shared.settings.park;
        if !park.make_room {
            return false;
        }
        for session in self.unused_sessions(park.grace_ms) {
            let is_wanted = within.is_none_or(|cwd| session.cwd() == cwd);
            if is_wanted && self.park_for(&session, ParkReason::Room).await {
                return true;
            }
        }
        false
    }

    /// The sessions that could be parked, the one that was used the longest ago first.
    fn unused_sessions(&self, for_ms: u64) -> Vec<SessionHandle> {
        let now = Clock.now();
        let mut found: Vec<(Timestamp, SessionHandle)> = self
            .shared
            .registry
            .all()
            .into_iter()
            .filter_map(|session| Some((session.view().unused_since?, session)))
            .filter(|(since, _)| now.millis_since(*since) >= for_ms)
            .collect();
        found.sort_by_key(|(since, session)| (*since, session.id()));
        found.into_iter().map(|(_, session)| session).collect()
    }

    async fn park_for(&self, session: &SessionHandle, reason: ParkReason) -> bool {
        let settings = &self.shared.settings;
        let parked = session
            .park(reason, settings.park.grace_ms, settings.stop_deadline())
            .await;
        match parked {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(session.id = %session.id(), %error, "a session was not parked");
                false
            }
        }
    }

    /// Keeps the processes of all sessions within their memory until the daemon ends.
    pub(super) fn run_memory(&self) {
        let park = self.shared.settings.park;
        if park.memory_budget_bytes == 0 {
            return;
        }
        let supervisor = self.clone();
        let pause = Duration::from_millis(park.measure_ms);
        let run = async move {
            loop {
                tokio::time::sleep(pause).await;
                supervisor.keep_within(park.memory_budget_bytes).await;
            }
        };
        let closing = self.shared.closing.clone();
        self.shared.tracker.spawn(closing.run_until_cancelled_owned(run));
    }

    async fn keep_within(&self, budget: u64) {
        let sessions = self.shared.registry.all();
        let clis: Vec<(SessionId, i32)> = sessions
            .into_iter()
            .filter_map(|session| Some((session.id(), session.view().cli_pid?)))
            .chain(self.shared.warm.clis())
            .collect();
        let of_session = match tokio::task::spawn_blocking(move || os::memory(&clis)).await {
            Ok(Ok(measured)) => measured,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the memory of the sessions could not be measured");
                return;
            }
            // The runtime is shutting down.
            Err(_) => return,
        };
        let total: u64 = of_session.values().sum();
        self.shared.memory_bytes.store(total, Ordering::Relaxed);
        let mut excess = total.saturating_sub(budget);
        if excess == 0 {
            return;
        }
        // A process that nobody has asked for goes first.
        excess = self.save_memory(excess, &of_session).await;
        for session in self.unused_sessions(self.shared.settings.park.grace_ms) {
            if excess == 0 {
                break;
            }
            let Some(bytes) = of_session.get(&session.id()) else {
                continue;
            };
            tracing::info!(session.id = %session.id(), bytes, total, budget, "a session is parked to save memory");
            if self.park_for(&session, ParkReason::Memory).await {
                excess = excess.saturating_sub(*bytes);
            }
        }
    }

    /// Wakes who is sent something until the daemon ends.
    pub(super) fn run_wakes(&self, mut due: mpsc::Receiver<SessionId>) {
        let supervisor = self.clone();
        let run = async move {
            while let Some(id) = due.recv().await {
                let supervisor = supervisor.clone();
                let tracker = supervisor.shared.tracker.clone();
                tracker.spawn(async move { supervisor.wake(id).await });
            }
        };
        let closing = self.shared.closing.clone();
        self.shared.tracker.spawn(closing.run_until_cancelled_owned(run));
    }

    async fn wake(&self, id: SessionId) {
        let Some(session) = self.shared.registry.get(id) else {
            return;
        };
        let _exclusive = self.shared.registry.exclusive(id).await;
        // Somebody may have resumed or stopped it since.
        let view = session.view();
        if view.state != SessionState::Parked || !view.is_woken {
            return;
        }
        match self.try_wake(&session).await {
            // Somebody was faster; or what became of the start is in the journal.
            Ok(()) | Err(SupervisorError::Session(_)) => {}
            Err(error) => {
                let failure = failure(&error);
                tracing::info!(session.id = %id, reason = failure.detail, "a parked session could not be woken");
                session.wake_failed(failure).await;
            }
        }
    }

    async fn try_wake(&self, session: &SessionHandle) -> Result<(), SupervisorError> {
        self.refuse_when_closing()?;
        self.catch_up().await?;
        let row = self.row(session.id()).await?;
        refuse_spent(&row)?;
        self.agent_of(&row).await?;
        let start = self.start_of(&row).await?;
        let terms = self.terms(&row, &start, None).await?;
        let admitted = self.admit(row.id, &row.cwd).await?;
        let launch = Launch {
            occasion: Occasion::Wake,
            ..self
                .prepare(session, &row, start, Opening::default(), terms)
                .await?
        };
        self.start_prepared(session, launch, admitted).await
    }
}

/// The reason that the senders of messages get.
fn failure(error: &SupervisorError) -> WakeFailure {
    use SupervisorError as E;
    let code = error.code();
    let room = match error {
        E::NoRoom(refusal) => Some(*refusal),
        _ => None,
    };
    let budget = match error {
        E::BudgetSpent(budget) => Some(*budget),
        _ => None,
    };
    let is_internal = code.is_internal();
    if is_internal {
        let error = telemetry::chain(error);
        tracing::error!(error, "a parked session could not be woken");
    }
    WakeFailure {
        code,
        detail: if is_internal {
            "the daemon's log has the cause".to_owned()
        } else {
            telemetry::chain(error)
        },
        room,
        budget,
        reason: None,
    }
}
