//! Owns the policy over many sessions: what may start, stop, fork and resume, where processes come from, and what happens
//! to them over a restart of the daemon. The only place that holds all sessions.

mod adoption;
mod budget;
mod build;
mod cli;
mod cwd;
mod directories;
mod ending;
mod error;
mod file_before;
mod fork_history;
mod fork_point;
mod journals;
mod lifecycle;
mod lobby;
mod lost;
mod mark;
mod messages;
mod offers;
mod park;
mod plan;
mod projector;
mod prompt_queue;
mod queued;
mod rebuild;
mod recovery;
mod registry;
mod removal;
mod requests;
mod restart;
mod resume_point;
mod rules;
mod session_files;
mod settings;
mod settings_file;
mod strangers;
mod tether;
mod transcript;
mod update;
mod view;
mod warm;
mod webhooks;

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64},
};

use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    admission::Admission,
    domain::{ClientId, Clock, Role, Seq, SessionId, Timestamp},
    journal::{Chunk, Cursor, Missing, ReadError, Reader},
    metrics::Metrics,
    outbound::Outbound,
    session::{Attachment, LiveView, Looks, Newcomer, SessionHandle},
    store::{Page, PageRequest, SessionFilter, Store},
};

pub use crate::os::ProcessMemory;
pub use crate::{
    admission::{Limits, Refusal},
    session::DeskTimes,
};
pub use build::build_id;
pub use cli::{CliFound, CliMissing};
pub use directories::Directories;
pub use error::SupervisorError;
pub use file_before::{FileBefore, MOST_FILE_BYTES};
pub use journals::{Collected, JournalSettings, Segments, collect_journals};
pub use lobby::{
    BadEventId, EventId, Lobby, LobbyEntry, LobbyEvent, LobbyFilter, LobbyNews, LobbyWatch, Needs,
    PutOffAttention,
};
pub use lost::LostDatabase;
pub use offers::{Offer, Offered};
pub use prompt_queue::{PromptQueue, queued};
pub use rebuild::{RebuildError, RebuildProgress, Rebuilt, rebuild, remove_half_made};
pub use requests::{
    AboutMessage, Accepted, Content, CreateSession, ForkSession, Host, NewMessage, ResumePoint, Resumed,
    SessionChange,
};
pub use rules::RuleTest;
pub use session_files::sessions_without_file;
pub use settings::{ParkSettings, Simulator, SupervisorSettings, database_file};
pub use tether::{Tether, Tethers};
pub use view::{Health, SessionView};
pub use warm::{WarmHealth, WarmProfile, WarmSettings};
pub use webhooks::{Tested, Webhooks, WebhooksError, configure as configure_webhooks};

use cli::CliSource;
use lobby::Changes;
use projector::Projector;
use registry::Registry;
use strangers::Strangers;

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A handle on the supervisor; clones are cheap.
#[derive(Clone, Debug)]
pub struct Supervisor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: SupervisorSettings,
    /// The mark that every process of a session carries.
    data_mark: String,
    store: Store,
    registry: Registry,
    /// The sessions that the lobby has to look at. Shared with those who change them.
    changes: Arc<Changes>,
    /// Shared with the sweep of a start.
    strangers: Arc<Strangers>,
    admission: Admission,
    warm: Arc<warm::Pool>,
    projector: Projector,
    cli: CliSource,
    metrics: Metrics,
    outbound: Outbound,
    tracker: TaskTracker,
    /// Starts and claims that are under way: a process may come of each.
    starts: TaskTracker,
    closing: CancellationToken,
    /// Where sessions say that a restart is due.
    restarts: mpsc::Sender<SessionId>,
    /// Where parked sessions say that they need a process.
    wakes: mpsc::Sender<SessionId>,
    /// Those who look at directories of sessions just now.
    looks: Arc<Looks>,
    /// Held while the rules of a session are changed.
    rules_lock: tokio::sync::Mutex<()>,
    /// Held while journals are compacted.
    collecting: tokio::sync::Mutex<()>,
    started_at: Timestamp,
    /// The memory of all sessions' processes, as it was measured last.
    memory_bytes: AtomicU64,
}

impl Supervisor {
    /// Starts the supervisor on a data directory that this process has locked. When this returns every session agrees with
    /// reality: what lives is attached to, what died is marked.
    ///
    /// # Errors
    /// Folders that can't be made, a store that can't be read.
    pub async fn start(
        settings: SupervisorSettings,
        store: Store,
        tracker: TaskTracker,
    ) -> Result<Self, SupervisorError> {
        settings.make_folders()?;
        let changes = Arc::<Changes>::default();
        let (ended_turns, of_ended) = mpsc::channel(transcript::ENDED_TURNS);
        let projector = Projector::start(store.clone(), Arc::clone(&changes), ended_turns, &tracker);
        let (restarts, due) = mpsc::channel(restart::DUE);
        let (wakes, woken) = mpsc::channel(park::WAKES);
        let supervisor = Self {
            shared: Arc::new(Shared {
                cli: CliSource::default(),
                outbound: Outbound::new(),
                admission: Admission::new(settings.limits),
                data_mark: mark::of(&settings.data_dir)?,
                warm: Arc::new(warm::Pool::new(settings.warm.profiles.len())),
                settings,
                store,
                registry: Registry::new(Arc::clone(&changes)),
                changes,
                strangers: Arc::default(),
                projector,
                metrics: Metrics::new(VERSION),
                tracker,
                starts: TaskTracker::new(),
                closing: CancellationToken::new(),
                restarts,
                wakes,
                looks: Arc::default(),
                rules_lock: tokio::sync::Mutex::default(),
                collecting: tokio::sync::Mutex::default(),
                started_at: Clock.now(),
                memory_bytes: AtomicU64::new(0),
            }),
        };
        if let Err(missing) = supervisor
            .shared
            .cli
            .look(&supervisor.shared.settings, None, None)
            .await
        {
            tracing::warn!(searched = ?missing.searched, "no claude CLI was found");
        }
        supervisor.clear_warm().await?;
        supervisor.recover().await?;
        supervisor.run_restarts(due);
        supervisor.run_wakes(woken);
        supervisor.run_memory();
        supervisor.run_warm();
        let shared = &supervisor.shared;
        let (dir, closing) = (shared.settings.data_dir.clone(), shared.closing.clone());
        let write = session_files::bring_up(dir, shared.store.clone(), closing);
        shared.tracker.spawn(write);
        shared
            .tracker
            .spawn(transcript::run(supervisor.clone(), of_ended));
        let look = journals::run(Arc::clone(shared));
        let closing = shared.closing.clone();
        shared.tracker.spawn(closing.run_until_cancelled_owned(look));
        Ok(supervisor)
    }

    /// The store, for reads. Await [`Self::settled`] first, so that a client reads what it has seen.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// When it was started.
    pub fn started_at(&self) -> Timestamp {
        self.shared.started_at
    }

    /// The daemon's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Waits until the store holds what the sessions had published when this was called. A caller that changes something on the word of
    /// the store waits for this.
    ///
    /// # Errors
    /// `Store` when the store can't be written.
    pub async fn catch_up(&self) -> Result<(), SupervisorError> {
        self.shared.projector.barrier().await
    }

    /// The sessions that match, newest activity first.
    ///
    /// # Errors
    /// `Store`.
    pub async fn list(
        &self,
        filter: &SessionFilter,
        page: PageRequest,
    ) -> Result<Page<SessionView>, SupervisorError> {
        // As in `session`: the totals are never older than the state.
        let mut known: HashMap<SessionId, LiveView> = self
            .shared
            .registry
            .all()
            .into_iter()
            .map(|session| (session.id(), LiveView::clone(&session.view())))
            .collect();
        self.settled().await;
        let rows = self.shared.store.sessions(filter.clone(), page).await?;
        let items = rows
            .items
            .into_iter()
            .map(|row| {
                let live = known.remove(&row.id).or_else(|| self.live(row.id));
                self.joined(row, live)
            })
            .collect();
        Ok(Page {
            items,
            next: rows.next,
        })
    }

    /// One session.
    ///
    /// # Errors
    /// `SessionNotFound`, `Store`.
    pub async fn session(&self, id: SessionId) -> Result<SessionView, SupervisorError> {
        // In this order the totals are never older than the state: who sees a turn end sees its cost too.
        let live = self.live(id);
        self.settled().await;
        let row = self.row(id).await?;
        Ok(self.joined(row, live))
    }

    /// A cursor over the journal of a session, from the record after `after`.
    ///
    /// # Errors
    /// `SessionNotFound`, `Read`.
    pub async fn cursor(&self, id: SessionId, after: Seq) -> Result<Cursor, SupervisorError> {
        let session = self.handle(id).await?;
        session.feed().cursor(after).map_err(SupervisorError::Read)
    }

    /// As [`Self::cursor`], and records that are no longer kept are named in their place.
    ///
    /// # Errors
    /// As [`Self::cursor`].
    pub async fn cursor_over(&self, id: SessionId, after: Seq) -> Result<Cursor, SupervisorError> {
        let session = self.handle(id).await?;
        session.feed().cursor_over(after).map_err(SupervisorError::Read)
    }

    /// As [`Self::page`], and records that are no longer kept are passed over.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub async fn kept_page(
        &self,
        id: SessionId,
        after: Seq,
        max_bytes: usize,
    ) -> Result<Option<Chunk>, SupervisorError> {
        match self.page(id, after, max_bytes).await {
            Err(SupervisorError::Read(ReadError::Compacted { oldest })) => {
                let before = Seq::new(oldest.get().saturating_sub(1));
                self.page(id, before, max_bytes).await
            }
            page => page,
        }
    }

    /// Records of a session after `after`, at most about `max_bytes` of them; `None` at the newest.
    ///
    /// # Errors
    /// `SessionNotFound`, `Read`.
    pub async fn page(
        &self,
        id: SessionId,
        after: Seq,
        max_bytes: usize,
    ) -> Result<Option<Chunk>, SupervisorError> {
        let session = self.handle(id).await?;
        let head = session.feed().head();
        if after == head.seq {
            return Ok(None);
        }
        if after > head.seq {
            // The file may be ahead of what was published; what nobody was shown is not given away.
            return Err(SupervisorError::Read(ReadError::Beyond { head }));
        }
        let dir = self.shared.settings.session_dir(id);
        let read = move || {
            let reader = Reader::open(&dir)?;
            let from = reader.place_after(after)?;
            reader.read_after(after, from, head, max_bytes)
        };
        match tokio::task::spawn_blocking(read).await {
            Ok(chunk) => chunk.map(Some).map_err(SupervisorError::Read),
            Err(_) => Err(SupervisorError::ShuttingDown),
        }
    }

    /// The last records of a session before `before`, or the newest ones when it is beyond them, as
    /// [`Reader::read_before`] gives them.
    ///
    /// # Errors
    /// `SessionNotFound`, `Read`.
    pub async fn page_before(
        &self,
        id: SessionId,
        before: Seq,
        most_records: usize,
        max_bytes: usize,
    ) -> Result<Vec<Chunk>, SupervisorError> {
        let session = self.handle(id).await?;
        let head = session.feed().head();
        let before = before.min(head.seq.next());
        let dir = self.shared.settings.session_dir(id);
        let read = move || Reader::open(&dir)?.read_before(before, head, most_records, max_bytes);
        match tokio::task::spawn_blocking(read).await {
            Ok(chunks) => chunks.map_err(SupervisorError::Read),
            Err(_) => Err(SupervisorError::ShuttingDown),
        }
    }

    /// The records before `oldest`, which is the oldest that is kept.
    pub fn not_kept(&self, id: SessionId, oldest: Seq) -> Missing {
        let first = Seq::ZERO.next();
        match Reader::open(&self.shared.settings.session_dir(id)) {
            Ok(reader) => reader.not_kept(first, oldest),
            Err(_) => Missing::lost(first, Seq::new(oldest.get().saturating_sub(1))),
        }
    }

    /// Compacts and removes what is due of journals. `is_dry` changes nothing and says what would be done.
    ///
    /// # Errors
    /// `Store`.
    pub async fn collect_journals(&self, is_dry: bool) -> Result<Collected, SupervisorError> {
        journals::collect(&self.shared, is_dry).await
    }

    /// Attaches a client to a session. Attaching changes nothing for the session.
    ///
    /// # Errors
    /// `SessionNotFound`, `Session` when the records after `after` can't be given.
    pub async fn attach(
        &self,
        id: SessionId,
        after: Option<Seq>,
        newcomer: Newcomer,
    ) -> Result<Attachment, SupervisorError> {
        Ok(self.handle(id).await?.attach(after, newcomer).await?)
    }

    /// Changes a session; its process does not notice. The transcript of the conversation is told of a title and a tag, where there is one.
    ///
    /// # Errors
    /// `SessionNotFound`, `InvalidOption`, `RevisionDiffers`, `Store`. Then nothing is changed.
    pub async fn update(&self, id: SessionId, change: SessionChange) -> Result<SessionView, SupervisorError> {
        update::update(self, id, change).await
    }

    /// Attaches the program that the process was started for.
    ///
    /// # Errors
    /// Those of [`Self::attach`].
    pub async fn attach_host(
        &self,
        id: SessionId,
        after: Seq,
        client: ClientId,
    ) -> Result<Attachment, SupervisorError> {
        let newcomer = Newcomer {
            client: Some(client),
            login: None,
            role: Role::Operator,
            is_host: true,
        };
        Ok(self.handle(id).await?.attach(Some(after), newcomer).await?)
    }

    async fn row(&self, id: SessionId) -> Result<crate::store::SessionRow, SupervisorError> {
        let row = self.shared.store.session(id).await?;
        row.ok_or(SupervisorError::SessionNotFound(id))
    }

    async fn handle(&self, id: SessionId) -> Result<SessionHandle, SupervisorError> {
        if let Some(handle) = self.shared.registry.get(id) {
            return Ok(handle);
        }
        // It is tried all the time, and nobody who asks is kept waiting for that.
        self.refuse_when_unresponsive(id)?;
        // Two actors on one journal must never be.
        let _exclusive = self.shared.registry.exclusive(id).await;
        if let Some(handle) = self.shared.registry.get(id) {
            return Ok(handle);
        }
        let row = self.row(id).await?;
        self.open_known(&row).await
    }
}
