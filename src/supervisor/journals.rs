//! Owns what is done to journals so that they do not grow for ever: sealed segments are compacted, and removed where the
//! configuration says so. Nothing at or after the start of the last process is touched, and nothing of a session that has a process.

use std::{io, ops::AddAssign, path::Path, sync::Arc, time::Duration};

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::{Shared, SupervisorError, registry::Registry, settings};
use crate::{
    claude::Repeated,
    domain::{Clock, Seq, SessionId, Timestamp},
    journal::{self, Compacted, Compactor, FolderLock, OpenError, ReadError, Sealed, Source},
    session::{self, Keeping},
    store::{SessionFile, Store, StoreError},
    telemetry,
};

/// The longest from the start of the daemon to its first look.
const FIRST_LOOK: Duration = Duration::from_secs(60);

/// How long journals are kept, and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSettings {
    /// The age at which a sealed segment is compacted; 0 = never.
    pub compact_after_ms: u64,
    /// The age at which a sealed segment is removed; 0 = never.
    pub keep_ms: u64,
    /// The size of a session's journal above which its oldest sealed segments are removed; 0 = any.
    pub keep_bytes: u64,
    /// Between two looks.
    pub look_every_ms: u64,
}

/// A sum over segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// How many.
    pub segments: u64,
    /// The bytes that are free for them.
    pub bytes: u64,
}

impl Segments {
    const fn add(&mut self, bytes: u64) {
        self.segments += 1;
        self.bytes += bytes;
    }
}

impl AddAssign for Segments {
    fn add_assign(&mut self, other: Self) {
        self.segments += other.segments;
        self.bytes += other.bytes;
    }
}

/// The outcome of a look at journals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Sessions that were looked at.
    pub sessions: u64,
    /// Those of them that have a process, and so were left as they are.
    pub live: u64,
    /// Those of them that could not be read or written.
    pub failed: u64,
    /// The size of all their journals before.
    pub bytes: u64,
    /// Segments that were compacted, or would be.
    pub compacted: Segments,
    /// Segments that were removed, or would be.
    pub removed: Segments,
}

/// Why the journal of a session is as it was, or partly so.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Lock(#[from] OpenError),
    #[error("the file of the session cannot be used")]
    File(#[source] io::Error),
    #[error("the file of the session does not know of all that is to be removed")]
    NoFile,
    #[error("the journal is damaged, so nothing of it is removed")]
    Damaged,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the daemon ends")]
    Ending,
}

/// Compacts and removes what is due now. `is_dry` changes nothing and says what would be done.
pub(super) async fn collect(shared: &Shared, is_dry: bool) -> Result<Collected, SupervisorError> {
    let _one = shared.collecting.lock().await;
    let collector = Collector {
        data_dir: &shared.settings.data_dir,
        settings: shared.settings.journal,
        registry: Some(&shared.registry),
        is_dry,
        now: Clock.now(),
    };
    let done = collector.collect(&shared.store, &shared.closing).await?;
    if !is_dry {
        let (compacted, removed) = (done.compacted.bytes, done.removed.bytes);
        let left = done.bytes.saturating_sub(compacted + removed);
        shared.metrics.journals().collected(left, compacted, removed);
    }
    Ok(done)
}

/// Looks at the journals now and then.
pub(super) async fn run(shared: Arc<Shared>) {
    let every = Duration::from_millis(shared.settings.journal.look_every_ms);
    let mut pause = every.min(FIRST_LOOK);
    loop {
        tokio::time::sleep(pause).await;
        pause = every;
        match collect(&shared, false).await {
            Ok(done) if done.compacted.segments + done.removed.segments > 0 => {
                tracing::info!(
                    compacted = done.compacted.segments,
                    removed = done.removed.segments,
                    freed_bytes = done.compacted.bytes + done.removed.bytes,
                    "journals were compacted"
                );
            }
            Ok(_) => {}
            Err(error) => {
                let error = telemetry::chain(&error);
                tracing::warn!(error, "journals could not be looked at");
            }
        }
    }
}

/// Compacts and removes what is due in a data directory that this process has locked, while no daemon uses it.
///
/// # Errors
/// The store cannot be read.
pub async fn collect_journals(
    data_dir: &Path,
    store: &Store,
    settings: JournalSettings,
    is_dry: bool,
) -> Result<Collected, SupervisorError> {
    let collector = Collector {
        data_dir,
        settings,
        registry: None,
        is_dry,
        now: Clock.now(),
    };
    Ok(collector.collect(store, &CancellationToken::new()).await?)
}

/// One look at all journals.
struct Collector<'a> {
    data_dir: &'a Path,
    settings: JournalSettings,
    /// Held against those who open, start or remove a session meanwhile.
    registry: Option<&'a Registry>,
    is_dry: bool,
    now: Timestamp,
}

/// The segments of one session that are due.
struct Due {
    bytes: u64,
    has_writer: bool,
    remove: Vec<Sealed>,
    compact: Vec<Sealed>,
}

impl Collector<'_> {
    async fn collect(&self, store: &Store, closing: &CancellationToken) -> Result<Collected, StoreError> {
        let mut all = Collected::default();
        for (id, run_seq) in store.last_runs().await? {
            if closing.is_cancelled() {
                break;
            }
            all.sessions += 1;
            if let Err(error) = self.collect_one(store, id, run_seq, &mut all).await {
                all.failed += 1;
                let error = telemetry::chain(&error);
                tracing::warn!(session.id = %id, error, "a journal could not be compacted");
            }
        }
        Ok(all)
    }

    async fn collect_one(
        &self,
        store: &Store,
        id: SessionId,
        run_seq: Seq,
        all: &mut Collected,
    ) -> Result<(), Failed> {
        let dir = settings::sessions(self.data_dir).join(id.to_string());
        let (settings, now, place) = (self.settings, self.now, dir.clone());
        let due = blocking(move || look(&place, run_seq, settings, now)).await?;
        all.bytes += due.bytes;
        if due.has_writer {
            all.live += 1;
            return Ok(());
        }
        if !due.remove.is_empty() {
            self.remove(store, id, &dir, due.remove, all).await?;
        }
        for sealed in due.compact {
            self.compact(id, &dir, sealed, all).await?;
        }
        Ok(())
    }

    /// Removes the oldest segments, once what only they have in a form that a rebuild reads is kept beside them.
    async fn remove(
        &self,
        store: &Store,
        id: SessionId,
        dir: &Path,
        sealed: Vec<Sealed>,
        all: &mut Collected,
    ) -> Result<(), Failed> {
        let Some(last) = sealed.last().map(|segment| segment.last) else {
            return Ok(());
        };
        let removed = Segments {
            segments: sealed.len() as u64,
            bytes: sealed.iter().map(|segment| segment.bytes).sum(),
        };
        if self.is_dry {
            all.removed += removed;
            return Ok(());
        }
        // A rebuild takes sums from the file of the session, which must know of all that goes.
        store.save_session_file(id).await?;
        let place = dir.to_owned();
        let kept = blocking(move || keep(&place, id, last)).await?;
        let _exclusive = self.exclusive(id).await;
        let place = dir.to_owned();
        if blocking(move || remove_now(&place, kept, &sealed)).await? {
            all.removed += removed;
        }
        Ok(())
    }

    /// Holds off those who open, start or remove the session.
    async fn exclusive(&self, id: SessionId) -> Option<OwnedMutexGuard<()>> {
        match self.registry {
            Some(registry) => Some(registry.exclusive(id).await),
            None => None,
        }
    }

    async fn compact(
        &self,
        id: SessionId,
        dir: &Path,
        sealed: Sealed,
        all: &mut Collected,
    ) -> Result<(), Failed> {
        let (place, is_dry) = (dir.to_owned(), self.is_dry);
        let prepared = blocking(move || prepare(&place, &sealed, is_dry)).await?;
        let compacted = match prepared {
            Prepared::Nothing => None,
            Prepared::Would(0) => return Ok(()),
            Prepared::Would(saved) => {
                all.compacted.add(saved);
                return Ok(());
            }
            Prepared::Draft(compacted) => Some(compacted),
        };
        if self.is_dry {
            return Ok(());
        }
        let _exclusive = self.exclusive(id).await;
        let place = dir.to_owned();
        let saved = blocking(move || put_in_place(&place, sealed.last, compacted)).await?;
        if let Some(saved) = saved {
            all.compacted.add(saved);
        }
        Ok(())
    }
}

/// Finds what is due in the journal of one session.
fn look(dir: &Path, run_seq: Seq, settings: JournalSettings, now: Timestamp) -> Result<Due, Failed> {
    let mut due = Due {
        bytes: 0,
        has_writer: false,
        remove: Vec::new(),
        compact: Vec::new(),
    };
    let reader = match Compactor::open(dir) {
        Err(ReadError::NotFound { .. }) => return Ok(due),
        reader => reader?,
    };
    due.bytes = reader.bytes()?;
    let sealed = reader.sealed(run_seq)?;
    if sealed.is_empty() {
        return Ok(due);
    }
    // A lock that cannot be looked at may be held.
    due.has_writer = journal::is_locked(dir).unwrap_or(true);
    let seen = reader.compacted();
    let is_old = |segment: &Sealed, age_ms: u64| {
        age_ms > 0 && now.as_micros().saturating_sub(segment.newest.as_micros()) / 1_000 >= i64_of(age_ms)
    };
    let mut bytes = due.bytes;
    let mut sealed = sealed.into_iter().peekable();
    while let Some(segment) = sealed.next_if(|segment| {
        is_old(segment, settings.keep_ms) || (settings.keep_bytes > 0 && bytes > settings.keep_bytes)
    }) {
        bytes -= segment.bytes;
        due.remove.push(segment);
    }
    due.compact = sealed
        .filter(|segment| segment.last > seen && is_old(segment, settings.compact_after_ms))
        .collect();
    Ok(due)
}

fn i64_of(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Makes what is kept of the records up to `last`.
fn keep(dir: &Path, id: SessionId, last: Seq) -> Result<Keeping, Failed> {
    let file = SessionFile::read(dir).map_err(Failed::File)?;
    let Some(file) = file.filter(|file| file.id == id && file.as_of_seq >= last) else {
        return Err(Failed::NoFile);
    };
    let conversation = file.first_conversation().ok_or(Failed::NoFile)?;
    match session::keep_facts(dir, id, conversation, last)? {
        Keeping::Damaged => Err(Failed::Damaged),
        keeping => Ok(keeping),
    }
}

/// Removes the segments; `false` when the journal has a writer by now.
fn remove_now(dir: &Path, kept: Keeping, sealed: &[Sealed]) -> Result<bool, Failed> {
    let Some(lock) = FolderLock::take(dir)? else {
        return Ok(false);
    };
    if let Keeping::Draft(kept) = kept {
        kept.put_in_place(&lock)?;
    }
    lock.remove(sealed)?;
    Ok(true)
}

/// The outcome for a segment.
enum Prepared {
    /// It stays.
    Nothing,
    /// So many bytes would be free.
    Would(u64),
    Draft(Compacted),
}

/// Reads a segment and writes it again beside itself.
fn prepare(dir: &Path, sealed: &Sealed, is_dry: bool) -> Result<Prepared, Failed> {
    let reader = Compactor::open(dir)?;
    let mut repeated = Repeated::default();
    let is_whole = reader.each_of(sealed, |record| match record.source {
        Source::Cli => repeated.push(record.seq, record.data, record.line.len() as u64 + 1),
        Source::Daemon if is_end_of_run(record.data) => repeated.end_run(),
        _ => {}
    })?;
    if is_dry {
        return Ok(Prepared::Would(if is_whole { repeated.bytes() } else { 0 }));
    }
    if !is_whole || repeated.lines().is_empty() {
        return Ok(Prepared::Nothing);
    }
    let compacted = reader.compact(sealed, repeated.lines())?;
    Ok(compacted.map_or(Prepared::Nothing, Prepared::Draft))
}

fn is_end_of_run(data: &[u8]) -> bool {
    [&br#"{"type":"run_exited""#[..], br#"{"type":"run_lost""#]
        .iter()
        .any(|start| data.starts_with(start))
}

/// Puts a compacted segment in its place, and says that the segments up to `last` are done. `None` when the journal has a writer by
/// now, or nothing was saved.
fn put_in_place(dir: &Path, last: Seq, compacted: Option<Compacted>) -> Result<Option<u64>, Failed> {
    let Some(lock) = FolderLock::take(dir)? else {
        return Ok(None);
    };
    let saved = match compacted {
        Some(compacted) => {
            let saved = compacted.saves();
            if !lock.replace(compacted)? {
                return Ok(None);
            }
            Some(saved)
        }
        None => None,
    };
    lock.mark_compacted(last)?;
    Ok(saved)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failed> + Send + 'static,
) -> Result<T, Failed> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // Only the end of the runtime cancels it.
        Err(_) => Err(Failed::Ending),
    }
}
