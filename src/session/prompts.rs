//! Owns what is known of each prompt's way into the journal, so that a repeat is acknowledged and never run again.

use std::collections::HashMap;

use crate::domain::{ConnectionId, PromptUuid, Seq};

use super::{
    handle::{Reply, Sent},
    machine::PromptDigest,
};

/// The caller that waits for the outcome.
#[derive(Debug)]
pub(super) enum PromptReply {
    Caller(Reply<Sent>),
    Client(ConnectionId),
}

#[derive(Debug)]
struct Known {
    digest: PromptDigest,
    /// Its record; `None` while it is on its way.
    seq: Option<Seq>,
    /// The waiting callers, each with whether it came after the one whose line is written.
    waiting: Vec<(PromptReply, bool)>,
}

/// The prompts of a session.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    known: HashMap<PromptUuid, Known>,
    /// The prompts of earlier runs: only the journal has their text.
    earlier: HashMap<PromptUuid, Seq>,
}

/// The next step for a prompt.
#[derive(Debug)]
pub(super) enum PromptCheck {
    /// It is new: write it.
    Write,
    /// It is on its way; the reply comes with the first one's.
    Waits,
    /// It was written before.
    Repeated(PromptReply, Seq),
    /// The id was used for something else.
    Conflict(PromptReply),
}

impl Prompts {
    pub(super) fn of_earlier_runs(prompts: Vec<(PromptUuid, Seq)>) -> Self {
        Self {
            known: HashMap::new(),
            earlier: prompts.into_iter().collect(),
        }
    }

    /// The record of a prompt of an earlier run that has not been looked up yet.
    pub(super) fn earlier(&self, uuid: PromptUuid) -> Option<Seq> {
        self.earlier
            .get(&uuid)
            .copied()
            .filter(|_| !self.known.contains_key(&uuid))
    }

    /// Notes a prompt that is to be written.
    pub(super) fn admit(
        &mut self,
        uuid: PromptUuid,
        digest: PromptDigest,
        reply: PromptReply,
    ) -> PromptCheck {
        match self.known.get_mut(&uuid) {
            Some(known) if known.digest != digest => PromptCheck::Conflict(reply),
            Some(Known { seq: Some(seq), .. }) => PromptCheck::Repeated(reply, *seq),
            Some(known) => {
                known.waiting.push((reply, true));
                PromptCheck::Waits
            }
            None => {
                let waiting = vec![(reply, false)];
                self.known.insert(
                    uuid,
                    Known {
                        digest,
                        seq: None,
                        waiting,
                    },
                );
                PromptCheck::Write
            }
        }
    }

    /// Notes a prompt that the keeper writes by itself, as it came with the launch.
    pub(super) fn expect(&mut self, uuid: PromptUuid, digest: PromptDigest) {
        self.known.entry(uuid).or_insert(Known {
            digest,
            seq: None,
            waiting: Vec::new(),
        });
    }

    /// The prompt is in the journal; who waited for that is returned, and whether it was a repeat.
    pub(super) fn on_sent(
        &mut self,
        uuid: PromptUuid,
        seq: Seq,
        digest: PromptDigest,
    ) -> Vec<(PromptReply, bool)> {
        let known = self.known.entry(uuid).or_insert(Known {
            digest,
            seq: None,
            waiting: Vec::new(),
        });
        known.seq = Some(seq);
        std::mem::take(&mut known.waiting)
    }

    /// The prompt was refused; who waited is returned, and the id is free again.
    pub(super) fn on_unsent(&mut self, uuid: PromptUuid) -> Vec<PromptReply> {
        match self.known.get(&uuid) {
            Some(Known { seq: None, .. }) => {}
            _ => return Vec::new(),
        }
        let waiting = self.known.remove(&uuid).map(|known| known.waiting);
        waiting.into_iter().flatten().map(|(reply, _)| reply).collect()
    }

    /// Those who wait for prompts that are on their way: for all, or for one. The prompts stay on their way.
    pub(super) fn take_waiting(&mut self, only: Option<PromptUuid>) -> Vec<(PromptUuid, PromptReply)> {
        let on_their_way = self.known.iter_mut().filter(|(_, known)| known.seq.is_none());
        on_their_way
            .filter(|(uuid, _)| only.is_none_or(|only| only == **uuid))
            .flat_map(|(uuid, known)| known.waiting.drain(..).map(|(reply, _)| (*uuid, reply)))
            .collect()
    }

    /// Whether any prompt is on its way into the journal.
    pub(super) fn any_is_on_its_way(&self) -> bool {
        self.known.values().any(|known| known.seq.is_none())
    }

    /// Whether the prompt is on its way into the journal.
    pub(super) fn is_on_its_way(&self, uuid: PromptUuid) -> bool {
        self.known.get(&uuid).is_some_and(|known| known.seq.is_none())
    }
}
