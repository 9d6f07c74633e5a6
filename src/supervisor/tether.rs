//! Owns what becomes of a session whose host has gone: the program that it was made for is waited for, and then the session
//! stops once its turn and its tasks are over, as the CLI does at the end of its input.
//!
//! A file in the folder of the session says that it has such a host, so that a later daemon waits for it, too.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    domain::{SessionId, SessionState},
    files,
    session::LiveView,
    telemetry,
};

use super::{Supervisor, SupervisorError, removal::absent};

/// Who stops the session, in its journal.
const BY: &str = "host";
/// How long a host that was lost may take to come back.
const GRACE: Duration = Duration::from_secs(30);
/// How long the CLI may take to begin a turn with what came of a task.
const TASK_TURN: Duration = Duration::from_millis(500);
/// In the folder of a session.
const FILE: &str = "tether.json";

/// The sessions that end with their hosts. Cloning gives another handle on the same.
#[derive(Clone, Debug)]
pub struct Tethers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    supervisor: Supervisor,
    tied: Mutex<HashMap<SessionId, Tie>>,
    tracker: TaskTracker,
    /// The end of the daemon, which ends no session for this.
    closing: CancellationToken,
}

/// How a session and its host stand.
#[derive(Debug)]
struct Tie {
    /// Which host of the session it is.
    number: u64,
    /// Whether that is there.
    is_held: bool,
    /// Cancelled when the session is not to end any more.
    ending: Option<CancellationToken>,
}

impl Tethers {
    /// None yet, but those that an earlier daemon had. Their hosts may come back.
    pub fn new(supervisor: Supervisor, closing: CancellationToken, tracker: TaskTracker) -> Self {
        let tethers = Self(Arc::new(Inner {
            supervisor,
            tied: Mutex::default(),
            tracker,
            closing,
        }));
        for session in tethers.of_earlier_daemons() {
            let number = tethers.tied_anew(session, false);
            tethers.begin_end(session, number, GRACE);
        }
        tethers
    }

    /// Ties a session to its host, which is there for as long as the tether is kept.
    ///
    /// # Errors
    /// The file that says so cannot be written.
    pub fn tie(&self, session: SessionId) -> Result<Tether, SupervisorError> {
        let path = self.file(session);
        let draft = path.with_extension("new");
        files::replace(&path, &draft, b"{}\n").map_err(SupervisorError::files(&path))?;
        Ok(Tether {
            number: self.tied_anew(session, true),
            tethers: self.clone(),
            session,
        })
    }

    /// Whether the host of a session was lost a moment ago and may come back.
    pub fn is_waited_for(&self, session: SessionId) -> bool {
        self.tied().get(&session).is_some_and(|tie| !tie.is_held)
    }

    fn tied_anew(&self, session: SessionId, is_held: bool) -> u64 {
        let mut tied = self.tied();
        let earlier = tied.remove(&session);
        let number = earlier.as_ref().map_or(0, |tie| tie.number + 1);
        if let Some(ending) = earlier.and_then(|tie| tie.ending) {
            ending.cancel();
        }
        let ending = None;
        tied.insert(
            session,
            Tie {
                number,
                is_held,
                ending,
            },
        );
        number
    }

    /// Ends the session after `grace`, unless its host or another one comes meanwhile. Once is enough.
    fn begin_end(&self, session: SessionId, number: u64, grace: Duration) {
        let cancelled = CancellationToken::new();
        {
            let mut tied = self.tied();
            let Some(tie) = tied.get_mut(&session).filter(|tie| tie.number == number) else {
                return;
            };
            if tie.ending.is_some() {
                return;
            }
            tie.ending = Some(cancelled.clone());
        }
        let tethers = self.clone();
        self.0.tracker.spawn(async move {
            let end = async {
                tokio::time::sleep(grace).await;
                tethers.end(session, number).await;
            };
            // What was begun is left as it is: a stop goes on by itself.
            tokio::select! {
                () = end => {}
                () = cancelled.cancelled() => {}
                () = tethers.0.closing.cancelled() => {}
            }
        });
    }

    async fn end(&self, session: SessionId, number: u64) {
        let stopped = async {
            self.wait_for_rest(session).await?;
            self.0.supervisor.stop(session, BY).await.map(drop)
        };
        match stopped.await {
            Ok(()) | Err(SupervisorError::SessionNotFound(_)) => {}
            Err(error) => {
                let error = telemetry::chain(&error);
                tracing::warn!(session.id = %session, error, "the session of a host that has gone does not stop");
            }
        }
        let is_last = {
            let mut tied = self.tied();
            let is_last = tied.get(&session).is_some_and(|tie| tie.number == number);
            if is_last {
                tied.remove(&session);
            }
            is_last
        };
        if is_last && let Err(error) = absent(tokio::fs::remove_file(self.file(session)).await) {
            tracing::warn!(session.id = %session, %error, "the file of a tether stays");
        }
    }

    /// Waits until nothing of the session runs any more and nothing is to run.
    async fn wait_for_rest(&self, session: SessionId) -> Result<(), SupervisorError> {
        let session = self.0.supervisor.handle(session).await?;
        loop {
            let had_tasks = session.view().background_tasks > 0;
            session.seen(|view| !has_work(view)).await?;
            let more = session.seen(has_work);
            if !had_tasks || tokio::time::timeout(TASK_TURN, more).await.is_err() {
                return Ok(());
            }
        }
    }

    fn of_earlier_daemons(&self) -> Vec<SessionId> {
        let dir = self.0.supervisor.shared.settings.data_dir.join("sessions");
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id| self.file(*id).exists()).collect()
    }

    fn file(&self, session: SessionId) -> PathBuf {
        self.0.supervisor.shared.settings.session_dir(session).join(FILE)
    }

    fn tied(&self) -> MutexGuard<'_, HashMap<SessionId, Tie>> {
        self.0.tied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tie of a session to a host that is there. When it is dropped the host is lost.
#[derive(Debug)]
pub struct Tether {
    tethers: Tethers,
    session: SessionId,
    number: u64,
}

impl Tether {
    /// The host has no more input, and does not come back for more.
    pub fn end_of_input(&self) {
        self.tethers.begin_end(self.session, self.number, Duration::ZERO);
    }
}

impl Drop for Tether {
    fn drop(&mut self) {
        if let Some(tie) = self.tethers.tied().get_mut(&self.session)
            && tie.number == self.number
        {
            tie.is_held = false;
        }
        self.tethers.begin_end(self.session, self.number, GRACE);
    }
}

fn has_work(view: &LiveView) -> bool {
    match view.state {
        SessionState::Stopping | SessionState::Stopped | SessionState::Failed | SessionState::Parked => false,
        SessionState::Starting | SessionState::Busy | SessionState::Waiting => true,
        SessionState::Idle => {
            view.turn.is_some() || !view.open_prompts.is_empty() || view.background_tasks > 0
        }
    }
}
