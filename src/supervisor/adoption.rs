//! Owns sessions that begin with a conversation which is there already: one that no session of this daemon began, or that of the
//! parent of a fork. It says where they begin, and what becomes of those whose conversation or message is not there.

use std::{path::Path, time::Duration};

use uuid::Uuid;

use crate::{
    claude::LaunchOptions,
    domain::{CliSessionId, FailReason, SessionId, SessionState, StartMode},
    journal::Head,
    session::LiveView,
    store::SessionRow,
};

use super::{
    SessionView, Supervisor, SupervisorError,
    fork_history::{self, Branch, CopyError},
    fork_point::{self, Found},
    messages::read_options,
    plan,
    resume_point::pending_point,
    transcript,
};

/// The outcome of a start that was to go on with a conversation.
enum StartOutcome {
    /// It goes on with it, or its state says why not.
    Made(Box<SessionView>),
    /// There was nothing to go on with, and it is taken back.
    Refused(SupervisorError),
    /// It has not started in the time that a caller is kept waiting.
    Unknown,
}

/// The conversation that a session was made to go on with, while it is in it.
pub(super) fn adopted(row: &SessionRow) -> Result<Option<CliSessionId>, SupervisorError> {
    let asked = read_options(&row.options)?.resume;
    Ok(asked.filter(|id| *id == row.cli_session_id))
}

fn warn_of_history(fork: SessionId, error: &dyn std::error::Error) {
    let error = crate::telemetry::chain(error);
    tracing::warn!(session.id = %fork, error, "the fork cannot show what was said before it");
}

/// Why no fork begins at a message that went with the oldest records.
const NOT_KEPT: &str = "it is in no record that is kept, and older ones were removed";

impl Supervisor {
    /// The newest conversation that the CLI had in a directory.
    pub(super) async fn newest_conversation(
        &self,
        cwd: &Path,
        options: &LaunchOptions,
    ) -> Option<CliSessionId> {
        let home = transcript::home(&plan::environment(&self.shared.settings, Vec::new(), options))?;
        let cwd = cwd.to_owned();
        let newest = tokio::task::spawn_blocking(move || transcript::newest(&home, &cwd)).await;
        newest.ok().flatten()
    }

    /// Waits for the word of the CLI, which alone knows what conversations it has, and takes the session back when there is
    /// none to go on with.
    pub(super) async fn settle_adoption(
        &self,
        made: SessionView,
        conversation: CliSessionId,
        at: Option<Uuid>,
        by: &str,
    ) -> Result<SessionView, SupervisorError> {
        let refusal = move |reason: FailReason| match reason.code.as_str() {
            FailReason::MESSAGE_NOT_FOUND => at.map(SupervisorError::MessageNotFound),
            FailReason::CONVERSATION_NOT_FOUND => Some(SupervisorError::ConversationNotFound {
                id: conversation,
                detail: reason.detail,
            }),
            _ => None,
        };
        self.settle_start(made, by, refusal).await
    }

    /// The conversation that a fork copies, and the message after which it branches off. One that is asked for may be in an
    /// earlier conversation of the session, or of the session that it was forked from.
    pub(super) async fn fork_point(
        &self,
        row: &SessionRow,
        at: Option<Uuid>,
    ) -> Result<Branch, SupervisorError> {
        let Some(at) = at else {
            let (conversation, at) = self.end_to_fork(row).await?;
            return Ok(Branch {
                session: row.id,
                conversation,
                at,
            });
        };
        // The CLI knows more of it than we do.
        let by_the_cli = Branch {
            session: row.id,
            conversation: row.cli_session_id,
            at: Some(at),
        };
        let mut owner = row.clone();
        let mut is_kept = true;
        loop {
            let found = self
                .read_whole(owner.id, move |dir, head| fork_point::find(dir, head, at))
                .await?;
            let why = match found {
                Found::In(conversation) => {
                    return Ok(Branch {
                        session: owner.id,
                        conversation: conversation.unwrap_or(owner.cli_session_id),
                        at: Some(at),
                    });
                }
                Found::Compacted => "the conversation was compacted behind it",
                Found::OfSubAgent => "it is of a sub-agent",
                Found::Unknown => return Ok(by_the_cli),
                Found::Removed if owner.parent.is_none() => NOT_KEPT,
                Found::Removed | Found::Nowhere => {
                    is_kept &= found == Found::Nowhere;
                    let begun_elsewhere = read_options(&owner.options)?.resume.is_some();
                    match (owner.parent, begun_elsewhere) {
                        (Some(parent), _) => owner = self.row(parent).await?,
                        // The CLI knows more of it than we do.
                        (None, true) => return Ok(by_the_cli),
                        (None, false) if owner.forked_from.is_some() => {
                            return Ok(by_the_cli);
                        }
                        (None, false) if !is_kept => {
                            return Err(SupervisorError::MessageNotForkable {
                                message: at,
                                why: NOT_KEPT,
                            });
                        }
                        (None, false) => return Err(SupervisorError::MessageNotFound(at)),
                    }
                    continue;
                }
            };
            return Err(SupervisorError::MessageNotForkable { message: at, why });
        }
    }

    /// Gives a fork what was said before it, so that it can be read before its first turn, and when the parent is deleted. A
    /// parent whose journal cannot be read holds no fork up.
    pub(super) async fn copy_history(&self, branch: Branch, fork: SessionId) -> Result<(), SupervisorError> {
        let dir = self.shared.settings.session_dir(fork);
        let to = dir.clone();
        let copy = move |from: &Path, head| Ok(fork_history::copy(from, head, branch, &to));
        let copied = match self.read_whole(branch.session, copy).await {
            Ok(copied) => copied,
            Err(SupervisorError::ShuttingDown) => return Err(SupervisorError::ShuttingDown),
            Err(error) => {
                warn_of_history(fork, &error);
                return Ok(());
            }
        };
        match copied {
            Ok(()) => Ok(()),
            Err(CopyError::Read(error)) => {
                warn_of_history(fork, &error);
                Ok(())
            }
            Err(error) => Err(SupervisorError::files(&dir)(std::io::Error::other(error))),
        }
    }

    /// Refuses to fork at the end of a conversation that a fresh start began, and in which nothing was said yet.
    pub(super) async fn refuse_without_turn(&self, row: &SessionRow) -> Result<(), SupervisorError> {
        let runs = self.shared.store.runs(row.id).await?;
        let Some(began) = runs.iter().rfind(|run| run.mode == StartMode::New) else {
            return Ok(());
        };
        let runs_one = |live: LiveView| live.turn.is_some() || !live.open_prompts.is_empty();
        if self.live(row.id).is_some_and(runs_one) {
            return Ok(());
        }
        let newest = self.shared.store.turn(row.id, row.turns).await?;
        if newest.is_some_and(|turn| turn.last_seq < began.started_seq) {
            return Err(SupervisorError::ConversationNotStarted);
        }
        Ok(())
    }

    /// The end of the conversation; if the model refuses that, the last answer that it gave.
    async fn end_to_fork(&self, row: &SessionRow) -> Result<(CliSessionId, Option<Uuid>), SupervisorError> {
        let conversation = row.cli_session_id;
        let session = self.handle(row.id).await?;
        let reason = session.view().reason.clone();
        if reason.is_none_or(|reason| reason.code != FailReason::CONVERSATION_UNUSABLE) {
            return Ok((conversation, pending_point(row)));
        }
        let answer = self
            .read_whole(row.id, move |dir, head| {
                fork_point::last_answer(dir, head, conversation)
            })
            .await?;
        Ok((conversation, answer))
    }

    pub(super) async fn read_whole<T: Send + 'static>(
        &self,
        id: SessionId,
        read: impl FnOnce(&std::path::Path, Head) -> Result<T, crate::journal::ReadError> + Send + 'static,
    ) -> Result<T, SupervisorError> {
        let head = self.handle(id).await?.feed().head();
        let dir = self.shared.settings.session_dir(id);
        match tokio::task::spawn_blocking(move || read(&dir, head)).await {
            Ok(found) => found.map_err(SupervisorError::Read),
            Err(_) => Err(SupervisorError::ShuttingDown),
        }
    }

    /// Waits for the word of the CLI on the conversation that a fork copies, and on the message that it begins at, and takes the session back when there is none.
    pub(super) async fn settle_fork(
        &self,
        made: SessionView,
        conversation: CliSessionId,
        at: Option<Uuid>,
        by: &str,
    ) -> Result<SessionView, SupervisorError> {
        if made.start_queue_position.is_some() {
            return Ok(made);
        }
        let refusal = move |reason: FailReason| match (reason.code.as_str(), at) {
            (FailReason::MESSAGE_NOT_FOUND, Some(at)) => Some(SupervisorError::MessageNotFound(at)),
            (FailReason::CONVERSATION_NOT_FOUND, _) => Some(SupervisorError::ConversationNotFound {
                id: conversation,
                detail: reason.detail,
            }),
            _ => None,
        };
        self.settle_start(made, by, refusal).await
    }

    /// Waits until a session that is made has started, and takes it back for a reason that is a `refusal`. The session stays
    /// when a daemon that ends can no longer learn the reason: an error would say that nothing is made.
    async fn settle_start(
        &self,
        made: SessionView,
        by: &str,
        refusal: impl FnOnce(FailReason) -> Option<SupervisorError> + Send,
    ) -> Result<SessionView, SupervisorError> {
        match self.outcome_of_start(made.row.id, by, refusal).await {
            Ok(StartOutcome::Refused(error)) => Err(error),
            Ok(StartOutcome::Made(view)) => Ok(*view),
            Ok(StartOutcome::Unknown) => Ok(made),
            Err(_) if self.shared.closing.is_cancelled() => Ok(made),
            Err(error) => Err(error),
        }
    }

    async fn outcome_of_start(
        &self,
        id: SessionId,
        by: &str,
        refusal: impl FnOnce(FailReason) -> Option<SupervisorError> + Send,
    ) -> Result<StartOutcome, SupervisorError> {
        let session = self.handle(id).await?;
        let longest = Duration::from_millis(self.shared.settings.start_timeout_ms);
        let Ok(started) = tokio::time::timeout(longest, session.wait_started()).await else {
            // It waits in the queue, or is started again: its state will say what became of it.
            return Ok(StartOutcome::Unknown);
        };
        let started = started?;
        let reason = started.reason.clone();
        let reason = reason.filter(|_| started.state == SessionState::Failed);
        if let Some(error) = reason.and_then(refusal) {
            self.remove(id, by).await?;
            return Ok(StartOutcome::Refused(error));
        }
        Ok(StartOutcome::Made(Box::new(self.session(id).await?)))
    }
}
