//! Owns where in a journal a message is, and so which conversation of the CLI a fork at it begins in.

use std::path::Path;

use memchr::memmem;
use uuid::Uuid;

use crate::{
    claude::{Envelope, facts, scan},
    domain::{CliSessionId, Seq},
    journal::{Head, MissingReason, ReadError, Reader, RecordRef, Source},
    json,
};

/// How much of a journal is read at a time.
const READ_BYTES: usize = 1 << 20;

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// In this conversation. `None`: the journal does not say in which.
    In(Option<CliSessionId>),
    /// The conversation was compacted behind it: the CLI looks no further back.
    Compacted,
    /// A sub-agent said it, or was told it.
    OfSubAgent,
    /// Nowhere, and no record is missing.
    Nowhere,
    /// Nowhere in the records that are kept: it may have been in those that were removed for their age or size.
    Removed,
    /// Nowhere in the records that are left.
    Unknown,
}

/// Looks for a message from the beginning of a journal to `head`.
pub(super) fn find(dir: &Path, head: Head, message: Uuid) -> Result<Found, ReadError> {
    let mut search = Search::new(message);
    let is_whole = each_record(dir, head, |record| search.push(record))?;
    Ok(match search.found {
        Some(found) => found,
        None if is_whole => Found::Nowhere,
        None if Reader::open(dir)?.removed() > Seq::ZERO => Found::Removed,
        None => Found::Unknown,
    })
}

/// The last message of the last turn that the model ended without an error, if it is in this conversation.
pub(super) fn last_answer(
    dir: &Path,
    head: Head,
    conversation: CliSessionId,
) -> Result<Option<Uuid>, ReadError> {
    let (mut said, mut answered) = (None, None);
    each_record(dir, head, |record| {
        let is_told = |word: &[u8]| memmem::find(record.data, word).is_some();
        if record.source != Source::Cli
            || !(is_told(b"assistant") || is_told(b"result") || is_told(b"compact_"))
        {
            return;
        }
        let Some(line) = scan(record.data).filter(|line| line.cli_session() == Some(conversation)) else {
            return;
        };
        match line.kind.as_deref() {
            Some("assistant") if !is_of_sub_agent(&line) && !facts::is_synthetic(&line) => {
                said = uuid_of(&line);
            }
            Some("result") => {
                let is_error = facts::ResultFacts::read(&line).is_none_or(|result| result.is_error);
                answered = said.take().filter(|_| !is_error).or(answered);
            }
            Some("system") if line.is_system("compact_boundary") => (said, answered) = (None, None),
            _ => {}
        }
    })?;
    Ok(answered)
}

/// Calls `each` with every record up to `head`; says whether none is missing.
pub(super) fn each_record(
    dir: &Path,
    head: Head,
    mut each: impl FnMut(&RecordRef<'_>),
) -> Result<bool, ReadError> {
    let reader = Reader::open(dir)?;
    let oldest = reader.oldest()?;
    let mut after = Seq::new(oldest.get().saturating_sub(1));
    let mut from = reader.place_after(after)?;
    let mut is_whole = after == Seq::ZERO;
    while after < head.seq {
        let chunk = reader.read_after(after, from, head, READ_BYTES)?;
        is_whole &= chunk
            .missing
            .is_none_or(|missing| missing.reason == MissingReason::Compacted);
        for record in chunk.records() {
            each(&record);
        }
        if chunk.last <= after {
            break;
        }
        (after, from) = (chunk.last, chunk.end);
    }
    Ok(is_whole)
}

struct Search {
    message: Uuid,
    text: String,
    found: Option<Found>,
    /// A prompt has no id of a conversation: the next line of the CLI says in which it is.
    is_open: bool,
}

impl Search {
    fn new(message: Uuid) -> Self {
        Self {
            message,
            text: message.to_string(),
            found: None,
            is_open: false,
        }
    }

    fn push(&mut self, record: &RecordRef<'_>) {
        let is_told = |word: &[u8]| memmem::find(record.data, word).is_some();
        let is_of_interest = match record.source {
            Source::Cli => self.is_open || is_told(self.text.as_bytes()) || is_told(b"compact_boundary"),
            Source::Client => is_told(self.text.as_bytes()),
            _ => false,
        };
        if !is_of_interest {
            return;
        }
        let Some(line) = scan(record.data) else {
            return;
        };
        let conversation = line.cli_session();
        let is_message = matches!(line.kind.as_deref(), Some("user" | "assistant"));
        if is_message && uuid_of(&line) == Some(self.message) {
            let is_sub = is_of_sub_agent(&line);
            self.is_open = record.source == Source::Client;
            // A line of the CLI repeats a prompt.
            let conversation = conversation.filter(|_| !self.is_open);
            self.found = Some(if is_sub {
                Found::OfSubAgent
            } else {
                Found::In(conversation)
            });
            return;
        }
        if let (true, Some(id)) = (self.is_open, conversation) {
            self.is_open = false;
            self.found = Some(Found::In(Some(id)));
        }
        if line.is_system("compact_boundary") && self.found == Some(Found::In(conversation)) {
            self.found = Some(Found::Compacted);
        }
    }
}

pub(super) fn uuid_of(line: &Envelope<'_>) -> Option<Uuid> {
    let [uuid] = json::members(line.line, ["uuid"])?;
    json::string(uuid?)?.parse().ok()
}

fn is_of_sub_agent(line: &Envelope<'_>) -> bool {
    let parent = json::members(line.line, ["parent_tool_use_id"]).and_then(|[parent]| parent);
    parent.is_some_and(|parent| parent != "null")
}
