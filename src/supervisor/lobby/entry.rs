//! Owns a session as the lobby has it, and in which respects it differs from what it was.

use std::sync::Arc;

use crate::{
    domain::{Approval, Attention, LobbyChange, Timestamp},
    session::LiveView,
    supervisor::SessionView,
};

use super::attention::{Needs, PutOffAttention};

/// A session in the lobby.
#[derive(Clone, Debug)]
pub struct LobbyEntry {
    /// The session. Its launch options are left out.
    pub view: SessionView,
    /// Why it needs a person; `None` when it needs nobody, or all of it is put off.
    pub attention: Option<Attention>,
    /// The needs that are put off.
    pub put_off: Option<PutOffAttention>,
}

impl LobbyEntry {
    /// The entry for a session as it is now. A reason that it had before keeps its time.
    pub(super) fn new(mut view: SessionView, before: Option<&Self>, now: Timestamp) -> Self {
        let before = before.map(|before| [before.attention, before.put_off.map(|it| it.attention)]);
        let Needs { attention, put_off } = Needs::of(&view, &before.unwrap_or_default(), now);
        view.row.options = String::new();
        Self {
            view,
            attention,
            put_off,
        }
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
                row.title != old.title
                    || row.first_prompt != old.first_prompt
                    || row.tag != old.tag
                    || row.labels != old.labels,
            ),
            (LobbyChange::Turn, row.turns != old.turns),
            (LobbyChange::LastLine, row.last_line != old.last_line),
            (
                LobbyChange::Prompt,
                row.last_prompt != old.last_prompt || row.queued_prompts != old.queued_prompts,
            ),
            (LobbyChange::Cost, row.cost_usd != old.cost_usd),
            (
                LobbyChange::Attention,
                self.attention != before.attention
                    || self.put_off != before.put_off
                    || (row.seen_seq, self.view.is_unread()) != (old.seen_seq, before.view.is_unread()),
            ),
        ];
        for (change, is_changed) in others {
            if is_changed && !changes.contains(&change) {
                changes.push(change);
            }
        }
        changes
    }

    /// Whether something that was put off until a time is put off no longer.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let until = self.put_off.and_then(|put_off| put_off.until);
        until.is_some_and(|until| until <= now)
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
                || live.activity != old.activity
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
