//! Owns what outlives the daemon of a start that waits for its turn: the next daemon goes on with it.
//!
//! The maker of the session was told that it is there, and its first prompt is in no journal yet; nor is the first word of the
//! program that it was made for. So these are in a file until the process has been started: also over a stop, after which a
//! resume brings the prompt.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{
    admission::Admitted,
    domain::{Seq, SessionId, SessionState},
    files,
    keeper::StdinLine,
    session::{Kept, SessionError, SessionHandle},
    store::SessionRow,
};

use super::{
    Supervisor, SupervisorError,
    removal::absent,
    requests::{Host, Opening},
    tether,
};

/// The parts of a start that the store does not have.
#[derive(Debug, Serialize, Deserialize)]
struct Queued {
    prompt: Option<StdinLine>,
    /// The program that may come back, and that the process is started for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<Host>,
}

impl Supervisor {
    /// Puts into the folder of a session what it needs before it has a row.
    pub(super) fn furnish(
        &self,
        id: SessionId,
        choices: Kept,
        opening: &Opening,
        waits: bool,
    ) -> Result<(), SupervisorError> {
        let dir = self.shared.settings.session_dir(id);
        choices.copy_to(&dir).map_err(SupervisorError::files(&dir))?;
        if let Some(host) = opening.host.as_ref().filter(|host| host.is_tied) {
            tether::mark(&dir, &host.mark(Seq::ZERO)).map_err(SupervisorError::files(&dir))?;
        }
        if waits {
            self.keep_queued(id, opening)?;
        }
        Ok(())
    }

    /// Keeps what the first start of a session needs.
    pub(super) fn keep_queued(&self, id: SessionId, opening: &Opening) -> Result<(), SupervisorError> {
        let path = self.shared.settings.queued_file(id);
        let queued = Queued {
            prompt: opening.prompt.clone(),
            host: opening.host.clone().filter(|host| host.is_tied),
        };
        let write = || files::replace(&path, &path.with_extension("new"), &serde_json::to_vec(&queued)?);
        write().map_err(SupervisorError::files(&path))
    }

    /// The first prompt of a session whose first start was stopped, or failed, while it waited.
    pub(super) async fn queued_prompt(&self, row: &SessionRow) -> Result<Option<StdinLine>, SupervisorError> {
        let path = self.shared.settings.queued_file(row.id);
        if row.run_id.is_some() {
            return Ok(None);
        }
        match read(&path).await {
            Ok(text) => Ok(parse(&text).map_err(SupervisorError::files(&path))?.prompt),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SupervisorError::files(&path)(error)),
        }
    }

    /// Removes it once it is not needed any more.
    pub(super) fn forget_queued_once_started(&self, session: SessionHandle) {
        let path = self.shared.settings.queued_file(session.id());
        self.shared.tracker.spawn(async move {
            // A session that was stopped, or is gone, has started nothing: a resume or the next daemon needs the file.
            if session
                .wait_started()
                .await
                .is_ok_and(|view| view.run_id.is_some())
                && let Err(error) = absent(tokio::fs::remove_file(&path).await)
            {
                tracing::warn!(session.id = %session.id(), %error, "what a start has waited with stays");
            }
        });
    }

    /// Whether the first start of a session was still waiting when the last daemon ended.
    pub(super) fn is_queued(&self, row: &SessionRow) -> bool {
        row.state == SessionState::Starting
            && row.run_id.is_none()
            && !files::is_missing(&self.shared.settings.queued_file(row.id))
            && files::is_missing(&self.shared.settings.identity_file(row.id))
    }

    /// Goes on with starts that were waiting, in the order in which they came. When this returns they wait again.
    pub(super) async fn start_queued(&self, mut rows: Vec<SessionRow>) {
        rows.sort_by_key(|row| (row.created_at, row.id));
        for row in rows {
            let admitted = self.shared.admission.admit_again(row.id, Path::new(&row.cwd));
            let opened = self.open(&row, None, true).await;
            match opened {
                Ok(session) if session.view().run_id.is_some() => {
                    // It was started, and ended before the store knew of it: its prompt is in the journal, and not sent twice.
                    drop(admitted);
                    session.close().await;
                    match self.open_known(&row).await {
                        Ok(session) => self.forget_queued_once_started(session),
                        Err(error) => say(row.id, &error),
                    }
                }
                Ok(session) => {
                    self.shared.registry.insert(session.clone());
                    let supervisor = self.clone();
                    self.shared
                        .tracker
                        .spawn(async move { supervisor.start_again(&session, row, admitted).await });
                }
                Err(error) => say(row.id, &error),
            }
        }
    }

    async fn start_again(&self, session: &SessionHandle, row: SessionRow, admitted: Admitted) {
        let started = async {
            let path = self.shared.settings.queued_file(row.id);
            let text = read(&path).await.map_err(SupervisorError::files(&path))?;
            let queued = parse(&text).map_err(SupervisorError::files(&path))?;
            let start = self.start_of(&row).await?.under(row.cli_session_id);
            let terms = self.terms(&row, &start, None).await?;
            let Queued { prompt, host } = queued;
            let opening = Opening { host, prompt };
            self.start_process(session, &row, start, opening, terms, admitted)
                .await
        };
        match started.await {
            Ok(()) => self.forget_queued_once_started(session.clone()),
            // It was deleted meanwhile; or the journal says why it did not start.
            Err(SupervisorError::Session(SessionError::Ended | SessionError::StartFailed(_))) => {}
            // It is still in its file, and the next daemon goes on with it.
            Err(
                SupervisorError::ShuttingDown
                | SupervisorError::Session(SessionError::LetGo | SessionError::CutOff),
            ) => {}
            Err(error) => {
                say(row.id, &error);
                let _exclusive = self.shared.registry.exclusive(row.id).await;
                if session.retire().await.is_ok()
                    && let Err(error) = self.open_known(&row).await
                {
                    say(row.id, &error);
                }
            }
        }
    }
}

async fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || files::read(&path)).await?
}

fn parse(text: &[u8]) -> std::io::Result<Queued> {
    Ok(serde_json::from_slice(text)?)
}

fn say(id: SessionId, error: &SupervisorError) {
    let error = crate::telemetry::chain(error);
    tracing::error!(session.id = %id, error, "a start that was waiting could not go on");
}
