//! Owns the sessions in the lobby at a moment, and the last changes before it, by which a watcher catches up.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    str::FromStr,
    sync::Arc,
};

use super::{LobbyEntry, LobbyFilter};
use crate::domain::{LobbyChange, SessionId, Timestamp};

/// Changes that are kept. A watcher that is further behind gets all sessions anew.
const MOST_KEPT: usize = 2048;

/// The place of a change: which lobby it is of, and its number there. A daemon that starts makes a new lobby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    epoch: i64,
    number: u64,
}

/// A text that is no [`EventId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event id was not made by the lobby")]
pub struct BadEventId;

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}", self.epoch, self.number)
    }
}

impl FromStr for EventId {
    type Err = BadEventId;

    fn from_str(text: &str) -> Result<Self, BadEventId> {
        let (epoch, number) = text.split_once('-').ok_or(BadEventId)?;
        Ok(Self {
            epoch: i64::from_str_radix(epoch, 16).map_err(|_| BadEventId)?,
            number: number.parse().map_err(|_| BadEventId)?,
        })
    }
}

/// A change of one session.
#[derive(Debug)]
struct Event {
    session: SessionId,
    before: Option<Arc<LobbyEntry>>,
    after: Option<Arc<LobbyEntry>>,
    changes: Vec<LobbyChange>,
}

/// A change as a watcher with a filter sees it.
#[derive(Clone, Debug)]
pub enum LobbyEvent {
    /// A session is there that was not, or matches the filter now.
    Made(Arc<LobbyEntry>),
    /// A session differs in these respects.
    Changed(Arc<LobbyEntry>, Vec<LobbyChange>),
    /// A session does not match the filter any more.
    Left(Arc<LobbyEntry>),
    /// A session was deleted.
    Deleted(SessionId),
}

impl LobbyEvent {
    /// The session that changed.
    pub fn session(&self) -> SessionId {
        match self {
            Self::Made(entry) | Self::Changed(entry, _) | Self::Left(entry) => entry.view.row.id,
            Self::Deleted(id) => *id,
        }
    }
}

/// All sessions, and the last changes.
#[derive(Debug)]
pub(super) struct History {
    epoch: i64,
    entries: BTreeMap<SessionId, Arc<LobbyEntry>>,
    events: VecDeque<Event>,
    /// The number of the newest event.
    newest: u64,
}

impl History {
    /// A lobby that begins now with no session.
    pub(super) const fn new(now: Timestamp) -> Self {
        Self {
            epoch: now.as_micros(),
            entries: BTreeMap::new(),
            events: VecDeque::new(),
            newest: 0,
        }
    }

    /// The number of the newest event.
    pub(super) const fn newest(&self) -> u64 {
        self.newest
    }

    /// The id of an event of this lobby.
    pub(super) const fn id(&self, number: u64) -> EventId {
        EventId {
            epoch: self.epoch,
            number,
        }
    }

    /// The place of a watcher that has seen all up to an event; `None` when the changes after it are not kept.
    pub(super) fn place_of(&self, id: EventId) -> Option<u64> {
        let is_known = id.epoch == self.epoch && id.number <= self.newest && self.has_after(id.number);
        is_known.then_some(id.number)
    }

    /// Whether all changes after this number are kept.
    fn has_after(&self, number: u64) -> bool {
        self.newest - number <= self.events.len() as u64
    }

    pub(super) fn entry(&self, id: SessionId) -> Option<&Arc<LobbyEntry>> {
        self.entries.get(&id)
    }

    /// The sessions of which something was put off until now.
    pub(super) fn due(&self, now: Timestamp) -> Vec<SessionId> {
        let due = self.entries.iter().filter(|(_, entry)| entry.is_due(now));
        due.map(|(id, _)| *id).collect()
    }

    /// A session that was there when the lobby began.
    pub(super) fn begin_with(&mut self, id: SessionId, entry: LobbyEntry) {
        self.entries.insert(id, Arc::new(entry));
    }

    /// A session looks like this now; `None` when it was deleted. Says whether that is new.
    pub(super) fn note(&mut self, session: SessionId, entry: Option<LobbyEntry>) -> bool {
        let before = self.entries.get(&session).cloned();
        let changes = match (&before, &entry) {
            (None, None) => return false,
            (Some(before), Some(entry)) => entry.changes_since(before),
            _ => Vec::new(),
        };
        let after = entry.map(Arc::new);
        match &after {
            Some(entry) => self.entries.insert(session, Arc::clone(entry)),
            None => self.entries.remove(&session),
        };
        if before.is_some() && after.is_some() && changes.is_empty() {
            // It may be newer all the same.
            return false;
        }
        if self.events.len() == MOST_KEPT {
            self.events.pop_front();
        }
        self.events.push_back(Event {
            session,
            before,
            after,
            changes,
        });
        self.newest += 1;
        true
    }

    /// The sessions that match, the newest activity first.
    pub(super) fn matching(&self, filter: &LobbyFilter) -> Vec<Arc<LobbyEntry>> {
        let entries = self.entries.values();
        let mut matching: Vec<_> = entries.filter(|entry| filter.matches(entry)).cloned().collect();
        matching.sort_by_key(|entry| std::cmp::Reverse((entry.view.row.updated_at, entry.view.row.id)));
        matching
    }

    /// The changes after an event, as a filter shows them; `None` when they are not kept.
    pub(super) fn after(&self, number: u64, filter: &LobbyFilter) -> Option<Vec<(u64, LobbyEvent)>> {
        if !self.has_after(number) {
            return None;
        }
        let first = self.newest - self.events.len() as u64 + 1;
        let numbered = (first..).zip(&self.events);
        let later = numbered.skip_while(|(at, _)| *at <= number);
        Some(
            later
                .filter_map(|(at, event)| Some((at, event.seen_through(filter)?)))
                .collect(),
        )
    }
}

impl Event {
    fn seen_through(&self, filter: &LobbyFilter) -> Option<LobbyEvent> {
        let was_seen = self.before.as_ref().is_some_and(|entry| filter.matches(entry));
        match &self.after {
            Some(entry) if filter.matches(entry) => Some(match was_seen {
                true => LobbyEvent::Changed(Arc::clone(entry), self.changes.clone()),
                false => LobbyEvent::Made(Arc::clone(entry)),
            }),
            Some(entry) => was_seen.then(|| LobbyEvent::Left(Arc::clone(entry))),
            None => was_seen.then_some(LobbyEvent::Deleted(self.session)),
        }
    }
}
