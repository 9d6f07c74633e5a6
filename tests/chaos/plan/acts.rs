//! Owns the acts of a round beside its faults: the database is lost, journals are compacted, options are changed. They are drawn from
//! chance of their own, so that the faults and prompts of a seed are what they were without them.

use super::{Collecting, Fault, GUESTS, SESSIONS, place};
use crate::support::chance::Chance;

/// So often options are changed in a round, each time of several sessions at once.
const PATCHES: u64 = 5;
/// So often journals are compacted.
const COLLECTIONS: u64 = 3;
/// The most sessions that are parked for it: the journal of one that has a process is left as it is.
const MOST_PARKED: u64 = 10;
/// The most sessions whose options are changed at once.
const MOST_PATCHED: u64 = 5;

/// The acts of a round that takes so many milliseconds.
pub(super) fn draw(chance: &mut Chance, length: u64) -> Vec<(u64, Fault)> {
    let losses = 1 + chance.below(2);
    let mut acts = Vec::new();
    for _ in 0..losses {
        acts.push((chance.below(length), lose_database(chance)));
    }
    for _ in 0..COLLECTIONS {
        acts.push((chance.below(length), collect(chance)));
    }
    for _ in 0..PATCHES {
        acts.push((chance.below(length), patch(chance)));
    }
    acts
}

/// Those of the calm after a round, when nothing else happens: sessions that are parked for a look at journals, and changes.
#[derive(Debug)]
pub(crate) struct Calm {
    pub(crate) parked: Vec<usize>,
    pub(crate) marks: Vec<(usize, String)>,
}

pub(super) fn calm(chance: &mut Chance) -> Calm {
    Calm {
        parked: (0..MOST_PARKED).map(|_| anyone(chance)).collect(),
        marks: (0..MOST_PATCHED)
            .map(|_| (anyone(chance), chance.uuid()))
            .collect(),
    }
}

fn lose_database(chance: &mut Chance) -> Fault {
    Fault::LoseDatabase {
        down_ms: chance.below(100),
        dies_ms: chance.one_in(2).then(|| chance.below(700)),
    }
}

fn collect(chance: &mut Chance) -> Fault {
    let parked = 1 + chance.below(MOST_PARKED);
    Fault::Collect {
        parked: (0..parked).map(|_| anyone(chance)).collect(),
        how: if chance.one_in(3) {
            Collecting::Program
        } else {
            Collecting::Request
        },
        dies_ms: chance.one_in(2).then(|| chance.below(250)),
    }
}

fn patch(chance: &mut Chance) -> Fault {
    let patched = 1 + chance.below(MOST_PATCHED);
    Fault::Patch {
        marks: (0..patched).map(|_| (anyone(chance), chance.uuid())).collect(),
        dies_ms: chance.one_in(3).then(|| chance.below(200)),
    }
}

fn anyone(chance: &mut Chance) -> usize {
    place(chance, SESSIONS + GUESTS)
}
