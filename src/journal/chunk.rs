//! Owns a run of whole records in memory, as they are in the file. Parts of a chunk share its bytes.

use bytes::Bytes;
use memchr::{memchr, memchr_iter, memrchr};
use serde::{Deserialize, Serialize};

use super::{
    position::Position,
    record::{Parser, RecordRef, seq_of},
    segment::to_usize,
};
use crate::domain::Seq;

/// Numbers that no record has, although records with higher ones are or were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Missing {
    /// The first record that is missing.
    pub first_seq: Seq,
    /// The last record that is missing.
    pub last_seq: Seq,
    /// Why they are missing.
    pub reason: MissingReason,
}

/// Why records are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissingReason {
    /// The journal was damaged.
    Lost,
    /// A compaction took them out: deltas of messages that are there as a whole, and signs of life.
    Compacted,
    /// They are older than what the configuration keeps.
    Removed,
}

impl MissingReason {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Compacted => "compacted",
            Self::Removed => "removed",
        }
    }
}

impl Missing {
    /// Records that a damaged journal has lost.
    pub const fn lost(first_seq: Seq, last_seq: Seq) -> Self {
        Self {
            first_seq,
            last_seq,
            reason: MissingReason::Lost,
        }
    }

    /// Records that a compaction took out.
    pub const fn compacted(first_seq: Seq, last_seq: Seq) -> Self {
        Self {
            first_seq,
            last_seq,
            reason: MissingReason::Compacted,
        }
    }

    /// Whether what the records said is not known.
    pub fn is_lost(self) -> bool {
        self.reason == MissingReason::Lost
    }

    /// How many records are missing.
    pub const fn count(self) -> u64 {
        (self.last_seq.get() + 1).saturating_sub(self.first_seq.get())
    }
}

/// Whole records with contiguous numbers, from one segment. A clone shares the bytes.
///
/// INVARIANT: only [`super::Reader`] makes one, after it parsed every line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The numbers just before the first record, if no record has them.
    pub missing: Option<Missing>,
    /// The records, each with its 0x0A.
    pub bytes: Bytes,
    /// The number of the first record.
    pub first: Seq,
    /// The number of the last record; the one before `first` when there is none.
    pub last: Seq,
    /// The place after the last record.
    pub end: Position,
}

impl Chunk {
    /// No record: what is read at the head `last`.
    pub(super) const fn empty(last: Seq, end: Position) -> Self {
        Self {
            missing: None,
            bytes: Bytes::new(),
            first: last.next(),
            last,
            end,
        }
    }

    /// No record, and none will come for these numbers: what is read at the head where it was damaged.
    pub(super) fn lost(missing: Missing, end: Position) -> Self {
        Self {
            missing: Some(missing),
            ..Self::empty(missing.last_seq, end)
        }
    }

    /// Is there nothing in it, neither a record nor the news that some are missing?
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.missing.is_none()
    }

    /// The first number that this tells of.
    pub fn start(&self) -> Seq {
        self.missing.map_or(self.first, |missing| missing.first_seq)
    }

    /// The records in order.
    pub fn records(&self) -> Records<'_> {
        Records {
            rest: &self.bytes,
            parser: Parser::default(),
        }
    }

    /// The records after `seq`.
    #[must_use]
    pub fn after(&self, seq: Seq) -> Self {
        if seq < self.start() {
            return self.clone();
        }
        if seq >= self.last {
            return Self::empty(self.last, self.end);
        }
        if seq < self.first {
            let missing = self.missing.filter(|missing| seq < missing.last_seq);
            return Self {
                missing: missing.map(|missing| Missing {
                    first_seq: seq.next(),
                    ..missing
                }),
                ..self.clone()
            };
        }
        let dropped = to_usize(seq.get() - self.first.get());
        let start = memchr_iter(b'\n', &self.bytes)
            .nth(dropped)
            .map_or(self.bytes.len(), |newline| newline + 1);
        Self {
            missing: None,
            bytes: self.bytes.slice(start..),
            first: seq.next(),
            ..self.clone()
        }
    }

    /// The first records, as many as `max_bytes` hold, but at least one.
    #[must_use]
    pub fn up_to(&self, max_bytes: usize) -> Self {
        let cut = whole_records(&self.bytes, max_bytes).unwrap_or(self.bytes.len());
        if cut == self.bytes.len() {
            return self.clone();
        }
        let next = seq_of(&self.bytes[cut..]).unwrap_or(self.last);
        Self {
            missing: self.missing,
            bytes: self.bytes.slice(..cut),
            first: self.first,
            last: Seq::new(next.get() - 1),
            end: Position {
                offset: self.end.offset - (self.bytes.len() - cut) as u64,
                ..self.end
            },
        }
    }
}

/// The length of the whole records in the first `max_bytes`, or of the first record if it is larger; `None` when no record is whole.
pub(super) fn whole_records(bytes: &[u8], max_bytes: usize) -> Option<usize> {
    let window = &bytes[..bytes.len().min(max_bytes)];
    memrchr(b'\n', window)
        .or_else(|| memchr(b'\n', bytes))
        .map(|newline| newline + 1)
}

/// The records of a chunk.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    parser: Parser<'a>,
}

impl<'a> Iterator for Records<'a> {
    type Item = RecordRef<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let newline = memchr(b'\n', self.rest)?;
        let line = &self.rest[..newline];
        self.rest = &self.rest[newline + 1..];
        self.parser.parse(line)
    }
}
