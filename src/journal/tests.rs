//! Tests of the journal as a whole: writer, reader and feed over real files.

mod backwards;
mod compaction;
mod crash;
mod damage;
mod feed;
mod full_disk;
mod live;
mod reader;
mod writer;

use std::path::Path;

use super::{Chunk, Head, Position, Reader, Source, Writer, WriterOptions};
use crate::domain::{Seq, Timestamp};

const AT: Timestamp = Timestamp::from_micros(1_767_323_045_678_901);

/// A JSON string of `bytes` bytes that is told apart by `mark`.
fn data(mark: u64, bytes: usize) -> Vec<u8> {
    let digits = mark.to_string();
    let padding = bytes.saturating_sub(digits.len() + 2);
    ["\"", &"0".repeat(padding), &digits, "\""].concat().into_bytes()
}

fn open(dir: &Path, segment_bytes: u64) -> Writer {
    let options = WriterOptions {
        segment_bytes,
        ..WriterOptions::default()
    };
    Writer::open(dir, options).unwrap().0
}

/// Pushes a record whose data tells its number.
fn push(writer: &mut Writer, bytes: usize) -> Seq {
    let next = writer.head().seq.get() + pending_records(writer) + 1;
    let seq = writer.push(AT, Source::Cli, None, &data(next, bytes)).unwrap();
    assert_eq!(seq.get(), next);
    seq
}

fn pending_records(writer: &Writer) -> u64 {
    memchr::memchr_iter(b'\n', writer.pending()).count() as u64
}

/// Writes records of these sizes, each as a batch of its own.
fn append(writer: &mut Writer, sizes: &[usize]) -> Head {
    for &bytes in sizes {
        push(writer, bytes);
        writer.commit().unwrap();
    }
    writer.head()
}

/// Every record from `from` to the head, in chunks of `max_bytes`.
fn read_all(dir: &Path, from: Position, max_bytes: usize) -> Vec<Chunk> {
    let reader = Reader::open(dir).unwrap();
    let head = reader.head().unwrap();
    let mut chunks = Vec::new();
    let mut at = from;
    while at != head.position() {
        let chunk = reader.read(at, head, max_bytes).unwrap();
        assert!(!chunk.is_empty());
        at = chunk.end;
        chunks.push(chunk);
    }
    chunks
}

fn numbers(chunks: &[Chunk]) -> Vec<u64> {
    let records = chunks.iter().flat_map(Chunk::records);
    records.map(|record| record.seq.get()).collect()
}

/// Are these the records after `after` up to the head, once each, in order?
fn assert_contiguous(chunks: &[Chunk], after: Seq, head: Seq) {
    let expected: Vec<_> = (after.get() + 1..=head.get()).collect();
    assert_eq!(numbers(chunks), expected);
}

/// The segments of a folder by the number in their names.
fn segments(dir: &Path) -> Vec<u64> {
    let segments = super::segment::list(dir).unwrap();
    segments.into_iter().map(Seq::get).collect()
}

/// The file of the segment whose first record is `first`.
fn segment(dir: &Path, first: u64) -> std::path::PathBuf {
    dir.join(format!("{first:020}.ndjson"))
}
