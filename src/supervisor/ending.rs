//! Owns the end of all sessions with the daemon: no new work, the turns that may end, the stops, the last facts.

use std::{collections::HashSet, pin::pin, time::Duration};

use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::task_tracker::TaskTrackerToken};

use crate::{
    admission::Admitted,
    domain::SessionId,
    session::{Launch, SessionError, SessionHandle},
};

use super::{Supervisor, SupervisorError};

impl Supervisor {
    /// Refuses new work from now on.
    pub fn close(&self) {
        // In this order: who begins a start sees one of the two, or is waited for.
        self.shared.closing.cancel();
        self.shared.starts.close();
        self.shared.admission.close();
    }

    /// Says that a process may come of what follows, for as long as this is kept: the end of the daemon waits for it, and looks
    /// again at what it has to stop.
    ///
    /// # Errors
    /// `ShuttingDown` when the end has begun.
    pub(super) fn begin_start(&self) -> Result<TaskTrackerToken, SupervisorError> {
        let under_way = self.shared.starts.token();
        self.refuse_when_closing()?;
        Ok(under_way)
    }

    /// Starts what was prepared, unless the daemon has begun to end meanwhile: who stops all sessions then must not miss it.
    pub(super) async fn start_prepared(
        &self,
        session: &SessionHandle,
        launch: Launch,
        admitted: Admitted,
    ) -> Result<(), SupervisorError> {
        let under_way = self.begin_start()?;
        let session = session.clone();
        // To the end: what was handed to the actor is started, whether or not somebody waits for it.
        self.run_uncancelled(async move {
            let started = session.start(launch, admitted).await;
            drop(under_way);
            Ok(started?)
        })
        .await
    }

    /// Stops the processes of all sessions, in parallel: each when its turn is over, and after `turns` at the latest. A turn
    /// that waits for a person is not waited for, and from `hurry` on nothing is. A parked session stays parked. Says
    /// whether all have stopped.
    pub async fn stop_all(&self, by: &str, turns: Duration, hurry: &CancellationToken) -> bool {
        let (sessions, warm) = tokio::join!(self.stop_sessions(by, turns, hurry), self.close_warm());
        sessions && warm
    }

    async fn stop_sessions(&self, by: &str, turns: Duration, hurry: &CancellationToken) -> bool {
        let until = Instant::now() + turns;
        let mut failed = HashSet::new();
        loop {
            // Read first: what is under way may make a process of a session just after that was asked to stop.
            let is_last = self.shared.starts.is_empty();
            let stops = self.stop_each(by, until, hurry, &mut failed);
            tokio::join!(stops, self.shared.starts.wait());
            if is_last {
                return failed.is_empty();
            }
        }
    }

    /// Stops all sessions but those that did not stop before.
    async fn stop_each(
        &self,
        by: &str,
        until: Instant,
        hurry: &CancellationToken,
        failed: &mut HashSet<SessionId>,
    ) {
        let deadline = self.shared.settings.stop_deadline();
        let mut stops = tokio::task::JoinSet::new();
        for session in self.shared.registry.all() {
            if failed.contains(&session.id()) {
                continue;
            }
            let (by, hurry) = (by.to_owned(), hurry.clone());
            stops.spawn(async move {
                let id = session.id();
                match stop_after_turn(&session, &by, until, deadline, &hurry).await {
                    // One that is gone was deleted meanwhile, and had no process then.
                    Ok(()) | Err(SessionError::Ended) => Ok(()),
                    Err(error) => {
                        tracing::error!(session.id = %id, %error, "a session did not stop");
                        Err(id)
                    }
                }
            });
        }
        for id in self.shared.registry.all_out_of_reach() {
            if failed.contains(&id) {
                continue;
            }
            let (supervisor, by) = (self.clone(), by.to_owned());
            stops.spawn(async move {
                let stopped = async { Ok(supervisor.handle_to_stop(id).await?.end(&by, false, deadline).await?) };
                match stopped.await {
                    Ok(()) => Ok(()),
                    Err(error) => {
                        let error = crate::telemetry::chain(&error as &SupervisorError);
                        tracing::error!(session.id = %id, error, "a session whose keeper is out of reach did not stop");
                        Err(id)
                    }
                }
            });
        }
        while let Some(stopped) = stops.join_next().await {
            match stopped {
                Ok(Ok(())) => {}
                Ok(Err(id)) => drop(failed.insert(id)),
                Err(error) => tracing::error!(%error, "a stop did not finish"),
            }
        }
    }

    /// Lets go of all sessions: their processes live on, their facts are stored. Ends the store.
    pub async fn finish(&self) {
        self.close();
        self.close_warm().await;
        // Each start under way finishes first, so its session is known and let go of as well.
        self.shared.starts.wait().await;
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

    /// As [`Self::refuse_when_closing`], before anything is done.
    pub(super) fn refuse_new(&self) -> Result<(), SupervisorError> {
        self.refuse_when_closing().map_err(|_| SupervisorError::Closing)
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
        () = hurry.cancelled() => return session.end(by, true, deadline).await,
    }
    let mut stop = pin!(session.end(by, false, deadline));
    tokio::select! {
        stopped = &mut stop => stopped,
        () = hurry.cancelled() => {
            let (stopped, _) = tokio::join!(stop, session.end(by, true, deadline));
            stopped
        }
    }
}
