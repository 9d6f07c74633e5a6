//! Owns the processes that are started in advance: what they are started for, who gets them, and what becomes of them.
//!
//! Such a process is a whole session, with its id, journal, keeper and actor, that neither the store nor the registry knows
//! until somebody asks for one like it. So no list and no route can show it. A file in `warm/` says so to the next daemon.

mod claim;
mod key;
mod pool;
mod refill;
mod surroundings;

use std::{collections::HashMap, path::Path, time::Duration};

use crate::{
    admission::Admitted,
    claude::LaunchOptions,
    domain::{CliSessionId, Clock, FailReason, SessionId, SessionState},
    files, keeper,
    metrics::{WarmEnd, WarmLevel},
    session::{SessionError, SessionHandle},
    store::{NewSession, SessionRow},
    telemetry,
};

use super::{Supervisor, SupervisorError, removal::absent};
pub(super) use pool::Pool;
use pool::{Discarding, WarmProcess};

/// The stopper of these processes, in their journals.
const BY: &str = "daemon";
/// How long a start waits for those that an earlier daemon left, all together.
const CLEAR_DEADLINE: Duration = Duration::from_secs(10);

/// The processes to start in advance; none by default.
#[derive(Clone, Debug, Default)]
pub struct WarmSettings {
    /// For what, and how many.
    pub profiles: Vec<WarmProfile>,
    /// How old a process may get before another takes its place; 0 = as old as it likes.
    pub max_age_ms: u64,
}

/// Sessions that somebody will ask for.
#[derive(Clone, Debug)]
pub struct WarmProfile {
    /// Its name.
    pub name: String,
    /// The directory that they work in: an absolute path.
    pub cwd: String,
    /// The options that they are made with.
    pub options: LaunchOptions,
    /// How many processes wait.
    pub count: usize,
}

/// How a profile stands.
#[derive(Clone, Debug)]
pub struct WarmHealth {
    /// Its name.
    pub profile: String,
    /// How many processes are to wait.
    pub wanted: usize,
    /// How many do.
    pub ready: usize,
    /// How many are being started.
    pub starting: usize,
    /// Why the last one was of no use; `None` once another is ready.
    pub failure: Option<FailReason>,
}

impl WarmSettings {
    fn max_age(&self) -> Duration {
        match self.max_age_ms {
            0 => Duration::MAX,
            ms => Duration::from_millis(ms),
        }
    }
}

impl Supervisor {
    /// How the profiles stand.
    pub(super) fn warm_health(&self) -> Vec<WarmHealth> {
        let profiles = self.shared.settings.warm.profiles.iter().enumerate();
        profiles
            .map(|(number, profile)| {
                let stock = self.shared.warm.stock(number);
                WarmHealth {
                    profile: profile.name.clone(),
                    wanted: profile.count,
                    ready: stock.ready,
                    starting: stock.starting,
                    failure: stock.failure,
                }
            })
            .collect()
    }

    pub(super) fn warm_levels(&self) -> Vec<WarmLevel> {
        let healths = self.warm_health().into_iter();
        healths
            .map(|health| WarmLevel {
                profile: health.profile,
                wanted: health.wanted,
                ready: health.ready,
                starting: health.starting,
                is_failing: health.failure.is_some(),
            })
            .collect()
    }

    /// A place and a turn for a process that somebody asked for. A process that was started in advance never stands in
    /// its way.
    pub(super) async fn admit_before_spares(
        &self,
        id: SessionId,
        cwd: &Path,
    ) -> Result<Admitted, SupervisorError> {
        let pool = &self.shared.warm;
        let _pause = pool.pause_refill();
        loop {
            let mut left = pool.left();
            match self.shared.admission.admit(id, cwd) {
                Ok(admitted) => {
                    if !admitted.permit.is_granted()
                        && let Some(process) = pool.make_way()
                    {
                        self.discard_soon(process, WarmEnd::Room);
                    }
                    return Ok(admitted);
                }
                Err(refusal) => {
                    if let Some(process) = pool.make_room(refusal, cwd) {
                        self.discard_whole(process).await?;
                    } else if pool.is_leaving(refusal, cwd) {
                        // The other end is the pool's own.
                        left.changed().await.ok();
                    } else {
                        return Err(refusal.into());
                    }
                }
            }
        }
    }

    /// Stops processes that nobody has asked for until so much memory is free; gives how much is still lacking.
    pub(super) async fn save_memory(&self, mut excess: u64, bytes_of: &HashMap<SessionId, u64>) -> u64 {
        while excess > 0
            && let Some(process) = self.shared.warm.give_up_for_memory()
        {
            let bytes = bytes_of.get(&process.process.session.id());
            excess = excess.saturating_sub(bytes.copied().unwrap_or_default());
            if self.discard_whole(process).await.is_err() {
                break;
            }
        }
        excess
    }

    /// Waits until a process that is in the way has left. It leaves also when nobody waits any more.
    async fn discard_whole(&self, process: Discarding) -> Result<(), SupervisorError> {
        let supervisor = self.clone();
        self.run_uncancelled(async move {
            supervisor.discard(process, WarmEnd::Room).await;
            Ok(())
        })
        .await
    }

    /// Stops them all; none is started from now on. Says whether all are gone, those that others have begun to stop included.
    pub(super) async fn close_warm(&self) -> bool {
        let pool = &self.shared.warm;
        let mut left = pool.left();
        for process in pool.close() {
            self.discard_soon(process, WarmEnd::Shutdown);
        }
        // One that was about to become a session may come back.
        self.shared.starts.wait().await;
        while pool.is_anything_leaving() {
            // The other end is the pool's own.
            left.changed().await.ok();
        }
        !pool.has_leftover()
    }

    /// Removes what an earlier daemon started in advance and nobody has asked for: who made it is gone, and so may be the
    /// reason why.
    pub(super) async fn clear_warm(&self) -> Result<(), SupervisorError> {
        let mut ends = Vec::new();
        for (id, cli_session) in self.left_behind() {
            if self.shared.store.has_session(id).await? {
                // It had become a session.
                self.forget_warm(id).await;
                continue;
            }
            let (supervisor, closing) = (self.clone(), self.shared.closing.clone());
            // The one that takes longer than the start waits is still cleared away.
            ends.push(self.shared.tracker.spawn(async move {
                let clear = supervisor.clear(id, cli_session);
                closing.run_until_cancelled(clear).await;
            }));
        }
        let all = async {
            for end in ends {
                end.await.ok();
            }
        };
        if tokio::time::timeout(CLEAR_DEADLINE, all).await.is_err() {
            tracing::warn!("processes that were started in advance by an earlier daemon take long to end");
        }
        Ok(())
    }

    async fn clear(&self, id: SessionId, cli_session: CliSessionId) {
        let cleared = async {
            let row = spare_row(&spare_session(id, cli_session, String::new(), "{}".to_owned()));
            if !files::is_missing(&self.shared.settings.session_dir(id)) {
                let identity = self.shared.settings.identity_file(id);
                // If it can't be attached to, opening the journal finds that out.
                let link = keeper::attach(&identity, &self.shared.tracker).await.ok();
                match self.open_as(&row, link, false, true).await {
                    Ok(session) => self.end(&session).await?,
                    // It came no further than its folder.
                    Err(SupervisorError::Session(SessionError::Journal(_))) => {}
                    Err(error) => return Err(error),
                }
            }
            self.remove_warm(id, cli_session).await
        };
        match cleared.await {
            Ok(()) => {
                tracing::debug!(session.id = %id, "a process of an earlier daemon that nobody had asked for is gone")
            }
            Err(error) => {
                let error = telemetry::chain(&error);
                tracing::error!(session.id = %id, error, "a process of an earlier daemon that nobody had asked for is still there");
            }
        }
    }

    /// The processes that earlier daemons started in advance and did not remove.
    fn left_behind(&self) -> Vec<(SessionId, CliSessionId)> {
        let Ok(files) = std::fs::read_dir(self.shared.settings.data_dir.join("warm")) else {
            return Vec::new();
        };
        files
            .filter_map(|file| {
                let path = file.ok()?.path();
                let id = path.file_name()?.to_str()?.parse().ok()?;
                // A file that the daemon died over is empty: its session has no lease yet. Any other unreadable file goes
                // too.
                let text = files::read(&path).unwrap_or_default();
                let known = std::str::from_utf8(&text)
                    .ok()
                    .and_then(|text| text.trim().parse().ok());
                Some((id, known.unwrap_or_else(CliSessionId::new)))
            })
            .collect()
    }

    fn discard_soon(&self, process: Discarding, end: WarmEnd) {
        let supervisor = self.clone();
        self.shared
            .tracker
            .spawn(async move { supervisor.discard(process, end).await });
    }

    /// Stops a process that nobody has asked for, and removes all that is there of it.
    async fn discard(&self, discarding: Discarding, end: WarmEnd) {
        let WarmProcess {
            session,
            cli_session,
            profile,
            ..
        } = &discarding.process;
        let id = session.id();
        if let Some(profile) = self.shared.settings.warm.profiles.get(*profile) {
            self.shared.metrics.warm().ended(&profile.name, end);
        }
        let gone = async {
            self.end(session).await?;
            self.remove_warm(id, *cli_session).await
        };
        match gone.await {
            Ok(()) => tracing::debug!(session.id = %id, ?end, "a process that nobody had asked for is gone"),
            Err(error) => {
                // The next daemon tries again.
                let error = telemetry::chain(&error);
                tracing::error!(session.id = %id, error, "a process that nobody had asked for did not go");
                self.shared.warm.mark_leftover();
                session.close().await;
            }
        }
    }

    async fn end(&self, session: &SessionHandle) -> Result<(), SupervisorError> {
        let deadline = self.shared.settings.stop_deadline();
        session.stop(BY, deadline).await?;
        match session.retire().await {
            // Its start was on its way, and came in between. There is no other.
            Err(SessionError::AlreadyLive { .. }) => {
                session.stop(BY, deadline).await?;
                Ok(session.retire().await?)
            }
            retired => Ok(retired?),
        }
    }

    async fn remove_warm(&self, id: SessionId, cli_session: CliSessionId) -> Result<(), SupervisorError> {
        let settings = &self.shared.settings;
        let dir = settings.session_dir(id);
        absent(tokio::fs::remove_dir_all(&dir).await).map_err(SupervisorError::files(&dir))?;
        let lease = settings.lease_file(cli_session);
        absent(tokio::fs::remove_file(&lease).await).map_err(SupervisorError::files(&lease))?;
        let socket = settings.socket(&self.shared.data_mark, id);
        absent(tokio::fs::remove_file(&socket).await).map_err(SupervisorError::files(&socket))?;
        // Last: as long as it is there, the next daemon looks after the rest.
        self.forget_warm(id).await;
        Ok(())
    }

    async fn forget_warm(&self, id: SessionId) {
        let file = self.shared.settings.warm_file(id);
        if let Err(error) = absent(tokio::fs::remove_file(&file).await) {
            tracing::warn!(session.id = %id, %error, "the mark of a process that was started in advance stays");
        }
    }
}

/// The session that a process is started as.
pub(super) fn spare_session(
    id: SessionId,
    cli_session: CliSessionId,
    cwd: String,
    options: String,
) -> NewSession {
    NewSession {
        id,
        cwd,
        title: None,
        tag: None,
        labels: Default::default(),
        options,
        rules: Vec::new(),
        restart: None,
        parent: None,
        forked_from: None,
        forked_at: None,
        agent: None,
        cli_session_id: cli_session,
        created_at: Clock.now(),
        state: SessionState::Starting,
    }
}

/// The row that the store would have of a session that it does not know yet.
pub(super) fn spare_row(new: &NewSession) -> SessionRow {
    SessionRow {
        parked: None,
        id: new.id,
        cwd: new.cwd.clone(),
        title: None,
        tag: None,
        labels: Default::default(),
        options: new.options.clone(),
        restart: new.restart.clone(),
        parent: None,
        untold: false,
        fork_of: None,
        forked_from: None,
        forked_at: None,
        agent: new.agent,
        state: new.state,
        state_reason: None,
        cli_session_id: new.cli_session_id,
        run_id: None,
        run_seq: crate::domain::Seq::ZERO,
        cli_version: None,
        model: None,
        permission_mode: None,
        created_at: new.created_at,
        updated_at: new.created_at,
        projected_seq: crate::domain::Seq::ZERO,
        turns: 0,
        cost_usd: Default::default(),
        turns_with_unknown_cost: 0,
        usage: Default::default(),
        first_prompt: None,
        last_prompt: None,
        last_line: None,
        last_turn_seq: crate::domain::Seq::ZERO,
        seen_seq: crate::domain::Seq::ZERO,
        queued_prompts: 0,
        put_off: None,
        started_options: None,
        mode_of_options: false,
        resume_at: None,
        revision: 0,
        rate_limits: Vec::new(),
    }
}
