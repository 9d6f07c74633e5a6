//! Owns what the supervisor shows: a session as the store and its actor know it, and the health of the whole.

use std::{collections::HashSet, sync::atomic::Ordering, time::Duration};

use crate::{
    domain::{AgentKind, Approval, ApprovalId, RateLimit, SessionId, SessionState, Timestamp},
    metrics::Levels,
    os::{self, ProcessMemory},
    session::{LiveView, Waiting, whole_approval},
    store::{ApprovalFilter, ApprovalRow, Page, PageRequest, SessionRow, StoreError},
    telemetry,
};

use super::{CliFound, CliMissing, Supervisor, SupervisorError, VERSION, WarmHealth};

/// A session: its row, and its state now.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// The session as the store knows it.
    pub row: SessionRow,
    /// The session as it is now.
    pub live: LiveView,
    /// Whether the simulated agent answers.
    pub simulated: bool,
    /// Its place among the starts that wait, from 1; `None` when it does not wait.
    pub start_queue_position: Option<usize>,
}

impl SessionView {
    /// Whether a turn ended that no person has seen.
    pub fn is_unread(&self) -> bool {
        self.row.last_turn_seq > self.row.seen_seq
    }
}

/// The health of the daemon.
#[derive(Clone, Debug)]
pub struct Health {
    /// The CLI that sessions start.
    pub cli: Result<CliFound, CliMissing>,
    /// Whether the store takes writes, or why not.
    pub store: Result<(), StoreError>,
    /// Why the folder of the keepers' sockets cannot be used, if it cannot.
    pub runtime_dir_fault: Option<String>,
    /// Sessions with a process.
    pub live_sessions: usize,
    /// The processes started in advance, by profile.
    pub warm: Vec<WarmHealth>,
    /// Sessions whose rows cannot be read.
    pub unreadable_sessions: Vec<String>,
    /// Sessions that have a process and are not in the database.
    pub unknown_sessions: Vec<SessionId>,
    /// The version of this program.
    pub version: &'static str,
    /// When it was started.
    pub started_at: Timestamp,
}

impl Supervisor {
    /// The health of each part.
    pub async fn health(&self) -> Health {
        let sessions = self.shared.registry.all();
        Health {
            cli: self.shared.cli.look(&self.shared.settings, None, None).await,
            store: self.shared.store.ping().await,
            // As each start does, which would make it again.
            runtime_dir_fault: self
                .shared
                .settings
                .prepare_runtime_dir()
                .err()
                .map(|error| telemetry::chain(&error)),
            live_sessions: sessions.iter().filter(|it| it.view().state.is_live()).count(),
            warm: self.warm_health(),
            unreadable_sessions: self.shared.store.unreadable_sessions(),
            unknown_sessions: self.strangers(),
            version: VERSION,
            started_at: self.shared.started_at,
        }
    }

    /// The processes of a session with their memory, the keeper first; none while it has no process.
    ///
    /// # Errors
    /// `SessionNotFound`, `Store`, `Processes`.
    pub async fn processes(
        &self,
        id: SessionId,
    ) -> Result<(Option<i32>, Vec<ProcessMemory>), SupervisorError> {
        let Some(cli) = self.session(id).await?.live.cli_pid else {
            return Ok((None, Vec::new()));
        };
        let found = tokio::task::spawn_blocking(move || os::processes(cli)).await;
        let found = found.map_err(|_| SupervisorError::ShuttingDown)?;
        Ok((Some(cli), found.map_err(SupervisorError::Processes)?))
    }

    /// The states of all sessions that have had a process under this daemon.
    pub fn states(&self) -> Vec<SessionState> {
        let sessions = self.shared.registry.all();
        sessions.iter().map(|session| session.view().state).collect()
    }

    /// As [`Self::catch_up`], for those who only read: while the store takes nothing, they read what it has.
    pub async fn settled(&self) {
        self.shared.projector.settled().await;
    }

    /// How long the store has refused what the sessions say; `None` while it takes it. A view may be that old meanwhile.
    pub fn store_refuses_for(&self) -> Option<Duration> {
        self.shared.projector.refused_for()
    }

    /// One approval, as the store or the session knows it.
    ///
    /// # Errors
    /// `ApprovalNotFound`, `Store`, `StoreBehind` (it was answered, and the store does not know how).
    pub async fn approval(&self, session: SessionId, id: ApprovalId) -> Result<ApprovalRow, SupervisorError> {
        let open = self.open_approval(session, id);
        self.settled().await;
        let row = self.shared.store.approval(id).await?;
        match (row.filter(|row| row.session == session), open) {
            (Some(row), _) if row.resolution.is_some() => Ok(row),
            (Some(row), Some(_)) => Ok(row),
            (None, Some(open)) => Ok(self.whole(open).await),
            // Its end, and all of it, may be among what the store has not taken.
            (_, None)
                if self.store_refuses_for().is_some() && self.shared.registry.get(session).is_some() =>
            {
                Err(SupervisorError::StoreBehind)
            }
            (Some(row), None) => Ok(row),
            (None, None) => Err(SupervisorError::ApprovalNotFound(id)),
        }
    }

    /// An open approval with all that was asked; with a part of it while the journal cannot be read.
    async fn whole(&self, row: ApprovalRow) -> ApprovalRow {
        let Some(session) = self.shared.registry.get(row.session) else {
            return row;
        };
        let (feed, approval) = (session.feed().clone(), row.approval.clone());
        let whole = tokio::task::spawn_blocking(move || whole_approval(&approval, &feed)).await;
        match whole {
            Ok(Ok(approval)) => ApprovalRow { approval, ..row },
            Ok(Err(_)) | Err(_) => row,
        }
    }

    /// The approvals that match, newest first. While the store takes nothing, those that came since are on the first page.
    ///
    /// # Errors
    /// `Store`.
    pub async fn approvals(
        &self,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> Result<Page<ApprovalRow>, SupervisorError> {
        self.settled().await;
        let is_first = page.is_first();
        let mut rows = self.shared.store.approvals(filter.clone(), page).await?;
        if self.store_refuses_for().is_none() {
            return Ok(rows);
        }
        let mut open: Vec<ApprovalRow> = Vec::new();
        for session in self.shared.registry.all() {
            let (id, view) = (session.id(), session.view());
            // The view says where those that wait begin.
            let waits = |row: &ApprovalRow| {
                view.waiting_approvals
                    .from
                    .is_some_and(|seq| seq <= row.approval.seq)
            };
            let is_open =
                |row: &ApprovalRow| waits(row) || view.approvals.iter().any(|it| it.id == row.approval.id);
            // It was answered, which the store does not know yet.
            rows.items
                .retain(|row| row.session != id || row.resolution.is_some() || is_open(row));
            let approvals = view.approvals.iter();
            open.extend(approvals.map(|approval| pending(id, approval)));
        }
        if is_first {
            let known: HashSet<ApprovalId> = rows.items.iter().map(|row| row.approval.id).collect();
            open.retain(|row| !known.contains(&row.approval.id) && filter.matches(row));
            open.sort_by_key(|row| std::cmp::Reverse(row.approval.requested_at));
            open.append(&mut rows.items);
            rows.items = open;
        }
        Ok(rows)
    }

    /// An approval that is open, as its session knows it.
    pub(super) fn open_approval(&self, session: SessionId, id: ApprovalId) -> Option<ApprovalRow> {
        let view = self.shared.registry.get(session)?.view();
        let approval = view.approvals.iter().find(|approval| approval.id == id)?;
        Some(pending(session, approval))
    }

    /// How things stand now, clients apart. States without a process are of the store, which may not answer; then they are
    /// left out.
    pub async fn levels(&self) -> Levels {
        let stored = match self.shared.store.sessions_by_state().await {
            Ok(stored) => stored,
            Err(error) => {
                let error = telemetry::chain(&error);
                tracing::warn!(error, "the sessions could not be counted");
                Vec::new()
            }
        };
        let mut levels = Levels {
            sessions: stored.into_iter().filter(|(state, _)| !state.is_live()).collect(),
            projections: self.shared.projector.waiting(),
            store_writes: self.shared.store.writes_waiting(),
            store_lag: self.shared.projector.lag(),
            memory_bytes: self.shared.memory_bytes.load(Ordering::Relaxed),
            log_lines_dropped: crate::telemetry::dropped_lines(),
            warm: self.warm_levels(),
            rate_limits: self.rate_limits().await,
            ..Levels::default()
        };
        for session in self.shared.registry.all() {
            let view = session.view();
            if view.state.is_live() {
                levels.sessions.push((view.state, 1));
            }
            levels.processes += u64::from(view.cli_pid.is_some());
            levels.approvals.extend(view.approvals.iter().map(|it| it.kind));
            levels.requests_waiting += (view.waiting_approvals.count + view.waiting_requests) as u64;
        }
        levels
    }

    /// The last words of CLIs about each limit; nothing while the store does not answer.
    async fn rate_limits(&self) -> Vec<RateLimit> {
        let limits = self.shared.store.rate_limits().await.unwrap_or_default();
        limits.into_iter().map(|(_, limit)| limit).collect()
    }

    /// The knowledge of a session's actor now, if it has one.
    pub(super) fn live(&self, id: SessionId) -> Option<LiveView> {
        let handle = self.shared.registry.get(id)?;
        Some(LiveView::clone(&handle.view()))
    }

    /// A session from what the store and its actor know.
    pub(super) fn joined(&self, row: SessionRow, live: Option<LiveView>) -> SessionView {
        let live = live.unwrap_or_else(|| {
            let mut live = resting(&row);
            live.reason = self.shared.registry.why_out_of_reach(row.id).or(live.reason);
            live
        });
        let version = live.cli_version.as_deref().or(row.cli_version.as_deref());
        let simulated = match (row.agent, version) {
            // A program that a person named as the CLI may be the simulated agent, too.
            (_, Some(AgentKind::SIMULATED_VERSION)) => true,
            (Some(kind), _) => kind == AgentKind::Simulated,
            (None, Some(_)) => false,
            // It has not run yet.
            (None, None) => self.shared.cli.falls_back(&self.shared.settings),
        };
        let start_queue_position = match live.state {
            SessionState::Starting => self.shared.admission.queue_position(row.id),
            _ => None,
        };
        SessionView {
            row,
            live,
            simulated,
            start_queue_position,
        }
    }
}

fn pending(session: SessionId, approval: &Approval) -> ApprovalRow {
    ApprovalRow {
        session,
        approval: approval.clone(),
        resolution: None,
    }
}

/// A session that nobody has opened since the start of the daemon: it has no process.
pub(super) fn resting(row: &SessionRow) -> LiveView {
    LiveView {
        state: row.state,
        reason: row
            .state_reason
            .clone()
            .filter(|_| row.state == SessionState::Failed),
        run_id: row.run_id,
        cli_pid: None,
        cli_session_id: Some(row.cli_session_id),
        earlier_session_id: None,
        cli_version: row.cli_version.clone(),
        model: row.model.clone(),
        permission_mode: row.permission_mode.clone(),
        head_seq: row.projected_seq,
        turn: None,
        turns: row.turns,
        open_prompts: Vec::new(),
        approvals: Vec::new(),
        waiting_approvals: Waiting::default(),
        requests: Vec::new(),
        waiting_requests: 0,
        background_tasks: 0,
        activity: None,
        offers: crate::session::Offers::default(),
        unasked_tool: None,
        last_line_at: None,
        restart: None,
        parked: row.parked.filter(|_| row.state == SessionState::Parked),
        unused_since: None,
        is_input_under_way: false,
        is_woken: false,
        silent_since: None,
        is_silent: false,
    }
}
