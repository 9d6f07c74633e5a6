//! Owns the rows of limits: what the CLI of each session last said about the limits of its account.

use sqlx::{SqliteConnection, SqlitePool, sqlite::SqliteRow};

use super::{
    QueryError,
    column::{Columns, integer},
};
use crate::domain::{RateLimit, SessionId};

/// The limits of one session that are kept; what was said longest ago goes first.
const MOST_LIMITS: i64 = 32;
/// The limits that are listed.
const MOST_LISTED: i64 = 100;

/// Puts what was said in the place of what was said before about the same limit.
pub(super) async fn said(
    connection: &mut SqliteConnection,
    session: SessionId,
    limit: &RateLimit,
) -> Result<(), QueryError> {
    sqlx::query(
        "INSERT INTO rate_limits (session_id, kind, at, seq, said) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (session_id, kind) DO UPDATE SET at = excluded.at, seq = excluded.seq, said = excluded.said",
    )
    .bind(session.to_string())
    .bind(limit.kind.as_deref().unwrap_or_default())
    .bind(limit.at.as_micros())
    .bind(integer(limit.seq.get()))
    // It was read from JSON: it can always be written.
    .bind(serde_json::to_string(limit).unwrap_or_default())
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "DELETE FROM rate_limits WHERE session_id = ?1 AND seq <=
            (SELECT seq FROM rate_limits WHERE session_id = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
    )
    .bind(session.to_string())
    .bind(MOST_LIMITS)
    .execute(connection)
    .await?;
    Ok(())
}

/// The last words about each limit, with their session; the newest come first.
pub(super) async fn newest(pool: &SqlitePool) -> Result<Vec<(SessionId, RateLimit)>, QueryError> {
    // Beside `max` SQLite takes the other columns from the row that has it.
    let rows = sqlx::query(
        "SELECT session_id, said, max(at) AS at FROM rate_limits GROUP BY kind ORDER BY at DESC, kind LIMIT ?1",
    )
    .bind(MOST_LISTED)
    .fetch_all(pool)
    .await?;
    let read = |row: &SqliteRow| {
        let columns = Columns {
            table: "rate_limits",
            row,
        };
        Ok((columns.parsed("session_id")?, columns.json("said")?))
    };
    rows.iter().map(read).collect()
}
