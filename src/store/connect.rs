//! Owns how the database file is opened: permissions, the pragmas of every connection, and migrations.

use std::{
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sqlx::{
    ConnectOptions, Connection, SqliteConnection, SqlitePool,
    migrate::{MigrateError, Migrator},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{StoreError, error};
use crate::files;

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!();

/// How long a connection waits for another program's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that the write-ahead log is cut back to after a checkpoint.
const WAL_LIMIT_BYTES: u32 = 16 << 20;
/// Connections that read. Reads are short, so a few are enough; each is a thread.
const READERS: u32 = 4;
/// Rows of an index that closing may look at to keep its statistics, so that it stays quick.
const ANALYSIS_LIMIT: u32 = 400;
/// The mode of the file: its owner alone may read it. SQLite gives its side files the same mode.
const FILE_MODE: u32 = 0o600;

/// The parts of an open database.
pub(super) struct Opened {
    pub(super) writer: SqliteConnection,
    pub(super) writer_options: SqliteConnectOptions,
    pub(super) readers: SqlitePool,
    pub(super) identity: Identity,
}

/// Opens and migrates the database.
pub(super) async fn open(path: &Path) -> Result<Opened, StoreError> {
    refuse_special_files(path)?;
    refuse_foreign(path).await?;
    let identity = Identity::prepare(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .pragma("journal_size_limit", WAL_LIMIT_BYTES.to_string())
        // Deleted content may be secret: none of it stays in the room that becomes free.
        .pragma("secure_delete", "ON")
        .disable_statement_logging();

    let writer_options = options.clone().optimize_on_close(true, ANALYSIS_LIMIT);
    let mut writer = writer_options
        .connect()
        .await
        .map_err(|error| open_error(error, path))?;
    if let Err(error) = MIGRATIONS.run(&mut writer).await {
        // The failure to report is the first one.
        drop(writer.close().await);
        return Err(migrate_error(error, path));
    }

    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .test_before_acquire(false)
        .connect_lazy_with(options.pragma("query_only", "ON"));
    Ok(Opened {
        writer,
        writer_options,
        readers,
        identity,
    })
}

/// Looks at the database as [`open`] would use it, and changes nothing. One that is not there is fine.
pub(super) async fn look(path: &Path) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    files::check(path).map_err(|source| StoreError::Open {
        path: path.to_path_buf(),
        source: Arc::new(source),
    })?;
    let options = to_look(path);
    let mut database = options.connect().await.map_err(|error| open_error(error, path))?;
    let looked = look_inside(&mut database, path).await;
    drop(database.close().await);
    looked
}

/// How a database is looked at that is not changed.
fn to_look(path: &Path) -> SqliteConnectOptions {
    // Without a log the file is whole, and nothing need be made beside it.
    let has_log = side_file(path, "-wal").metadata().is_ok_and(|log| log.len() > 0);
    SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .immutable(!has_log)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

/// Refuses the database of another program, before anything of it is changed. All else that may be wrong with the file is for
/// who opens it.
async fn refuse_foreign(path: &Path) -> Result<(), StoreError> {
    if !path.is_file() {
        return Ok(());
    }
    let Ok(mut database) = to_look(path).connect().await else {
        return Ok(());
    };
    let is_foreign = is_foreign(&mut database).await;
    drop(database.close().await);
    match is_foreign {
        Ok(true) => Err(StoreError::Foreign {
            path: path.to_path_buf(),
        }),
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Whether there are tables, and none of them says what we have done to the database.
async fn is_foreign(database: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema) \
            AND NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_sqlx_migrations')",
    )
    .fetch_one(database)
    .await
}

async fn look_inside(database: &mut SqliteConnection, path: &Path) -> Result<(), StoreError> {
    let of_query = |error| open_error(error, path);
    if is_foreign(database).await.map_err(of_query)? {
        return Err(StoreError::Foreign {
            path: path.to_path_buf(),
        });
    }
    let has_schema: Option<i64> =
        sqlx::query_scalar("SELECT 1 FROM sqlite_schema WHERE name = '_sqlx_migrations'")
            .fetch_optional(&mut *database)
            .await
            .map_err(of_query)?;
    if has_schema.is_none() {
        return Ok(());
    }
    let found: i64 = sqlx::query_scalar("SELECT ifnull(max(version), 0) FROM _sqlx_migrations")
        .fetch_one(&mut *database)
        .await
        .map_err(of_query)?;
    let known = newest_known();
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    let verdict: String = sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_one(database)
        .await
        .map_err(of_query)?;
    if verdict == "ok" {
        return Ok(());
    }
    Err(StoreError::Damaged {
        path: path.to_path_buf(),
        verdict,
    })
}

/// A database without content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blank {
    /// There is no file.
    Missing,
    /// The file has no table.
    Empty,
}

impl Blank {
    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Empty => "empty",
        }
    }
}

/// Where the header of a database counts the changes of its schema: 4 bytes, zero before the first table.
const SCHEMA_COOKIE: std::ops::Range<usize> = 40..44;

/// Whether the file is there and holds something. The file is not changed.
pub(super) fn blank(path: &Path) -> io::Result<Option<Blank>> {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Blank::Missing)),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() {
        // It has an error of its own.
        return Ok(None);
    }
    // SQLite does not look at the log of an empty file.
    if metadata.len() == 0 {
        return Ok(Some(Blank::Empty));
    }
    let log = side_file(path, "-wal").metadata().map_or(0, |log| log.len());
    let mut header = [0; SCHEMA_COOKIE.end];
    let mut options = std::fs::OpenOptions::new();
    let mut file = files::open(path, options.read(true))?;
    let is_blank = log == 0
        && io::Read::read_exact(&mut file, &mut header).is_ok()
        && header.starts_with(b"SQLite format 3\0")
        && header.get(SCHEMA_COOKIE) == Some([0; 4].as_slice());
    Ok(is_blank.then_some(Blank::Empty))
}

/// SQLite opens these files by itself, and would wait for who writes into a FIFO.
fn refuse_special_files(path: &Path) -> Result<(), StoreError> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let side = side_file(path, suffix);
        files::check(&side).map_err(|source| StoreError::Open {
            path: side,
            source: Arc::new(source),
        })?;
    }
    Ok(())
}

/// A file that SQLite keeps beside the database.
fn side_file(path: &Path, suffix: &str) -> PathBuf {
    let mut side = path.as_os_str().to_owned();
    side.push(suffix);
    PathBuf::from(side)
}

/// Which file is open, to notice when the path names another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Makes the file when it is not there, and takes it away from everybody but its owner.
    fn prepare(path: &Path) -> Result<Self, StoreError> {
        let failed = |source: io::Error| StoreError::Open {
            path: path.to_path_buf(),
            source: Arc::new(source),
        };
        if let Ok(metadata) = path.metadata()
            && metadata.permissions().readonly()
        {
            return Err(StoreError::ReadOnly {
                path: path.to_path_buf(),
            });
        }
        let mut options = std::fs::OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE);
        let file = files::open(path, &options).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem if path.is_file() => {
                StoreError::ReadOnly {
                    path: path.to_path_buf(),
                }
            }
            _ => failed(error),
        })?;
        let metadata = file.metadata().map_err(failed)?;
        let mode = metadata.permissions().mode();
        if mode & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(mode & FILE_MODE))
                .map_err(failed)?;
        }
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    /// Checks that the path still names the open file and that nobody made it read-only. SQLite itself would go on
    /// writing to a deleted file, and to one that was made read-only after it was opened.
    pub(super) async fn check(self, path: &Path) -> Result<(), StoreError> {
        let path = path.to_path_buf();
        let Ok(metadata) = tokio::fs::metadata(&path).await else {
            return Err(StoreError::Moved { path });
        };
        if metadata.dev() != self.device || metadata.ino() != self.inode {
            return Err(StoreError::Moved { path });
        }
        if metadata.permissions().readonly() {
            return Err(StoreError::ReadOnly { path });
        }
        Ok(())
    }
}

fn open_error(error: sqlx::Error, path: &Path) -> StoreError {
    match StoreError::of_query(error, path) {
        StoreError::Database(source) => StoreError::Open {
            path: path.to_path_buf(),
            source,
        },
        named => named,
    }
}

fn migrate_error(error: MigrateError, path: &Path) -> StoreError {
    match error {
        MigrateError::VersionMissing(_) | MigrateError::VersionTooNew(..) => {
            let known = newest_known();
            match error {
                MigrateError::VersionMissing(found) | MigrateError::VersionTooNew(found, _)
                    if found > known =>
                {
                    StoreError::NewerSchema { found, known }
                }
                _ => StoreError::Migrate(Arc::new(error)),
            }
        }
        MigrateError::Execute(error) if error::primary_code(&error).is_some() => open_error(error, path),
        _ => StoreError::Migrate(Arc::new(error)),
    }
}

fn newest_known() -> i64 {
    MIGRATIONS
        .iter()
        .map(|migration| migration.version)
        .max()
        .unwrap_or(0)
}
