//! Owns the arithmetic of money: from the CLI's running totals to the cost of each turn. Pure.

use crate::domain::{ModelUsage, TokenUsage, Usd, fact::CliTotals};

/// What a `result` line says about money.
#[derive(Clone, Debug, Default)]
pub(super) struct Reported {
    /// `total_cost_usd`, a running total.
    pub(super) total: Option<Usd>,
    /// `modelUsage`, running totals.
    pub(super) models: Option<Vec<ModelUsage>>,
    /// `model_usage_since_last_result`: this turn alone. Newer CLIs print it.
    pub(super) since_last: Option<Vec<ModelUsage>>,
}

/// What a turn cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TurnCost {
    pub(super) cost: Option<Usd>,
    pub(super) models: Vec<ModelUsage>,
}

/// The running totals of one process, and where they started.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    last: CliTotals,
    seen_in_run: bool,
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

    /// Books a `result`.
    pub(super) fn book(&mut self, reported: &Reported) -> TurnCost {
        let first = !self.seen_in_run;
        let cost = reported.total.map(|total| self.cost_of(total, first, reported));
        let models = match (&reported.since_last, &reported.models) {
            (Some(models), _) => models.clone(),
            (None, Some(totals)) => self.models_of(totals, first, reported.total),
            (None, None) => Vec::new(),
        };
        if let Some(total) = reported.total {
            self.last.cost_usd = Some(total);
            self.seen_in_run = true;
        }
        if let Some(totals) = &reported.models {
            self.last.models.clone_from(totals);
        }
        TurnCost { cost, models }
    }

    fn cost_of(&self, total: Usd, first: bool, reported: &Reported) -> Usd {
        if first {
            // The first result of a process can't be told from its total alone: a lost or foreign counter looks like any
            // other. The per-turn figure settles it where the CLI prints one.
            if let Some(alone) = reported.since_last.as_deref().and_then(sum) {
                return alone;
            }
        }
        match self.last.cost_usd {
            Some(last) if total >= last => total - last,
            // A counter that fell at the start of a process was lost with the old one.
            Some(_) if first => total,
            // A counter that falls within a process is no refund.
            Some(_) => Usd::ZERO,
            None => total,
        }
    }

    fn models_of(&self, totals: &[ModelUsage], first: bool, total: Option<Usd>) -> Vec<ModelUsage> {
        let counter_lost =
            first && matches!((total, self.last.cost_usd), (Some(now), Some(then)) if now < then);
        totals
            .iter()
            .map(|now| {
                let before = self
                    .last
                    .models
                    .iter()
                    .find(|then| then.model == now.model && !counter_lost);
                before.map_or_else(|| now.clone(), |then| difference(now, then))
            })
            .filter(|share| share.tokens != TokenUsage::default() || share.cost_usd != Some(Usd::ZERO))
            .collect()
    }
}

fn sum(models: &[ModelUsage]) -> Option<Usd> {
    models
        .iter()
        .try_fold(Usd::ZERO, |sum, model| model.cost_usd.map(|cost| sum + cost))
}

fn difference(now: &ModelUsage, then: &ModelUsage) -> ModelUsage {
    ModelUsage {
        model: now.model.clone(),
        tokens: TokenUsage {
            input_tokens: now.tokens.input_tokens.saturating_sub(then.tokens.input_tokens),
            output_tokens: now.tokens.output_tokens.saturating_sub(then.tokens.output_tokens),
            cache_read_input_tokens: now
                .tokens
                .cache_read_input_tokens
                .saturating_sub(then.tokens.cache_read_input_tokens),
            cache_creation_input_tokens: now
                .tokens
                .cache_creation_input_tokens
                .saturating_sub(then.tokens.cache_creation_input_tokens),
        },
        cost_usd: match (now.cost_usd, then.cost_usd) {
            (Some(now), Some(then)) => Some((now - then).max(Usd::ZERO)),
            (now, _) => now,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(dollars: f64) -> Usd {
        Usd::from_dollars(dollars).unwrap()
    }

    fn total(dollars: f64) -> Reported {
        Reported {
            total: Some(usd(dollars)),
            ..Reported::default()
        }
    }

    fn base(dollars: f64) -> CliTotals {
        CliTotals {
            cost_usd: Some(usd(dollars)),
            models: Vec::new(),
        }
    }

    fn model(name: &str, input: u64, output: u64, cost: f64) -> ModelUsage {
        ModelUsage {
            model: name.to_owned(),
            tokens: TokenUsage {
                input_tokens: input,
                output_tokens: output,
                cache_read_input_tokens: input * 2,
                cache_creation_input_tokens: output * 2,
            },
            cost_usd: Some(usd(cost)),
        }
    }

    /// Runs of totals, each with the base it starts from (`None`: what the run before left), against the turns they give.
    fn check(runs: &[(Option<CliTotals>, &[f64])], expected: &[f64]) {
        let mut left = CliTotals::default();
        let mut turns = Vec::new();
        for (start, totals) in runs {
            let mut ledger = Ledger::start_run(start.clone().unwrap_or(left));
            turns.extend(totals.iter().map(|dollars| ledger.book(&total(*dollars)).cost));
            left = ledger.totals().clone();
        }
        let expected: Vec<_> = expected.iter().map(|dollars| Some(usd(*dollars))).collect();
        assert_eq!(turns, expected);
    }

    #[test]
    fn running_totals_become_turns() {
        check(&[(None, &[0.10, 0.25, 0.40])], &[0.10, 0.15, 0.15]);
    }

    #[test]
    fn a_lost_counter_starts_again() {
        check(
            &[(None, &[0.10, 0.25, 0.40]), (None, &[0.05, 0.08])],
            &[0.10, 0.15, 0.15, 0.05, 0.03],
        );
    }

    #[test]
    fn a_clean_resume_goes_on() {
        check(&[(None, &[0.10]), (None, &[0.25])], &[0.10, 0.15]);
        check(&[(None, &[0.10]), (None, &[0.10])], &[0.10, 0.0]);
    }

    #[test]
    fn a_fork_does_not_pay_for_its_parent() {
        check(&[(Some(base(0.40)), &[0.45, 0.50])], &[0.05, 0.05]);
    }

    #[test]
    fn a_fall_within_a_process_is_no_refund() {
        check(&[(None, &[0.40, 0.30, 0.35])], &[0.40, 0.0, 0.05]);
    }

    #[test]
    fn a_cleared_conversation_counts_from_nothing() {
        let mut ledger = Ledger::start_run(CliTotals::default());
        assert_eq!(ledger.book(&total(0.4)).cost, Some(usd(0.4)));
        ledger.reset();
        assert_eq!(ledger.book(&total(0.0)).cost, Some(usd(0.0)));
        assert_eq!(ledger.book(&total(0.02)).cost, Some(usd(0.02)));
    }

    #[test]
    fn missing_is_unknown_and_the_next_total_covers_it() {
        let mut ledger = Ledger::start_run(CliTotals::default());
        assert_eq!(ledger.book(&total(0.1)).cost, Some(usd(0.1)));
        assert_eq!(ledger.book(&Reported::default()).cost, None);
        assert_eq!(ledger.book(&total(0.3)).cost, Some(usd(0.2)));
    }

    #[test]
    fn the_figure_of_the_turn_settles_a_first_result() {
        // A fork of a parent that still runs: its counter starts from what the parent last saved, not from what it has now.
        let mut ledger = Ledger::start_run(base(0.0016));
        let reported = Reported {
            total: Some(usd(0.0020)),
            models: Some(vec![model("a", 250, 50, 0.0020)]),
            since_last: Some(vec![model("a", 150, 30, 0.0012)]),
        };
        assert_eq!(ledger.book(&reported).cost, Some(usd(0.0012)));
    }

    #[test]
    fn models_are_kept_apart() {
        let mut ledger = Ledger::start_run(CliTotals::default());
        let first = Reported {
            total: Some(usd(0.3)),
            models: Some(vec![model("big", 100, 10, 0.2), model("small", 50, 5, 0.1)]),
            since_last: None,
        };
        assert_eq!(ledger.book(&first).models, first.models.clone().unwrap());
        let second = Reported {
            total: Some(usd(0.5)),
            models: Some(vec![model("big", 100, 10, 0.2), model("small", 150, 15, 0.3)]),
            since_last: None,
        };
        assert_eq!(ledger.book(&second).models, vec![model("small", 100, 10, 0.2)]);
    }

    #[test]
    fn models_of_a_lost_counter_start_again() {
        let mut ledger = Ledger::start_run(CliTotals {
            cost_usd: Some(usd(0.4)),
            models: vec![model("big", 100, 10, 0.4)],
        });
        let reported = Reported {
            total: Some(usd(0.05)),
            models: Some(vec![model("big", 10, 1, 0.05)]),
            since_last: None,
        };
        assert_eq!(ledger.book(&reported).models, vec![model("big", 10, 1, 0.05)]);
    }
}
