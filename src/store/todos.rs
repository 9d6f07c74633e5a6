//! Owns the rows of to-do lists.

use sqlx::{SqliteConnection, SqlitePool};

use super::{
    QueryError, TodoRow,
    column::{Columns, integer},
};
use crate::domain::{Seq, SessionId, Timestamp, Todo, TodoChange};

/// Changes the list of a session.
pub(super) async fn change(
    connection: &mut SqliteConnection,
    session: SessionId,
    change: TodoChange,
    (seq, at): (Seq, Timestamp),
) -> Result<(), QueryError> {
    let items: Option<String> = sqlx::query_scalar("SELECT items FROM todos WHERE session_id = ?1")
        .bind(session.to_string())
        .fetch_optional(&mut *connection)
        .await?;
    // A list that was damaged begins anew: a failure here would hold back all other facts of the session.
    let mut list: Vec<Todo> = items
        .and_then(|items| serde_json::from_str(&items).ok())
        .unwrap_or_default();
    change.apply(&mut list);
    sqlx::query(
        "INSERT INTO todos (session_id, seq, at, items) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (session_id) DO UPDATE SET seq = excluded.seq, at = excluded.at, items = excluded.items",
    )
    .bind(session.to_string())
    .bind(integer(seq.get()))
    .bind(at.as_micros())
    // Entries are texts: they can always be written.
    .bind(serde_json::to_string(&list).unwrap_or_default())
    .execute(connection)
    .await?;
    Ok(())
}

/// The list of a session; `None` when no tool ever wrote one.
pub(super) async fn of_session(pool: &SqlitePool, session: SessionId) -> Result<Option<TodoRow>, QueryError> {
    let row = sqlx::query("SELECT * FROM todos WHERE session_id = ?1")
        .bind(session.to_string())
        .fetch_optional(pool)
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let columns = Columns {
        table: "todos",
        row: &row,
    };
    Ok(Some(TodoRow {
        items: columns.json("items")?,
        seq: columns.seq("seq")?,
        at: columns.time("at")?,
    }))
}
