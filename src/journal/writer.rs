//! Owns the one writer of a journal: the lock, the batch, rotation, and the recovery of a torn tail.

use std::{
    fmt::Write as _,
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use memchr::{memchr, memchr_iter, memrchr};

use super::{
    lock,
    position::Head,
    record::{self, Source},
    segment::{self, Depth},
    storage::Storage,
};
use crate::{
    domain::{Seq, Timestamp},
    files, json,
};

/// The batch buffer that is kept between commits; a larger one is given back.
const RETAINED_BYTES: usize = 512 * 1024;

/// How a journal is written.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// A segment of at least this size gets no more batches; the next batch begins a new one.
    pub segment_bytes: u64,
    /// A record up to which numbers were given, as far as the caller knows. A journal that ends before it has lost records: the
    /// next one gets a number above, in a new segment.
    pub floor: Seq,
    /// A newest segment of at least this size is closed at the start, so that it can be compacted; 0 closes none.
    pub close_bytes: u64,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * 1024 * 1024,
            floor: Seq::ZERO,
            close_bytes: 0,
        }
    }
}

/// The findings and repairs of opening the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes after the last whole record that were cut off.
    pub cut_bytes: u64,
    /// The head from which the writer goes on.
    pub head: Head,
}

/// Why a journal cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another writer has it.
    #[error("journal {} has another writer", dir.display())]
    Locked {
        /// The journal's folder.
        dir: PathBuf,
    },
    /// The file system refused.
    #[error("journal file {} could not be opened", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Why a record was refused. The batch is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The data would break its line.
    #[error("record data holds a newline")]
    Newline,
    /// There is no data.
    #[error("record data is empty")]
    Empty,
    /// `by` is longer than 256 bytes, or has a quote, a backslash or a control character.
    #[error("name of the sender cannot stand in a record")]
    By,
}

/// Why a batch is not in the journal yet. It is kept, less the records that [`Writer::head`] covers: commit again later.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The batch could not be written, as on a full disk.
    #[error("journal batch could not be written")]
    Write(#[source] io::Error),
    /// The new segment could not be begun.
    #[error("journal segment {segment} could not be begun")]
    Rotate {
        /// Its first record.
        segment: Seq,
        /// The error of the file system.
        source: io::Error,
    },
}

/// The one writer of a journal. It holds the journal's lock until it is dropped. A record that was pushed and not committed by
/// then is lost.
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    options: WriterOptions,
    /// Held, never read.
    _lock: File,
    file: Box<dyn Storage>,
    /// Which file that is: device and inode.
    file_id: (u64, u64),
    head: Head,
    /// The number of the next record.
    next: Seq,
    batch: Vec<u8>,
    /// The file may be longer than the head says: an append failed and so did the cut.
    torn: bool,
    /// Folders with a new entry that is not durable yet.
    unsynced_dirs: Vec<PathBuf>,
    /// The time of the last record and its text.
    time: Option<Timestamp>,
    time_text: String,
}

impl Writer {
    /// Takes the journal's lock, makes the folder (0700) and the first segment (0600) if there is none, and cuts a torn tail.
    ///
    /// It waits for a compaction of this folder, which holds the lock for moments, and for no other writer.
    pub fn open(dir: &Path, options: WriterOptions) -> Result<(Self, Recovery), OpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Io { path, source }
        };
        let mut unsynced_dirs = Vec::new();
        if !dir.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)
                .map_err(failed(dir))?;
            unsynced_dirs.extend(dir.parent().map(Path::to_owned));
        }

        let lock = lock::take(dir, lock::Patience::OfAWriter)?;

        let last = segment::list(dir).map_err(failed(dir))?.last().copied();
        if last.is_none() {
            unsynced_dirs.push(dir.to_owned());
        }
        let first = last.unwrap_or(Head::EMPTY.segment);
        let path = segment::path(dir, first);
        let file = open_or_make(&path).map_err(failed(&path))?;
        let (mut head, cut_bytes) = recover(&file, first).map_err(failed(&path))?;
        let mut file = file;
        let is_full = options.close_bytes > 0 && head.offset >= options.close_bytes;
        if head.seq < options.floor || is_full {
            let seq = head.seq.max(options.floor);
            let segment = seq.next();
            // A sync of the new segment does not reach the records in the one before.
            file.sync_data().map_err(failed(&path))?;
            let path = segment::path(dir, segment);
            file = open_or_make(&path).map_err(failed(&path))?;
            head = Head {
                seq,
                segment,
                offset: 0,
            };
            unsynced_dirs.push(dir.to_owned());
        }

        let writer = Self {
            dir: dir.to_owned(),
            options,
            _lock: lock,
            file_id: id_of(&file).map_err(failed(&path))?,
            file: Box::new(file),
            head,
            next: head.seq.next(),
            batch: Vec::new(),
            torn: false,
            unsynced_dirs,
            time: None,
            time_text: String::new(),
        };
        Ok((writer, Recovery { cut_bytes, head }))
    }

    /// Adds a record to the batch and gives the number it will have. `data` is one JSON value in UTF-8 on one line.
    ///
    /// Nothing bounds the batch but the caller, who reads no more input while commits fail.
    pub fn push(
        &mut self,
        at: Timestamp,
        source: Source,
        by: Option<&str>,
        data: &[u8],
    ) -> Result<Seq, PushError> {
        if data.is_empty() {
            return Err(PushError::Empty);
        }
        if memchr(b'\n', data).is_some() {
            return Err(PushError::Newline);
        }
        if !by.is_none_or(record::is_plain_by) {
            return Err(PushError::By);
        }
        debug_assert!(json::validate::is_json(data), "record data is not JSON");
        if self.time != Some(at) {
            self.time = Some(at);
            self.time_text.clear();
            // Writing to a String cannot fail.
            let _ = write!(self.time_text, "{at}");
        }
        let seq = self.next;
        record::encode(&mut self.batch, seq, &self.time_text, source, by, data);
        self.next = seq.next();
        Ok(seq)
    }

    /// Writes the batch, in one `pwrite(2)` if the file system takes it whole, and gives the new head.
    ///
    /// After an error the file ends with a whole record and the rest of the batch is kept.
    pub fn commit(&mut self) -> Result<Head, CommitError> {
        if self.batch.is_empty() {
            return Ok(self.head);
        }
        self.replace_lost_segment()?;
        self.mend().map_err(CommitError::Write)?;
        if self.head.offset >= self.options.segment_bytes && self.head.offset > 0 {
            self.rotate()?;
        }
        match self.write_batch() {
            Ok(()) => {
                self.advance(self.batch.len());
                Ok(self.head)
            }
            Err((written, error)) => {
                // Whole records may have been read already, so they stay.
                let whole = memrchr(b'\n', &self.batch[..written]).map_or(0, |newline| newline + 1);
                self.advance(whole);
                self.torn = true;
                // The error to tell is the first one; the cut is tried again by the next commit.
                let _ = self.mend();
                Err(CommitError::Write(error))
            }
        }
    }

    /// Begins a new segment if the newest one was moved away or removed: nobody would find what is written to it. Says whether it
    /// has.
    ///
    /// # Errors
    /// `Rotate`.
    pub fn replace_lost_segment(&mut self) -> Result<bool, CommitError> {
        let place = segment::path(&self.dir, self.head.segment);
        let is_taken = match place.metadata() {
            Ok(found) if (found.dev(), found.ino()) == self.file_id => return Ok(false),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            // It cannot be told.
            Err(_) => return Ok(false),
        };
        // The next segment would have the name of what is there now, or the whole folder is gone: there is nothing better.
        if (is_taken && self.head.offset == 0) || !self.dir.is_dir() {
            return Ok(false);
        }
        // The old file is lost to all, a torn end of it too.
        self.torn = false;
        self.rotate()?;
        Ok(true)
    }

    /// Makes what is committed durable against power loss: `fdatasync(2)`, and the folder's entry for a new file.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        while let Some(dir) = self.unsynced_dirs.last() {
            File::open(dir)?.sync_all()?;
            self.unsynced_dirs.pop();
        }
        Ok(())
    }

    /// The place after the last committed record.
    pub const fn head(&self) -> Head {
        self.head
    }

    /// Bytes that wait for a commit.
    pub const fn pending_bytes(&self) -> usize {
        self.batch.len()
    }

    /// Gives back the memory of an empty batch buffer: for a process that will be idle.
    pub fn release_memory(&mut self) {
        if self.batch.is_empty() {
            self.batch = Vec::new();
        }
    }

    /// Puts another file in the place of the newest segment's.
    #[cfg(test)]
    pub(super) fn replace_file(&mut self, file: Box<dyn Storage>) {
        self.file = file;
    }

    /// The batch as it will be written.
    #[cfg(test)]
    pub(super) fn pending(&self) -> &[u8] {
        &self.batch
    }

    /// The memory that the batch buffer holds.
    #[cfg(test)]
    pub(super) const fn batch_capacity(&self) -> usize {
        self.batch.capacity()
    }

    /// Writes until all of the batch is in the file; else tells how many bytes of it are.
    fn write_batch(&self) -> Result<(), (usize, io::Error)> {
        let mut written = 0;
        while written < self.batch.len() {
            let offset = self.head.offset + written as u64;
            match self.file.write_at(&self.batch[written..], offset) {
                Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((written, error)),
            }
        }
        Ok(())
    }

    /// The first `bytes` of the batch, whole records, are in the file.
    fn advance(&mut self, bytes: usize) {
        self.head.seq = if bytes == self.batch.len() {
            // The usual case needs no count.
            Seq::new(self.next.get() - 1)
        } else {
            let records = memchr_iter(b'\n', &self.batch[..bytes]).count();
            Seq::new(self.head.seq.get() + records as u64)
        };
        self.head.offset += bytes as u64;
        self.batch.drain(..bytes);
        self.batch.shrink_to(RETAINED_BYTES);
    }

    /// Cuts the file back to the head, if an append failed.
    fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.head.offset)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Begins the segment of the batch. The old one is made durable first, since [`Self::sync`] reaches only the newest.
    fn rotate(&mut self) -> Result<(), CommitError> {
        let segment = self.head.seq.next();
        let failed = |source| CommitError::Rotate { segment, source };
        self.file.sync_data().map_err(failed)?;
        let file = owned_file()
            .create_new(true)
            .open(segment::path(&self.dir, segment))
            .map_err(failed)?;
        self.file_id = id_of(&file).map_err(failed)?;
        self.file = Box::new(file);
        self.head.segment = segment;
        self.head.offset = 0;
        if !self.unsynced_dirs.contains(&self.dir) {
            self.unsynced_dirs.push(self.dir.clone());
        }
        Ok(())
    }
}

fn id_of(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

pub(super) fn open_or_make(path: &Path) -> io::Result<File> {
    files::open(path, owned_file().create(true).truncate(false))
}

pub(super) fn owned_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Cuts everything after the last whole record of the newest segment.
fn recover(file: &File, first: Seq) -> io::Result<(Head, u64)> {
    let tail = segment::tail(file, Depth::Whole)?;
    let cut_bytes = file.metadata()?.len() - tail.end;
    if cut_bytes > 0 {
        file.set_len(tail.end)?;
    }
    let before = Seq::new(first.get() - 1);
    let head = Head {
        seq: tail.last.unwrap_or(before),
        segment: first,
        offset: tail.end,
    };
    Ok((head, cut_bytes))
}
