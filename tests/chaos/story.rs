//! Owns what is told when the test fails: the seed, the round, and what was done so far.

use std::{
    fmt::Display,
    sync::{Arc, Mutex},
    time::Instant,
};

/// The actions of this and the last round.
#[derive(Clone, Debug)]
pub(crate) struct Story(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    seed: u64,
    is_told_at_once: bool,
    told: Mutex<Told>,
}

#[derive(Debug)]
struct Told {
    round: u64,
    began: Instant,
    before: Vec<String>,
    now: Vec<String>,
}

impl Story {
    pub(crate) fn new(seed: u64) -> Self {
        let told = Told {
            round: 0,
            began: Instant::now(),
            before: Vec::new(),
            now: Vec::new(),
        };
        Self(Arc::new(Inner {
            seed,
            is_told_at_once: std::env::var_os("TRUNKLINE_CHAOS_VERBOSE").is_some(),
            told: Mutex::new(told),
        }))
    }

    pub(crate) fn begin(&self, round: u64) {
        let mut told = self.0.told.lock().unwrap();
        told.round = round;
        told.began = Instant::now();
        told.before = std::mem::take(&mut told.now);
    }

    pub(crate) fn tell(&self, what: impl Display) {
        let mut told = self.0.told.lock().unwrap();
        let ms = told.began.elapsed().as_millis();
        let line = format!("{ms:>6} ms  {what}");
        if self.0.is_told_at_once {
            println!("{line}");
        }
        told.now.push(line);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let told = self.told.lock().unwrap();
        eprintln!(
            "\nTRUNKLINE_CHAOS_SEED={} failed in round {}\nthe round before:\n{}\nthis round:\n{}",
            self.seed,
            told.round,
            told.before.join("\n"),
            told.now.join("\n"),
        );
    }
}
