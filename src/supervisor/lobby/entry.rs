//! Owns a session as the lobby has it: why it needs a person, and in which respects it differs from what it was.

use std::sync::Arc;

use serde::Deserialize;

use crate::{
    domain::{
        Approval, Attention, AttentionReason, LobbyChange, SessionState, Timestamp, Usd,
        lobby::BUDGET_WARNING_PERCENT,
    },
    session::LiveView,
    supervisor::SessionView,
};

/// A session in the lobby.
#[derive(Clone, Debug)]
pub struct LobbyEntry {
    /// The session. Its launch options are left out.
    pub view: SessionView,
    /// Why it needs a person; `None` when it needs nobody.
    pub attention: Option<Attention>,
}

impl LobbyEntry {
    /// The entry for a session as it is now. A reason that it had before keeps its time.
    pub(super) fn new(mut view: SessionView, before: Option<&Self>, now: Timestamp) -> Self {
        let attention = attention(&view, now).map(|attention| {
            let earlier = before
                .and_then(|before| before.attention)
                .filter(|earlier| earlier.reason == attention.reason && is_timeless(attention.reason));
            Attention {
                since: earlier.map_or(attention.since, |earlier| earlier.since),
                ..attention
            }
        });
        view.row.options = String::new();
        Self { view, attention }
    }

    /// The respects in which this differs from what was before.
    pub(super) fn changes_since(&self, before: &Self) -> Vec<LobbyChange> {
        let (row, old) = (&self.view.row, &before.view.row);
        let mut changes = live_changes(&self.view.live, &before.view.live);
        let others = [
            (
                LobbyChange::State,
                self.view.start_queue_position != before.view.start_queue_position,
            ),
            (
                LobbyChange::Title,
                row.title != old.title || row.tag != old.tag || row.labels != old.labels,
            ),
            (LobbyChange::Turn, row.turns != old.turns),
            (LobbyChange::Prompt, row.last_prompt != old.last_prompt),
            (LobbyChange::Cost, row.cost_usd != old.cost_usd),
            (LobbyChange::Attention, self.attention != before.attention),
        ];
        for (change, is_changed) in others {
            if is_changed && !changes.contains(&change) {
                changes.push(change);
            }
        }
        changes
    }

    /// Whether the session's actor says otherwise.
    pub(super) fn differs_from(&self, live: &LiveView) -> bool {
        let seen = &self.view.live;
        seen.is_silent != live.is_silent
            || seen.unasked_tool != live.unasked_tool
            || !live_changes(live, seen).is_empty()
    }
}

/// The respects in which two views of a session's actor differ.
fn live_changes(live: &LiveView, old: &LiveView) -> Vec<LobbyChange> {
    let restart = |live: &LiveView| live.restart.as_ref().map(|due| (due.attempt, due.at));
    let turn = |live: &LiveView| live.turn.as_ref().map(|turn| turn.number);
    let has_other = |now: &[Arc<Approval>], then: &[Arc<Approval>]| {
        now.iter()
            .any(|approval| !then.iter().any(|known| known.id == approval.id))
    };
    let checks = [
        (
            LobbyChange::State,
            live.state != old.state
                || live.reason != old.reason
                || live.parked != old.parked
                || restart(live) != restart(old),
        ),
        (
            LobbyChange::Model,
            live.model != old.model || live.permission_mode != old.permission_mode,
        ),
        (LobbyChange::Turn, turn(live) != turn(old)),
        (
            LobbyChange::ApprovalOpened,
            has_other(&live.approvals, &old.approvals)
                || live.waiting_approvals.count > old.waiting_approvals.count,
        ),
        (
            LobbyChange::ApprovalClosed,
            has_other(&old.approvals, &live.approvals)
                || live.waiting_approvals.count < old.waiting_approvals.count,
        ),
    ];
    let changed = checks.into_iter().filter(|(_, is_changed)| *is_changed);
    changed.map(|(change, _)| change).collect()
}

/// Whether nothing but the lobby knows since when a reason holds.
const fn is_timeless(reason: AttentionReason) -> bool {
    matches!(
        reason,
        AttentionReason::Failed | AttentionReason::UnaskedEdit | AttentionReason::Budget
    )
}

fn attention(view: &SessionView, now: Timestamp) -> Option<Attention> {
    let live = &view.live;
    let of = |reason, rank, since, deadline| {
        Some(Attention {
            reason,
            rank,
            since,
            deadline,
        })
    };
    let soonest = live
        .approvals
        .iter()
        .filter_map(|approval| Some((approval.deadline?, approval.requested_at)))
        .min();
    if let Some((deadline, since)) = soonest {
        return of(AttentionReason::Decision, 1, since, Some(deadline));
    }
    if let Some(since) = live.approvals.iter().map(|approval| approval.requested_at).min() {
        return of(AttentionReason::Decision, 2, since, None);
    }
    if live.state == SessionState::Failed {
        return of(AttentionReason::Failed, 3, view.row.updated_at, None);
    }
    if live.is_silent {
        return of(AttentionReason::Silent, 4, live.silent_since.unwrap_or(now), None);
    }
    if live.unasked_tool.is_some() {
        return of(AttentionReason::UnaskedEdit, 4, now, None);
    }
    if is_nearly_spent(view) {
        return of(AttentionReason::Budget, 4, now, None);
    }
    None
}

/// Whether a session that can go on has spent most of what it may.
fn is_nearly_spent(view: &SessionView) -> bool {
    #[derive(Deserialize)]
    struct Budget {
        max_budget_usd: Option<f64>,
    }
    let budget = serde_json::from_str::<Budget>(&view.row.options).ok();
    let budget = budget.and_then(|it| Usd::from_dollars(it.max_budget_usd?));
    budget.is_some_and(|budget| {
        view.live.state.is_live()
            && view.row.cost_usd.as_nanos() >= budget.as_nanos() / 100 * BUDGET_WARNING_PERCENT
    })
}
