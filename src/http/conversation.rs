//! Owns the conversation as people read it, derived from the journal. Whole messages and stream deltas are both
//! understood; what came in several lines, or in both forms, is one item.

mod backwards;
mod builder;
mod cursor;
mod deltas;

pub(super) use backwards::page_back;
pub(super) use cursor::ConversationCursor;

use memchr::memmem;
use serde::Deserialize;

use super::{ApiError, AppState, dto::ConversationPage};
use crate::{
    domain::{PromptUuid, SessionId},
    journal::{Chunk, Source},
};
use builder::Builder;

/// Bytes that are taken from the journal at once.
const CHUNK_BYTES: usize = 1024 * 1024;
/// A page ends when the journal was read this far, even if it has fewer messages than asked for.
const PAGE_BYTES: usize = 64 * 1024 * 1024;

/// The next `limit` messages from `cursor` on.
pub(super) async fn page(
    state: &AppState,
    id: SessionId,
    cursor: ConversationCursor,
    limit: usize,
) -> Result<ConversationPage, ApiError> {
    let mut after = cursor.after;
    let mut builder = Builder::new(cursor, limit);
    let mut bytes = 0;
    // A session that is not there must not look like an empty one.
    state.supervisor().session(id).await?;
    while bytes < PAGE_BYTES {
        let Some(chunk) = state.supervisor().kept_page(id, after, CHUNK_BYTES).await? else {
            return Ok(builder.finish(true));
        };
        if chunk.is_empty() {
            return Ok(builder.finish(true));
        }
        ignore_echoes(state, id, &chunk, &mut builder).await?;
        for record in chunk.records() {
            if builder.push(&record).is_break() {
                return Ok(builder.finish(false));
            }
        }
        bytes += chunk.bytes.len();
        after = chunk.last;
    }
    Ok(builder.finish(false))
}

/// Names the prompts that the CLI repeats in this chunk to the builder.
async fn ignore_echoes(
    state: &AppState,
    id: SessionId,
    chunk: &Chunk,
    builder: &mut Builder,
) -> Result<(), ApiError> {
    for uuid in echoes(chunk) {
        // Only the store knows whether a prompt far back has this id.
        if state.supervisor().store().prompt(id, uuid).await?.is_some() {
            builder.ignore(uuid);
        }
    }
    Ok(())
}

/// The ids of lines in which the CLI repeats a message that it was sent.
fn echoes(chunk: &Chunk) -> Vec<PromptUuid> {
    #[derive(Deserialize)]
    struct Echo {
        uuid: PromptUuid,
    }
    chunk
        .records()
        .filter(|record| {
            record.source == Source::Cli && memmem::find(record.data, br#""isReplay":true"#).is_some()
        })
        .filter_map(|record| serde_json::from_slice::<Echo>(record.data).ok())
        .map(|echo| echo.uuid)
        .collect()
}
