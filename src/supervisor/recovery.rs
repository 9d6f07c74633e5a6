//! Owns the start of the daemon: every session that may have a process is reconciled with reality before anybody asks.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    domain::{Clock, FailReason, SessionId},
    files,
    journal::is_locked,
    keeper::{self, AttachError, Identity, KeeperEvent, Link, StopRequest, Swept},
    os,
    session::{SessionError, SessionHandle},
    store::{SESSION_FILE, SessionRow},
    telemetry,
};

use super::{Supervisor, SupervisorError, registry::ATTACHED_AT_A_TIME};

/// How long a keeper that cannot be attached to may hold its journal: it may have died just now, or be about to start.
const KEEPER_PATIENCE: Duration = Duration::from_secs(1);
/// How long it may go on once its process was killed; a disk that is slow needs some.
const ENDING_PATIENCE: Duration = Duration::from_secs(5);
/// How long a keeper that did not answer may take to end once it was told to.
const SILENT_PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries to attach to one that does not answer.
const SILENT_PAUSE: Duration = Duration::from_millis(500);
/// File descriptors that are left for requests, the store, and stops, when keepers are attached to.
const RESERVED_FILES: u64 = 32;
/// Those of a session that is attached to, while that is done.
const FILES_PER_SESSION: u64 = 6;
/// With fewer than that, sessions are opened one after the other, so that each sees what the ones before have taken.
const PLENTY_OF_FILES: u64 = 1024;
/// Between two looks at its lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The result of a recovery.
#[derive(Debug, Default)]
struct Recovered {
    attached: usize,
    without_process: usize,
    unreadable: usize,
}

type Recoveries = tokio::task::JoinSet<(SessionRow, Result<Option<SessionHandle>, SupervisorError>)>;

/// The state of a session's keeper.
enum Reached {
    Attached(Box<Link>),
    /// There is none: nobody writes the journal any more.
    Free,
    /// It holds the journal, and nobody can tell how to talk to it.
    Lost,
}

/// The fate of a keeper that holds a journal and that nobody can talk to.
#[derive(Clone, Copy)]
enum Unreachable {
    IsEnded,
    /// It is dealt with later.
    IsLeft,
}

impl Supervisor {
    pub(super) async fn recover(&self) -> Result<(), SupervisorError> {
        let began = Instant::now();
        if let Err(error) = keeper::remove_free_leases(&self.shared.settings.data_dir.join("leases")) {
            tracing::warn!(%error, "leases that nobody holds were not removed");
        }
        self.end_deletions().await;
        let known = self.shared.store.examine_sessions().await?;
        for (conversation, session) in self.shared.store.conversations().await? {
            self.shared.registry.conversations().claim(conversation, session);
        }
        let mut rows = self.shared.store.unsettled_sessions().await?;
        for id in self.session_folders()? {
            let dir = self.shared.settings.session_dir(id);
            if !known.contains(&id) {
                self.disown(id, &dir).await;
                continue;
            }
            if let Some(keeper) = Identity::of_the_original(&self.shared.settings.identity_file(id)) {
                let pid = keeper.pid;
                tracing::warn!(session.id = %id, keeper.pid = pid, "this data directory is a copy: the process of a session is the original's, and is left alone");
            }
            // A process may have been started whose first record no daemon has read.
            if !files::is_missing(&self.shared.settings.identity_file(id))
                && rows.iter().all(|row| row.id != id)
            {
                match self.shared.store.session(id).await {
                    Ok(row) => rows.extend(row),
                    // It has been named, and its process is left to who deletes it.
                    Err(error) if error.blames_the_data() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let (queued, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| self.is_queued(row));
        let mut recovered = Recovered::default();
        let lost = self.open_all(rows, Unreachable::IsLeft, &mut recovered).await;
        // Before anything is started: what carries our mark now and has no keeper has lost it. Keepers that nobody can reach end
        // with their processes.
        self.kill_strays().await;
        self.open_all(lost, Unreachable::IsEnded, &mut recovered).await;
        self.start_queued(queued).await;
        self.catch_up().await?;
        let Recovered {
            attached,
            without_process,
            unreadable,
        } = recovered;
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            attached,
            without_process,
            unreadable,
            duration_ms,
            "sessions recovered"
        );
        Ok(())
    }

    /// Opens these sessions, so many at a time. Gives those whose keepers are to be ended, if they are left for now.
    async fn open_all(
        &self,
        rows: Vec<SessionRow>,
        unreachable: Unreachable,
        recovered: &mut Recovered,
    ) -> Vec<SessionRow> {
        let mut recoveries = tokio::task::JoinSet::new();
        let mut left = Vec::new();
        let needed = u64::try_from(rows.len())
            .unwrap_or(u64::MAX)
            .saturating_mul(FILES_PER_SESSION);
        let one_by_one = os::spare_files() < needed.saturating_add(RESERVED_FILES);
        let at_a_time = if one_by_one { 1 } else { ATTACHED_AT_A_TIME };
        for row in rows {
            if recoveries.len() >= at_a_time {
                self.count(&mut recoveries, &mut left, recovered).await;
            }
            let supervisor = self.clone();
            recoveries.spawn(async move {
                let opened = supervisor.open_with(&row, unreachable).await;
                (row, opened)
            });
        }
        while !recoveries.is_empty() {
            self.count(&mut recoveries, &mut left, recovered).await;
        }
        left
    }

    /// Waits for one of the recoveries that are under way.
    async fn count(
        &self,
        recoveries: &mut Recoveries,
        left: &mut Vec<SessionRow>,
        recovered: &mut Recovered,
    ) {
        match recoveries.join_next().await {
            None => {}
            Some(Ok((_, Ok(Some(session))))) if session.view().cli_pid.is_some() => recovered.attached += 1,
            Some(Ok((_, Ok(Some(_))))) => recovered.without_process += 1,
            Some(Ok((row, Ok(None)))) => left.push(row),
            Some(Ok((row, Err(error)))) => {
                recovered.unreadable += 1;
                self.give_up(&row, &error).await;
            }
            Some(Err(error)) => tracing::error!(%error, "a recovery did not finish"),
        }
    }

    /// Opens a session of an earlier time, together with its process if that lives.
    pub(super) async fn open_known(&self, row: &SessionRow) -> Result<SessionHandle, SupervisorError> {
        let opened = self.open_with(row, Unreachable::IsEnded).await?;
        opened.ok_or(SupervisorError::SessionNotFound(row.id))
    }

    /// As [`Self::open_known`]; `None` when its keeper is to be ended and is left for now.
    async fn open_with(
        &self,
        row: &SessionRow,
        unreachable: Unreachable,
    ) -> Result<Option<SessionHandle>, SupervisorError> {
        let link = match (self.reach_keeper(row.id).await?, unreachable) {
            (Reached::Attached(link), _) => Some(*link),
            (Reached::Free, _) => None,
            (Reached::Lost, Unreachable::IsLeft) => return Ok(None),
            (Reached::Lost, Unreachable::IsEnded) => {
                let settings = &self.shared.settings;
                self.end_keeper(
                    row.id,
                    &settings.identity_file(row.id),
                    &settings.session_dir(row.id),
                )
                .await;
                None
            }
        };
        let attached = link.is_some();
        let handle = self.open(row, link, false).await?;
        let state = handle.view().state.as_str();
        self.shared.registry.insert(handle.clone());
        tracing::debug!(session.id = %row.id, attached, state, "session opened");
        Ok(Some(handle))
    }

    /// The newest version of the link that each living keeper speaks.
    ///
    /// # Errors
    /// `Files`: the keepers cannot be looked for.
    pub fn keeper_versions(&self) -> Result<Vec<u32>, SupervisorError> {
        let keepers = self
            .session_folders()?
            .into_iter()
            .filter_map(|id| self.keeper_of(id));
        Ok(keepers.map(|keeper| keeper.protocol).collect())
    }

    /// The keeper of a session, if it may live and says how to reach it.
    pub(super) fn keeper_of(&self, id: SessionId) -> Option<Identity> {
        let identity = Identity::read(&self.shared.settings.identity_file(id)).ok()??;
        identity.may_live().then_some(identity)
    }

    /// The handle of a session that is to be stopped. A keeper that cannot be talked to is ended first, by the signal that
    /// every version understands: it stops its process as ever. One that does not answer gets little time for it.
    pub(super) async fn handle_to_stop(&self, id: SessionId) -> Result<SessionHandle, SupervisorError> {
        let error = match self.handle(id).await {
            Err(
                error @ (SupervisorError::KeeperIncompatible { .. }
                | SupervisorError::KeeperUnresponsive { .. }),
            ) => error,
            handle => return handle,
        };
        let is_silent = matches!(error, SupervisorError::KeeperUnresponsive { .. });
        if let Some(keeper) = self.keeper_of(id) {
            tracing::info!(session.id = %id, reason = %error, "the keeper is asked to end");
            let deadline = if is_silent {
                keeper.wake();
                SILENT_PATIENCE
            } else {
                self.shared.settings.stop_deadline()
            };
            if !keeper.end(deadline).await {
                if !is_silent {
                    return Err(SessionError::StopTimedOut.into());
                }
                let settings = &self.shared.settings;
                self.end_keeper(id, &settings.identity_file(id), &settings.session_dir(id))
                    .await;
                if keeper.may_live() {
                    return Err(SessionError::StopTimedOut.into());
                }
            }
        }
        self.shared.registry.forget_out_of_reach(id);
        self.handle(id).await
    }

    /// Goes on with a session whose keeper does not answer, once that does, or is gone.
    fn open_once_it_answers(&self, id: SessionId) {
        let supervisor = self.clone();
        let run = async move {
            loop {
                tokio::time::sleep(SILENT_PAUSE).await;
                let _one_by_one = if os::spare_files() < PLENTY_OF_FILES {
                    Some(supervisor.shared.registry.one_by_one().await)
                } else {
                    None
                };
                let _turn = supervisor.shared.registry.retry().await;
                let _exclusive = supervisor.shared.registry.exclusive(id).await;
                if supervisor.refuse_when_unresponsive(id).is_ok() {
                    // Somebody stopped it.
                    return;
                }
                let opened = async { supervisor.open_known(&supervisor.row(id).await?).await };
                match opened.await {
                    Err(SupervisorError::KeeperUnresponsive { .. } | SupervisorError::Store(_)) => {}
                    // It has answered, and is out of reach for another reason, which the session says.
                    Err(SupervisorError::KeeperIncompatible { .. }) => return,
                    Ok(session) => {
                        let state = session.view().state.as_str();
                        tracing::info!(session.id = %id, state, "a session whose keeper did not answer goes on");
                        return;
                    }
                    Err(error) => {
                        let error = telemetry::chain(&error);
                        tracing::error!(session.id = %id, error, "a session whose keeper did not answer cannot be opened");
                        // The next caller that asks for it finds out anew.
                        supervisor.shared.registry.forget_out_of_reach(id);
                        return;
                    }
                }
            }
        };
        let closing = self.shared.closing.clone();
        self.shared.tracker.spawn(closing.run_until_cancelled_owned(run));
    }

    pub(super) fn refuse_when_unresponsive(&self, id: SessionId) -> Result<(), SupervisorError> {
        match self.shared.registry.why_out_of_reach(id) {
            Some(reason) if reason.code == FailReason::KEEPER_UNRESPONSIVE => {
                Err(SupervisorError::KeeperUnresponsive {
                    detail: reason.detail,
                })
            }
            _ => Ok(()),
        }
    }

    /// Attaches to the keeper of a session, if there is one.
    async fn reach_keeper(&self, id: SessionId) -> Result<Reached, SupervisorError> {
        let identity = self.shared.settings.identity_file(id);
        let dir = self.shared.settings.session_dir(id);
        let mut until = None;
        let error = loop {
            let attached = if os::spare_files() < RESERVED_FILES {
                Err(AttachError::Unclear(std::io::Error::from(
                    nix::errno::Errno::EMFILE,
                )))
            } else {
                keeper::attach(&identity, &self.shared.tracker).await
            };
            let error = match attached {
                Ok(link) => return Ok(Reached::Attached(Box::new(link))),
                Err(error) => error,
            };
            match is_locked(&dir) {
                Ok(false) => {
                    if !matches!(
                        error,
                        AttachError::NoIdentity | AttachError::ProcessGone | AttachError::Unclear(_)
                    ) {
                        let error = telemetry::chain(&error);
                        tracing::warn!(session.id = %id, error, "what a keeper said of itself is of no use, and it is gone");
                    }
                    return Ok(Reached::Free);
                }
                Ok(true) => {}
                // Nobody can tell, so it may live.
                Err(_) if error.may_live() => {}
                Err(lock) => break AttachError::Unclear(lock),
            }
            // The patience begins with the first failure: a try follows it, however little time this daemon gets.
            let now = Instant::now();
            if error.may_live() || now >= *until.get_or_insert(now + KEEPER_PATIENCE) {
                break error;
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        };
        // It lives, and is left alone: whoever speaks its language can have it.
        if let AttachError::VersionMismatch { program, theirs } = error {
            let error = SupervisorError::KeeperIncompatible { program, theirs };
            let reason = FailReason {
                code: FailReason::KEEPER_INCOMPATIBLE.to_owned(),
                detail: error.to_string(),
            };
            self.shared.registry.set_out_of_reach(id, reason);
            return Err(error);
        }
        // So does this one: it was stopped, or the machine has no time for it. Or else it may: this daemon could not look.
        if error.may_live() {
            let detail = match error {
                AttachError::Unclear(_) | AttachError::Foreign { .. } | AttachError::OtherRun { .. } => {
                    telemetry::chain(&error)
                }
                _ => "the keeper of the session's process lives and does not answer".to_owned(),
            };
            let reason = FailReason {
                code: FailReason::KEEPER_UNRESPONSIVE.to_owned(),
                detail: detail.clone(),
            };
            if self.shared.registry.set_out_of_reach(id, reason) {
                tracing::warn!(session.id = %id, reason = detail, "the keeper of a session does not answer; it is waited for");
                self.open_once_it_answers(id);
            }
            return Err(SupervisorError::KeeperUnresponsive { detail });
        }
        let error = telemetry::chain(&error);
        tracing::error!(session.id = %id, error, "the keeper of a session could not be attached to");
        Ok(Reached::Lost)
    }

    /// Ends a keeper that lives and cannot be reached: by the end of its processes, else by its own.
    pub(super) async fn end_keeper(&self, id: SessionId, identity: &Path, dir: &Path) {
        self.kill_strays_of(id).await;
        if is_free_within(dir, ENDING_PATIENCE).await {
            return;
        }
        let (identity, lock) = (identity.to_owned(), crate::journal::lock_file(dir));
        let killed = self
            .blocking(move || Ok(keeper::kill_lock_holder(&identity, &lock)))
            .await;
        if killed.is_some_and(|killed| killed) && is_free_within(dir, ENDING_PATIENCE).await {
            tracing::warn!(session.id = %id, "a keeper that could not be reached was killed");
        }
    }

    /// Kills what is left of the processes of one session.
    pub(super) async fn kill_strays_of(&self, id: SessionId) {
        let mark = self.shared.data_mark.clone();
        let swept = self
            .blocking(move || keeper::kill_strays(&mark, |session, _| session != id))
            .await;
        self.report(swept);
    }

    /// Kills what carries the mark of this data directory and belongs to no keeper that lives.
    async fn kill_strays(&self) {
        let (mark, settings) = (self.shared.data_mark.clone(), self.shared.settings.clone());
        let sweep = Arc::clone(self.shared.registry.start_sweep());
        let strangers = Arc::clone(&self.shared.strangers);
        let swept = self
            .blocking(move || {
                sweep.run(&mark, |session, run| {
                    if strangers.has(session) {
                        return true;
                    }
                    match Identity::read(&settings.identity_file(session)) {
                        Ok(keeper) => keeper.is_some_and(|keeper| keeper.run == run && keeper.may_live()),
                        // It cannot be told who keeps it, so somebody may.
                        Err(error) => files::is_inconclusive(&error),
                    }
                })
            })
            .await;
        self.report(swept);
    }

    fn report(&self, swept: Option<Swept>) {
        let Some(swept) = swept else { return };
        self.shared.metrics.sessions().strays_killed(swept.killed);
        for session in &swept.sessions {
            tracing::warn!(session.id = %session, "processes of an ended run were found and killed");
        }
        if swept.killed > 0 {
            tracing::warn!(killed = swept.killed, "processes without a keeper were killed");
        }
        if swept.left > 0 {
            tracing::error!(left = swept.left, "processes without a keeper cannot be killed");
        }
    }

    /// Work that reads all of `/proc`; `None` when it fails, which is logged, or when the daemon ends.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
    ) -> Option<T> {
        match self.shared.tracker.spawn_blocking(work).await {
            Ok(Ok(done)) => Some(done),
            Ok(Err(error)) => {
                tracing::error!(%error, "processes could not be looked for");
                None
            }
            Err(_) => None,
        }
    }

    /// Deals with a folder that belongs to no session. Records are kept, whatever they are of, and so is a process, unless it was
    /// started in advance: the database may be the wrong one.
    async fn disown(&self, id: SessionId, dir: &Path) {
        let queued = self.shared.settings.queued_file(id);
        let file = dir.join(SESSION_FILE);
        let of_a_start = [
            queued.with_extension("new"),
            queued,
            file.with_extension("new"),
            file,
        ];
        if holds_at_most(dir, &of_a_start) {
            // A daemon died before it had made the session, and told nobody of it. No other folder is ever removed here.
            for file in of_a_start {
                let _ = std::fs::remove_file(file);
            }
            let _ = std::fs::remove_dir(dir);
            tracing::info!(session.id = %id, "a session whose creation was cut off was taken away; nobody had been told of it");
            return;
        }
        if files::is_missing(&self.shared.settings.warm_file(id)) {
            let has_process = self.has_keeper(id);
            if has_process {
                self.shared.strangers.note(id);
            }
            tracing::warn!(session.id = %id, folder = %dir.display(), has_process, "a folder belongs to no session of the database; it is left alone");
            return;
        }
        let identity = self.shared.settings.identity_file(id);
        let deadline = self.shared.settings.stop_deadline();
        let is_ended = match keeper::attach(&identity, &self.shared.tracker).await {
            Ok(mut link) => {
                let ended = async {
                    let _ = link.handle.stop(StopRequest::default()).await;
                    while !matches!(link.events.recv().await, Some(KeeperEvent::Gone) | None) {}
                };
                tokio::time::timeout(deadline, ended).await.is_ok()
            }
            // It lives, and the sweep would spare what it keeps.
            Err(error) if error.may_live() => match self.keeper_of(id) {
                Some(keeper) => keeper.end(deadline).await,
                None => return,
            },
            // Its leftovers, if any, are swept with the rest.
            Err(_) => return,
        };
        tracing::warn!(session.id = %id, is_ended, "a process that an earlier daemon had started in advance was stopped");
    }

    /// Whether a session that no daemon opens has a keeper, as far as can be told.
    fn has_keeper(&self, id: SessionId) -> bool {
        self.keeper_of(id).is_some() || is_locked(&self.shared.settings.session_dir(id)).unwrap_or(true)
    }

    /// The sessions that have a process and are not in the database.
    pub(super) fn strangers(&self) -> Vec<SessionId> {
        let mut strangers = self.shared.strangers.all();
        strangers.retain(|id| self.has_keeper(*id));
        strangers
    }

    /// A session that cannot be opened has no process and no way to one: it is shown as failed, and can be opened again once
    /// the cause is gone.
    async fn give_up(&self, row: &SessionRow, error: &SupervisorError) {
        if matches!(error, SupervisorError::KeeperUnresponsive { .. }) {
            return;
        }
        let detail = telemetry::chain(error);
        tracing::error!(session.id = %row.id, error = detail, "a session could not be recovered");
        if is_inconclusive(error) {
            // Nothing is known of it: who asks for it opens it anew.
            return;
        }
        let identity = Identity::read(&self.shared.settings.identity_file(row.id));
        if matches!(identity, Ok(Some(keeper)) if keeper.may_live()) {
            return;
        }
        let reason = FailReason {
            code: "journal_unreadable".to_owned(),
            detail,
        };
        if let Err(error) = self.shared.store.mark_failed(row.id, reason, Clock.now()).await {
            let error = telemetry::chain(&error);
            tracing::error!(session.id = %row.id, error, "the state of a session could not be stored");
        }
    }

    fn session_folders(&self) -> Result<Vec<SessionId>, SupervisorError> {
        let sessions = self.shared.settings.data_dir.join("sessions");
        let id_of = |folder: std::io::Result<std::fs::DirEntry>| {
            folder.map(|folder| folder.file_name().to_str().and_then(|name| name.parse().ok()))
        };
        let list = || {
            std::fs::read_dir(&sessions)?
                .filter_map(|folder| id_of(folder).transpose())
                .collect()
        };
        match list() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(SupervisorError::files(&sessions)),
        }
    }
}

async fn is_free_within(dir: &Path, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while is_locked(dir).unwrap_or(true) {
        if Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
    true
}

/// Whether something failed only because it could not be looked at.
fn is_inconclusive(error: &SupervisorError) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(files::is_inconclusive)
}

fn holds_at_most(dir: &Path, files: &[PathBuf]) -> bool {
    let is_one =
        |entry: std::io::Result<std::fs::DirEntry>| entry.is_ok_and(|entry| files.contains(&entry.path()));
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.all(is_one))
}
