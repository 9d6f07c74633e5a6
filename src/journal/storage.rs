//! Owns what the writer needs of a segment's file, so that a test can put a full disk in its place.

use std::{fmt, fs::File, io, os::unix::fs::FileExt, path::Path};

use crate::files;

/// The room that the disk of a journal's folder has left; `None` when that is not known.
pub fn free_bytes(dir: &Path) -> Option<u64> {
    files::free_bytes(dir)
}

/// An open segment.
pub(super) trait Storage: fmt::Debug + Send {
    /// One `pwrite(2)`; it may take fewer bytes than it is given.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// `ftruncate(2)`.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// `fdatasync(2)`.
    fn sync_data(&self) -> io::Result<()>;
}

impl Storage for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        Self::set_len(self, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        Self::sync_data(self)
    }
}
