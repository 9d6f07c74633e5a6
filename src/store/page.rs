//! Owns paging: the checked limit and the opaque keyset cursor.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Serialize, de::DeserializeOwned};

use super::StoreError;

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where the next page begins; `None` when this is the last.
    pub next: Option<String>,
}

/// Which part of a list is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    limit: u16,
    cursor: Option<String>,
}

/// A page size outside 1 to [`PageRequest::MAX_LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit {0} is outside 1 to {max}", max = PageRequest::MAX_LIMIT)]
pub struct BadLimit(pub u64);

impl PageRequest {
    /// Rows in a page when nobody says.
    pub const DEFAULT_LIMIT: u16 = 50;
    /// Most rows in a page.
    pub const MAX_LIMIT: u16 = 500;

    /// A page of at most `limit` rows (1 to [`Self::MAX_LIMIT`]) that begins at `cursor`, the `next` of an earlier page.
    pub fn new(limit: u64, cursor: Option<String>) -> Result<Self, BadLimit> {
        match u16::try_from(limit) {
            Ok(checked @ 1..=Self::MAX_LIMIT) => Ok(Self {
                limit: checked,
                cursor,
            }),
            _ => Err(BadLimit(limit)),
        }
    }

    /// A page of as many rows as there may be, that begins at `cursor`.
    pub const fn largest(cursor: Option<String>) -> Self {
        Self {
            limit: Self::MAX_LIMIT,
            cursor,
        }
    }

    /// Whether no page came before.
    pub fn is_first(&self) -> bool {
        self.cursor.is_none()
    }

    /// How many rows to read: one more than the limit, to learn whether there is a next page.
    pub(super) fn rows_to_read(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    /// The key of the last row of the page before, in the list called `list`.
    pub(super) fn key<K: DeserializeOwned>(&self, list: &'static str) -> Result<Option<K>, StoreError> {
        let Some(cursor) = &self.cursor else {
            return Ok(None);
        };
        let json = URL_SAFE_NO_PAD
            .decode(cursor)
            .map_err(|_| StoreError::BadCursor)?;
        match serde_json::from_slice::<(String, K)>(&json) {
            Ok((made_by, key)) if made_by == list => Ok(Some(key)),
            _ => Err(StoreError::BadCursor),
        }
    }

    /// Makes the page of what [`Self::rows_to_read`] gave; `key` is what the list is sorted by.
    pub(super) fn page<T, K: Serialize>(
        &self,
        list: &'static str,
        items: Vec<T>,
        key: impl Fn(&T) -> K,
    ) -> Page<T> {
        self.page_of(list, items, usize::from(self.limit), key)
    }

    /// As [`Self::page`], with at most so many items.
    pub(super) fn page_of<T, K: Serialize>(
        &self,
        list: &'static str,
        mut items: Vec<T>,
        most: usize,
        key: impl Fn(&T) -> K,
    ) -> Page<T> {
        let most = most.min(usize::from(self.limit));
        let more = items.len() > most;
        items.truncate(most);
        let last = items.last().filter(|_| more);
        let next = last.and_then(|last| serde_json::to_vec(&(list, key(last))).ok());
        Page {
            items,
            next: next.map(|json| URL_SAFE_NO_PAD.encode(json)),
        }
    }
}

impl Default for PageRequest {
    fn default() -> Self {
        Self {
            limit: Self::DEFAULT_LIMIT,
            cursor: None,
        }
    }
}
