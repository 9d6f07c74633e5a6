//! Owns the search for words in a conversation. The journal is read from its end, piece by piece, and each look is bounded in
//! bytes and in time: it answers with what it has, and with the place at which the next one goes on.

mod place;

pub(super) use place::FindPlace;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::{Instant, timeout},
};

use super::{
    ApiError, AppState, ErrorCode,
    dto::{FindHit, FindPage, Speaker},
};
use crate::{
    claude::said::{self, Said, Speech},
    domain::{Seq, SessionId, Words},
    journal::{Chunk, Missing, MissingReason, RecordRef, Source, unfold},
};

/// Searches that read at once, over all sessions: they share the disk and the processors with the sessions themselves.
const MOST_AT_ONCE: usize = 2;
/// How long a search waits until others have ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are read at once, if the first record is not larger.
const PIECE_BYTES: usize = 2 * 1024 * 1024;
/// Records that are read at once.
const PIECE_RECORDS: usize = 10_000;
/// No further piece is read for a page once so many bytes were read for it.
const PAGE_BYTES: usize = 64 * 1024 * 1024;
/// Nor once it took so long.
const PAGE_TIME: Duration = Duration::from_secs(2);

/// The right to search, of which there are a few.
#[derive(Clone, Debug)]
pub(super) struct Searches(Arc<Semaphore>);

impl Default for Searches {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_AT_ONCE)))
    }
}

impl Searches {
    /// CANCEL-SAFETY: a search that is given up gives its place back.
    async fn begin(&self, patience: Duration) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = timeout(patience, Arc::clone(&self.0).acquire_owned()).await;
        // It is never closed.
        permit.ok().and_then(Result::ok).ok_or_else(|| {
            let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
            ApiError::new(ErrorCode::TooManySearches).retry_after_ms(patience)
        })
    }
}

/// The next `limit` hits from `place` on, the newest first; fewer when the look ends before it has them.
pub(super) async fn find(
    state: &AppState,
    id: SessionId,
    words: Words,
    mut place: FindPlace,
    limit: usize,
) -> Result<FindPage, ApiError> {
    // A session that is not there must not wait for a place.
    state.supervisor().session(id).await?;
    let permit = Arc::new(state.searches().begin(PATIENCE).await?);
    let words = Arc::new(words);
    let (begun, mut bytes) = (Instant::now(), 0);
    let (mut hits, mut missing) = (Vec::new(), Vec::new());
    let mut is_end = place.is_end();
    while !is_end && hits.len() < limit && bytes < PAGE_BYTES && begun.elapsed() < PAGE_TIME {
        let read = state
            .supervisor()
            .page_before(id, place.before, PIECE_RECORDS, PIECE_BYTES);
        let chunks = read.await?;
        if chunks.is_empty() {
            missing.extend(not_kept(state, id, place.before));
            is_end = true;
            break;
        }
        bytes += chunks.iter().map(|chunk| chunk.bytes.len()).sum::<usize>();
        let (words, permit) = (Arc::clone(&words), Arc::clone(&permit));
        let room = limit - hits.len();
        let look = move || {
            // A look that nobody waits for any more counts until it ends.
            let _permit = permit;
            Look::of(chunks, &words, place, room)
        };
        let look = spawn_blocking(look).await;
        let look = look.map_err(|error| ApiError::new(ErrorCode::Internal).caused_by(error))?;
        hits.extend(look.hits);
        missing.extend(look.missing);
        place = look.place;
        is_end = place.is_end();
    }
    drop(permit);
    name_turns(state, id, &mut hits).await?;
    // Asked last: reading opened the session, so this is what its journal says.
    let head_seq = state.supervisor().session(id).await?.live.head_seq;
    Ok(FindPage {
        items: hits,
        next_cursor: (!is_end).then(|| place.encode()).flatten(),
        from_seq: if is_end {
            Seq::new(1)
        } else {
            place.oldest(head_seq)
        },
        head_seq,
        missing: (!missing.is_empty()).then_some(missing),
    })
}

/// The records before the oldest one that is kept.
fn not_kept(state: &AppState, id: SessionId, before: Seq) -> Option<Missing> {
    (before > Seq::new(1) && before < Seq::MAX).then(|| state.supervisor().not_kept(id, before))
}

/// The hits of a piece of the journal.
struct Look {
    hits: Vec<FindHit>,
    missing: Vec<Missing>,
    /// Where the next look goes on.
    place: FindPlace,
}

impl Look {
    fn of(chunks: Vec<Chunk>, words: &Words, place: FindPlace, room: usize) -> Self {
        let mut look = Self {
            hits: Vec::new(),
            missing: Vec::new(),
            place,
        };
        for chunk in chunks.iter().rev() {
            let records: Vec<_> = chunk
                .records()
                .filter(|record| record.seq < place.before)
                .collect();
            for record in records.iter().rev() {
                let given = look.place.given_of(record.seq);
                let found = hits_in(record, words);
                let left = room - look.hits.len();
                look.place = match found.len() > given + left {
                    true => FindPlace::within(record.seq, given + left),
                    false => FindPlace::before(record.seq),
                };
                look.hits.extend(found.into_iter().skip(given).take(left));
                if look.hits.len() == room {
                    return look;
                }
            }
            let missing = chunk.missing.map(|gap| Missing {
                last_seq: gap.last_seq.min(Seq::new(place.before.get() - 1)),
                ..gap
            });
            // A compaction takes nothing out that is looked at.
            look.missing.extend(
                missing.filter(|gap| gap.first_seq <= gap.last_seq && gap.reason != MissingReason::Compacted),
            );
            look.place = FindPlace::before(chunk.start());
        }
        look
    }
}

/// The texts of a record that have the words, the last one first.
fn hits_in(record: &RecordRef<'_>, words: &Words) -> Vec<FindHit> {
    let record = unfold(*record);
    let speech = match record.source {
        Source::Client => Speech::sent(record.data),
        Source::Cli => Speech::printed(record.data),
        Source::Daemon | Source::StdoutText | Source::Stderr => None,
    };
    let Some(speech) = speech else {
        return Vec::new();
    };
    let parent = speech.parent_tool_use_id;
    let pieces = speech.pieces.into_iter().rev();
    pieces
        .filter_map(|piece| {
            let (who, tool, text) = match piece {
                Said::Prompt(text) => (Speaker::You, None, text),
                Said::Answer(text) => (Speaker::Agent, None, text),
                Said::Thought(text) => (Speaker::Thinking, None, text),
                Said::Call { tool, input } => {
                    (Speaker::Call, Some(tool.into_owned()), said::arguments(input))
                }
                Said::Result { text, .. } => (Speaker::Result, None, text),
                Said::Image => return None,
            };
            let excerpt = words.first_in(&text)?;
            Some(FindHit {
                seq: record.seq,
                ts: record.at,
                turn: None,
                who,
                tool,
                excerpt: excerpt.into(),
                parent_tool_use_id: parent.as_ref().map(ToString::to_string),
            })
        })
        .collect()
}

/// Says of each hit in which turn it is. Their numbers fall.
async fn name_turns(state: &AppState, id: SessionId, hits: &mut [FindHit]) -> Result<(), ApiError> {
    let (Some(newest), Some(oldest)) = (hits.first(), hits.last()) else {
        return Ok(());
    };
    let store = state.supervisor().store();
    let turns = store.turns_between(id, oldest.seq, newest.seq).await?;
    for hit in hits {
        let turn = turns.iter().find(|turn| hit.seq <= turn.last);
        hit.turn = turn.map(|turn| turn.number);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_search_that_finds_no_place_says_when_to_come_again() {
        let searches = Searches::default();
        let begin = || searches.begin(Duration::from_millis(20));
        let first = begin().await.unwrap();
        let _second = begin().await.unwrap();
        assert_eq!(begin().await.unwrap_err().code(), ErrorCode::TooManySearches);
        drop(first);
        drop(begin().await.unwrap());
    }
}
