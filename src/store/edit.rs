//! Owns the writes that people ask for: sessions made, edited and deleted.

use std::collections::BTreeMap;

use sqlx::SqliteConnection;

use super::{
    MetaPatch, NewSession, OptionsWrite, QueryError, StoreError,
    column::integer,
    idempotency,
    outbox::{self, Happened},
    rules, sessions,
};
use crate::domain::{AgentKind, FailReason, PutOff, RuleSpec, Seq, SessionId, SessionState, Timestamp};

/// Adds a session; `false` when its id is taken.
pub(super) async fn insert_session(
    connection: &mut SqliteConnection,
    session: &NewSession,
) -> Result<bool, QueryError> {
    if let Some(parent) = session.parent
        && !exists(connection, parent).await?
    {
        return Err(StoreError::UnknownSession(parent).into());
    }
    if let Some(owner) = sessions::of_conversation(&mut *connection, session.cli_session_id).await?
        && owner != session.id
    {
        return Err(StoreError::ConversationTaken(owner).into());
    }
    let added = sqlx::query(
        "INSERT INTO sessions (id, cwd, title, tag, options, parent_id, forked_at, state, cli_session_id,
            created_at, updated_at, restart, forked_from, agent, fork_of, untold)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, ?11, ?12, ?13, ?6, ?14)
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(session.id.to_string())
    .bind(&session.cwd)
    .bind(&session.title)
    .bind(&session.tag)
    .bind(&session.options)
    .bind(session.parent.map(|id| id.to_string()))
    .bind(session.forked_at.map(|id| id.to_string()))
    .bind(session.state.as_str())
    .bind(session.cli_session_id.to_string())
    .bind(session.created_at.as_micros())
    .bind(&session.restart)
    .bind(session.forked_from.map(|id| id.to_string()))
    .bind(session.agent.map(AgentKind::as_str))
    .bind(session.title.is_some() || session.tag.is_some())
    .execute(&mut *connection)
    .await?
    .rows_affected();
    if added == 0 {
        return Ok(false);
    }
    sqlx::query(
        "INSERT INTO cli_sessions (session_id, position, cli_session_id, from_at) VALUES (?1, 1, ?2, ?3)",
    )
    .bind(session.id.to_string())
    .bind(session.cli_session_id.to_string())
    .bind(session.created_at.as_micros())
    .execute(&mut *connection)
    .await?;
    insert_labels(connection, session.id, &session.labels).await?;
    rules::replace(connection, session.id, &session.rules).await?;
    Ok(true)
}

/// Puts these rules in the place of all that a session has; `false` when it is not there.
pub(super) async fn set_rules(
    connection: &mut SqliteConnection,
    id: SessionId,
    rules: &[RuleSpec],
) -> Result<bool, QueryError> {
    if !exists(connection, id).await? {
        return Ok(false);
    }
    rules::replace(connection, id, rules).await?;
    Ok(true)
}

/// Puts these launch options in the place of those that a session has; `false` when it is not there.
pub(super) async fn set_options(
    connection: &mut SqliteConnection,
    id: SessionId,
    write: &OptionsWrite,
) -> Result<bool, QueryError> {
    let changed = sqlx::query(
        "UPDATE sessions SET options = ?2, started_options = ifnull(started_options, options),
            mode_of_options = mode_of_options OR ?4
         WHERE id = ?1 AND options = ?3",
    )
    .bind(id.to_string())
    .bind(&write.after)
    .bind(&write.before)
    .bind(write.sets_mode)
    .execute(&mut *connection)
    .await?
    .rows_affected();
    if changed == 0 && exists(connection, id).await? {
        return Err(StoreError::OptionsMoved.into());
    }
    Ok(changed > 0)
}

/// A process is started with the options as they are stored; `false` when the session is not there.
pub(super) async fn take_options(
    connection: &mut SqliteConnection,
    id: SessionId,
) -> Result<bool, QueryError> {
    sqlx::query("UPDATE sessions SET started_options = NULL WHERE id = ?1 AND started_options IS NOT NULL")
        .bind(id.to_string())
        .execute(&mut *connection)
        .await?;
    exists(connection, id).await
}

/// Says where a session works; `false` when it is not there.
pub(super) async fn set_cwd(
    connection: &mut SqliteConnection,
    id: SessionId,
    cwd: &str,
) -> Result<bool, QueryError> {
    let changed = sqlx::query("UPDATE sessions SET cwd = ?2 WHERE id = ?1")
        .bind(id.to_string())
        .bind(cwd)
        .execute(connection)
        .await?
        .rows_affected();
    Ok(changed > 0)
}

/// Whether the transcript of the conversation does not have the title and the tag yet; `false` when the session is not there.
pub(super) async fn set_untold(
    connection: &mut SqliteConnection,
    id: SessionId,
    untold: bool,
) -> Result<bool, QueryError> {
    let changed = sqlx::query("UPDATE sessions SET untold = ?2 WHERE id = ?1")
        .bind(id.to_string())
        .bind(untold)
        .execute(connection)
        .await?
        .rows_affected();
    Ok(changed > 0)
}

/// A person has seen a session up to this record; `false` when it is not there. Records that were seen before stay
/// seen.
pub(super) async fn set_seen(
    connection: &mut SqliteConnection,
    id: SessionId,
    seq: Seq,
) -> Result<bool, QueryError> {
    sqlx::query("UPDATE sessions SET seen_seq = ?2 WHERE id = ?1 AND seen_seq < ?2")
        .bind(id.to_string())
        .bind(integer(seq.get()))
        .execute(&mut *connection)
        .await?;
    exists(connection, id).await
}

/// The end of a session's last turn is seen no longer; `false` when the session is not there.
pub(super) async fn set_unread(connection: &mut SqliteConnection, id: SessionId) -> Result<bool, QueryError> {
    sqlx::query(
        "UPDATE sessions SET seen_seq = max(last_turn_seq - 1, 0)
         WHERE id = ?1 AND seen_seq > max(last_turn_seq - 1, 0)",
    )
    .bind(id.to_string())
    .execute(&mut *connection)
    .await?;
    exists(connection, id).await
}

/// A person puts off what a session needs, or no longer does; `false` when it is not there.
pub(super) async fn put_off(
    connection: &mut SqliteConnection,
    id: SessionId,
    put_off: Option<&PutOff>,
) -> Result<bool, QueryError> {
    sqlx::query("UPDATE sessions SET put_off = ?2 WHERE id = ?1 AND put_off IS NOT ?2")
        .bind(id.to_string())
        .bind(put_off.and_then(|put_off| serde_json::to_string(put_off).ok()))
        .execute(&mut *connection)
        .await?;
    exists(connection, id).await
}

/// Changes what people say about a session; `false` when it is not there.
pub(super) async fn update_meta(
    connection: &mut SqliteConnection,
    id: SessionId,
    patch: MetaPatch,
    at: Timestamp,
) -> Result<bool, QueryError> {
    let revision: Option<i64> = sqlx::query_scalar("SELECT revision FROM sessions WHERE id = ?1")
        .bind(id.to_string())
        .fetch_optional(&mut *connection)
        .await?;
    let Some(revision) = revision.map(|revision| u64::try_from(revision).unwrap_or_default()) else {
        return Ok(false);
    };
    if patch.revision.is_some_and(|expected| expected != revision) {
        return Err(StoreError::RevisionDiffers(revision).into());
    }
    let mut changed = 0;
    if let Some(write) = patch.options {
        changed += 1;
        set_options(connection, id, &write).await?;
    }
    if let Some(title) = patch.title {
        changed += sqlx::query("UPDATE sessions SET title = ?2 WHERE id = ?1 AND title IS NOT ?2")
            .bind(id.to_string())
            .bind(title)
            .execute(&mut *connection)
            .await?
            .rows_affected();
    }
    if let Some(tag) = patch.tag {
        changed += sqlx::query("UPDATE sessions SET tag = ?2 WHERE id = ?1 AND tag IS NOT ?2")
            .bind(id.to_string())
            .bind(tag)
            .execute(&mut *connection)
            .await?
            .rows_affected();
    }
    if let Some(labels) = patch.labels
        && labels != stored_labels(connection, id).await?
    {
        changed += 1;
        sqlx::query("DELETE FROM session_labels WHERE session_id = ?1")
            .bind(id.to_string())
            .execute(&mut *connection)
            .await?;
        insert_labels(connection, id, &labels).await?;
    }
    if changed > 0 {
        sqlx::query("UPDATE sessions SET updated_at = max(updated_at, ?2) WHERE id = ?1")
            .bind(id.to_string())
            .bind(at.as_micros())
            .execute(&mut *connection)
            .await?;
    }
    Ok(true)
}

/// Says of a session whose journal cannot say it that it failed; `false` when it is not there.
pub(super) async fn mark_failed(
    connection: &mut SqliteConnection,
    id: SessionId,
    reason: &FailReason,
    at: Timestamp,
) -> Result<bool, QueryError> {
    let was_failed: Option<bool> = sqlx::query_scalar("SELECT state = ?2 FROM sessions WHERE id = ?1")
        .bind(id.to_string())
        .bind(SessionState::Failed.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    let changed = sqlx::query(
        "UPDATE sessions SET state = ?2, state_reason = ?3, updated_at = max(updated_at, ?4) WHERE id = ?1",
    )
    .bind(id.to_string())
    .bind(SessionState::Failed.as_str())
    .bind(serde_json::to_string(reason).ok())
    .bind(at.as_micros())
    .execute(&mut *connection)
    .await?
    .rows_affected();
    if was_failed == Some(false) {
        outbox::queue(connection, id, vec![Happened::Failed(at)]).await?;
    }
    Ok(changed > 0)
}

/// Deletes the session that is called so, with all that belongs to it; `false` when it is not there.
pub(super) async fn delete_session(connection: &mut SqliteConnection, id: &str) -> Result<bool, QueryError> {
    // The first turn of a fork is charged by the difference to its parent's total, so a parent's total outlives it.
    sqlx::query(
        "DELETE FROM cli_totals WHERE cli_session_id IN (
            SELECT cli_session_id FROM cli_sessions WHERE session_id = ?1
            EXCEPT SELECT cli_session_id FROM cli_sessions WHERE session_id <> ?1
         ) AND NOT EXISTS (SELECT 1 FROM sessions WHERE parent_id = ?1)",
    )
    .bind(id)
    .execute(&mut *connection)
    .await?;
    idempotency::drop_answers(connection, id).await?;
    outbox::drop_session(connection, id).await?;
    let deleted = sqlx::query("DELETE FROM sessions WHERE id = ?1")
        .bind(id)
        .execute(connection)
        .await?
        .rows_affected();
    Ok(deleted > 0)
}

/// The forks of the session that is called so.
pub(super) async fn forks(connection: &mut SqliteConnection, id: &str) -> Result<Vec<SessionId>, QueryError> {
    let ids = sqlx::query_scalar::<_, String>("SELECT id FROM sessions WHERE parent_id = ?1")
        .bind(id)
        .fetch_all(connection)
        .await?;
    Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

/// Writes the row that is there to be written.
pub(super) async fn probe(connection: &mut SqliteConnection) -> Result<(), QueryError> {
    sqlx::query("UPDATE probe SET writes = (writes + 1) & 0xffffffff")
        .execute(connection)
        .await?;
    Ok(())
}

/// Whether the session is there.
pub(super) async fn exists(connection: &mut SqliteConnection, id: SessionId) -> Result<bool, QueryError> {
    sessions::exists(connection, &id.to_string()).await
}

/// The labels of a session.
pub(super) async fn stored_labels(
    connection: &mut SqliteConnection,
    id: SessionId,
) -> Result<BTreeMap<String, String>, QueryError> {
    let pairs =
        sqlx::query_as::<_, (String, String)>("SELECT key, value FROM session_labels WHERE session_id = ?1")
            .bind(id.to_string())
            .fetch_all(connection)
            .await?;
    Ok(pairs.into_iter().collect())
}

async fn insert_labels(
    connection: &mut SqliteConnection,
    id: SessionId,
    labels: &BTreeMap<String, String>,
) -> Result<(), QueryError> {
    for (key, value) in labels {
        sqlx::query("INSERT INTO session_labels (session_id, key, value) VALUES (?1, ?2, ?3)")
            .bind(id.to_string())
            .bind(key)
            .bind(value)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
