//! Compacted and removed segments: what is kept is read as before, and what went is named.

use std::{collections::HashSet, fs, path::Path};

use proptest::prelude::*;

use super::{append, open, segment, segments};
use crate::{
    domain::Seq,
    journal::{
        Compactor, Feed, FolderLock, Head, Missing, MissingReason, Position, ReadError, Reader, Sealed,
        WriterOptions,
    },
};

/// The numbers that reading from `after` on gives: of records, of what was compacted, and of what is said to be lost.
fn read_on(reader: &Reader, after: u64, from: Position, until: Head, max_bytes: usize) -> [Vec<u64>; 3] {
    let (mut seq, mut place) = (Seq::new(after), from);
    let [mut records, mut compacted, mut lost] = [const { Vec::new() }; 3];
    while seq < until.seq {
        let chunk = reader.read_after(seq, place, until, max_bytes).unwrap();
        assert_eq!(chunk.start(), seq.next(), "no number is passed over in silence");
        if let Some(gap) = chunk.missing {
            let into = match gap.reason {
                MissingReason::Compacted => &mut compacted,
                _ => &mut lost,
            };
            into.extend(gap.first_seq.get()..=gap.last_seq.get());
        }
        records.extend(chunk.records().map(|record| record.seq.get()));
        assert!(chunk.last > seq, "it goes on");
        (seq, place) = (chunk.last, chunk.end);
    }
    [records, compacted, lost]
}

fn take_out(dir: &Path, sealed: &Sealed, without: &HashSet<Seq>) -> bool {
    let compacted = Compactor::open(dir).unwrap().compact(sealed, without).unwrap();
    let Some(compacted) = compacted else { return false };
    FolderLock::take(dir)
        .unwrap()
        .unwrap()
        .replace(compacted)
        .unwrap()
}

fn all_sealed(dir: &Path) -> Vec<Sealed> {
    Compactor::open(dir).unwrap().sealed(Seq::MAX).unwrap()
}

fn journal(sizes: &[usize], segment_bytes: u64) -> (tempfile::TempDir, Head) {
    let dir = tempfile::tempdir().unwrap();
    let head = append(&mut open(dir.path(), segment_bytes), sizes);
    (dir, head)
}

fn seqs(numbers: &[u64]) -> HashSet<Seq> {
    numbers.iter().map(|number| Seq::new(*number)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Readers hear of each number once, from every place and in every piece, whichever records were taken out in whichever order.
    #[test]
    fn what_is_kept_is_read_and_what_went_is_named(
        sizes in proptest::collection::vec(10..400_usize, 4..50),
        segment_bytes in 300..3_000_u64,
        rounds in proptest::collection::vec(proptest::collection::hash_set(1..50_u64, 0..40), 1..3),
        max_bytes in prop_oneof![0..600_usize, 10_000..100_000_usize],
    ) {
        let (dir, head) = journal(&sizes, segment_bytes);
        let old = Reader::open(dir.path()).unwrap();
        let places: Vec<_> = (0..=head.seq.get()).map(|seq| old.position_after(Seq::new(seq)).unwrap()).collect();
        let mut gone: HashSet<Seq> = HashSet::new();
        for round in &rounds {
            let wanted: HashSet<_> = round.iter().map(|seq| Seq::new(*seq)).collect();
            for sealed in all_sealed(dir.path()) {
                if take_out(dir.path(), &sealed, &wanted) {
                    let ends = [sealed.first, sealed.last];
                    gone.extend(wanted.iter().filter(|seq| (sealed.first..=sealed.last).contains(*seq) && !ends.contains(seq)));
                }
            }
        }
        let reader = Reader::open(dir.path()).unwrap();
        prop_assert_eq!(reader.head().unwrap(), head);
        for after in 0..=head.seq.get() {
            let of = |is_gone: bool| -> Vec<u64> {
                (after + 1..=head.seq.get()).filter(|seq| gone.contains(&Seq::new(*seq)) == is_gone).collect()
            };
            let expected = [of(false), of(true), vec![]];
            let place = reader.place_after(Seq::new(after)).unwrap();
            prop_assert_eq!(&read_on(&reader, after, place, head, max_bytes), &expected);
            // A place from before the compaction.
            let place = places[usize::try_from(after).unwrap()];
            prop_assert_eq!(&read_on(&reader, after, place, head, max_bytes), &expected);
        }
        // From the end, page by page.
        let (mut before, mut pages) = (head.seq.next(), Vec::new());
        loop {
            let chunks = reader.read_before(before, head, 5, max_bytes).unwrap();
            let Some(first) = chunks.first() else { break };
            let start = first.start();
            prop_assert!(start < before);
            for chunk in chunks.iter().rev() {
                pages.extend(chunk.records().map(|record| record.seq).filter(|seq| *seq < before).collect::<Vec<_>>().into_iter().rev());
                prop_assert!(chunk.missing.is_none_or(|gap| gap.reason == MissingReason::Compacted));
            }
            before = start;
        }
        let expected: Vec<_> = (1..=head.seq.get()).rev().map(Seq::new).filter(|seq| !gone.contains(seq)).collect();
        prop_assert_eq!(pages, expected);
    }
}

#[test]
fn a_reader_in_the_middle_finishes_from_its_open_file() {
    let (dir, head) = journal(&[100; 9], 900);
    let reader = Reader::open(dir.path()).unwrap();
    let first = reader.read(Position::START, head, 1).unwrap();
    let sealed = all_sealed(dir.path())[0];
    assert!(take_out(dir.path(), &sealed, &seqs(&[2, 3, 4])));
    let lock = FolderLock::take(dir.path()).unwrap().unwrap();
    lock.remove(&[sealed]).unwrap();
    assert_eq!(
        read_on(&reader, 1, first.end, head, 1),
        [(2..=9).collect(), vec![], vec![]]
    );
}

#[tokio::test]
async fn a_cursor_whose_records_went_is_told_and_goes_on() {
    let (dir, head) = journal(&[100; 9], 300);
    assert_eq!(segments(dir.path()), [1, 3, 5, 7, 9]);
    let feed = Feed::new(dir.path(), head, 0);
    let mut stalled = feed.cursor(Seq::ZERO).unwrap();
    stalled.next(1).await.unwrap().unwrap();
    // Another one makes the reader close that file.
    feed.cursor(Seq::new(6)).unwrap().next(1).await.unwrap().unwrap();
    let sealed = all_sealed(dir.path());
    FolderLock::take(dir.path())
        .unwrap()
        .unwrap()
        .remove(&sealed[..2])
        .unwrap();
    let told = stalled.next(1 << 20).await.unwrap().unwrap();
    let expected = Missing {
        first_seq: Seq::new(2),
        last_seq: Seq::new(4),
        reason: MissingReason::Removed,
    };
    assert_eq!((told.missing, told.bytes.len()), (Some(expected), 0));
    assert_eq!(stalled.next(1 << 20).await.unwrap().unwrap().first, Seq::new(5));
    assert!(matches!(
        feed.cursor(Seq::new(3)).unwrap_err(),
        ReadError::Compacted { oldest } if oldest == Seq::new(5)
    ));
    feed.close();
    while stalled.next(1 << 20).await.unwrap().is_some() {}
    assert_eq!(stalled.position(), head.seq);
}

#[test]
fn what_is_gone_without_a_name_is_lost() {
    let (dir, _) = journal(&[100; 9], 300);
    fs::remove_file(segment(dir.path(), 1)).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(
        reader.not_kept(Seq::new(1), Seq::new(3)),
        Missing::lost(Seq::new(1), Seq::new(2))
    );
    let sealed = all_sealed(dir.path());
    FolderLock::take(dir.path())
        .unwrap()
        .unwrap()
        .remove(&sealed[..1])
        .unwrap();
    assert_eq!(
        reader.not_kept(Seq::new(1), Seq::new(5)).reason,
        MissingReason::Removed
    );
}

#[test]
fn a_kill_in_the_middle_changes_nothing_for_readers() {
    let (dir, head) = journal(&[100; 9], 900);
    let whole = [(1..=9).collect(), vec![], vec![]];
    let read = || {
        let reader = Reader::open(dir.path()).unwrap();
        read_on(&reader, 0, Position::START, head, 1 << 20)
    };
    let sealed = all_sealed(dir.path())[0];
    // Before the draft is whole, and before it takes its place.
    let draft = segment(dir.path(), 1).with_extension("compact");
    fs::write(&draft, b"half a li").unwrap();
    assert_eq!(read(), whole);
    let compacted = Compactor::open(dir.path())
        .unwrap()
        .compact(&sealed, &seqs(&[2]))
        .unwrap();
    let kept = fs::read(&draft).unwrap();
    assert_eq!(read(), whole);
    drop(compacted);
    fs::write(&draft, kept).unwrap();
    // The next look begins anew.
    assert!(take_out(dir.path(), &sealed, &seqs(&[2, 3])));
    let without: Vec<u64> = vec![1, 4, 5, 6, 7, 8, 9];
    assert_eq!(read(), [without, vec![2, 3], vec![]]);
    assert!(!draft.exists());
}

#[test]
fn a_segment_that_changed_meanwhile_is_left_alone() {
    let (dir, _) = journal(&[100; 9], 900);
    let sealed = all_sealed(dir.path())[0];
    let reader = Compactor::open(dir.path()).unwrap();
    let late = reader.compact(&sealed, &seqs(&[2])).unwrap().unwrap();
    let copy = fs::read(segment(dir.path(), 1)).unwrap();
    fs::remove_file(segment(dir.path(), 1)).unwrap();
    fs::write(segment(dir.path(), 1), &copy).unwrap();
    assert!(
        !FolderLock::take(dir.path())
            .unwrap()
            .unwrap()
            .replace(late)
            .unwrap()
    );
    assert_eq!(fs::read(segment(dir.path(), 1)).unwrap(), copy);
}

#[test]
fn a_damaged_segment_is_left_alone() {
    let (dir, _) = journal(&[100; 9], 900);
    let path = segment(dir.path(), 1);
    let text = fs::read_to_string(&path)
        .unwrap()
        .replace("{\"seq\":2", "{\"Seq\":2");
    fs::write(&path, text).unwrap();
    let sealed = all_sealed(dir.path())[0];
    assert!(!take_out(dir.path(), &sealed, &seqs(&[3])));
    assert!(!path.with_extension("compact").exists());
}

#[test]
fn damage_beside_a_compaction_is_told_apart_from_it() {
    let (dir, head) = journal(&[100; 9], 900);
    let sealed = all_sealed(dir.path())[0];
    assert!(take_out(dir.path(), &sealed, &seqs(&[3, 4])));
    let path = segment(dir.path(), 1);
    for (line, lost) in [("{\"seq\":2", 2), ("{\"seq\":5", 5)] {
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, whole.replace(line, "{\"Seq\":0")).unwrap();
        let records: Vec<u64> = (1..=9).filter(|seq| ![3, 4, lost].contains(seq)).collect();
        for max_bytes in [1, 200, 1 << 20] {
            let reader = Reader::open(dir.path()).unwrap();
            assert_eq!(
                read_on(&reader, 0, Position::START, head, max_bytes),
                [records.clone(), vec![3, 4], vec![lost]]
            );
        }
        fs::write(&path, whole).unwrap();
    }
}

#[test]
fn only_what_is_closed_is_sealed() {
    let (dir, _) = journal(&[100; 9], 300);
    let sealed = |before: u64| -> Vec<u64> {
        let reader = Compactor::open(dir.path()).unwrap();
        let sealed = reader.sealed(Seq::new(before)).unwrap();
        sealed.iter().map(|sealed| sealed.first.get()).collect()
    };
    assert_eq!(sealed(0), [0; 0]);
    assert_eq!(sealed(4), [1]);
    assert_eq!(sealed(5), [1, 3]);
    assert_eq!(sealed(100), [1, 3, 5, 7]);
    let open = super::Writer::open(dir.path(), WriterOptions::default()).unwrap();
    assert!(FolderLock::take(dir.path()).unwrap().is_none());
    drop(open);
}

#[test]
fn a_writer_closes_a_large_segment() {
    let (dir, head) = journal(&[100; 3], 10_000);
    let open = |close_bytes| {
        let options = WriterOptions {
            close_bytes,
            ..WriterOptions::default()
        };
        super::Writer::open(dir.path(), options).unwrap().0
    };
    drop(open(head.offset + 1));
    assert_eq!(segments(dir.path()), [1]);
    let mut writer = open(head.offset);
    assert_eq!(append(&mut writer, &[100]).seq, Seq::new(4));
    drop(writer);
    assert_eq!(segments(dir.path()), [1, 4]);
    // Nothing was written to it: it is not closed again.
    drop(open(1 << 20));
    assert_eq!(segments(dir.path()), [1, 4]);
}
