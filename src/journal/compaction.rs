//! Owns the change of sealed segments: one is written again without some of its records, or goes. A kill at any point leaves a
//! journal that is read as before or as after.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{
    chunk::Missing,
    lock::FolderLock,
    position::{Head, Position},
    reader::{ReadError, Reader},
    record::{Parser, encode_compacted},
    removed::{compacted, name_removed, name_seen},
    segment::{self, Depth, to_usize},
    writer::owned_file,
};
use crate::domain::{Seq, Timestamp};

/// How much of a segment is read at a time.
const READ_BYTES: usize = 1 << 20;
/// The end of the name of a segment that is being written again. Readers pass over it.
const DRAFT: &str = "compact";

/// A segment that gets no more records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its first record.
    pub first: Seq,
    /// Its last record.
    pub last: Seq,
    /// Its size.
    pub bytes: u64,
    /// When its last record was written.
    pub newest: Timestamp,
}

impl Sealed {
    const fn end(&self) -> Head {
        Head {
            seq: self.last,
            segment: self.first,
            offset: self.bytes,
        }
    }
}

/// A segment as it is to be, in a file of its own that is durable. Dropped, it goes.
#[derive(Debug)]
pub struct Compacted {
    segment: Sealed,
    /// The file that was read.
    of: (u64, u64, u64),
    draft: PathBuf,
    /// Its size.
    bytes: u64,
}

impl Compacted {
    /// The bytes that it saves.
    pub fn saves(&self) -> u64 {
        self.segment.bytes.saturating_sub(self.bytes)
    }
}

impl Drop for Compacted {
    fn drop(&mut self) {
        // It is gone where it took its place. One that stays is overwritten by the next.
        let _ = fs::remove_file(&self.draft);
    }
}

/// Reads sealed segments, and writes them again. Calls do blocking file IO.
#[derive(Debug)]
pub struct Compactor {
    reader: Reader,
}

impl Compactor {
    /// A compactor of the journal in `dir`.
    ///
    /// # Errors
    /// There is none.
    pub fn open(dir: &Path) -> Result<Self, ReadError> {
        Ok(Self {
            reader: Reader::open(dir)?,
        })
    }

    /// The last record of the segments that need no look for what a compaction takes out.
    pub fn compacted(&self) -> Seq {
        compacted(self.reader.dir())
    }

    /// The sealed segments with nothing but records before `before`, oldest first, up to the first that is damaged at its end or
    /// does not go on where the one before it ends.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn sealed(&self, before: Seq) -> Result<Vec<Sealed>, ReadError> {
        let segments = self.reader.segments()?;
        let mut sealed = Vec::new();
        for pair in segments.windows(2) {
            let &[first, next] = pair else { break };
            if next > before {
                break;
            }
            let Some(segment) = self.seal_of(first)? else {
                break;
            };
            if segment.last.next() != next {
                break;
            }
            sealed.push(segment);
        }
        Ok(sealed)
    }

    /// The size of all segments.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn bytes(&self) -> Result<u64, ReadError> {
        let mut bytes = 0;
        for first in self.reader.segments()? {
            match segment::path(self.reader.dir(), first).metadata() {
                Ok(found) => bytes += found.len(),
                // It went meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.reader.io(first)(error)),
            }
        }
        Ok(bytes)
    }

    /// A segment by its last record.
    fn seal_of(&self, first: Seq) -> Result<Option<Sealed>, ReadError> {
        let file = self.reader.segment(first)?;
        let io = || self.reader.io(first);
        let bytes = file.metadata().map_err(io())?.len();
        let tail = segment::tail(&file, Depth::Number).map_err(io())?;
        let Some(last) = tail.last.filter(|_| tail.end == bytes && bytes > 0) else {
            return Ok(None);
        };
        let start = segment::line_before(&file, tail.end - 1).map_err(io())?;
        let mut line = vec![0; to_usize(tail.end - 1 - start)];
        let read = segment::read_up_to(&file, &mut line, start).map_err(io())?;
        line.truncate(read);
        let newest = Parser::default().parse(&line).map(|record| record.at);
        Ok(newest.map(|newest| Sealed {
            first,
            last,
            bytes,
            newest,
        }))
    }

    /// Reads the records of a sealed segment, piece by piece; says whether nothing of it is damaged.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn each_of(
        &self,
        sealed: &Sealed,
        mut each: impl FnMut(&super::RecordRef<'_>),
    ) -> Result<bool, ReadError> {
        self.walk(sealed, |_, records| {
            records.iter().for_each(&mut each);
            Ok(())
        })
    }

    /// Writes a sealed segment again without these records, save its first and its last, by which it is found. Nothing in the
    /// folder changes but for a file that readers pass over. `None` when nothing is saved, or it is damaged.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn compact(&self, sealed: &Sealed, without: &HashSet<Seq>) -> Result<Option<Compacted>, ReadError> {
        let path = segment::path(self.reader.dir(), sealed.first);
        let of = id_of(&path.metadata().map_err(self.reader.io(sealed.first))?);
        let draft = path.with_extension(DRAFT);
        let failed = |source| ReadError::Io {
            path: draft.clone(),
            source,
        };
        let mut options = owned_file();
        let file = crate::files::open_own(&draft, options.create(true).truncate(true)).map_err(failed)?;
        let mut again = Compacted {
            segment: *sealed,
            of,
            draft: draft.clone(),
            bytes: 0,
        };
        let mut out = BufWriter::with_capacity(READ_BYTES, file);
        let mut gap: Option<Missing> = None;
        let is_whole = self.walk(sealed, |missing, records| {
            let mut text = Vec::new();
            let extend = |gap: &mut Option<Missing>, first: Seq, last: Seq| {
                let first = gap.map_or(first, |gap| gap.first_seq);
                *gap = Some(Missing::compacted(first, last));
            };
            if let Some(missing) = missing {
                extend(&mut gap, missing.first_seq, missing.last_seq);
            }
            for record in records {
                let is_end = record.seq == sealed.first || record.seq == sealed.last;
                if without.contains(&record.seq) && !is_end {
                    extend(&mut gap, record.seq, record.seq);
                    continue;
                }
                if let Some(gap) = gap.take() {
                    encode_compacted(&mut text, gap.first_seq, gap.last_seq);
                }
                text.extend_from_slice(record.line);
                text.push(b'\n');
            }
            out.write_all(&text).map_err(failed)
        })?;
        let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        again.bytes = file.metadata().map_err(failed)?.len();
        Ok((is_whole && again.bytes < sealed.bytes).then_some(again))
    }

    /// Calls `each` with the records of a sealed segment and the numbers that were taken out before them.
    fn walk(
        &self,
        sealed: &Sealed,
        mut each: impl FnMut(Option<Missing>, &[super::RecordRef<'_>]) -> Result<(), ReadError>,
    ) -> Result<bool, ReadError> {
        let mut at = Position {
            segment: sealed.first,
            offset: 0,
        };
        let mut next = sealed.first;
        while at.offset < sealed.bytes {
            let chunk = match self.reader.read(at, sealed.end(), READ_BYTES) {
                Ok(chunk) if chunk.start() == next && chunk.end.offset > at.offset => chunk,
                Ok(_)
                | Err(ReadError::Gap { .. } | ReadError::Foreign { .. } | ReadError::Truncated { .. }) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            };
            let records: Vec<_> = chunk.records().collect();
            each(chunk.missing, &records)?;
            (at, next) = (chunk.end, chunk.last.next());
        }
        Ok(next == sealed.last.next())
    }
}

impl FolderLock {
    /// Puts a compacted segment in the place of the one that it was made of; `false` when that is another one by now. The old one
    /// goes with the last reader that has it open.
    ///
    /// # Errors
    /// Those of the file system; the old one is in its place then.
    pub fn replace(&self, compacted: Compacted) -> Result<bool, ReadError> {
        let path = segment::path(&self.dir, compacted.segment.first);
        let failed = |source| ReadError::Io {
            path: path.clone(),
            source,
        };
        match path.metadata() {
            Ok(found) if id_of(&found) == compacted.of => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
        fs::rename(&compacted.draft, &path).map_err(failed)?;
        self.sync().map_err(failed)?;
        Ok(true)
    }

    /// Removes the oldest segments up to the one whose last record is `last`, after their range has its name. The caller has kept
    /// what must not go with them.
    ///
    /// # Errors
    /// Those of the file system; what was named and is there still goes the next time.
    pub fn remove(&self, sealed: &[Sealed]) -> Result<(), ReadError> {
        let Some(last) = sealed.last() else {
            return Ok(());
        };
        name_removed(&self.dir, last.last)?;
        // The oldest goes first: what is left has no hole.
        for segment in sealed {
            let path = segment::path(&self.dir, segment.first);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(ReadError::Io { path, source: error });
                }
                _ => {}
            }
        }
        self.sync().map_err(|source| ReadError::Io {
            path: self.dir.clone(),
            source,
        })
    }

    /// Says that the segments up to this record need no look for what a compaction takes out.
    ///
    /// # Errors
    /// Those of the file system: they are looked at again then.
    pub fn mark_compacted(&self, last: Seq) -> Result<(), ReadError> {
        name_seen(&self.dir, last)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

fn id_of(found: &fs::Metadata) -> (u64, u64, u64) {
    (found.dev(), found.ino(), found.len())
}
