//! Owns what a file holds before a tool changes it, for the person who decides whether the tool may.

use std::{
    fs::File,
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use crate::{
    domain::Approval,
    files, json,
    session::{EDITING_TOOLS, directories_outside},
};

use super::SupervisorError;

/// The most of a file that is shown, in bytes.
pub const MOST_FILE_BYTES: u64 = 1024 * 1024;

/// A file as it is before a tool changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBefore {
    /// Its path, as the tool names it.
    pub path: String,
    /// Its size; `None` when there is no such file.
    pub bytes: Option<u64>,
    /// Its start, at most [`MOST_FILE_BYTES`]; `None` when it is no text, or not there.
    pub content: Option<String>,
}

/// The file that the call of a tool changes.
pub(super) fn named(approval: &Approval) -> Option<String> {
    let request = approval.request.get();
    let tool = json::member_text(request, "tool_name").unwrap_or_else(|| approval.subject.clone());
    if !EDITING_TOOLS.contains(&tool.as_str()) {
        return None;
    }
    let input = json::member(request, "input").or_else(|| json::member(request, "tool_input"))?;
    let path = ["file_path", "notebook_path"];
    path.into_iter().find_map(|name| json::member_text(input, name))
}

/// Reads a file that a tool of a session names. Blocks.
///
/// # Errors
/// `FileOutsideRoots`, `FileUnreadable`.
pub(super) fn read(path: String, cwd: &Path, roots: &[PathBuf]) -> Result<FileBefore, SupervisorError> {
    if !directories_outside(std::slice::from_ref(&path), cwd, roots).is_empty() {
        return Err(SupervisorError::FileOutsideRoots { path });
    }
    let unreadable = |path: &str, why: &std::io::Error| SupervisorError::FileUnreadable {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let real = match cwd.join(&path).canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(FileBefore {
                path,
                bytes: None,
                content: None,
            });
        }
        Err(error) => return Err(unreadable(&path, &error)),
    };
    // The links may have changed since the check: the file that is found is checked again, and opened without following any.
    let mut real_roots = roots.iter().filter_map(|root| root.canonicalize().ok());
    let root = real_roots.find(|root| real.starts_with(root));
    if root.is_none() && !roots.is_empty() {
        return Err(SupervisorError::FileOutsideRoots { path });
    }
    let read = || {
        let below = root
            .as_ref()
            .and_then(|root| Some((root, real.strip_prefix(root).ok()?)));
        let file = match below {
            Some((root, way)) => files::open_below(root, way)?,
            None => files::open_own(&real, File::options().read(true))?,
        };
        let bytes = file.metadata()?.len();
        let mut start = Vec::new();
        file.take(MOST_FILE_BYTES).read_to_end(&mut start)?;
        Ok((bytes, start))
    };
    let (bytes, start) = read().map_err(|error| unreadable(&path, &error))?;
    Ok(FileBefore {
        path,
        bytes: Some(bytes),
        content: text(start, bytes),
    })
}

/// The start of a file as text. A character that is cut through at its end is left out.
fn text(start: Vec<u8>, bytes: u64) -> Option<String> {
    let is_cut = bytes > start.len() as u64;
    match String::from_utf8(start) {
        Ok(text) => Some(text),
        Err(error) if is_cut && error.utf8_error().error_len().is_none() => {
            let whole = error.utf8_error().valid_up_to();
            let mut start = error.into_bytes();
            start.truncate(whole);
            String::from_utf8(start).ok()
        }
        Err(_) => None,
    }
    .filter(|text| !text.contains('\0'))
}
