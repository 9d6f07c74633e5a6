//! Owns what happens in a round: a function of the seed and the number of the round, and of nothing else.

use serde_json::{Value, json};

use crate::support::{
    chance::Chance,
    programs::{fake_prompt, scripted},
};

/// Sessions on the fake CLI, and on the real one after them.
pub(crate) const FAKES: usize = 20;
pub(crate) const REALS: usize = 3;
pub(crate) const SESSIONS: usize = FAKES + REALS;

/// How long things go wrong in a round.
const MIXED_MS: u64 = 7_000;
const KILLS_MS: u64 = 18_000;

/// What a long run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A bit of everything.
    Mixed,
    /// The daemon dies all the time, now and then something else.
    Kills,
}

/// Something that goes wrong. Sessions are named by their places.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// SIGKILL, and another daemon after a while, which may die while it takes over.
    KillDaemon {
        down_ms: u64,
        dies_again_ms: Option<u64>,
    },
    /// SIGSTOP, and SIGCONT after a while.
    FreezeDaemon {
        ms: u64,
    },
    KillKeeper {
        session: usize,
    },
    FreezeKeeper {
        session: usize,
        ms: u64,
    },
    KillCli {
        session: usize,
    },
    FreezeCli {
        session: usize,
        ms: u64,
    },
    /// The disk of the data directory has no room.
    FillDisk {
        ms: u64,
    },
    /// The daemon's clock is so far from the time that it is.
    SetClock {
        seconds: i64,
    },
    /// Somebody has a session parked: it loses its process until the next prompt, if it does nothing now.
    Park {
        session: usize,
    },
    /// Clients of a session read nothing.
    Stall {
        session: usize,
        ms: u64,
    },
}

impl Fault {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::KillDaemon { .. } => "kill daemon",
            Self::FreezeDaemon { .. } => "freeze daemon",
            Self::KillKeeper { .. } => "kill keeper",
            Self::FreezeKeeper { .. } => "freeze keeper",
            Self::KillCli { .. } => "kill cli",
            Self::FreezeCli { .. } => "freeze cli",
            Self::FillDisk { .. } => "fill disk",
            Self::SetClock { .. } => "set clock",
            Self::Park { .. } => "park",
            Self::Stall { .. } => "stall clients",
        }
    }
}

/// A prompt that somebody sends.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub(crate) at_ms: u64,
    pub(crate) session: usize,
    pub(crate) uuid: String,
    pub(crate) text: String,
}

/// A round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) prompts: Vec<Prompt>,
    /// In the order of their times, in milliseconds from the round's beginning.
    pub(crate) faults: Vec<(u64, Fault)>,
    /// The session that is deleted at the end, and another one made in its place.
    pub(crate) replaced: usize,
}

/// The plan of a round.
pub(crate) fn round(seed: u64, number: u64, pace: Pace) -> Round {
    let mut chance = Chance::of(seed.wrapping_add(number.wrapping_mul(0x5851_f42d_4c95_7f2d))).split();
    let (length, wanted, faults) = match pace {
        Pace::Mixed => (MIXED_MS, 30, 10 + chance.below(8)),
        Pace::Kills => (KILLS_MS, 45, 18),
    };
    let mut prompts: Vec<_> = (0..wanted).map(|_| prompt(&mut chance, length)).collect();
    prompts.sort_by_key(|prompt| prompt.at_ms);
    let mut faults: Vec<_> = (0..faults)
        .map(|_| (chance.below(length), fault(&mut chance, pace)))
        .collect();
    faults.sort_by_key(|(at_ms, _)| *at_ms);
    Round {
        prompts,
        faults,
        replaced: place(&mut chance, SESSIONS),
    }
}

fn place(chance: &mut Chance, of: usize) -> usize {
    usize::try_from(chance.below(of as u64)).unwrap()
}

fn fault(chance: &mut Chance, pace: Pace) -> Fault {
    let kill_daemon = |chance: &mut Chance| Fault::KillDaemon {
        down_ms: if chance.one_in(4) {
            chance.below(1_500)
        } else {
            chance.below(100)
        },
        dies_again_ms: chance.one_in(4).then(|| chance.below(400)),
    };
    if pace == Pace::Kills && !chance.one_in(6) {
        return kill_daemon(chance);
    }
    let session = place(chance, SESSIONS);
    match chance.below(26) {
        0..5 => kill_daemon(chance),
        5..7 => Fault::FreezeDaemon {
            ms: 50 + chance.below(2_500),
        },
        7..10 => Fault::KillKeeper { session },
        10..13 => Fault::FreezeKeeper {
            session,
            // Now and then for longer than a daemon that starts waits for it.
            ms: if chance.one_in(5) {
                6_000 + chance.below(3_000)
            } else {
                50 + chance.below(2_500)
            },
        },
        13..17 => Fault::KillCli { session },
        17..19 => Fault::FreezeCli {
            session,
            ms: 50 + chance.below(3_000),
        },
        19..20 => Fault::FillDisk {
            ms: 200 + chance.below(3_000),
        },
        20..22 => Fault::SetClock {
            // Now and then it is right again.
            seconds: if chance.one_in(3) {
                0
            } else {
                i64::try_from(chance.below(14_400)).unwrap() - 7_200
            },
        },
        22..24 => Fault::Park { session },
        _ => Fault::Stall {
            session,
            ms: 500 + chance.below(5_000),
        },
    }
}

fn prompt(chance: &mut Chance, length: u64) -> Prompt {
    let session = place(chance, SESSIONS);
    Prompt {
        at_ms: chance.below(length),
        session,
        uuid: chance.uuid(),
        text: if session < FAKES {
            fake_prompt(&fake_actions(chance))
        } else {
            scripted(&real_steps(chance))
        },
    }
}

fn fake_actions(chance: &mut Chance) -> Value {
    let text = json!({ "text": "All of this is said. ", "repeat": 1 + chance.below(40), "chunk_ms": chance.below(8) });
    let result = json!({ "result": {}, "cost": cost(chance) });
    match chance.below(16) {
        0..4 => json!([text, result]),
        4..7 => {
            let lines = 20 + chance.below(800);
            let mut flood = json!({ "flood": lines, "bytes": 200 + chance.below(300) });
            if chance.one_in(2) {
                flood["rate"] = json!(400);
            }
            json!([flood, { "text": format!("{lines} lines") }, result])
        }
        7..10 => {
            let ask = json!({ "tool": "Bash", "input": { "command": format!("echo {}", chance.next()) },
                              "n": 1 + chance.below(2) });
            json!([{ "text": "May I?" }, { "ask": ask }, text, result])
        }
        10 => json!([
            { "text": "It goes on later." },
            result,
            { "sleep_ms": chance.below(800) },
            { "turn": { "do": [{ "text": "Done in the background." }, { "result": {}, "cost": cost(chance) }] } },
        ]),
        11..13 => json!([
            { "child": { "setsid": true, "ignore_term": true, "double_fork": chance.one_in(2), "seconds": 60 } },
            text,
            result,
        ]),
        13 => {
            json!([{ "stderr": "a word on the side\n" }, { "sleep_ms": chance.below(1_500) }, text, result])
        }
        14 => json!([text, { "exit": chance.below(3) }]),
        _ => json!([{ "sleep_ms": 300 + chance.below(2_000) }, result]),
    }
}

fn real_steps(chance: &mut Chance) -> Value {
    let text =
        json!({ "text": "It is streamed. ", "repeat": 5 + chance.below(40), "chunk_ms": chance.below(12) });
    if chance.one_in(3) {
        let command = format!("sleep 0.{}; echo {}", chance.below(8), chance.next());
        json!([{ "text": "Running.", "tool": "Bash", "input": { "command": command } }, text])
    } else {
        json!([text])
    }
}

/// In dollars; a multiple of a hundredth of a cent.
#[expect(clippy::cast_precision_loss, reason = "at most five hundred")]
fn cost(chance: &mut Chance) -> f64 {
    (1 + chance.below(500)) as f64 / 10_000.0
}

#[test]
fn a_round_is_a_function_of_its_seed() {
    let once = format!("{:?}", round(7, 3, Pace::Mixed));
    assert_eq!(once, format!("{:?}", round(7, 3, Pace::Mixed)));
    assert_ne!(once, format!("{:?}", round(7, 4, Pace::Mixed)));
    assert_ne!(once, format!("{:?}", round(8, 3, Pace::Mixed)));
}
