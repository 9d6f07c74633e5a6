//! A writer that dies at any byte, and what the next one finds.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    path::Path,
};

use proptest::prelude::*;

use super::{append, assert_contiguous, open, push, read_all, segment, segments};
use crate::{
    domain::Seq,
    journal::{Head, Position, Recovery, Writer, WriterOptions},
};

fn reopen(dir: &Path) -> (Writer, Recovery) {
    Writer::open(dir, WriterOptions::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_crash_point_loses_no_committed_record(
        committed in proptest::collection::vec(3..120_usize, 0..8),
        batch in proptest::collection::vec(3..60_usize, 1..5),
        rotates in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open(dir.path(), if rotates { 150 } else { 100_000 });
        let before = append(&mut writer, &committed);
        let mut ends = Vec::new();
        for &bytes in &batch {
            push(&mut writer, bytes);
            ends.push(writer.pending_bytes() as u64);
        }
        let after = writer.commit().unwrap();
        drop(writer);
        let path = segment(dir.path(), after.segment.get());
        let whole = fs::read(&path).unwrap();
        let start = if after.segment == before.segment { before.offset } else { 0 };
        prop_assert_eq!(start + ends.last().unwrap(), after.offset);

        for cut in start..=after.offset {
            fs::write(&path, &whole[..usize::try_from(cut).unwrap()]).unwrap();
            let kept = ends.iter().filter(|&&end| start + end <= cut).count();
            let end = ends[..kept].last().map_or(start, |end| start + end);
            let (mut writer, recovery) = reopen(dir.path());
            let seq = Seq::new(before.seq.get() + kept as u64);
            prop_assert_eq!(recovery.cut_bytes, cut - end);
            prop_assert_eq!(recovery.head, Head { seq, segment: after.segment, offset: end });
            prop_assert_eq!(push(&mut writer, 30), seq.next());
            writer.commit().unwrap();
            assert_contiguous(&read_all(dir.path(), Position::START, 200), Seq::ZERO, seq.next());
        }
    }
}

/// A journal of three records, then `damage` to its file.
fn recovered(damage: impl FnOnce(&Path)) -> Recovery {
    let dir = tempfile::tempdir().unwrap();
    append(&mut open(dir.path(), 10_000), &[50, 50, 50]);
    damage(&segment(dir.path(), 1));
    let (mut writer, recovery) = reopen(dir.path());
    append(&mut writer, &[50]);
    assert_contiguous(
        &read_all(dir.path(), Position::START, 1),
        Seq::ZERO,
        recovery.head.seq.next(),
    );
    recovery
}

#[test]
fn a_page_that_a_power_loss_emptied_is_cut_with_its_record() {
    let recovery = recovered(|path| {
        let bytes = fs::metadata(path).unwrap().len();
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&[0; 20], bytes - 30).unwrap();
    });
    assert_eq!(recovery.head.seq, Seq::new(2));
    assert_eq!(recovery.cut_bytes * 2, recovery.head.offset);
}

#[test]
fn garbage_lines_at_the_end_are_cut() {
    let garbage = b"\n\n{\"seq\":4,\"ts\":\"x\"}\n{\"seq\":4}\n\0\0\0\0\n{\"seq\":";
    let recovery = recovered(|path| {
        let mut bytes = fs::read(path).unwrap();
        bytes.extend_from_slice(garbage);
        fs::write(path, bytes).unwrap();
    });
    assert_eq!(recovery.head.seq, Seq::new(3));
    assert_eq!(recovery.cut_bytes, garbage.len() as u64);
}

#[test]
fn a_segment_with_no_whole_record_is_emptied() {
    let recovery = recovered(|path| fs::write(path, [0; 50_000]).unwrap());
    assert_eq!(recovery.head, Head::EMPTY);
    assert_eq!(recovery.cut_bytes, 50_000);
}

#[test]
fn a_segment_that_was_begun_and_not_written_is_used() {
    let dir = tempfile::tempdir().unwrap();
    append(&mut open(dir.path(), 10_000), &[50, 50, 50]);
    fs::write(segment(dir.path(), 4), b"").unwrap();
    let (mut writer, recovery) = reopen(dir.path());
    assert_eq!(
        recovery.head,
        Head {
            seq: Seq::new(3),
            segment: Seq::new(4),
            offset: 0
        }
    );
    append(&mut writer, &[50]);
    assert_eq!(segments(dir.path()), [1, 4]);
    assert_contiguous(&read_all(dir.path(), Position::START, 1), Seq::ZERO, Seq::new(4));
}
