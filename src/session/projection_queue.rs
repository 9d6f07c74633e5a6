//! Owns the way of facts from a session to the store: in order, and never waited for.
//!
//! A store that is behind must not hold up the session, so facts wait here. How many is bounded: what does not fit is dropped,
//! as the journal has it, and read again once the store takes facts.

use tokio::sync::mpsc;

use crate::{
    domain::{Fact, Projection, Seq, SessionId},
    journal::{Chunk, Head, ReadError, Reader},
};

use super::{
    actor::{Actor, READ_BYTES, report_unreadable},
    large,
    machine::{Machine, Outcome},
};

/// The records of facts that wait, in bytes. One chunk of the journal may come on top.
const MOST_WAITING: usize = 1 << 20;
/// The least size that a fact counts.
const LEAST_FACT: usize = 256;

/// Facts that the store has not taken yet.
#[derive(Debug)]
pub(super) struct ProjectionQueue {
    waiting: Option<Projection>,
    /// The size of their records.
    bytes: usize,
    most: usize,
    /// Set when facts were dropped.
    behind: Option<Box<Behind>>,
}

/// The fold as it was when the last fact was kept; what comes after it is to be read again.
#[derive(Debug)]
struct Behind {
    machine: Machine,
    /// It cannot be read on now; that is tried again when the journal grows.
    is_stuck: bool,
}

impl Default for ProjectionQueue {
    fn default() -> Self {
        Self {
            waiting: None,
            bytes: 0,
            most: MOST_WAITING,
            behind: None,
        }
    }
}

impl ProjectionQueue {
    /// Whether something is to be sent.
    pub(super) fn is_due(&self) -> bool {
        self.waiting.is_some() || self.behind.as_ref().is_some_and(|behind| !behind.is_stuck)
    }

    /// Keeps the facts of the records up to `machine`'s head.
    fn add(&mut self, session: SessionId, (facts, bytes): (Vec<Fact>, usize), machine: &Machine) {
        if let Some(behind) = &mut self.behind {
            behind.is_stuck = false;
            return;
        }
        self.keep(session, machine.head(), facts, bytes);
        if self.bytes > self.most {
            self.behind = Some(Box::new(Behind {
                machine: machine.clone(),
                is_stuck: false,
            }));
        }
    }

    fn keep(&mut self, session: SessionId, seq: Seq, facts: Vec<Fact>, bytes: usize) {
        self.bytes += bytes;
        match &mut self.waiting {
            Some(waiting) => {
                waiting.seq = seq;
                waiting.facts.extend(facts);
            }
            None => self.waiting = Some(Projection { session, seq, facts }),
        }
    }

    /// Takes all that waits. When that was sent, what was dropped is read again, piece by piece, up to `folded`: the last record
    /// of which facts were added or dropped. A piece may give none, and more be due.
    fn take(&mut self, session: SessionId, reader: &Reader, folded: Head) -> Option<Projection> {
        if self.waiting.is_none() {
            self.read_again(session, reader, folded);
        }
        self.bytes = 0;
        self.waiting.take()
    }

    /// One chunk at a time: a long journal holds up no stop.
    fn read_again(&mut self, session: SessionId, reader: &Reader, folded: Head) {
        let Some(behind) = &mut self.behind else {
            return;
        };
        if behind.machine.head() >= folded.seq {
            self.behind = None;
            return;
        }
        match behind.read(reader, folded) {
            Ok((facts, bytes)) => {
                let (seq, has_run) = (behind.machine.head(), behind.machine.has_run());
                if !facts.is_empty() || !has_run {
                    self.keep(session, seq, facts, bytes);
                }
            }
            Err(error) => {
                report_unreadable(session, &error);
                behind.is_stuck = true;
            }
        }
    }
}

impl Behind {
    fn read(&mut self, reader: &Reader, until: Head) -> Result<(Vec<Fact>, usize), ReadError> {
        let after = self.machine.head();
        // The place may have moved since: what is sealed is compacted.
        let chunk = reader.read_after(after, reader.place_after(after)?, until, READ_BYTES)?;
        let mut out = Outcome::default();
        let bytes = fold(&mut self.machine, &chunk, Seq::ZERO, reader, &mut out);
        Ok((out.facts, bytes))
    }
}

/// Folds records, without the facts of those up to `projected`, which the store has. Returns the size of the records that gave
/// facts.
pub(super) fn fold(
    machine: &mut Machine,
    chunk: &Chunk,
    projected: Seq,
    reader: &Reader,
    out: &mut Outcome,
) -> usize {
    machine.enter(chunk);
    let before = out.facts.len();
    let mut bytes = 0;
    for record in chunk.records() {
        let known = out.facts.len();
        out.counted.tally.add(&record);
        machine.apply(&record, out);
        if record.seq <= projected {
            out.facts.truncate(known);
        }
        let new = out.facts.len() - known;
        if new > 0 {
            bytes += record.data.len() + new * LEAST_FACT;
        }
    }
    for fact in out.facts.iter_mut().skip(before) {
        complete(fact, chunk, reader);
    }
    bytes
}

/// The log has whole requests, also of those of which memory holds an excerpt.
fn complete(fact: &mut Fact, chunk: &Chunk, reader: &Reader) {
    let Fact::ApprovalOpened(approval) = fact else {
        return;
    };
    if approval.left_out.is_none() {
        return;
    }
    let head = Head {
        seq: chunk.last,
        segment: chunk.end.segment,
        offset: chunk.end.offset,
    };
    match large::whole(approval, reader, head) {
        Ok(whole) => **approval = whole,
        Err(error) => {
            let (seq, error) = (approval.seq.get(), crate::telemetry::chain(&error));
            tracing::error!(
                seq,
                error,
                "a large request is in the log of approvals in part only"
            );
        }
    }
}

impl Actor {
    /// Sends what was read up to here on its way. `facts` come with the size of their records.
    pub(super) fn send_facts(&mut self, seq: Seq, facts: (Vec<Fact>, usize)) {
        if seq <= self.projected || (facts.0.is_empty() && self.machine.has_run()) {
            return;
        }
        self.projected = seq;
        self.projection_queue.add(self.id, facts, &self.machine);
        if self.unclaimed.is_none() {
            self.offer_facts();
        }
    }

    /// A store that is behind must not hold up the session: the facts wait here until it has room.
    pub(super) fn offer_facts(&mut self) {
        // Without room they wait. Without a store the daemon ends, and the journal keeps them for the next one.
        if self.projection_queue.waiting.is_some()
            && let Ok(room) = self.projections.clone().try_reserve_owned()
        {
            self.send_into(room);
        }
    }

    /// Sends what waits, now that there is room.
    pub(super) fn send_into(&mut self, room: mpsc::OwnedPermit<Projection>) {
        // Not the journal's: in a replay that is further, and what comes next is not folded yet.
        let folded = Head {
            seq: self.machine.head(),
            segment: self.position.segment,
            offset: self.position.offset,
        };
        if let Some(projection) = self.projection_queue.take(self.id, &self.reader, folded) {
            room.send(projection);
        }
    }

    pub(super) async fn flush_facts(&mut self) {
        if self.unclaimed.is_some() {
            // The store does not know the session.
            return;
        }
        // The projector only ends with the daemon; the journal keeps the facts for the next one.
        while self.projection_queue.is_due()
            && let Ok(room) = self.projections.clone().reserve_owned().await
        {
            self.send_into(room);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        domain::{RunId, StartMode, Timestamp},
        journal::{Source, Writer, WriterOptions},
        session::{
            machine::AtRest,
            notes::{Note, RunStarted},
        },
    };

    const MOST: usize = 4096;

    fn at_rest(session: SessionId) -> Machine {
        Machine::at_rest(AtRest::of_new(session))
    }

    /// A journal of a session with prompts, turns, and what gives no facts.
    fn journal(dir: &std::path::Path, turns: u32) -> Head {
        let (mut writer, _) = Writer::open(dir, WriterOptions::default()).unwrap();
        let started = Note::RunStarted(RunStarted::plain(RunId::new(), StartMode::New));
        let mut push = |source: Source, by: Option<&str>, data: &str| {
            writer
                .push(Timestamp::from_micros(1), source, by, data.as_bytes())
                .unwrap();
        };
        push(
            Source::Daemon,
            None,
            &String::from_utf8(started.to_json()).unwrap(),
        );
        for n in 0..turns {
            let uuid = uuid::Uuid::from_u128(n.into());
            let text = "x".repeat(300);
            push(
                Source::Client,
                Some("test"),
                &format!(
                    r#"{{"type":"user","message":{{"role":"user","content":"{text}"}},"uuid":"{uuid}"}}"#
                ),
            );
            push(
                Source::Cli,
                None,
                r#"{"type":"assistant","message":{"content":[]}}"#,
            );
            push(
                Source::Cli,
                None,
                &format!(
                    r#"{{"type":"result","subtype":"success","is_error":false,"result":"{text}","total_cost_usd":{n},"user_message_uuids":["{uuid}"]}}"#
                ),
            );
        }
        writer.commit().unwrap()
    }

    fn told(facts: &[Fact]) -> Vec<String> {
        facts.iter().map(|fact| format!("{fact:?}")).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whenever the store has room, it gets every fact once and in order, and what waits is bounded.
        #[test]
        fn what_waits_for_the_store_is_bounded_and_nothing_is_lost(
            has_room in proptest::collection::vec(proptest::bool::weighted(0.1), 200),
            piece in 200_usize..3000,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let end = journal(dir.path(), 60);
            let reader = Reader::open(dir.path()).unwrap();
            let session = SessionId::new();
            let mut unsent = ProjectionQueue { most: MOST, ..ProjectionQueue::default() };
            let mut machine = at_rest(session);
            let (mut all, mut stored, mut seq) = (Vec::new(), Vec::new(), Seq::ZERO);
            let mut most = 0;
            let mut rooms = has_room.into_iter();
            let mut store = |unsent: &mut ProjectionQueue, head: Head| {
                if let Some(projection) = unsent.take(session, &reader, head) {
                    assert!(projection.seq > seq);
                    seq = projection.seq;
                    stored.extend(told(&projection.facts));
                }
            };
            let mut head = end;
            while machine.head() < end.seq {
                let from = reader.place_after(machine.head()).unwrap();
                let chunk = reader.read_after(machine.head(), from, end, piece).unwrap();
                let mut out = Outcome::default();
                let bytes = fold(&mut machine, &chunk, Seq::ZERO, &reader, &mut out);
                all.extend(told(&out.facts));
                if !out.facts.is_empty() {
                    unsent.add(session, (out.facts, bytes), &machine);
                }
                head = Head { seq: chunk.last, segment: chunk.end.segment, offset: chunk.end.offset };
                most = most.max(unsent.bytes);
                if rooms.next() == Some(true) {
                    store(&mut unsent, head);
                }
            }
            while unsent.is_due() {
                store(&mut unsent, head);
            }
            prop_assert_eq!(stored, all);
            // One piece, and what a record counts beside its bytes.
            prop_assert!(most <= MOST + piece + 3000 + 32 * LEAST_FACT, "{} waited", most);
        }
    }
}
