//! Owns the fold of a whole journal into facts, for a database that is made again from the journals.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{
    domain::{AgentKind, CliSessionId, Projection, Seq, SessionId, Timestamp, fact::CliTotals},
    journal::{Head, Missing, Position, ReadError, Reader, Source},
};

use super::{
    actor::READ_BYTES,
    ledger_file::LedgerFile,
    machine::{AtRest, Machine, Outcome},
    notes::Note,
    projection_queue,
};

/// The words of the first start of a process in a journal.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct FirstRun {
    /// The conversation that it began with.
    pub conversation: CliSessionId,
    /// The kind of agent; older versions did not write it.
    pub agent: Option<AgentKind>,
    /// When it was asked for.
    pub at: Timestamp,
}

/// A journal that is read from its first record on, with what was kept of records that were removed. Calls do blocking file IO.
#[derive(Debug)]
pub struct Reread {
    session: SessionId,
    /// The facts of removed records that are still to be given.
    ledger: Option<LedgerFile>,
    machine: Machine,
    reader: Reader,
    head: Head,
    position: Position,
}

impl Reread {
    /// Begins with the journal in `dir`, of a session that had this conversation first.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn open(dir: &Path, session: SessionId, conversation: CliSessionId) -> Result<Self, ReadError> {
        let reader = Reader::open(dir)?;
        let head = reader.head()?;
        let ledger = LedgerFile::open(dir, session)?;
        let kept = match &ledger {
            Some(ledger) => ledger.ends()?.0,
            None => None,
        };
        let mut rest = kept.unwrap_or_else(|| AtRest {
            cli_session: Some(conversation),
            ..AtRest::of_new(session)
        });
        let mut missing = None;
        let position = match reader.place_after(rest.head) {
            Err(ReadError::Compacted { oldest }) => {
                let first = rest.head.next();
                rest.head = Seq::new(oldest.get().saturating_sub(1));
                missing = Some(Missing::lost(first, rest.head));
                reader.place_after(rest.head)?
            }
            place => place?,
        };
        let mut machine = Machine::at_rest(rest);
        if let Some(missing) = missing {
            machine.expect_missing(missing);
        }
        Ok(Self {
            session,
            ledger,
            machine,
            reader,
            head,
            position,
        })
    }

    /// The facts of the next records, of none behind `border`; `None` when there are no more.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn next(&mut self, border: Seq) -> Result<Option<Projection>, ReadError> {
        if let Some(ledger) = &mut self.ledger {
            let kept = ledger.next(border)?;
            if kept.is_some() || ledger.has_more() {
                return Ok(kept);
            }
            self.ledger = None;
        }
        let after = self.machine.head();
        let until = if border < self.head.seq {
            let place = match self.reader.place_after(border) {
                // All up to there is missing.
                Err(ReadError::Compacted { .. }) => return Ok(None),
                place => place?,
            };
            Head {
                seq: border,
                segment: place.segment,
                offset: place.offset,
            }
        } else {
            self.head
        };
        if after >= until.seq {
            return Ok(None);
        }
        let chunk = self.reader.read_after(after, self.position, until, READ_BYTES)?;
        let mut out = Outcome::default();
        projection_queue::fold(&mut self.machine, &chunk, Seq::ZERO, &self.reader, &mut out);
        self.position = chunk.end;
        let seq = self.machine.head();
        Ok((seq > after).then_some(Projection {
            session: self.session,
            seq,
            facts: out.facts,
        }))
    }

    /// The session behind the last facts that were given; `None` when records are missing.
    pub(super) fn rest(&self) -> Option<AtRest> {
        (!self.machine.has_lost()).then(|| self.machine.rest())
    }

    /// Where records are missing, what was known of them holds: so many turns had ended, with these running totals.
    pub fn trust(&mut self, turns: u64, totals: Option<CliTotals>) {
        self.machine.trust(turns, totals);
    }
}

/// The first start of a process that the journal in `dir` tells of; `None` when it tells of none. Blocks.
///
/// # Errors
/// The journal cannot be read.
pub fn first_run(dir: &Path) -> Result<Option<FirstRun>, ReadError> {
    // Whose ledger this is does not matter: it is not asked for facts.
    if let Some(ledger) = LedgerFile::open(dir, SessionId::new())? {
        return Ok(ledger.ends()?.1);
    }
    let reader = Reader::open(dir)?;
    let before = Seq::new(reader.oldest()?.get().saturating_sub(1));
    Ok(start_behind(&reader, before)?.map(|(_, first)| first))
}

/// The next start of a process behind a record, and the number of its record; `None` when the journal tells of none. A line of the CLI
/// that reads like a start is none.
pub(super) fn start_behind(reader: &Reader, after: Seq) -> Result<Option<(Seq, FirstRun)>, ReadError> {
    let head = reader.head()?;
    let mut after = after;
    let mut position = reader.place_after(after)?;
    while after < head.seq {
        let chunk = reader.read_after(after, position, head, READ_BYTES)?;
        for record in chunk.records() {
            let is_ours = record.source == Source::Daemon;
            if let Some(Note::RunStarted(started)) = is_ours.then(|| Note::read(record.data)).flatten() {
                return Ok(Some((
                    record.seq,
                    FirstRun {
                        conversation: started.cli_session_id,
                        agent: started.agent,
                        at: record.at,
                    },
                )));
            }
        }
        if chunk.last <= after {
            break;
        }
        (after, position) = (chunk.last, chunk.end);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{RunId, StartMode},
        journal::{Writer, WriterOptions},
        session::notes::RunStarted,
    };

    fn start(conversation: CliSessionId) -> Vec<u8> {
        Note::RunStarted(RunStarted {
            cli_session_id: conversation,
            ..RunStarted::plain(RunId::new(), StartMode::New)
        })
        .to_json()
    }

    #[test]
    fn a_line_of_the_cli_is_no_start_of_a_process() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, forged) = (CliSessionId::new(), CliSessionId::new());
        let (mut writer, _) = Writer::open(dir.path(), WriterOptions::default()).unwrap();
        for (source, conversation) in [
            (Source::Cli, forged),
            (Source::Daemon, ours),
            (Source::Client, forged),
            (Source::Cli, forged),
        ] {
            writer
                .push(Timestamp::from_micros(1), source, None, &start(conversation))
                .unwrap();
        }
        writer.commit().unwrap();
        assert_eq!(first_run(dir.path()).unwrap().unwrap().conversation, ours);
        let reader = Reader::open(dir.path()).unwrap();
        let (seq, _) = start_behind(&reader, Seq::ZERO).unwrap().unwrap();
        assert_eq!(seq, Seq::new(2));
        assert!(start_behind(&reader, seq).unwrap().is_none());
    }
}
