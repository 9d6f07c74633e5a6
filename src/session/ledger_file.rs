//! Owns `ledger.ndjson` in the folder of a session: the facts of records that were removed for their age or size, in their order, and
//! the state of the session behind them. A database is made again of it and of what is left of the journal.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    machine::AtRest,
    reread::{FirstRun, Reread, first_run, start_behind},
};
use crate::{
    domain::{CliSessionId, Fact, Projection, Seq, SessionId},
    files,
    journal::{FolderLock, ReadError, Reader},
};

/// The name of the file in the folder of its session.
const LEDGER_FILE: &str = "ledger.ndjson";
/// The form of the file that this program writes, and the newest that it reads.
const FORM: u32 = 1;

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first one.
    Begin { form: u32, first: Option<FirstRun> },
    /// The facts of the next records up to this one.
    Facts { seq: Seq, facts: Vec<Fact> },
    /// The session as it was behind them. The last line of all, and one that was the last line once.
    Rest(Box<AtRest>),
}

/// The file as it is read, line by line.
#[derive(Debug)]
pub(super) struct LedgerFile {
    path: PathBuf,
    lines: BufReader<File>,
    session: SessionId,
    /// Read, and not given yet.
    next: Option<Projection>,
}

impl LedgerFile {
    /// Opens the file of a session; `None` when nothing of its journal was removed.
    pub(super) fn open(dir: &Path, session: SessionId) -> Result<Option<Self>, ReadError> {
        let path = dir.join(LEDGER_FILE);
        match files::open(&path, OpenOptions::new().read(true)) {
            Ok(file) => Ok(Some(Self {
                path,
                lines: BufReader::new(file),
                session,
                next: None,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ReadError::Io { path, source }),
        }
    }

    /// The state of the session behind the file's facts, and its first start of a process. Reads the file to its end.
    pub(super) fn ends(&self) -> Result<(Option<AtRest>, Option<FirstRun>), ReadError> {
        let (mut rest, mut first) = (None, None);
        let mut whole = Self {
            path: self.path.clone(),
            lines: BufReader::new(
                files::open(&self.path, OpenOptions::new().read(true))
                    .map_err(|source| self.failed(source))?,
            ),
            session: self.session,
            next: None,
        };
        while let Some(line) = whole.line()? {
            match line {
                Line::Begin { first: told, .. } => first = told,
                Line::Rest(told) => rest = Some(*told),
                Line::Facts { .. } => {}
            }
        }
        Ok((rest, first))
    }

    /// The next facts, of none behind `border`; `None` when there are none, or none up to there.
    pub(super) fn next(&mut self, border: Seq) -> Result<Option<Projection>, ReadError> {
        while self.next.is_none() {
            match self.line()? {
                Some(Line::Facts { seq, facts }) => {
                    self.next = Some(Projection {
                        session: self.session,
                        seq,
                        facts,
                    });
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
        Ok(self.next.take_if(|next| next.seq <= border))
    }

    /// Whether facts are left.
    pub(super) const fn has_more(&self) -> bool {
        self.next.is_some()
    }

    fn line(&mut self) -> Result<Option<Line>, ReadError> {
        let mut text = Vec::new();
        self.lines
            .read_until(b'\n', &mut text)
            .map_err(|source| self.failed(source))?;
        if text.is_empty() {
            return Ok(None);
        }
        let invalid = |error: String| self.failed(io::Error::new(io::ErrorKind::InvalidData, error));
        match serde_json::from_slice(&text) {
            Ok(Line::Begin { form, .. }) if form > FORM => Err(invalid(format!(
                "it has the form {form}, this program knows forms up to {FORM}"
            ))),
            Ok(line) => Ok(Some(line)),
            Err(error) => Err(invalid(error.to_string())),
        }
    }

    fn failed(&self, source: io::Error) -> ReadError {
        ReadError::Io {
            path: self.path.clone(),
            source,
        }
    }
}

/// The file as it is to be, beside the old one, durable. Dropped, it goes.
#[derive(Debug)]
pub struct KeptFacts {
    draft: PathBuf,
    path: PathBuf,
}

impl Drop for KeptFacts {
    fn drop(&mut self) {
        // It is gone where it took its place. One that stays is overwritten by the next.
        let _ = fs::remove_file(&self.draft);
    }
}

impl KeptFacts {
    /// Puts it in its place, for good.
    ///
    /// # Errors
    /// The old one is in its place then.
    pub fn put_in_place(self, lock: &FolderLock) -> Result<(), ReadError> {
        let moved = fs::rename(&self.draft, &self.path).and_then(|()| File::open(lock.dir())?.sync_all());
        moved.map_err(|source| ReadError::Io {
            path: self.path.clone(),
            source,
        })
    }
}

/// The facts to keep before the records up to `last` may go.
#[derive(Debug)]
pub enum Keeping {
    /// They are kept.
    Done,
    /// This is to be put in its place first.
    Draft(KeptFacts),
    /// They are not all known, as the journal is damaged: nothing may go.
    Damaged,
}

/// Makes what keeps the facts of the records up to `last`, which are before the start of the last process. The session had this
/// conversation first. Blocks.
///
/// # Errors
/// Those of the file system.
pub fn keep_facts(
    dir: &Path,
    session: SessionId,
    conversation: CliSessionId,
    last: Seq,
) -> Result<Keeping, ReadError> {
    // The fold goes on where a process starts: it needs nothing of what was before.
    let Some(until) = last_before_a_start(dir, last)? else {
        return Ok(Keeping::Damaged);
    };
    let old = LedgerFile::open(dir, session)?;
    let known = match &old {
        Some(old) => old.ends()?.0.map(|rest| rest.head),
        None => None,
    };
    if known.is_some_and(|known| known >= until) {
        return Ok(Keeping::Done);
    }
    let path = dir.join(LEDGER_FILE);
    let kept = KeptFacts {
        draft: path.with_extension("new"),
        path,
    };
    let failed = |source| ReadError::Io {
        path: kept.draft.clone(),
        source,
    };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let draft = files::open_own(&kept.draft, &options).map_err(failed)?;
    let mut out = BufWriter::new(draft);
    let mut write = |line: &Line| -> io::Result<()> {
        serde_json::to_writer(&mut out, line)?;
        out.write_all(b"\n")
    };
    write(&Line::Begin {
        form: FORM,
        first: first_run(dir)?,
    })
    .map_err(failed)?;
    // The facts of the file are among those that are read.
    let mut reread = Reread::open(dir, session, conversation)?;
    while let Some(projection) = reread.next(until)? {
        if !projection.facts.is_empty() {
            let Projection { seq, facts, .. } = projection;
            write(&Line::Facts { seq, facts }).map_err(failed)?;
        }
    }
    let Some(rest) = reread.rest().filter(|rest| rest.head == until) else {
        return Ok(Keeping::Damaged);
    };
    write(&Line::Rest(Box::new(rest))).map_err(failed)?;
    let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    Ok(Keeping::Draft(kept))
}

/// The record before the first start of a process behind `after`.
fn last_before_a_start(dir: &Path, after: Seq) -> Result<Option<Seq>, ReadError> {
    let start = start_behind(&Reader::open(dir)?, after)?;
    Ok(start.map(|(seq, _)| Seq::new(seq.get() - 1)))
}
