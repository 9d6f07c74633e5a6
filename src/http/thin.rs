//! Owns how much of a journal a client with a slow link gets: which kinds of records, and the pieces of a message that is being
//! written joined. The client's place stays valid: it is told of numbers that it does not get.

use std::{borrow::Cow, time::Duration};

use axum::body::Bytes;
use memchr::memmem;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::{ApiError, ErrorCode, extract::StubAbove};
use crate::{
    claude::scan,
    domain::{Seq, Timestamp},
    journal::{Chunk, Cursor, Missing, ReadError, RecordRef, Source},
};

/// Most kinds in one list.
const MOST_KINDS: usize = 64;
/// The times for which pieces may be joined, in milliseconds.
const COALESCE_MS: std::ops::RangeInclusive<u64> = 10..=10_000;
/// The text at which pieces are given, however little time has passed.
const JOINED_BYTES: usize = 16 << 10;
/// The longest that a client is not told of records which it does not get.
const CURSOR_EVERY: Duration = Duration::from_secs(1);

/// The type that stands for all lines of sub-agents, whatever their own type is.
const SUBAGENTS: &str = "subagents";

/// The sources that records have.
const SOURCES: [Source; 5] = [
    Source::Cli,
    Source::Client,
    Source::Daemon,
    Source::StdoutText,
    Source::Stderr,
];

/// Which records a client gets, and for how long pieces are joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Thinning {
    /// The kinds that it gets; all when it is empty.
    only: Vec<Kind>,
    /// The kinds that it does not get.
    without: Vec<Kind>,
    coalesce: Option<Duration>,
    /// The size above which a record is given as a stub.
    stub_above: Option<StubAbove>,
}

/// A kind of record: a source, or one type of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    source: Source,
    data: Option<String>,
}

impl Kind {
    fn read(text: &str) -> Option<Self> {
        let (source, data) = match text.split_once('.') {
            Some((source, data)) => (source, Some(data)),
            None => (text, None),
        };
        Some(Self {
            source: SOURCES.into_iter().find(|it| it.as_str() == source)?,
            data: data.map(str::to_owned),
        })
    }

    fn matches(&self, record: &RecordRef<'_>) -> bool {
        self.source == record.source
            && self.data.as_ref().is_none_or(|data| {
                let envelope = scan(record.data);
                envelope.is_some_and(|envelope| match data.as_str() {
                    SUBAGENTS => envelope.parent_tool_use_id.is_some(),
                    kind => envelope.is(kind),
                })
            })
    }
}

impl Thinning {
    /// The wishes of a client: lists of kinds, separated by commas, and milliseconds.
    ///
    /// # Errors
    /// `InvalidQuery` for kinds that there are not, and for a time that is out of range.
    pub(super) fn of(
        only: Option<&str>,
        without: Option<&str>,
        coalesce_ms: Option<u64>,
    ) -> Result<Self, ApiError> {
        if let Some(ms) = coalesce_ms.filter(|ms| !COALESCE_MS.contains(ms)) {
            let (least, most) = (COALESCE_MS.start(), COALESCE_MS.end());
            return Err(refused(format!("coalesce: {ms} is outside {least} to {most}")));
        }
        Ok(Self {
            only: kinds("only", only)?,
            without: kinds("without", without)?,
            coalesce: coalesce_ms.map(Duration::from_millis),
            stub_above: None,
        })
    }

    /// The same, with stubs in the place of large records.
    pub(super) fn stubbing(self, stub_above: Option<StubAbove>) -> Self {
        Self { stub_above, ..self }
    }

    fn gives(&self, record: &RecordRef<'_>) -> bool {
        let is_in = |kinds: &[Kind]| kinds.iter().any(|kind| kind.matches(record));
        (self.only.is_empty() || is_in(&self.only)) && !is_in(&self.without)
    }

    fn is_all(&self) -> bool {
        self.only.is_empty()
            && self.without.is_empty()
            && self.coalesce.is_none()
            && self.stub_above.is_none()
    }
}

fn refused(detail: String) -> ApiError {
    ApiError::new(ErrorCode::InvalidQuery).detail(detail)
}

fn kinds(name: &str, list: Option<&str>) -> Result<Vec<Kind>, ApiError> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let kinds: Vec<Kind> = list
        .split(',')
        .map(|text| {
            Kind::read(text.trim()).ok_or_else(|| {
                refused(format!(
                    "{name}: expected kinds such as cli, cli.stream_event, client, daemon, stdout_text, stderr"
                ))
            })
        })
        .collect::<Result<_, _>>()?;
    if kinds.len() > MOST_KINDS {
        return Err(refused(format!("{name}: more than {MOST_KINDS} kinds")));
    }
    Ok(kinds)
}

/// A part of what a client gets.
#[derive(Debug)]
pub(super) enum Piece {
    /// Numbers that no record has any more.
    Gap(Missing),
    /// A record.
    Record(Seq, Bytes),
    /// Pieces of a message as one frame, and the last record of them.
    Coalesced(Seq, String),
    /// Nothing up to this record is for the client.
    Cursor(Seq),
}

impl Piece {
    /// Its size, without what is around it.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Record(_, line) => line.len(),
            Self::Coalesced(_, text) => text.len(),
            Self::Gap(_) | Self::Cursor(_) => 0,
        }
    }

    /// The text of a piece that is no record.
    pub(super) fn own_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Gap(missing) => Some(super::stream::gap(*missing).into()),
            Self::Record(..) => None,
            Self::Coalesced(_, text) => Some(text.as_str().into()),
            Self::Cursor(seq) => Some(format!(r#"{{"type":"trunkline.cursor","seq":{seq}}}"#).into()),
        }
    }
}

/// The journal as one client gets it.
#[derive(Debug)]
pub(super) struct Thin {
    thinning: Thinning,
    joined: Option<Joined>,
    /// The last record that was left out since something was given, and when the client is told of it.
    passed: Option<(Seq, Instant)>,
}

impl Thin {
    /// `None` for a client that gets every record as it is.
    pub(super) fn new(thinning: Thinning) -> Option<Self> {
        (!thinning.is_all()).then_some(Self {
            thinning,
            joined: None,
            passed: None,
        })
    }

    /// The next pieces, at least one; `None` when no record will follow, or none up to `until`. It waits while there are none.
    ///
    /// CANCEL-SAFETY: what was taken from the cursor and not given is kept.
    pub(super) async fn next(
        &mut self,
        cursor: &mut Cursor,
        max_bytes: usize,
        until: Option<Seq>,
    ) -> Result<Option<Vec<Piece>>, ReadError> {
        loop {
            if until.is_some_and(|until| cursor.position() >= until) {
                return Ok(self.rest());
            }
            let due = self.due();
            let time = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            // Both are cancel-safe.
            let pieces = tokio::select! {
                chunk = cursor.next(max_bytes) => match chunk? {
                    Some(chunk) => {
                        let chunk = StubAbove::apply(self.thinning.stub_above, chunk);
                        self.take(&chunk, Instant::now())
                    }
                    None => return Ok(self.rest()),
                },
                () = time => self.timed(Instant::now()),
            };
            if !pieces.is_empty() {
                return Ok(Some(pieces));
            }
        }
    }

    /// The pieces that were kept back, for a client that gets no more.
    fn rest(&mut self) -> Option<Vec<Piece>> {
        let mut pieces = Vec::new();
        self.flush(&mut pieces);
        pieces.extend(self.passed.take().map(|(seq, _)| Piece::Cursor(seq)));
        (!pieces.is_empty()).then_some(pieces)
    }

    /// The last record before those that are kept back, where the cursor is at `position`.
    pub(super) fn reached(&self, position: Seq) -> Seq {
        let joined = self.joined.as_ref();
        joined.map_or(position, |joined| Seq::new(joined.first.get().saturating_sub(1)))
    }

    fn due(&self) -> Option<Instant> {
        let joined = self.joined.as_ref().map(|joined| joined.due);
        let passed = self.passed.map(|(_, due)| due);
        joined.into_iter().chain(passed).min()
    }

    fn take(&mut self, chunk: &Chunk, now: Instant) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let Some(missing) = chunk.missing {
            self.flush(&mut pieces);
            self.passed = None;
            pieces.push(Piece::Gap(missing));
        }
        for record in chunk.records() {
            if self.thinning.gives(&record) {
                self.give(&record, chunk, now, &mut pieces);
            } else {
                let due = self.passed.map_or(now + CURSOR_EVERY, |(_, due)| due);
                self.passed = Some((record.seq, due));
            }
        }
        pieces.extend(self.timed(now));
        pieces
    }

    fn give(&mut self, record: &RecordRef<'_>, chunk: &Chunk, now: Instant, pieces: &mut Vec<Piece>) {
        let line = || chunk.bytes.slice_ref(record.line);
        let delta = self
            .thinning
            .coalesce
            .and_then(|time| Some((Delta::read(record)?, time)));
        // A place that a later piece brings need not be told.
        self.passed = None;
        let Some((delta, time)) = delta else {
            self.flush(pieces);
            pieces.push(Piece::Record(record.seq, line()));
            return;
        };
        if let Some(joined) = self.joined.as_mut().filter(|joined| joined.fits(&delta)) {
            joined.add(&delta, record);
        } else {
            self.flush(pieces);
            self.joined = Some(Joined::begin(&delta, record, line(), now + time));
        }
        if self
            .joined
            .as_ref()
            .is_some_and(|joined| joined.text.len() >= JOINED_BYTES)
        {
            self.flush(pieces);
        }
    }

    /// The pieces that are due by now.
    fn timed(&mut self, now: Instant) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if self.joined.as_ref().is_some_and(|joined| joined.due <= now) {
            self.flush(&mut pieces);
        }
        if let Some((seq, _)) = self.passed.filter(|(_, due)| *due <= now) {
            // The place is behind all that is kept back.
            self.flush(&mut pieces);
            self.passed = None;
            pieces.push(Piece::Cursor(seq));
        }
        pieces
    }

    fn flush(&mut self, pieces: &mut Vec<Piece>) {
        pieces.extend(self.joined.take().map(Joined::piece));
    }
}

/// A piece of a message that is being written.
struct Delta<'a> {
    parent: Option<Cow<'a, str>>,
    index: u64,
    /// The name of the member that holds the text, and the type of the delta.
    form: Form,
    text: Cow<'a, str>,
}

/// The kinds of pieces that can be joined: the type of the delta, and its member.
type Form = (&'static str, &'static str);

const FORMS: [Form; 3] = [
    ("text_delta", "text"),
    ("thinking_delta", "thinking"),
    ("input_json_delta", "partial_json"),
];

impl<'a> Delta<'a> {
    /// The piece in a record; `None` for any other record, and for one with more in it than can be joined.
    fn read(record: &RecordRef<'a>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            event: Event<'a>,
            #[serde(borrow, default)]
            parent_tool_use_id: Option<Cow<'a, str>>,
        }
        #[derive(Deserialize)]
        struct Event<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
            index: u64,
            #[serde(borrow)]
            delta: Part<'a>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Part<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            text: Option<Cow<'a, str>>,
            #[serde(borrow)]
            thinking: Option<Cow<'a, str>>,
            #[serde(borrow)]
            partial_json: Option<Cow<'a, str>>,
        }
        const NAME: &str = "content_block_delta";
        if record.source != Source::Cli || memmem::find(record.data, NAME.as_bytes()).is_none() {
            return None;
        }
        let line: Line<'a> = serde_json::from_slice(record.data).ok()?;
        if line.kind != "stream_event" || line.event.kind != NAME {
            return None;
        }
        let part = line.event.delta;
        let form = FORMS.into_iter().find(|(kind, _)| *kind == part.kind)?;
        let texts = [part.text, part.thinking, part.partial_json];
        let mut texts = FORMS
            .iter()
            .zip(texts)
            .filter_map(|(of, text)| Some((*of, text?)));
        let (of, text) = texts.next()?;
        (of == form && texts.next().is_none()).then_some(Self {
            parent: line.parent_tool_use_id,
            index: line.event.index,
            form,
            text,
        })
    }
}

/// Pieces that are joined.
#[derive(Debug)]
struct Joined {
    first: Seq,
    last: Seq,
    at: Timestamp,
    count: u64,
    /// The record of a piece that stays alone.
    line: Bytes,
    parent: Option<String>,
    index: u64,
    form: Form,
    text: String,
    due: Instant,
}

impl Joined {
    fn begin(delta: &Delta<'_>, record: &RecordRef<'_>, line: Bytes, due: Instant) -> Self {
        Self {
            first: record.seq,
            last: record.seq,
            at: record.at,
            count: 1,
            line,
            parent: delta.parent.as_deref().map(str::to_owned),
            index: delta.index,
            form: delta.form,
            text: delta.text.clone().into_owned(),
            due,
        }
    }

    fn fits(&self, delta: &Delta<'_>) -> bool {
        self.parent.as_deref() == delta.parent.as_deref()
            && (self.index, self.form) == (delta.index, delta.form)
    }

    fn add(&mut self, delta: &Delta<'_>, record: &RecordRef<'_>) {
        self.last = record.seq;
        self.at = record.at;
        self.count += 1;
        self.text.push_str(&delta.text);
    }

    fn piece(self) -> Piece {
        if self.count == 1 {
            return Piece::Record(self.first, self.line);
        }
        let (kind, member) = self.form;
        let delta = json!({"type": kind, member: self.text});
        let event = json!({"type": "content_block_delta", "index": self.index, "delta": delta});
        let frame = json!({
            "type": "trunkline.coalesced", "first_seq": self.first, "last_seq": self.last, "count": self.count,
            "ts": self.at, "src": "cli",
            "data": {"type": "stream_event", "event": event, "parent_tool_use_id": self.parent},
        });
        Piece::Coalesced(self.last, frame.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sources_and_types() {
        let read = |only: &str, ms| Thinning::of(Some(only), None, ms).is_ok();
        assert!(read(
            "cli.assistant, cli.result,daemon,stderr,stdout_text,client",
            Some(250)
        ));
        for (only, ms) in [
            ("", None),
            ("assistant", None),
            ("cli,", None),
            ("cli", Some(9)),
            ("cli", Some(10_001)),
        ] {
            assert!(!read(only, ms), "{only} {ms:?}");
        }
        assert!(Thinning::default().is_all());
    }
}
