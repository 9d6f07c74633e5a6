//! Owns the way back from a record: where the records before it begin, found from their end, so that the newest part of a
//! journal costs the same however long the journal is.

use super::{
    chunk::Chunk,
    position::{Head, Position},
    reader::{ReadError, Reader},
    segment::{self, to_usize},
};
use crate::domain::Seq;

/// Where a stretch of records begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    /// Its first record.
    first: Seq,
    /// The place of that record, or one before it.
    from: Position,
    /// The bytes up to the end of the stretch; at least one.
    bytes: u64,
}

impl Reader {
    /// The last records before `before` in their order: at most `most_records`, at most `most_bytes` but at least one, and none
    /// at the beginning of what is kept. They are of one segment, so more may come before them.
    ///
    /// `before` is at most the record after `until`. Where the journal was damaged the chunks say which records are missing;
    /// the last one may go on beyond `before`.
    pub fn read_before(
        &self,
        before: Seq,
        until: Head,
        most_records: usize,
        most_bytes: usize,
    ) -> Result<Vec<Chunk>, ReadError> {
        if before <= Seq::new(1) {
            return Ok(Vec::new());
        }
        let stretch = match self.stretch(before, most_records.max(1), most_bytes as u64) {
            Err(ReadError::Compacted { .. }) => return Ok(Vec::new()),
            other => other?,
        };
        let (mut after, mut from) = (Seq::new(stretch.first.get() - 1), stretch.from);
        let mut chunks = Vec::new();
        while after.next() < before {
            let chunk = self.read_after(after, from, until, to_usize(stretch.bytes))?;
            if chunk.is_empty() {
                break;
            }
            (after, from) = (chunk.last, chunk.end);
            chunks.push(chunk);
        }
        Ok(chunks)
    }

    /// A damaged part gives a stretch of `most_records` numbers, whatever is left of them.
    fn stretch(&self, before: Seq, most_records: usize, most_bytes: u64) -> Result<Stretch, ReadError> {
        match self.undamaged_stretch(before, most_records, most_bytes) {
            Err(
                ReadError::Gap { .. }
                | ReadError::Foreign { .. }
                | ReadError::Beyond { .. }
                | ReadError::MissingSegment { .. },
            ) => {
                let records = (most_records as u64).min(before.get() - 1);
                let first = Seq::new(before.get() - records);
                Ok(Stretch {
                    first,
                    from: self.place_after(Seq::new(first.get() - 1))?,
                    bytes: most_bytes.max(1),
                })
            }
            other => other,
        }
    }

    fn undamaged_stretch(
        &self,
        before: Seq,
        most_records: usize,
        most_bytes: u64,
    ) -> Result<Stretch, ReadError> {
        let last = Seq::new(before.get() - 1);
        let place = self.position_after(Seq::new(last.get() - 1))?;
        let file = self.segment(place.segment)?;
        let limit = file.metadata().map_err(self.io(place.segment))?.len();
        let Some(newline) =
            segment::next_newline(&file, place.offset, limit).map_err(self.io(place.segment))?
        else {
            return Err(ReadError::Foreign {
                segment: place.segment,
                offset: place.offset,
            });
        };
        let end = newline + 1;
        let span_at = |offset| segment::span_at(&file, offset).map_err(self.io(place.segment));
        // The line may stand in the place of more records.
        let first = span_at(place.offset)?.map_or(last, |(first, _)| first);
        let (mut start, mut first) = (place.offset, first);
        for _ in 1..most_records {
            if start == 0 {
                break;
            }
            // The byte before a record ends the line before it.
            let earlier = segment::line_before(&file, start - 1).map_err(self.io(place.segment))?;
            if end - earlier > most_bytes {
                break;
            }
            let expected = Seq::new(first.get() - 1);
            let Some((earliest, _)) = span_at(earlier)?.filter(|(_, last)| *last == expected) else {
                return Err(ReadError::Foreign {
                    segment: place.segment,
                    offset: earlier,
                });
            };
            (start, first) = (earlier, earliest);
        }
        Ok(Stretch {
            first,
            from: Position {
                segment: place.segment,
                offset: start,
            },
            bytes: end - start,
        })
    }
}
