//! Owns what can go wrong in the store, told apart by what a caller can do about it.

use std::{io, path::PathBuf, sync::Arc};

use sqlx::migrate::MigrateError;

use crate::domain::{ErrorCode, SessionId};

/// Primary result codes of SQLite (the low byte of an extended code).
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const READONLY: i32 = 8;
    pub(super) const IO: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANNOT_OPEN: i32 = 14;
    pub(super) const NO_DATABASE: i32 = 26;

    /// Failures of the machine, whatever was to be written: of memory, of input and output, of opening a file, of a lock.
    pub(super) const OF_THE_MACHINE: [i32; 4] = [7, IO, CANNOT_OPEN, 15];
}

/// A failure of the store. Cheap to clone: one failed transaction answers everybody who waited for it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be opened or made.
    #[error("cannot open the database {}", path.display())]
    Open {
        /// The database file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The file, or the file system under it, cannot be written.
    #[error("the database {} is read-only", path.display())]
    ReadOnly {
        /// The database file.
        path: PathBuf,
    },
    /// The file at the path is not the one that is open: it was moved, deleted or replaced.
    #[error("the database {} was moved or deleted while in use", path.display())]
    Moved {
        /// Where it should be.
        path: PathBuf,
    },
    /// There is no space left.
    #[error("no space left for the database")]
    Full,
    /// Another program held the write lock for longer than the busy timeout. Trying again may help.
    #[error("another program holds the database locked")]
    Locked,
    /// A newer version of the program wrote the file.
    #[error("the database has schema version {found}, this program knows versions up to {known}")]
    NewerSchema {
        /// The newest version in the file.
        found: i64,
        /// The newest version of this program.
        known: i64,
    },
    /// Another program made the file.
    #[error(
        "the database {} is of another program: it has tables, and none of Trunkline's; put Trunkline's database back, or move \
         this one away",
        path.display()
    )]
    Foreign {
        /// The database file.
        path: PathBuf,
    },
    /// SQLite finds the file damaged.
    #[error("the database {} is damaged: {verdict}", path.display())]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// The words of SQLite.
        verdict: String,
    },
    /// A file that the database is made again of cannot be written, and so neither can its rows.
    #[error("cannot write {}", path.display())]
    SessionFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// The schema could not be brought up to date.
    #[error("cannot migrate the database")]
    Migrate(#[source] Arc<MigrateError>),
    /// The session is not there.
    #[error("no session {0}")]
    UnknownSession(SessionId),
    /// A session with this id is there already.
    #[error("session {0} exists already")]
    SessionExists(SessionId),
    /// Another session has the conversation.
    #[error("session {0} has this conversation")]
    ConversationTaken(SessionId),
    /// The session was edited since it had the revision that a caller has seen.
    #[error("the session has revision {0}")]
    RevisionDiffers(u64),
    /// Other launch options are stored than those that new ones were made of.
    #[error("other launch options are stored meanwhile")]
    OptionsMoved,
    /// The cursor was not made by this list.
    #[error("the cursor is not one of this list")]
    BadCursor,
    /// A column holds what this program never writes.
    #[error("the database holds an unreadable value in {table}.{column}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Any other failure of SQLite.
    #[error("the database failed")]
    Database(#[source] Arc<sqlx::Error>),
}

impl StoreError {
    /// The code of the fault.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownSession(_) => ErrorCode::SessionNotFound,
            Self::BadCursor => ErrorCode::InvalidCursor,
            Self::Closed => ErrorCode::ShuttingDown,
            Self::RevisionDiffers(_) => ErrorCode::RevisionDiffers,
            Self::ConversationTaken(_) => ErrorCode::ConversationTaken,
            Self::ReadOnly { .. } | Self::Moved { .. } | Self::SessionFile { .. } | Self::OptionsMoved => {
                ErrorCode::StorageUnavailable
            }
            error if error.is_transient() => ErrorCode::StorageUnavailable,
            _ => ErrorCode::StorageFailed,
        }
    }

    /// Whether the same call may work later without anybody's doing.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Locked | Self::Full)
    }

    /// Whether no daemon of this version will ever be able to use the database.
    pub fn is_beyond_use(&self) -> bool {
        let of_sqlite =
            |error: &sqlx::Error| matches!(primary_code(error), Some(code::CORRUPT | code::NO_DATABASE));
        match self {
            Self::NewerSchema { .. } | Self::Damaged { .. } => true,
            Self::Open { source, .. } => source.downcast_ref().is_some_and(of_sqlite),
            Self::Database(error) => of_sqlite(error),
            Self::Migrate(error) => {
                matches!(&**error, MigrateError::Execute(error) if of_sqlite(error))
            }
            _ => false,
        }
    }

    /// Whether a full disk fails so. SQLite tells some of its writes, and a file that it cannot make, as other failures.
    pub fn may_be_of_a_full_disk(&self) -> bool {
        let of_sqlite = |error: &sqlx::Error| {
            matches!(
                primary_code(error),
                Some(code::IO | code::FULL | code::CANNOT_OPEN)
            )
        };
        match self {
            Self::Full => true,
            Self::Open { source, .. } => source.downcast_ref().is_some_and(of_sqlite),
            Self::Database(error) => of_sqlite(error),
            Self::SessionFile { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }

    /// Whether it is what was to be written that cannot be stored, so that another try is of no use.
    pub fn blames_the_data(&self) -> bool {
        match self {
            Self::Database(error) => match primary_code(error) {
                Some(code) => !code::OF_THE_MACHINE.contains(&code),
                None => !matches!(
                    **error,
                    sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed
                ),
            },
            Self::Corrupt { .. } => true,
            _ => false,
        }
    }

    /// Names the failure of a query on the open database at `path`.
    pub(super) fn of_query(error: sqlx::Error, path: &std::path::Path) -> Self {
        match primary_code(&error) {
            Some(code::BUSY) => Self::Locked,
            Some(code::READONLY) => Self::ReadOnly {
                path: path.to_path_buf(),
            },
            Some(code::FULL) => Self::Full,
            _ if matches!(error, sqlx::Error::PoolClosed) => Self::Closed,
            _ => Self::Database(Arc::new(error)),
        }
    }
}

/// The primary result code, when the failure came from SQLite itself.
pub(super) fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let code = error.as_database_error()?.code()?;
    code.parse::<i32>().ok().map(|extended| extended & 0xff)
}
