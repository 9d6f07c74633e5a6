//! Owns the files of a journal folder: their names, their list, and the search for record boundaries inside one.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use memchr::{memchr, memrchr};

use super::record::{Parser, SEQ_PREFIX_BYTES, SPAN_PREFIX_BYTES, seq_of, span_of};
use crate::{domain::Seq, json};

const EXTENSION: &str = ".ndjson";
const NAME_DIGITS: usize = 20;

/// How much of a file is looked at in one piece when a boundary is searched.
const BLOCK_BYTES: usize = 16 * 1024;

/// The file of the segment whose first record is `first`.
pub(super) fn path(dir: &Path, first: Seq) -> PathBuf {
    dir.join(format!("{:020}{EXTENSION}", first.get()))
}

/// The segments of a folder, oldest first. Other files are passed over.
pub(super) fn list(dir: &Path) -> io::Result<Vec<Seq>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(dir)? {
        segments.extend(first_of(&entry?.file_name()));
    }
    segments.sort_unstable();
    Ok(segments)
}

fn first_of(name: &OsStr) -> Option<Seq> {
    let digits = name.to_str()?.strip_suffix(EXTENSION)?;
    let ours = digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = ours.then(|| digits.parse().ok()).flatten()?;
    (number > 0).then_some(Seq::new(number))
}

/// Where the whole records of a segment end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// The last whole record; `None` when there is none.
    pub(super) last: Option<Seq>,
    /// The byte after its 0x0A.
    pub(super) end: u64,
}

/// How closely the last record is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Its number: enough while the machine runs, since an append only ever shows a prefix of itself.
    Number,
    /// Every byte: after a power loss a page in its middle may be empty.
    Whole,
}

/// Finds the last whole record from the end of the file backwards, while the writer may be appending.
pub(super) fn tail(file: &File, depth: Depth) -> io::Result<Tail> {
    let mut limit = file.metadata()?.len();
    while let Some(newline) = last_newline(file, limit)? {
        let start = last_newline(file, newline)?.map_or(0, |before| before + 1);
        let last = match depth {
            Depth::Number => seq_at(file, start)?,
            Depth::Whole => seq_of_valid(file, start, newline)?,
        };
        if last.is_some() {
            return Ok(Tail {
                last,
                end: newline + 1,
            });
        }
        limit = start;
    }
    Ok(Tail { last: None, end: 0 })
}

/// The number of the record in these bytes, every one of which is looked at.
fn seq_of_valid(file: &File, start: u64, newline: u64) -> io::Result<Option<Seq>> {
    let mut line = vec![0; to_usize(newline - start)];
    let read = read_up_to(file, &mut line, start)?;
    line.truncate(read);
    let record = Parser::default().parse(&line);
    Ok(record
        .filter(|_| json::validate::is_json_object(&line))
        .map(|record| record.seq))
}

/// The number of the record that begins at `offset`; `None` when none does.
pub(super) fn seq_at(file: &File, offset: u64) -> io::Result<Option<Seq>> {
    let mut start = [0; SEQ_PREFIX_BYTES];
    let read = read_up_to(file, &mut start, offset)?;
    Ok(seq_of(&start[..read]))
}

/// The numbers that the line tells of that begins at `offset`; `None` when it tells of none.
pub(super) fn span_at(file: &File, offset: u64) -> io::Result<Option<(Seq, Seq)>> {
    let mut start = [0; SPAN_PREFIX_BYTES];
    let read = read_up_to(file, &mut start, offset)?;
    Ok(span_of(&start[..read]))
}

/// Where the line begins whose 0x0A is at `newline`.
pub(super) fn line_before(file: &File, newline: u64) -> io::Result<u64> {
    Ok(last_newline(file, newline)?.map_or(0, |before| before + 1))
}

/// The last 0x0A before `limit`.
fn last_newline(file: &File, limit: u64) -> io::Result<Option<u64>> {
    let mut block = [0; BLOCK_BYTES];
    let mut end = limit;
    while end > 0 {
        let start = end.saturating_sub(BLOCK_BYTES as u64);
        let wanted = to_usize(end - start);
        let read = read_up_to(file, &mut block[..wanted], start)?;
        if let Some(index) = memrchr(b'\n', &block[..read]) {
            return Ok(Some(start + index as u64));
        }
        end = start;
    }
    Ok(None)
}

/// The first 0x0A at or after `from` and before `limit`.
pub(super) fn next_newline(file: &File, from: u64, limit: u64) -> io::Result<Option<u64>> {
    let mut block = [0; BLOCK_BYTES];
    let mut start = from;
    while start < limit {
        let wanted = to_usize((limit - start).min(BLOCK_BYTES as u64));
        let read = read_up_to(file, &mut block[..wanted], start)?;
        if let Some(index) = memchr(b'\n', &block[..read]) {
            return Ok(Some(start + index as u64));
        }
        if read == 0 {
            return Ok(None);
        }
        start += read as u64;
    }
    Ok(None)
}

/// The result of the search for a record in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It begins at this byte.
    At(u64),
    /// Another record begins at this byte than belongs there.
    Foreign(u64),
}

/// Finds the record `wanted`, or the line in its place, by bisection among the whole records in `0..end`, of which the first
/// one is `first`. They hold it unless a line is foreign.
pub(super) fn find(file: &File, first: Seq, end: u64, wanted: Seq) -> io::Result<Found> {
    if seq_at(file, 0)? != Some(first) {
        return Ok(Found::Foreign(0));
    }
    if wanted == first {
        return Ok(Found::At(0));
    }
    // INVARIANT: a record before `wanted` begins at `low`; `wanted` begins after `low` and before `high`.
    let (mut low, mut high) = (0, end);
    loop {
        let middle = low + (high - low) / 2;
        if middle == low {
            let is_there = span_at(file, low)?.is_some_and(|(first, last)| (first..=last).contains(&wanted));
            return Ok(match is_there {
                true => Found::At(low),
                false => Found::Foreign(low),
            });
        }
        // The first record that begins at or after the middle.
        let start = match next_newline(file, middle - 1, high)? {
            Some(newline) if newline + 1 < high => newline + 1,
            _ => {
                high = middle;
                continue;
            }
        };
        match seq_at(file, start)? {
            None => return Ok(Found::Foreign(start)),
            Some(seq) if seq == wanted => return Ok(Found::At(start)),
            Some(seq) if seq < wanted => low = start,
            Some(_) => high = middle,
        }
    }
}

/// Reads at `offset` until the buffer is full or the file ends; gives the bytes read.
pub(super) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A count of what is held in memory.
pub(super) fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segment_names_are_segments() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "lock",
            "00000000000000000007.ndjson",
            "00000000000000000100.ndjson",
            "00000000000000000000.ndjson",
            "7.ndjson",
            "0000000000000000000x.ndjson",
            "+0000000000000000007.ndjson",
            "99999999999999999999.ndjson",
            "00000000000000000008.ndjson.tmp",
        ] {
            fs::write(dir.path().join(name), b"").unwrap();
        }
        assert_eq!(list(dir.path()).unwrap(), [Seq::new(7), Seq::new(100)]);
        assert_eq!(
            path(dir.path(), Seq::new(7)).file_name().unwrap(),
            "00000000000000000007.ndjson"
        );
    }
}
