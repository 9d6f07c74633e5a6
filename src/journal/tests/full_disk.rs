//! The writer on a disk that fills up in the middle of a batch.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use proptest::prelude::*;

use super::{append, assert_contiguous, open, push, read_all, segment};
use crate::{
    domain::Seq,
    journal::{CommitError, Position, Reader, Writer, storage::Storage},
};

/// A file that takes no byte from `room` on, and at most `largest` bytes in one write.
#[derive(Clone, Debug)]
struct Disk {
    file: Arc<File>,
    room: Arc<AtomicU64>,
    largest: usize,
    cuts_fail: Arc<AtomicBool>,
    writes: Arc<AtomicU64>,
}

impl Disk {
    fn under(writer: &mut Writer, dir: &Path, room: u64, largest: usize) -> Self {
        let path = segment(dir, writer.head().segment.get());
        let disk = Self {
            file: Arc::new(OpenOptions::new().write(true).open(path).unwrap()),
            room: Arc::new(AtomicU64::new(room)),
            largest,
            cuts_fail: Arc::default(),
            writes: Arc::default(),
        };
        writer.replace_file(Box::new(disk.clone()));
        disk
    }
}

impl Storage for Disk {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.writes.fetch_add(1, Relaxed);
        let room = usize::try_from(self.room.load(Relaxed).saturating_sub(offset)).unwrap();
        let taken = bytes.len().min(room).min(self.largest);
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Storage::write_at(&*self.file, &bytes[..taken], offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        if self.cuts_fail.load(Relaxed) {
            return Err(io::ErrorKind::Other.into());
        }
        self.file.set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[test]
fn a_batch_is_one_write_and_a_short_one_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 1_000_000);
    let disk = Disk::under(&mut writer, dir.path(), u64::MAX, 10_000);
    for _ in 0..50 {
        push(&mut writer, 100);
    }
    assert!(writer.pending_bytes() < 10_000);
    writer.commit().unwrap();
    assert_eq!(disk.writes.load(Relaxed), 1);

    append(&mut writer, &[25_000]);
    assert_eq!(disk.writes.load(Relaxed), 4);
    assert_contiguous(&read_all(dir.path(), Position::START, 1), Seq::ZERO, Seq::new(51));
}

proptest! {
    #[test]
    fn a_full_disk_loses_no_record_and_leaves_no_half(
        before in 0..3_usize,
        batch in 1..6_usize,
        room in 0..700_u64,
        largest in 1..700_usize,
        cuts_fail in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open(dir.path(), 1_000_000);
        append(&mut writer, &vec![20; before]);
        let room = writer.head().offset + room;
        let disk = Disk::under(&mut writer, dir.path(), room, largest);
        disk.cuts_fail.store(cuts_fail, Relaxed);
        for _ in 0..batch {
            push(&mut writer, 20);
        }
        let all = writer.head().offset + writer.pending_bytes() as u64;
        let record_bytes = all / (before + batch) as u64;
        let reader = Reader::open(dir.path()).unwrap();
        let last = Seq::new((before + batch) as u64);

        if room < all {
            for _ in 0..2 {
                let error = writer.commit().unwrap_err();
                prop_assert!(matches!(&error, CommitError::Write(_)), "{error:?}");
                // Records that a reader may have seen stay, and its head is the writer's.
                prop_assert_eq!(reader.head().unwrap(), writer.head());
                prop_assert_eq!(all, writer.head().offset + writer.pending_bytes() as u64);
                prop_assert!(writer.head().offset <= room);
                prop_assert!(room - writer.head().offset < record_bytes);
                if !cuts_fail {
                    let file_bytes = disk.file.metadata().unwrap().len();
                    prop_assert_eq!(file_bytes, writer.head().offset);
                }
            }
        }
        disk.room.store(u64::MAX, Relaxed);
        disk.cuts_fail.store(false, Relaxed);
        push(&mut writer, 20);
        let head = writer.commit().unwrap();
        prop_assert_eq!(head.seq, last.next());
        prop_assert_eq!(reader.head().unwrap(), head);
        prop_assert_eq!(disk.file.metadata().unwrap().len(), head.offset);
        assert_contiguous(&read_all(dir.path(), Position::START, 1), Seq::ZERO, head.seq);
    }
}

#[test]
fn a_segment_that_cannot_be_begun_keeps_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = open(dir.path(), 100);
    append(&mut writer, &[100]);
    std::fs::create_dir(segment(dir.path(), 2)).unwrap();
    push(&mut writer, 100);
    for _ in 0..2 {
        let error = writer.commit().unwrap_err();
        assert!(
            matches!(&error, CommitError::Rotate { segment, .. } if segment.get() == 2),
            "{error:?}"
        );
        assert_eq!(writer.head().seq, Seq::new(1));
    }
    std::fs::remove_dir(segment(dir.path(), 2)).unwrap();
    assert_eq!(writer.commit().unwrap().seq, Seq::new(2));
    assert_contiguous(&read_all(dir.path(), Position::START, 1), Seq::ZERO, Seq::new(2));
}
