//! Owns the process's stdout: from the pipe to records.

use std::{
    io::{self, Read as _},
    os::fd::{AsFd, BorrowedFd},
    process::ChildStdout,
};

use memchr::memmem::Finder;

use super::{plan::KeeperLimits, recorder::Recorder, records};
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
    looked_for: LookedFor,
}

/// The patterns to find in lines.
struct LookedFor {
    sync_after: Vec<Finder<'static>>,
    unrecorded: Vec<Finder<'static>>,
}

impl Stdout {
    pub(super) fn new(pipe: ChildStdout, limits: &KeeperLimits) -> Self {
        let finders = |texts: &[String]| texts.iter().map(|text| Finder::new(text).into_owned()).collect();
        Self {
            pipe: Some(pipe),
            decoder: Decoder::new(limits.max_line_bytes),
            buffer: Vec::new(),
            looked_for: LookedFor {
                sync_after: finders(&limits.sync_after),
                unrecorded: finders(&limits.unrecorded),
            },
        }
    }

    /// The pipe, unless it has ended.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Adds what is in the pipe to the batch, up to a bound. Tells whether there was a line that says something.
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
                    let looked_for = &self.looked_for;
                    let piece = self.buffer.get(..bytes).unwrap_or_default();
                    self.decoder.feed(piece, |item| {
                        records::stdout_item(item, |source, data| {
                            any_line |= record(recorder, looked_for, source, data);
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
        let looked_for = &self.looked_for;
        self.decoder.finish(|item| {
            records::stdout_item(item, |source, data| {
                record(recorder, looked_for, source, data);
            });
        });
        self.trim();
    }

    /// Gives the read buffer back.
    pub(super) fn trim(&mut self) {
        self.buffer = Vec::new();
    }
}

/// Adds a line to the batch; says whether it is recorded.
fn record(recorder: &mut Recorder, looked_for: &LookedFor, source: Source, data: &[u8]) -> bool {
    let is_line = source == Source::Cli;
    // The text may be anywhere in the line: only few are read for their type.
    let is_of = |kind: &Finder<'_>| kind.find(data).is_some() && records::is_of_type(data, kind.needle());
    if is_line && looked_for.unrecorded.iter().any(is_of) {
        return false;
    }
    // A line has no newline and is never empty here, so it is always taken.
    let _ = recorder.push(source, None, data);
    if is_line && looked_for.sync_after.iter().any(|text| text.find(data).is_some()) {
        recorder.sync_soon();
    }
    true
}
