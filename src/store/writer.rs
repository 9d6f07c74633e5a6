//! Owns the writer task: the only place that writes. Requests that wait together are committed together.

use std::{path::PathBuf, sync::Arc};

use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::{
    EndedRequest, MetaPatch, NewSession, OptionsWrite, QueryError, RequestDigest, RequestKey, StoreError,
    apply, edit, idempotency,
    lists::List,
    logins::{self, LoginEdit},
    queue::{self, QueueEdit},
    session_file::{self, Restore, SessionFiles},
    webhooks::{self, WebhookEdit},
};
use crate::domain::{FailReason, Projection, PutOff, RuleSpec, Seq, SessionId, Timestamp};

/// Requests that may wait. A caller waits for a place when there is none.
const QUEUE: usize = 256;
/// Most requests in one transaction, so that the first of them does not wait long.
const BATCH: usize = 64;

/// One thing to write. Its answer is whether the session, request, webhook or login that it names was there (for a new one: was not);
/// of facts whether a webhook is to be told of them.
pub(super) enum Edit {
    InsertSession(Box<NewSession>),
    UpdateMeta {
        id: SessionId,
        patch: MetaPatch,
        at: Timestamp,
    },
    SetOptions {
        id: SessionId,
        write: OptionsWrite,
    },
    TakeOptions(SessionId),
    SetCwd {
        id: SessionId,
        cwd: String,
    },
    SetUntold {
        id: SessionId,
        untold: bool,
    },
    SetSeen {
        id: SessionId,
        seq: Seq,
    },
    SetUnread(SessionId),
    PutOff {
        id: SessionId,
        put_off: Option<PutOff>,
    },
    Queue(SessionId, QueueEdit),
    SetRules {
        id: SessionId,
        rules: Vec<RuleSpec>,
    },
    MarkFailed {
        id: SessionId,
        reason: FailReason,
        at: Timestamp,
    },
    DeleteSession(String),
    Apply(Vec<Projection>),
    BeginRequest {
        key: RequestKey,
        digest: RequestDigest,
        at: Timestamp,
        keep_from: Timestamp,
    },
    EndRequest(Box<EndedRequest>),
    ForgetRequest(RequestKey),
    Webhook(Box<WebhookEdit>),
    Login(LoginEdit),
    /// Write the file of a session anew.
    SaveFile(SessionId),
    /// Write the file of a session anew if it is of a change that was not committed.
    MendFile(SessionId),
    /// Write the files of what belongs to no session.
    SaveLists,
    /// Make rows of a file.
    Restore(Restore),
    Ping,
    /// Close the connection after everything that came before.
    Close,
}

impl Edit {
    /// The session whose file says what this changes.
    fn changes_file_of(&self) -> Option<SessionId> {
        match self {
            Self::InsertSession(session) => Some(session.id),
            Self::UpdateMeta { id, .. }
            | Self::SetOptions { id, .. }
            | Self::TakeOptions(id)
            | Self::SetCwd { id, .. }
            | Self::SetUntold { id, .. }
            | Self::SetSeen { id, .. }
            | Self::SetUnread(id)
            | Self::PutOff { id, .. }
            | Self::Queue(id, _)
            | Self::SetRules { id, .. } => Some(*id),
            // The facts of journals are read there again.
            Self::MarkFailed { .. } | Self::Apply(_) => None,
            // A deletion changes those of the forks.
            Self::DeleteSession(_)
            | Self::SaveFile(_)
            | Self::MendFile(_)
            | Self::SaveLists
            | Self::Restore(_) => None,
            Self::BeginRequest { .. }
            | Self::EndRequest(_)
            | Self::ForgetRequest(_)
            | Self::Webhook(_)
            | Self::Login(_)
            | Self::Ping
            | Self::Close => None,
        }
    }
}

struct Request {
    edit: Edit,
    reply: oneshot::Sender<Result<bool, StoreError>>,
}

/// The handle of the writer task.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Request>,
}

impl Writer {
    /// Starts the task on `connection`, which was opened with `options`.
    pub(super) fn start(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        (path, files): (Arc<PathBuf>, SessionFiles),
        tasks: &TaskTracker,
    ) -> Self {
        let (queue, requests) = mpsc::channel(QUEUE);
        let runner = Runner {
            connection: Some(connection),
            options,
            requests,
            path,
            files,
        };
        drop(tasks.spawn(runner.run()));
        Self { queue }
    }

    /// Has `edit` written and waits until it is committed. A caller that stops waiting does not undo it.
    pub(super) async fn run(&self, edit: Edit) -> Result<bool, StoreError> {
        let (reply, answer) = oneshot::channel();
        let request = Request { edit, reply };
        self.queue.send(request).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Edits that wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Ends the task after what was asked for before.
    pub(super) async fn close(&self) {
        // A second close finds the task gone, which is what it wants.
        drop(self.run(Edit::Close).await);
    }
}

struct Runner {
    /// `None` after a failure, until the next batch opens it again.
    connection: Option<SqliteConnection>,
    options: SqliteConnectOptions,
    requests: mpsc::Receiver<Request>,
    path: Arc<PathBuf>,
    files: SessionFiles,
}

impl Runner {
    /// Ends when it is told to close or when every handle is gone.
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.requests.recv_many(&mut batch, BATCH).await > 0 {
            if batch.iter().any(|request| matches!(request.edit, Edit::Close)) {
                // Requests that are in the queue already are still received, and so still written.
                self.requests.close();
            }
            self.answer(std::mem::take(&mut batch)).await;
        }
        if let Some(connection) = self.connection
            && let Err(error) = connection.close().await
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "database did not close cleanly"
            );
        }
    }

    /// Writes a batch and tells everybody how it went, but nobody before the commit.
    async fn answer(&mut self, batch: Vec<Request>) {
        let (edits, replies): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|request| (request.edit, request.reply))
            .unzip();
        match self.commit(edits).await {
            Ok(outcomes) => {
                for (reply, outcome) in replies.into_iter().zip(outcomes) {
                    // The caller may have gone away.
                    drop(reply.send(outcome.map_err(|error| error.on(&self.path))));
                }
            }
            Err(error) => {
                let error = error.on(&self.path);
                for reply in replies {
                    drop(reply.send(Err(error.clone())));
                }
            }
        }
    }

    async fn commit(&mut self, edits: Vec<Edit>) -> Result<Vec<Result<bool, QueryError>>, QueryError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        let outcome = commit(&mut connection, &self.files, edits).await;
        self.files.end(outcome.is_ok()).await;
        if outcome.is_ok() {
            self.connection = Some(connection);
        } else {
            // SQLite ends the transaction by itself on some failures (a full disk), and the connection's count of open
            // savepoints is wrong from then on. Its closing rolls back what is left; the failure is already known.
            drop(connection.close_hard().await);
        }
        outcome
    }
}

/// Writes all edits in one transaction, each in a savepoint of its own: one that fails leaves the others alone.
async fn commit(
    connection: &mut SqliteConnection,
    files: &SessionFiles,
    edits: Vec<Edit>,
) -> Result<Vec<Result<bool, QueryError>>, QueryError> {
    // Taking the write lock at the start is what lets the busy timeout apply to it.
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut outcomes = Vec::with_capacity(edits.len());
    for edit in edits {
        let mut savepoint = transaction.begin().await?;
        match write(&mut savepoint, files, edit).await {
            Ok(found) => {
                savepoint.commit().await?;
                outcomes.push(Ok(found));
            }
            // When the savepoint is gone, so is the transaction, and this edit's failure is the reason.
            Err(error) => match savepoint.rollback().await {
                Ok(()) => outcomes.push(Err(error)),
                Err(_) => return Err(error),
            },
        }
    }
    transaction.commit().await?;
    Ok(outcomes)
}

/// Writes an edit, and then the file of the session that it has changed.
async fn write(
    connection: &mut SqliteConnection,
    files: &SessionFiles,
    edit: Edit,
) -> Result<bool, QueryError> {
    let Some(id) = edit.changes_file_of() else {
        return write_rows(connection, files, edit).await;
    };
    let before = changes(connection).await?;
    let found = write_rows(connection, files, edit).await?;
    if changes(connection).await? != before {
        files.save(connection, id).await?;
    }
    Ok(found)
}

/// Writes the file of the list that was changed, if one was.
async fn save_list(
    connection: &mut SqliteConnection,
    files: &SessionFiles,
    list: Option<List>,
) -> Result<(), QueryError> {
    match list {
        Some(list) => files.save_list(connection, list).await,
        None => Ok(()),
    }
}

/// How many rows this connection has changed.
async fn changes(connection: &mut SqliteConnection) -> Result<i64, QueryError> {
    Ok(sqlx::query_scalar("SELECT total_changes()")
        .fetch_one(connection)
        .await?)
}

async fn write_rows(
    connection: &mut SqliteConnection,
    files: &SessionFiles,
    edit: Edit,
) -> Result<bool, QueryError> {
    match edit {
        Edit::InsertSession(session) => edit::insert_session(connection, &session).await,
        Edit::UpdateMeta { id, patch, at } => edit::update_meta(connection, id, patch, at).await,
        Edit::SetCwd { id, cwd } => edit::set_cwd(connection, id, &cwd).await,
        Edit::SetUntold { id, untold } => edit::set_untold(connection, id, untold).await,
        Edit::SetSeen { id, seq } => edit::set_seen(connection, id, seq).await,
        Edit::SetUnread(id) => edit::set_unread(connection, id).await,
        Edit::PutOff { id, put_off } => edit::put_off(connection, id, put_off.as_ref()).await,
        Edit::Queue(id, edit) => queue::edit(connection, id, edit).await,
        Edit::SetRules { id, rules } => edit::set_rules(connection, id, &rules).await,
        Edit::SetOptions { id, write } => edit::set_options(connection, id, &write).await,
        Edit::TakeOptions(id) => edit::take_options(connection, id).await,
        Edit::MarkFailed { id, reason, at } => edit::mark_failed(connection, id, &reason, at).await,
        Edit::DeleteSession(id) => {
            let forks = edit::forks(connection, &id).await?;
            let deleted = edit::delete_session(connection, &id).await?;
            for fork in forks {
                files.save_if_possible(connection, fork).await;
            }
            Ok(deleted)
        }
        Edit::Apply(projections) => {
            let applied = apply::apply(connection, projections).await?;
            for session in applied.damaged {
                files.save_if_possible(connection, session).await;
            }
            Ok(applied.is_told)
        }
        Edit::SaveFile(id) => {
            files.save(connection, id).await?;
            edit::exists(connection, id).await
        }
        Edit::MendFile(id) => files.mend(connection, id).await,
        Edit::Restore(step) => session_file::restore(connection, step).await,
        Edit::BeginRequest {
            key,
            digest,
            at,
            keep_from,
        } => idempotency::begin(connection, &key, &digest, at, keep_from).await,
        Edit::EndRequest(ended) => idempotency::end(connection, &ended).await.map(|()| true),
        Edit::ForgetRequest(key) => idempotency::forget(connection, &key).await,
        Edit::Webhook(edit) => {
            let list = List::of_webhooks(&edit);
            let written = webhooks::write(connection, *edit).await?;
            save_list(connection, files, list.filter(|_| written)).await?;
            Ok(written)
        }
        Edit::Login(edit) => {
            let written = logins::edit(connection, edit).await?;
            save_list(connection, files, Some(List::Logins).filter(|_| written)).await?;
            Ok(written)
        }
        Edit::SaveLists => {
            for list in List::ALL {
                files.save_list(connection, list).await?;
            }
            Ok(true)
        }
        Edit::Ping => edit::probe(connection).await.map(|()| true),
        Edit::Close => Ok(true),
    }
}
