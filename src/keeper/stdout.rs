//! Owns the process's stdout: from the pipe to records.

use std::{
    io::{self, Read as _},
    os::fd::{AsFd, BorrowedFd},
    process::ChildStdout,
};

use memchr::memmem::Finder;

use super::{recorder::Recorder, records};
use crate::{journal::Source, ndjson::Decoder};

/// One read. A pipe holds as much by default.
const READ_BYTES: usize = 64 << 10;

/// The most that becomes one batch.
const BATCH_BYTES: usize = 256 << 10;

/// The pipe and the unfinished line.
pub(super) struct Stdout {
    pipe: Option<ChildStdout>,
    decoder: Decoder,
    buffer: Vec<u8>,
    sync_after: Vec<Finder<'static>>,
}

impl Stdout {
    pub(super) fn new(pipe: ChildStdout, max_line_bytes: usize, sync_after: &[String]) -> Self {
        Self {
            pipe: Some(pipe),
            decoder: Decoder::new(max_line_bytes),
            buffer: Vec::new(),
            sync_after: sync_after
                .iter()
                .map(|text| Finder::new(text).into_owned())
                .collect(),
        }
    }

    /// The pipe, unless it has ended.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Adds what is in the pipe to the batch, up to a bound. Tells whether there was a line.
    pub(super) fn read(&mut self, recorder: &mut Recorder) -> bool {
        let mut any_line = false;
        let mut total = 0;
        if self.buffer.is_empty() {
            self.buffer = vec![0; READ_BYTES];
        }
        while let Some(pipe) = self.pipe.as_mut().filter(|_| total < BATCH_BYTES) {
            match pipe.read(&mut self.buffer) {
                Ok(0) => {
                    self.end(recorder);
                    return true;
                }
                Ok(bytes) => {
                    let sync_after = &self.sync_after;
                    let piece = self.buffer.get(..bytes).unwrap_or_default();
                    self.decoder.feed(piece, |item| {
                        any_line = true;
                        records::stdout_item(item, |source, data| {
                            record(recorder, sync_after, source, data);
                        });
                    });
                    total += bytes;
                    if bytes < READ_BYTES {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.end(recorder);
                    return true;
                }
            }
        }
        any_line
    }

    /// Stops reading; a last line without newline is a line too.
    pub(super) fn end(&mut self, recorder: &mut Recorder) {
        self.pipe = None;
        let sync_after = &self.sync_after;
        self.decoder.finish(|item| {
            records::stdout_item(item, |source, data| {
                record(recorder, sync_after, source, data);
            });
        });
        self.trim();
    }

    /// Gives the read buffer back.
    pub(super) fn trim(&mut self) {
        self.buffer = Vec::new();
    }
}

fn record(recorder: &mut Recorder, sync_after: &[Finder<'static>], source: Source, data: &[u8]) {
    // A line has no newline and is never empty here, so it is always taken.
    let _ = recorder.push(source, None, data);
    if source == Source::Cli && sync_after.iter().any(|text| text.find(data).is_some()) {
        recorder.sync_soon();
    }
}
