//! Reading backwards: the newest records first, over segments, with bounds, past damage; and the stubs of large records.

use std::fs;

use proptest::prelude::*;

use super::{append, data, numbers, open, segment};
use crate::{
    domain::Seq,
    journal::{Chunk, Head, Reader},
};

/// The numbers of all records, from the end on, in stretches.
fn all_back(reader: &Reader, head: Head, most_records: usize, most_bytes: usize) -> Vec<u64> {
    let mut at = head.seq.next();
    let mut back = Vec::new();
    loop {
        let chunks = reader.read_before(at, head, most_records, most_bytes).unwrap();
        let Some(start) = chunks.first().map(Chunk::start) else {
            return back;
        };
        let stretch = numbers(&chunks).into_iter().filter(|seq| *seq < at.get());
        let stretch: Vec<u64> = stretch.collect();
        assert!(stretch.len() <= most_records.max(1), "{stretch:?}");
        back.extend(stretch.into_iter().rev());
        assert!(start < at, "it goes on");
        at = start;
    }
}

#[test]
fn a_stretch_has_the_records_just_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 1 << 20);
    let head = append(&mut writer, &[100; 10]);
    let reader = Reader::open(dir.path()).unwrap();
    let before = |before: u64, records: usize, bytes: usize| {
        numbers(
            &reader
                .read_before(Seq::new(before), head, records, bytes)
                .unwrap(),
        )
    };
    assert_eq!(before(11, 3, 1 << 20), [8, 9, 10]);
    assert_eq!(before(4, 9, 1 << 20), [1, 2, 3]);
    assert_eq!(before(11, 9, 1), [10], "at least one");
    assert_eq!(before(1, 9, 1 << 20), [0; 0]);
}

#[test]
fn damage_is_told_and_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 1 << 20);
    let head = append(&mut writer, &[100; 6]);
    let path = segment(dir.path(), 1);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("{\"seq\":3,", "{\"sex\":3,")).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(all_back(&reader, head, 2, 1 << 20), [6, 5, 4, 2, 1]);
    let chunks = reader.read_before(Seq::new(5), head, 4, 1 << 20).unwrap();
    let missing: Vec<_> = chunks.iter().filter_map(|chunk| chunk.missing).collect();
    assert_eq!(missing.len(), 1);
    assert_eq!(
        (missing[0].first_seq, missing[0].last_seq),
        (Seq::new(3), Seq::new(3))
    );
}

#[test]
fn a_large_record_becomes_a_stub() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 1 << 20);
    let long = "x".repeat(5_000);
    let line = format!(r#"{{"type":"assistant","uuid":"u","message":"{long}","session_id":"{long}"}}"#);
    for data in [data(1, 50), line.into_bytes(), data(3, 5_000)] {
        writer.push(super::AT, super::Source::Cli, None, &data).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    let chunk = reader
        .read(super::Position::START, writer.head(), 1 << 20)
        .unwrap();
    let whole: Vec<Vec<u8>> = chunk.records().map(|record| record.line.to_vec()).collect();
    assert_eq!(chunk.clone().stubbed(1 << 20), chunk);
    let stubbed = chunk.stubbed(1_024);
    let records: Vec<_> = stubbed.records().collect();
    assert_eq!(records[0].line, whole[0]);
    let stub: serde_json::Value = serde_json::from_slice(records[1].line).unwrap();
    let bytes = whole[1].len();
    let expected = serde_json::json!({"type": "assistant", "uuid": "u", "trunkline.stub": {"bytes": bytes}});
    assert_eq!(stub["data"], expected);
    assert_eq!((&stub["seq"], &stub["src"]), (&2.into(), &"cli".into()));
    assert!(records[2].line.len() < 200, "a text has no member to keep");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn backwards_is_forwards_turned_around(
        sizes in prop::collection::vec(1_usize..400, 1..40),
        segment_bytes in 200_u64..2_000,
        most_records in 1_usize..12,
        most_bytes in 1_usize..3_000,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open(dir.path(), segment_bytes);
        let head = append(&mut writer, &sizes);
        let reader = Reader::open(dir.path()).unwrap();
        let back = all_back(&reader, head, most_records, most_bytes);
        let expected: Vec<u64> = (1..=head.seq.get()).rev().collect();
        prop_assert_eq!(back, expected);
    }
}
