//! Owns the table of logins: who was let in, and what their secrets are compared with.

use sqlx::{SqliteConnection, SqlitePool, sqlite::SqliteRow};

use super::{QueryError, column::Columns};
use crate::domain::{Login, LoginId, Timestamp};

/// The table, for complaints about it.
const TABLE: &str = "logins";

/// A login with the SHA-256 of its two secrets.
#[derive(Clone)]
pub struct LoginRow {
    /// The login.
    pub login: Login,
    /// The hash of the half in the cookie.
    pub cookie_digest: [u8; 32],
    /// The hash of the half that the page keeps.
    pub key_digest: [u8; 32],
}

impl std::fmt::Debug for LoginRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginRow")
            .field("login", &self.login)
            .finish_non_exhaustive()
    }
}

/// A write about logins.
pub(super) enum LoginEdit {
    Insert(Box<LoginRow>),
    Used(LoginId, Timestamp),
    Delete(LoginId),
    /// Forgets those that were not used since.
    Prune(Timestamp),
}

/// Carries out a write; `false` when the login was not there.
pub(super) async fn edit(connection: &mut SqliteConnection, edit: LoginEdit) -> Result<bool, QueryError> {
    let query = match edit {
        LoginEdit::Insert(row) => sqlx::query(
            "INSERT INTO logins (id, role, name, cookie_digest, key_digest, created_at, last_used_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .bind(row.login.id.to_string())
        .bind(row.login.role.as_str())
        .bind(row.login.name)
        .bind(row.cookie_digest.to_vec())
        .bind(row.key_digest.to_vec())
        .bind(row.login.created_at.as_micros())
        .bind(row.login.last_used_at.as_micros()),
        LoginEdit::Used(id, at) => {
            sqlx::query("UPDATE logins SET last_used_at = max(last_used_at, ?2) WHERE id = ?1")
                .bind(id.to_string())
                .bind(at.as_micros())
        }
        LoginEdit::Delete(id) => sqlx::query("DELETE FROM logins WHERE id = ?1").bind(id.to_string()),
        LoginEdit::Prune(from) => {
            sqlx::query("DELETE FROM logins WHERE last_used_at <= ?1").bind(from.as_micros())
        }
    };
    Ok(query.execute(connection).await?.rows_affected() > 0)
}

/// All logins, the oldest first. A damaged row lets nobody in, and is left out.
pub(super) async fn list(pool: &SqlitePool) -> Result<Vec<LoginRow>, QueryError> {
    let rows = sqlx::query("SELECT * FROM logins ORDER BY created_at, id")
        .fetch_all(pool)
        .await?;
    let readable = rows.iter().filter_map(|row| match read(row) {
        Ok(row) => Some(row),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a login cannot be read");
            None
        }
    });
    Ok(readable.collect())
}

fn read(row: &SqliteRow) -> Result<LoginRow, QueryError> {
    let columns = Columns { table: TABLE, row };
    let digest = |column| {
        let bytes: Vec<u8> = columns.get(column)?;
        <[u8; 32]>::try_from(bytes).map_err(|_| columns.corrupt(column))
    };
    Ok(LoginRow {
        login: Login {
            id: columns.parsed("id")?,
            role: columns.named("role")?,
            name: columns.get("name")?,
            created_at: columns.time("created_at")?,
            last_used_at: columns.time("last_used_at")?,
        },
        cookie_digest: digest("cookie_digest")?,
        key_digest: digest("key_digest")?,
    })
}
