//! Owns what watchers of the lobby get: all sessions in short, and each change of one.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    ApprovalSummary,
    attention::PutOff,
    session::{DueRestart, OpenTurn},
};
use crate::{
    domain::{
        Activity, Attention, FailReason, LastLine, LobbyChange, Parked, Seq, SessionId, SessionState,
        Timestamp, Usd,
    },
    supervisor::{EventId, LobbyEntry, LobbyEvent, SessionView, build_id},
};

/// News from the lobby.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(tag = "type")]
pub(in crate::http) enum LobbyFrame {
    /// All sessions that match. It comes first, and again to a watcher that was too far behind.
    #[serde(rename = "trunkline.lobby")]
    Snapshot {
        /// The place after which changes follow.
        event_id: String,
        /// The daemon's program: another one after an upgrade.
        build: &'static str,
        /// How many sessions match.
        total: usize,
        /// The first of them, up to the limit: the newest activity first.
        sessions: Vec<SessionSummary>,
    },
    /// A change of one session.
    #[serde(rename = "trunkline.session")]
    Change {
        /// Its place: a watcher that comes back after it gets what followed.
        event_id: String,
        /// The session.
        session_id: SessionId,
        /// The kind of change.
        change: ChangeKind,
        /// The respects in which it changed; empty unless `change` is `changed`.
        changed: Vec<LobbyChange>,
        /// The session as it is now; `null` when it was deleted.
        session: Option<Box<SessionSummary>>,
    },
}

/// Stands for an event of the stream of all sessions, whose schema is written by hand.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "gives a schema its name")]
pub(in crate::http) struct LobbyStreamEvent(serde_json::Map<String, serde_json::Value>);

/// The kind of a change.
#[derive(Clone, Copy, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum ChangeKind {
    /// It was made, or matches now.
    Made,
    /// It is different.
    Changed,
    /// It does not match any more.
    Left,
    /// It is gone.
    Deleted,
}

/// A session in short. Each member is as in the session itself.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct SessionSummary {
    /// Our id.
    id: SessionId,
    /// A person's name for it.
    title: Option<String>,
    /// A person's group for it.
    tag: Option<String>,
    /// A person's key-value pairs.
    labels: BTreeMap<String, String>,
    /// The working directory.
    cwd: String,
    /// Its state.
    state: SessionState,
    /// Its place among the starts that wait for their turn, from 1.
    start_queue_position: Option<usize>,
    /// Why it failed.
    reason: Option<FailReason>,
    /// The restart that is due.
    restart: Option<DueRestart>,
    /// Since when it has no process on purpose, and why.
    parked: Option<Parked>,
    /// Why it needs a person; `null` when it needs nobody.
    attention: Option<Attention>,
    /// The needs that a person put off, for which `attention` is `null` unless there is another reason.
    put_off: Option<PutOff>,
    /// Whether a turn ended that no person has seen.
    unread: bool,
    /// The last record that a person has seen.
    seen_seq: Seq,
    /// The last thing that the agent said or did.
    last_line: Option<LastLine>,
    /// Whether the CLI has been silent for too long.
    is_silent: bool,
    /// The CLI's work between its answers, if that takes long.
    activity: Option<Activity>,
    /// Whether the simulated agent runs it.
    simulated: bool,
    /// The model that the CLI reported last.
    model: Option<String>,
    /// The permission mode that the CLI reported last.
    permission_mode: Option<String>,
    /// The turn that runs now.
    turn: Option<OpenTurn>,
    /// Finished turns.
    turns: u64,
    /// Sum of the known costs of its turns, in US dollars.
    #[schema(value_type = f64)]
    cost_usd: Usd,
    /// Turns whose cost is not known.
    turns_with_unknown_cost: u64,
    /// The requests that need a person, oldest first.
    pending_approvals: Vec<ApprovalSummary>,
    /// Approvals that open once others are closed.
    waiting_approvals: usize,
    /// Messages that wait for it in the daemon.
    queued_prompts: u64,
    /// The start of the first prompt.
    first_prompt: Option<String>,
    /// The start of the last prompt.
    last_prompt: Option<String>,
    /// The session that it was forked from.
    parent_id: Option<SessionId>,
    /// Whether that one is deleted.
    parent_deleted: bool,
    /// The last record of its journal. Records alone are no change.
    head_seq: Seq,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it last worked or was edited.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl LobbyFrame {
    /// All sessions, of which the first `limit` are shown.
    pub(in crate::http) fn snapshot(
        id: EventId,
        entries: &[std::sync::Arc<LobbyEntry>],
        limit: usize,
    ) -> Self {
        let shown = entries.iter().take(limit);
        Self::Snapshot {
            event_id: id.to_string(),
            build: build_id(),
            total: entries.len(),
            sessions: shown.map(|entry| SessionSummary::of(entry)).collect(),
        }
    }

    /// One change.
    pub(in crate::http) fn change(id: EventId, event: &LobbyEvent) -> Self {
        let (change, changed, entry) = match event {
            LobbyEvent::Made(entry) => (ChangeKind::Made, Vec::new(), Some(entry)),
            LobbyEvent::Changed(entry, changed) => (ChangeKind::Changed, changed.clone(), Some(entry)),
            LobbyEvent::Left(entry) => (ChangeKind::Left, Vec::new(), Some(entry)),
            LobbyEvent::Deleted(_) => (ChangeKind::Deleted, Vec::new(), None),
        };
        Self::Change {
            event_id: id.to_string(),
            session_id: event.session(),
            change,
            changed,
            session: entry.map(|entry| Box::new(SessionSummary::of(entry))),
        }
    }

    /// The frame as JSON.
    pub(in crate::http) fn to_json(&self) -> String {
        // Plain data with string keys always has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl SessionSummary {
    fn of(entry: &LobbyEntry) -> Self {
        let SessionView {
            row,
            live,
            simulated,
            start_queue_position,
        } = entry.view.clone();
        Self {
            id: row.id,
            title: row.title,
            tag: row.tag,
            labels: row.labels,
            cwd: row.cwd,
            state: live.state,
            start_queue_position,
            reason: live.reason,
            restart: live.restart.map(DueRestart::of),
            parked: live.parked,
            attention: entry.attention,
            put_off: entry.put_off.map(PutOff::of),
            unread: entry.view.is_unread(),
            seen_seq: row.seen_seq,
            last_line: row.last_line,
            is_silent: live.is_silent,
            activity: live.activity,
            simulated,
            model: live.model.or(row.model),
            permission_mode: live.permission_mode.or(row.permission_mode),
            turn: live.turn.map(OpenTurn::of),
            turns: row.turns,
            cost_usd: row.cost_usd,
            turns_with_unknown_cost: row.turns_with_unknown_cost,
            pending_approvals: live
                .approvals
                .iter()
                .map(|approval| ApprovalSummary::of(approval))
                .collect(),
            waiting_approvals: live.waiting_approvals.count,
            queued_prompts: row.queued_prompts,
            first_prompt: row.first_prompt,
            last_prompt: row.last_prompt,
            parent_deleted: row.parent.is_none() && row.fork_of.is_some(),
            parent_id: row.fork_of,
            head_seq: live.head_seq,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}
