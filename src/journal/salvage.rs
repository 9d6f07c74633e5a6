//! Owns reading a damaged journal: what is whole is given, and what is missing is named.
//!
//! Damage is a line that is no record, a record whose number cannot be right, and a segment that is gone or ends too early.
//! None of it is repaired: the files stay as they are.

use std::{fs::File, sync::Arc};

use bytes::Bytes;
use memchr::memchr;

use super::{
    chunk::{Chunk, Missing},
    position::{Head, Position},
    reader::{ReadError, Reader},
    record::{Parser, compacted_of, seq_of},
    segment::{self, to_usize},
};
use crate::domain::Seq;

/// How much of a damaged segment is looked at in one piece, at the least.
const WINDOW_BYTES: usize = 64 << 10;

impl Reader {
    /// An older record: who wrote it, and its data.
    pub fn record(&self, seq: Seq, head: Head) -> Result<(Option<String>, Vec<u8>), ReadError> {
        let absent = ReadError::Absent { seq };
        let Some(before) = seq.get().checked_sub(1).map(Seq::new) else {
            return Err(absent);
        };
        let chunk = self.read_after(before, self.place_after(before)?, head, 1)?;
        let mut records = chunk.records().filter(|record| record.seq == seq);
        let record = records.next().ok_or(absent)?;
        Ok((record.by.map(ToOwned::to_owned), record.data.to_vec()))
    }

    /// As [`Self::position_after`] for a record that there was; where some are missing, a place from which [`Self::read_after`] finds the next one.
    pub fn place_after(&self, seq: Seq) -> Result<Position, ReadError> {
        match self.position_after(seq) {
            Err(ReadError::Gap { found: segment, .. } | ReadError::Foreign { segment, .. }) => {
                Ok(Position { segment, offset: 0 })
            }
            // The end of the journal is missing: whether there was one is for the head to say.
            Err(ReadError::Beyond { head }) => Ok(head.position()),
            other => other,
        }
    }

    /// As [`Self::read`] for the records after `after`, and damage ends nothing: the chunk says which records are missing before
    /// its first one. It is empty at `until` only.
    ///
    /// `from` is a place at or before the record after `after`, or was one before its segment was compacted.
    pub fn read_after(
        &self,
        after: Seq,
        from: Position,
        until: Head,
        max_bytes: usize,
    ) -> Result<Chunk, ReadError> {
        let wanted = after.next();
        let mut at = from;
        let mut is_sought = false;
        loop {
            match self.read(at, until, max_bytes) {
                Ok(chunk) if chunk.is_empty() => return Ok(at_the_end(wanted, until, chunk)),
                // Nearly always.
                Ok(chunk) if chunk.start() == wanted => return Ok(chunk),
                Ok(chunk) if chunk.last < wanted => {
                    at = chunk.end;
                    continue;
                }
                Ok(chunk) if chunk.start() < wanted => return Ok(chunk.after(after)),
                Ok(_) => {}
                Err(ReadError::Gap { .. } | ReadError::Foreign { .. } | ReadError::MissingSegment { .. }) => {
                }
                // A segment that is shorter than its head.
                Err(ReadError::Truncated { .. }) => {}
                Err(error) => return Err(error),
            }
            // A compaction or a removal may have moved the place since it was taken.
            if !std::mem::replace(&mut is_sought, true) {
                match self.position_after(after) {
                    Ok(place) if place != at => {
                        at = place;
                        continue;
                    }
                    Err(error @ ReadError::Compacted { .. }) => return Err(error),
                    _ => {}
                }
            }
            match self.salvage(wanted, at, until, max_bytes)? {
                Salvaged::Chunk(chunk) => return Ok(chunk),
                Salvaged::Nothing(next) if next == until.position() => {
                    return Ok(at_the_end(wanted, until, Chunk::empty(until.seq, next)));
                }
                Salvaged::Nothing(next) => at = next,
            }
        }
    }

    /// Looks line by line for the record `wanted` or the next one that is there, in one piece of one segment.
    fn salvage(
        &self,
        wanted: Seq,
        at: Position,
        until: Head,
        max_bytes: usize,
    ) -> Result<Salvaged, ReadError> {
        let Some((file, limit, numbers_end)) = self.part(at, until)? else {
            return Ok(Salvaged::Nothing(self.next_segment(at, until)?));
        };
        if at.offset >= limit {
            return Ok(Salvaged::Nothing(self.next_segment(at, until)?));
        }
        let length = to_usize(limit - at.offset).min(max_bytes.max(WINDOW_BYTES));
        let mut window = vec![0; length];
        let read = segment::read_up_to(&file, &mut window, at.offset).map_err(self.io(at.segment))?;
        window.truncate(read);
        if memchr(b'\n', &window).is_none() {
            // One long line: it is whole, or it is the last.
            let from = at.offset + read as u64;
            let newline = segment::next_newline(&file, from, limit).map_err(self.io(at.segment))?;
            let Some(newline) = newline else {
                return Ok(Salvaged::Nothing(self.next_segment(at, until)?));
            };
            window.resize(to_usize(newline + 1 - at.offset), 0);
            segment::read_up_to(&file, &mut window, at.offset).map_err(self.io(at.segment))?;
        }
        let window = Bytes::from(window);
        let found = run_of_records(&window, wanted, numbers_end);
        let end_of = |bytes: usize| Position {
            segment: at.segment,
            offset: at.offset + bytes as u64,
        };
        let lost_before =
            |first: Seq| (first > wanted).then(|| Missing::lost(wanted, Seq::new(first.get() - 1)));
        Ok(match found {
            Ok(Found::Compacted { missing, start, end }) => {
                Salvaged::Chunk(match lost_before(missing.first_seq) {
                    Some(lost) => Chunk::lost(lost, end_of(start)),
                    None => Chunk::lost(missing, end_of(end)).after(after_of(wanted)),
                })
            }
            Ok(Found::Records(run)) => Salvaged::Chunk(Chunk {
                missing: lost_before(run.first),
                bytes: window.slice(run.start..run.end),
                first: run.first,
                last: run.last,
                end: end_of(run.end),
            }),
            Err(whole) => Salvaged::Nothing(end_of(whole)),
        })
    }

    /// The segment of a place, how far it is read, and the number that all of its records are below. `None` when it is gone.
    fn part(&self, at: Position, until: Head) -> Result<Option<(Arc<File>, u64, Seq)>, ReadError> {
        if at.segment > until.segment {
            return Ok(None);
        }
        let file = match self.segment(at.segment) {
            Ok(file) => file,
            Err(ReadError::MissingSegment { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = file.metadata().map_err(self.io(at.segment))?.len();
        if at.segment == until.segment {
            return Ok(Some((file, bytes.min(until.offset), until.seq.next())));
        }
        let segments = self.segments()?;
        let next = segments.into_iter().find(|first| *first > at.segment);
        Ok(Some((file, bytes, next.unwrap_or(until.segment))))
    }

    /// Where it goes on after the segment of `at`: the start of the next one that is there, or the end.
    fn next_segment(&self, at: Position, until: Head) -> Result<Position, ReadError> {
        let segments = self.segments()?;
        let next = segments.into_iter().find(|first| *first > at.segment);
        Ok(match next.filter(|next| *next <= until.segment) {
            Some(segment) => Position { segment, offset: 0 },
            None => until.position(),
        })
    }
}

enum Salvaged {
    Chunk(Chunk),
    /// Nothing is there up to this place.
    Nothing(Position),
}

/// The chunk to give at the head: nothing, or the news that the rest is missing.
fn at_the_end(wanted: Seq, until: Head, chunk: Chunk) -> Chunk {
    if wanted > until.seq {
        return chunk;
    }
    Chunk::lost(Missing::lost(wanted, until.seq), until.position())
}

const fn after_of(wanted: Seq) -> Seq {
    Seq::new(wanted.get() - 1)
}

/// The next thing in a window that is whole.
enum Found {
    Records(Run),
    /// A line that stands in the place of records.
    Compacted {
        missing: Missing,
        start: usize,
        end: usize,
    },
}

/// Records with contiguous numbers, by their places in a window.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    first: Seq,
    last: Seq,
}

/// The first run of records that begins at `wanted` or above, below `numbers_end`, or the line in their place; else the length
/// of the whole lines.
///
/// One record alone, before one whose number is not higher, has a wrong number and is passed over as if it were no record.
fn run_of_records(window: &[u8], wanted: Seq, numbers_end: Seq) -> Result<Found, usize> {
    let mut parser = Parser::default();
    let mut run: Option<Run> = None;
    let mut start = 0;
    while let Some(length) = memchr(b'\n', &window[start..]) {
        let end = start + length + 1;
        let record = parser.parse(&window[start..end - 1]);
        let gap = compacted_of(&window[start..end - 1])
            .filter(|gap| gap.last_seq >= wanted && gap.last_seq < numbers_end);
        if let (None, Some(missing)) = (run, gap) {
            return Ok(Found::Compacted { missing, start, end });
        }
        let seq = record.map(|record| record.seq).filter(|seq| *seq < numbers_end);
        match (&mut run, seq) {
            (Some(run), Some(seq)) if seq == run.last.next() => {
                run.end = end;
                run.last = seq;
            }
            (Some(found), seq) => {
                let is_alone = found.first == found.last;
                if !(is_alone && seq.is_some_and(|seq| seq <= found.first)) {
                    return Ok(Found::Records(*found));
                }
                run = None;
                // This line may be where it goes on.
                continue;
            }
            (None, Some(seq)) if seq >= wanted => {
                run = Some(Run {
                    start,
                    end,
                    first: seq,
                    last: seq,
                });
            }
            (None, _) => {}
        }
        start = end;
    }
    match run {
        // The line behind the window may say that its number is wrong; it is looked at together with it.
        Some(found)
            if found.first == found.last && found.start > 0 && is_contradicted(window, found, start) =>
        {
            Err(found.end)
        }
        Some(found) => Ok(Found::Records(found)),
        None => Err(start),
    }
}

/// Whether the line that begins behind the last whole one, as far as it can be seen, has a number that is not higher.
fn is_contradicted(window: &[u8], found: Run, whole: usize) -> bool {
    seq_of(&window[whole..]).is_some_and(|seq| seq <= found.first)
}
