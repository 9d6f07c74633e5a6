//! Owns what the writer needs of a segment's file, so that a test can put a full disk in its place.

use std::{fmt, fs::File, io, os::unix::fs::FileExt};

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
