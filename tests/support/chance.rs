//! Owns chance, from a seed that a failure names, so that it can be had again.

use std::time::Duration;

/// The variable that names the seed of an earlier run.
const SEED: &str = "TRUNKLINE_TEST_SEED";

/// Numbers by chance: `SplitMix64`.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// Takes the seed of the environment, else a new one, and says which.
    pub(crate) fn new() -> Self {
        Self(seed(SEED))
    }

    /// Chance from a known seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Up to `most` milliseconds.
    pub(crate) fn moment(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.below(most * 1000))
    }

    /// Puts `items` into any order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for place in (1..items.len()).rev() {
            let other = usize::try_from(self.next()).unwrap() % (place + 1);
            items.swap(place, other);
        }
    }

    /// More chance, of its own, that follows from this one.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn uuid(&mut self) -> String {
        let bits = (u128::from(self.next()) << 64) | u128::from(self.next());
        uuid::Builder::from_random_bytes(bits.to_le_bytes())
            .into_uuid()
            .to_string()
    }
}

/// The seed that the variable names, else a new one; says which.
pub(crate) fn seed(variable: &str) -> u64 {
    let seed = match std::env::var(variable) {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).unwrap();
            u64::from_le_bytes(bytes)
        }
    };
    println!("{variable}={seed}");
    seed
}
