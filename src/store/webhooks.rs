//! Owns the rows of webhooks and of what waits for them.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use sqlx::{SqliteConnection, SqliteExecutor, SqlitePool, sqlite::SqliteRow};

use super::{
    QueryError,
    column::{Columns, integer},
};
use crate::domain::{
    AttentionReason, DeliveryId, MAX_WEBHOOKS, Secret, SessionId, Timestamp, WebhookId, WebhookSpec,
};

/// The table, for complaints about it.
const TABLE: &str = "webhooks";

/// A webhook to be added, or as the configuration has it.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    /// Its id.
    pub id: WebhookId,
    /// Its name in the configuration.
    pub name: Option<String>,
    /// Where it is, and what it is told.
    pub spec: WebhookSpec,
    /// The key of its signatures.
    pub secret: Secret,
    /// Whether it is told anything.
    pub enabled: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A change of a webhook. A part that is `None` here stays.
#[derive(Clone, Debug, Default)]
pub struct WebhookPatch {
    /// Where it is, and what it is told.
    pub spec: Option<WebhookSpec>,
    /// The key of its signatures.
    pub secret: Option<Secret>,
    /// Whether it is told anything.
    pub enabled: Option<bool>,
}

/// A webhook with what became of its deliveries.
#[derive(Clone, Debug)]
pub struct WebhookRow {
    /// Its id.
    pub id: WebhookId,
    /// Its name in the configuration; `None` when it was made over HTTP.
    pub name: Option<String>,
    /// Where it is, and what it is told.
    pub spec: WebhookSpec,
    /// The key of its signatures.
    pub secret: Secret,
    /// Whether it is told anything.
    pub enabled: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// The status of its last answer.
    pub last_status: Option<u64>,
    /// Why the last attempt failed; `None` when it did not.
    pub last_error: Option<String>,
    /// When it was tried last.
    pub last_attempt_at: Option<Timestamp>,
    /// Events that it took.
    pub delivered: u64,
    /// Events that it did not take, as often as they were sent.
    pub given_up: u64,
    /// Events that were not sent: too many waited, or it was disabled.
    pub dropped: u64,
    /// Events that wait.
    pub pending: u64,
}

/// An event on its way.
#[derive(Debug)]
pub struct WebhookDelivery {
    /// Its place in the queue.
    pub position: i64,
    /// Its id.
    pub id: DeliveryId,
    /// The one that gets it.
    pub webhook: WebhookId,
    /// Where that is.
    pub spec: WebhookSpec,
    /// The key of its signatures.
    pub secret: Secret,
    /// The session that it is about.
    pub session: SessionId,
    /// The name of the event.
    pub event: String,
    /// The whole body.
    pub body: Box<RawValue>,
    /// When it happened to be stored.
    pub created_at: Timestamp,
    /// How often it was sent.
    pub attempts: u64,
    /// When it is to be sent.
    pub next_at: Timestamp,
}

/// How an attempt to deliver ended.
#[derive(Clone, Debug)]
pub enum DeliveryEnd {
    /// The webhook took it.
    Delivered,
    /// It is sent again then.
    Later(Timestamp),
    /// It was sent often enough.
    GivenUp,
    /// The webhook wants no more.
    Gone,
}

/// An attempt that ended.
#[derive(Clone, Debug)]
pub struct DeliveryAttempt {
    /// To this webhook.
    pub webhook: WebhookId,
    /// The place of the event.
    pub position: i64,
    /// How it ended.
    pub end: DeliveryEnd,
    /// The status of the answer.
    pub status: Option<u16>,
    /// Why it failed.
    pub error: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// A write about webhooks.
#[derive(Debug)]
pub(super) enum WebhookEdit {
    Insert(NewWebhook),
    Configure(Vec<NewWebhook>),
    Change(WebhookId, WebhookPatch),
    Delete(WebhookId),
    Ended(DeliveryAttempt),
    Attention(SessionId, AttentionReason, Timestamp),
    Calm(SessionId),
    CalmOthers(Vec<SessionId>),
}

/// Carries out a write. The answer is whether the webhook was there; for a new one, whether there was room.
pub(super) async fn write(connection: &mut SqliteConnection, edit: WebhookEdit) -> Result<bool, QueryError> {
    match edit {
        WebhookEdit::Insert(webhook) => {
            let count: i64 = sqlx::query_scalar("SELECT count(*) FROM webhooks")
                .fetch_one(&mut *connection)
                .await?;
            if usize::try_from(count).is_ok_and(|count| count >= MAX_WEBHOOKS) {
                return Ok(false);
            }
            insert(connection, &webhook).await.map(|()| true)
        }
        WebhookEdit::Configure(webhooks) => configure(connection, webhooks).await.map(|()| true),
        WebhookEdit::Change(id, patch) => change(connection, id, patch).await,
        WebhookEdit::Delete(id) => {
            let deleted = sqlx::query("DELETE FROM webhooks WHERE id = ?1 AND name IS NULL")
                .bind(id.to_string())
                .execute(connection)
                .await?;
            Ok(deleted.rows_affected() > 0)
        }
        WebhookEdit::Ended(attempt) => ended(connection, attempt).await,
        WebhookEdit::Attention(session, reason, at) => {
            super::outbox::note_attention(connection, session, reason, at).await
        }
        WebhookEdit::Calm(session) => {
            sqlx::query("DELETE FROM webhook_attention WHERE session_id = ?1")
                .bind(session.to_string())
                .execute(connection)
                .await?;
            Ok(true)
        }
        WebhookEdit::CalmOthers(sessions) => {
            let sessions: Vec<String> = sessions.iter().map(ToString::to_string).collect();
            sqlx::query(
                "DELETE FROM webhook_attention WHERE session_id NOT IN (SELECT value FROM json_each(?1))",
            )
            // Ids are texts: they always have a JSON form.
            .bind(serde_json::to_string(&sessions).unwrap_or_default())
            .execute(connection)
            .await?;
            Ok(true)
        }
    }
}

async fn insert(connection: &mut SqliteConnection, webhook: &NewWebhook) -> Result<(), QueryError> {
    sqlx::query(
        "INSERT INTO webhooks (id, name, secret, spec, enabled, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )
    .bind(webhook.id.to_string())
    .bind(&webhook.name)
    .bind(webhook.secret.expose())
    .bind(spec_text(&webhook.spec))
    .bind(webhook.enabled)
    .bind(webhook.created_at.as_micros())
    .execute(connection)
    .await?;
    Ok(())
}

/// Makes the webhooks with a name those of the configuration. One that stays keeps its id, its counters and what waits for it.
async fn configure(connection: &mut SqliteConnection, webhooks: Vec<NewWebhook>) -> Result<(), QueryError> {
    let names: Vec<&str> = webhooks.iter().filter_map(|it| it.name.as_deref()).collect();
    // Names are texts: they always have a JSON form.
    let names = serde_json::to_string(&names).unwrap_or_default();
    sqlx::query(
        "DELETE FROM webhooks WHERE name IS NOT NULL AND name NOT IN (SELECT value FROM json_each(?1))",
    )
    .bind(names)
    .execute(&mut *connection)
    .await?;
    for webhook in webhooks {
        let known = sqlx::query("UPDATE webhooks SET secret = ?2, spec = ?3, enabled = 1 WHERE name = ?1")
            .bind(&webhook.name)
            .bind(webhook.secret.expose())
            .bind(spec_text(&webhook.spec))
            .execute(&mut *connection)
            .await?;
        if known.rows_affected() == 0 {
            insert(connection, &webhook).await?;
        }
    }
    Ok(())
}

async fn change(
    connection: &mut SqliteConnection,
    id: WebhookId,
    patch: WebhookPatch,
) -> Result<bool, QueryError> {
    let changed = sqlx::query(
        "UPDATE webhooks SET spec = ifnull(?2, spec), secret = ifnull(?3, secret), enabled = ifnull(?4, enabled)
         WHERE id = ?1 AND name IS NULL",
    )
    .bind(id.to_string())
    .bind(patch.spec.as_ref().map(spec_text))
    .bind(patch.secret.as_ref().map(|secret| secret.expose()))
    .bind(patch.enabled)
    .execute(&mut *connection)
    .await?;
    if patch.enabled == Some(false) {
        empty(connection, id).await?;
    }
    Ok(changed.rows_affected() > 0)
}

/// Drops what waits for a webhook that is told nothing any more.
async fn empty(connection: &mut SqliteConnection, id: WebhookId) -> Result<(), QueryError> {
    let dropped = sqlx::query("DELETE FROM webhook_deliveries WHERE webhook_id = ?1")
        .bind(id.to_string())
        .execute(&mut *connection)
        .await?;
    count_dropped(connection, &id.to_string(), dropped.rows_affected()).await
}

/// Events that were dropped since the start of the program.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// How many events were dropped since the start of the program, those of webhooks that are gone included.
pub(super) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

pub(super) async fn count_dropped(
    connection: &mut SqliteConnection,
    webhook: &str,
    count: u64,
) -> Result<(), QueryError> {
    if count > 0 {
        DROPPED.fetch_add(count, Ordering::Relaxed);
        sqlx::query("UPDATE webhooks SET dropped = dropped + ?2 WHERE id = ?1")
            .bind(webhook)
            .bind(integer(count))
            .execute(connection)
            .await?;
    }
    Ok(())
}

async fn ended(connection: &mut SqliteConnection, attempt: DeliveryAttempt) -> Result<bool, QueryError> {
    let (taken, given_up) = match attempt.end {
        DeliveryEnd::Delivered => (1, 0),
        DeliveryEnd::GivenUp => (0, 1),
        DeliveryEnd::Later(_) | DeliveryEnd::Gone => (0, 0),
    };
    let found = sqlx::query(
        "UPDATE webhooks SET last_status = ?2, last_error = ?3, last_attempt_at = ?4, delivered = delivered + ?5,
            given_up = given_up + ?6
         WHERE id = ?1",
    )
    .bind(attempt.webhook.to_string())
    .bind(attempt.status.map(i64::from))
    .bind(&attempt.error)
    .bind(attempt.at.as_micros())
    .bind(taken)
    .bind(given_up)
    .execute(&mut *connection)
    .await?;
    match attempt.end {
        DeliveryEnd::Later(next) => {
            sqlx::query(
                "UPDATE webhook_deliveries SET attempts = attempts + 1, next_at = ?2 WHERE position = ?1",
            )
            .bind(attempt.position)
            .bind(next.as_micros())
            .execute(connection)
            .await?;
        }
        DeliveryEnd::Delivered | DeliveryEnd::GivenUp => {
            sqlx::query("DELETE FROM webhook_deliveries WHERE position = ?1")
                .bind(attempt.position)
                .execute(connection)
                .await?;
        }
        DeliveryEnd::Gone => {
            sqlx::query("UPDATE webhooks SET enabled = 0 WHERE id = ?1")
                .bind(attempt.webhook.to_string())
                .execute(&mut *connection)
                .await?;
            empty(connection, attempt.webhook).await?;
        }
    }
    Ok(found.rows_affected() > 0)
}

/// The webhooks that are told anything, with what they are told. A row that cannot be read is left out: it must not hold up facts.
pub(super) async fn enabled(
    connection: &mut SqliteConnection,
) -> Result<Vec<(String, WebhookSpec)>, QueryError> {
    let rows: Vec<(String, String)> = sqlx::query_as("SELECT id, spec FROM webhooks WHERE enabled")
        .fetch_all(connection)
        .await?;
    let readable = rows
        .into_iter()
        .filter_map(|(id, spec)| Some((id, serde_json::from_str(&spec).ok()?)));
    Ok(readable.collect())
}

/// All webhooks, the oldest first.
pub(super) async fn list(pool: &SqlitePool) -> Result<Vec<WebhookRow>, QueryError> {
    let rows = sqlx::query(
        "SELECT *, (SELECT count(*) FROM webhook_deliveries WHERE webhook_id = webhooks.id) AS pending
         FROM webhooks ORDER BY created_at, id",
    )
    .fetch_all(pool)
    .await?;
    rows.iter().map(webhook).collect()
}

/// The webhook with this id.
pub(super) async fn by_id(
    executor: impl SqliteExecutor<'_>,
    id: WebhookId,
) -> Result<Option<WebhookRow>, QueryError> {
    let row = sqlx::query(
        "SELECT *, (SELECT count(*) FROM webhook_deliveries WHERE webhook_id = webhooks.id) AS pending
         FROM webhooks WHERE id = ?1",
    )
    .bind(id.to_string())
    .fetch_optional(executor)
    .await?;
    row.as_ref().map(webhook).transpose()
}

/// The next delivery of each webhook that is told anything, whether or not it is due.
pub(super) async fn next_deliveries(pool: &SqlitePool) -> Result<Vec<WebhookDelivery>, QueryError> {
    let rows = sqlx::query(
        "SELECT d.*, w.spec, w.secret FROM webhooks w JOIN webhook_deliveries d ON d.position = (
            SELECT position FROM webhook_deliveries WHERE webhook_id = w.id ORDER BY next_at, position LIMIT 1
         ) WHERE w.enabled",
    )
    .fetch_all(pool)
    .await?;
    rows.iter().map(delivery).collect()
}

/// How many events wait.
pub(super) async fn pending(pool: &SqlitePool) -> Result<u64, QueryError> {
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM webhook_deliveries")
        .fetch_one(pool)
        .await?;
    Ok(count.unsigned_abs())
}

fn webhook(row: &SqliteRow) -> Result<WebhookRow, QueryError> {
    let columns = Columns { table: TABLE, row };
    Ok(WebhookRow {
        id: columns.parsed("id")?,
        name: columns.get("name")?,
        spec: columns.json("spec")?,
        secret: Secret::new(columns.get("secret")?),
        enabled: columns.get("enabled")?,
        created_at: columns.time("created_at")?,
        last_status: columns.count_opt("last_status")?,
        last_error: columns.get("last_error")?,
        last_attempt_at: columns.time_opt("last_attempt_at")?,
        delivered: columns.count("delivered")?,
        given_up: columns.count("given_up")?,
        dropped: columns.count("dropped")?,
        pending: columns.count("pending")?,
    })
}

fn delivery(row: &SqliteRow) -> Result<WebhookDelivery, QueryError> {
    let columns = Columns {
        table: "webhook_deliveries",
        row,
    };
    Ok(WebhookDelivery {
        position: columns.get("position")?,
        id: columns.parsed("id")?,
        webhook: columns.parsed("webhook_id")?,
        spec: columns.json("spec")?,
        secret: Secret::new(columns.get("secret")?),
        session: columns.parsed("session_id")?,
        event: columns.get("event")?,
        body: columns.raw_json("body")?,
        created_at: columns.time("created_at")?,
        attempts: columns.count("attempts")?,
        next_at: columns.time("next_at")?,
    })
}

/// Plain data always has a JSON form.
fn spec_text(spec: &WebhookSpec) -> String {
    serde_json::to_string(spec).unwrap_or_default()
}
