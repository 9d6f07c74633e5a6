//! Owns the export of a whole conversation: its records as they are, or as a text for people. One piece of the journal is in memory
//! at a time, however long the conversation is.

mod markdown;

use std::io;

use axum::{body::Bytes, response::Response};
use tokio::task::{JoinError, spawn_blocking};

use super::{
    ApiError, AppState,
    download::{self, File},
    stream::{self, Source},
};
use crate::{
    auth::Tenure,
    domain::{Seq, SessionId},
    journal::{Chunk, Cursor, Missing, ReadError},
    store::SessionRow,
    supervisor::SupervisorError,
    telemetry,
};

/// Most bytes of records that are taken from the journal at once, if the first one is not larger.
const CHUNK_BYTES: usize = 256 * 1024;

/// How a conversation is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ExportFormat {
    /// A text for people.
    #[default]
    Markdown,
    /// An array of the records.
    Json,
    /// A record per line.
    Ndjson,
}

impl ExportFormat {
    const fn content_type(self) -> &'static str {
        match self {
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
        }
    }

    const fn ending(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
        }
    }
}

/// A response with all records that there are now.
///
/// # Errors
/// Those of the session; too many clients read already.
pub(super) async fn open(
    state: &AppState,
    id: SessionId,
    format: ExportFormat,
    tenure: Tenure,
) -> Result<Response, ApiError> {
    let permit = state.connections().admit(id)?;
    let (cursor, oldest) = begin(state, id).await?;
    // Asked last: the cursor opened the session, so this is what its journal says.
    let view = state.supervisor().session(id).await?;
    let title = title_of(&view.row);
    let name = download::file_name(&title).unwrap_or_else(|| "conversation".to_owned());
    let not_kept = (oldest > Seq::new(1)).then(|| state.supervisor().not_kept(id, oldest));
    let export = Export {
        cursor,
        until: view.live.head_seq,
        format,
        has_items: false,
        stage: Stage::Beginning(title, not_kept),
    };
    let file = File {
        name: format!("{name}.{}", format.ending()),
        content_type: format.content_type(),
    };
    Ok(download::respond(state, export, &file, Some(permit), tenure))
}

/// A cursor at the oldest record that is kept, and the number of that.
async fn begin(state: &AppState, id: SessionId) -> Result<(Cursor, Seq), ApiError> {
    match state.supervisor().cursor(id, Seq::ZERO).await {
        Ok(cursor) => Ok((cursor, Seq::new(1))),
        Err(SupervisorError::Read(ReadError::Compacted { oldest })) => {
            let before = Seq::new(oldest.get().saturating_sub(1));
            Ok((state.supervisor().cursor(id, before).await?, oldest))
        }
        Err(error) => Err(error.into()),
    }
}

/// The title, else the start of the last prompt, else the directory.
fn title_of(row: &SessionRow) -> String {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let title = row.title.as_deref().map(one_line);
    let prompt = row.last_prompt.as_deref().map(one_line);
    let directory = row.cwd.trim_end_matches('/').rsplit('/').next().map(one_line);
    let mut named = [title, prompt, directory].into_iter().flatten();
    named
        .find(|text| !text.is_empty())
        .unwrap_or_else(|| "Conversation".to_owned())
}

/// The next part.
#[derive(Debug)]
enum Stage {
    /// The title, and the records that are no longer kept.
    Beginning(String, Option<Missing>),
    Records,
    Over,
}

struct Export {
    cursor: Cursor,
    /// The last record of it.
    until: Seq,
    format: ExportFormat,
    /// Whether an item of the array is written, after which the next one needs a comma.
    has_items: bool,
    stage: Stage,
}

/// Why an export is broken off.
#[derive(Debug, thiserror::Error)]
enum ExportFailed {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The session was deleted meanwhile.
    #[error("the journal was closed at record {position}, before record {until}")]
    Closed { position: Seq, until: Seq },
    #[error(transparent)]
    Task(#[from] JoinError),
}

impl Source for Export {
    /// A part that is dropped is lost: the export is broken off then.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            let part = match &self.stage {
                Stage::Over => return None,
                Stage::Beginning(title, not_kept) => {
                    let part = self.format.beginning(title, *not_kept);
                    self.has_items = not_kept.is_some();
                    self.stage = Stage::Records;
                    part
                }
                Stage::Records if self.cursor.position() >= self.until => {
                    self.stage = Stage::Over;
                    self.format.end()
                }
                Stage::Records => match self.records().await {
                    Ok(part) => part,
                    Err(error) => {
                        let error = telemetry::chain(&error);
                        tracing::error!(error, "the export of a conversation ended early");
                        return Some(Err(io::Error::other("the journal cannot be read")));
                    }
                },
            };
            if !part.is_empty() {
                return Some(Ok(part));
            }
        }
    }
}

impl Export {
    async fn records(&mut self) -> Result<Bytes, ExportFailed> {
        let (position, until) = (self.cursor.position(), self.until);
        let chunk = self.cursor.next(CHUNK_BYTES).await?;
        let chunk = chunk.ok_or(ExportFailed::Closed { position, until })?;
        let (format, has_items) = (self.format, self.has_items);
        self.has_items = true;
        // A large record takes a while to be written.
        Ok(spawn_blocking(move || format.records(&chunk, has_items)).await?)
    }
}

impl ExportFormat {
    fn beginning(self, title: &str, not_kept: Option<Missing>) -> Bytes {
        let gap = not_kept.map(stream::gap);
        match self {
            Self::Markdown => markdown::beginning(title, not_kept).into(),
            Self::Json => format!("[\n{}", gap.unwrap_or_default()).into(),
            Self::Ndjson => gap.map(|gap| gap + "\n").unwrap_or_default().into(),
        }
    }

    fn records(self, chunk: &Chunk, has_items: bool) -> Bytes {
        match self {
            Self::Markdown => markdown::records(chunk).into(),
            Self::Json => array_items(chunk, has_items),
            Self::Ndjson => stream::lines(chunk),
        }
    }

    fn end(self) -> Bytes {
        match self {
            Self::Json => Bytes::from_static(b"\n]\n"),
            Self::Markdown | Self::Ndjson => Bytes::new(),
        }
    }
}

/// The records of a chunk as items of an array that goes on.
fn array_items(chunk: &Chunk, has_items: bool) -> Bytes {
    let mut out = Vec::with_capacity(chunk.bytes.len() + 1024);
    let mut needs_comma = has_items;
    let mut add = |item: &[u8]| {
        if std::mem::replace(&mut needs_comma, true) {
            out.extend_from_slice(b",\n");
        }
        out.extend_from_slice(item);
    };
    if let Some(missing) = chunk.missing {
        add(stream::gap(missing).as_bytes());
    }
    for record in chunk.records() {
        add(record.line);
    }
    out.into()
}
