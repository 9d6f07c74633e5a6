//! Owns the record number of a journal.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a record in its session's journal. The first record has 1; 0 means "before the first".
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(transparent)]
#[schema(maximum = 9_007_199_254_740_991_i64)]
pub struct Seq(u64);

impl Seq {
    /// Before the first record.
    pub const ZERO: Self = Self(0);
    /// The last number that every reader of JSON holds exactly.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Wraps a number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of the record after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
