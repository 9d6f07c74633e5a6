//! Owns which records of a session a fork of it has in its own journal: what was said up to the message that it begins at, so that
//! it can be read before its first turn, and when the parent is deleted.

use std::{collections::HashSet, path::Path};

use memchr::memmem;
use uuid::Uuid;

use crate::{
    claude::{Envelope, scan},
    domain::{CliSessionId, Clock, Seq, SessionId},
    journal::{
        Head, ReadError, RecordRef, Source, Writer, WriterOptions, encode_history, is_history, unfold,
    },
    json,
};

use super::fork_point::{each_record, uuid_of};

/// The most that a fork takes over, in bytes of records. A fork of a longer conversation has its end.
const MOST_BYTES: usize = 64 << 20;
/// A batch of records.
const BATCH_BYTES: usize = 1 << 20;

/// Why a fork has no history.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) enum CopyError {
    /// The parent's journal cannot be read.
    Read(#[from] ReadError),
    /// The fork's journal cannot be opened.
    Open(#[from] crate::journal::OpenError),
    /// The fork's journal cannot be written.
    Write(#[from] crate::journal::CommitError),
}

/// Where a fork begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    /// The session whose journal has the messages.
    pub(super) session: SessionId,
    /// The conversation that is copied.
    pub(super) conversation: CliSessionId,
    /// Its last message; `None` for its end.
    pub(super) at: Option<Uuid>,
}

/// Writes what was said up to there into the journal of the fork. Blocks.
pub(super) fn copy(from: &Path, head: Head, branch: Branch, to: &Path) -> Result<(), CopyError> {
    let mut choice = Choice::new(branch);
    each_record(from, head, |record| choice.see(record))?;
    let (chosen, left_out) = choice.finish();
    if chosen.is_empty() {
        return Ok(());
    }
    let (mut writer, _) = Writer::open(to, WriterOptions::default())?;
    let push = |writer: &mut Writer, data: &[u8]| {
        // It is one JSON object on one line, as it comes from a record or from here.
        let _ = writer.push(Clock.now(), Source::Daemon, None, data);
        if writer.pending_bytes() < BATCH_BYTES {
            return Ok(());
        }
        writer.commit().map(drop)
    };
    if left_out > 0 {
        let detail =
            format!("the oldest {left_out} records of the conversation are left out, as it is too long");
        let notice = serde_json::json!({"type": "notice", "code": "history_cut", "detail": detail});
        push(&mut writer, notice.to_string().as_bytes())?;
    }
    let mut failed = None;
    let mut next = chosen.into_iter().peekable();
    each_record(from, head, |record| {
        if failed.is_none() && next.next_if_eq(&record.seq).is_some() {
            failed = push(&mut writer, &encode_history(branch.session, record)).err();
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    writer.commit()?;
    Ok(())
}

/// The records of one conversation, as a pass over a journal finds them.
struct Choice {
    branch: Branch,
    chosen: Vec<(Seq, usize)>,
    /// Records that name no conversation: the next line of the CLI says in which they are.
    open: Vec<(Seq, usize)>,
    /// Prompts that are chosen, which the CLI may repeat.
    prompts: HashSet<Uuid>,
    is_over: bool,
}

impl Choice {
    fn new(branch: Branch) -> Self {
        Self {
            branch,
            chosen: Vec::new(),
            open: Vec::new(),
            prompts: HashSet::new(),
            is_over: false,
        }
    }

    fn see(&mut self, record: &RecordRef<'_>) {
        let said = unfold(*record);
        if self.is_over || !matches!(said.source, Source::Cli | Source::Client) {
            return;
        }
        let place = (record.seq, record.line.len());
        let Some(line) = scan(said.data) else {
            return;
        };
        let kind = line.kind.as_deref().unwrap_or_default();
        let is_message = matches!(kind, "user" | "assistant");
        let uuid = is_message.then(|| uuid_of(&line)).flatten();
        let is_last = self.branch.at.is_some() && uuid == self.branch.at;
        if is_history(record) || said.source == Source::Client {
            if is_message || kind == "result" || line.is_system("compact_boundary") {
                self.open.push(place);
                self.prompts
                    .extend(uuid.filter(|_| said.source == Source::Client));
            }
        } else if let Some(conversation) = line.cli_session() {
            let open = std::mem::take(&mut self.open);
            if conversation != self.branch.conversation {
                return;
            }
            self.chosen.extend(open);
            let is_said = match kind {
                "user" => !(is_replay(&line) && uuid.is_some_and(|uuid| self.prompts.contains(&uuid))),
                "assistant" | "result" => true,
                _ => line.is_system("compact_boundary"),
            };
            if is_said {
                self.chosen.push(place);
            }
        }
        if is_last {
            self.chosen.append(&mut self.open);
            self.is_over = true;
        }
    }

    /// The numbers of the records, and how many older ones are too many.
    fn finish(self) -> (Vec<Seq>, usize) {
        if self.branch.at.is_some() && !self.is_over {
            // The CLI may know the message; which ones are before it is not known here.
            return (Vec::new(), 0);
        }
        let mut room = MOST_BYTES;
        let newest = self.chosen.iter().rev();
        let fits = newest.take_while(|(_, bytes)| {
            let left = room.checked_sub(*bytes);
            room = left.unwrap_or(0);
            left.is_some()
        });
        let left_out = self.chosen.len() - fits.count();
        let chosen = self.chosen.into_iter().skip(left_out);
        (chosen.map(|(seq, _)| seq).collect(), left_out)
    }
}

/// Whether the CLI repeats a message that it was sent.
fn is_replay(line: &Envelope<'_>) -> bool {
    memmem::find(line.line.as_bytes(), b"isReplay").is_some()
        && json::members(line.line, ["isReplay"]).and_then(|[replay]| replay) == Some("true")
}
