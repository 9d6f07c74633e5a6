//! Owns the policy of parking over many sessions: wakes, and whose process goes when another needs its place or the memory.

use std::path::Path;

use tokio::sync::mpsc;

use crate::{
    domain::{ParkReason, SessionId, SessionState},
    session::{Admitted, SessionError, SessionHandle, WakeFailure},
    telemetry,
};

use super::{SessionView, Supervisor, SupervisorError};

/// Sessions whose wake may wait to be begun; one that finds no room asks again.
pub(super) const WAKES: usize = 256;

impl Supervisor {
    /// Ends the process of a session that does nothing, and returns after its end. The next message starts another. Parking
    /// what is parked is no error.
    ///
    /// # Errors
    /// `SessionNotFound`, `Session` (`NotParkable`, `StopTimedOut`).
    pub async fn park(&self, id: SessionId) -> Result<SessionView, SupervisorError> {
        let session = self.handle(id).await?;
        let deadline = self.shared.settings.stop_deadline();
        session.park(ParkReason::Asked, 0, deadline).await?;
        self.session(id).await
    }

    /// The right to start a process.
    ///
    /// # Errors
    /// `NoRoom`.
    pub(super) async fn admit(&self, id: SessionId, cwd: &str) -> Result<Admitted, SupervisorError> {
        self.admit_before_spares(id, Path::new(cwd)).await
    }

    /// Wakes who is sent something until the daemon ends.
    pub(super) fn run_wakes(&self, mut due: mpsc::Receiver<SessionId>) {
        let supervisor = self.clone();
        let run = async move {
            while let Some(id) = due.recv().await {
                let supervisor = supervisor.clone();
                let tracker = supervisor.shared.tracker.clone();
                tracker.spawn(async move { supervisor.wake(id).await });
            }
        };
        let closing = self.shared.closing.clone();
        self.shared.tracker.spawn(closing.run_until_cancelled_owned(run));
    }

    async fn wake(&self, id: SessionId) {
        let Some(session) = self.shared.registry.get(id) else {
            return;
        };
        let _exclusive = self.shared.registry.exclusive(id).await;
        // Somebody may have resumed or stopped it since.
        let view = session.view();
        if view.state != SessionState::Parked || !view.is_woken {
            return;
        }
        match self.try_wake(&session).await {
            // Somebody was faster; or what became of the start is in the journal.
            Ok(()) | Err(SupervisorError::Session(_)) => {}
            Err(error) => {
                let failure = failure(&error);
                tracing::info!(session.id = %id, reason = failure.detail, "a parked session could not be woken");
                session.wake_failed(failure).await;
            }
        }
    }

    async fn try_wake(&self, session: &SessionHandle) -> Result<(), SupervisorError> {
        self.refuse_when_closing()?;
        self.catch_up().await?;
        let row = self.row(session.id()).await?;
        let start = self.start_of(&row).await?;
        let terms = self.terms(&row, &start, None).await?;
        let admitted = self.admit(row.id, &row.cwd).await?;
        self.start_process(session, &row, start, None, terms, admitted)
            .await
    }
}

/// What the senders of messages are told.
fn failure(error: &SupervisorError) -> WakeFailure {
    use SupervisorError as E;
    let code = match error {
        E::NoRoom(refusal) => refusal.code(),
        E::CwdMissing { .. } => "cwd_missing",
        E::CwdNotADirectory { .. } => "cwd_not_a_directory",
        E::CwdOutsideRoots { .. } => "cwd_outside_roots",
        E::CwdUnreadable { .. } => "cwd_unreadable",
        E::InvalidOption(_) => "invalid_option",
        E::CliNotFound { .. } => "cli_not_found",
        E::ParentDeleted => "conversation_not_started",
        E::ConversationInUse(_) => "conversation_in_use",
        E::Store(_) | E::StoreBehind => "storage_unavailable",
        E::ShuttingDown => "shutting_down",
        E::Session(SessionError::Ended) | E::SessionNotFound(_) => "session_ended",
        _ => "internal",
    };
    let room = match error {
        E::NoRoom(refusal) => Some(*refusal),
        _ => None,
    };
    let is_internal = matches!(code, "internal" | "storage_unavailable");
    if is_internal {
        let error = telemetry::chain(error);
        tracing::error!(error, "a parked session could not be woken");
    }
    WakeFailure {
        code,
        detail: if is_internal {
            "the daemon's log has the cause".to_owned()
        } else {
            telemetry::chain(error)
        },
        room,
    }
}
