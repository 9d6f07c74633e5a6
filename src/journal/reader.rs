//! Owns reading a journal from its files while the writer, in this process or another, may be appending.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use memchr::memchr;

use super::{
    chunk::{Chunk, Missing, MissingReason, whole_records},
    position::{Head, Position},
    record::{Parser, compacted_of},
    removed::removed,
    segment::{self, Depth, Found, to_usize},
};
use crate::{
    domain::{ErrorCode, Seq},
    files,
};

/// Why records cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no journal.
    #[error("no journal in {}", dir.display())]
    NotFound {
        /// The folder that was looked for.
        dir: PathBuf,
    },
    /// The number is not given yet.
    #[error("the journal ends at record {}", head.seq)]
    Beyond {
        /// The head when it was asked.
        head: Head,
    },
    /// The record after the number is kept no more.
    #[error("the oldest record kept is {oldest}")]
    Compacted {
        /// The oldest record that is kept.
        oldest: Seq,
    },
    /// Records are missing between two that are there.
    #[error("record {expected} is missing, record {found} follows")]
    Gap {
        /// The first missing record.
        expected: Seq,
        /// The record in its place.
        found: Seq,
    },
    /// A record that was to be read again is not there any more.
    #[error("record {seq} is not there any more")]
    Absent {
        /// Its number.
        seq: Seq,
    },
    /// A segment that records were expected in is missing.
    #[error("journal segment {segment} is missing")]
    MissingSegment {
        /// Its first record.
        segment: Seq,
    },
    /// A line is not a record, or not the one that its segment's name says.
    #[error("no record begins at byte {offset} of journal segment {segment}")]
    Foreign {
        /// The segment.
        segment: Seq,
        /// Where the line begins.
        offset: u64,
    },
    /// A segment is shorter than the head that was read up to.
    #[error("journal segment {segment} ends at byte {bytes}, before its head")]
    Truncated {
        /// The segment.
        segment: Seq,
        /// Its size.
        bytes: u64,
    },
    /// The file system refused.
    #[error("journal file {} could not be read", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl ReadError {
    /// The code of the fault.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Beyond { .. } => ErrorCode::SeqBeyondHead,
            Self::Compacted { .. } => ErrorCode::RecordsCompacted,
            _ => ErrorCode::StorageFailed,
        }
    }
}

/// Reads a journal. Calls do blocking file IO.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    /// The segment read last, kept open: a tail reads the same one again and again.
    open: Mutex<Option<(Seq, Arc<File>)>>,
}

impl Reader {
    /// A reader of the journal in `dir`, which must be a folder; that it has no segment yet is fine.
    pub fn open(dir: &Path) -> Result<Self, ReadError> {
        match dir.metadata() {
            Ok(metadata) if metadata.is_dir() => Ok(Self::new(dir)),
            Ok(_) => Err(ReadError::NotFound { dir: dir.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ReadError::NotFound { dir: dir.to_owned() })
            }
            Err(source) => Err(ReadError::Io {
                path: dir.to_owned(),
                source,
            }),
        }
    }

    /// As [`Self::open`] without a look at the folder.
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            open: Mutex::new(None),
        }
    }

    /// The journal's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The place after the last whole record that is in the files now.
    pub fn head(&self) -> Result<Head, ReadError> {
        match self.segments()?.last() {
            Some(&last) => self.head_in(last),
            None => Ok(Head::EMPTY),
        }
    }

    /// The oldest record that is kept, or will be the first; 1 unless older segments were removed.
    pub fn oldest(&self) -> Result<Seq, ReadError> {
        let segments = self.segments()?;
        Ok(segments.first().copied().unwrap_or(Head::EMPTY.segment))
    }

    /// The last record that was removed for its age or size; 0 when none was.
    pub fn removed(&self) -> Seq {
        removed(&self.dir)
    }

    /// The records from `first` to the one before `oldest`, which is the oldest that is kept.
    pub fn not_kept(&self, first: Seq, oldest: Seq) -> Missing {
        let last_seq = Seq::new(oldest.get().saturating_sub(1));
        let reason = match self.removed() >= last_seq {
            true => MissingReason::Removed,
            false => MissingReason::Lost,
        };
        Missing {
            first_seq: first,
            last_seq,
            reason,
        }
    }

    /// Where the record after `seq` begins, or will begin when `seq` is the last one.
    pub fn position_after(&self, seq: Seq) -> Result<Position, ReadError> {
        let segments = self.segments()?;
        let wanted = seq.next();
        let Some(&oldest) = segments.first() else {
            return match seq {
                Seq::ZERO => Ok(Position::START),
                _ => Err(ReadError::Beyond { head: Head::EMPTY }),
            };
        };
        let after = segments.partition_point(|&first| first <= wanted);
        let Some(&first) = segments[..after].last() else {
            return Err(ReadError::Compacted { oldest });
        };
        let head = self.head_in(first)?;
        if wanted <= head.seq {
            self.find(first, head.offset, wanted)
        } else if wanted == head.seq.next() {
            Ok(head.position())
        } else {
            Err(match segments.get(after) {
                Some(&found) => ReadError::Gap {
                    expected: head.seq.next(),
                    found,
                },
                None => ReadError::Beyond { head },
            })
        }
    }

    /// Reads whole records of one segment: as many as `max_bytes` hold, but at least one if there is one before `until`.
    ///
    /// `from` is where a record begins, and `until` a head that the writer or [`Self::head`] gave. The chunk is empty when
    /// `from` is not before `until`.
    pub fn read(&self, from: Position, until: Head, max_bytes: usize) -> Result<Chunk, ReadError> {
        let mut at = from;
        while at.segment < until.segment {
            let file = self.segment(at.segment)?;
            let bytes = file.metadata().map_err(self.io(at.segment))?.len();
            if at.offset < bytes {
                return self.read_records(&file, at, bytes, max_bytes);
            }
            at = self.start_of_next(at.segment)?;
        }
        if at.segment > until.segment || at.offset >= until.offset {
            return Ok(Chunk::empty(until.seq, at));
        }
        let file = self.segment(at.segment)?;
        self.read_records(&file, at, until.offset, max_bytes)
    }

    /// Reads records between `at` and `limit`, which are both at a boundary.
    fn read_records(
        &self,
        file: &File,
        at: Position,
        limit: u64,
        max_bytes: usize,
    ) -> Result<Chunk, ReadError> {
        let foreign = |offset| ReadError::Foreign {
            segment: at.segment,
            offset,
        };
        let available = limit - at.offset;
        let mut bytes = Vec::new();
        self.extend(file, at, &mut bytes, to_usize(available).min(max_bytes))?;
        let whole = match whole_records(&bytes, max_bytes) {
            Some(whole) => whole,
            None => {
                // The first record alone is larger: its end is looked for first, so that no more than it is held.
                let searched = at.offset + bytes.len() as u64;
                let newline = segment::next_newline(file, searched, limit).map_err(self.io(at.segment))?;
                let Some(newline) = newline else {
                    return Err(self
                        .cut_short(file, at, limit)
                        .unwrap_or_else(|| foreign(at.offset)));
                };
                let whole = to_usize(newline + 1 - at.offset);
                self.extend(file, at, &mut bytes, whole)?;
                whole
            }
        };
        bytes.truncate(whole);

        let run = check(&bytes, at)?;
        let end = Position {
            segment: at.segment,
            offset: at.offset + run.end as u64,
        };
        let Some((first, last)) = run.records else {
            // A line alone that stands in the place of records.
            return run
                .missing
                .map(|missing| Chunk::lost(missing, end))
                .ok_or(foreign(at.offset));
        };
        Ok(Chunk {
            missing: run.missing,
            bytes: Bytes::from(bytes).slice(run.start..run.end),
            first,
            last,
            end,
        })
    }

    /// Reads from `at` on until `bytes` has `length` bytes.
    fn extend(&self, file: &File, at: Position, bytes: &mut Vec<u8>, length: usize) -> Result<(), ReadError> {
        let filled = bytes.len();
        bytes.reserve_exact(length - filled);
        bytes.resize(length, 0);
        let offset = at.offset + filled as u64;
        let read = segment::read_up_to(file, &mut bytes[filled..], offset).map_err(self.io(at.segment))?;
        if filled + read < length {
            return Err(ReadError::Truncated {
                segment: at.segment,
                bytes: offset + read as u64,
            });
        }
        Ok(())
    }

    /// Is the file shorter than `limit`?
    fn cut_short(&self, file: &File, at: Position, limit: u64) -> Option<ReadError> {
        let bytes = file.metadata().ok()?.len();
        (bytes < limit).then_some(ReadError::Truncated {
            segment: at.segment,
            bytes,
        })
    }

    fn find(&self, first: Seq, end: u64, wanted: Seq) -> Result<Position, ReadError> {
        let file = self.segment(first)?;
        let offset = match segment::find(&file, first, end, wanted).map_err(self.io(first))? {
            Found::At(offset) => offset,
            Found::Foreign(offset) => {
                return Err(ReadError::Foreign {
                    segment: first,
                    offset,
                });
            }
        };
        Ok(Position {
            segment: first,
            offset,
        })
    }

    /// The last whole record of one segment and its end.
    fn head_in(&self, first: Seq) -> Result<Head, ReadError> {
        let file = self.segment(first)?;
        let tail = segment::tail(&file, Depth::Number).map_err(self.io(first))?;
        Ok(Head {
            seq: tail.last.unwrap_or(Seq::new(first.get() - 1)),
            segment: first,
            offset: tail.end,
        })
    }

    /// The start of the segment after a sealed one, which must go on where that one ends.
    fn start_of_next(&self, sealed: Seq) -> Result<Position, ReadError> {
        let expected = self.head_in(sealed)?.seq.next();
        let segments = self.segments()?;
        match segments.iter().find(|&&first| first > sealed) {
            Some(&found) if found == expected => Ok(Position {
                segment: found,
                offset: 0,
            }),
            Some(&found) => Err(ReadError::Gap { expected, found }),
            None => Err(ReadError::MissingSegment { segment: expected }),
        }
    }

    pub(super) fn segments(&self) -> Result<Vec<Seq>, ReadError> {
        segment::list(&self.dir).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ReadError::NotFound {
                dir: self.dir.clone(),
            },
            _ => ReadError::Io {
                path: self.dir.clone(),
                source,
            },
        })
    }

    pub(super) fn segment(&self, first: Seq) -> Result<Arc<File>, ReadError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((segment, file)) = &*open
            && *segment == first
        {
            return Ok(Arc::clone(file));
        }
        let file = match files::open(&segment::path(&self.dir, first), File::options().read(true)) {
            Ok(file) => Arc::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(match self.segments()?.first() {
                    Some(&oldest) if oldest > first => ReadError::Compacted { oldest },
                    _ => ReadError::MissingSegment { segment: first },
                });
            }
            Err(error) => return Err(self.io(first)(error)),
        };
        *open = Some((first, Arc::clone(&file)));
        Ok(file)
    }

    pub(super) fn io(&self, segment: Seq) -> impl FnOnce(io::Error) -> ReadError {
        let path = segment::path(&self.dir, segment);
        move |source| ReadError::Io { path, source }
    }
}

/// The records at the start of some bytes, by their places, up to the next line that stands in the place of others.
struct Run {
    /// The numbers in whose place the first line stands.
    missing: Option<Missing>,
    start: usize,
    end: usize,
    /// The first and the last one.
    records: Option<(Seq, Seq)>,
}

/// Parses the records that begin at `at`: they are ours, and their numbers have no gap.
fn check(bytes: &[u8], at: Position) -> Result<Run, ReadError> {
    let mut parser = Parser::default();
    let mut run = Run {
        missing: None,
        start: 0,
        end: 0,
        records: None,
    };
    while let Some(newline) = memchr(b'\n', &bytes[run.end..]) {
        let line = &bytes[run.end..run.end + newline];
        let offset = at.offset + run.end as u64;
        let foreign = ReadError::Foreign {
            segment: at.segment,
            offset,
        };
        let known = run.records.map(|(_, last)| last);
        let expected = known
            .or(run.missing.map(|missing| missing.last_seq))
            .map(Seq::next);
        let Some(record) = parser.parse(line) else {
            let Some(missing) = compacted_of(line) else {
                return Err(foreign);
            };
            if expected.is_some() {
                // It is the news of the next read.
                break;
            }
            run.missing = Some(missing);
            run.end += newline + 1;
            run.start = run.end;
            continue;
        };
        match expected {
            Some(expected) if expected != record.seq => {
                return Err(ReadError::Gap {
                    expected,
                    found: record.seq,
                });
            }
            None if offset == 0 && record.seq != at.segment => return Err(foreign),
            _ => {}
        }
        let first = run.records.map_or(record.seq, |(first, _)| first);
        run.records = Some((first, record.seq));
        run.end += newline + 1;
    }
    Ok(run)
}
