//! Owns places in a journal.

use serde::{Deserialize, Serialize};

use crate::domain::Seq;

/// The place just after the last whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The last record; 0 when there is none.
    pub seq: Seq,
    /// The segment that the next record goes to, unless it begins a new one.
    pub segment: Seq,
    /// Bytes of whole records in that segment.
    pub offset: u64,
}

impl Head {
    /// The head of a journal that has no record yet.
    pub const EMPTY: Self = Self {
        seq: Seq::ZERO,
        segment: Seq::new(1),
        offset: 0,
    };

    /// The place alone.
    pub const fn position(self) -> Position {
        Position {
            segment: self.segment,
            offset: self.offset,
        }
    }
}

/// The place where a record begins or will begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The segment, by the `seq` of its first record.
    pub segment: Seq,
    /// Bytes from the start of the segment.
    pub offset: u64,
}

impl Position {
    /// Where the first record of every journal begins.
    pub const START: Self = Head::EMPTY.position();
}
