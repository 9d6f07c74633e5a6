//! Owns the making of a database from the session files and journals: it is made in a file of its own, which takes the place of the
//! database at the end. A kill before that leaves all as it was.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::task::JoinSet;

use super::{lost, settings};
use crate::{
    domain::{CliSessionId, Clock, FailReason, Seq, SessionId},
    files,
    journal::ReadError,
    session::{Reread, first_run},
    store::{SessionFile, Store, StoreError},
    telemetry,
};

/// Sessions whose journals are read at once.
const AT_A_TIME: usize = 16;
/// The files of a database.
const SIDES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// The end of the name of a database while it is made.
const NEW: &str = ".new";

/// Why no database could be made.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// A file or folder of the data directory cannot be used.
    #[error("cannot use {}", path.display())]
    Files {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A newer program wrote the file of a session.
    #[error("cannot read {}, which a newer trunkline wrote", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The forms.
        #[source]
        source: io::Error,
    },
    /// The new database cannot be written.
    #[error("cannot write the new database")]
    Store(#[from] StoreError),
}

impl RebuildError {
    fn files(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Files { path, source }
    }
}

/// How far a rebuild is. Clones tell of the same one.
#[derive(Clone, Debug, Default)]
pub struct RebuildProgress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    done: AtomicUsize,
    sessions: AtomicUsize,
}

impl RebuildProgress {
    /// The sessions that are done, and all.
    pub fn counts(&self) -> (usize, usize) {
        let Counts { done, sessions } = &*self.0;
        (done.load(Ordering::Relaxed), sessions.load(Ordering::Relaxed))
    }
}

/// The outcome of a rebuild.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rebuilt {
    /// Sessions in the new database.
    pub sessions: usize,
    /// Those of them of which no file was left.
    pub recovered: usize,
    /// Those of them whose journal cannot be read.
    pub unreadable: usize,
}

/// Makes the database of a data directory, which this process has locked, from the files and journals of its sessions. A database
/// that is there is kept beside it, and its place is the answer.
///
/// # Errors
/// The database is as it was then.
pub async fn rebuild(
    data_dir: &Path,
    progress: &RebuildProgress,
) -> Result<(Rebuilt, Option<PathBuf>), RebuildError> {
    let database = settings::database_file(data_dir);
    let new = beside(&database, NEW);
    remove(&new)?;
    let dir = data_dir.to_owned();
    let ids = match tokio::task::spawn_blocking(move || session_ids(&dir)).await {
        Ok(ids) => ids.map_err(RebuildError::files(&settings::sessions(data_dir)))?,
        Err(_) => return Err(StoreError::Closed.into()),
    };
    progress.0.sessions.store(ids.len(), Ordering::Relaxed);
    tracing::info!(
        sessions = ids.len(),
        "the database is made again from the sessions"
    );
    let store = Store::open_to_rebuild(&new).await?;
    let made = restore_all(&store, data_dir, ids, progress).await;
    store.close().await;
    let rebuilt = made?;
    let kept = put_in_place(&database, &new)?;
    tracing::info!(
        sessions = rebuilt.sessions,
        recovered = rebuilt.recovered,
        unreadable = rebuilt.unreadable,
        "the database was made again"
    );
    Ok((rebuilt, kept))
}

/// Removes the half of a database that a rebuild left which was killed. This process has locked the data directory.
///
/// # Errors
/// A file cannot be removed.
pub fn remove_half_made(data_dir: &Path) -> Result<(), RebuildError> {
    remove(&beside(&settings::database_file(data_dir), NEW))
}

async fn restore_all(
    store: &Store,
    data_dir: &Path,
    ids: Vec<SessionId>,
    progress: &RebuildProgress,
) -> Result<Rebuilt, RebuildError> {
    store.restore_lists(data_dir).await?;
    let mut rebuilt = Rebuilt::default();
    let mut forks = Vec::new();
    let mut restoring = JoinSet::new();
    let mut ids = ids.into_iter();
    loop {
        while restoring.len() < AT_A_TIME
            && let Some(id) = ids.next()
        {
            let dir = settings::sessions(data_dir).join(id.to_string());
            restoring.spawn(restore_one(store.clone(), dir, id));
        }
        let Some(restored) = restoring.join_next().await else {
            break;
        };
        let restored = restored.map_err(|_| StoreError::Closed)??;
        rebuilt.sessions += 1;
        rebuilt.recovered += usize::from(restored.is_recovered);
        rebuilt.unreadable += usize::from(restored.is_unreadable);
        forks.extend(restored.fork);
        progress.0.done.fetch_add(1, Ordering::Relaxed);
    }
    store.restore_parents(forks).await?;
    Ok(rebuilt)
}

/// The outcome of one session.
struct Restored {
    is_recovered: bool,
    is_unreadable: bool,
    /// The session, and the one that it is a fork of.
    fork: Option<(SessionId, SessionId)>,
}

async fn restore_one(store: Store, dir: PathBuf, id: SessionId) -> Result<Restored, RebuildError> {
    let place = dir.clone();
    let Ok(known) = tokio::task::spawn_blocking(move || known_of(&place, id)).await else {
        return Err(StoreError::Closed.into());
    };
    let (file, is_recovered) = known?;
    let fork = file.parent.map(|parent| (id, parent));
    store.restore_session(file.clone()).await?;
    let is_unreadable = match project(&store, &dir, file).await {
        Ok(()) => false,
        Err(Unprojected::Store(error)) if !error.blames_the_data() => return Err(error.into()),
        Err(error) => {
            let detail = telemetry::chain(&error);
            tracing::error!(session.id = %id, error = detail, "the journal of a session cannot be read");
            let reason = FailReason {
                code: "journal_unreadable".to_owned(),
                detail,
            };
            store.mark_failed(id, reason, Clock.now()).await?;
            true
        }
    };
    Ok(Restored {
        is_recovered,
        is_unreadable,
        fork,
    })
}

/// Why facts of a journal are not in the database.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum Unprojected {
    Journal(#[from] ReadError),
    Store(#[from] StoreError),
}

/// Brings the facts of a journal into the store. The file holds as of the record that it names.
async fn project(store: &Store, dir: &Path, file: SessionFile) -> Result<(), Unprojected> {
    let (id, place) = (file.id, dir.to_owned());
    let first = file.first_conversation().unwrap_or_else(CliSessionId::new);
    let mut reread = blocking(move || Reread::open(&place, id, first)).await?;
    let border = file.as_of_seq;
    for (until, is_behind) in [(border, false), (Seq::MAX, true)] {
        if is_behind && border > Seq::ZERO {
            reread.trust(file.totals.turns, file.running_total());
        }
        if is_behind {
            store.hold_session(file.clone()).await?;
        }
        loop {
            let (back, next) = blocking(move || {
                let next = reread.next(until)?;
                Ok((reread, next))
            })
            .await?;
            reread = back;
            let Some(projection) = next else { break };
            store.apply(vec![projection]).await?;
        }
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, Unprojected> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        // Only the end of the runtime cancels it.
        Err(_) => Err(StoreError::Closed.into()),
    }
}

/// The file of a session, or what its journal says in its place, and whether it was that. Blocks.
fn known_of(dir: &Path, id: SessionId) -> Result<(SessionFile, bool), RebuildError> {
    let path = SessionFile::path(dir);
    match SessionFile::read(dir) {
        Ok(Some(file)) if file.id == id => return Ok((file, false)),
        Ok(Some(_)) => {
            tracing::error!(session.id = %id, "the file of a session is that of another one");
        }
        Ok(None) => {}
        Err(source) if source.kind() == io::ErrorKind::Unsupported => {
            return Err(RebuildError::Newer { path, source });
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData || files::is_not_a_file(&error) => {
            tracing::error!(session.id = %id, %error, "the file of a session cannot be read");
        }
        Err(source) => return Err(RebuildError::Files { path, source }),
    }
    // A journal that cannot be read is named when its facts are.
    let first = first_run(dir).ok().flatten();
    let conversation = first.map_or_else(CliSessionId::new, |first| first.conversation);
    let at = first.map_or_else(|| Clock.now(), |first| first.at);
    let agent = first.and_then(|first| first.agent);
    Ok((SessionFile::recovered(id, conversation, agent, at), true))
}

/// The sessions of a data directory, those that may have a process first. Blocks.
fn session_ids(data_dir: &Path) -> io::Result<Vec<SessionId>> {
    let mut ids = Vec::new();
    for entry in lost::entries(&settings::sessions(data_dir))? {
        let dir = entry?.path();
        if let Some(id) = lost::session_of(data_dir, &dir)? {
            ids.push((files::is_missing(&dir.join(settings::IDENTITY_FILE)), id));
        }
    }
    ids.sort_unstable();
    Ok(ids.into_iter().map(|(_, id)| id).collect())
}

/// Puts the new database in the place of the old one, which is kept when there is something in it.
fn put_in_place(database: &Path, new: &Path) -> Result<Option<PathBuf>, RebuildError> {
    let folder = database.parent().unwrap_or(database);
    let sync = |path: &Path| fs::File::open(path)?.sync_all();
    sync(new).map_err(RebuildError::files(new))?;
    let is_blank = matches!(Store::blank(database), Ok(Some(_)));
    let mut kept = None;
    if is_blank {
        remove(database)?;
    } else {
        let aside = beside(database, &format!(".{}", Clock.now().as_micros()));
        for side in SIDES {
            let (from, to) = (beside(database, side), beside(&aside, side));
            match fs::rename(&from, to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(RebuildError::files(&from)(error));
                }
                _ => {}
            }
        }
        kept = Some(aside);
    }
    fs::rename(new, database).map_err(RebuildError::files(new))?;
    sync(folder).map_err(RebuildError::files(folder))?;
    Ok(kept)
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(suffix);
    PathBuf::from(path)
}

/// Removes a database with all that SQLite keeps beside it.
fn remove(database: &Path) -> Result<(), RebuildError> {
    for side in SIDES {
        let path = beside(database, side);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(RebuildError::files(&path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}
