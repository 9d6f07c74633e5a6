//! Owns what is shown of files and directories.

use serde::Serialize;

use crate::supervisor::{self, MOST_FILE_BYTES};

/// A file as it is before a tool changes it.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct FileBefore {
    /// Its path, as the tool names it.
    path: String,
    /// Whether there is such a file.
    exists: bool,
    /// Its size; 0 when there is none.
    bytes: u64,
    /// The text that it holds; `null` when it is no text, or not there.
    content: Option<String>,
    /// Whether `content` is its start only: at most 1 MiB is shown.
    truncated: bool,
}

impl From<supervisor::FileBefore> for FileBefore {
    fn from(file: supervisor::FileBefore) -> Self {
        let bytes = file.bytes.unwrap_or_default();
        Self {
            path: file.path,
            exists: file.bytes.is_some(),
            bytes,
            truncated: file.content.is_some() && bytes > MOST_FILE_BYTES,
            content: file.content,
        }
    }
}

/// Directories whose paths begin with a text.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct DirectoryList {
    /// Their paths, in alphabetical order.
    items: Vec<String>,
    /// Whether there are more.
    truncated: bool,
}

impl From<supervisor::Directories> for DirectoryList {
    fn from(found: supervisor::Directories) -> Self {
        Self {
            items: found.paths,
            truncated: found.has_more,
        }
    }
}
