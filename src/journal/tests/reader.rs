//! The reader: positions, chunks, and each of its errors.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
};

use proptest::prelude::*;

use super::{append, assert_contiguous, data, open, push, read_all, segment, segments};
use crate::{
    domain::Seq,
    journal::{Head, Position, ReadError, Reader, Source},
};

const NO_LIMIT: usize = 1 << 30;

/// Three segments: 1-2, 3-4 and 5.
fn three_segments() -> (tempfile::TempDir, Reader) {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 300);
    append(&mut writer, &[100, 100, 100, 100, 100]);
    assert_eq!(segments(dir.path()), [1, 3, 5]);
    let reader = Reader::open(dir.path()).unwrap();
    (dir, reader)
}

#[test]
fn a_journal_that_is_not_there_is_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    for path in [missing, file] {
        let error = Reader::open(&path).unwrap_err();
        assert!(
            matches!(&error, ReadError::NotFound { dir } if *dir == path),
            "{error:?}"
        );
    }
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.dir(), dir.path());
    dir.close().unwrap();
    assert!(matches!(reader.head(), Err(ReadError::NotFound { .. })));
}

#[test]
fn a_folder_without_segments_is_an_empty_journal() {
    let dir = tempfile::tempdir().unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.head().unwrap(), Head::EMPTY);
    assert_eq!(reader.oldest().unwrap(), Seq::new(1));
    assert_eq!(reader.position_after(Seq::ZERO).unwrap(), Position::START);
    assert!(matches!(
        reader.position_after(Seq::new(1)),
        Err(ReadError::Beyond { head: Head::EMPTY })
    ));
    let chunk = reader.read(Position::START, Head::EMPTY, NO_LIMIT).unwrap();
    assert!(chunk.is_empty());
    assert_eq!(chunk.records().count(), 0);
}

#[test]
fn a_number_that_is_not_given_yet_is_beyond_the_head() {
    let (_dir, reader) = three_segments();
    let head = reader.head().unwrap();
    assert_eq!(reader.position_after(head.seq).unwrap(), head.position());
    let error = reader.position_after(head.seq.next()).unwrap_err();
    assert!(
        matches!(error, ReadError::Beyond { head: told } if told == head),
        "{error:?}"
    );
}

#[test]
fn what_is_kept_no_more_is_compacted() {
    let (dir, reader) = three_segments();
    fs::remove_file(segment(dir.path(), 1)).unwrap();
    for error in [
        reader.position_after(Seq::ZERO).unwrap_err(),
        reader.position_after(Seq::new(1)).unwrap_err(),
        reader
            .read(Position::START, reader.head().unwrap(), NO_LIMIT)
            .unwrap_err(),
    ] {
        assert!(
            matches!(error, ReadError::Compacted { oldest } if oldest == Seq::new(3)),
            "{error:?}"
        );
    }
    assert_eq!(reader.oldest().unwrap(), Seq::new(3));
    assert_eq!(
        reader.position_after(Seq::new(2)).unwrap(),
        Position {
            segment: Seq::new(3),
            offset: 0
        }
    );
}

#[test]
fn a_missing_segment_is_a_gap() {
    let (dir, reader) = three_segments();
    let head = reader.head().unwrap();
    fs::remove_file(segment(dir.path(), 3)).unwrap();
    let end_of_first = reader.read(Position::START, head, NO_LIMIT).unwrap().end;
    let middle = Position {
        segment: Seq::new(3),
        offset: 10,
    };
    for error in [
        reader.read(end_of_first, head, NO_LIMIT).unwrap_err(),
        reader.position_after(Seq::new(3)).unwrap_err(),
    ] {
        assert!(
            matches!(error, ReadError::Gap { expected, found } if expected == Seq::new(3) && found == Seq::new(5)),
            "{error:?}"
        );
    }
    let error = reader.read(middle, head, NO_LIMIT).unwrap_err();
    assert!(
        matches!(error, ReadError::MissingSegment { segment } if segment == Seq::new(3)),
        "{error:?}"
    );
}

#[test]
fn a_missing_last_segment_is_named() {
    let (dir, reader) = three_segments();
    let head = reader.head().unwrap();
    let from = reader.position_after(Seq::new(4)).unwrap();
    assert_eq!(from.segment, Seq::new(5));
    let end_of_second = reader
        .read(reader.position_after(Seq::new(2)).unwrap(), head, NO_LIMIT)
        .unwrap()
        .end;
    fs::remove_file(segment(dir.path(), 5)).unwrap();
    for from in [from, end_of_second] {
        let error = reader.read(from, head, NO_LIMIT).unwrap_err();
        assert!(
            matches!(error, ReadError::MissingSegment { segment } if segment == Seq::new(5)),
            "{error:?}"
        );
    }
}

/// A journal of one segment whose text was changed after it was written.
fn changed(change: impl FnOnce(String) -> String) -> (tempfile::TempDir, Reader, Head) {
    let dir = tempfile::tempdir().unwrap();
    let head = append(&mut open(dir.path(), 10_000), &[10, 10, 10]);
    let path = segment(dir.path(), 1);
    let text = change(fs::read_to_string(&path).unwrap());
    assert_eq!(text.len() as u64, head.offset);
    fs::write(&path, text).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    (dir, reader, head)
}

#[test]
fn a_record_out_of_order_is_a_gap() {
    let (_dir, reader, head) = changed(|text| text.replace("{\"seq\":2", "{\"seq\":7"));
    let error = reader.read(Position::START, head, NO_LIMIT).unwrap_err();
    assert!(
        matches!(error, ReadError::Gap { expected, found } if expected == Seq::new(2) && found == Seq::new(7)),
        "{error:?}"
    );
}

#[test]
fn a_foreign_line_is_named() {
    let record = |head: Head| head.offset / 3;
    for (from, to) in [
        ("{\"seq\":2", "{\"Seq\":2"),
        ("{\"seq\":2,\"ts\":\"2", "{\"seq\":2,\"ts\":\"x"),
        ("000002\"}", "000002\"]"),
    ] {
        let (_dir, reader, head) = changed(|text| text.replace(from, to));
        let error = reader.read(Position::START, head, NO_LIMIT).unwrap_err();
        assert!(
            matches!(error, ReadError::Foreign { segment, offset } if segment == Seq::new(1) && offset == record(head)),
            "{error:?}"
        );
    }
    let (_dir, reader, head) = changed(|text| text.replace("{\"seq\":2", "{\"Seq\":2"));
    let error = reader.position_after(Seq::new(1)).unwrap_err();
    assert!(
        matches!(error, ReadError::Foreign { offset, .. } if offset == record(head)),
        "{error:?}"
    );

    let (_dir, reader, head) = changed(|text| text.replace("{\"seq\":1", "{\"seq\":2"));
    for error in [
        reader.read(Position::START, head, NO_LIMIT).unwrap_err(),
        reader.position_after(Seq::new(1)).unwrap_err(),
    ] {
        assert!(matches!(error, ReadError::Foreign { offset: 0, .. }), "{error:?}");
    }
    let inside = Position {
        offset: 5,
        ..Position::START
    };
    let error = reader.read(inside, head, NO_LIMIT).unwrap_err();
    assert!(matches!(error, ReadError::Foreign { offset: 5, .. }), "{error:?}");
}

#[test]
fn a_file_shorter_than_the_head_is_truncated() {
    let (dir, reader, head) = changed(|text| text);
    let file = OpenOptions::new()
        .write(true)
        .open(segment(dir.path(), 1))
        .unwrap();
    file.set_len(head.offset - 5).unwrap();
    for max_bytes in [1, NO_LIMIT] {
        let from = Position {
            offset: head.offset / 3 * 2,
            ..Position::START
        };
        let error = reader.read(from, head, max_bytes).unwrap_err();
        assert!(
            matches!(error, ReadError::Truncated { segment, bytes } if segment == Seq::new(1) && bytes == head.offset - 5),
            "{error:?}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_io_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(segment(dir.path(), 1)).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    let head = Head {
        seq: Seq::new(1),
        offset: 100,
        ..Head::EMPTY
    };
    let error = reader.read(Position::START, head, NO_LIMIT).unwrap_err();
    assert!(
        matches!(&error, ReadError::Io { path, .. } if *path == segment(dir.path(), 1)),
        "{error:?}"
    );
}

#[test]
fn errors_are_said_without_their_source() {
    let error = ReadError::Io {
        path: "/j/1".into(),
        source: std::io::Error::other("boom"),
    };
    let gap = ReadError::Gap {
        expected: Seq::new(3),
        found: Seq::new(5),
    };
    assert_eq!(error.to_string(), "journal file /j/1 could not be read");
    assert_eq!(gap.to_string(), "record 3 is missing, record 5 follows");
}

#[test]
fn half_a_record_is_never_seen() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 100_000);
    let head = append(&mut writer, &[50, 50]);
    push(&mut writer, 200);
    push(&mut writer, 40_000);
    let batch = writer.pending().to_vec();
    let first = memchr::memchr(b'\n', &batch).unwrap() + 1;
    let mut file = OpenOptions::new()
        .append(true)
        .open(segment(dir.path(), 1))
        .unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    for (written, byte) in batch.iter().enumerate() {
        // Each of the first bytes, then now and then.
        if written < first + 20 || written % 997 == 0 {
            let seen = reader.head().unwrap();
            let whole = u64::from(written >= first);
            assert_eq!(seen.seq.get(), head.seq.get() + whole);
            let chunk = reader.read(head.position(), seen, NO_LIMIT).unwrap();
            assert_eq!(chunk.records().count() as u64, whole);
            assert_eq!(reader.position_after(seen.seq).unwrap(), seen.position());
        }
        file.write_all(&[*byte]).unwrap();
    }
    assert_eq!(reader.head().unwrap().seq.get(), head.seq.get() + 2);
}

#[test]
fn a_record_of_many_megabytes_is_found_and_read_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 1 << 40);
    append(&mut writer, &[100; 50]);
    append(&mut writer, &[20_000_000]);
    let head = append(&mut writer, &[100; 50]);
    let reader = Reader::open(dir.path()).unwrap();
    let from = reader.position_after(Seq::new(50)).unwrap();
    let chunk = reader.read(from, head, 1_000).unwrap();
    assert_eq!((chunk.first, chunk.last), (Seq::new(51), Seq::new(51)));
    assert_eq!(
        chunk.records().next().unwrap().data,
        data(51, 20_000_000).as_slice()
    );
    assert_eq!(reader.position_after(Seq::new(51)).unwrap(), chunk.end);
    assert_contiguous(&read_all(dir.path(), chunk.end, 1_000), Seq::new(51), head.seq);
}

#[test]
fn a_chunk_is_cut_by_number_and_by_size() {
    let dir = tempfile::tempdir().unwrap();
    let head = append(&mut open(dir.path(), 10_000), &[20; 6]);
    let reader = Reader::open(dir.path()).unwrap();
    let chunk = reader.read(Position::START, head, NO_LIMIT).unwrap();
    let record = chunk.bytes.len() / 6;
    for after in 0..=7 {
        let rest = chunk.after(Seq::new(after));
        assert_contiguous(std::slice::from_ref(&rest), Seq::new(after.min(6)), Seq::new(6));
        assert_eq!((rest.first.get(), rest.last.get()), (after.min(6) + 1, 6));
        assert_eq!(rest.end, chunk.end);
    }
    for max_bytes in [0, 1, record, record + 1, 3 * record - 1, 6 * record, 7 * record] {
        let start = chunk.up_to(max_bytes);
        let records = (max_bytes / record).clamp(1, 6) as u64;
        assert_contiguous(std::slice::from_ref(&start), Seq::ZERO, Seq::new(records));
        assert_eq!((start.first.get(), start.last.get()), (1, records));
        let seq = Seq::new(records);
        assert_eq!(start.end, reader.position_after(seq).unwrap());
        assert_eq!(start, reader.read(Position::START, head, max_bytes).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_position_is_found_and_every_record_read_once(
        sizes in proptest::collection::vec(prop_oneof![8 => 3..300_usize, 1 => 10_000..60_000_usize], 1..60),
        segment_bytes in prop_oneof![1..2_000_u64, 50_000..200_000_u64],
        max_bytes in prop_oneof![0..2_000_usize, 10_000..100_000_usize],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open(dir.path(), segment_bytes);
        let mut heads = vec![writer.head()];
        for &bytes in &sizes {
            heads.push(append(&mut writer, &[bytes]));
        }
        let reader = Reader::open(dir.path()).unwrap();
        let head = *heads.last().unwrap();
        prop_assert_eq!(reader.head().unwrap(), head);
        for before in &heads {
            let from = reader.position_after(before.seq).unwrap();
            let chunk = reader.read(from, head, max_bytes).unwrap();
            prop_assert_eq!(chunk.first, before.seq.next());
            prop_assert_eq!(&chunk, &reader.read(before.position(), head, max_bytes).unwrap());
            prop_assert!(chunk.bytes.len() <= max_bytes || chunk.first == chunk.last);
            prop_assert_eq!(chunk.is_empty(), before.seq == head.seq);
            // A head in the past bounds the read.
            prop_assert!(reader.read(from, *before, max_bytes).unwrap().is_empty());
        }
        let chunks = read_all(dir.path(), Position::START, max_bytes);
        assert_contiguous(&chunks, Seq::ZERO, head.seq);
        for (record, &bytes) in chunks.iter().flat_map(crate::journal::Chunk::records).zip(&sizes) {
            let expected = data(record.seq.get(), bytes);
            prop_assert_eq!(record.data, expected.as_slice());
            prop_assert_eq!(record.source, Source::Cli);
            prop_assert_eq!(record.at, super::AT);
        }
    }
}
