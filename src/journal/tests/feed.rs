//! The feed and its cursors, driven step by step.

use futures_util::FutureExt as _;
use proptest::prelude::*;
use tokio::runtime;

use super::{append, assert_contiguous, numbers, open, push, segment};
use crate::{
    domain::Seq,
    journal::{Chunk, Cursor, Feed, Head, Position, ReadError, Reader, Writer},
};

const NO_LIMIT: usize = 1 << 30;

/// A journal with its one tailing task, which the test plays.
struct Journal {
    dir: tempfile::TempDir,
    writer: Writer,
    reader: Reader,
    feed: Feed,
    read_to: Position,
}

impl Journal {
    fn new(segment_bytes: u64, ring_bytes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let writer = open(dir.path(), segment_bytes);
        Self {
            reader: Reader::open(dir.path()).unwrap(),
            feed: Feed::new(dir.path(), writer.head(), ring_bytes),
            read_to: writer.head().position(),
            writer,
            dir,
        }
    }

    /// Publishes what was written, in chunks of at most `max_bytes`.
    fn publish(&mut self, max_bytes: usize) {
        while let Some(chunk) = self.next_chunk(max_bytes) {
            self.feed.publish(chunk);
        }
        assert_eq!(self.feed.head(), self.writer.head());
    }

    fn next_chunk(&mut self, max_bytes: usize) -> Option<Chunk> {
        let chunk = self
            .reader
            .read(self.read_to, self.writer.head(), max_bytes)
            .unwrap();
        self.read_to = chunk.end;
        (!chunk.is_empty()).then_some(chunk)
    }
}

/// The chunks that the cursor gives without waiting for the feed.
async fn drain(cursor: &mut Cursor, until: Seq, max_bytes: usize) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    while cursor.position() < until {
        let chunk = cursor.next(max_bytes).await.unwrap().unwrap();
        assert!(chunk.bytes.len() <= max_bytes || chunk.first == chunk.last);
        assert_eq!(chunk.last, cursor.position());
        chunks.push(chunk);
    }
    chunks
}

#[tokio::test]
async fn history_from_files_joins_the_ring() {
    let mut journal = Journal::new(500, 1_000);
    append(&mut journal.writer, &[100; 40]);
    journal.publish(NO_LIMIT);
    for after in 0..=40 {
        let mut cursor = journal.feed.cursor(Seq::new(after)).unwrap();
        assert_eq!(cursor.position(), Seq::new(after));
        let chunks = drain(&mut cursor, Seq::new(40), 250).await;
        assert_contiguous(&chunks, Seq::new(after), Seq::new(40));
        assert!(cursor.next(250).now_or_never().is_none());
    }
}

#[tokio::test]
async fn the_ring_alone_serves_what_it_holds_without_a_copy() {
    let mut journal = Journal::new(100_000, 100_000);
    append(&mut journal.writer, &[100; 40]);
    // The first half in chunks of one record.
    journal.publish(1);
    append(&mut journal.writer, &[100; 40]);
    journal.publish(1_000);
    std::fs::remove_file(segment(journal.dir.path(), 1)).unwrap();
    let mut one = journal.feed.cursor(Seq::ZERO).unwrap();
    let mut two = journal.feed.cursor(Seq::ZERO).unwrap();
    let one = drain(&mut one, Seq::new(80), 1_000).await;
    let two = drain(&mut two, Seq::new(80), 1_000).await;
    assert_contiguous(&one, Seq::ZERO, Seq::new(80));
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(one.bytes.as_ptr(), two.bytes.as_ptr());
    }
}

#[tokio::test]
async fn the_ring_is_bounded_in_bytes_whatever_the_records() {
    for sizes in [vec![3; 2_000], vec![2_000; 100], vec![9_000, 50_000, 3]] {
        let mut journal = Journal::new(1 << 30, 10_000);
        let last = Seq::new(sizes.len() as u64);
        for bytes in sizes {
            append(&mut journal.writer, &[bytes]);
            journal.publish(NO_LIMIT);
            assert!(journal.feed.ring_cost() <= 10_000);
        }
        let mut cursor = journal.feed.cursor(Seq::ZERO).unwrap();
        assert_contiguous(&drain(&mut cursor, last, 4_000).await, Seq::ZERO, last);
    }
}

#[tokio::test]
async fn a_number_beyond_the_head_is_refused() {
    let mut journal = Journal::new(500, 1_000);
    append(&mut journal.writer, &[10]);
    let error = journal.feed.cursor(Seq::new(1)).unwrap_err();
    assert!(
        matches!(error, ReadError::Beyond { head: Head::EMPTY }),
        "{error:?}"
    );
    journal.publish(NO_LIMIT);
    journal.feed.cursor(Seq::new(1)).unwrap();
}

#[tokio::test]
async fn what_is_kept_no_more_is_refused_with_the_oldest_number() {
    let mut journal = Journal::new(300, 500);
    append(&mut journal.writer, &[100; 8]);
    journal.publish(NO_LIMIT);
    std::fs::remove_file(segment(journal.dir.path(), 1)).unwrap();
    for after in [0, 1] {
        let error = journal.feed.cursor(Seq::new(after)).unwrap_err();
        assert!(
            matches!(error, ReadError::Compacted { oldest } if oldest == Seq::new(3)),
            "{error:?}"
        );
    }
    let mut cursor = journal.feed.cursor(Seq::new(2)).unwrap();
    let chunks = drain(&mut cursor, Seq::new(8), NO_LIMIT).await;
    assert_contiguous(&chunks, Seq::new(2), Seq::new(8));
}

#[tokio::test]
async fn a_hole_in_the_files_is_told_and_never_silent() {
    let mut journal = Journal::new(300, 500);
    append(&mut journal.writer, &[100; 8]);
    journal.publish(NO_LIMIT);
    let mut cursor = journal.feed.cursor(Seq::ZERO).unwrap();
    std::fs::remove_file(segment(journal.dir.path(), 3)).unwrap();
    let chunk = cursor.next(NO_LIMIT).await.unwrap().unwrap();
    assert_eq!(chunk.last, Seq::new(2));
    let chunk = cursor.next(NO_LIMIT).await.unwrap().unwrap();
    let missing = chunk.missing.unwrap();
    assert_eq!((missing.first_seq.get(), missing.last_seq.get()), (3, 4));
    assert_eq!((chunk.first, chunk.last), (Seq::new(5), Seq::new(6)));
    assert_eq!(cursor.position(), Seq::new(6));
    // Where it has been told it goes on without a word.
    let chunk = cursor.next(NO_LIMIT).await.unwrap().unwrap();
    assert_eq!(
        (chunk.missing, chunk.first, chunk.last),
        (None, Seq::new(7), Seq::new(8))
    );
}

#[tokio::test]
async fn a_waiting_cursor_is_woken_by_a_record_and_by_the_close() {
    let mut journal = Journal::new(10_000, 1_000);
    let mut cursor = journal.feed.cursor(Seq::ZERO).unwrap();
    let (chunk, ()) = tokio::join!(cursor.next(NO_LIMIT), async {
        append(&mut journal.writer, &[10]);
        journal.publish(NO_LIMIT);
    });
    assert_eq!(numbers(&[chunk.unwrap().unwrap()]), [1]);
    let (end, ()) = tokio::join!(cursor.next(NO_LIMIT), async { journal.feed.close() });
    assert_eq!(end.unwrap(), None);
}

#[tokio::test]
async fn a_closed_feed_is_read_to_its_end() {
    let mut journal = Journal::new(10_000, 500);
    append(&mut journal.writer, &[100; 20]);
    journal.publish(NO_LIMIT);
    let mut one = journal.feed.cursor(Seq::new(3)).unwrap();
    journal.feed.close();
    let mut two = journal.feed.cursor(Seq::new(19)).unwrap();
    assert_contiguous(
        &drain(&mut one, Seq::new(20), 300).await,
        Seq::new(3),
        Seq::new(20),
    );
    assert_contiguous(
        &drain(&mut two, Seq::new(20), 300).await,
        Seq::new(19),
        Seq::new(20),
    );
    assert_eq!(one.next(300).await.unwrap(), None);
    assert_eq!(two.next(300).await.unwrap(), None);
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_feed() {
    let mut journal = Journal::new(10_000, 500);
    append(&mut journal.writer, &[100; 20]);
    journal.publish(NO_LIMIT);
    let mut cursor = journal.feed.cursor(Seq::ZERO).unwrap();
    let handle = journal.feed.clone();
    drop(journal.feed);
    assert_contiguous(
        &drain(&mut cursor, Seq::new(20), 300).await,
        Seq::ZERO,
        Seq::new(20),
    );
    assert!(cursor.next(300).now_or_never().is_none());
    drop(handle);
    assert_eq!(cursor.next(300).await.unwrap(), None);
}

#[tokio::test]
async fn a_chunk_published_twice_or_ahead_gives_no_double_and_no_gap() {
    let mut journal = Journal::new(10_000, 100_000);
    append(&mut journal.writer, &[100; 10]);
    let record = usize::try_from(journal.writer.head().offset / 10).unwrap();
    let chunks: Vec<_> = std::iter::from_fn(|| journal.next_chunk(3 * record)).collect();
    assert_eq!(chunks.len(), 4);
    let all = journal
        .reader
        .read(Position::START, journal.writer.head(), NO_LIMIT)
        .unwrap();
    // 1-3, then 7-9 ahead of its time, then 4-6 too late, then 1-10 again.
    for chunk in [&chunks[0], &chunks[2], &chunks[1], &chunks[0], &all] {
        let mut cursor = journal.feed.cursor(journal.feed.head().seq).unwrap();
        let before = cursor.position();
        journal.feed.publish(chunk.clone());
        let head = journal.feed.head();
        assert_eq!(head.seq, chunk.last.max(before));
        assert_eq!(head.position(), journal.reader.position_after(head.seq).unwrap());
        assert_contiguous(&drain(&mut cursor, head.seq, 500).await, before, head.seq);
        let mut cursor = journal.feed.cursor(Seq::ZERO).unwrap();
        assert_contiguous(&drain(&mut cursor, head.seq, 500).await, Seq::ZERO, head.seq);
    }
    assert_eq!(journal.feed.head(), journal.writer.head());
}

#[derive(Clone, Debug)]
enum Step {
    /// Writes a batch of records of these sizes.
    Append(Vec<usize>),
    /// The tailing task reads and publishes all, in chunks of at most so many bytes.
    Publish(usize),
    /// A cursor attaches, this far into what is published.
    Attach(prop::sample::Index),
    /// A cursor reads one chunk.
    Read(prop::sample::Index, usize),
    /// A cursor's read is dropped after one poll.
    Cancel(prop::sample::Index, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![4 => 3..200_usize, 1 => 1_000..9_000_usize];
    let max_bytes = || prop_oneof![0..600_usize, 5_000..20_000_usize];
    prop_oneof![
        3 => proptest::collection::vec(bytes, 1..6).prop_map(Step::Append),
        3 => max_bytes().prop_map(Step::Publish),
        2 => any::<prop::sample::Index>().prop_map(Step::Attach),
        4 => (any::<prop::sample::Index>(), max_bytes()).prop_map(|(who, max)| Step::Read(who, max)),
        1 => (any::<prop::sample::Index>(), max_bytes()).prop_map(|(who, max)| Step::Cancel(who, max)),
    ]
}

struct Client {
    cursor: Cursor,
    after: Seq,
    seen: Vec<Chunk>,
}

impl Client {
    fn take(&mut self, chunk: Option<Chunk>) {
        self.seen.extend(chunk);
    }
}

proptest! {
    #[test]
    fn any_interleaving_gives_every_cursor_each_record_once(
        steps in proptest::collection::vec(step(), 1..60),
        segment_bytes in 1..5_000_u64,
        ring_bytes in prop_oneof![Just(0), 200..3_000_usize, Just(1_000_000)],
    ) {
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut journal = Journal::new(segment_bytes, ring_bytes);
            let mut clients: Vec<Client> = Vec::new();
            for step in steps {
                match step {
                    Step::Append(sizes) => {
                        for bytes in sizes {
                            push(&mut journal.writer, bytes);
                        }
                        journal.writer.commit().unwrap();
                    }
                    Step::Publish(max_bytes) => journal.publish(max_bytes),
                    Step::Attach(index) => {
                        let published = usize::try_from(journal.feed.head().seq.get()).unwrap();
                        let after = Seq::new(index.index(published + 1) as u64);
                        let cursor = journal.feed.cursor(after).unwrap();
                        clients.push(Client { cursor, after, seen: Vec::new() });
                    }
                    Step::Read(index, max_bytes) if !clients.is_empty() => {
                        let client = index.get_mut(&mut clients);
                        if client.cursor.position() < journal.feed.head().seq {
                            let chunk = client.cursor.next(max_bytes).await.unwrap();
                            client.take(chunk);
                        }
                    }
                    Step::Cancel(index, max_bytes) if !clients.is_empty() => {
                        let client = index.get_mut(&mut clients);
                        if let Some(chunk) = client.cursor.next(max_bytes).now_or_never() {
                            client.take(chunk.unwrap());
                        }
                    }
                    Step::Read(..) | Step::Cancel(..) => {}
                }
            }
            journal.publish(NO_LIMIT);
            journal.feed.close();
            let head = journal.feed.head().seq;
            for client in &mut clients {
                while let Some(chunk) = client.cursor.next(1_000).await.unwrap() {
                    client.take(Some(chunk));
                }
                assert_contiguous(&client.seen, client.after, head);
            }
        });
    }
}
