//! Owns sessions that go on with a conversation which no session of this daemon began: how they open it, and what becomes of
//! those whose conversation is not there.

use std::time::Duration;

use crate::{
    domain::{CliSessionId, FailReason},
    store::SessionRow,
};

use super::{SessionView, Supervisor, SupervisorError, messages::read_options};

/// The conversation that a session was made to go on with, while it is in it.
pub(super) fn adopted(row: &SessionRow) -> Result<Option<CliSessionId>, SupervisorError> {
    let asked = read_options(&row.options)?.resume;
    Ok(asked.filter(|id| *id == row.cli_session_id))
}

impl Supervisor {
    /// Waits for the word of the CLI, which alone knows what conversations it has, and takes the session back when there is
    /// none to go on with.
    pub(super) async fn settle_adoption(
        &self,
        made: SessionView,
        conversation: CliSessionId,
        by: &str,
    ) -> Result<SessionView, SupervisorError> {
        let id = made.row.id;
        let session = self.handle(id).await?;
        let longest = Duration::from_millis(self.shared.settings.start_timeout_ms);
        let Ok(started) = tokio::time::timeout(longest, session.wait_started()).await else {
            // It waits in the queue, or is started again: its state will say what became of it.
            return Ok(made);
        };
        match started?.reason.clone() {
            Some(reason) if reason.code == FailReason::CONVERSATION_NOT_FOUND => {
                self.remove(id, by).await?;
                Err(SupervisorError::ConversationNotFound {
                    id: conversation,
                    detail: reason.detail,
                })
            }
            _ => self.session(id).await,
        }
    }
}
