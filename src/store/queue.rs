//! Owns the messages that wait in the daemon for their session.

use sqlx::{SqliteConnection, SqlitePool};

use super::{QueryError, column::Columns};
use crate::domain::{PromptUuid, QueuedPrompt, SessionId};

/// A change of the messages that wait.
#[derive(Clone, Debug)]
pub(super) enum QueueEdit {
    /// Adds one at the end.
    Add(QueuedPrompt),
    /// Changes one.
    Change {
        uuid: PromptUuid,
        body: Option<String>,
        held: Option<bool>,
    },
    /// Removes one.
    Remove(PromptUuid),
}

/// The messages of a session that wait, in their order.
pub(super) async fn list(pool: &SqlitePool, session: SessionId) -> Result<Vec<QueuedPrompt>, QueryError> {
    let rows = sqlx::query("SELECT * FROM queued_prompts WHERE session_id = ?1 ORDER BY position")
        .bind(session.to_string())
        .fetch_all(pool)
        .await?;
    let read = |row| {
        let columns = Columns {
            table: "queued_prompts",
            row,
        };
        Ok(QueuedPrompt {
            uuid: columns.parsed("uuid")?,
            body: columns.get("body")?,
            held: columns.get("held")?,
            at: columns.time("at")?,
        })
    };
    rows.iter().map(read).collect()
}

/// The sessions for which messages wait.
pub(super) async fn sessions(pool: &SqlitePool) -> Result<Vec<SessionId>, QueryError> {
    let rows = sqlx::query("SELECT DISTINCT session_id FROM queued_prompts")
        .fetch_all(pool)
        .await?;
    let read = |row| {
        let columns = Columns {
            table: "queued_prompts",
            row,
        };
        columns.parsed("session_id")
    };
    rows.iter().map(read).collect()
}

/// Changes the messages that wait; `false` when the session or the message is not there.
pub(super) async fn edit(
    connection: &mut SqliteConnection,
    session: SessionId,
    edit: QueueEdit,
) -> Result<bool, QueryError> {
    let id = session.to_string();
    let changed = match edit {
        QueueEdit::Add(prompt) => sqlx::query(
            "INSERT INTO queued_prompts (session_id, position, uuid, body, held, at)
             SELECT id, ifnull((SELECT max(position) FROM queued_prompts WHERE session_id = ?1), 0) + 1, ?2, ?3, ?4, ?5
             FROM sessions WHERE id = ?1",
        )
        .bind(&id)
        .bind(prompt.uuid.to_string())
        .bind(prompt.body)
        .bind(prompt.held)
        .bind(prompt.at.as_micros()),
        QueueEdit::Change { uuid, body, held } => sqlx::query(
            "UPDATE queued_prompts SET body = ifnull(?3, body), held = ifnull(?4, held)
             WHERE session_id = ?1 AND uuid = ?2",
        )
        .bind(&id)
        .bind(uuid.to_string())
        .bind(body)
        .bind(held),
        QueueEdit::Remove(uuid) => {
            sqlx::query("DELETE FROM queued_prompts WHERE session_id = ?1 AND uuid = ?2")
                .bind(&id)
                .bind(uuid.to_string())
        }
    };
    let changed = changed.execute(&mut *connection).await?.rows_affected();
    sqlx::query(
        "UPDATE sessions SET queued_prompts = (SELECT count(*) FROM queued_prompts WHERE session_id = ?1) WHERE id = ?1",
    )
    .bind(&id)
    .execute(connection)
    .await?;
    Ok(changed > 0)
}
