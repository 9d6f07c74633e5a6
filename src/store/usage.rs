//! Owns the sums over turns. Days are those of a time zone: its offsets over the time of the turns become part of the query.

use jiff::tz::TimeZone;
use sqlx::{QueryBuilder, Sqlite, SqlitePool, sqlite::SqliteRow};

use super::{Page, PageRequest, QueryError, UsageGroup, UsageQuery, UsageRow, column::Columns};

pub(super) async fn sum(
    pool: &SqlitePool,
    wanted: UsageQuery,
    page: &PageRequest,
) -> Result<Page<UsageRow>, QueryError> {
    let list = list_name(wanted.group_by);
    let mut query = QueryBuilder::<Sqlite>::new("WITH part AS (");
    match wanted.zone.filter(|_| wanted.group_by == UsageGroup::Day) {
        Some(zone) => push_days_of(&mut query, &offsets(pool, &zone).await?),
        None => {
            query.push(parts_of(wanted.group_by));
        }
    }
    query.push(" WHERE TRUE");
    if let Some(from) = wanted.from {
        query.push(" AND t.ended_at >= ").push_bind(from.as_micros());
    }
    if let Some(to) = wanted.to {
        query.push(" AND t.ended_at < ").push_bind(to.as_micros());
    }
    query.push(
        "), total AS (
            SELECT key, ifnull(key, '') AS sort_key, count(*) FILTER (WHERE NOT simulated) AS turns,
                count(*) FILTER (WHERE simulated) AS simulated_turns,
                ifnull(sum(cost_nanos) FILTER (WHERE NOT simulated), 0) AS cost_nanos,
                count(*) FILTER (WHERE NOT simulated AND cost_nanos IS NULL) AS unknown_cost_turns,
                ifnull(sum(input_tokens) FILTER (WHERE NOT simulated), 0) AS input_tokens,
                ifnull(sum(output_tokens) FILTER (WHERE NOT simulated), 0) AS output_tokens,
                ifnull(sum(cache_read_tokens) FILTER (WHERE NOT simulated), 0) AS cache_read_tokens,
                ifnull(sum(cache_creation_tokens) FILTER (WHERE NOT simulated), 0) AS cache_creation_tokens,
                ifnull(sum(cache_creation_5m_tokens) FILTER (WHERE NOT simulated), 0) AS cache_creation_5m_tokens,
                ifnull(sum(cache_creation_1h_tokens) FILTER (WHERE NOT simulated), 0) AS cache_creation_1h_tokens,
                ifnull(sum(web_searches) FILTER (WHERE NOT simulated), 0) AS web_searches
            FROM part GROUP BY key
        ) SELECT * FROM total",
    );
    let by_day = wanted.group_by == UsageGroup::Day;
    if let Some((cost, key)) = page.key::<(i64, String)>(list)? {
        if by_day {
            query.push(" WHERE sort_key < ").push_bind(key);
        } else {
            query
                .push(" WHERE (-cost_nanos, sort_key) > (")
                .push_bind(cost.saturating_neg())
                .push(", ")
                .push_bind(key)
                .push(")");
        }
    }
    query.push(if by_day {
        " ORDER BY sort_key DESC LIMIT "
    } else {
        " ORDER BY -cost_nanos, sort_key LIMIT "
    });
    query.push_bind(page.rows_to_read());
    let rows = query.build().fetch_all(pool).await?;
    let rows = rows.iter().map(usage_row).collect::<Result<_, _>>()?;
    Ok(page.page(list, rows, |row: &UsageRow| {
        (row.cost_usd.as_nanos(), row.key.clone().unwrap_or_default())
    }))
}

/// The most changes of an offset that a query holds: those of two hundred years.
const MOST_OFFSETS: usize = 400;

/// The offsets of a zone from UTC in seconds while turns ended, each with the instant in microseconds from which it holds.
async fn offsets(pool: &SqlitePool, zone: &TimeZone) -> Result<Vec<(i64, i32)>, QueryError> {
    let (first, last): (Option<i64>, Option<i64>) =
        sqlx::query_as("SELECT min(ended_at), max(ended_at) FROM turns")
            .fetch_one(pool)
            .await?;
    let instant = |micros: Option<i64>| {
        let instant = micros.and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
        instant.unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    };
    let (first, last) = (instant(first), instant(last));
    let mut offsets = vec![(first.as_microsecond(), zone.to_offset(first).seconds())];
    let changes = zone
        .following(first)
        .take_while(|change| change.timestamp() <= last);
    let changes = changes.map(|change| (change.timestamp().as_microsecond(), change.offset().seconds()));
    offsets.extend(changes.take(MOST_OFFSETS));
    Ok(offsets)
}

/// As [`parts_of`] by day, with the day that it was where these offsets hold.
fn push_days_of(query: &mut QueryBuilder<Sqlite>, offsets: &[(i64, i32)]) {
    query.push("SELECT strftime('%Y-%m-%d', t.ended_at / 1000000 + CASE");
    for (from, seconds) in offsets.iter().rev() {
        query
            .push(" WHEN t.ended_at >= ")
            .push_bind(*from)
            .push(" THEN ")
            .push_bind(*seconds);
    }
    query.push(
        " ELSE 0 END, 'unixepoch') AS key, t.cost_nanos, t.input_tokens, t.output_tokens, t.cache_read_tokens,
            t.cache_creation_tokens,
                t.cache_creation_5m_tokens, t.cache_creation_1h_tokens, t.web_searches, t.simulated FROM turns t",
    );
}

/// The turns, or shares of turns, to sum, each with the key of its group.
const fn parts_of(group: UsageGroup) -> &'static str {
    match group {
        UsageGroup::Day => {
            "SELECT strftime('%Y-%m-%d', t.ended_at / 1000000, 'unixepoch') AS key, t.cost_nanos, t.input_tokens,
                t.output_tokens, t.cache_read_tokens, t.cache_creation_tokens,
                t.cache_creation_5m_tokens, t.cache_creation_1h_tokens, t.web_searches, t.simulated FROM turns t"
        }
        UsageGroup::Model => {
            "SELECT m.model AS key, m.cost_nanos, m.input_tokens, m.output_tokens, m.cache_read_tokens,
                m.cache_creation_tokens, m.cache_creation_5m_tokens, m.cache_creation_1h_tokens, m.web_searches, t.simulated FROM turns t
             JOIN turn_models m ON m.session_id = t.session_id AND m.number = t.number"
        }
        UsageGroup::Session => {
            "SELECT t.session_id AS key, t.cost_nanos, t.input_tokens, t.output_tokens, t.cache_read_tokens,
                t.cache_creation_tokens,
                t.cache_creation_5m_tokens, t.cache_creation_1h_tokens, t.web_searches, t.simulated FROM turns t"
        }
        UsageGroup::Cwd => {
            "SELECT s.cwd AS key, t.cost_nanos, t.input_tokens, t.output_tokens, t.cache_read_tokens,
                t.cache_creation_tokens,
                t.cache_creation_5m_tokens, t.cache_creation_1h_tokens, t.web_searches, t.simulated FROM turns t JOIN sessions s ON s.id = t.session_id"
        }
        UsageGroup::Agent => {
            "SELECT nullif(json_extract(s.options, '$.agent'), '') AS key, t.cost_nanos, t.input_tokens, t.output_tokens,
                t.cache_read_tokens, t.cache_creation_tokens,
                t.cache_creation_5m_tokens, t.cache_creation_1h_tokens, t.web_searches, t.simulated FROM turns t JOIN sessions s ON s.id = t.session_id"
        }
        UsageGroup::Tag => {
            "SELECT nullif(s.tag, '') AS key, t.cost_nanos, t.input_tokens, t.output_tokens, t.cache_read_tokens,
                t.cache_creation_tokens,
                t.cache_creation_5m_tokens, t.cache_creation_1h_tokens, t.web_searches, t.simulated FROM turns t JOIN sessions s ON s.id = t.session_id"
        }
    }
}

/// The name of the list in its cursors.
const fn list_name(group: UsageGroup) -> &'static str {
    match group {
        UsageGroup::Day => "usage_by_day",
        UsageGroup::Model => "usage_by_model",
        UsageGroup::Session => "usage_by_session",
        UsageGroup::Cwd => "usage_by_cwd",
        UsageGroup::Tag => "usage_by_tag",
        UsageGroup::Agent => "usage_by_agent",
    }
}

fn usage_row(row: &SqliteRow) -> Result<UsageRow, QueryError> {
    let columns = Columns { table: "turns", row };
    Ok(UsageRow {
        key: columns.get("key")?,
        turns: columns.count("turns")?,
        simulated_turns: columns.count("simulated_turns")?,
        cost_usd: columns.usd("cost_nanos")?,
        unknown_cost_turns: columns.count("unknown_cost_turns")?,
        usage: columns.tokens()?,
    })
}
