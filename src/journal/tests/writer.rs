//! The writer alone: files, lock, refusals, batches, rotation.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::{AT, append, assert_contiguous, open, push, read_all, segment, segments};
use crate::{
    domain::{Seq, Timestamp},
    journal::{Head, OpenError, Position, PushError, Reader, Recovery, Source, Writer, WriterOptions},
};

#[test]
fn a_new_journal_is_private_and_empty() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("sessions/one");
    let (writer, recovery) = Writer::open(&dir, WriterOptions::default()).unwrap();
    assert_eq!(
        recovery,
        Recovery {
            cut_bytes: 0,
            head: Head::EMPTY
        }
    );
    assert_eq!(writer.head(), Head::EMPTY);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("lock")), 0o600);
    assert_eq!(mode(&segment(&dir, 1)), 0o600);
}

#[test]
fn there_is_one_writer_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), 1_000);
    let second = Writer::open(dir.path(), WriterOptions::default());
    assert!(matches!(second, Err(OpenError::Locked { .. })), "{second:?}");
    drop(first);
    open(dir.path(), 1_000);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = Writer::open(&file, WriterOptions::default()).unwrap_err();
    assert!(
        matches!(&error, OpenError::Io { path, .. } if *path == file),
        "{error}"
    );
}

#[test]
fn what_would_break_a_line_is_refused_and_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 1_000);
    for (by, data, error) in [
        (None, &b"{\n}"[..], PushError::Newline),
        (None, b"", PushError::Empty),
        (Some("a\"b"), b"1", PushError::By),
    ] {
        assert_eq!(writer.push(AT, Source::Client, by, data), Err(error));
    }
    assert_eq!(writer.pending_bytes(), 0);
    assert_eq!(
        writer.push(AT, Source::Client, Some("phone"), b"1"),
        Ok(Seq::new(1))
    );
}

#[test]
fn a_batch_reaches_the_file_with_the_commit_and_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 1_000);
    let later = Timestamp::from_micros(AT.as_micros() + 1);
    writer.push(AT, Source::Cli, None, br#"{"a":1}"#).unwrap();
    writer.push(later, Source::Client, Some("phone"), b"{}").unwrap();
    assert_eq!(Reader::open(dir.path()).unwrap().head().unwrap(), Head::EMPTY);
    let pending = writer.pending_bytes() as u64;

    let head = writer.commit().unwrap();
    assert_eq!(
        head,
        Head {
            seq: Seq::new(2),
            segment: Seq::new(1),
            offset: pending
        }
    );
    assert_eq!(writer.pending_bytes(), 0);
    assert_eq!(Reader::open(dir.path()).unwrap().head().unwrap(), head);
    writer.sync().unwrap();
    assert_eq!(
        fs::read_to_string(segment(dir.path(), 1)).unwrap(),
        "{\"seq\":1,\"ts\":\"2026-01-02T03:04:05.678901Z\",\"src\":\"cli\",\"data\":{\"a\":1}}\n\
         {\"seq\":2,\"ts\":\"2026-01-02T03:04:05.678902Z\",\"src\":\"client\",\"by\":\"phone\",\"data\":{}}\n"
    );
    assert_eq!(writer.commit().unwrap(), head);
}

#[test]
fn a_full_segment_is_followed_by_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 200);
    // A batch is never split, however large.
    for _ in 0..5 {
        push(&mut writer, 100);
    }
    writer.commit().unwrap();
    assert_eq!(segments(dir.path()), [1]);
    append(&mut writer, &[10, 200, 10]);
    assert_eq!(segments(dir.path()), [1, 6, 8]);
    assert_eq!(writer.head().seq, Seq::new(8));
    writer.sync().unwrap();
    assert_contiguous(
        &read_all(dir.path(), Position::START, 1_000),
        Seq::ZERO,
        Seq::new(8),
    );
}

#[test]
fn a_reopened_journal_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20_u64 {
        let mut writer = open(dir.path(), 300);
        assert_eq!(writer.head().seq, Seq::new(round * 2));
        append(&mut writer, &[50, 50]);
    }
    assert!(segments(dir.path()).len() > 5);
    assert_contiguous(&read_all(dir.path(), Position::START, 1), Seq::ZERO, Seq::new(40));
}

#[test]
fn the_batch_buffer_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 1_000);
    append(&mut writer, &[3_000_000]);
    assert!(writer.batch_capacity() <= 512 * 1024);
    writer.release_memory();
    assert_eq!(writer.batch_capacity(), 0);
    push(&mut writer, 10);
    writer.release_memory();
    assert_eq!(writer.commit().unwrap().seq, Seq::new(2));
}

/// Somebody moves or removes the file that is written to.
#[test]
fn a_segment_that_is_gone_from_its_place_is_followed_by_a_new_one() {
    for is_replaced in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open(dir.path(), 1_000_000);
        append(&mut writer, &[10]);
        append(&mut writer, &[10]);
        fs::rename(segment(dir.path(), 1), dir.path().join("aside")).unwrap();
        if is_replaced {
            fs::write(segment(dir.path(), 1), "").unwrap();
        }
        let before = writer.head();
        assert!(writer.replace_lost_segment().unwrap());
        assert!(!writer.replace_lost_segment().unwrap(), "once");
        let head = Head {
            seq: before.seq,
            segment: Seq::new(3),
            offset: 0,
        };
        assert_eq!(writer.head(), head);
        append(&mut writer, &[10]);
        fs::remove_file(segment(dir.path(), 3)).unwrap();
        // A batch notices it too.
        append(&mut writer, &[10]);
        assert_eq!(writer.head().segment, Seq::new(4));
        let text = fs::read_to_string(segment(dir.path(), 4)).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(text.starts_with("{\"seq\":4,"), "{text}");
    }
}

#[test]
fn an_empty_segment_that_is_gone_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 1_000);
    fs::remove_file(segment(dir.path(), 1)).unwrap();
    append(&mut writer, &[10]);
    assert_eq!(writer.head().segment, Seq::new(1));
    assert_eq!(segments(dir.path()), [1]);
}

/// There is no place for a new one then.
#[test]
fn a_folder_that_is_gone_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("one");
    let mut writer = open(&journal, 1_000);
    append(&mut writer, &[10]);
    fs::remove_dir_all(&journal).unwrap();
    append(&mut writer, &[10]);
    assert_eq!(writer.head().seq, Seq::new(2));
}
