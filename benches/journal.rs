//! Measures how fast a journal is written, beside plain writes of the same bytes to the same disk in the same run.
//!
//! `cargo bench --bench journal`
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints figures or stops"
)]

use std::{
    fs::File,
    io::Write as _,
    time::{Duration, Instant},
};

use trunkline::{
    domain::Clock,
    journal::{Source, Writer, WriterOptions},
    json,
    ndjson::{Decoder, Item},
};

/// Records of one round.
const RECORDS: usize = 1_000_000;
/// Bytes of one line of the process, its newline included.
const LINE_BYTES: usize = 300;
/// Bytes of one read from a pipe, and so of one batch.
const BATCH_BYTES: usize = 256 << 10;
/// Rounds; the best of each kind counts, as the machine has other work.
const ROUNDS: usize = 5;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let input = input();
    let mut plain = Duration::MAX;
    let mut journal = Duration::MAX;
    let mut bytes = 0;
    for round in 0..ROUNDS {
        let dir = folder.path().join(round.to_string());
        let begun = Instant::now();
        bytes = write_journal(&dir, &input);
        journal = journal.min(begun.elapsed());
        std::fs::remove_dir_all(&dir).unwrap();

        let path = folder.path().join("plain");
        let begun = Instant::now();
        write_plain(&path, bytes);
        plain = plain.min(begun.elapsed());
        std::fs::remove_file(&path).unwrap();
    }
    let rate = |taken: Duration| {
        let seconds = taken.as_secs_f64();
        let records = f64::from(u32::try_from(RECORDS).unwrap()) / seconds / 1e3;
        let megabytes = f64::from(u32::try_from(bytes).unwrap()) / seconds / 1e6;
        format!("{records:6.0} thousand records/s, {megabytes:6.0} MB/s")
    };
    println!("{RECORDS} records of lines of {LINE_BYTES} bytes, best of {ROUNDS}");
    println!("  plain writes of the same bytes   {}", rate(plain));
    println!("  framed, checked and journaled    {}", rate(journal));
    println!("  ratio {:.2}", plain.as_secs_f64() / journal.as_secs_f64());
}

/// The output of a process: lines of one JSON object each.
fn input() -> Vec<u8> {
    let head = r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"text":""#;
    let tail = "\"}}}\n";
    let line = format!("{head}{}{tail}", "x".repeat(LINE_BYTES - head.len() - tail.len()));
    line.repeat(RECORDS).into_bytes()
}

/// Does what a keeper does with each read; gives the size of the journal.
fn write_journal(dir: &std::path::Path, input: &[u8]) -> usize {
    let (mut writer, _) = Writer::open(dir, WriterOptions::default()).unwrap();
    let mut decoder = Decoder::new(64 << 20);
    for read in input.chunks(BATCH_BYTES) {
        let now = Clock.now();
        decoder.feed(read, |item| {
            if let Item::Line(line) = item
                && json::validate::is_object(line)
            {
                writer.push(now, Source::Cli, None, line.as_bytes()).unwrap();
            }
        });
        writer.commit().unwrap();
    }
    let segments = std::fs::read_dir(dir).unwrap();
    let sizes = segments.map(|entry| entry.unwrap().metadata().unwrap().len());
    usize::try_from(sizes.sum::<u64>()).unwrap()
}

fn write_plain(path: &std::path::Path, bytes: usize) {
    let batch = vec![b'x'; BATCH_BYTES];
    let mut file = File::create(path).unwrap();
    let mut left = bytes;
    while left > 0 {
        let size = left.min(BATCH_BYTES);
        file.write_all(&batch[..size]).unwrap();
        left -= size;
    }
}
