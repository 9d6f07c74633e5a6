//! Owns the books of a session as the design's rule makes them from what is journaled, computed without the daemon's code.

use std::collections::HashMap;

use serde_json::Value;

use crate::journal::Journal;

/// The books of a session.
#[derive(Debug)]
pub(crate) struct Books {
    /// The cost of its turns by the rule, in dollars.
    pub(crate) cost: f64,
    /// The amount that the agent says it spent in this session, where it says so of every turn and the rule can know it: then
    /// both are the same.
    pub(crate) spent: Option<f64>,
    /// Every running total that was printed.
    pub(crate) totals: Vec<f64>,
    /// The last one of the conversation of the last run.
    pub(crate) last: Option<f64>,
    /// Runs that did not begin to count where they had to.
    pub(crate) faults: Vec<String>,
}

/// Makes the books. `origin` has the running totals of the session that this is a fork of, or whose conversation it goes on
/// with, if they are known; `begins_at` is the one that its first run must begin with, where that is known.
pub(crate) fn books(journal: &Journal, origin: Option<&[f64]>, begins_at: Option<f64>) -> Books {
    let mut books = Books {
        cost: 0.0,
        spent: Some(0.0),
        totals: Vec::new(),
        last: None,
        faults: Vec::new(),
    };
    // The last known total of each conversation.
    let mut totals: HashMap<String, f64> = HashMap::new();
    for (place, run) in journal.runs.iter().enumerate() {
        let conversation = run.started["cli_session_id"].as_str().unwrap_or_default();
        let base = run.started["base"]["cost_usd"].as_f64();
        let known = totals.get(conversation).copied();
        let mode = run.started["mode"].as_str();
        let mut last = match (mode, known, origin) {
            (Some("new"), ..) => None,
            _ if place == 0 && begins_at.is_some() => begins_at,
            (Some("resume"), Some(known), _) => Some(known),
            // It begins where that one was, at whatever moment that was.
            (_, _, Some(origin)) => base.filter(|base| origin.iter().any(|it| is_same(*it, *base))),
            (Some("fork"), ..) => base,
            _ => None,
        };
        if base.map(round) != last.map(round) {
            books.faults.push(format!(
                "run {} begins to count at {base:?}, not {last:?}",
                run.id
            ));
        }
        let mut is_first = true;
        for result in &run.results {
            let Some(total) = result["total_cost_usd"].as_f64() else {
                continue;
            };
            let alone = since_last(result);
            books.cost += match (last, alone) {
                (_, Some(alone)) if is_first => alone,
                (Some(last), _) if total >= last => total - last,
                (Some(_), _) if !is_first => 0.0,
                _ => total,
            };
            let is_knowable = !is_first || alone.is_some();
            books.spent = match (books.spent, result["spent"].as_f64()) {
                (Some(sum), Some(spent)) if is_knowable => Some(sum + spent),
                _ => None,
            };
            books.totals.push(total);
            last = Some(total);
            is_first = false;
        }
        books.last = last;
        if let Some(last) = last {
            totals.insert(conversation.to_owned(), last);
        }
    }
    books
}

pub(crate) fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// In millionths, to be compared.
#[expect(clippy::cast_possible_truncation, reason = "sums of a test are small")]
fn round(dollars: f64) -> i64 {
    (dollars * 1e6).round() as i64
}

/// The amount that a `result` says was spent since the one before it.
fn since_last(result: &Value) -> Option<f64> {
    let models = result["model_usage_since_last_result"].as_object()?;
    models.values().map(|model| model["costUSD"].as_f64()).sum()
}
