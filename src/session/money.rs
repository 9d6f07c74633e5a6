//! Owns the arithmetic of money: from the CLI's running totals to the cost of each turn. Pure.

#[cfg(test)]
mod tests;

use crate::domain::{ModelUsage, TokenUsage, Usd, fact::CliTotals};

/// The money in a `result` line.
#[derive(Clone, Debug, Default)]
pub(super) struct Reported {
    /// `total_cost_usd`, a running total.
    pub(super) total: Option<Usd>,
    /// `modelUsage`, running totals.
    pub(super) models: Option<Vec<ModelUsage>>,
    /// `model_usage_since_last_result`: this turn alone. Newer CLIs print it.
    pub(super) since_last: Option<Vec<ModelUsage>>,
}

/// The cost of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TurnCost {
    pub(super) cost: Option<Usd>,
    pub(super) models: Vec<ModelUsage>,
}

/// The running totals of one process, and where they started. They are the largest that it reported: a total that falls
/// is a fault of the CLI, and what it reports next counts from the largest.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    last: CliTotals,
    seen_in_run: bool,
}

/// The kind of a total, beside the last that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Total {
    /// The counter goes on.
    GoesOn,
    /// The counter that the process started from was lost with the process before it.
    StartsAgain,
    /// It says nothing: less than is known, or nothing where something is known.
    Spurious,
}

impl Ledger {
    /// A new process starts; `base` is the last known total of the conversation that it opens (for a fork: of its parent).
    pub(super) fn start_run(base: CliTotals) -> Self {
        Self {
            last: base,
            seen_in_run: false,
        }
    }

    /// The conversation was replaced within the process (`/clear`): the CLI counts from nothing again.
    pub(super) fn reset(&mut self) {
        self.last = CliTotals::default();
        self.seen_in_run = true;
    }

    /// Results are missing from the journal, and the store had booked them: `totals` are the last that it knows.
    pub(super) fn go_on_from(&mut self, totals: CliTotals) {
        self.last = totals;
        self.seen_in_run = true;
    }

    /// The totals to start the next process's ledger from.
    pub(super) fn totals(&self) -> &CliTotals {
        &self.last
    }

    /// Whether a `result` says that nothing was spent since the last one.
    pub(super) fn adds_nothing(&self, reported: &Reported) -> bool {
        let TurnCost { cost, models } = self.clone().book(reported);
        cost.is_none_or(|cost| cost == Usd::ZERO) && models.is_empty()
    }

    /// Books a `result`.
    pub(super) fn book(&mut self, reported: &Reported) -> TurnCost {
        let kind = reported.total.map(|total| self.kind_of(total));
        // The first result of a process can't be told from its total alone: a lost or foreign counter looks like any
        // other. The per-turn figure settles it where the CLI prints one.
        let alone = reported.since_last.as_deref().and_then(sum);
        let alone = alone.filter(|_| !self.seen_in_run);
        if kind == Some(Total::StartsAgain) {
            self.last = CliTotals::default();
        }
        let cost = reported
            .total
            .map(|total| alone.unwrap_or_else(|| total - self.known()).max(Usd::ZERO));
        let totals = reported.models.as_deref().unwrap_or_default();
        let models = match &reported.since_last {
            Some(models) => models.clone(),
            None => self.shares_of(totals),
        };
        if let Some(total) = reported.total {
            self.last.cost_usd = Some(self.known().max(total));
        }
        for now in totals {
            self.raise(now);
        }
        self.seen_in_run |= kind.is_some_and(|kind| kind != Total::Spurious);
        TurnCost { cost, models }
    }

    fn known(&self) -> Usd {
        self.last.cost_usd.unwrap_or(Usd::ZERO).max(Usd::ZERO)
    }

    fn kind_of(&self, total: Usd) -> Total {
        if total >= self.known() {
            Total::GoesOn
        } else if total <= Usd::ZERO || self.seen_in_run {
            Total::Spurious
        } else {
            Total::StartsAgain
        }
    }

    fn shares_of(&self, totals: &[ModelUsage]) -> Vec<ModelUsage> {
        let shares = totals.iter().map(|now| {
            let before = self.last.models.iter().find(|then| then.model == now.model);
            difference(now, before)
        });
        shares
            .filter(|share| share.tokens != TokenUsage::default() || share.cost_usd != Some(Usd::ZERO))
            .collect()
    }

    /// Keeps the larger of what is known of a model and what is reported now.
    fn raise(&mut self, now: &ModelUsage) {
        let Some(then) = self.last.models.iter_mut().find(|then| then.model == now.model) else {
            self.last.models.push(now.clone());
            return;
        };
        then.tokens = then.tokens.each_with(now.tokens, u64::max);
        then.context_window = now.context_window.or(then.context_window);
        then.max_output_tokens = now.max_output_tokens.or(then.max_output_tokens);
        then.cost_usd = then.cost_usd.max(now.cost_usd);
    }
}

fn sum(models: &[ModelUsage]) -> Option<Usd> {
    models
        .iter()
        .try_fold(Usd::ZERO, |sum, model| model.cost_usd.map(|cost| sum + cost))
}

/// The usage of a model since `then`.
fn difference(now: &ModelUsage, then: Option<&ModelUsage>) -> ModelUsage {
    let tokens = then.map(|then| then.tokens).unwrap_or_default();
    let cost = then.and_then(|then| then.cost_usd).unwrap_or(Usd::ZERO);
    ModelUsage {
        model: now.model.clone(),
        tokens: now.tokens.each_with(tokens, u64::saturating_sub),
        context_window: now.context_window,
        max_output_tokens: now.max_output_tokens,
        cost_usd: now.cost_usd.map(|now| (now - cost.max(Usd::ZERO)).max(Usd::ZERO)),
    }
}
