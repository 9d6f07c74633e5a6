//! Owns the removal of sessions: their processes, their files, and what the store knows of them.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    domain::SessionId,
    journal::{ReadError, is_locked},
    session::SessionError,
    telemetry,
};

use super::{Supervisor, SupervisorError};

impl Supervisor {
    /// Stops a session and removes all that is known of it; returns when its process is gone.
    ///
    /// # Errors
    /// `SessionNotFound`, `Store` (nothing was done when it takes no writes), `Session` (`StopTimedOut`, `AlreadyLive` when it
    /// was resumed meanwhile: nothing was removed then).
    pub async fn delete(&self, id: SessionId, by: &str) -> Result<(), SupervisorError> {
        let (supervisor, by) = (self.clone(), by.to_owned());
        self.run_uncancelled(async move {
            let store = &supervisor.shared.store;
            if store.has_session(id).await? {
                // A session that cannot be removed is not stopped either.
                store.ping().await?;
            }
            supervisor.remove(id, &by).await
        })
        .await
    }

    pub(super) async fn remove(&self, id: SessionId, by: &str) -> Result<(), SupervisorError> {
        let session = match self.handle_to_stop(id).await {
            Ok(session) => Some(session),
            // The daemon died in the middle of an earlier deletion.
            Err(SupervisorError::Session(SessionError::Journal(ReadError::NotFound { .. }))) => None,
            Err(error) if is_damage(&error) || self.shared.strangers.has(id) => {
                return self.remove_unopened(id, error).await;
            }
            Err(error) => return Err(error),
        };
        let stopped = match &session {
            Some(session) => session.stop(by, self.shared.settings.stop_deadline()).await,
            None => Ok(()),
        };
        let _exclusive = self.shared.registry.exclusive(id).await;
        // Somebody may have resumed it since: a process must not outlive its journal.
        let retired = match (&session, stopped) {
            (Some(session), Ok(())) => session.retire().await,
            (_, stopped) => stopped,
        };
        if matches!(retired, Err(SessionError::Ended)) {
            // Somebody else deleted it meanwhile: then there is no row.
            self.row(id).await?;
        }
        retired?;
        self.forget(id).await
    }

    /// Removes a row whose id is none, so that no session can be meant by it; `false` when there is no such row.
    ///
    /// # Errors
    /// `Store`.
    pub async fn delete_nameless(&self, name: &str) -> Result<bool, SupervisorError> {
        Ok(self.shared.store.delete_session_named(name).await?)
    }

    /// Removes a session that cannot be opened, for what is damaged of it or as it is in no row. Its keeper is ended by the signal that every version
    /// understands.
    async fn remove_unopened(&self, id: SessionId, why: SupervisorError) -> Result<(), SupervisorError> {
        let _exclusive = self.shared.registry.exclusive(id).await;
        if self.shared.registry.get(id).is_some() {
            // It passed, and somebody has opened it since: an actor must not outlive its journal.
            return Err(why);
        }
        if !self.shared.strangers.has(id) && !self.shared.store.has_session(id).await? {
            return Err(SupervisorError::SessionNotFound(id));
        }
        let error = telemetry::chain(&why);
        tracing::warn!(session.id = %id, error, "a session is deleted that cannot be opened");
        let settings = &self.shared.settings;
        let dir = settings.session_dir(id);
        if let Some(keeper) = self.keeper_of(id) {
            keeper.wake();
            if !keeper.end(settings.stop_deadline()).await {
                return Err(SessionError::StopTimedOut.into());
            }
        }
        if is_locked(&dir).unwrap_or(true) {
            self.end_keeper(id, &settings.identity_file(id), &dir).await;
        }
        self.kill_strays_of(id).await;
        if is_locked(&dir).unwrap_or(true) {
            return Err(SessionError::StopTimedOut.into());
        }
        self.forget(id).await?;
        self.shared.strangers.forget(id);
        Ok(())
    }

    /// Removes all that is known of a session without a process, which nobody opens meanwhile.
    async fn forget(&self, id: SessionId) -> Result<(), SupervisorError> {
        self.shared.registry.remove(id);
        self.catch_up().await?;
        let settings = &self.shared.settings;
        let (dir, socket) = (
            settings.session_dir(id),
            settings.socket(&self.shared.data_mark, id),
        );
        let history = match self.shared.store.cli_session_history(id).await {
            // Leases that nobody holds go at the next start.
            Err(error) if error.blames_the_data() => Vec::new(),
            history => history?,
        };
        // Neither goes without the other: a row that cannot be deleted gets its folder back.
        let doomed = doomed(&dir);
        absent(tokio::fs::rename(&dir, &doomed).await).map_err(SupervisorError::files(&dir))?;
        if let Err(error) = self.shared.store.delete_session(id).await {
            absent(tokio::fs::rename(&doomed, &dir).await).map_err(SupervisorError::files(&doomed))?;
            return Err(error.into());
        }
        self.shared.changes.mark(id);
        self.shared.registry.conversations().forget(id);
        remove_folder(&doomed)
            .await
            .map_err(SupervisorError::files(&doomed))?;
        // A keeper that was killed has left it.
        absent(tokio::fs::remove_file(&socket).await).map_err(SupervisorError::files(&socket))?;
        for span in history {
            let is_of_another = match self.shared.store.session_of_conversation(span.id).await {
                Err(error) if error.blames_the_data() => true,
                owner => owner?.is_some_and(|owner| owner != id),
            };
            if is_of_another {
                // It left this conversation, and another went on with it.
                continue;
            }
            let lease = self.shared.settings.lease_file(span.id);
            absent(tokio::fs::remove_file(&lease).await).map_err(SupervisorError::files(&lease))?;
        }
        Ok(())
    }

    /// Ends the deletions that an earlier daemon died over. A row that cannot be deleted gets its folder back.
    pub(super) async fn end_deletions(&self) {
        let sessions = self.shared.settings.data_dir.join("sessions");
        let Ok(folders) = std::fs::read_dir(&sessions) else {
            return;
        };
        for folder in folders.filter_map(Result::ok).map(|folder| folder.path()) {
            let Some(id) = doomed_session(&folder) else {
                continue;
            };
            let ended = match self.shared.store.delete_session(id).await {
                Ok(_) => remove_folder(&folder).await,
                Err(error) => {
                    let error = telemetry::chain(&error);
                    tracing::warn!(session.id = %id, error, "a session that was being deleted is put back");
                    tokio::fs::rename(&folder, sessions.join(id.to_string())).await
                }
            };
            if let Err(error) = ended {
                tracing::warn!(session.id = %id, %error, "what is left of a deletion stays");
            }
        }
    }
}

/// The beginning of the name of a folder whose session is deleted: nobody takes it for a session's.
const DOOMED: &str = ".deleted-";
/// The end of that name in versions before.
const DOOMED_BEFORE: &str = ".deleted";

/// The place of a session's folder while the session is deleted.
fn doomed(dir: &Path) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    dir.with_file_name(format!("{DOOMED}{name}"))
}

/// The session that was being deleted when its folder got this name.
fn doomed_session(folder: &Path) -> Option<SessionId> {
    let name = folder.file_name()?.to_str()?;
    let id = name
        .strip_prefix(DOOMED)
        .or_else(|| name.strip_suffix(DOOMED_BEFORE))?;
    id.parse().ok()
}

/// Whether a session cannot be opened for what is stored of it.
fn is_damage(error: &SupervisorError) -> bool {
    match error {
        SupervisorError::Store(error) => error.blames_the_data(),
        SupervisorError::StoredOptions | SupervisorError::StoredRules(_) => true,
        SupervisorError::Session(SessionError::Journal(_)) => true,
        _ => false,
    }
}

/// Removes a session's folder, or whatever somebody put in its place.
async fn remove_folder(dir: &Path) -> io::Result<()> {
    match tokio::fs::remove_dir_all(dir).await {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            absent(tokio::fs::remove_file(dir).await)
        }
        removed => absent(removed),
    }
}

/// Counts a file that was not there as removed.
pub(super) fn absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
