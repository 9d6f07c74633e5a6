//! Owns what the supervisor shows: a session as the store and its actor know it, and the health of the whole.

use std::sync::atomic::Ordering;

use crate::{
    domain::{SessionId, SessionState, Timestamp},
    metrics::Levels,
    session::LiveView,
    store::SessionRow,
};

use super::{CliFound, CliMissing, Supervisor, VERSION, WarmHealth};

/// A session: its row, and its state now.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// What the store knows.
    pub row: SessionRow,
    /// What is so now.
    pub live: LiveView,
    /// Whether the simulated agent answers.
    pub simulated: bool,
    /// Its place among the starts that wait, from 1; `None` when it does not wait.
    pub start_queue_position: Option<usize>,
}

/// The health of the daemon.
#[derive(Clone, Debug)]
pub struct Health {
    /// The CLI that sessions start.
    pub cli: Result<CliFound, CliMissing>,
    /// Whether the store takes writes.
    pub store_writable: bool,
    /// Sessions with a process.
    pub live_sessions: usize,
    /// What is started in advance, by profile.
    pub warm: Vec<WarmHealth>,
    /// Sessions whose rows cannot be read.
    pub unreadable_sessions: Vec<String>,
    /// The version of this program.
    pub version: &'static str,
    /// When it was started.
    pub started_at: Timestamp,
}

impl Supervisor {
    /// What works and what does not.
    pub async fn health(&self) -> Health {
        let sessions = self.shared.registry.all();
        Health {
            cli: self.shared.cli.look(&self.shared.settings).await,
            store_writable: self.shared.store.ping().await.is_ok(),
            live_sessions: sessions.iter().filter(|it| it.view().state.is_live()).count(),
            warm: self.warm_health(),
            unreadable_sessions: self.shared.store.unreadable_sessions(),
            version: VERSION,
            started_at: self.shared.started_at,
        }
    }

    /// How things stand now, clients apart. States without a process are of the store, which may not answer; then they are
    /// left out.
    pub async fn levels(&self) -> Levels {
        let stored = match self.shared.store.sessions_by_state().await {
            Ok(stored) => stored,
            Err(error) => {
                let error = crate::telemetry::chain(&error);
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
            warm: self.warm_levels(),
            ..Levels::default()
        };
        for session in self.shared.registry.all() {
            let view = session.view();
            if view.state.is_live() {
                levels.sessions.push((view.state, 1));
            }
            levels.processes += u64::from(view.cli_pid.is_some());
            levels.approvals.extend(view.approvals.iter().map(|it| it.kind));
        }
        levels
    }

    /// What the actor of a session knows now, if it has one.
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
        let simulated = match live.cli_version.as_deref().or(row.cli_version.as_deref()) {
            Some(version) => version == crate::claude::SIMULATED_VERSION,
            // It has not said who it is yet.
            None => self.shared.cli.is_simulated(),
        };
        let start_queue_position = match live.state {
            SessionState::Starting => self.shared.admission.position(row.id),
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

/// A session that nobody has opened since the start of the daemon: it has no process.
fn resting(row: &SessionRow) -> LiveView {
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
        requests: Vec::new(),
        background_tasks: 0,
        offers: crate::session::Offers::default(),
        unasked_tool: None,
        last_line_at: None,
        restart: None,
        parked: row.parked.filter(|_| row.state == SessionState::Parked),
        unused_since: None,
        is_woken: false,
        silent_since: None,
        is_silent: false,
    }
}
