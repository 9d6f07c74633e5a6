//! Real concurrency: a writer on a thread of its own, a tailing task, and clients that attach at random moments.

use std::{path::Path, thread, time::Duration};

use tokio::{sync::watch, task::JoinSet, time::timeout};

use super::{data, open, push};
use crate::{
    domain::Seq,
    journal::{Chunk, Feed, Head, Position, Reader},
};

const DEADLINE: Duration = Duration::from_secs(60);

fn random(below: u64) -> u64 {
    getrandom::u64().unwrap() % below
}

fn random_size(below: u64) -> usize {
    usize::try_from(random(below)).unwrap()
}

/// Writes `records` records in random batches and tells each head; mostly small ones, now and then a large one.
fn write(dir: &Path, records: u64, segment_bytes: u64, heads: &watch::Sender<Head>) {
    let mut writer = open(dir, segment_bytes);
    let mut left = records;
    while left > 0 {
        let batch = (1 + random(30)).min(left);
        left -= batch;
        for _ in 0..batch {
            let large = random(200) == 0;
            push(&mut writer, if large { 70_000 } else { 50 + random_size(400) });
        }
        heads.send_replace(writer.commit().unwrap());
    }
}

/// Does as the daemon: reads on at each new head and publishes.
async fn tail(dir: &Path, feed: &Feed, mut heads: watch::Receiver<Head>) {
    let reader = Reader::open(dir).unwrap();
    let mut at = feed.head().position();
    loop {
        let ended = heads.changed().await.is_err();
        let head = *heads.borrow_and_update();
        while at != head.position() {
            let chunk = reader.read(at, head, 256 * 1024).unwrap();
            at = chunk.end;
            feed.publish(chunk);
        }
        if ended {
            return feed.close();
        }
    }
}

/// The records follow `last`, each is whole and the right one. Gives the new last one.
fn check(chunk: &Chunk, last: Seq) -> Seq {
    let mut last = last;
    for record in chunk.records() {
        assert_eq!(record.seq, last.next());
        assert_eq!(record.data, data(record.seq.get(), record.data.len()));
        last = record.seq;
    }
    assert_eq!(chunk.last, last);
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_attach_at_any_moment_see_every_record_once() {
    const RECORDS: u64 = 20_000;
    const CLIENTS: u64 = 60;
    let dir = tempfile::tempdir().unwrap();
    let (heads, seen_heads) = watch::channel(Head::EMPTY);
    let feed = Feed::new(dir.path(), Head::EMPTY, 100_000);

    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let feed = feed.clone();
        let mut heads = seen_heads.clone();
        clients.spawn(async move {
            let moment = if number == 0 { RECORDS } else { random(RECORDS) };
            let _ = heads.wait_for(|head| head.seq.get() >= moment).await;
            let published = feed.head().seq.get();
            let after = [0, random(published + 1), published][random_size(3)];
            let mut cursor = feed.cursor(Seq::new(after)).unwrap();
            // A handle of a client's own must not keep the feed open.
            drop(feed);
            if number % 10 == 0 {
                // This one does not read until everything is written.
                let _ = heads.wait_for(|head| head.seq.get() == RECORDS).await;
            }
            let mut last = Seq::new(after);
            while let Some(chunk) = cursor.next(1 + random_size(100_000)).await.unwrap() {
                last = check(&chunk, last);
            }
            assert_eq!(last.get(), RECORDS);
        });
    }
    let path = dir.path().to_owned();
    let writer = thread::spawn(move || write(&path, RECORDS, 300_000, &heads));
    timeout(DEADLINE, tail(dir.path(), &feed, seen_heads))
        .await
        .unwrap();
    timeout(DEADLINE, async {
        while let Some(client) = clients.join_next().await {
            client.unwrap();
        }
    })
    .await
    .unwrap();
    writer.join().unwrap();
    assert_eq!(feed.head().seq.get(), RECORDS);
}

#[test]
fn a_reader_that_is_told_nothing_sees_only_whole_records() {
    const RECORDS: u64 = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let (heads, _) = watch::channel(Head::EMPTY);
    let path = dir.path().to_owned();
    let writer = thread::spawn(move || write(&path, RECORDS, 150_000, &heads));

    let reader = Reader::open(dir.path()).unwrap();
    let mut last = Seq::ZERO;
    let mut at = Position::START;
    while last.get() < RECORDS {
        // Looked at before the head: a writer that died early ends the test.
        let ended = writer.is_finished();
        let head = reader.head().unwrap();
        assert!(head.seq >= last);
        assert!(
            !ended || head.seq.get() == RECORDS,
            "the writer ended at {}",
            head.seq
        );
        while at != head.position() {
            let chunk = reader.read(at, head, 1 + random_size(100_000)).unwrap();
            last = check(&chunk, last);
            at = chunk.end;
        }
        if head.seq > Seq::ZERO {
            let seq = Seq::new(random(head.seq.get()));
            let place = reader.position_after(seq).unwrap();
            check(&reader.read(place, head, 1_000).unwrap(), seq);
        }
    }
    writer.join().unwrap();
}
