//! Owns the outbox of webhooks: each fact that somebody is to be told of becomes events, and each event a delivery for every
//! webhook that wants it, in the transaction that stores the fact.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sqlx::SqliteConnection;

use super::{QueryError, apply::charged, column::Columns, webhooks};
use crate::domain::{
    Approval, ApprovalId, AttentionReason, Clock, DeliveryId, FailReason, SessionId, SessionState, Timestamp,
    TurnEnd, Usd, WebhookEvent, lobby::BUDGET_WARNING_PERCENT,
};

/// The most events that wait for one webhook: the oldest make room.
pub(super) const MOST_PENDING: i64 = 1_000;

/// How long an event of an approval waits before it is sent: a rule that decides at once does so meanwhile, and nobody is told.
const RULES_FIRST_MS: u64 = 300;

/// Approvals that open together tell of themselves as the reason to look, so that one which a rule decides hides no other.
const TOGETHER_MICROS: i64 = 1_000_000;

/// The longest text of a delivery, in characters.
const LONGEST_TEXT: usize = 2_000;
/// The largest request of an approval that a delivery holds, in bytes.
const LARGEST_REQUEST: usize = 4_096;

/// The subtype of a turn that the CLI ended as its budget was spent.
const CLI_BUDGET_SPENT: &str = "error_max_budget_usd";

/// A fact that webhooks may be told of.
#[derive(Debug)]
pub(super) enum Happened {
    /// A turn ended; with the costs of those before it.
    TurnEnded(Box<TurnEnd>, Usd),
    /// An approval opened.
    ApprovalOpened(Box<Approval>),
    /// The session failed.
    Failed(Timestamp),
}

/// An event, before it is known who is told.
struct Event {
    event: WebhookEvent,
    at: Timestamp,
    approval: Option<ApprovalId>,
    /// Ids, kinds, counts and costs.
    data: Value,
    /// Texts, for those who asked for them.
    content: Value,
}

/// The session as the tables have it.
struct About {
    id: SessionId,
    state: SessionState,
    reason: Option<FailReason>,
    cwd: String,
    title: Option<String>,
    tag: Option<String>,
    labels: BTreeMap<String, String>,
    budget: Option<Usd>,
}

/// Queues what webhooks are to be told of these facts of a session, whose row is written; says whether there is anything.
pub(super) async fn queue(
    connection: &mut SqliteConnection,
    session: SessionId,
    happened: Vec<Happened>,
) -> Result<bool, QueryError> {
    if happened.is_empty() {
        return Ok(false);
    }
    let receivers = webhooks::enabled(connection).await?;
    if receivers.is_empty() {
        return Ok(false);
    }
    let Some(about) = about(connection, session).await? else {
        return Ok(false);
    };
    let mut events = Vec::new();
    for fact in happened {
        match fact {
            Happened::TurnEnded(turn, before) => {
                let prompt = prompt_of(connection, session, &turn).await?;
                of_turn(&about, &turn, before, prompt, &mut events);
            }
            Happened::ApprovalOpened(approval) => {
                let is_first = is_first(connection, session, &approval).await?;
                of_approval(&approval, is_first, &mut events);
            }
            Happened::Failed(at) => of_failure(&about, at, &mut events),
        }
    }
    deliver(connection, &receivers, &about, &events).await
}

/// Queues that a session needs a person for a reason that no record tells of, once while it lasts.
pub(super) async fn note_attention(
    connection: &mut SqliteConnection,
    session: SessionId,
    reason: AttentionReason,
    at: Timestamp,
) -> Result<bool, QueryError> {
    let name = super::column::name(&reason);
    let Some(about) = about(connection, session).await? else {
        return Ok(false);
    };
    let noted = sqlx::query(
        "INSERT INTO webhook_attention (session_id, reason) VALUES (?1, ?2)
         ON CONFLICT (session_id) DO UPDATE SET reason = excluded.reason WHERE reason <> excluded.reason",
    )
    .bind(session.to_string())
    .bind(name)
    .execute(&mut *connection)
    .await?;
    if noted.rows_affected() == 0 {
        return Ok(false);
    }
    let receivers = webhooks::enabled(connection).await?;
    let event = attention(reason, 4, at, Value::Null, None);
    deliver(connection, &receivers, &about, &[event]).await
}

/// An approval needs nobody: what was not sent of it is not sent.
pub(super) async fn forget_approval(
    connection: &mut SqliteConnection,
    approval: ApprovalId,
) -> Result<(), QueryError> {
    sqlx::query("DELETE FROM webhook_deliveries WHERE approval_id = ?1 AND attempts = 0")
        .bind(approval.to_string())
        .execute(connection)
        .await?;
    Ok(())
}

/// Counts what waits for a session that is about to be deleted as dropped.
pub(super) async fn drop_session(connection: &mut SqliteConnection, session: &str) -> Result<(), QueryError> {
    let waiting: Vec<(String, i64)> = sqlx::query_as(
        "SELECT webhook_id, count(*) FROM webhook_deliveries WHERE session_id = ?1 GROUP BY webhook_id",
    )
    .bind(session)
    .fetch_all(&mut *connection)
    .await?;
    for (webhook, count) in waiting {
        webhooks::count_dropped(connection, &webhook, count.unsigned_abs()).await?;
    }
    Ok(())
}

fn of_turn(about: &About, turn: &TurnEnd, before: Usd, prompt: Option<String>, events: &mut Vec<Event>) {
    let after = before + turn.cost_usd.map_or(Usd::ZERO, charged);
    let at = turn.ended_at;
    let outcome = if turn.outcome.is_empty() {
        TurnEnd::outcome_of(&turn.subtype, turn.is_error)
    } else {
        &turn.outcome
    };
    events.push(Event {
        event: WebhookEvent::TurnEnded,
        at,
        approval: None,
        data: json!({
            "turn": turn.number, "outcome": outcome, "is_error": turn.is_error, "first_seq": turn.first_seq,
            "last_seq": turn.last_seq, "started_at": turn.started_at, "ended_at": turn.ended_at,
            "duration_ms": turn.duration_ms, "cost_usd": turn.cost_usd, "session_cost_usd": after,
            "usage": turn.usage, "prompt_uuids": turn.prompts,
        }),
        content: json!({"prompt": prompt}),
    });
    let Some(budget) = about.budget else { return };
    if before >= budget {
        return;
    }
    if after >= budget || turn.subtype == CLI_BUDGET_SPENT {
        events.push(Event {
            event: WebhookEvent::BudgetSpent,
            at,
            approval: None,
            data: json!({"turn": turn.number, "limit_usd": budget, "cost_usd": after}),
            content: json!({}),
        });
    }
    let warned_at = budget.as_nanos() / 100 * BUDGET_WARNING_PERCENT;
    if before.as_nanos() < warned_at && after.as_nanos() >= warned_at {
        events.push(attention(AttentionReason::Budget, 4, at, Value::Null, None));
    }
}

fn of_approval(approval: &Approval, is_first: bool, events: &mut Vec<Event>) {
    let request = approval.request.get();
    let whole = (request.len() <= LARGEST_REQUEST)
        .then(|| serde_json::from_str::<Value>(request).ok())
        .flatten();
    events.push(Event {
        event: WebhookEvent::ApprovalOpened,
        at: approval.requested_at,
        approval: Some(approval.id),
        data: json!({
            "approval_id": approval.id, "kind": approval.kind, "seq": approval.seq,
            "requested_at": approval.requested_at, "deadline": approval.deadline, "request_bytes": request.len(),
        }),
        content: json!({"subject": text(&approval.subject), "request": whole}),
    });
    if is_first {
        let rank = if approval.deadline.is_some() { 1 } else { 2 };
        let deadline = json!(approval.deadline);
        let since = approval.requested_at;
        let reason = AttentionReason::Decision;
        events.push(attention(reason, rank, since, deadline, Some(approval.id)));
    }
}

fn of_failure(about: &About, at: Timestamp, events: &mut Vec<Event>) {
    let (code, detail) = match &about.reason {
        Some(reason) => (Some(reason.code.as_str()), Some(text(&reason.detail))),
        None => (None, None),
    };
    events.push(Event {
        event: WebhookEvent::SessionFailed,
        at,
        approval: None,
        data: json!({"reason": code}),
        content: json!({"detail": detail}),
    });
    events.push(attention(AttentionReason::Failed, 3, at, Value::Null, None));
}

fn attention(
    reason: AttentionReason,
    rank: u8,
    since: Timestamp,
    deadline: Value,
    approval: Option<ApprovalId>,
) -> Event {
    Event {
        event: WebhookEvent::NeedsAttention,
        at: since,
        approval,
        data: json!({
            "reason": reason, "rank": rank, "since": since, "deadline": deadline, "approval_id": approval,
        }),
        content: json!({}),
    }
}

/// Adds a delivery for each webhook that wants an event.
async fn deliver(
    connection: &mut SqliteConnection,
    receivers: &[(String, crate::domain::WebhookSpec)],
    about: &About,
    events: &[Event],
) -> Result<bool, QueryError> {
    let mut is_any = false;
    for (webhook, spec) in receivers {
        let fits = spec
            .filter
            .matches(about.state, &about.cwd, about.tag.as_deref(), &about.labels);
        let wanted = events.iter().filter(|event| fits && spec.wants(event.event));
        let mut added = false;
        for event in wanted {
            add(
                connection,
                webhook,
                about,
                event,
                &body(about, event, spec.content),
            )
            .await?;
            added = true;
        }
        if added {
            is_any = true;
            bound(connection, webhook).await?;
        }
    }
    Ok(is_any)
}

async fn add(
    connection: &mut SqliteConnection,
    webhook: &str,
    about: &About,
    event: &Event,
    body: &str,
) -> Result<(), QueryError> {
    let now = Clock.now();
    let wait = if event.approval.is_some() {
        RULES_FIRST_MS
    } else {
        0
    };
    sqlx::query(
        "INSERT INTO webhook_deliveries (id, webhook_id, session_id, event, approval_id, body, created_at, next_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )
    .bind(DeliveryId::new().to_string())
    .bind(webhook)
    .bind(about.id.to_string())
    .bind(event.event.as_str())
    .bind(event.approval.map(|id| id.to_string()))
    .bind(body)
    .bind(now.as_micros())
    .bind(now.plus_millis(wait).as_micros())
    .execute(connection)
    .await?;
    Ok(())
}

/// Drops the oldest events of a webhook that has too many.
async fn bound(connection: &mut SqliteConnection, webhook: &str) -> Result<(), QueryError> {
    let dropped = sqlx::query(
        "DELETE FROM webhook_deliveries WHERE webhook_id = ?1 AND position <= (
            SELECT position FROM webhook_deliveries WHERE webhook_id = ?1 ORDER BY position DESC LIMIT 1 OFFSET ?2)",
    )
    .bind(webhook)
    .bind(MOST_PENDING)
    .execute(&mut *connection)
    .await?
    .rows_affected();
    webhooks::count_dropped(connection, webhook, dropped).await
}

/// The body of an event, as Standard Webhooks lays it out.
fn body(about: &About, event: &Event, with_content: bool) -> String {
    #[derive(Serialize)]
    struct Body {
        #[serde(rename = "type")]
        event: WebhookEvent,
        timestamp: Timestamp,
        data: Map<String, Value>,
    }
    let mut data = Map::new();
    data.insert("session_id".to_owned(), json!(about.id));
    data.insert("state".to_owned(), json!(about.state));
    if let Value::Object(members) = &event.data {
        data.extend(members.clone());
    }
    if with_content {
        let mut content = Map::new();
        content.insert("title".to_owned(), json!(about.title.as_deref().map(text)));
        content.insert("cwd".to_owned(), json!(about.cwd));
        content.insert("tag".to_owned(), json!(about.tag));
        content.insert("labels".to_owned(), json!(about.labels));
        if let Value::Object(members) = &event.content {
            content.extend(members.clone());
        }
        data.insert("content".to_owned(), Value::Object(content));
    }
    let body = Body {
        event: event.event,
        timestamp: event.at,
        data,
    };
    // Plain data always has a JSON form.
    serde_json::to_string(&body).unwrap_or_default()
}

/// The start of a text.
fn text(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

/// Whether no other approval of the session has waited for longer.
async fn is_first(
    connection: &mut SqliteConnection,
    session: SessionId,
    approval: &Approval,
) -> Result<bool, QueryError> {
    let earlier: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM approvals WHERE session_id = ?1 AND state = 'pending' AND requested_at < ?2)",
    )
    .bind(session.to_string())
    .bind(approval.requested_at.as_micros() - TOGETHER_MICROS)
    .fetch_one(connection)
    .await?;
    Ok(!earlier)
}

/// The start of the first prompt that a turn answered.
async fn prompt_of(
    connection: &mut SqliteConnection,
    session: SessionId,
    turn: &TurnEnd,
) -> Result<Option<String>, QueryError> {
    let Some(prompt) = turn.prompts.first() else {
        return Ok(None);
    };
    let found: Option<Option<String>> =
        sqlx::query_scalar("SELECT text FROM prompts WHERE session_id = ?1 AND uuid = ?2")
            .bind(session.to_string())
            .bind(prompt.to_string())
            .fetch_optional(connection)
            .await?;
    Ok(found.flatten())
}

async fn about(connection: &mut SqliteConnection, id: SessionId) -> Result<Option<About>, QueryError> {
    let row = sqlx::query(
        "SELECT state, state_reason, cwd, title, tag, iif(json_valid(options), options ->> '$.max_budget_usd', NULL)
            AS budget, (SELECT json_group_object(key, value) FROM session_labels WHERE session_id = sessions.id)
            AS labels FROM sessions WHERE id = ?1",
    )
    .bind(id.to_string())
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let columns = Columns {
        table: "sessions",
        row: &row,
    };
    let budget: Option<f64> = columns.get("budget")?;
    Ok(Some(About {
        id,
        state: columns.named("state")?,
        reason: columns.json_opt("state_reason")?,
        cwd: columns.get("cwd")?,
        title: columns.get("title")?,
        tag: columns.get("tag")?,
        labels: columns.json("labels")?,
        budget: budget.and_then(Usd::from_dollars),
    }))
}
