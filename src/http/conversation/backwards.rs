//! Owns the newest messages of a conversation and the pages before them. The journal is read from its end, further back until
//! as many messages are whole as are asked for, so that a page costs the same however long the conversation is.

use super::{Builder, CHUNK_BYTES, ConversationCursor, PAGE_BYTES, builder::Whole, ignore_echoes};
use crate::{
    domain::{Seq, SessionId},
    http::{ApiError, AppState, dto::ConversationPage},
};

/// How far back the journal is read at first, in bytes. Each time that this is too little it is four times as far.
const FIRST_STRETCH_BYTES: usize = 256 * 1024;
/// Records that are taken at once.
const MOST_RECORDS: usize = 10_000;

/// The last `limit` messages that begin before a record, the newest first.
pub(in crate::http) async fn page_back(
    state: &AppState,
    id: SessionId,
    before: Seq,
    limit: usize,
) -> Result<ConversationPage, ApiError> {
    // A session that is not there must not look like an empty one.
    state.supervisor().session(id).await?;
    let mut stretch = FIRST_STRETCH_BYTES;
    loop {
        let start = start_of(state, id, before, stretch).await?;
        let is_all = start <= Seq::new(1);
        let mut whole = read(state, id, (start, before)).await?;
        let found = whole.len();
        // The oldest ones may have begun before the stretch.
        whole.drain(..found.saturating_sub(limit));
        let is_enough = whole.len() == limit && whole.iter().all(|message| message.is_whole);
        if !is_all && !is_enough && stretch < PAGE_BYTES {
            stretch = stretch.saturating_mul(4).min(PAGE_BYTES);
            continue;
        }
        whole.retain(|message| is_all || message.is_whole);
        let oldest = whole
            .iter()
            .map(|message| message.item.seq)
            .min()
            .unwrap_or(start);
        let has_more = !is_all || found > limit;
        return Ok(ConversationPage {
            items: whole.into_iter().rev().map(|message| message.item).collect(),
            next_cursor: None,
            next_before: has_more.then_some(oldest),
        });
    }
}

/// The record that begins a stretch of about so many bytes before `before`.
async fn start_of(state: &AppState, id: SessionId, before: Seq, bytes: usize) -> Result<Seq, ApiError> {
    let (mut start, mut left) = (before, bytes);
    loop {
        let chunks = state
            .supervisor()
            .page_before(id, start, MOST_RECORDS, left)
            .await?;
        let Some(first) = chunks.first() else {
            return Ok(Seq::new(1));
        };
        start = first.start();
        let read: usize = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        left = left.saturating_sub(read);
        // Less than this is not worth another look.
        if left < bytes / 2 || start <= Seq::new(1) {
            return Ok(start);
        }
    }
}

/// The messages that begin in a stretch, in their order.
async fn read(state: &AppState, id: SessionId, (start, before): (Seq, Seq)) -> Result<Vec<Whole>, ApiError> {
    let mut after = Seq::new(start.get().saturating_sub(1));
    let cursor = ConversationCursor {
        after,
        given: Vec::new(),
    };
    let mut builder = Builder::new(cursor, usize::MAX);
    builder.end_before(before);
    while let Some(chunk) = state.supervisor().kept_page(id, after, CHUNK_BYTES).await? {
        if chunk.is_empty() {
            break;
        }
        ignore_echoes(state, id, &chunk, &mut builder).await?;
        if chunk.records().any(|record| builder.push(&record).is_break()) {
            break;
        }
        after = chunk.last;
    }
    Ok(builder.finish_back())
}
