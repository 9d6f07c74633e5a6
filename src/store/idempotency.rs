//! Owns the table of requests that carried an idempotency key: what began, how it ended, and for how long that is known.

use sqlx::{SqliteConnection, SqlitePool, sqlite::SqliteRow};

use super::{QueryError, column::Columns};
use crate::domain::{SessionId, Timestamp};

/// Most rows that one new request takes away. More than one, so that the table shrinks to what is kept.
const PRUNE_STEP: i64 = 32;

/// The name that a client gives one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The client's key, unique for the method and path.
    pub key: String,
}

/// The SHA-256 of everything that a repeat must have in common with the first request.
pub type RequestDigest = [u8; 32];

/// A request that was seen before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedRequest {
    /// The digest of the first request.
    pub digest: RequestDigest,
    /// How it ended; `None` while it runs, and for ever when nobody could write down its end.
    pub end: Option<KeyedEnd>,
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedEnd {
    /// The HTTP status of the answer.
    pub status: u16,
    /// The rest of the answer; `None` when it was too large to keep or its session is deleted.
    pub answer: Option<KeptAnswer>,
}

/// An answer, to be given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The media type of the body.
    pub content_type: Option<String>,
    /// The path of what the request made.
    pub location: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// A request that ended, to be written down.
#[derive(Clone, Debug)]
pub struct EndedRequest {
    /// Its key.
    pub key: RequestKey,
    /// Its digest.
    pub digest: RequestDigest,
    /// When it ended.
    pub at: Timestamp,
    /// The session that the answer tells about. When that is gone already, the answer is not kept.
    pub session: Option<SessionId>,
    /// How it ended.
    pub end: KeyedEnd,
}

/// Writes down that a request begins; `false` when its key was used since `keep_from`. An older key is forgotten.
pub(super) async fn begin(
    connection: &mut SqliteConnection,
    key: &RequestKey,
    digest: &RequestDigest,
    at: Timestamp,
    keep_from: Timestamp,
) -> Result<bool, QueryError> {
    sqlx::query(
        "DELETE FROM idempotency_keys WHERE rowid IN (
            SELECT rowid FROM idempotency_keys WHERE at < ?1 ORDER BY at LIMIT ?2)",
    )
    .bind(keep_from.as_micros())
    .bind(PRUNE_STEP)
    .execute(&mut *connection)
    .await?;
    // The row of this very key may be old and yet not among those.
    sqlx::query("DELETE FROM idempotency_keys WHERE method = ?1 AND path = ?2 AND key = ?3 AND at < ?4")
        .bind(&key.method)
        .bind(&key.path)
        .bind(&key.key)
        .bind(keep_from.as_micros())
        .execute(&mut *connection)
        .await?;
    let added = sqlx::query(
        "INSERT INTO idempotency_keys (method, path, key, digest, at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (method, path, key) DO NOTHING",
    )
    .bind(&key.method)
    .bind(&key.path)
    .bind(&key.key)
    .bind(digest.as_slice())
    .bind(at.as_micros())
    .execute(connection)
    .await?
    .rows_affected();
    Ok(added > 0)
}

/// Writes down how a request ended.
pub(super) async fn end(connection: &mut SqliteConnection, ended: &EndedRequest) -> Result<(), QueryError> {
    let answer = ended.end.answer.as_ref();
    // A request may take longer than rows are kept, so its row may be gone.
    sqlx::query(
        "INSERT INTO idempotency_keys (method, path, key, digest, at, session_id, status, content_type, location, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT (method, path, key) DO UPDATE SET digest = excluded.digest, at = excluded.at,
            session_id = excluded.session_id, status = excluded.status, content_type = excluded.content_type,
            location = excluded.location, body = excluded.body",
    )
    .bind(&ended.key.method)
    .bind(&ended.key.path)
    .bind(&ended.key.key)
    .bind(ended.digest.as_slice())
    .bind(ended.at.as_micros())
    .bind(ended.session.map(|id| id.to_string()))
    .bind(ended.end.status)
    .bind(answer.and_then(|answer| answer.content_type.as_deref()))
    .bind(answer.and_then(|answer| answer.location.as_deref()))
    .bind(answer.map(|answer| answer.body.as_slice()))
    .execute(&mut *connection)
    .await?;
    if let Some(session) = ended.session {
        sqlx::query(
            "UPDATE idempotency_keys SET content_type = NULL, location = NULL, body = NULL
             WHERE session_id = ?1 AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = ?1)",
        )
        .bind(session.to_string())
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Forgets a request that did nothing; `false` when it is not known.
pub(super) async fn forget(connection: &mut SqliteConnection, key: &RequestKey) -> Result<bool, QueryError> {
    let removed = sqlx::query("DELETE FROM idempotency_keys WHERE method = ?1 AND path = ?2 AND key = ?3")
        .bind(&key.method)
        .bind(&key.path)
        .bind(&key.key)
        .execute(connection)
        .await?
        .rows_affected();
    Ok(removed > 0)
}

/// Takes away what was answered about a session. The keys stay, so that the requests are known to have been carried
/// out.
pub(super) async fn drop_answers(connection: &mut SqliteConnection, session: &str) -> Result<(), QueryError> {
    sqlx::query(
        "UPDATE idempotency_keys SET content_type = NULL, location = NULL, body = NULL WHERE session_id = ?1",
    )
    .bind(session)
    .execute(connection)
    .await?;
    Ok(())
}

/// The request with this key.
pub(super) async fn find(pool: &SqlitePool, key: &RequestKey) -> Result<Option<KeyedRequest>, QueryError> {
    let row = sqlx::query(
        "SELECT digest, status, content_type, location, body FROM idempotency_keys
         WHERE method = ?1 AND path = ?2 AND key = ?3",
    )
    .bind(&key.method)
    .bind(&key.path)
    .bind(&key.key)
    .fetch_optional(pool)
    .await?;
    row.map(|row| keyed_request(&row)).transpose()
}

fn keyed_request(row: &SqliteRow) -> Result<KeyedRequest, QueryError> {
    let columns = Columns {
        table: "idempotency_keys",
        row,
    };
    let digest: &[u8] = columns.get("digest")?;
    let digest = digest.try_into().map_err(|_| columns.corrupt("digest"))?;
    let status: Option<i64> = columns.get("status")?;
    let Some(status) = status else {
        return Ok(KeyedRequest { digest, end: None });
    };
    let status = u16::try_from(status).map_err(|_| columns.corrupt("status"))?;
    let body: Option<Vec<u8>> = columns.get("body")?;
    let answer = match body {
        Some(body) => Some(KeptAnswer {
            content_type: columns.get("content_type")?,
            location: columns.get("location")?,
            body,
        }),
        None => None,
    };
    Ok(KeyedRequest {
        digest,
        end: Some(KeyedEnd { status, answer }),
    })
}
