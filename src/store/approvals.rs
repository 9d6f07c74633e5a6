//! Owns the queries for approvals.

use futures_util::TryStreamExt as _;
use sqlx::{QueryBuilder, Sqlite, SqlitePool, sqlite::SqliteRow};

use super::{ApprovalFilter, ApprovalRow, Page, PageRequest, QueryError, column::Columns};
use crate::domain::{Approval, ApprovalId, ApprovalKind, ApprovalState, Resolution, SessionId};

/// The name of the list in its cursors.
const LIST: &str = "approvals";

/// The bytes of the questions and answers of a page's items. The last one comes on top.
const PAGE_BYTES: usize = 8 << 20;

fn size(row: &ApprovalRow) -> usize {
    let answer = row.resolution.as_ref().and_then(|end| end.response.as_ref());
    row.approval.request.get().len() + answer.map_or(0, |answer| answer.get().len())
}

pub(super) async fn by_id(pool: &SqlitePool, id: ApprovalId) -> Result<Option<ApprovalRow>, QueryError> {
    let row = sqlx::query("SELECT * FROM approvals WHERE id = ?1")
        .bind(id.to_string())
        .fetch_optional(pool)
        .await?;
    row.map(|row| approval(&row)).transpose()
}

pub(super) async fn list(
    pool: &SqlitePool,
    filter: ApprovalFilter,
    page: &PageRequest,
) -> Result<Page<ApprovalRow>, QueryError> {
    let mut query = select(&filter, page)?;
    let mut found = query.build().fetch(pool);
    let (mut rows, mut bytes, mut most) = (Vec::new(), 0, usize::MAX);
    // The input of a tool may be large: the rest is for the next page.
    while rows.len() <= most
        && let Some(row) = found.try_next().await?
    {
        let row = approval(&row)?;
        bytes += size(&row);
        rows.push(row);
        if bytes > PAGE_BYTES && most == usize::MAX {
            most = rows.len();
        }
    }
    Ok(page.page_of(LIST, rows, most, |row: &ApprovalRow| {
        let Approval {
            id,
            seq,
            requested_at,
            ..
        } = &row.approval;
        (requested_at.as_micros(), seq.get(), id.to_string())
    }))
}

/// The query for a page of the list.
pub(super) fn select(
    filter: &ApprovalFilter,
    page: &PageRequest,
) -> Result<QueryBuilder<Sqlite>, QueryError> {
    let mut query = QueryBuilder::<Sqlite>::new("SELECT * FROM approvals WHERE TRUE");
    if let Some(session) = filter.session {
        query.push(" AND session_id = ").push_bind(session.to_string());
    }
    if let Some(state) = filter.state {
        query.push(" AND state = ").push_bind(state.as_str());
    }
    if let Some(kind) = filter.kind {
        query.push(" AND kind = ").push_bind(kind.as_str());
    }
    if let Some(subject) = &filter.subject {
        query.push(" AND subject = ").push_bind(subject.clone());
    }
    if let Some(how) = filter.how {
        query.push(" AND how = ").push_bind(how.as_str());
    }
    if let Some(by) = &filter.by {
        query.push(" AND resolved_by = ").push_bind(by.clone());
    }
    if let Some(from) = filter.from {
        query.push(" AND requested_at >= ").push_bind(from.as_micros());
    }
    if let Some(to) = filter.to {
        query.push(" AND requested_at < ").push_bind(to.as_micros());
    }
    if let Some((requested_at, seq, id)) = page.key::<(i64, i64, String)>(LIST)? {
        query
            .push(" AND (requested_at, seq, id) < (")
            .push_bind(requested_at)
            .push(", ")
            .push_bind(seq)
            .push(", ")
            .push_bind(id)
            .push(")");
    }
    query
        .push(" ORDER BY requested_at DESC, seq DESC, id DESC LIMIT ")
        .push_bind(page.rows_to_read());
    Ok(query)
}

/// The calls of a session that were put off up to this record, and that nobody has decided.
pub(super) async fn deferred(
    pool: &SqlitePool,
    session: SessionId,
    until: u64,
) -> Result<Vec<Approval>, QueryError> {
    let rows = sqlx::query(
        "SELECT * FROM approvals WHERE session_id = ?1 AND kind = ?2 AND state = 'pending' AND seq <= ?3
         ORDER BY seq",
    )
    .bind(session.to_string())
    .bind(ApprovalKind::Deferred.as_str())
    .bind(i64::try_from(until).unwrap_or(i64::MAX))
    .fetch_all(pool)
    .await?;
    rows.iter().map(|row| Ok(approval(row)?.approval)).collect()
}

fn approval(row: &SqliteRow) -> Result<ApprovalRow, QueryError> {
    let columns = Columns {
        table: "approvals",
        row,
    };
    let state = columns.named("state")?;
    let resolution = match state {
        ApprovalState::Pending => None,
        ApprovalState::Allowed
        | ApprovalState::Denied
        | ApprovalState::Cancelled
        | ApprovalState::Withdrawn
        | ApprovalState::Abandoned
        | ApprovalState::Changed
        | ApprovalState::Overruled => Some(Resolution {
            state,
            how: columns.named("how")?,
            by: columns.get("resolved_by")?,
            response: columns.raw_json_opt("response")?,
            input_changed: columns.get("input_changed")?,
            permissions_updated: columns.get("permissions_updated")?,
            ran_sha256: columns.get("ran_sha256")?,
            at: columns.time("resolved_at")?,
        }),
    };
    Ok(ApprovalRow {
        session: columns.parsed("session_id")?,
        approval: Approval {
            id: columns.parsed("id")?,
            run_id: columns.parsed("run_id")?,
            seq: columns.seq("seq")?,
            request_id: columns.get("request_id")?,
            kind: columns.named("kind")?,
            subject: columns.get("subject")?,
            request: columns.raw_json("request")?,
            left_out: None,
            input_sha256: columns.get("input_sha256")?,
            requested_at: columns.time("requested_at")?,
            deadline: columns.time_opt("deadline")?,
            rule: columns.get("rule")?,
        },
        resolution,
    })
}
