//! Owns the place between two pages of a search.

use std::str::FromStr;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use crate::{
    domain::Seq,
    http::{ApiError, ErrorCode},
};

/// Where a search goes on. Clients get it as an opaque text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::http) struct FindPlace {
    /// Records from this one on were looked at.
    pub(super) before: Seq,
    /// The hits of the record just before that were given already.
    given: usize,
}

impl Default for FindPlace {
    /// Before anything was looked at.
    fn default() -> Self {
        Self::before(Seq::MAX)
    }
}

impl FindPlace {
    /// All records from this one on were looked at.
    pub(super) const fn before(before: Seq) -> Self {
        Self { before, given: 0 }
    }

    /// So many hits of this record were given, and it may have more.
    pub(super) const fn within(seq: Seq, given: usize) -> Self {
        Self {
            before: seq.next(),
            given,
        }
    }

    /// How many hits of this record were given.
    pub(super) fn given_of(self, seq: Seq) -> usize {
        if seq.next() == self.before { self.given } else { 0 }
    }

    /// Whether no record is left.
    pub(super) fn is_end(self) -> bool {
        self.before <= Seq::new(1)
    }

    /// The oldest record that was looked at.
    pub(super) fn oldest(self, head: Seq) -> Seq {
        let within = u64::from(self.given > 0);
        Seq::new(self.before.get() - within).min(head.next())
    }

    pub(super) fn encode(self) -> Option<String> {
        let json = serde_json::to_vec(&self).ok()?;
        Some(URL_SAFE_NO_PAD.encode(json))
    }
}

impl FromStr for FindPlace {
    type Err = ApiError;

    fn from_str(text: &str) -> Result<Self, ApiError> {
        let json = URL_SAFE_NO_PAD.decode(text).ok();
        let place = json.and_then(|json| serde_json::from_slice::<Self>(&json).ok());
        let place = place.filter(|place| (Seq::new(1)..=Seq::MAX).contains(&place.before));
        place.ok_or_else(|| ErrorCode::InvalidCursor.into())
    }
}
