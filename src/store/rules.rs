//! Owns the rows of rules.

use sqlx::{SqliteConnection, SqlitePool};

use super::{QueryError, column::Columns};
use crate::domain::{RuleSpec, SessionId};

/// The rules of a session, in their order.
pub(super) async fn of_session(pool: &SqlitePool, session: SessionId) -> Result<Vec<RuleSpec>, QueryError> {
    let rows = sqlx::query("SELECT rule FROM session_rules WHERE session_id = ?1 ORDER BY position")
        .bind(session.to_string())
        .fetch_all(pool)
        .await?;
    let table = "session_rules";
    rows.iter()
        .map(|row| Columns { table, row }.json("rule"))
        .collect()
}

/// Puts these rules in the place of all that a session has.
pub(super) async fn replace(
    connection: &mut SqliteConnection,
    session: SessionId,
    rules: &[RuleSpec],
) -> Result<(), QueryError> {
    sqlx::query("DELETE FROM session_rules WHERE session_id = ?1")
        .bind(session.to_string())
        .execute(&mut *connection)
        .await?;
    for (position, rule) in (0_i64..).zip(rules) {
        sqlx::query("INSERT INTO session_rules (session_id, position, rule) VALUES (?1, ?2, ?3)")
            .bind(session.to_string())
            .bind(position)
            // A rule is texts and numbers: it can always be written.
            .bind(serde_json::to_string(rule).unwrap_or_default())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
