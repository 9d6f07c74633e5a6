//! Owns the messages that wait in the daemon: each is given to its session once that does nothing, in their order, and can be
//! changed, held and taken back until then.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    domain::{Clock, PromptUuid, QueuedPrompt, Seq, SessionId, SessionState},
    session::LiveView,
    telemetry,
};

use super::{NewMessage, Supervisor, SupervisorError};

/// Most messages that wait for one session.
const MOST_WAITING: usize = 100;
/// Between two tries with a session that has no process or takes nothing now.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two looks whether a session whose first message is held is still there.
const HELD_PAUSE: Duration = Duration::from_secs(60);
/// The sender in the journal of a message that waited.
const BY: &str = "rest";

/// Makes a message of the request that was kept. The queue knows no wire shapes.
type Read = fn(&str, PromptUuid) -> Option<NewMessage>;

/// The messages that wait. Clones are handles on the same ones.
#[derive(Clone, Debug)]
pub struct PromptQueue {
    supervisor: Supervisor,
    read: Read,
    lines: Arc<Mutex<HashMap<SessionId, Arc<Line>>>>,
}

/// The line of one session.
#[derive(Debug, Default)]
struct Line {
    /// Held while a message is given, changed or taken back: each of these finds it in the line, or gone.
    turn: tokio::sync::Mutex<()>,
    changed: Notify,
}

impl PromptQueue {
    /// The queue of this supervisor.
    pub fn new(supervisor: Supervisor, read: Read) -> Self {
        Self {
            supervisor,
            read,
            lines: Arc::default(),
        }
    }

    /// Goes on with what waited when the last daemon ended.
    pub async fn start(&self) {
        match self.supervisor.shared.store.queued_sessions().await {
            Ok(sessions) => sessions.into_iter().for_each(|id| drop(self.line(id))),
            Err(error) => {
                let error = telemetry::chain(&error);
                tracing::error!(error, "the messages that wait cannot be read");
            }
        }
    }

    /// The messages of a session that wait, in their order.
    ///
    /// # Errors
    /// `SessionNotFound`, `Store`.
    pub async fn list(&self, id: SessionId) -> Result<Vec<QueuedPrompt>, SupervisorError> {
        self.supervisor.row(id).await?;
        Ok(self.supervisor.shared.store.queued_prompts(id).await?)
    }

    /// Adds a message at the end. A repeat of one that waits changes nothing.
    ///
    /// # Errors
    /// `SessionNotFound`, `PromptGiven`, `QueueFull`, `Store`; those of a message that cannot be sent.
    pub async fn add(&self, id: SessionId, prompt: QueuedPrompt) -> Result<QueuedPrompt, SupervisorError> {
        self.supervisor.row(id).await?;
        let line = self.line(id);
        // Two that come at once are counted one after the other.
        let _turn = line.turn.lock().await;
        let waiting = self.list(id).await?;
        if let Some(known) = waiting.iter().find(|known| known.uuid == prompt.uuid) {
            return match known.body == prompt.body {
                true => Ok(known.clone()),
                false => Err(SupervisorError::PromptConflict { uuid: prompt.uuid }),
            };
        }
        if waiting.len() >= MOST_WAITING {
            return Err(SupervisorError::QueueFull);
        }
        self.check(id, &prompt.body, prompt.uuid).await?;
        if self.is_given(id, prompt.uuid).await? {
            return Err(SupervisorError::PromptGiven { uuid: prompt.uuid });
        }
        self.supervisor
            .shared
            .store
            .queue_prompt(id, prompt.clone())
            .await?;
        self.tell(id).await;
        line.changed.notify_one();
        Ok(prompt)
    }

    /// Changes a message that waits, or holds it, or lets it go.
    ///
    /// # Errors
    /// `SessionNotFound`, `PromptGiven`, `PromptNotFound`, `Store`; those of a message that cannot be sent.
    pub async fn change(
        &self,
        id: SessionId,
        uuid: PromptUuid,
        body: Option<String>,
        held: Option<bool>,
    ) -> Result<QueuedPrompt, SupervisorError> {
        let line = self.known_line(id, uuid).await?;
        let _turn = line.turn.lock().await;
        if let Some(body) = &body {
            self.check(id, body, uuid).await?;
        }
        let store = &self.supervisor.shared.store;
        let is_there = store.change_queued_prompt(id, uuid, body, held).await?;
        let waiting = store.queued_prompts(id).await?;
        self.tell(id).await;
        line.changed.notify_one();
        match waiting.into_iter().find(|prompt| is_there && prompt.uuid == uuid) {
            Some(prompt) => Ok(prompt),
            None => Err(self.not_waiting(id, uuid).await?),
        }
    }

    /// Takes a message back that waits.
    ///
    /// # Errors
    /// `SessionNotFound`, `PromptGiven`, `PromptNotFound`, `Store`.
    pub async fn take_back(&self, id: SessionId, uuid: PromptUuid) -> Result<(), SupervisorError> {
        let line = self.known_line(id, uuid).await?;
        let _turn = line.turn.lock().await;
        if !self.supervisor.shared.store.unqueue_prompt(id, uuid).await? {
            return Err(self.not_waiting(id, uuid).await?);
        }
        self.tell(id).await;
        line.changed.notify_one();
        Ok(())
    }

    /// The line of a session in which this message waits.
    async fn known_line(&self, id: SessionId, uuid: PromptUuid) -> Result<Arc<Line>, SupervisorError> {
        let waiting = self.list(id).await?;
        match waiting.iter().any(|prompt| prompt.uuid == uuid) {
            true => Ok(self.line(id)),
            false => Err(self.not_waiting(id, uuid).await?),
        }
    }

    async fn not_waiting(&self, id: SessionId, uuid: PromptUuid) -> Result<SupervisorError, SupervisorError> {
        Ok(match self.is_given(id, uuid).await? {
            true => SupervisorError::PromptGiven { uuid },
            false => SupervisorError::PromptNotFound { uuid },
        })
    }

    async fn is_given(&self, id: SessionId, uuid: PromptUuid) -> Result<bool, SupervisorError> {
        self.supervisor.settled().await;
        Ok(self.supervisor.shared.store.prompt(id, uuid).await?.is_some())
    }

    async fn check(&self, id: SessionId, body: &str, uuid: PromptUuid) -> Result<(), SupervisorError> {
        let message = (self.read)(body, uuid).ok_or(SupervisorError::InvalidContent)?;
        self.supervisor.check_message(id, &message).await
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Line>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line of a session, which somebody serves from now on.
    fn line(&self, id: SessionId) -> Arc<Line> {
        let mut lines = self.lines();
        if let Some(line) = lines.get(&id) {
            return Arc::clone(line);
        }
        let line = Arc::new(Line::default());
        lines.insert(id, Arc::clone(&line));
        let closing = self.supervisor.shared.closing.clone();
        let serve = self.clone().serve(id, Arc::clone(&line));
        let tracker = &self.supervisor.shared.tracker;
        tracker.spawn(closing.run_until_cancelled_owned(serve));
        line
    }

    /// Gives the messages of one session, until none waits.
    async fn serve(self, id: SessionId, line: Arc<Line>) {
        // The record of the message that was given last: a view that is older says nothing of it.
        let mut given = Seq::ZERO;
        loop {
            let turn = line.turn.lock().await;
            let first = match self.supervisor.shared.store.queued_prompts(id).await {
                Ok(waiting) => waiting.into_iter().next(),
                Err(_) => {
                    drop(turn);
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Some(first) = first else {
                let mut lines = self.lines();
                // Nobody who has the line can be about to add to it unseen: the next look finds it.
                if Arc::strong_count(&line) <= 2 {
                    lines.remove(&id);
                    return;
                }
                drop(lines);
                drop(turn);
                tokio::time::timeout(PAUSE, line.changed.notified()).await.ok();
                continue;
            };
            let is_free = |view: &LiveView| is_free(view) && view.head_seq >= given;
            let handle = self.supervisor.shared.registry.get(id);
            let is_due = !first.held && handle.as_ref().is_some_and(|handle| is_free(&handle.view()));
            if is_due {
                match self.give(id, &first).await {
                    Ok(seq) => given = seq,
                    Err(error) => {
                        let error = telemetry::chain(&error);
                        tracing::warn!(session.id = %id, error, "a message that waits cannot be given yet");
                        drop(turn);
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                continue;
            }
            drop(turn);
            // Both branches wait, and take nothing: they are cancel-safe.
            tokio::select! {
                () = line.changed.notified() => {}
                () = async {
                    match handle.filter(|_| !first.held) {
                        Some(handle) => {
                            if handle.seen(is_free).await.is_err() {
                                tokio::time::sleep(PAUSE).await;
                            }
                        }
                        // A session that is deleted tells its line nothing.
                        None if first.held => tokio::time::sleep(HELD_PAUSE).await,
                        None => tokio::time::sleep(PAUSE).await,
                    }
                } => {}
            }
        }
    }

    /// Gives a message to its session. It leaves the line once it is in the journal, under whose id it is given once only.
    async fn give(&self, id: SessionId, prompt: &QueuedPrompt) -> Result<Seq, SupervisorError> {
        let message = (self.read)(&prompt.body, prompt.uuid).ok_or(SupervisorError::InvalidContent)?;
        let accepted = self.supervisor.send(id, message, BY).await?;
        self.supervisor
            .shared
            .store
            .unqueue_prompt(id, prompt.uuid)
            .await?;
        self.tell(id).await;
        Ok(accepted.seq)
    }

    /// Tells the lobby and the clients of a session that the messages have changed. The caller has the turn of the line, so that
    /// nobody is told of an older state after a newer one.
    async fn tell(&self, id: SessionId) {
        let shared = &self.supervisor.shared;
        shared.changes.mark(id);
        // A session that nobody has opened has no clients.
        let Some(handle) = shared.registry.get(id) else {
            return;
        };
        match shared.store.queued_prompts(id).await {
            Ok(waiting) => handle.tell_queue(waiting.into()).await,
            Err(error) => {
                let error = telemetry::chain(&error);
                tracing::warn!(session.id = %id, error, "clients are not told of the messages that wait");
            }
        }
    }
}

/// Whether a session can begin with the next message.
fn is_free(view: &LiveView) -> bool {
    matches!(view.state, SessionState::Idle | SessionState::Parked)
        && view.turn.is_none()
        && view.open_prompts.is_empty()
}

/// A message that comes now.
pub fn queued(uuid: PromptUuid, body: String, held: bool) -> QueuedPrompt {
    QueuedPrompt {
        uuid,
        body,
        held,
        at: Clock.now(),
    }
}
