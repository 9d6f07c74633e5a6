//! Owns SQLite: the schema, the projection of journals into tables, and the queries. No other module knows SQL.
//!
//! One task owns the one connection that writes; a few connections read. Callers never drive SQL themselves, so a
//! caller that goes away cannot leave a transaction open: they send a request and wait for its answer.

mod apply;
mod approvals;
mod column;
mod connect;
mod edit;
mod error;
mod history;
mod idempotency;
mod lists;
mod logins;
mod model;
mod outbox;
mod page;
mod queue;
mod rate_limits;
mod rules;
mod session_file;
mod sessions;
mod tasks;
#[cfg(test)]
mod tests;
mod todos;
mod unreadable;
mod usage;
mod webhooks;
mod writer;

use std::{
    collections::HashSet,
    future::Future,
    path::{Path, PathBuf},
    sync::Arc,
};

use sqlx::SqlitePool;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

pub use connect::Blank;
pub use error::StoreError;
pub use idempotency::{EndedRequest, KeptAnswer, KeyedEnd, KeyedRequest, RequestDigest, RequestKey};
pub use logins::LoginRow;
pub use model::{
    ApprovalFilter, ApprovalRow, CliSessionSpan, EndOfTurn, MetaPatch, NewSession, OptionsWrite, PromptRow,
    RunEnd, RunRow, SessionFilter, SessionRow, TodoRow, UsageGroup, UsageQuery, UsageRow,
};
pub use page::{BadLimit, Page, PageRequest};
pub use session_file::{SESSION_FILE, SessionFile};
pub use webhooks::{DeliveryAttempt, DeliveryEnd, NewWebhook, WebhookDelivery, WebhookPatch, WebhookRow};

use crate::domain::{
    Approval, ApprovalId, AttentionReason, CliSessionId, FailReason, LoginId, Projection, PromptState,
    PromptUuid, PutOff, QueuedPrompt, RateLimit, RuleSpec, Seq, SessionId, SessionState, Task, Timestamp,
    TurnEnd, WebhookId, fact::CliTotals,
};
use crate::files;
use connect::Identity;
use lists::List;
use logins::LoginEdit;
use queue::QueueEdit;
use session_file::{Restore, SessionFiles};
use unreadable::Unreadable;
use webhooks::WebhookEdit;
use writer::{Edit, Writer};

/// How much of a prompt's text is kept for lists and search, in characters.
pub const PROMPT_TEXT_CHARS: usize = 200;

/// The handle of the store. Clones share one store.
#[derive(Clone, Debug)]
pub struct Store {
    path: Arc<PathBuf>,
    identity: Identity,
    writer: Writer,
    readers: SqlitePool,
    unreadable: Unreadable,
    /// Told when a webhook has something to be told, or was changed.
    outbox: Arc<Notify>,
    tasks: TaskTracker,
}

impl Store {
    /// The newest form of the database that this program knows.
    pub fn schema() -> i64 {
        connect::MIGRATIONS
            .iter()
            .map(|it| it.version)
            .max()
            .unwrap_or_default()
    }

    /// Whether there is no database at `path`, or an empty one.
    ///
    /// # Errors
    /// The file could not be looked at.
    pub fn blank(path: &Path) -> std::io::Result<Option<Blank>> {
        connect::blank(path)
    }

    /// Whether [`Self::open`] could use the database at `path`. Nothing is changed.
    ///
    /// # Errors
    /// Why not.
    pub async fn look(path: &Path) -> Result<(), StoreError> {
        connect::look(path).await
    }

    /// Opens the database at `path`, makes it (mode 0600) when it is not there, and brings its schema up to date.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, SessionFiles::beside(path)).await
    }

    /// As [`Self::open`], to make a database of the files of the sessions: these are not written meanwhile.
    pub async fn open_to_rebuild(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, SessionFiles::unchanged()).await
    }

    async fn open_with(path: &Path, files: SessionFiles) -> Result<Self, StoreError> {
        let opened = connect::open(path).await?;
        let tasks = TaskTracker::new();
        let path = Arc::new(path.to_path_buf());
        let place = (Arc::clone(&path), files);
        let writer = Writer::start(opened.writer, opened.writer_options, place, &tasks);
        Ok(Self {
            path,
            writer,
            identity: opened.identity,
            readers: opened.readers,
            unreadable: Unreadable::default(),
            outbox: Arc::default(),
            tasks,
        })
    }

    /// Commits what was already asked for, then closes every connection. Later calls get [`StoreError::Closed`].
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Checks that the file is in its place: SQLite itself would go on writing to one that was deleted.
    pub async fn in_place(&self) -> Result<(), StoreError> {
        self.identity.check(&self.path).await
    }

    /// Checks that the file is in its place and that a write to it commits.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.identity.check(&self.path).await?;
        self.writer.run(Edit::Ping).await.map(drop)
    }

    /// Adds a session, and its file to its folder. Its id must be new, and its parent, if it has one, must be there.
    pub async fn insert_session(&self, session: NewSession) -> Result<(), StoreError> {
        let id = session.id;
        if self.writer.run(Edit::InsertSession(Box::new(session))).await? {
            Ok(())
        } else {
            Err(StoreError::SessionExists(id))
        }
    }

    /// Changes title, tag, labels or options. A change that changes something counts as activity at `at`.
    pub async fn update_meta(
        &self,
        id: SessionId,
        patch: MetaPatch,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let found = self.writer.run(Edit::UpdateMeta { id, patch, at }).await?;
        known(id, found)
    }

    /// Says where a session works of which that was lost.
    pub async fn set_cwd(&self, id: SessionId, cwd: String) -> Result<(), StoreError> {
        let found = self.writer.run(Edit::SetCwd { id, cwd }).await?;
        known(id, found)
    }

    /// Whether the transcript of the conversation does not have the title and the tag yet.
    pub async fn set_untold(&self, id: SessionId, untold: bool) -> Result<(), StoreError> {
        let found = self.writer.run(Edit::SetUntold { id, untold }).await?;
        known(id, found)
    }

    /// A person has seen a session up to this record. Records that were seen before stay seen.
    pub async fn set_seen(&self, id: SessionId, seq: Seq) -> Result<(), StoreError> {
        let found = self.writer.run(Edit::SetSeen { id, seq }).await?;
        known(id, found)
    }

    /// The end of a session's last turn is seen no longer. Records before it stay as they are.
    pub async fn set_unread(&self, id: SessionId) -> Result<(), StoreError> {
        let found = self.writer.run(Edit::SetUnread(id)).await?;
        known(id, found)
    }

    /// A person puts off what a session needs, or no longer does.
    pub async fn put_off(&self, id: SessionId, put_off: Option<PutOff>) -> Result<(), StoreError> {
        let found = self.writer.run(Edit::PutOff { id, put_off }).await?;
        known(id, found)
    }

    /// A message waits for a session from now on, behind the others.
    pub async fn queue_prompt(&self, id: SessionId, prompt: QueuedPrompt) -> Result<(), StoreError> {
        let found = self.writer.run(Edit::Queue(id, QueueEdit::Add(prompt))).await?;
        known(id, found)
    }

    /// Changes a message that waits; `false` when it does not wait.
    pub async fn change_queued_prompt(
        &self,
        id: SessionId,
        uuid: PromptUuid,
        body: Option<String>,
        held: Option<bool>,
    ) -> Result<bool, StoreError> {
        let edit = QueueEdit::Change { uuid, body, held };
        self.writer.run(Edit::Queue(id, edit)).await
    }

    /// A message waits no longer; `false` when it did not wait.
    pub async fn unqueue_prompt(&self, id: SessionId, uuid: PromptUuid) -> Result<bool, StoreError> {
        self.writer.run(Edit::Queue(id, QueueEdit::Remove(uuid))).await
    }

    /// The messages of a session that wait, in their order.
    pub async fn queued_prompts(&self, id: SessionId) -> Result<Vec<QueuedPrompt>, StoreError> {
        self.read(move |pool| async move { queue::list(&pool, id).await })
            .await
    }

    /// The sessions for which messages wait.
    pub async fn queued_sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        self.read(move |pool| async move { queue::sessions(&pool).await })
            .await
    }

    /// The tasks of a session that its CLI told of, the newest first: at most a thousand.
    pub async fn tasks(&self, session: SessionId) -> Result<Vec<Task>, StoreError> {
        self.read(move |pool| async move { tasks::list(&pool, session).await })
            .await
    }

    /// The to-do list of the agent of a session; `None` when it never kept a list.
    pub async fn todos(&self, session: SessionId) -> Result<Option<TodoRow>, StoreError> {
        self.read(move |pool| async move { todos::of_session(&pool, session).await })
            .await
    }

    /// The last words about each limit of an account, with their session; the newest first.
    pub async fn rate_limits(&self) -> Result<Vec<(SessionId, RateLimit)>, StoreError> {
        self.read(move |pool| async move { rate_limits::newest(&pool).await })
            .await
    }

    /// Puts these rules in the place of all that a session has.
    pub async fn set_rules(&self, id: SessionId, rules: Vec<RuleSpec>) -> Result<(), StoreError> {
        let found = self.writer.run(Edit::SetRules { id, rules }).await?;
        known(id, found)
    }

    /// Puts these launch options in the place of those that a session has; `OptionsMoved` when it has others than they were made of.
    pub async fn set_options(&self, id: SessionId, write: OptionsWrite) -> Result<(), StoreError> {
        let found = self.writer.run(Edit::SetOptions { id, write }).await?;
        known(id, found)
    }

    /// A process is started with the options of a session as they are stored.
    pub async fn take_options(&self, id: SessionId) -> Result<(), StoreError> {
        let found = self.writer.run(Edit::TakeOptions(id)).await?;
        known(id, found)
    }

    /// Says of a session whose journal cannot say it that it failed. Its journal's later records count again.
    pub async fn mark_failed(
        &self,
        id: SessionId,
        reason: FailReason,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let found = self.writer.run(Edit::MarkFailed { id, reason, at }).await?;
        self.outbox.notify_one();
        known(id, found)
    }

    /// Deletes a session with everything that belongs to it; `false` when it was not there. Its forks stay. The CLI's
    /// totals of its conversations stay only while another session needs them.
    pub async fn delete_session(&self, id: SessionId) -> Result<bool, StoreError> {
        self.delete_session_named(&id.to_string()).await
    }

    /// As [`Self::delete_session`], by what the row has as id, which may be none.
    pub async fn delete_session_named(&self, id: &str) -> Result<bool, StoreError> {
        let deleted = self.writer.run(Edit::DeleteSession(id.to_owned())).await?;
        self.unreadable.forget(id);
        Ok(deleted)
    }

    /// Writes the file of a session anew; `false` when there is no such session.
    pub async fn save_session_file(&self, id: SessionId) -> Result<bool, StoreError> {
        self.writer.run(Edit::SaveFile(id)).await
    }

    /// Writes the file of a session anew if it is of a change that was not committed, as the daemon died between the two; says
    /// whether it was.
    pub async fn mend_session_file(&self, id: SessionId) -> Result<bool, StoreError> {
        self.writer.run(Edit::MendFile(id)).await
    }

    /// The revisions of the files of all sessions, as they were committed.
    pub async fn revisions(&self) -> Result<Vec<(SessionId, u64)>, StoreError> {
        self.read(|pool| async move { sessions::revisions(&pool).await })
            .await
    }

    /// Adds a session of its file alone; its journal is to be read then. `false` when it is there already.
    pub async fn restore_session(&self, file: SessionFile) -> Result<bool, StoreError> {
        self.writer.run(Edit::Restore(Restore::Add(Box::new(file)))).await
    }

    /// Writes the files of what belongs to no session.
    pub async fn save_lists(&self) -> Result<(), StoreError> {
        self.writer.run(Edit::SaveLists).await.map(drop)
    }

    /// Adds what belongs to no session of its files in the folder of a database. A file that cannot be used is passed over.
    pub async fn restore_lists(&self, folder: &Path) -> Result<(), StoreError> {
        for list in List::ALL {
            let path = folder.join(list.file());
            let read = tokio::task::spawn_blocking(move || files::read_to_string(&path)).await;
            let Ok(Ok(rows)) = read else { continue };
            let step = Restore::List(list, rows);
            match self.writer.run(Edit::Restore(step)).await {
                Err(error) if error.blames_the_data() => {
                    tracing::error!(file = list.file(), %error, "a file cannot be used");
                }
                restored => drop(restored?),
            }
        }
        Ok(())
    }

    /// Lets the file of a session hold, once its journal was read up to the record that the file is of.
    pub async fn hold_session(&self, file: SessionFile) -> Result<(), StoreError> {
        let step = Restore::Hold(Box::new(file));
        self.writer.run(Edit::Restore(step)).await.map(drop)
    }

    /// Says of which session each of these is a fork, if that is there.
    pub async fn restore_parents(&self, forks: Vec<(SessionId, SessionId)>) -> Result<(), StoreError> {
        let step = Restore::Parents(forks);
        self.writer.run(Edit::Restore(step)).await.map(drop)
    }

    /// Adds what journals say, in one transaction. A projection whose `seq` is not above the session's projected one is
    /// skipped, so reading a journal again does no harm; one of a session that is not there is dropped with a warning.
    /// Other writes wait meanwhile, so a long catch-up goes in parts of some hundred facts.
    pub async fn apply(&self, projections: Vec<Projection>) -> Result<(), StoreError> {
        if self.writer.run(Edit::Apply(projections)).await? {
            self.outbox.notify_one();
        }
        Ok(())
    }

    /// Adds a webhook; `false` when there are as many as there may be.
    pub async fn insert_webhook(&self, webhook: NewWebhook) -> Result<bool, StoreError> {
        self.edit_webhooks(WebhookEdit::Insert(webhook)).await
    }

    /// Makes the webhooks that have a name these.
    pub async fn configure_webhooks(&self, webhooks: Vec<NewWebhook>) -> Result<(), StoreError> {
        let edit = WebhookEdit::Configure(webhooks);
        self.edit_webhooks(edit).await.map(drop)
    }

    /// Changes a webhook; `false` when there is none with this id that was made over HTTP. One that is disabled loses what
    /// waits for it.
    pub async fn change_webhook(&self, id: WebhookId, patch: WebhookPatch) -> Result<bool, StoreError> {
        self.edit_webhooks(WebhookEdit::Change(id, patch)).await
    }

    /// Deletes a webhook with what waits for it; `false` when there is none with this id that was made over HTTP.
    pub async fn delete_webhook(&self, id: WebhookId) -> Result<bool, StoreError> {
        self.edit_webhooks(WebhookEdit::Delete(id)).await
    }

    /// Writes down how an attempt to deliver ended.
    pub async fn delivery_ended(&self, attempt: DeliveryAttempt) -> Result<(), StoreError> {
        // The one who tries looks for the next one by itself.
        let edit = Box::new(WebhookEdit::Ended(attempt));
        self.writer.run(Edit::Webhook(edit)).await.map(drop)
    }

    /// Tells webhooks that a session needs a person for a reason that no record tells of; once while it lasts.
    pub async fn note_attention(
        &self,
        session: SessionId,
        reason: AttentionReason,
        since: Timestamp,
    ) -> Result<(), StoreError> {
        let edit = WebhookEdit::Attention(session, reason, since);
        self.edit_webhooks(edit).await.map(drop)
    }

    /// A session needs nobody any more for such a reason.
    pub async fn clear_attention(&self, session: SessionId) -> Result<(), StoreError> {
        let edit = Box::new(WebhookEdit::Calm(session));
        self.writer.run(Edit::Webhook(edit)).await.map(drop)
    }

    /// No session but these needs a person for such a reason.
    pub async fn clear_other_attention(&self, sessions: Vec<SessionId>) -> Result<(), StoreError> {
        let edit = Box::new(WebhookEdit::CalmOthers(sessions));
        self.writer.run(Edit::Webhook(edit)).await.map(drop)
    }

    async fn edit_webhooks(&self, edit: WebhookEdit) -> Result<bool, StoreError> {
        let done = self.writer.run(Edit::Webhook(Box::new(edit))).await?;
        self.outbox.notify_one();
        Ok(done)
    }

    /// Waits until a webhook has something to be told, or was changed.
    ///
    /// CANCEL-SAFETY: what nobody waited for is told to the next who does.
    pub async fn outbox_changed(&self) {
        self.outbox.notified().await;
    }

    /// All webhooks, the oldest first.
    pub async fn webhooks(&self) -> Result<Vec<WebhookRow>, StoreError> {
        self.read(move |pool| async move { webhooks::list(&pool).await })
            .await
    }

    /// The webhook with this id.
    pub async fn webhook(&self, id: WebhookId) -> Result<Option<WebhookRow>, StoreError> {
        self.read(move |pool| async move { webhooks::by_id(&pool, id).await })
            .await
    }

    /// The next delivery of each webhook that is told anything, whether or not it is due.
    pub async fn next_deliveries(&self) -> Result<Vec<WebhookDelivery>, StoreError> {
        self.read(move |pool| async move { webhooks::next_deliveries(&pool).await })
            .await
    }

    /// Events that wait for webhooks.
    pub async fn deliveries_waiting(&self) -> Result<u64, StoreError> {
        self.read(move |pool| async move { webhooks::pending(&pool).await })
            .await
    }

    /// All logins that were used since `from`; older ones are forgotten.
    pub async fn logins(&self, from: Timestamp) -> Result<Vec<LoginRow>, StoreError> {
        self.writer.run(Edit::Login(LoginEdit::Prune(from))).await?;
        self.read(|pool| async move { logins::list(&pool).await }).await
    }

    /// Adds a login.
    pub async fn insert_login(&self, login: LoginRow) -> Result<(), StoreError> {
        let edit = LoginEdit::Insert(Box::new(login));
        self.writer.run(Edit::Login(edit)).await.map(drop)
    }

    /// Notes that a login was used.
    pub async fn login_used(&self, id: LoginId, at: Timestamp) -> Result<(), StoreError> {
        self.writer
            .run(Edit::Login(LoginEdit::Used(id, at)))
            .await
            .map(drop)
    }

    /// Deletes a login; `false` when it was not there.
    pub async fn delete_login(&self, id: LoginId) -> Result<bool, StoreError> {
        self.writer.run(Edit::Login(LoginEdit::Delete(id))).await
    }

    /// Events that were dropped since the start of the program.
    pub fn deliveries_dropped(&self) -> u64 {
        webhooks::dropped()
    }

    /// Writes down that the request with this key begins. `None`: it is new, and may run. Else what is known of the one
    /// that had the key since `keep_from`; older ones are forgotten, some at each call.
    pub async fn begin_request(
        &self,
        key: RequestKey,
        digest: RequestDigest,
        at: Timestamp,
        keep_from: Timestamp,
    ) -> Result<Option<KeyedRequest>, StoreError> {
        loop {
            let begin = Edit::BeginRequest {
                key: key.clone(),
                digest,
                at,
                keep_from,
            };
            if self.writer.run(begin).await? {
                return Ok(None);
            }
            let known = key.clone();
            let known = self.read(move |pool| async move { idempotency::find(&pool, &known).await });
            // Its row may have become too old just now; then it is new.
            if let Some(known) = known.await? {
                return Ok(Some(known));
            }
        }
    }

    /// Writes down how a request ended that began.
    pub async fn end_request(&self, ended: EndedRequest) -> Result<(), StoreError> {
        let edit = Edit::EndRequest(Box::new(ended));
        self.writer.run(edit).await.map(drop)
    }

    /// Forgets a request that began and did nothing, so that its key is free again.
    pub async fn forget_request(&self, key: RequestKey) -> Result<(), StoreError> {
        self.writer.run(Edit::ForgetRequest(key)).await.map(drop)
    }

    /// Writes that wait for their turn.
    pub fn writes_waiting(&self) -> u64 {
        self.writer.waiting() as u64
    }

    /// The session with this id.
    pub async fn session(&self, id: SessionId) -> Result<Option<SessionRow>, StoreError> {
        let unreadable = self.unreadable.clone();
        self.read(move |pool| async move { sessions::by_id(&pool, &unreadable, id).await })
            .await
    }

    /// All conversations of the CLI that sessions have, or had.
    pub async fn conversations(&self) -> Result<Vec<(CliSessionId, SessionId)>, StoreError> {
        self.read(move |pool| async move { sessions::conversations(&pool).await })
            .await
    }

    /// The sessions, and the record that asked for the last process of each; zero before the first.
    pub async fn last_runs(&self) -> Result<Vec<(SessionId, Seq)>, StoreError> {
        self.read(|pool| async move { sessions::last_runs(&pool).await })
            .await
    }

    /// Whether there is a session with this id, readable or not.
    pub async fn has_session(&self, id: SessionId) -> Result<bool, StoreError> {
        self.read(move |pool| async move { sessions::exists(&pool, &id.to_string()).await })
            .await
    }

    /// The ids, or what is in their place, of sessions whose rows could not be read when they were last.
    pub fn unreadable_sessions(&self) -> Vec<String> {
        self.unreadable.all()
    }

    /// Sessions, newest activity first; without those that cannot be read.
    pub async fn sessions(
        &self,
        filter: SessionFilter,
        page: PageRequest,
    ) -> Result<Page<SessionRow>, StoreError> {
        let unreadable = self.unreadable.clone();
        self.read(move |pool| async move { sessions::list(&pool, &unreadable, &filter, &page).await })
            .await
    }

    /// How many sessions are in each state, states without any left out.
    pub async fn sessions_by_state(&self) -> Result<Vec<(SessionState, u64)>, StoreError> {
        self.read(move |pool| async move { sessions::by_state(&pool).await })
            .await
    }

    /// All sessions in a state to which a process belongs, oldest first; without those that cannot be read.
    pub async fn unsettled_sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        let unreadable = self.unreadable.clone();
        self.read(move |pool| async move { sessions::unsettled(&pool, &unreadable).await })
            .await
    }

    /// Looks at all sessions, so that [`Self::unreadable_sessions`] knows; gives the ids of all.
    pub async fn examine_sessions(&self) -> Result<HashSet<SessionId>, StoreError> {
        let unreadable = self.unreadable.clone();
        self.read(move |pool| async move { sessions::examine(&pool, &unreadable).await })
            .await
    }

    /// The ids that the CLI gave the conversation, in their order; the last is the current one.
    pub async fn cli_session_history(&self, session: SessionId) -> Result<Vec<CliSessionSpan>, StoreError> {
        self.read(move |pool| async move { history::cli_sessions(&pool, session).await })
            .await
    }

    /// The session that has this conversation of the CLI now.
    pub async fn session_of_conversation(&self, id: CliSessionId) -> Result<Option<SessionId>, StoreError> {
        self.read(move |pool| async move { sessions::of_conversation(&pool, id).await })
            .await
    }

    /// The last known running total of a conversation of the CLI.
    pub async fn cli_totals(&self, id: CliSessionId) -> Result<Option<CliTotals>, StoreError> {
        self.read(move |pool| async move { history::cli_totals(&pool, id).await })
            .await
    }

    /// The processes of a session, in the order of their start.
    pub async fn runs(&self, session: SessionId) -> Result<Vec<RunRow>, StoreError> {
        self.read(move |pool| async move { history::runs(&pool, session).await })
            .await
    }

    /// The finished turns of a session, first one first.
    pub async fn turns(&self, session: SessionId, page: PageRequest) -> Result<Page<TurnEnd>, StoreError> {
        self.read(move |pool| async move { history::turns(&pool, session, &page).await })
            .await
    }

    /// The finished turns of the records from `from` to `to`, in their order. Records between two turns, such as a prompt, are of
    /// the later one.
    pub async fn turns_between(
        &self,
        session: SessionId,
        from: Seq,
        to: Seq,
    ) -> Result<Vec<EndOfTurn>, StoreError> {
        self.read(move |pool| async move { history::turns_between(&pool, session, (from, to)).await })
            .await
    }

    /// The newest turn that answered a prompt.
    pub async fn turn_of_prompt(
        &self,
        session: SessionId,
        prompt: PromptUuid,
    ) -> Result<Option<TurnEnd>, StoreError> {
        self.read(move |pool| async move { history::turn_of_prompt(&pool, session, prompt).await })
            .await
    }

    /// The turn with this number.
    pub async fn turn(&self, session: SessionId, number: u64) -> Result<Option<TurnEnd>, StoreError> {
        self.read(move |pool| async move { history::turn(&pool, session, number).await })
            .await
    }

    /// The prompts of a session in these states, in the order of their first record; all when no state is named.
    pub async fn prompts(
        &self,
        session: SessionId,
        states: &[PromptState],
    ) -> Result<Vec<PromptRow>, StoreError> {
        let states = states.to_vec();
        self.read(move |pool| async move { history::prompts(&pool, session, &states).await })
            .await
    }

    /// The prompts of a session whose first record came before this one, with that record.
    pub async fn prompts_before(
        &self,
        session: SessionId,
        before: Seq,
    ) -> Result<Vec<(PromptUuid, Seq)>, StoreError> {
        self.read(move |pool| async move { history::prompts_before(&pool, session, before).await })
            .await
    }

    /// The prompt with this id.
    pub async fn prompt(
        &self,
        session: SessionId,
        uuid: PromptUuid,
    ) -> Result<Option<PromptRow>, StoreError> {
        self.read(move |pool| async move { history::prompt(&pool, session, uuid).await })
            .await
    }

    /// Approvals, newest first.
    pub async fn approvals(
        &self,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> Result<Page<ApprovalRow>, StoreError> {
        self.read(move |pool| async move { approvals::list(&pool, filter, &page).await })
            .await
    }

    /// The calls of a session that hooks put off up to this record, and that nobody has decided.
    pub async fn deferred(&self, session: SessionId, until: u64) -> Result<Vec<Approval>, StoreError> {
        self.read(move |pool| async move { approvals::deferred(&pool, session, until).await })
            .await
    }

    /// The approval with this id.
    pub async fn approval(&self, id: ApprovalId) -> Result<Option<ApprovalRow>, StoreError> {
        self.read(move |pool| async move { approvals::by_id(&pool, id).await })
            .await
    }

    /// The rules of a session, in their order.
    pub async fn rules(&self, session: SessionId) -> Result<Vec<RuleSpec>, StoreError> {
        self.read(move |pool| async move { rules::of_session(&pool, session).await })
            .await
    }

    /// Sums over finished turns. Days come newest first, other groups by falling cost.
    pub async fn usage(&self, query: UsageQuery, page: PageRequest) -> Result<Page<UsageRow>, StoreError> {
        self.read(move |pool| async move { usage::sum(&pool, query, &page).await })
            .await
    }

    /// Runs a read in a task of its own, so that it ends as it should when the caller goes away.
    async fn read<T, F>(&self, query: impl FnOnce(SqlitePool) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, QueryError>> + Send + 'static,
    {
        match self.tasks.spawn(query(self.readers.clone())).await {
            Ok(answer) => answer.map_err(|error| error.on(&self.path)),
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only the end of the runtime cancels a read.
                Err(_) => Err(StoreError::Closed),
            },
        }
    }
}

/// A failure inside the module, before the file's path is added to it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum QueryError {
    Sql(#[from] sqlx::Error),
    Store(#[from] StoreError),
}

impl QueryError {
    fn on(self, path: &Path) -> StoreError {
        match self {
            Self::Sql(error) => StoreError::of_query(error, path),
            Self::Store(error) => error,
        }
    }
}

fn known(id: SessionId, found: bool) -> Result<(), StoreError> {
    if found {
        Ok(())
    } else {
        Err(StoreError::UnknownSession(id))
    }
}
