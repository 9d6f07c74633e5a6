//! Owns a run of whole records in memory, as they are in the file. Parts of a chunk share its bytes.

use bytes::Bytes;
use memchr::{memchr, memchr_iter, memrchr};

use super::{
    position::Position,
    record::{Parser, RecordRef, seq_of},
    segment::to_usize,
};
use crate::domain::Seq;

/// Whole records with contiguous numbers, from one segment. A clone shares the bytes.
///
/// INVARIANT: only [`super::Reader::read`] makes one, after it parsed every line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
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
            bytes: Bytes::new(),
            first: last.next(),
            last,
            end,
        }
    }

    /// Is there no record in it?
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
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
        if seq < self.first {
            return self.clone();
        }
        if seq >= self.last {
            return Self::empty(self.last, self.end);
        }
        let dropped = to_usize(seq.get() - self.first.get());
        let start = memchr_iter(b'\n', &self.bytes)
            .nth(dropped)
            .map_or(self.bytes.len(), |newline| newline + 1);
        Self {
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
