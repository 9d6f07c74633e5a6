//! Sequences of running totals, and the turns that they give.

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
            cache_creation_5m_input_tokens: output,
            web_search_requests: input,
            ..TokenUsage::default()
        },
        cost_usd: Some(usd(cost)),
        context_window: Some(200_000),
        ..ModelUsage::default()
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
fn a_total_that_falls_is_no_refund_and_no_base() {
    check(&[(None, &[2.10, 0.0, 2.30])], &[2.10, 0.0, 0.20]);
    check(&[(None, &[2.10, 1.90, 2.00, 2.30])], &[2.10, 0.0, 0.0, 0.20]);
    check(&[(None, &[0.40, 0.30, 0.35])], &[0.40, 0.0, 0.0]);
    check(&[(None, &[1.0, -5.0, 1.5])], &[1.0, 0.0, 0.5]);
    check(&[(None, &[-5.0, 1.5])], &[0.0, 1.5]);
    check(&[(None, &[0.0, 1.5])], &[0.0, 1.5]);
}

#[test]
fn a_total_of_nothing_is_no_base_over_a_resume() {
    check(&[(None, &[2.10, 0.0]), (None, &[2.30])], &[2.10, 0.0, 0.20]);
    check(&[(None, &[2.10]), (None, &[0.0, 2.30])], &[2.10, 0.0, 0.20]);
    check(
        &[(None, &[2.10]), (None, &[-1.0]), (None, &[0.0, 2.30])],
        &[2.10, 0.0, 0.0, 0.20],
    );
    // It was not the first of the run: the next one shows that the counter was lost.
    check(
        &[(None, &[2.10]), (None, &[0.0, 0.05, 0.08])],
        &[2.10, 0.0, 0.05, 0.03],
    );
    // The counter fell twice within its run, after it had been lost.
    check(
        &[(None, &[2.10]), (None, &[0.05, 0.02, 0.08])],
        &[2.10, 0.05, 0.0, 0.03],
    );
    check(&[(Some(base(-5.0)), &[1.5])], &[1.5]);
}

#[test]
fn a_models_total_that_falls_is_no_base() {
    let full = |cost, input| Reported {
        total: Some(usd(cost)),
        models: Some(vec![model("big", input, 10, cost)]),
        since_last: None,
    };
    let spurious = [
        Reported {
            models: Some(Vec::new()),
            ..total(0.0)
        },
        Reported {
            models: Some(vec![model("big", 0, 0, 0.0)]),
            ..total(0.0)
        },
        Reported {
            models: Some(vec![model("big", 3, 1, -5.0)]),
            ..total(-5.0)
        },
        Reported {
            models: Some(vec![model("big", 90, 9, 1.9)]),
            ..total(1.9)
        },
        Reported {
            models: None,
            ..total(0.0)
        },
        Reported::default(),
    ];
    for between in spurious {
        for is_over_a_resume in [false, true] {
            let mut ledger = Ledger::start_run(CliTotals::default());
            assert_eq!(
                ledger.book(&full(2.10, 100)).models,
                vec![model("big", 100, 10, 2.10)]
            );
            assert_eq!(ledger.book(&between).models, Vec::new(), "{between:?}");
            if is_over_a_resume {
                ledger = Ledger::start_run(ledger.totals().clone());
            }
            let TurnCost { cost, models } = ledger.book(&full(2.30, 110));
            assert_eq!(cost, Some(usd(0.20)), "{between:?}");
            assert_eq!(models, vec![model("big", 10, 0, 0.20)], "{between:?}");
        }
    }
}

#[test]
fn only_a_result_that_adds_nothing_says_so() {
    let mut ledger = Ledger::start_run(CliTotals::default());
    ledger.book(&total(2.1));
    for (reported, expected) in [
        (total(0.0), true),
        (total(2.1), true),
        (Reported::default(), true),
        (total(2.3), false),
        (
            Reported {
                since_last: Some(vec![model("big", 1, 1, 0.1)]),
                ..total(0.0)
            },
            false,
        ),
    ] {
        assert_eq!(ledger.adds_nothing(&reported), expected, "{reported:?}");
    }
    assert_eq!(
        ledger.book(&total(2.3)).cost,
        Some(usd(0.2)),
        "nothing was booked"
    );
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
