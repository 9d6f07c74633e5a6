//! Owns the books of a session as the design's rule makes them from what is journaled, computed without the daemon's code.

use std::collections::HashMap;

use serde_json::Value;

use crate::journal::Journal;

/// What the turns of a session cost, in dollars.
pub(crate) fn cost(journal: &Journal) -> f64 {
    // The last known total of each conversation.
    let mut totals: HashMap<String, f64> = HashMap::new();
    let mut sum = 0.0;
    for run in &journal.runs {
        let conversation = run.started["cli_session_id"].as_str().unwrap_or_default();
        let mut last = totals.get(conversation).copied();
        let mut is_first = true;
        for result in &run.results {
            let Some(total) = result["total_cost_usd"].as_f64() else {
                continue;
            };
            sum += match (last, since_last(result)) {
                (_, Some(alone)) if is_first => alone,
                (Some(last), _) if total >= last => total - last,
                (Some(_), _) if !is_first => 0.0,
                _ => total,
            };
            last = Some(total);
            is_first = false;
        }
        if let Some(last) = last {
            totals.insert(conversation.to_owned(), last);
        }
    }
    sum
}

/// What a `result` says that was spent since the one before it.
fn since_last(result: &Value) -> Option<f64> {
    let models = result["model_usage_since_last_result"].as_object()?;
    models.values().map(|model| model["costUSD"].as_f64()).sum()
}
