//! Owns what a session does about a journal that was damaged: it begins to read where it can, says what is missing, and gives no
//! number twice.

use std::{fs, os::unix::fs::DirBuilderExt as _, path::Path};

use crate::{
    domain::Seq,
    journal::{Head, Missing, Position, ReadError, Reader},
};

use super::{
    SessionError,
    actor::{Actor, SessionParts},
    machine::AtRest,
    notes::{Lost, Note, Notice},
    outbox::Subject,
};

/// Where the journal of a session is read from.
pub(super) struct Start {
    pub(super) reader: Reader,
    pub(super) head: Head,
    pub(super) position: Position,
    /// Records that are missing at its end and that the store has read.
    pub(super) cut: Option<Missing>,
    /// Records of the last run that are missing because the oldest segments are.
    pub(super) headless: Option<Missing>,
}

/// Opens the journal of a session. `rest` is told where the reading begins.
pub(super) fn start(parts: &SessionParts, rest: &mut AtRest) -> Result<Start, SessionError> {
    let (journal_dir, projected) = (&parts.journal_dir, parts.projected);
    let reader = match Reader::open(journal_dir) {
        // A journal that is gone is one whose records are all missing.
        Err(ReadError::NotFound { .. }) if projected > Seq::ZERO => {
            make_folder(journal_dir).and_then(|()| Reader::open(journal_dir))
        }
        opened => opened,
    };
    let reader = reader.map_err(SessionError::Journal)?;
    let head = match &parts.link {
        Some(link) => link.hello.head,
        None => reader.head().map_err(SessionError::Journal)?,
    };
    let is_cut = head.seq < projected;
    rest.head = if is_cut && parts.link.is_none() && !rest.state.is_live() {
        // How it ended is missing, and the store knows it.
        head.seq
    } else {
        parts.read_after.min(head.seq)
    };
    let mut headless = None;
    let position = match reader.place_after(rest.head) {
        Err(ReadError::Compacted { oldest }) => {
            let before = Seq::new(oldest.get().saturating_sub(1));
            headless = parts
                .link
                .is_some()
                .then_some(Missing::lost(rest.head.next(), before));
            rest.head = before;
            reader.place_after(rest.head)
        }
        found => found,
    };
    Ok(Start {
        position: position.map_err(SessionError::Journal)?,
        reader,
        head,
        cut: is_cut.then_some(Missing::lost(head.seq.next(), projected)),
        headless,
    })
}

fn make_folder(dir: &Path) -> Result<(), ReadError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|source| ReadError::Io {
        path: dir.to_owned(),
        source,
    })
}

impl Actor {
    /// Says in the journal which of its records are missing.
    pub(super) fn note_missing(&mut self) {
        let Some(last) = self.machine.missing().last().map(|missing| missing.last_seq) else {
            return;
        };
        // A note that is not read back may be missing itself, as where the file is gone that the keeper writes to. Saying
        // that would be one more record that is missing.
        let is_unread = |said| self.machine.missing().iter().any(|it| it.first_seq <= said);
        if self.noticed_missing.is_some_and(is_unread) {
            return;
        }
        let said = self.noticed_missing.replace(last).unwrap_or_default();
        let due: Vec<_> = self
            .machine
            .missing()
            .iter()
            .filter(|it| it.last_seq > said)
            .copied()
            .collect();
        for missing in due {
            let (first_seq, last_seq) = (missing.first_seq.get(), missing.last_seq.get());
            tracing::error!(session.id = %self.id, first_seq, last_seq, "records are missing from a journal");
            self.metrics.records_missing(missing.count());
            self.note(Note::Notice(Notice::Lost(Lost::new(missing))), Subject::Nobody);
        }
    }

    /// A record up to which this session's journal had numbers.
    pub(super) fn journal_floor(&self) -> Seq {
        let known = self.machine.missing().iter().map(|missing| missing.last_seq);
        known.fold(self.projected.max(self.machine.head()), Seq::max)
    }
}
