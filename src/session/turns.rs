//! Owns what a turn is made from: its `result` line, or the end of the process in the middle of it. Pure.

use crate::{
    claude::facts::ResultFacts,
    domain::{PromptState, PromptUuid, RunId, TurnEnd},
    journal::RecordRef,
};

use super::{
    OpenPrompt, OpenTurn,
    money::{Reported, TurnCost},
};

/// The prompts that a `result` answers. The CLI names them if they carried ids; else it is the oldest that it had begun,
/// so that the late result of an interrupted turn never closes the next one.
pub(super) fn answered(facts: &ResultFacts<'_>, open: &[OpenPrompt]) -> Vec<PromptUuid> {
    if !facts.user_message_uuids.is_empty() {
        return facts.user_message_uuids.clone();
    }
    if facts.origin.is_some() {
        return Vec::new();
    }
    let started = open.iter().find(|prompt| prompt.state == PromptState::Started);
    let unreceipted = || open.first().filter(|prompt| prompt.state == PromptState::Sent);
    started
        .or_else(unreceipted)
        .map(|prompt| prompt.uuid)
        .into_iter()
        .collect()
}

/// The money in a `result` line.
pub(super) fn reported(facts: &ResultFacts<'_>) -> Reported {
    Reported {
        total: facts.total_cost_usd,
        models: facts.models.clone(),
        since_last: facts.models_since_last_result.clone(),
    }
}

/// The turn that a `result` ends. A turn that somebody interrupted has not failed.
pub(super) fn ended(
    turn: OpenTurn,
    run_id: RunId,
    facts: ResultFacts<'_>,
    prompts: Vec<PromptUuid>,
    money: TurnCost,
    record: &RecordRef<'_>,
) -> TurnEnd {
    let is_interrupted = facts.is_error && facts.api_error_status.is_none() && turn.is_interrupted;
    let outcome = if is_interrupted {
        TurnEnd::INTERRUPTED
    } else if !facts.is_error && facts.num_turns == Some(0) && (facts.is_blocked || turn.is_blocked) {
        TurnEnd::BLOCKED
    } else {
        TurnEnd::outcome_of(&facts.subtype, facts.is_error)
    };
    TurnEnd {
        number: turn.number,
        run_id,
        first_seq: turn.first_seq,
        last_seq: record.seq,
        started_at: turn.started_at,
        ended_at: record.at,
        prompts,
        origin: facts.origin,
        outcome: outcome.to_owned(),
        subtype: facts.subtype,
        is_error: facts.is_error && !is_interrupted,
        terminal_reason: facts.terminal_reason,
        num_turns: facts.num_turns,
        duration_ms: facts.duration_ms,
        duration_api_ms: facts.duration_api_ms,
        service_tier: facts.service_tier,
        cost_usd: money.cost,
        usage: facts.usage,
        models: money.models,
    }
}

/// The turn that the end of the process cut short: what it cost is unknown.
pub(super) fn cut_short(
    turn: OpenTurn,
    run_id: RunId,
    open: &[OpenPrompt],
    record: &RecordRef<'_>,
) -> TurnEnd {
    TurnEnd {
        number: turn.number,
        run_id,
        first_seq: turn.first_seq,
        last_seq: record.seq,
        started_at: turn.started_at,
        ended_at: record.at,
        prompts: open
            .iter()
            .filter(|prompt| prompt.state == PromptState::Started)
            .map(|prompt| prompt.uuid)
            .collect(),
        origin: None,
        subtype: "interrupted".to_owned(),
        is_error: true,
        outcome: TurnEnd::CUT_SHORT.to_owned(),
        terminal_reason: None,
        num_turns: None,
        duration_ms: None,
        duration_api_ms: None,
        service_tier: None,
        cost_usd: None,
        usage: None,
        models: Vec::new(),
    }
}
