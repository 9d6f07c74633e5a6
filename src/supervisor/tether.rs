//! Owns what becomes of a session whose host has gone: the program that it was made for is waited for, and then the session
//! stops once its turn and its tasks are over, as the CLI does at the end of its input.
//!
//! A file in the folder of the session says that it has such a host, so that a later daemon waits for it, too.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    domain::{ClientId, Seq, SessionId, SessionState},
    files,
    session::{HostEnd, LiveView, SessionHandle},
    telemetry,
};

use super::{Supervisor, SupervisorError, removal::absent};

/// The one that stops the session, in its journal.
const BY: &str = "host";
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
    /// Hosts so far.
    hosts: AtomicU64,
    tracker: TaskTracker,
    /// The end of the daemon, which ends no session for this.
    closing: CancellationToken,
}

/// How a session and its hosts stand.
#[derive(Debug, Default)]
struct Tie {
    /// The hosts that are there.
    hosts: HashSet<u64>,
    /// Set when none is.
    ending: Option<Ending>,
}

/// The end of a session that is to come.
#[derive(Debug)]
struct Ending {
    /// Whether its host may come back.
    has_grace: bool,
    /// Cancelled when it does.
    cancelled: CancellationToken,
    /// Cancelled when it is done, or will not be.
    over: CancellationToken,
}

impl Tethers {
    /// None yet, but those that an earlier daemon had. Their hosts may come back.
    pub fn new(supervisor: Supervisor, closing: CancellationToken, tracker: TaskTracker) -> Self {
        let tethers = Self(Arc::new(Inner {
            supervisor,
            tied: Mutex::default(),
            hosts: AtomicU64::new(0),
            tracker,
            closing,
        }));
        for session in tethers.of_earlier_daemons() {
            tethers.tied().entry(session).or_default();
            tethers.begin_end(session, tethers.grace());
        }
        tethers
    }

    /// Ties a session to its host, which is there for as long as the tether is kept.
    ///
    /// # Errors
    /// The file that says so cannot be written.
    pub fn tie(&self, session: SessionId) -> Result<Tether, SupervisorError> {
        let dir = self.0.supervisor.shared.settings.session_dir(session);
        if !is_marked(&dir) {
            mark(&dir, &Mark::default()).map_err(SupervisorError::files(&dir))?;
        }
        let number = self.0.hosts.fetch_add(1, Ordering::Relaxed);
        let mut tied = self.tied();
        let tie = tied.entry(session).or_default();
        tie.hosts.insert(number);
        if let Some(ending) = tie.ending.take() {
            ending.cancelled.cancel();
        }
        Ok(Tether {
            tethers: self.clone(),
            session,
            number,
        })
    }

    /// The last record before the process that was started for this client, if one was: its launch is asked for again then, as
    /// the answer was lost. `Seq::ZERO` for a session that was made for it.
    pub fn launched_after(&self, session: SessionId, client: &ClientId) -> Option<Seq> {
        let dir = self.0.supervisor.shared.settings.session_dir(session);
        let text = std::fs::read(dir.join(FILE)).ok()?;
        let mark: Mark = serde_json::from_slice(&text).ok()?;
        (mark.client.as_ref() == Some(client)).then_some(mark.after)
    }

    /// How long a host that was lost may take to come back.
    fn grace(&self) -> Duration {
        Duration::from_millis(self.0.supervisor.shared.settings.desk.host_grace_ms)
    }

    /// Whether the host of a session was lost a moment ago and may come back.
    pub fn is_waited_for(&self, session: SessionId) -> bool {
        let tied = self.tied();
        let ending = tied.get(&session).and_then(|tie| tie.ending.as_ref());
        ending.is_some_and(|ending| ending.has_grace)
    }

    /// Waits for the end of a session whose last host has said that it does not come back, and of one that stops. One that is
    /// still at work has no end yet.
    ///
    /// # Errors
    /// There is no such session.
    pub async fn wait_for_end(&self, session: SessionId) -> Result<(), SupervisorError> {
        let over = {
            let tied = self.tied();
            let ending = tied.get(&session).and_then(|tie| tie.ending.as_ref());
            ending
                .filter(|ending| !ending.has_grace)
                .map(|ending| ending.over.clone())
        };
        let handle = self.0.supervisor.handle(session).await?;
        if let Some(over) = over {
            // Both branches only look: they are cancel-safe.
            tokio::select! {
                () = over.cancelled() => {}
                seen = handle.seen(has_work) => drop(seen?),
            }
        }
        handle.seen(|view| view.state != SessionState::Stopping).await?;
        Ok(())
    }

    /// A host has gone. The session ends with the last one.
    fn leave(&self, session: SessionId, number: u64, grace: Duration) {
        let is_last = self
            .tied()
            .get_mut(&session)
            .is_some_and(|tie| tie.hosts.remove(&number) && tie.hosts.is_empty());
        if is_last {
            self.begin_end(session, grace);
        }
    }

    /// Ends the session after `grace`, unless a host comes meanwhile.
    fn begin_end(&self, session: SessionId, grace: Duration) {
        let (cancelled, over) = (CancellationToken::new(), CancellationToken::new());
        if let Some(tie) = self.tied().get_mut(&session) {
            tie.ending = Some(Ending {
                has_grace: !grace.is_zero(),
                cancelled: cancelled.clone(),
                over: over.clone(),
            });
        }
        let tethers = self.clone();
        self.0.tracker.spawn(async move {
            let _over = over.drop_guard();
            // An end that was begun is left as it is: a stop goes on by itself.
            tokio::select! {
                () = tethers.end(session, grace) => tethers.untie(session, &cancelled).await,
                () = cancelled.cancelled() => {}
                () = tethers.0.closing.cancelled() => {}
            }
        });
    }

    /// Lets the session live on, whoever goes.
    pub async fn release(&self, session: SessionId) {
        let Some(tie) = self.tied().remove(&session) else {
            return;
        };
        if let Some(ending) = tie.ending {
            ending.cancelled.cancel();
        }
        self.unmark(session).await;
    }

    /// The session has ended, or needs no end.
    async fn untie(&self, session: SessionId, ending: &CancellationToken) {
        {
            let mut tied = self.tied();
            if ending.is_cancelled() {
                // A host has come at the last moment.
                return;
            }
            tied.remove(&session);
        }
        self.unmark(session).await;
    }

    async fn unmark(&self, session: SessionId) {
        if let Err(error) = unmark(&self.0.supervisor.shared.settings.session_dir(session)).await {
            tracing::warn!(session.id = %session, %error, "the file of a tether stays");
        }
    }

    /// Stops the process that the host had. A later one is somebody else's.
    async fn end(&self, session: SessionId, grace: Duration) {
        let stopped = async {
            let handle = self.0.supervisor.handle(session).await?;
            let run = handle.view().run_id;
            if is_over(&handle.view()) {
                return Ok(());
            }
            tokio::time::sleep(grace).await;
            wait_for_rest(&handle).await?;
            let view = handle.view();
            if is_over(&view) || (run.is_some() && view.run_id != run) {
                return Ok(());
            }
            let supervisor = &self.0.supervisor;
            supervisor.stop_with_host(session, HostEnd::Input, BY).await
        };
        match stopped.await {
            Ok(()) | Err(SupervisorError::SessionNotFound(_)) => {}
            Err(error) => {
                let error = telemetry::chain(&error);
                tracing::warn!(session.id = %session, error, "the session of a host that has gone does not stop");
            }
        }
    }

    fn of_earlier_daemons(&self) -> Vec<SessionId> {
        let dir = self.0.supervisor.shared.settings.data_dir.join("sessions");
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let settings = &self.0.supervisor.shared.settings;
        ids.filter(|id| is_marked(&settings.session_dir(*id))).collect()
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
        self.tethers.leave(self.session, self.number, Duration::ZERO);
    }
}

impl Drop for Tether {
    fn drop(&mut self) {
        let grace = self.tethers.grace();
        self.tethers.leave(self.session, self.number, grace);
    }
}

/// The words of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Mark {
    /// The host that the newest process was started for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<ClientId>,
    /// The last record before that process.
    #[serde(default)]
    pub(super) after: Seq,
}

/// Says in the folder of a session that it ends with its host.
pub(super) fn mark(dir: &Path, mark: &Mark) -> io::Result<()> {
    let path = dir.join(FILE);
    files::replace(&path, &path.with_extension("new"), &serde_json::to_vec(mark)?)
}

/// Whether a session ends with its host.
pub(super) fn is_marked(dir: &Path) -> bool {
    dir.join(FILE).exists()
}

/// The session does not end with a host.
pub(super) async fn unmark(dir: &Path) -> io::Result<()> {
    absent(tokio::fs::remove_file(dir.join(FILE)).await)
}

/// Waits until nothing of the session runs any more and nothing is to run, or what runs waits for an answer.
async fn wait_for_rest(session: &SessionHandle) -> Result<(), SupervisorError> {
    // The host's last lines are before these in the session's inbox; the answer to the second comes when the view has shown
    // what became of them.
    for _ in 0..2 {
        session.choices(false).await.ok();
    }
    loop {
        let had_tasks = session.view().background_tasks > 0;
        session.seen(|view| !has_work(view)).await?;
        let more = session.seen(has_work);
        if !had_tasks || tokio::time::timeout(TASK_TURN, more).await.is_err() {
            return Ok(());
        }
    }
}

/// Whether the session has no process, and is to have none.
fn is_over(view: &LiveView) -> bool {
    matches!(view.state, SessionState::Stopped | SessionState::Failed)
}

fn has_work(view: &LiveView) -> bool {
    match view.state {
        SessionState::Stopping | SessionState::Stopped | SessionState::Failed | SessionState::Parked => false,
        // A session that asks its host has no answer at the end of the input: the CLI goes on without one.
        SessionState::Waiting => false,
        SessionState::Busy => view.requests.is_empty(),
        SessionState::Starting => true,
        SessionState::Idle => {
            view.turn.is_some()
                || !view.open_prompts.is_empty()
                || view.background_tasks > 0
                || view.is_input_under_way
        }
    }
}
