//! Many writers and readers at once, and a disk that is full.

use std::time::Duration;

use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::task::JoinSet;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn results_and_edits_at_once_meet_no_lock_and_lose_nothing() {
    const SESSIONS: u64 = 30;
    const TURNS: u64 = 20;
    const EDITS: i64 = 200;
    let test = TestStore::new().await;
    let mut ids = Vec::new();
    for _ in 0..SESSIONS {
        ids.push(test.session().await);
    }
    let mut tasks = JoinSet::new();
    for &id in &ids {
        let store = test.store.clone();
        tasks.spawn(async move {
            for number in 1..=TURNS {
                // Each result reads before it writes, as a daemon that computes a difference does.
                let before = store.session(id).await?.unwrap();
                assert_eq!(before.turns, number - 1);
                store
                    .apply(vec![projection(
                        id,
                        number,
                        vec![ended(turn(number, Some(0.01)))],
                    )])
                    .await?;
            }
            Ok::<_, StoreError>(())
        });
    }
    for &id in &ids[..5] {
        let store = test.store.clone();
        tasks.spawn(async move {
            for edit in 0..EDITS / 5 {
                let patch = MetaPatch {
                    title: Some(Some(format!("title {edit}"))),
                    ..MetaPatch::default()
                };
                store.update_meta(id, patch, at(edit)).await?;
                store
                    .sessions(SessionFilter::default(), PageRequest::default())
                    .await?;
            }
            Ok(())
        });
    }
    for outcome in tasks.join_all().await {
        outcome.unwrap();
    }
    for &id in &ids {
        let row = test.row(id).await;
        assert_eq!((row.turns, row.cost_usd), (TURNS, usd(0.2)));
    }
    assert_eq!(test.row(ids[0]).await.title.as_deref(), Some("title 39"));
}

#[tokio::test]
async fn a_short_lock_of_another_program_is_waited_for() {
    let test = TestStore::new().await;
    let id = test.session().await;
    let mut shell = SqliteConnectOptions::new()
        .filename(test.path())
        .connect()
        .await
        .unwrap();
    let lock = shell.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let write = test
        .store
        .apply(vec![projection(id, 1, vec![ended(turn(1, Some(0.1)))])]);
    tokio::pin!(write);
    let early = tokio::time::timeout(Duration::from_millis(100), &mut write).await;
    assert!(early.is_err(), "the lock is held");
    test.row(id).await;
    lock.rollback().await.unwrap();
    write.await.unwrap();
    assert_eq!(test.row(id).await.turns, 1);
}

#[tokio::test]
async fn every_connection_has_the_pragmas() {
    let test = TestStore::new().await;
    test.store.close().await;
    let opened = connect::open(&test.path()).await.unwrap();
    let mut writer = opened.writer;
    assert_eq!(
        pragmas(&mut writer).await,
        ("wal".to_owned(), 1, 5_000, 1, 16 << 20, 0)
    );
    // All readers at once, so that each is another connection.
    let mut readers = Vec::new();
    for _ in 0..opened.readers.options().get_max_connections() {
        readers.push(opened.readers.acquire().await.unwrap());
    }
    assert!(readers.len() > 1);
    for reader in &mut readers {
        assert_eq!(
            pragmas(reader).await,
            ("wal".to_owned(), 1, 5_000, 1, 16 << 20, 1)
        );
        let refused = sqlx::query("DELETE FROM sessions").execute(&mut **reader).await;
        assert!(refused.is_err(), "readers cannot write");
    }
}

/// Journal mode, synchronous, busy timeout, foreign keys, journal size limit and query-only.
async fn pragmas(connection: &mut SqliteConnection) -> (String, i64, i64, i64, i64, i64) {
    sqlx::query_as(
        "SELECT (SELECT journal_mode FROM pragma_journal_mode), (SELECT synchronous FROM pragma_synchronous),
            (SELECT timeout FROM pragma_busy_timeout), (SELECT foreign_keys FROM pragma_foreign_keys),
            (SELECT journal_size_limit FROM pragma_journal_size_limit), (SELECT query_only FROM pragma_query_only)",
    )
    .fetch_one(connection)
    .await
    .unwrap()
}

#[tokio::test]
async fn a_full_disk_fails_the_write_and_not_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trunkline.db");
    let opened = connect::open(&path).await.unwrap();
    // A limit on the file's pages stands in for the disk.
    let limited = opened.writer_options.pragma("max_page_count", "200");
    opened.writer.close().await.unwrap();
    let tasks = TaskTracker::new();
    let connection = limited.connect().await.unwrap();
    let writer = Writer::start(
        connection,
        limited,
        (Arc::new(path), SessionFiles::unchanged()),
        &tasks,
    );
    let insert = async |options: String| {
        let mut session = new_session();
        session.options = options;
        let id = session.id;
        writer
            .run(Edit::InsertSession(Box::new(session)))
            .await
            .map(|_| id)
    };
    let small = insert("{}".to_owned()).await.unwrap();
    for attempt in 0..3 {
        let outcome = insert("x".repeat(2 << 20)).await;
        assert!(matches!(outcome, Err(StoreError::Full)), "{attempt}: {outcome:?}");
        insert("{}".to_owned()).await.unwrap();
    }
    assert!(writer.run(Edit::DeleteSession(small.to_string())).await.unwrap());
    assert_eq!(opened.readers.acquire().await.map(|_| ()).ok(), Some(()));
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM sessions")
        .fetch_one(&opened.readers)
        .await
        .unwrap();
    assert_eq!(count, 3);
    writer.close().await;
}

#[tokio::test]
async fn one_bad_edit_of_a_batch_leaves_the_others_alone() {
    let test = TestStore::new().await;
    let mut orphan = new_session();
    orphan.parent = Some(SessionId::new());
    let (one, two) = (new_session(), new_session());
    let (first, second) = (one.id, two.id);
    // Asked for at once, so that they wait in the queue together.
    let (one, refused, two) = tokio::join!(
        test.store.insert_session(one),
        test.store.insert_session(orphan),
        test.store.insert_session(two),
    );
    one.unwrap();
    two.unwrap();
    assert!(matches!(refused, Err(StoreError::UnknownSession(_))));
    let test = test.reopen().await;
    test.row(first).await;
    test.row(second).await;
    assert_eq!(test.number("SELECT count(*) FROM sessions").await, 2);
}
