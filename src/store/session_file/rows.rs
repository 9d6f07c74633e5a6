//! Owns the way from the rows of a session to its file.

use sqlx::{SqliteConnection, sqlite::SqliteRow};

use super::{Conversation, FORM, JsonText, RunningTotal, SessionFile, Totals, WaitingPrompt};
use crate::{
    domain::{SessionId, fact::CliTotals},
    store::{QueryError, column::Columns, edit::stored_labels},
};

/// The content of the next file of a session, and its revision; `None` when there is no such session.
pub(super) async fn next_file(
    connection: &mut SqliteConnection,
    id: SessionId,
) -> Result<Option<SessionFile>, QueryError> {
    let query = sqlx::query("UPDATE sessions SET revision = revision + 1 WHERE id = ?1 RETURNING *");
    let row = query.bind(id.to_string()).fetch_all(&mut *connection).await?;
    let Some(row) = row.first() else {
        return Ok(None);
    };
    let columns = Columns {
        table: "sessions",
        row,
    };
    let json = |column| {
        columns
            .get::<Option<String>>(column)
            .map(|text| text.map(JsonText))
    };
    Ok(Some(SessionFile {
        form: FORM,
        revision: columns.count("revision")?,
        id,
        as_of_seq: columns.seq("projected_seq")?,
        cwd: columns.get("cwd")?,
        title: columns.get("title")?,
        tag: columns.get("tag")?,
        labels: stored_labels(connection, id).await?,
        first_prompt: columns.get("first_prompt")?,
        options: JsonText(columns.get("options")?),
        started_options: json("started_options")?,
        mode_of_options: columns.get("mode_of_options")?,
        rules: rules(connection, id).await?,
        restart: json("restart")?,
        parent: columns.parsed_opt("parent_id")?,
        untold: columns.get("untold")?,
        fork_of: columns.parsed_opt("fork_of")?,
        forked_from: columns.parsed_opt("forked_from")?,
        forked_at: columns.parsed_opt("forked_at")?,
        agent: columns.named_opt("agent")?,
        created_at: columns.time("created_at")?,
        updated_at: columns.time("updated_at")?,
        seen_seq: columns.seq("seen_seq")?,
        put_off: json("put_off")?,
        queued_prompts: queued_prompts(connection, id).await?,
        conversations: conversations(connection, id).await?,
        totals: Totals {
            turns: columns.count("turns")?,
            cost_usd: columns.usd("cost_nanos")?,
            unknown_cost_turns: columns.count("unknown_cost_turns")?,
            usage: columns.tokens()?,
        },
        running_totals: running_totals(connection, id).await?,
    }))
}

/// The revision of the file that the rows of a session stand for; `None` when there is no such session.
pub(super) async fn revision(
    connection: &mut SqliteConnection,
    id: SessionId,
) -> Result<Option<u64>, QueryError> {
    let query = sqlx::query_scalar::<_, i64>("SELECT revision FROM sessions WHERE id = ?1");
    let revision = query.bind(id.to_string()).fetch_optional(connection).await?;
    Ok(revision.map(|revision| u64::try_from(revision).unwrap_or_default()))
}

async fn rules(connection: &mut SqliteConnection, id: SessionId) -> Result<Vec<JsonText>, QueryError> {
    let query = "SELECT rule FROM session_rules WHERE session_id = ?1 ORDER BY position";
    let rules = sqlx::query_scalar::<_, String>(query)
        .bind(id.to_string())
        .fetch_all(connection)
        .await?;
    Ok(rules.into_iter().map(JsonText).collect())
}

async fn queued_prompts(
    connection: &mut SqliteConnection,
    id: SessionId,
) -> Result<Vec<WaitingPrompt>, QueryError> {
    let rows = sqlx::query("SELECT * FROM queued_prompts WHERE session_id = ?1 ORDER BY position")
        .bind(id.to_string())
        .fetch_all(connection)
        .await?;
    let read = |row| {
        let columns = Columns {
            table: "queued_prompts",
            row,
        };
        Ok(WaitingPrompt {
            position: columns.count("position")?,
            uuid: columns.parsed("uuid")?,
            body: JsonText(columns.get("body")?),
            held: columns.get("held")?,
            at: columns.time("at")?,
        })
    };
    rows.iter().map(read).collect()
}

async fn conversations(
    connection: &mut SqliteConnection,
    id: SessionId,
) -> Result<Vec<Conversation>, QueryError> {
    let rows = sqlx::query("SELECT * FROM cli_sessions WHERE session_id = ?1 ORDER BY position")
        .bind(id.to_string())
        .fetch_all(connection)
        .await?;
    let read = |row| {
        let columns = Columns {
            table: "cli_sessions",
            row,
        };
        Ok(Conversation {
            id: columns.parsed("cli_session_id")?,
            from: columns.time("from_at")?,
        })
    };
    rows.iter().map(read).collect()
}

/// A fork needs those of its parent's conversation, also once the parent is deleted.
async fn running_totals(
    connection: &mut SqliteConnection,
    id: SessionId,
) -> Result<Vec<RunningTotal>, QueryError> {
    let rows = sqlx::query(
        "SELECT t.cli_session_id AS conversation, t.cost_nanos AS total_nanos, m.* FROM cli_totals t
         LEFT JOIN cli_total_models m ON m.cli_session_id = t.cli_session_id
         WHERE t.cli_session_id IN (
            SELECT cli_session_id FROM cli_sessions WHERE session_id = ?1
            UNION SELECT forked_from FROM sessions WHERE id = ?1
         )
         ORDER BY t.cli_session_id, m.position",
    )
    .bind(id.to_string())
    .fetch_all(connection)
    .await?;
    let mut totals: Vec<RunningTotal> = Vec::new();
    for row in &rows {
        add_total(row, &mut totals)?;
    }
    Ok(totals)
}

/// Adds the total of a row, or a model to the total that was added last.
fn add_total(row: &SqliteRow, totals: &mut Vec<RunningTotal>) -> Result<(), QueryError> {
    let columns = Columns {
        table: "cli_total_models",
        row,
    };
    let conversation = columns.parsed("conversation")?;
    if totals.last().is_none_or(|last| last.conversation != conversation) {
        totals.push(RunningTotal {
            conversation,
            totals: CliTotals {
                cost_usd: columns.usd_opt("total_nanos")?,
                models: Vec::new(),
            },
        });
    }
    if let Some(last) = totals.last_mut()
        && columns.get::<Option<i64>>("position")?.is_some()
    {
        last.totals.models.push(columns.model_usage()?);
    }
    Ok(())
}
