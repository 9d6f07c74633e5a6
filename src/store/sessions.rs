//! Owns the queries for sessions.

use std::collections::{BTreeSet, HashSet};

use futures_util::TryStreamExt as _;
use sqlx::{QueryBuilder, Row as _, Sqlite, SqliteExecutor, SqlitePool, sqlite::SqliteRow};

use super::{
    Page, PageRequest, QueryError, SessionFilter, SessionRow, column::Columns, unreadable::Unreadable,
};
use crate::domain::{CliSessionId, Seq, SessionId, SessionState};

/// The name of the list in its cursors.
const LIST: &str = "sessions";

/// Longest text that becomes a pattern, in bytes: SQLite takes patterns of 50,000.
const MOST_PATTERN_TEXT: usize = 4_000;

/// All columns, with the labels as one JSON object and the limits as one JSON list.
const SELECT: &str = "SELECT s.*, (SELECT json_group_object(key, value) FROM session_labels WHERE session_id = s.id) \
    AS labels, (SELECT json_group_array(json(said)) FROM rate_limits WHERE session_id = s.id) AS rate_limits \
    FROM sessions s";

pub(super) async fn by_id(
    pool: &SqlitePool,
    unreadable: &Unreadable,
    id: SessionId,
) -> Result<Option<SessionRow>, QueryError> {
    let mut query = QueryBuilder::<Sqlite>::new(SELECT);
    query.push(" WHERE s.id = ").push_bind(id.to_string());
    let row = query.build().fetch_optional(pool).await?;
    row.map(|row| noted(&row, unreadable)).transpose()
}

pub(super) async fn exists(executor: impl SqliteExecutor<'_>, id: &str) -> Result<bool, QueryError> {
    let found = sqlx::query("SELECT 1 FROM sessions WHERE id = ?1");
    Ok(found.bind(id).fetch_optional(executor).await?.is_some())
}

/// The session that has this conversation of the CLI now.
pub(super) async fn of_conversation(
    executor: impl SqliteExecutor<'_>,
    id: CliSessionId,
) -> Result<Option<SessionId>, QueryError> {
    let query = sqlx::query("SELECT id FROM sessions WHERE cli_session_id = ?1 LIMIT 1");
    let row = query.bind(id.to_string()).fetch_optional(executor).await?;
    let parsed = |row: &SqliteRow| {
        let columns = Columns {
            table: "sessions",
            row,
        };
        columns.parsed("id")
    };
    row.as_ref().map(parsed).transpose()
}

/// All conversations that sessions have, or had. Rows that cannot be read are left out.
pub(super) async fn conversations(pool: &SqlitePool) -> Result<Vec<(CliSessionId, SessionId)>, QueryError> {
    let query = sqlx::query("SELECT session_id, cli_session_id FROM cli_sessions ORDER BY from_at");
    let rows = query.fetch_all(pool).await?;
    let parsed = |row: &SqliteRow| {
        let columns = Columns {
            table: "cli_sessions",
            row,
        };
        Some((
            columns.parsed("cli_session_id").ok()?,
            columns.parsed("session_id").ok()?,
        ))
    };
    Ok(rows.iter().filter_map(parsed).collect())
}

/// The sessions, and the record that asked for the last process of each. Rows that cannot be read are left out.
pub(super) async fn last_runs(pool: &SqlitePool) -> Result<Vec<(SessionId, Seq)>, QueryError> {
    let rows = sqlx::query("SELECT id, run_seq FROM sessions")
        .fetch_all(pool)
        .await?;
    let parsed = |row: &SqliteRow| {
        let columns = Columns {
            table: "sessions",
            row,
        };
        Some((columns.parsed("id").ok()?, columns.seq("run_seq").ok()?))
    };
    Ok(rows.iter().filter_map(parsed).collect())
}

/// The sessions with the revisions of their files. Rows that cannot be read are left out.
pub(super) async fn revisions(pool: &SqlitePool) -> Result<Vec<(SessionId, u64)>, QueryError> {
    let rows = sqlx::query("SELECT id, revision FROM sessions")
        .fetch_all(pool)
        .await?;
    let parsed = |row: &SqliteRow| {
        let columns = Columns {
            table: "sessions",
            row,
        };
        Some((columns.parsed("id").ok()?, columns.count("revision").ok()?))
    };
    Ok(rows.iter().filter_map(parsed).collect())
}

pub(super) async fn list(
    pool: &SqlitePool,
    unreadable: &Unreadable,
    filter: &SessionFilter,
    page: &PageRequest,
) -> Result<Page<SessionRow>, QueryError> {
    let rows = select(filter, page)?.build().fetch_all(pool).await?;
    // A row that cannot be read may be the last one of a page.
    let page = page.page(LIST, rows, |row: &SqliteRow| {
        let updated_at: i64 = row.try_get("updated_at").unwrap_or_default();
        (updated_at, id_of(row))
    });
    Ok(Page {
        items: readable(&page.items, unreadable),
        next: page.next,
    })
}

/// The rows that can be read; the others are noted.
fn readable(rows: &[SqliteRow], unreadable: &Unreadable) -> Vec<SessionRow> {
    let rows = rows.iter();
    rows.filter_map(|row| noted(row, unreadable).ok()).collect()
}

fn noted(row: &SqliteRow, unreadable: &Unreadable) -> Result<SessionRow, QueryError> {
    let read = session(row);
    match &read {
        Ok(session) => unreadable.forget(&session.id.to_string()),
        Err(why) => unreadable.note(&id_of(row), why),
    }
    read
}

/// The content of the id's column, in whatever form.
fn id_of(row: &SqliteRow) -> String {
    row.try_get("id").unwrap_or_default()
}

/// The query for a page of the list.
pub(super) fn select(filter: &SessionFilter, page: &PageRequest) -> Result<QueryBuilder<Sqlite>, QueryError> {
    let mut query = QueryBuilder::<Sqlite>::new(SELECT);
    query.push(" WHERE TRUE");
    if let Some(state) = filter.state {
        query.push(" AND s.state = ").push_bind(state.as_str());
    }
    if let Some(cwd) = &filter.cwd {
        query.push(" AND s.cwd = ").push_bind(cwd);
    }
    if let Some(tag) = &filter.tag {
        query.push(" AND s.tag = ").push_bind(tag);
    }
    if let Some((key, value)) = &filter.label {
        query
            .push(" AND EXISTS (SELECT 1 FROM session_labels WHERE session_id = s.id AND key = ")
            .push_bind(key)
            .push(" AND value = ")
            .push_bind(value)
            .push(")");
    }
    if let Some(text) = &filter.q {
        push_has_text(&mut query, text);
    }
    if let Some((updated_at, id)) = page.key::<(i64, String)>(LIST)? {
        query
            .push(" AND (s.updated_at, s.id) < (")
            .push_bind(updated_at)
            .push(", ")
            .push_bind(id)
            .push(")");
    }
    query
        .push(" ORDER BY s.updated_at DESC, s.id DESC LIMIT ")
        .push_bind(page.rows_to_read());
    Ok(query)
}

/// Asks for a text in the title or in the start of a prompt, in capitals or not.
fn push_has_text(query: &mut QueryBuilder<Sqlite>, text: &str) {
    let pattern = pattern(text);
    let push = |query: &mut QueryBuilder<Sqlite>, column: &'static str| {
        match &pattern {
            Some(pattern) => query.push(column).push(" GLOB ").push_bind(pattern.clone()),
            // It has no wildcards to escape and takes a text of any length. Its small letters are those of ASCII.
            None => query
                .push("instr(lower(")
                .push(column)
                .push("), lower(")
                .push_bind(text.to_owned())
                .push(")) > 0"),
        };
    };
    query.push(" AND (");
    push(query, "s.title");
    query.push(" OR EXISTS (SELECT 1 FROM prompts WHERE session_id = s.id AND ");
    push(query, "text");
    query.push("))");
}

/// The pattern of a text anywhere in another one, each letter in capitals or not; `None` when it would be too long, or ends too
/// early.
fn pattern(text: &str) -> Option<String> {
    if text.len() > MOST_PATTERN_TEXT || text.contains('\0') {
        return None;
    }
    let mut pattern = String::from("*");
    for c in text.chars() {
        let forms: BTreeSet<char> = [Some(c), only(c.to_lowercase()), only(c.to_uppercase())]
            .into_iter()
            .flatten()
            .collect();
        if forms.len() > 1 || matches!(c, '*' | '?' | '[') {
            pattern.push('[');
            pattern.extend(forms);
            pattern.push(']');
        } else {
            pattern.push(c);
        }
    }
    pattern.push('*');
    Some(pattern)
}

/// The one character that there is.
fn only(mut chars: impl Iterator<Item = char>) -> Option<char> {
    chars.next().filter(|_| chars.next().is_none())
}

pub(super) async fn by_state(pool: &SqlitePool) -> Result<Vec<(SessionState, u64)>, QueryError> {
    let query = sqlx::query("SELECT state, count(*) AS sessions FROM sessions GROUP BY state");
    let rows = query.fetch_all(pool).await?;
    let count = |row: &SqliteRow| {
        let columns = Columns {
            table: "sessions",
            row,
        };
        // A state that is none is of a row that is left out everywhere.
        let state = columns.named("state").ok()?;
        Some(columns.count("sessions").map(|count| (state, count)))
    };
    rows.iter().filter_map(count).collect()
}

/// Reads every row, so that those which cannot be read are known, and gives the ids.
pub(super) async fn examine(
    pool: &SqlitePool,
    unreadable: &Unreadable,
) -> Result<HashSet<SessionId>, QueryError> {
    let mut ids = HashSet::new();
    let mut query = QueryBuilder::<Sqlite>::new(SELECT);
    let mut rows = query.build().fetch(pool);
    while let Some(row) = rows.try_next().await? {
        // Also of a row of which nothing else can be read. In another spelling it is no id: nobody finds the row by it.
        let text = id_of(&row);
        let id = text.parse::<SessionId>().ok();
        ids.extend(id.filter(|id| id.to_string() == text));
        noted(&row, unreadable).ok();
    }
    Ok(ids)
}

pub(super) async fn unsettled(
    pool: &SqlitePool,
    unreadable: &Unreadable,
) -> Result<Vec<SessionRow>, QueryError> {
    let mut query = QueryBuilder::<Sqlite>::new(SELECT);
    query.push(" WHERE s.state IN (");
    let mut names = query.separated(", ");
    for state in LIVE_STATES {
        names.push_bind(state.as_str());
    }
    query.push(") ORDER BY s.created_at, s.id");
    let rows = query.build().fetch_all(pool).await?;
    Ok(readable(&rows, unreadable))
}

/// The states of which [`SessionState::is_live`] is true.
const LIVE_STATES: [SessionState; 5] = [
    SessionState::Starting,
    SessionState::Idle,
    SessionState::Busy,
    SessionState::Waiting,
    SessionState::Stopping,
];

fn session(row: &SqliteRow) -> Result<SessionRow, QueryError> {
    let columns = Columns {
        table: "sessions",
        row,
    };
    Ok(SessionRow {
        id: columns.parsed("id")?,
        cwd: columns.get("cwd")?,
        title: columns.get("title")?,
        tag: columns.get("tag")?,
        labels: columns.json("labels")?,
        options: columns.get("options")?,
        started_options: columns.get("started_options")?,
        mode_of_options: columns.get("mode_of_options")?,
        resume_at: columns.parsed_opt("resume_at")?,
        revision: columns.count("revision")?,
        restart: columns.get("restart")?,
        parent: columns.parsed_opt("parent_id")?,
        fork_of: columns.parsed_opt("fork_of")?,
        untold: columns.get("untold")?,
        forked_from: columns.parsed_opt("forked_from")?,
        forked_at: columns.parsed_opt("forked_at")?,
        state: columns.named("state")?,
        state_reason: columns.json_opt("state_reason")?,
        parked: columns.json_opt("parked")?,
        cli_session_id: columns.parsed("cli_session_id")?,
        agent: columns.named_opt("agent")?,
        run_id: columns.parsed_opt("run_id")?,
        run_seq: columns.seq("run_seq")?,
        cli_version: columns.get("cli_version")?,
        model: columns.get("model")?,
        permission_mode: columns.get("permission_mode")?,
        created_at: columns.time("created_at")?,
        updated_at: columns.time("updated_at")?,
        projected_seq: columns.seq("projected_seq")?,
        turns: columns.count("turns")?,
        cost_usd: columns.usd("cost_nanos")?,
        turns_with_unknown_cost: columns.count("unknown_cost_turns")?,
        usage: columns.tokens()?,
        first_prompt: columns.get("first_prompt")?,
        last_prompt: columns.get("last_prompt")?,
        last_line: columns.json_opt("last_line")?,
        last_turn_seq: columns.seq("last_turn_seq")?,
        seen_seq: columns.seq("seen_seq")?,
        queued_prompts: columns.count("queued_prompts")?,
        put_off: columns.json_opt("put_off")?,
        rate_limits: columns.json("rate_limits")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_states_are_all_that_are_live() {
        for state in SessionState::ALL {
            assert_eq!(LIVE_STATES.contains(&state), state.is_live(), "{state:?}");
        }
    }
}
