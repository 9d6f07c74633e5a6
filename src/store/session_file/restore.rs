//! Owns the way from the file of a session to its rows, in a database that is made again.

use sqlx::SqliteConnection;

use super::{RunningTotal, SessionFile};
use crate::{
    domain::{AgentKind, SessionId, SessionState},
    store::{
        QueryError,
        apply::set_total,
        column::{integer, token_integers},
        lists::List,
    },
};

/// A step of making the rows of sessions again.
pub(in crate::store) enum Restore {
    /// Adds the rows of a session, before its journal is read.
    Add(Box<SessionFile>),
    /// The file holds now: its journal was read as far as it had been when the file was written.
    Hold(Box<SessionFile>),
    /// Says which sessions are forks of which, once all are there.
    Parents(Vec<(SessionId, SessionId)>),
    /// Adds what belongs to no session.
    List(List, String),
}

/// Does a step; `false` when the session is there already.
pub(in crate::store) async fn restore(
    connection: &mut SqliteConnection,
    step: Restore,
) -> Result<bool, QueryError> {
    match step {
        Restore::Add(file) => add(connection, &file).await,
        Restore::Hold(file) => hold(connection, &file).await.map(|()| true),
        Restore::List(list, rows) => list.restore(connection, &rows).await.map(|()| true),
        Restore::Parents(forks) => {
            for (fork, parent) in forks {
                // A parent that was deleted is none.
                sqlx::query(
                    "UPDATE sessions SET parent_id = ?2
                     WHERE id = ?1 AND EXISTS (SELECT 1 FROM sessions WHERE id = ?2)",
                )
                .bind(fork.to_string())
                .bind(parent.to_string())
                .execute(&mut *connection)
                .await?;
            }
            Ok(true)
        }
    }
}

async fn add(connection: &mut SqliteConnection, file: &SessionFile) -> Result<bool, QueryError> {
    let id = file.id.to_string();
    let first = file.conversations.first();
    let added = sqlx::query(
        "INSERT INTO sessions (id, cwd, tag, options, forked_at, forked_from, state, cli_session_id, created_at,
            updated_at, restart, put_off, queued_prompts, revision, title, agent, fork_of, untold)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(&id)
    .bind(&file.cwd)
    .bind(&file.tag)
    .bind(&file.options.0)
    .bind(file.forked_at.map(|id| id.to_string()))
    .bind(file.forked_from.map(|id| id.to_string()))
    .bind(SessionState::Starting.as_str())
    .bind(first.map(|first| first.id.to_string()).unwrap_or_default())
    .bind(file.created_at.as_micros())
    .bind(file.restart.as_ref().map(|json| &json.0))
    .bind(file.put_off.as_ref().map(|json| &json.0))
    .bind(integer(file.queued_prompts.len() as u64))
    .bind(integer(file.revision))
    .bind(&file.title)
    .bind(file.agent.map(AgentKind::as_str))
    .bind(file.fork_of.or(file.parent).map(|id| id.to_string()))
    .bind(file.untold)
    .execute(&mut *connection)
    .await?
    .rows_affected();
    if added == 0 {
        return Ok(false);
    }
    if let Some(first) = first {
        sqlx::query(
            "INSERT INTO cli_sessions (session_id, position, cli_session_id, from_at) VALUES (?1, 1, ?2, ?3)",
        )
        .bind(&id)
        .bind(first.id.to_string())
        .bind(first.from.as_micros())
        .execute(&mut *connection)
        .await?;
    }
    for (key, value) in &file.labels {
        sqlx::query("INSERT INTO session_labels (session_id, key, value) VALUES (?1, ?2, ?3)")
            .bind(&id)
            .bind(key)
            .bind(value)
            .execute(&mut *connection)
            .await?;
    }
    for (position, rule) in (0_i64..).zip(&file.rules) {
        sqlx::query("INSERT INTO session_rules (session_id, position, rule) VALUES (?1, ?2, ?3)")
            .bind(&id)
            .bind(position)
            .bind(&rule.0)
            .execute(&mut *connection)
            .await?;
    }
    for prompt in &file.queued_prompts {
        sqlx::query(
            "INSERT INTO queued_prompts (session_id, position, uuid, body, held, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )
        .bind(&id)
        .bind(integer(prompt.position))
        .bind(prompt.uuid.to_string())
        .bind(&prompt.body.0)
        .bind(prompt.held)
        .bind(prompt.at.as_micros())
        .execute(&mut *connection)
        .await?;
    }
    Ok(true)
}

/// Puts what the file says in the place of what the journal said up to there. Sums never fall: where records are missing, the file
/// knows more.
async fn hold(connection: &mut SqliteConnection, file: &SessionFile) -> Result<(), QueryError> {
    let id = file.id.to_string();
    let [
        input,
        output,
        cache_read,
        cache_creation,
        cache_5m,
        cache_1h,
        searches,
    ] = token_integers(file.totals.usage);
    sqlx::query(
        "UPDATE sessions SET title = ?2, options = ?3, first_prompt = ifnull(?4, first_prompt),
            agent = ifnull(?5, agent), updated_at = max(updated_at, ?6), seen_seq = ?7, turns = max(turns, ?8),
            cost_nanos = max(cost_nanos, ?9), unknown_cost_turns = max(unknown_cost_turns, ?10),
            input_tokens = max(input_tokens, ?11), output_tokens = max(output_tokens, ?12),
            cache_read_tokens = max(cache_read_tokens, ?13), cache_creation_tokens = max(cache_creation_tokens, ?14),
            projected_seq = max(projected_seq, ?15), cache_creation_5m_tokens = max(cache_creation_5m_tokens, ?16),
            cache_creation_1h_tokens = max(cache_creation_1h_tokens, ?17), web_searches = max(web_searches, ?18),
            started_options = ?19, mode_of_options = ?20
         WHERE id = ?1",
    )
    .bind(&id)
    .bind(&file.title)
    .bind(&file.options.0)
    .bind(&file.first_prompt)
    .bind(file.agent.map(AgentKind::as_str))
    .bind(file.updated_at.as_micros())
    .bind(integer(file.seen_seq.get()))
    .bind(integer(file.totals.turns))
    .bind(file.totals.cost_usd.as_nanos())
    .bind(integer(file.totals.unknown_cost_turns))
    .bind(input)
    .bind(output)
    .bind(cache_read)
    .bind(cache_creation)
    .bind(integer(file.as_of_seq.get()))
    .bind(cache_5m)
    .bind(cache_1h)
    .bind(searches)
    .bind(file.started_options.as_ref().map(|json| &json.0))
    .bind(file.mode_of_options)
    .execute(&mut *connection)
    .await?;
    if let Some(current) = file.conversations.last() {
        sqlx::query("UPDATE sessions SET cli_session_id = ?2 WHERE id = ?1")
            .bind(&id)
            .bind(current.id.to_string())
            .execute(&mut *connection)
            .await?;
        sqlx::query("DELETE FROM cli_sessions WHERE session_id = ?1")
            .bind(&id)
            .execute(&mut *connection)
            .await?;
    }
    for (position, conversation) in (1_i64..).zip(&file.conversations) {
        sqlx::query("INSERT INTO cli_sessions (session_id, position, cli_session_id, from_at) VALUES (?1, ?2, ?3, ?4)")
            .bind(&id)
            .bind(position)
            .bind(conversation.id.to_string())
            .bind(conversation.from.as_micros())
            .execute(&mut *connection)
            .await?;
    }
    let current = file.conversations.last().map(|current| current.id);
    for RunningTotal { conversation, totals } in &file.running_totals {
        // Another session may have gone on with the others, and says more of them.
        let is_known = || {
            sqlx::query_scalar::<_, i64>("SELECT 1 FROM cli_totals WHERE cli_session_id = ?1")
                .bind(conversation.to_string())
        };
        if Some(*conversation) == current || is_known().fetch_optional(&mut *connection).await?.is_none() {
            set_total(connection, *conversation, totals).await?;
        }
    }
    Ok(())
}
