//! The file: who may read it, what opens it, and what the store says when it cannot.

use std::{os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use sqlx::{ConnectOptions, Connection, migrate::Migrator, sqlite::SqliteConnectOptions};

use super::*;
use crate::store::connect::MIGRATIONS;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs `sql` as another program would.
async fn outside(path: &Path, sql: &'static str) {
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    let test = TestStore::new().await;
    test.session().await;
    for file in ["trunkline.db", "trunkline.db-wal", "trunkline.db-shm"] {
        assert_eq!(mode(&test.dir.path().join(file)), 0o600, "{file}");
    }
    test.store.close().await;
    set_mode(&test.path(), 0o644);
    let store = Store::open(&test.path()).await.unwrap();
    assert_eq!(mode(&test.path()), 0o600);
    store.close().await;
}

#[tokio::test]
async fn a_read_only_file_is_named_as_such() {
    let test = TestStore::new().await;
    test.store.close().await;
    set_mode(&test.path(), 0o400);
    let refused = Store::open(&test.path()).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
    set_mode(&test.path(), 0o600);
    Store::open(&test.path()).await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn a_probe_notices_what_happens_to_the_file() {
    let test = TestStore::new().await;
    test.store.ping().await.unwrap();
    set_mode(&test.path(), 0o400);
    assert!(matches!(
        test.store.ping().await,
        Err(StoreError::ReadOnly { .. })
    ));
    set_mode(&test.path(), 0o600);
    test.store.ping().await.unwrap();

    std::fs::rename(test.path(), test.dir.path().join("elsewhere")).unwrap();
    assert!(matches!(test.store.ping().await, Err(StoreError::Moved { .. })));
    std::fs::write(test.path(), "").unwrap();
    assert!(matches!(test.store.ping().await, Err(StoreError::Moved { .. })));
}

#[tokio::test]
async fn what_is_no_database_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = dir.path().join("garbage.db");
    std::fs::write(
        &garbage,
        "this is a text and no database, and long enough to tell. ".repeat(100),
    )
    .unwrap();
    for path in [
        garbage.as_path(),
        dir.path(),
        &dir.path().join("missing/trunkline.db"),
    ] {
        let refused = Store::open(path).await;
        assert!(
            matches!(&refused, Err(StoreError::Open { path: named, .. }) if named == path),
            "{refused:?}"
        );
    }
    assert!(
        std::fs::read_to_string(&garbage)
            .unwrap()
            .starts_with("this is a text")
    );
}

#[tokio::test]
async fn a_schema_from_the_future_is_left_alone() {
    let test = TestStore::new().await;
    test.session().await;
    test.store.close().await;
    outside(
        &test.path(),
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (999, 'from the future', TRUE, x'00', 0)",
    )
    .await;
    let refused = Store::open(&test.path()).await;
    assert!(
        matches!(refused, Err(StoreError::NewerSchema { found: 999, known }) if known < 999),
        "{refused:?}"
    );
}

#[tokio::test]
async fn opening_again_keeps_everything() {
    let test = TestStore::new().await;
    let id = test
        .session_with(|session| session.title = Some("kept".to_owned()))
        .await;
    test.project(id, 3, vec![ended(turn(1, Some(0.1)))]).await;
    let before = test.row(id).await;
    let test = test.reopen().await.reopen().await;
    assert_eq!(test.row(id).await, before);
}

#[tokio::test]
async fn closing_writes_what_waits_and_refuses_what_comes_later() {
    let test = TestStore::new().await;
    let session = new_session();
    let id = session.id;
    let (inserted, ()) = tokio::join!(test.store.insert_session(session), test.store.close());
    inserted.unwrap();
    assert!(
        !test.dir.path().join("trunkline.db-wal").exists(),
        "the log is folded into the file"
    );
    assert!(matches!(test.store.session(id).await, Err(StoreError::Closed)));
    assert!(matches!(
        test.store.delete_session(id).await,
        Err(StoreError::Closed)
    ));
    test.store.close().await;
    let test = test.reopen().await;
    test.row(id).await;
}

#[tokio::test]
async fn an_unreadable_value_is_named_by_its_column() {
    let test = TestStore::new().await;
    let id = test.session().await;
    outside(&test.path(), "UPDATE sessions SET state = 'dancing'").await;
    let read = test.store.session(id).await;
    let named = StoreError::Corrupt {
        table: "sessions",
        column: "state",
    };
    assert_eq!(read.unwrap_err().to_string(), named.to_string());
}

#[test]
fn errors_say_what_is_wrong_and_leave_the_source_to_the_chain() {
    let path = PathBuf::from("/data/trunkline.db");
    let id = SessionId::from_uuid(uuid::Uuid::nil());
    let database: Arc<sqlx::Error> = Arc::new(sqlx::Error::WorkerCrashed);
    let errors = [
        StoreError::Open {
            path: path.clone(),
            source: database.clone(),
        },
        StoreError::ReadOnly { path: path.clone() },
        StoreError::Moved { path },
        StoreError::Full,
        StoreError::Locked,
        StoreError::NewerSchema { found: 9, known: 1 },
        StoreError::Migrate(Arc::new(sqlx::migrate::MigrateError::Dirty(1))),
        StoreError::UnknownSession(id),
        StoreError::SessionExists(id),
        StoreError::BadCursor,
        StoreError::Corrupt {
            table: "turns",
            column: "number",
        },
        StoreError::Closed,
        StoreError::Database(database),
    ];
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    cannot open the database /data/trunkline.db
    the database /data/trunkline.db is read-only
    the database /data/trunkline.db was moved or deleted while in use
    no space left for the database
    another program holds the database locked
    the database has schema version 9, this program knows versions up to 1
    cannot migrate the database
    no session 00000000-0000-0000-0000-000000000000
    session 00000000-0000-0000-0000-000000000000 exists already
    the cursor is not one of this list
    the database holds an unreadable value in turns.number
    the store is closed
    the database failed
    ");
}

/// The rows of the first version say how each approval ended; nothing is lost and nothing is made up.
#[tokio::test]
async fn approvals_of_the_first_version_join_the_audit_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trunkline.db");
    let options = SqliteConnectOptions::new().filename(&path);
    let mut old = options
        .create_if_missing(true)
        .foreign_keys(false)
        .connect()
        .await
        .unwrap();
    let first = MIGRATIONS
        .iter()
        .filter(|migration| migration.version == 1)
        .cloned();
    Migrator::with_migrations(first.collect())
        .run(&mut old)
        .await
        .unwrap();
    for (number, state, by) in [
        (1, "pending", None),
        (2, "allowed", Some("rest")),
        (3, "withdrawn", Some("cli")),
        (4, "abandoned", Some("daemon")),
    ] {
        let id = format!("0196aa00-0000-7000-8000-00000000000{number}");
        sqlx::query(
            "INSERT INTO approvals (id, session_id, run_id, seq, request_id, kind, tool_name, request, requested_at,
                state, resolved_by, resolved_at) VALUES (?1, ?1, ?1, ?2, 'r', 'tool', 'Bash', '{}', ?2, ?3, ?4, 9)",
        )
        .bind(id)
        .bind(number)
        .bind(state)
        .bind(by)
        .execute(&mut old)
        .await
        .unwrap();
    }
    old.close().await.unwrap();
    let store = Store::open(&path).await.unwrap();
    let rows = store
        .approvals(ApprovalFilter::default(), PageRequest::default())
        .await
        .unwrap()
        .items;
    let hows: Vec<_> = rows
        .iter()
        .map(|row| row.resolution.as_ref().map(|end| end.how))
        .collect();
    assert_eq!(
        hows,
        [
            Some(ApprovalHow::Abandonment),
            Some(ApprovalHow::Withdrawal),
            Some(ApprovalHow::Person),
            None
        ]
    );
    for row in rows {
        assert_eq!(
            (row.approval.subject.as_str(), row.approval.input_sha256),
            ("Bash", None)
        );
    }
    store.close().await;
}

#[tokio::test]
async fn a_deletion_leaves_no_trace_in_the_file() {
    const SECRET: &str = "a-secret-of-a-session";
    let test = TestStore::new().await;
    for number in 0..50 {
        let id = test
            .session_with(|session| {
                let filler = "x".repeat(number * 100);
                session.options = format!(r#"{{"env":{{"KEY":"{SECRET}","FILLER":"{filler}"}}}}"#);
            })
            .await;
        test.store.delete_session(id).await.unwrap();
    }
    test.store.close().await;
    let bytes = std::fs::read(test.path()).unwrap();
    assert!(memchr::memmem::find(&bytes, SECRET.as_bytes()).is_none());
    assert!(!test.dir.path().join("trunkline.db-wal").exists());
}

#[tokio::test]
async fn a_database_without_a_table_is_blank() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trunkline.db");
    assert_eq!(Store::blank(&path).unwrap(), Some(Blank::Missing));
    std::fs::write(&path, "").unwrap();
    assert_eq!(Store::blank(&path).unwrap(), Some(Blank::Empty));
    outside(&path, "PRAGMA user_version = 1").await;
    assert!(path.metadata().unwrap().len() > 0);
    assert_eq!(Store::blank(&path).unwrap(), Some(Blank::Empty));
    let store = Store::open(&path).await.unwrap();
    assert_eq!(Store::blank(&path).unwrap(), None);
    store.close().await;
    assert_eq!(Store::blank(&path).unwrap(), None);
    std::fs::write(&path, "no database").unwrap();
    assert_eq!(Store::blank(&path).unwrap(), None, "it has an error of its own");
}
