//! Owns which sessions have no file of what only the database knows, as those of a version before, and gives them one while the
//! daemon works.

use std::{
    io,
    path::{Path, PathBuf},
};

use tokio_util::sync::CancellationToken;

use super::{lost, settings};
use crate::{
    domain::SessionId,
    files,
    store::{SessionFile, Store},
    telemetry,
};

/// The sessions with a journal and without a file. Blocks.
///
/// # Errors
/// A folder could not be looked at.
pub fn sessions_without_file(data_dir: &Path) -> io::Result<Vec<SessionId>> {
    let mut without = Vec::new();
    for entry in lost::entries(&settings::sessions(data_dir))? {
        let dir = entry?.path();
        let id = dir.file_name().and_then(|name| name.to_str()?.parse().ok());
        // The process that nobody has asked for is no session yet.
        if let Some(id) = id
            && files::is_missing(&SessionFile::path(&dir))
            && files::is_missing(&settings::warm(data_dir, id))
            && lost::has_journal(&dir)?
        {
            without.push(id);
        }
    }
    Ok(without)
}

/// Writes the files that are missing, one after the other: who works with a session meanwhile comes between two of them.
pub(super) async fn write_missing(data_dir: PathBuf, store: Store, closing: CancellationToken) {
    let find = move || sessions_without_file(&data_dir);
    let without = match tokio::task::spawn_blocking(find).await {
        Ok(Ok(without)) => without,
        Ok(Err(error)) => {
            tracing::warn!(%error, "nobody knows which sessions have no file");
            return;
        }
        // Only the end of the runtime cancels it.
        Err(_) => return,
    };
    if let Err(error) = store.save_lists().await {
        let error = telemetry::chain(&error);
        tracing::warn!(
            error,
            "the files of webhooks and logins are written with their next change"
        );
    }
    let mut written = 0_usize;
    for id in without {
        if closing.is_cancelled() {
            return;
        }
        match store.save_session_file(id).await {
            Ok(is_there) => written += usize::from(is_there),
            Err(error) if error.blames_the_data() => {
                tracing::warn!(session.id = %id, error = telemetry::chain(&error), "a session gets no file");
            }
            Err(error) => {
                let error = telemetry::chain(&error);
                tracing::warn!(error, "the files of sessions are written at the next start");
                return;
            }
        }
    }
    if written > 0 {
        tracing::info!(written, "sessions of a version before have their files");
    }
}
