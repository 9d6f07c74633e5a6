//! Owns the limit of what a session may cost: each process gets what the ones before have left of it.
//!
//! The CLI counts from zero in each process, so the daemon takes off what the session's turns cost so far.

use crate::{claude::LaunchOptions, domain::Usd, session::SpentBudget, store::SessionRow};

use super::{SupervisorError, messages::read_options};

/// The part of a session's limit that its next process may spend; `None` without a limit. Turns whose cost is not known take
/// nothing off.
///
/// # Errors
/// `BudgetSpent`: nothing is left.
pub(super) fn left(options: &LaunchOptions, row: &SessionRow) -> Result<Option<Usd>, SupervisorError> {
    let Some(limit) = options.max_budget_usd else {
        return Ok(None);
    };
    if row.cost_usd >= limit {
        return Err(SupervisorError::BudgetSpent(SpentBudget {
            limit,
            spent: row.cost_usd,
            unknown_turns: row.turns_with_unknown_cost,
        }));
    }
    Ok(Some(limit - row.cost_usd))
}

/// Refuses a start that would have nothing to spend, before anything makes room for it.
///
/// # Errors
/// `BudgetSpent`, `StoredOptions`.
pub(super) fn refuse_spent(row: &SessionRow) -> Result<(), SupervisorError> {
    left(&read_options(&row.options)?, row).map(drop)
}

/// The words for turns whose cost is not in the sum.
pub(super) fn unknown_words(turns: u64) -> String {
    match turns {
        0 => String::new(),
        1 => "; 1 turn of unknown cost is not in this sum".to_owned(),
        turns => format!("; {turns} turns of unknown cost are not in this sum"),
    }
}
