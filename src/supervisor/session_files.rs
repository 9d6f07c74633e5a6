//! Owns which sessions have no file of what only the database knows, as those of a version before, or one that is ahead of it, and
//! gives them one while the daemon works.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;

use super::{lost, settings};
use crate::{
    domain::SessionId,
    files,
    store::{SessionFile, Store, StoreError},
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

/// Brings the files of all sessions to what the database has, one after the other: who works with a session meanwhile comes
/// between two of them.
pub(super) async fn bring_up(data_dir: PathBuf, store: Store, closing: CancellationToken) {
    mend_ahead(&data_dir, &store, &closing).await;
    write_missing(data_dir, store, closing).await;
}

/// Most changes of one transaction that were not committed.
const MOST_AHEAD: u64 = 64;
/// The time in which the files of one transaction are written.
const ONE_TRANSACTION: Duration = Duration::from_secs(10);

/// A file that is newer than its rows.
struct FileAhead {
    id: SessionId,
    /// How many changes it is ahead.
    by: u64,
    written: SystemTime,
}

/// Writes the files anew that are of changes which were not committed, as a daemon died between the two: a database that is
/// made again has nothing that nobody was told of.
async fn mend_ahead(data_dir: &Path, store: &Store, closing: &CancellationToken) {
    let failed = |error: StoreError| {
        let error = telemetry::chain(&error);
        tracing::warn!(error, "files of sessions may be of changes that were not made");
    };
    let committed = match store.revisions().await {
        Ok(committed) => committed,
        Err(error) => return failed(error),
    };
    let sessions = settings::sessions(data_dir);
    let find = move || -> Vec<FileAhead> {
        let ahead = committed.into_iter().filter_map(|(id, committed)| {
            let dir = sessions.join(id.to_string());
            let by = SessionFile::revision_in(&dir)?.checked_sub(committed)?;
            let written = SessionFile::path(&dir)
                .metadata()
                .and_then(|file| file.modified());
            let written = written.ok()?;
            (by > 0).then_some(FileAhead { id, by, written })
        });
        ahead.collect()
    };
    // Only the end of the runtime cancels it.
    let Ok(ahead) = tokio::task::spawn_blocking(find).await else {
        return;
    };
    if !are_of_one_transaction(&ahead) {
        // A copy of an older database, say: `trunkline rebuild` has the files' word.
        let sessions = ahead.len();
        tracing::warn!(
            sessions,
            "the files of sessions are newer than the database, and stay as they are"
        );
        return;
    }
    for FileAhead { id, .. } in ahead {
        if closing.is_cancelled() {
            return;
        }
        match store.mend_session_file(id).await {
            Ok(true) => {
                tracing::info!(session.id = %id, "a change that was not made is out of the session's file")
            }
            Ok(false) => {}
            Err(error) => failed(error),
        }
    }
}

/// Whether the death of a daemon over one transaction can have left these files.
fn are_of_one_transaction(ahead: &[FileAhead]) -> bool {
    let times = || ahead.iter().map(|file| file.written);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return true;
    };
    let changes: u64 = ahead.iter().map(|file| file.by).sum();
    changes <= MOST_AHEAD
        && last
            .duration_since(first)
            .is_ok_and(|spread| spread <= ONE_TRANSACTION)
}

/// Writes the files that are missing.
async fn write_missing(data_dir: PathBuf, store: Store, closing: CancellationToken) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_copy_of_a_database_has_no_word_over_the_files() {
        let ahead = |by: u64, seconds: u64| FileAhead {
            id: SessionId::new(),
            by,
            written: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
        };
        assert!(are_of_one_transaction(&[]));
        assert!(are_of_one_transaction(&[ahead(1, 100), ahead(3, 101)]));
        assert!(!are_of_one_transaction(&[ahead(1, 100), ahead(1, 3_700)]));
        assert!(!are_of_one_transaction(&[ahead(65, 100)]));
    }
}
