//! Owns the start of the daemon: every session that may have a process is reconciled with reality before anybody asks.

use std::path::Path;

use crate::{
    domain::SessionId,
    keeper::{self, AttachError},
    session::SessionHandle,
    store::SessionRow,
};

use super::{Supervisor, SupervisorError};

impl Supervisor {
    pub(super) async fn recover(&self) -> Result<(), SupervisorError> {
        if let Err(error) = keeper::remove_free_leases(&self.shared.settings.data_dir.join("leases")) {
            tracing::warn!(%error, "leases that nobody holds were not removed");
        }
        let mut rows = self.shared.store.unsettled_sessions().await?;
        for id in self.session_folders() {
            let dir = self.shared.settings.session_dir(id);
            if is_empty(&dir) && self.shared.store.session(id).await?.is_none() {
                // A daemon died before it had made the session. Nothing but an empty folder is ever removed here.
                let _ = std::fs::remove_dir(&dir);
            }
            // A process may have been started whose first record no daemon has read.
            if self.shared.settings.identity_file(id).exists()
                && rows.iter().all(|row| row.id != id)
                && let Some(row) = self.shared.store.session(id).await?
            {
                rows.push(row);
            }
        }
        let (queued, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| self.is_queued(row));
        let mut recoveries = tokio::task::JoinSet::new();
        for row in rows {
            let supervisor = self.clone();
            recoveries.spawn(async move {
                let id = row.id;
                (id, supervisor.open_known(&row).await)
            });
        }
        while let Some(recovered) = recoveries.join_next().await {
            match recovered {
                Ok((_, Ok(_))) => {}
                Ok((id, Err(error))) => {
                    let error = crate::telemetry::chain(&error);
                    tracing::error!(session.id = %id, error, "a session could not be recovered");
                }
                Err(error) => tracing::error!(%error, "a recovery did not finish"),
            }
        }
        self.start_queued(queued).await;
        self.catch_up().await
    }

    /// Opens a session of an earlier time, together with its process if that lives.
    pub(super) async fn open_known(&self, row: &SessionRow) -> Result<SessionHandle, SupervisorError> {
        let identity = self.shared.settings.identity_file(row.id);
        let link = match keeper::attach(&identity, &self.shared.tracker).await {
            Ok(link) => Some(link),
            Err(AttachError::NoIdentity | AttachError::ProcessGone) => None,
            Err(error) => {
                let error = crate::telemetry::chain(&error);
                tracing::error!(session.id = %row.id, error, "the keeper of a session could not be attached to");
                None
            }
        };
        let attached = link.is_some();
        let handle = self.open(row, link, false).await?;
        let state = handle.view().state.as_str();
        self.shared.registry.insert(handle.clone());
        tracing::debug!(session.id = %row.id, attached, state, "session opened");
        Ok(handle)
    }

    fn session_folders(&self) -> Vec<SessionId> {
        let sessions = self.shared.settings.data_dir.join("sessions");
        let Ok(folders) = std::fs::read_dir(sessions) else {
            return Vec::new();
        };
        folders
            .filter_map(|folder| folder.ok()?.file_name().to_str()?.parse().ok())
            .collect()
    }
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}
