//! Damaged journals: what is whole is read once and in order, what is missing is named, and no number is given twice.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    path::Path,
};

use proptest::prelude::*;

use super::{append, open, push, segment, segments};
use crate::{
    domain::Seq,
    journal::{Feed, Head, Missing, Position, Reader, Writer, WriterOptions},
};

/// The result of reading from `after` on: the records, and the numbers that are said to be missing.
fn read_on(dir: &Path, after: u64, until: Head, max_bytes: usize) -> (Vec<u64>, Vec<u64>) {
    let reader = Reader::open(dir).unwrap();
    let mut seq = Seq::new(after);
    let mut place = reader.place_after(seq).unwrap();
    let (mut records, mut missing) = (Vec::new(), Vec::new());
    while seq < until.seq {
        let chunk = reader.read_after(seq, place, until, max_bytes).unwrap();
        assert!(!chunk.is_empty(), "nothing after {seq}");
        assert_eq!(chunk.start(), seq.next(), "no number is passed over in silence");
        if let Some(gap) = chunk.missing {
            missing.extend(gap.first_seq.get()..=gap.last_seq.get());
        }
        records.extend(chunk.records().map(|record| record.seq.get()));
        assert!(chunk.last > seq, "it goes on");
        (seq, place) = (chunk.last, chunk.end);
    }
    assert!(
        reader
            .read_after(seq, place, until, max_bytes)
            .unwrap()
            .is_empty()
    );
    (records, missing)
}

/// A journal of so many records in segments of about so many bytes.
fn journal(records: usize, segment_bytes: u64) -> (tempfile::TempDir, Head) {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), segment_bytes);
    for _ in 0..records {
        append(&mut writer, &[40]);
    }
    let head = writer.head();
    (dir, head)
}

/// Replaces one line of a segment.
fn spoil(path: &Path, line: usize, with: &str) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines[line] = with.to_owned();
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

fn numbers(from: u64, to: u64) -> Vec<u64> {
    (from..=to).collect()
}

fn without(all: Vec<u64>, gone: &[u64]) -> Vec<u64> {
    all.into_iter().filter(|number| !gone.contains(number)).collect()
}

#[test]
fn a_missing_segment_is_named_and_read_over() {
    let (dir, head) = journal(30, 900);
    let first = segments(dir.path());
    let (gone, next) = (first[1], first[2]);
    fs::remove_file(segment(dir.path(), gone)).unwrap();
    let lost = numbers(gone, next - 1);
    for max_bytes in [1, 500, 1 << 20] {
        assert_eq!(
            read_on(dir.path(), 0, head, max_bytes),
            (without(numbers(1, 30), &lost), lost.clone())
        );
        // A cursor inside of the hole is told of the rest of it.
        assert_eq!(
            read_on(dir.path(), gone, head, max_bytes),
            (numbers(next, 30), numbers(gone + 1, next - 1))
        );
    }
}

#[test]
fn lines_that_are_no_records_are_named_and_read_over() {
    for rubbish in ["rubbish", "", "{\"seq\":5}", "\0\0\0\0", "{\"seq\":99,\"ts\":1}"] {
        let (dir, _) = journal(9, 10_000);
        spoil(&segment(dir.path(), 1), 4, rubbish);
        let head = Reader::open(dir.path()).unwrap().head().unwrap();
        for max_bytes in [1, 250, 1 << 20] {
            let expected = (without(numbers(1, 9), &[5]), vec![5]);
            assert_eq!(read_on(dir.path(), 0, head, max_bytes), expected, "{rubbish:?}");
            assert_eq!(read_on(dir.path(), 4, head, max_bytes), (numbers(6, 9), vec![5]));
            assert_eq!(read_on(dir.path(), 5, head, max_bytes), (numbers(6, 9), vec![]));
            assert_eq!(read_on(dir.path(), 6, head, max_bytes), (numbers(7, 9), vec![]));
        }
    }
}

#[test]
fn a_line_that_was_put_in_between_loses_nothing() {
    let (dir, _) = journal(6, 10_000);
    let path = segment(dir.path(), 1);
    let text = fs::read_to_string(&path).unwrap();
    let third = text.lines().nth(2).unwrap();
    fs::write(&path, text.replace(third, &format!("{third}\nrubbish"))).unwrap();
    let head = Reader::open(dir.path()).unwrap().head().unwrap();
    for after in 0..6 {
        assert_eq!(
            read_on(dir.path(), after, head, 1 << 20),
            (numbers(after + 1, 6), vec![])
        );
    }
}

#[test]
fn a_record_with_a_wrong_number_is_no_record() {
    for wrong in [1, 2, 7, 8, 500] {
        let (dir, _) = journal(9, 10_000);
        let path = segment(dir.path(), 1);
        let text = fs::read_to_string(&path).unwrap();
        let changed = text.replace("{\"seq\":5,", &format!("{{\"seq\":{wrong},"));
        fs::write(&path, changed).unwrap();
        let head = Reader::open(dir.path()).unwrap().head().unwrap();
        for max_bytes in [1, 250, 1 << 20] {
            assert_eq!(
                read_on(dir.path(), 0, head, max_bytes),
                (without(numbers(1, 9), &[5]), vec![5]),
                "{wrong} in the place of 5, {max_bytes} bytes at once"
            );
        }
    }
}

#[test]
fn what_is_missing_at_the_end_is_named() {
    let (dir, head) = journal(9, 10_000);
    let path = segment(dir.path(), 1);
    let record = head.offset / 9;
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(record * 7 - 3).unwrap();
    assert_eq!(
        read_on(dir.path(), 0, head, 1 << 20),
        (numbers(1, 6), numbers(7, 9))
    );
    fs::remove_file(&path).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    let chunk = reader
        .read_after(Seq::ZERO, Position::START, head, 1 << 20)
        .unwrap();
    let all = Missing::lost(Seq::new(1), Seq::new(9));
    assert_eq!((chunk.missing, chunk.bytes.len()), (Some(all), 0));
    assert_eq!(all.count(), 9);
}

/// A power loss took the end, or somebody a file: clients have seen these numbers, so no other record may get them.
#[test]
fn no_number_is_given_twice() {
    let (dir, _) = journal(30, 900);
    let last = *segments(dir.path()).last().unwrap();
    fs::remove_file(segment(dir.path(), last)).unwrap();
    let floor = |floor| WriterOptions {
        floor: Seq::new(floor),
        ..WriterOptions::default()
    };
    let (mut writer, recovery) = Writer::open(dir.path(), floor(30)).unwrap();
    assert_eq!(recovery.head.seq, Seq::new(30));
    assert_eq!(push(&mut writer, 40), Seq::new(31));
    let head = writer.commit().unwrap();
    drop(writer);
    assert_eq!(
        read_on(dir.path(), 0, head, 1 << 20),
        (without(numbers(1, 31), &numbers(last, 30)), numbers(last, 30))
    );
    assert_eq!(Reader::open(dir.path()).unwrap().head().unwrap(), head);
    // A floor that the journal has reached changes nothing.
    let (mut writer, recovery) = Writer::open(dir.path(), floor(31)).unwrap();
    assert_eq!(recovery.head, head);
    assert_eq!(push(&mut writer, 40), Seq::new(32));
}

#[test]
fn a_journal_without_a_file_goes_on_above_its_floor() {
    let dir = tempfile::tempdir().unwrap();
    let options = WriterOptions {
        floor: Seq::new(12),
        ..WriterOptions::default()
    };
    let (mut writer, _) = Writer::open(dir.path(), options).unwrap();
    push(&mut writer, 40);
    let head = writer.commit().unwrap();
    assert_eq!(read_on(dir.path(), 0, head, 1 << 20), (vec![13], numbers(1, 12)));
}

#[tokio::test]
async fn a_cursor_is_told_whether_it_reads_the_ring_or_the_files() {
    let (dir, head) = journal(30, 900);
    let first = segments(dir.path());
    let (gone, next) = (first[1], first[2]);
    fs::remove_file(segment(dir.path(), gone)).unwrap();
    for ring_bytes in [0, 1 << 20] {
        let feed = Feed::new(dir.path(), Head::EMPTY, ring_bytes);
        let reader = Reader::open(dir.path()).unwrap();
        let (mut seq, mut place) = (Seq::ZERO, Position::START);
        while seq < head.seq {
            let chunk = reader.read_after(seq, place, head, 300).unwrap();
            (seq, place) = (chunk.last, chunk.end);
            feed.publish(chunk);
        }
        feed.close();
        for after in [0, gone - 1, gone, next - 1, next, 30] {
            let mut cursor = feed.cursor(Seq::new(after)).unwrap();
            let (mut records, mut missing) = (Vec::new(), Vec::new());
            while let Some(chunk) = cursor.next(1 << 20).await.unwrap() {
                if let Some(gap) = chunk.missing {
                    missing.extend(gap.first_seq.get()..=gap.last_seq.get());
                }
                records.extend(chunk.records().map(|record| record.seq.get()));
            }
            let lost: Vec<_> = numbers(gone, next - 1)
                .into_iter()
                .filter(|it| *it > after)
                .collect();
            assert_eq!(missing, lost, "after {after}, a ring of {ring_bytes}");
            assert_eq!(records, without(numbers(after + 1, 30), &numbers(gone, next - 1)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any lines and segments spoilt, each number is either read or named, once, and each whole record is read.
    #[test]
    fn every_number_is_either_read_or_named(
        spoilt in proptest::collection::btree_set(1..40_u64, 0..12),
        gone in proptest::option::of(1..5_usize),
        cut in 0..60_u64,
        segment_bytes in prop_oneof![Just(600_u64), Just(100_000)],
        max_bytes in prop_oneof![Just(1_usize), Just(300), Just(1 << 20)],
        after in 0..40_u64,
    ) {
        let (dir, head) = journal(40, segment_bytes);
        let mut whole: BTreeSet<u64> = (1..=40).collect();
        let firsts = segments(dir.path());
        for (place, &first) in firsts.iter().enumerate() {
            let path = segment(dir.path(), first);
            let end = firsts.get(place + 1).copied().unwrap_or(41);
            if place > 0 && gone == Some(place) && end < 41 {
                fs::remove_file(&path).unwrap();
                whole.retain(|number| !(first..end).contains(number));
                continue;
            }
            for &number in spoilt.range(first..end) {
                spoil(&path, usize::try_from(number - first).unwrap(), "spoilt");
                whole.remove(&number);
            }
        }
        // The tail of the journal, as a power loss cuts it.
        let last = segment(dir.path(), *firsts.last().unwrap());
        let bytes = fs::metadata(&last).unwrap().len();
        let file = OpenOptions::new().write(true).open(&last).unwrap();
        file.set_len(bytes.saturating_sub(cut)).unwrap();
        if cut > 0 {
            whole.remove(&40);
        }
        let (records, missing) = read_on(dir.path(), after, head, max_bytes);
        let mut all: Vec<_> = records.iter().chain(&missing).copied().collect();
        all.sort_unstable();
        prop_assert_eq!(all, numbers(after + 1, 40));
        let expected: Vec<_> = whole.range(after + 1..).copied().collect();
        // A record that stood in front of the cut may be cut too.
        let kept: Vec<_> = records.iter().copied().filter(|number| *number < 39 || cut == 0).collect();
        let expected: Vec<_> = expected.into_iter().filter(|number| *number < 39 || cut == 0).collect();
        prop_assert_eq!(kept, expected);
    }
}
