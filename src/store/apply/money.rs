//! Owns what turns cost and used: their rows, and the CLI's running totals.

use sqlx::SqliteConnection;

use crate::{
    domain::{CliSessionId, ModelUsage, SessionId, TokenUsage, TurnEnd, Usd, fact::CliTotals},
    store::{
        QueryError,
        column::{MAX_TOKENS, integer, token_integers},
    },
};

/// A cost above this in one turn (a million dollars) is no cost but a defect of the CLI. The bound keeps sums within 64
/// bits.
const MAX_TURN_COST: Usd = Usd::from_nanos(1_000_000 * 1_000_000_000);

/// The share of a cost in a sum. A sum never falls, so a negative cost adds nothing.
pub(in crate::store) fn charged(cost: Usd) -> Usd {
    cost.clamp(Usd::ZERO, MAX_TURN_COST)
}

/// The sum of both.
pub(super) fn sum(one: TokenUsage, other: TokenUsage) -> TokenUsage {
    one.each_with(other, |one, other| one.saturating_add(other.min(MAX_TOKENS)))
}

/// A simulated turn, which costs nothing, whatever it says.
pub(super) fn free(turn: &TurnEnd) -> TurnEnd {
    let mut free = turn.clone();
    free.cost_usd = Some(Usd::ZERO);
    for model in &mut free.models {
        model.cost_usd = Some(Usd::ZERO);
    }
    free
}

/// Adds a turn and its models; `false` when there is a turn of this number.
pub(super) async fn insert_turn(
    connection: &mut SqliteConnection,
    session: SessionId,
    turn: &TurnEnd,
    is_simulated: bool,
) -> Result<bool, QueryError> {
    // Without the first four nothing is known of the tokens.
    let [input, output, cache_read, cache_creation, ..] = match turn.usage {
        Some(usage) => token_integers(usage).map(Some),
        None => [None; 7],
    };
    let [.., short, long, searches] = token_integers(turn.usage.unwrap_or_default());
    let prompts: Vec<String> = turn.prompts.iter().map(ToString::to_string).collect();
    let added = sqlx::query(
        "INSERT INTO turns (session_id, number, run_id, first_seq, last_seq, started_at, ended_at, prompts, origin,
            subtype, is_error, terminal_reason, num_turns, duration_ms, duration_api_ms, cost_nanos, input_tokens,
            output_tokens, cache_read_tokens, cache_creation_tokens, simulated, outcome, cache_creation_5m_tokens,
            cache_creation_1h_tokens, web_searches, service_tier)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
            ?25, ?26)
         ON CONFLICT (session_id, number) DO NOTHING",
    )
    .bind(session.to_string())
    .bind(integer(turn.number))
    .bind(turn.run_id.to_string())
    .bind(integer(turn.first_seq.get()))
    .bind(integer(turn.last_seq.get()))
    .bind(turn.started_at.as_micros())
    .bind(turn.ended_at.as_micros())
    .bind(serde_json::Value::from(prompts).to_string())
    .bind(&turn.origin)
    .bind(&turn.subtype)
    .bind(turn.is_error)
    .bind(&turn.terminal_reason)
    .bind(turn.num_turns.map(integer))
    .bind(turn.duration_ms.map(integer))
    .bind(turn.duration_api_ms.map(integer))
    .bind(turn.cost_usd.map(|cost| charged(cost).as_nanos()))
    .bind(input)
    .bind(output)
    .bind(cache_read)
    .bind(cache_creation)
    .bind(is_simulated)
    .bind(&turn.outcome)
    .bind(short)
    .bind(long)
    .bind(searches)
    .bind(&turn.service_tier)
    .execute(&mut *connection)
    .await?
    .rows_affected();
    if added == 0 {
        return Ok(false);
    }
    for (position, model) in (1_i64..).zip(&turn.models) {
        insert_turn_model(connection, session, turn.number, position, model).await?;
    }
    Ok(true)
}

async fn insert_turn_model(
    connection: &mut SqliteConnection,
    session: SessionId,
    turn: u64,
    position: i64,
    model: &ModelUsage,
) -> Result<(), QueryError> {
    let [input, output, cache_read, cache_creation, short, long, searches] = token_integers(model.tokens);
    sqlx::query(
        "INSERT INTO turn_models (session_id, number, position, model, input_tokens, output_tokens,
            cache_read_tokens, cache_creation_tokens, cost_nanos, cache_creation_5m_tokens, cache_creation_1h_tokens,
            web_searches, context_window, max_output_tokens)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )
    .bind(session.to_string())
    .bind(integer(turn))
    .bind(position)
    .bind(&model.model)
    .bind(input)
    .bind(output)
    .bind(cache_read)
    .bind(cache_creation)
    .bind(model.cost_usd.map(|cost| charged(cost).as_nanos()))
    .bind(short)
    .bind(long)
    .bind(searches)
    .bind(model.context_window.map(integer))
    .bind(model.max_output_tokens.map(integer))
    .execute(connection)
    .await?;
    Ok(())
}

/// Replaces the known running total of a conversation.
pub(in crate::store) async fn set_total(
    connection: &mut SqliteConnection,
    id: CliSessionId,
    total: &CliTotals,
) -> Result<(), QueryError> {
    sqlx::query("DELETE FROM cli_totals WHERE cli_session_id = ?1")
        .bind(id.to_string())
        .execute(&mut *connection)
        .await?;
    sqlx::query("INSERT INTO cli_totals (cli_session_id, cost_nanos) VALUES (?1, ?2)")
        .bind(id.to_string())
        .bind(total.cost_usd.map(Usd::as_nanos))
        .execute(&mut *connection)
        .await?;
    for (position, model) in (1_i64..).zip(&total.models) {
        let [input, output, cache_read, cache_creation, short, long, searches] = token_integers(model.tokens);
        sqlx::query(
            "INSERT INTO cli_total_models (cli_session_id, position, model, input_tokens, output_tokens,
                cache_read_tokens, cache_creation_tokens, cost_nanos, cache_creation_5m_tokens,
                cache_creation_1h_tokens, web_searches, context_window, max_output_tokens)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )
        .bind(id.to_string())
        .bind(position)
        .bind(&model.model)
        .bind(input)
        .bind(output)
        .bind(cache_read)
        .bind(cache_creation)
        .bind(model.cost_usd.map(Usd::as_nanos))
        .bind(short)
        .bind(long)
        .bind(searches)
        .bind(model.context_window.map(integer))
        .bind(model.max_output_tokens.map(integer))
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}
