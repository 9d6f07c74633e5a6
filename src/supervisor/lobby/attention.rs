//! Owns why a session needs a person, and what of that a person has put off.

use serde::Deserialize;

use crate::{
    domain::{
        Attention, AttentionReason, PutOff, PutOffHow, SessionState, Timestamp, Usd,
        lobby::BUDGET_WARNING_PERCENT,
    },
    supervisor::SessionView,
};

/// The needs of a session that were put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutOffAttention {
    /// How.
    pub how: PutOffHow,
    /// Until when; with `None` as long as the reason holds.
    pub until: Option<Timestamp>,
    /// The most urgent reason of those that are put off.
    pub attention: Attention,
}

/// The needs of a session for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Why it needs a person; `None` when it needs nobody, or all of it is put off.
    pub attention: Option<Attention>,
    /// The needs that are put off.
    pub put_off: Option<PutOffAttention>,
}

impl Needs {
    /// The needs of a session as it is now. A reason that it had before keeps its time.
    pub(in crate::supervisor) fn of(
        view: &SessionView,
        before: &[Option<Attention>],
        now: Timestamp,
    ) -> Self {
        let mark = view.row.put_off.as_ref();
        let mark = mark.filter(|mark| mark.until.is_none_or(|until| now < until));
        let is_put_off = |reason: &Reason| mark.is_some_and(|mark| mark.reasons.contains(&reason.name));
        let reasons = reasons(view, now);
        let first = |wanted: bool| {
            let found = reasons.iter().find(|reason| is_put_off(reason) == wanted)?;
            Some(since_before(found.attention, before))
        };
        Self {
            attention: first(false),
            put_off: first(true).zip(mark).map(|(attention, mark)| PutOffAttention {
                how: mark.how,
                until: mark.until,
                attention,
            }),
        }
    }
}

/// The mark that puts off all that a session needs now; `None` when it needs nobody.
pub(in crate::supervisor) fn put_off(
    view: &SessionView,
    how: PutOffHow,
    until: Option<Timestamp>,
    at: Timestamp,
) -> Option<PutOff> {
    let reasons: Vec<String> = reasons(view, at).into_iter().map(|reason| reason.name).collect();
    (!reasons.is_empty()).then_some(PutOff {
        how,
        until,
        at,
        reasons,
    })
}

/// One reason for which a session needs a person.
struct Reason {
    /// No other occurrence of the reason has this name.
    name: String,
    attention: Attention,
}

fn since_before(attention: Attention, before: &[Option<Attention>]) -> Attention {
    let mut earlier = before.iter().flatten();
    let earlier = earlier.find(|it| it.reason == attention.reason && is_timeless(attention.reason));
    Attention {
        since: earlier.map_or(attention.since, |earlier| earlier.since),
        ..attention
    }
}

/// Whether nothing but the lobby knows since when a reason holds.
const fn is_timeless(reason: AttentionReason) -> bool {
    matches!(
        reason,
        AttentionReason::Failed | AttentionReason::UnaskedEdit | AttentionReason::Budget
    )
}

/// All reasons of a session, the most urgent first.
fn reasons(view: &SessionView, now: Timestamp) -> Vec<Reason> {
    let live = &view.live;
    let of = |name: String, reason, rank, since, deadline| Reason {
        name,
        attention: Attention {
            reason,
            rank,
            since,
            deadline,
        },
    };
    let mut open: Vec<_> = live.approvals.iter().collect();
    open.sort_by_key(|it| (it.deadline.is_none(), it.deadline, it.requested_at));
    let decisions = open.into_iter().map(|it| {
        let rank = if it.deadline.is_some() { 1 } else { 2 };
        let name = format!("decision:{}", it.id);
        of(
            name,
            AttentionReason::Decision,
            rank,
            it.requested_at,
            it.deadline,
        )
    });
    let mut reasons: Vec<Reason> = decisions.collect();
    // A reason of a process is another one in the next process.
    let run = live.run_id.map(|run| run.to_string()).unwrap_or_default();
    if live.state == SessionState::Failed {
        let since = view.row.updated_at;
        reasons.push(of(
            format!("failed:{run}"),
            AttentionReason::Failed,
            3,
            since,
            None,
        ));
    }
    if live.is_silent {
        let since = live.silent_since.unwrap_or(now);
        let name = format!("silent:{}", since.as_micros());
        reasons.push(of(name, AttentionReason::Silent, 4, since, None));
    }
    if live.unasked_tool.is_some() {
        let name = format!("unasked_edit:{run}");
        reasons.push(of(name, AttentionReason::UnaskedEdit, 4, now, None));
    }
    if let Some(part) = nearly_spent(view) {
        let name = format!("budget:{part}");
        reasons.push(of(name, AttentionReason::Budget, 4, now, None));
    }
    reasons
}

/// Whether a session that can go on has spent most of what it may, or all of it.
fn nearly_spent(view: &SessionView) -> Option<&'static str> {
    #[derive(Deserialize)]
    struct Budget {
        max_budget_usd: Option<f64>,
    }
    let budget = serde_json::from_str::<Budget>(&view.row.options).ok()?;
    let budget = Usd::from_dollars(budget.max_budget_usd?)?.as_nanos();
    let spent = view.row.cost_usd.as_nanos();
    match view.live.state.is_live() {
        true if spent >= budget => Some("spent"),
        true if spent >= budget / 100 * BUDGET_WARNING_PERCENT => Some("nearly_spent"),
        _ => None,
    }
}
