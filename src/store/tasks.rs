//! Owns the rows of tasks: what the CLI of each session told of its commands in the background and its sub-agents.

use sqlx::{SqliteConnection, SqlitePool, sqlite::SqliteRow};

use super::{
    QueryError,
    column::{Columns, integer},
};
use crate::domain::{RunId, Seq, SessionId, Task, TaskNews, Timestamp, task::TaskUsage};

/// The tasks of one session that are kept: the newest.
const MOST_TASKS: i64 = 1_000;

/// Adds what a record says about a task. A task that begins once more keeps its new life alone.
pub(super) async fn told(
    connection: &mut SqliteConnection,
    session: SessionId,
    news: &TaskNews,
    run: RunId,
    (seq, at): (Seq, Timestamp),
) -> Result<(), QueryError> {
    if news.is_start {
        make_room(connection, session, &news.task_id).await?;
    }
    let status = news.status.as_deref();
    let ended_at = status.is_some_and(TaskNews::is_end).then_some(at.as_micros());
    let count = |value: fn(TaskUsage) -> u64| news.usage.map(|usage| integer(value(usage)));
    sqlx::query(
        "INSERT INTO tasks (session_id, task_id, run_id, first_seq, last_seq, started_at, ended_at, status, kind, agent,
            description, tool_use_id, parent_task_id, depth, is_backgrounded, summary, error, output_file, last_tool,
            total_tokens, tool_uses, duration_ms)
         VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ifnull(?7, 'running'), ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
            ?20, ?21)
         ON CONFLICT (session_id, task_id) DO UPDATE SET run_id = excluded.run_id, last_seq = excluded.last_seq,
            ended_at = ifnull(ended_at, excluded.ended_at), status = ifnull(?7, status), kind = ifnull(excluded.kind, kind),
            agent = ifnull(excluded.agent, agent), description = ifnull(excluded.description, description),
            tool_use_id = ifnull(excluded.tool_use_id, tool_use_id),
            parent_task_id = ifnull(excluded.parent_task_id, parent_task_id), depth = ifnull(excluded.depth, depth),
            is_backgrounded = ifnull(excluded.is_backgrounded, is_backgrounded),
            summary = ifnull(excluded.summary, summary), error = ifnull(excluded.error, error),
            output_file = ifnull(excluded.output_file, output_file), last_tool = ifnull(excluded.last_tool, last_tool),
            total_tokens = ifnull(excluded.total_tokens, total_tokens), tool_uses = ifnull(excluded.tool_uses, tool_uses),
            duration_ms = ifnull(excluded.duration_ms, duration_ms)",
    )
    .bind(session.to_string())
    .bind(&news.task_id)
    .bind(run.to_string())
    .bind(integer(seq.get()))
    .bind(at.as_micros())
    .bind(ended_at)
    .bind(status)
    .bind(&news.kind)
    .bind(&news.agent)
    .bind(&news.description)
    .bind(&news.tool_use_id)
    .bind(&news.parent_task_id)
    .bind(news.depth.map(integer))
    .bind(news.is_backgrounded)
    .bind(&news.summary)
    .bind(&news.error)
    .bind(&news.output_file)
    .bind(&news.last_tool)
    .bind(count(|usage| usage.total_tokens))
    .bind(count(|usage| usage.tool_uses))
    .bind(count(|usage| usage.duration_ms))
    .execute(connection)
    .await?;
    Ok(())
}

/// Takes away an earlier life of the task, and the oldest task when there are as many as may be.
async fn make_room(
    connection: &mut SqliteConnection,
    session: SessionId,
    task: &str,
) -> Result<(), QueryError> {
    sqlx::query(
        "DELETE FROM tasks WHERE session_id = ?1 AND (task_id = ?2 OR first_seq <=
            (SELECT first_seq FROM tasks WHERE session_id = ?1 ORDER BY first_seq DESC LIMIT 1 OFFSET ?3))",
    )
    .bind(session.to_string())
    .bind(task)
    .bind(MOST_TASKS - 1)
    .execute(connection)
    .await?;
    Ok(())
}

/// The process of a session has ended, and with it all that it ran.
pub(super) async fn end_all(
    connection: &mut SqliteConnection,
    session: SessionId,
    at: Timestamp,
) -> Result<(), QueryError> {
    sqlx::query(
        "UPDATE tasks SET status = 'cut_short', ended_at = ?2 WHERE session_id = ?1 AND ended_at IS NULL",
    )
    .bind(session.to_string())
    .bind(at.as_micros())
    .execute(connection)
    .await?;
    Ok(())
}

/// The tasks of a session, the newest first.
pub(super) async fn list(pool: &SqlitePool, session: SessionId) -> Result<Vec<Task>, QueryError> {
    let rows = sqlx::query("SELECT * FROM tasks WHERE session_id = ?1 ORDER BY first_seq DESC, task_id")
        .bind(session.to_string())
        .fetch_all(pool)
        .await?;
    rows.iter().map(task).collect()
}

fn task(row: &SqliteRow) -> Result<Task, QueryError> {
    let columns = Columns { table: "tasks", row };
    let usage = match columns.count_opt("total_tokens")? {
        None => None,
        Some(total_tokens) => Some(TaskUsage {
            total_tokens,
            tool_uses: columns.count_opt("tool_uses")?.unwrap_or_default(),
            duration_ms: columns.count_opt("duration_ms")?.unwrap_or_default(),
        }),
    };
    Ok(Task {
        task_id: columns.get("task_id")?,
        kind: columns.get("kind")?,
        agent: columns.get("agent")?,
        description: columns.get("description")?,
        status: columns.get("status")?,
        is_backgrounded: columns.get("is_backgrounded")?,
        summary: columns.get("summary")?,
        error: columns.get("error")?,
        output_file: columns.get("output_file")?,
        last_tool: columns.get("last_tool")?,
        parent_task_id: columns.get("parent_task_id")?,
        depth: columns.count_opt("depth")?,
        tool_use_id: columns.get("tool_use_id")?,
        usage,
        run_id: columns.parsed("run_id")?,
        first_seq: columns.seq("first_seq")?,
        last_seq: columns.seq("last_seq")?,
        started_at: columns.time("started_at")?,
        ended_at: columns.time_opt("ended_at")?,
    })
}
