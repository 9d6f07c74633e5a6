//! Owns the queries for what a session did: its runs, turns, prompts and the CLI's ids and totals.

use std::collections::HashMap;

use sqlx::{QueryBuilder, Sqlite, SqlitePool, sqlite::SqliteRow};

use super::{
    CliSessionSpan, EndOfTurn, Page, PageRequest, PromptRow, QueryError, RunEnd, RunRow,
    column::{Columns, integer},
};
use crate::domain::{
    CliSessionId, ModelUsage, PromptState, PromptUuid, RunExit, Seq, SessionId, TurnEnd, fact::CliTotals,
};

/// The name of the list of turns in its cursors.
const TURNS: &str = "turns";

pub(super) async fn turns(
    pool: &SqlitePool,
    session: SessionId,
    page: &PageRequest,
) -> Result<Page<TurnEnd>, QueryError> {
    let after = page.key::<i64>(TURNS)?.unwrap_or(0);
    let turns = read_turns(
        pool,
        session,
        (after.saturating_add(1), i64::MAX),
        page.rows_to_read(),
    )
    .await?;
    Ok(page.page(TURNS, turns, |turn: &TurnEnd| integer(turn.number)))
}

pub(super) async fn turn(
    pool: &SqlitePool,
    session: SessionId,
    number: u64,
) -> Result<Option<TurnEnd>, QueryError> {
    let number = integer(number);
    let turns = read_turns(pool, session, (number, number), 1).await?;
    Ok(turns.into_iter().next())
}

/// The finished turns of the records from `from` to `to`. Records between two turns, such as a prompt, are of the later one.
pub(super) async fn turns_between(
    pool: &SqlitePool,
    session: SessionId,
    (from, to): (Seq, Seq),
) -> Result<Vec<EndOfTurn>, QueryError> {
    let rows = sqlx::query(
        "SELECT number, last_seq FROM turns
         WHERE session_id = ?1 AND last_seq >= ?2 AND number <= coalesce(
             (SELECT min(number) FROM turns WHERE session_id = ?1 AND last_seq >= ?3), number)
         ORDER BY number",
    )
    .bind(session.to_string())
    .bind(integer(from.get()))
    .bind(integer(to.get()))
    .fetch_all(pool)
    .await?;
    let spans = rows.iter().map(|row| {
        let columns = Columns { table: "turns", row };
        Ok(EndOfTurn {
            number: columns.count("number")?,
            last: columns.seq("last_seq")?,
        })
    });
    spans.collect()
}

/// The newest turn that answered a prompt.
pub(super) async fn turn_of_prompt(
    pool: &SqlitePool,
    session: SessionId,
    prompt: PromptUuid,
) -> Result<Option<TurnEnd>, QueryError> {
    let number: Option<i64> = sqlx::query_scalar(
        "SELECT max(turns.number) FROM turns, json_each(turns.prompts) AS answered
         WHERE turns.session_id = ?1 AND answered.value = ?2",
    )
    .bind(session.to_string())
    .bind(prompt.to_string())
    .fetch_one(pool)
    .await?;
    match number {
        Some(number) => Ok(read_turns(pool, session, (number, number), 1)
            .await?
            .into_iter()
            .next()),
        None => Ok(None),
    }
}

/// At most `limit` turns with numbers from `first` to `last`, with their models.
async fn read_turns(
    pool: &SqlitePool,
    session: SessionId,
    (first, last): (i64, i64),
    limit: i64,
) -> Result<Vec<TurnEnd>, QueryError> {
    let rows = sqlx::query(
        "SELECT * FROM turns WHERE session_id = ?1 AND number BETWEEN ?2 AND ?3 ORDER BY number LIMIT ?4",
    )
    .bind(session.to_string())
    .bind(first)
    .bind(last)
    .bind(limit)
    .fetch_all(pool)
    .await?;
    let mut turns: Vec<TurnEnd> = rows.iter().map(turn_end).collect::<Result<_, _>>()?;
    let (Some(lowest), Some(highest)) = (turns.first(), turns.last()) else {
        return Ok(turns);
    };
    // A turn and its models are committed together, so a turn that was read has its models too.
    let rows = sqlx::query(
        "SELECT * FROM turn_models WHERE session_id = ?1 AND number BETWEEN ?2 AND ?3 ORDER BY number, position",
    )
    .bind(session.to_string())
    .bind(integer(lowest.number))
    .bind(integer(highest.number))
    .fetch_all(pool)
    .await?;
    let mut models: HashMap<u64, Vec<ModelUsage>> = HashMap::new();
    for row in &rows {
        let columns = Columns {
            table: "turn_models",
            row,
        };
        models
            .entry(columns.count("number")?)
            .or_default()
            .push(columns.model_usage()?);
    }
    for turn in &mut turns {
        turn.models = models.remove(&turn.number).unwrap_or_default();
    }
    Ok(turns)
}

fn turn_end(row: &SqliteRow) -> Result<TurnEnd, QueryError> {
    let columns = Columns { table: "turns", row };
    let (subtype, is_error): (String, bool) = (columns.get("subtype")?, columns.get("is_error")?);
    let outcome: Option<String> = columns.get("outcome")?;
    Ok(TurnEnd {
        number: columns.count("number")?,
        run_id: columns.parsed("run_id")?,
        first_seq: columns.seq("first_seq")?,
        last_seq: columns.seq("last_seq")?,
        started_at: columns.time("started_at")?,
        ended_at: columns.time("ended_at")?,
        prompts: columns.json("prompts")?,
        origin: columns.get("origin")?,
        outcome: outcome.unwrap_or_else(|| TurnEnd::outcome_of(&subtype, is_error).to_owned()),
        subtype,
        is_error,
        terminal_reason: columns.get("terminal_reason")?,
        num_turns: columns.count_opt("num_turns")?,
        duration_ms: columns.count_opt("duration_ms")?,
        duration_api_ms: columns.count_opt("duration_api_ms")?,
        service_tier: columns.get("service_tier")?,
        cost_usd: columns.usd_opt("cost_nanos")?,
        usage: columns.tokens_opt()?,
        models: Vec::new(),
    })
}

pub(super) async fn runs(pool: &SqlitePool, session: SessionId) -> Result<Vec<RunRow>, QueryError> {
    let rows = sqlx::query("SELECT * FROM runs WHERE session_id = ?1 ORDER BY started_seq")
        .bind(session.to_string())
        .fetch_all(pool)
        .await?;
    rows.iter().map(run).collect()
}

fn run(row: &SqliteRow) -> Result<RunRow, QueryError> {
    let columns = Columns { table: "runs", row };
    let ended = match columns.time_opt("exited_at")? {
        None => None,
        Some(at) => Some(RunEnd {
            at,
            exit: RunExit {
                code: columns.get("exit_code")?,
                signal: columns.get("exit_signal")?,
                intent: columns.named("exit_intent")?,
                killed: columns.get("exit_killed")?,
                stderr_tail: columns.get("exit_stderr_tail")?,
                spawn_error: columns.get("exit_spawn_error")?,
                unwritten_lines: columns.get("exit_unwritten_lines")?,
                stop_steps: columns.json("exit_stop_steps")?,
            },
        }),
    };
    Ok(RunRow {
        id: columns.parsed("id")?,
        session: columns.parsed("session_id")?,
        mode: columns.named("mode")?,
        started_seq: columns.seq("started_seq")?,
        started_at: columns.time("started_at")?,
        ready_at: columns.time_opt("ready_at")?,
        cli_version: columns.get("cli_version")?,
        ended,
    })
}

pub(super) async fn prompts(
    pool: &SqlitePool,
    session: SessionId,
    states: &[PromptState],
) -> Result<Vec<PromptRow>, QueryError> {
    let mut query = QueryBuilder::<Sqlite>::new("SELECT * FROM prompts WHERE session_id = ");
    query.push_bind(session.to_string());
    if !states.is_empty() {
        query.push(" AND state IN (");
        let mut names = query.separated(", ");
        for state in states {
            names.push_bind(state.as_str());
        }
        query.push(")");
    }
    query.push(" ORDER BY seq, uuid");
    let rows = query.build().fetch_all(pool).await?;
    rows.iter().map(prompt_row).collect()
}

pub(super) async fn prompts_before(
    pool: &SqlitePool,
    session: SessionId,
    before: Seq,
) -> Result<Vec<(PromptUuid, Seq)>, QueryError> {
    let rows = sqlx::query("SELECT uuid, seq FROM prompts WHERE session_id = ?1 AND seq < ?2 ORDER BY seq")
        .bind(session.to_string())
        .bind(integer(before.get()))
        .fetch_all(pool)
        .await?;
    rows.iter()
        .map(|row| {
            let columns = Columns {
                table: "prompts",
                row,
            };
            Ok((columns.parsed("uuid")?, columns.seq("seq")?))
        })
        .collect()
}

pub(super) async fn prompt(
    pool: &SqlitePool,
    session: SessionId,
    uuid: PromptUuid,
) -> Result<Option<PromptRow>, QueryError> {
    let row = sqlx::query("SELECT * FROM prompts WHERE session_id = ?1 AND uuid = ?2")
        .bind(session.to_string())
        .bind(uuid.to_string())
        .fetch_optional(pool)
        .await?;
    row.map(|row| prompt_row(&row)).transpose()
}

fn prompt_row(row: &SqliteRow) -> Result<PromptRow, QueryError> {
    let columns = Columns {
        table: "prompts",
        row,
    };
    Ok(PromptRow {
        uuid: columns.parsed("uuid")?,
        state: columns.named("state")?,
        text: columns.get("text")?,
        seq: columns.seq("seq")?,
        at: columns.time("at")?,
        state_at: columns.time("state_at")?,
    })
}

pub(super) async fn cli_sessions(
    pool: &SqlitePool,
    session: SessionId,
) -> Result<Vec<CliSessionSpan>, QueryError> {
    let rows = sqlx::query("SELECT * FROM cli_sessions WHERE session_id = ?1 ORDER BY position")
        .bind(session.to_string())
        .fetch_all(pool)
        .await?;
    rows.iter()
        .map(|row| {
            let columns = Columns {
                table: "cli_sessions",
                row,
            };
            Ok(CliSessionSpan {
                id: columns.parsed("cli_session_id")?,
                from: columns.time("from_at")?,
            })
        })
        .collect()
}

pub(super) async fn cli_totals(pool: &SqlitePool, id: CliSessionId) -> Result<Option<CliTotals>, QueryError> {
    // One statement, so that the total and its models are of the same moment.
    let rows = sqlx::query(
        "SELECT t.cost_nanos AS total_nanos, m.* FROM cli_totals t
         LEFT JOIN cli_total_models m ON m.cli_session_id = t.cli_session_id
         WHERE t.cli_session_id = ?1 ORDER BY m.position",
    )
    .bind(id.to_string())
    .fetch_all(pool)
    .await?;
    let mut totals = None;
    for row in &rows {
        let columns = Columns {
            table: "cli_total_models",
            row,
        };
        if totals.is_none() {
            totals = Some(CliTotals {
                cost_usd: columns.usd_opt("total_nanos")?,
                models: Vec::new(),
            });
        }
        if let Some(totals) = &mut totals
            && columns.get::<Option<i64>>("position")?.is_some()
        {
            totals.models.push(columns.model_usage()?);
        }
    }
    Ok(totals)
}
