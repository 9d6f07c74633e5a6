//! Owns the end of all sessions with the daemon: no new work, the turns that may end, the stops, the last facts.

use std::{collections::HashSet, pin::pin, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    domain::SessionState,
    session::{SessionError, SessionHandle},
};

use super::{Supervisor, SupervisorError};

impl Supervisor {
    /// Refuses new work from now on.
    pub fn close(&self) {
        self.shared.closing.cancel();
        self.shared.admission.close();
    }

    /// Stops the processes of all sessions, in parallel: each when its turn is over, and after `turns` at the latest. A turn
    /// that waits for a person is not waited for, and from `hurry` on nothing is. Says whether all have stopped.
    pub async fn stop_all(&self, by: &str, turns: Duration, hurry: &CancellationToken) -> bool {
        let (all_stopped, ()) = tokio::join!(self.stop_sessions(by, turns, hurry), self.close_warm());
        all_stopped
    }

    async fn stop_sessions(&self, by: &str, turns: Duration, hurry: &CancellationToken) -> bool {
        let deadline = self.shared.settings.stop_deadline();
        let until = Instant::now() + turns;
        let mut asked = HashSet::new();
        let mut all_stopped = true;
        loop {
            // A start that was under way when the shutdown began may have made one more.
            let left: Vec<SessionHandle> = self
                .shared
                .registry
                .all()
                .into_iter()
                // What is parked has no process, and stays parked.
                .filter(|session| session.view().state != SessionState::Parked && asked.insert(session.id()))
                .collect();
            if left.is_empty() {
                return all_stopped;
            }
            let mut stops = tokio::task::JoinSet::new();
            for session in left {
                let (by, hurry) = (by.to_owned(), hurry.clone());
                stops.spawn(async move {
                    let stopped = stop_after_turn(&session, &by, until, deadline, &hurry).await;
                    if let Err(error) = &stopped {
                        tracing::error!(session.id = %session.id(), %error, "a session did not stop");
                    }
                    stopped.is_ok()
                });
            }
            while let Some(stopped) = stops.join_next().await {
                all_stopped &= stopped.unwrap_or(false);
            }
        }
    }

    /// Lets go of all sessions: their processes live on, their facts are stored. Ends the store.
    pub async fn finish(&self) {
        self.close();
        self.close_warm().await;
        for session in self.shared.registry.all() {
            session.close().await;
            self.shared.registry.remove(session.id());
        }
        if let Err(error) = self.catch_up().await {
            tracing::warn!(%error, "the last facts were not stored; the next start reads them again");
        }
        self.shared.projector.close();
        self.shared.store.close().await;
    }

    pub(super) fn refuse_when_closing(&self) -> Result<(), SupervisorError> {
        if self.shared.closing.is_cancelled() {
            return Err(SupervisorError::ShuttingDown);
        }
        Ok(())
    }
}

async fn stop_after_turn(
    session: &SessionHandle,
    by: &str,
    until: Instant,
    deadline: Duration,
    hurry: &CancellationToken,
) -> Result<(), SessionError> {
    // Each branch only waits.
    tokio::select! {
        () = session.wait_turn_over() => {}
        () = tokio::time::sleep_until(until) => {
            tracing::info!(session.id = %session.id(), "its turn is not over, and is not waited for any more");
        }
        () = hurry.cancelled() => return session.stop_at_once(by, deadline).await,
    }
    let mut stop = pin!(session.stop(by, deadline));
    tokio::select! {
        stopped = &mut stop => stopped,
        () = hurry.cancelled() => {
            let (stopped, _) = tokio::join!(stop, session.stop_at_once(by, deadline));
            stopped
        }
    }
}
