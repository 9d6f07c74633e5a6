//! Owns the cursors of the lists of one session: each names its session, so that the list of another one refuses it.

use super::{ApiError, ErrorCode};
use crate::domain::SessionId;

/// Characters of a session's id in its cursors: the last ones, which are random.
const MARK_CHARS: usize = 12;

/// The cursor that a list of this session gives.
pub(super) fn given(session: SessionId, cursor: Option<String>) -> Option<String> {
    cursor.map(|cursor| format!("{}.{cursor}", mark(session)))
}

/// The cursor that a list of this session gave before.
pub(super) fn taken(session: SessionId, cursor: Option<String>) -> Result<Option<String>, ApiError> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    match cursor.split_once('.') {
        Some((of, cursor)) if of == mark(session) => Ok(Some(cursor.to_owned())),
        _ => Err(ErrorCode::InvalidCursor.into()),
    }
}

fn mark(session: SessionId) -> String {
    let mut id = session.to_string();
    id.split_off(id.len().saturating_sub(MARK_CHARS))
}
