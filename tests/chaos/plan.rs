//! Owns what happens in a round: a function of the seed and the number of the round, and of nothing else.

mod acts;
mod prompts;

use crate::support::chance::Chance;
use acts::Calm;

/// Sessions on the fake CLI, and on the real one after them. They live through all rounds.
pub(crate) const FAKES: usize = 20;
pub(crate) const REALS: usize = 3;
pub(crate) const SESSIONS: usize = FAKES + REALS;
/// Sessions that come and go: forks, visits, adopted conversations. At most so many live at a time; they have the places after
/// the others, in the order in which they came.
pub(crate) const GUESTS: usize = 14;

/// Processes that are started in advance.
pub(crate) const SPARES: usize = 2;

/// How long things go wrong in a round.
const MIXED_MS: u64 = 8_000;
const KILLS_MS: u64 = 18_000;

/// The emphasis of a long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A bit of everything.
    Mixed,
    /// The daemon dies all the time, now and then something else.
    Kills,
}

/// The way that a daemon ends its sessions when it is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Stop,
    Detach,
}

impl Ending {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Detach => "detach",
        }
    }
}

/// How journals are compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collecting {
    /// The daemon is asked for it.
    Request,
    /// The program does it by itself while no daemon runs.
    Program,
}

/// Something that is done to the daemon, its sessions or the machine. Sessions are named by their places.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// SIGKILL, and another daemon after a while, which may die while it takes over.
    KillDaemon {
        down_ms: u64,
        dies_again_ms: Option<u64>,
    },
    /// SIGTERM, perhaps twice, and another daemon when this one has ended, or was killed over it. `then` is how that one ends.
    EndDaemon {
        hurry_ms: Option<u64>,
        dies_ms: Option<u64>,
        down_ms: u64,
        then: Ending,
    },
    /// The daemon is asked to start again in its place, and may be killed over it. `then` is how the next one ends.
    RestartDaemon {
        dies_ms: Option<u64>,
        then: Ending,
    },
    /// SIGSTOP, and SIGCONT after a while.
    FreezeDaemon {
        ms: u64,
    },
    /// Perhaps rather one whose tools have left their session and live.
    KillKeeper {
        session: usize,
        with_tools: bool,
    },
    FreezeKeeper {
        session: usize,
        ms: u64,
    },
    KillCli {
        session: usize,
    },
    /// It may die of it, with a prompt that came meanwhile and that it has not heard of.
    FreezeCli {
        session: usize,
        ms: u64,
        unheard: Option<(String, String)>,
    },
    /// A process that was started in advance dies, or its keeper.
    KillSpare {
        keeper: bool,
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
    /// Somebody stops a session.
    Stop {
        session: usize,
    },
    /// Somebody resumes sessions, whatever they do, and each twice at once.
    Wake {
        sessions: Vec<usize>,
    },
    /// Somebody forks a session.
    Fork {
        session: usize,
        guest: Guest,
    },
    /// People ask, all at once, for short-lived sessions in the directory for which processes are started in advance.
    Visits(Vec<Guest>),
    /// So many ask that starts wait for each other, and the daemon is killed over that: so soon, or when all have their answers.
    Rush {
        guests: Vec<Guest>,
        dies_ms: Option<u64>,
    },
    /// Two ask at once to go on with a conversation whose session was deleted.
    Adopt([Guest; 2]),
    /// Clients of a session read nothing.
    Stall {
        session: usize,
        ms: u64,
    },
    /// The daemon is killed and its database removed. The next one makes it again, and may be killed over that.
    LoseDatabase {
        down_ms: u64,
        dies_ms: Option<u64>,
    },
    /// Sessions are parked, and journals compacted and their oldest files removed; who does that may be killed over it.
    Collect {
        parked: Vec<usize>,
        how: Collecting,
        dies_ms: Option<u64>,
    },
    /// Somebody changes the options of sessions, all at once, and the daemon may be killed over that. Each change is known by its
    /// mark.
    Patch {
        marks: Vec<(usize, String)>,
        dies_ms: Option<u64>,
    },
}

impl Fault {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::KillDaemon { .. } => "kill daemon",
            Self::EndDaemon { .. } => "end daemon",
            Self::RestartDaemon { .. } => "restart daemon",
            Self::FreezeDaemon { .. } => "freeze daemon",
            Self::KillKeeper { .. } => "kill keeper",
            Self::FreezeKeeper { .. } => "freeze keeper",
            Self::KillCli { .. } => "kill cli",
            Self::FreezeCli { .. } => "freeze cli",
            Self::KillSpare { .. } => "kill spare",
            Self::FillDisk { .. } => "fill disk",
            Self::SetClock { .. } => "set clock",
            Self::Park { .. } => "park",
            Self::Stop { .. } => "stop",
            Self::Wake { .. } => "wake",
            Self::Fork { .. } => "fork",
            Self::Visits(_) => "visits",
            Self::Rush { .. } => "rush",
            Self::Adopt(_) => "adopt",
            Self::Stall { .. } => "stall clients",
            Self::LoseDatabase { .. } => "lose database",
            Self::Collect { .. } => "gc",
            Self::Patch { .. } => "patch",
        }
    }
}

/// A session that somebody asks for in a round.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    /// Its title, by which it is known should no answer come.
    pub(crate) title: String,
    /// The key under which it is asked for until there is an answer.
    pub(crate) key: String,
    /// Its first prompt: an id and a text.
    pub(crate) prompt: Option<(String, String)>,
}

/// A prompt that somebody sends.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub(crate) at_ms: u64,
    pub(crate) session: usize,
    pub(crate) uuid: String,
    pub(crate) text: String,
    /// Whether a session that is stopped or has failed is resumed for it.
    pub(crate) resumes: bool,
}

/// A round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) prompts: Vec<Prompt>,
    /// In the order of their times, in milliseconds from the round's beginning.
    pub(crate) faults: Vec<(u64, Fault)>,
    /// The session that is deleted at the end, and another one made in its place.
    pub(crate) replaced: usize,
    /// The guests that ask at once for processes started in advance, when all is calm: one more than there is.
    pub(crate) visits: Vec<Guest>,
    /// The session that is forked then, and its fork.
    pub(crate) forked: (usize, Guest),
    /// The acts that come after all that.
    pub(crate) calm: Calm,
    /// Whether a keeper whose tools have left dies at the very end, when no daemon starts any more and sweeps.
    pub(crate) last_death: bool,
}

/// The plan of a round.
pub(crate) fn round(seed: u64, number: u64, pace: Pace) -> Round {
    let mut root = Chance::of(seed.wrapping_add(number.wrapping_mul(0x5851_f42d_4c95_7f2d)));
    let (mut chance, mut beside) = (root.split(), root.split());
    let (length, wanted, faults) = match pace {
        Pace::Mixed => (MIXED_MS, 34, 16 + chance.below(8)),
        Pace::Kills => (KILLS_MS, 45, 20),
    };
    let mut prompts: Vec<_> = (0..wanted).map(|_| prompt(&mut chance, length)).collect();
    prompts.sort_by_key(|prompt| prompt.at_ms);
    let mut faults: Vec<_> = (0..faults)
        .map(|_| (chance.below(length), fault(&mut chance, pace)))
        .collect();
    faults.extend(acts::draw(&mut beside, length));
    faults.sort_by_key(|(at_ms, _)| *at_ms);
    Round {
        prompts,
        faults,
        replaced: place(&mut chance, SESSIONS),
        visits: (0..=SPARES).map(|_| guest(&mut chance, SESSIONS)).collect(),
        forked: {
            let parent = place(&mut chance, FAKES);
            (parent, guest(&mut chance, parent))
        },
        calm: acts::calm(&mut beside),
        last_death: !chance.one_in(4),
    }
}

fn place(chance: &mut Chance, of: usize) -> usize {
    usize::try_from(chance.below(of as u64)).unwrap()
}

fn fault(chance: &mut Chance, pace: Pace) -> Fault {
    if pace == Pace::Kills && !chance.one_in(6) {
        return kill_daemon(chance);
    }
    let session = place(chance, SESSIONS + GUESTS);
    match chance.below(46) {
        0..5 => kill_daemon(chance),
        5..7 => Fault::EndDaemon {
            hurry_ms: chance.one_in(3).then(|| chance.below(1_500)),
            dies_ms: chance.one_in(4).then(|| chance.below(1_000)),
            down_ms: chance.below(100),
            then: ending(chance),
        },
        7..10 => Fault::RestartDaemon {
            dies_ms: chance.one_in(3).then(|| chance.below(600)),
            then: ending(chance),
        },
        10..12 => Fault::FreezeDaemon {
            ms: 50 + chance.below(2_500),
        },
        12..15 => Fault::KillKeeper {
            session,
            with_tools: chance.one_in(2),
        },
        15..17 => Fault::FreezeKeeper {
            session,
            // Now and then for longer than a daemon that starts waits for it.
            ms: if chance.one_in(5) {
                6_000 + chance.below(3_000)
            } else {
                50 + chance.below(2_500)
            },
        },
        17..21 => Fault::KillCli { session },
        21..23 => Fault::FreezeCli {
            session,
            ms: 50 + chance.below(3_000),
            unheard: None,
        },
        23..24 => Fault::KillSpare {
            keeper: chance.one_in(2),
        },
        24..25 => Fault::FillDisk {
            ms: 200 + chance.below(3_000),
        },
        25..27 => Fault::SetClock {
            // Now and then it is right again.
            seconds: if chance.one_in(3) {
                0
            } else {
                i64::try_from(chance.below(14_400)).unwrap() - 7_200
            },
        },
        27..30 => Fault::Park { session },
        30..31 => Fault::Stop { session },
        31..32 => Fault::Wake {
            sessions: (0..1 + chance.below(6))
                .map(|_| place(chance, SESSIONS + GUESTS))
                .collect(),
        },
        32..36 => Fault::Fork {
            session,
            guest: guest(chance, session),
        },
        36..39 => {
            let visits = 1 + chance.below(4);
            // The directory is one of the fake CLI.
            Fault::Visits((0..visits).map(|_| guest(chance, SESSIONS)).collect())
        }
        42..44 => Fault::Rush {
            guests: (0..5).map(|_| guest(chance, SESSIONS)).collect(),
            dies_ms: chance.one_in(2).then(|| chance.below(300)),
        },
        // They wait for a restart afterwards, and have to say so.
        40..42 => Fault::FreezeCli {
            session,
            ms: 50 + chance.below(1_500),
            unheard: Some((chance.uuid(), prompts::text(chance, session))),
        },
        39..40 => Fault::Adopt([guest(chance, SESSIONS), guest(chance, SESSIONS)]),
        _ => Fault::Stall {
            session,
            ms: 500 + chance.below(5_000),
        },
    }
}

fn kill_daemon(chance: &mut Chance) -> Fault {
    Fault::KillDaemon {
        down_ms: if chance.one_in(4) {
            chance.below(1_500)
        } else {
            chance.below(100)
        },
        dies_again_ms: chance.one_in(4).then(|| chance.below(400)),
    }
}

fn ending(chance: &mut Chance) -> Ending {
    if chance.one_in(3) {
        Ending::Stop
    } else {
        Ending::Detach
    }
}

fn guest(chance: &mut Chance, like: usize) -> Guest {
    Guest {
        title: format!("guest {}", chance.uuid()),
        key: chance.uuid(),
        prompt: (!chance.one_in(3)).then(|| (chance.uuid(), prompts::text(chance, like))),
    }
}

fn prompt(chance: &mut Chance, length: u64) -> Prompt {
    // Guests get their share.
    let session = if chance.one_in(5) {
        SESSIONS + place(chance, GUESTS)
    } else {
        place(chance, SESSIONS)
    };
    Prompt {
        at_ms: chance.below(length),
        session,
        uuid: chance.uuid(),
        text: prompts::text(chance, session),
        resumes: chance.one_in(2),
    }
}

#[test]
fn a_round_is_a_function_of_its_seed() {
    let once = format!("{:?}", round(7, 3, Pace::Mixed));
    assert_eq!(once, format!("{:?}", round(7, 3, Pace::Mixed)));
    assert_ne!(once, format!("{:?}", round(7, 4, Pace::Mixed)));
    assert_ne!(once, format!("{:?}", round(8, 3, Pace::Mixed)));
}
