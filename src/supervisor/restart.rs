//! Owns the doing of restarts: sessions say when one is due, and their processes are started as by a resume. Whether and
//! when is decided in `domain::restart`.

use tokio::sync::mpsc;

use crate::{
    claude::Start,
    domain::{FailReason, Restart, RestartOverride, RestartTerms, SessionId},
    session::{ChoicesError, Launch, Occasion, SessionHandle},
    store::SessionRow,
    telemetry,
};

use super::{
    Supervisor, SupervisorError, adoption::adopted, budget::refuse_spent, messages::read_options,
    plan::keeps_conversation, requests::Opening,
};

/// Sessions whose restart may wait to be begun; one that finds no room asks again.
pub(super) const DUE: usize = 256;

impl Supervisor {
    /// Restarts what is due until the daemon ends.
    pub(super) fn run_restarts(&self, mut due: mpsc::Receiver<SessionId>) {
        let supervisor = self.clone();
        let run = async move {
            while let Some(id) = due.recv().await {
                let supervisor = supervisor.clone();
                let tracker = supervisor.shared.tracker.clone();
                tracker.spawn(async move { supervisor.restart(id).await });
            }
        };
        let closing = self.shared.closing.clone();
        self.shared.tracker.spawn(closing.run_until_cancelled_owned(run));
    }

    async fn restart(&self, id: SessionId) {
        let Some(session) = self.shared.registry.get(id) else {
            return;
        };
        let _exclusive = self.shared.registry.exclusive(id).await;
        // Somebody may have stopped or resumed it since.
        let view = session.view();
        let Some(restart) = view.restart.clone().filter(|_| view.cli_pid.is_none()) else {
            return;
        };
        let attempt = restart.attempt;
        tracing::info!(session.id = %id, attempt, reason = restart.reason.code, "a process is started again");
        let failure = match self.try_restart(&session, restart).await {
            // The journal has the outcome of the start.
            Ok(()) | Err(SupervisorError::Session(_)) => return,
            Err(error) => error,
        };
        let is_for_now = matches!(
            failure,
            SupervisorError::Store(_)
                | SupervisorError::StoreBehind
                | SupervisorError::NoRoom(_)
                | SupervisorError::TooFewFiles
                | SupervisorError::CliNotFound { .. }
                | SupervisorError::Choices(ChoicesError::Unwritten(_))
        );
        let detail = telemetry::chain(&failure).to_string();
        if is_for_now {
            // It is asked for again in a moment.
            tracing::debug!(session.id = %id, detail, "a restart has to wait");
        } else {
            tracing::warn!(session.id = %id, detail, "a restart did not come about");
        }
        let reason = (!is_for_now).then(|| FailReason {
            code: match &failure {
                SupervisorError::ConversationNotKept => FailReason::CONVERSATION_NOT_KEPT,
                SupervisorError::BudgetSpent(_) => FailReason::BUDGET_SPENT,
                SupervisorError::Choices(error) => error.code().as_str(),
                _ => FailReason::START_FAILED,
            }
            .to_owned(),
            detail,
        });
        if !matches!(failure, SupervisorError::ShuttingDown) {
            session.restart_failed(reason).await;
        }
    }

    async fn try_restart(&self, session: &SessionHandle, restart: Restart) -> Result<(), SupervisorError> {
        self.refuse_when_closing()?;
        self.catch_up().await?;
        let row = self.row(session.id()).await?;
        refuse_spent(&row)?;
        self.agent_of(&row).await?;
        let start = match (restart.earlier_id, restart.anew) {
            (Some(id), _) => Start::Resume {
                id,
                at: row.resume_at,
                drops: None,
            },
            (None, true) => self.first_start_of(&row).await?,
            (None, false) => self.start_of(&row).await?,
        };
        let terms = self.terms(&row, &start, Some(restart.terms)).await?;
        let admitted = self.admit(row.id, &row.cwd).await?;
        let launch = Launch {
            occasion: Occasion::Restart,
            ..self
                .prepare(session, &row, start, Opening::default(), terms)
                .await?
        };
        // It is no failure that somebody was faster; see the caller.
        self.start_prepared(session, launch, admitted).await
    }

    /// The restart terms of a process: after `earlier` restarts in a row, or because somebody asked.
    pub(super) async fn terms(
        &self,
        row: &SessionRow,
        start: &Start,
        earlier: Option<RestartTerms>,
    ) -> Result<Option<RestartTerms>, SupervisorError> {
        let policy = self.shared.settings.restart.with(&own_policy(row)?);
        let may_begin_anew = self.is_doubtful(row, start).await?;
        let earlier = earlier.map(|terms| RestartTerms {
            policy,
            may_begin_anew,
            ..terms
        });
        let keeps_nothing = !keeps_conversation(&read_options(&row.options)?);
        let terms = earlier.or_else(|| RestartTerms::asked(policy, may_begin_anew));
        Ok(terms.map(|terms| RestartTerms {
            keeps_nothing,
            ..terms
        }))
    }

    /// Whether the CLI may have kept nothing of the conversation that is to go on.
    pub(super) async fn is_doubtful(&self, row: &SessionRow, start: &Start) -> Result<bool, SupervisorError> {
        match start {
            // One that was there before the session is no loss of the session's.
            Start::Resume { id, .. } if adopted(row)? == Some(*id) => Ok(false),
            Start::Resume { id, .. } => Ok(self.shared.store.cli_totals(*id).await?.is_none()),
            Start::New { .. } | Start::Fork { .. } => Ok(false),
        }
    }
}

fn own_policy(row: &SessionRow) -> Result<RestartOverride, SupervisorError> {
    match &row.restart {
        Some(text) => serde_json::from_str(text).map_err(|_| SupervisorError::StoredOptions),
        None => Ok(RestartOverride::default()),
    }
}
