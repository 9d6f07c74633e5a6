//! Owns the lobby: all sessions as people look at them, and each change for as many watchers as there are. It is filled when
//! the first one comes.

mod attention;
mod changes;
mod entry;
mod history;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OnceCell, watch},
    time::{MissedTickBehavior, interval},
};

pub(super) use attention::put_off;
pub use attention::{Needs, PutOffAttention};
pub(super) use changes::Changes;
pub use entry::LobbyEntry;
pub use history::{BadEventId, EventId, LobbyEvent};

use super::{SessionView, Supervisor, SupervisorError};
use crate::{
    domain::{Clock, SessionId, SessionState},
    store::{PageRequest, SessionFilter, StoreError},
    telemetry,
};
use history::History;

/// The time between two looks for things that no fact of a session tells, such as silence.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Which sessions a watcher sees: those that match every field that is set.
#[derive(Clone, Debug, Default)]
pub struct LobbyFilter {
    /// In this state.
    pub state: Option<SessionState>,
    /// In exactly this working directory.
    pub cwd: Option<String>,
    /// With exactly this tag.
    pub tag: Option<String>,
    /// With this label key and value.
    pub label: Option<(String, String)>,
    /// Whether they need a person.
    pub needs_person: Option<bool>,
}

impl LobbyFilter {
    fn matches(&self, entry: &LobbyEntry) -> bool {
        let (row, live) = (&entry.view.row, &entry.view.live);
        self.state.is_none_or(|state| live.state == state)
            && self.cwd.as_ref().is_none_or(|cwd| row.cwd == *cwd)
            && self.tag.as_ref().is_none_or(|tag| row.tag.as_ref() == Some(tag))
            && self
                .label
                .as_ref()
                .is_none_or(|(key, value)| row.labels.get(key) == Some(value))
            && self
                .needs_person
                .is_none_or(|needs| entry.attention.is_some() == needs)
    }
}

/// The lobby. Clones are handles on the same one.
#[derive(Clone, Debug)]
pub struct Lobby {
    supervisor: Supervisor,
    filled: Arc<OnceCell<Arc<Filled>>>,
}

#[derive(Debug)]
struct Filled {
    // Held for the time of one look at all sessions, never across an await.
    history: Mutex<History>,
    /// The number of the newest event.
    newest: watch::Sender<u64>,
}

impl Filled {
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lobby {
    /// The lobby of this supervisor.
    pub fn new(supervisor: Supervisor) -> Self {
        Self {
            supervisor,
            filled: Arc::default(),
        }
    }

    /// Watches the sessions that match. The first news are all of them, unless the watcher has seen all up to `seen` and the
    /// changes after it are kept.
    ///
    /// # Errors
    /// `Store`, when the sessions cannot be read.
    pub async fn watch(
        &self,
        filter: LobbyFilter,
        seen: Option<EventId>,
    ) -> Result<LobbyWatch, SupervisorError> {
        let filled = self.filled.get_or_try_init(|| self.fill()).await?;
        let place = seen.and_then(|id| filled.history().place_of(id));
        Ok(LobbyWatch {
            changed: filled.newest.subscribe(),
            filled: Arc::clone(filled),
            filter,
            place,
        })
    }

    async fn fill(&self) -> Result<Arc<Filled>, SupervisorError> {
        let supervisor = self.supervisor.clone();
        supervisor.shared.changes.watch();
        let now = Clock.now();
        let mut history = History::new(now);
        let mut cursor = None;
        loop {
            let page = PageRequest::largest(cursor);
            let page = supervisor.list(&SessionFilter::default(), page).await?;
            for view in page.items {
                history.begin_with(view.row.id, LobbyEntry::new(view, None, now));
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let filled = Arc::new(Filled {
            history: Mutex::new(history),
            newest: watch::Sender::new(0),
        });
        let closing = supervisor.shared.closing.clone();
        let tracker = supervisor.shared.tracker.clone();
        tracker.spawn(closing.run_until_cancelled_owned(run(supervisor, Arc::clone(&filled))));
        Ok(filled)
    }
}

/// One who watches the lobby.
#[derive(Debug)]
pub struct LobbyWatch {
    filled: Arc<Filled>,
    changed: watch::Receiver<u64>,
    filter: LobbyFilter,
    /// The last event that it has seen; `None` while it is to get all sessions.
    place: Option<u64>,
}

/// News from the lobby.
#[derive(Clone, Debug)]
pub enum LobbyNews {
    /// All sessions that match, the newest activity first, after the event with this id.
    Snapshot(EventId, Vec<Arc<LobbyEntry>>),
    /// Changes, each with its id; never none.
    Events(Vec<(EventId, LobbyEvent)>),
}

impl LobbyWatch {
    /// The next news. A watcher that took too long gets all sessions anew.
    ///
    /// CANCEL-SAFETY: nothing is taken before it is returned.
    pub async fn next(&mut self) -> LobbyNews {
        loop {
            self.changed.mark_unchanged();
            if let Some(news) = self.ready() {
                return news;
            }
            if self.changed.changed().await.is_err() {
                // The lobby has ended with the daemon, which tells its clients.
                return std::future::pending().await;
            }
        }
    }

    fn ready(&mut self) -> Option<LobbyNews> {
        let history = self.filled.history();
        let newest = history.newest();
        let seen = self.place.replace(newest);
        let Some(events) = seen.and_then(|seen| history.after(seen, &self.filter)) else {
            let sessions = history.matching(&self.filter);
            return Some(LobbyNews::Snapshot(history.id(newest), sessions));
        };
        let events: Vec<_> = events
            .into_iter()
            .map(|(number, event)| (history.id(number), event))
            .collect();
        (!events.is_empty()).then_some(LobbyNews::Events(events))
    }
}

/// Keeps the lobby true.
async fn run(supervisor: Supervisor, filled: Arc<Filled>) {
    let changes = &supervisor.shared.changes;
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut unread = HashSet::new();
    loop {
        // A notification and a timer: both are cancel-safe.
        tokio::select! {
            () = changes.marks() => {}
            _ = look.tick() => {
                if filled.newest.receiver_count() > 0 {
                    mark_differing(&supervisor, &filled);
                }
                let due = filled.history().due(Clock.now());
                due.into_iter().for_each(|id| changes.mark(id));
                unread.drain().for_each(|id| changes.mark(id));
            }
        }
        for id in changes.take() {
            match read(&supervisor, id).await {
                Ok(view) => note(&filled, id, view),
                Err(error) => {
                    let error = telemetry::chain(&error);
                    tracing::warn!(session.id = %id, error, "the lobby cannot read a session yet");
                    unread.insert(id);
                }
            }
        }
    }
}

/// Marks the sessions whose actors know more than the lobby does.
fn mark_differing(supervisor: &Supervisor, filled: &Filled) {
    for session in supervisor.shared.registry.all() {
        let id = session.id();
        let known = filled.history().entry(id).cloned();
        let place = supervisor.shared.admission.queue_position(id);
        let differs = known.is_none_or(|known| {
            known.differs_from(&session.view()) || known.view.start_queue_position != place
        });
        if differs {
            supervisor.shared.changes.mark(id);
        }
    }
}

/// A session as the store and its actor know it; `None` when it is deleted.
async fn read(supervisor: &Supervisor, id: SessionId) -> Result<Option<SessionView>, StoreError> {
    // In this order the totals are never older than the state.
    let live = supervisor.live(id);
    let row = supervisor.shared.store.session(id).await?;
    Ok(row.map(|row| supervisor.joined(row, live)))
}

fn note(filled: &Filled, id: SessionId, view: Option<SessionView>) {
    let mut history = filled.history();
    let entry = view.map(|view| {
        let before = history.entry(id).map(AsRef::as_ref);
        LobbyEntry::new(view, before, Clock.now())
    });
    if history.note(id, entry) {
        let newest = history.newest();
        drop(history);
        filled.newest.send_replace(newest);
    }
}

#[cfg(test)]
mod tests;
