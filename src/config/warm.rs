//! Owns `[warm]`.

use std::{collections::HashSet, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Problem, check_absolute};

/// The processes to start before anybody asks for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warm {
    /// For what, and how many; none by default.
    pub profiles: Vec<WarmProfile>,
    /// The most processes of all profiles together.
    pub max_processes: u32,
    /// How old a process may get before another takes its place; 0 = as old as it likes.
    pub max_age_ms: u64,
}

/// Sessions that somebody will ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmProfile {
    /// A name for metrics and journals; by default `profile-` and its number.
    #[serde(default)]
    pub name: String,
    /// The directory that they work in.
    pub cwd: PathBuf,
    /// How many processes wait.
    #[serde(default = "one")]
    pub count: u32,
    /// The launch options, as `POST /v1/sessions` takes them.
    #[serde(default)]
    pub options: Map<String, Value>,
}

const fn one() -> u32 {
    1
}

impl Default for Warm {
    fn default() -> Self {
        Self {
            profiles: Vec::new(),
            max_processes: 8,
            max_age_ms: 1_800_000,
        }
    }
}

impl Warm {
    /// Gives a name to profiles that have none.
    pub(super) fn name_all(&mut self) {
        for (profile, number) in self.profiles.iter_mut().zip(1..) {
            if profile.name.is_empty() {
                profile.name = format!("profile-{number}");
            }
        }
    }

    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        const KEY: &str = "warm.profiles";
        let mut names = HashSet::new();
        for profile in &self.profiles {
            let name = profile.name.as_str();
            let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if name.len() > 64 || !name.chars().all(is_name) {
                let reason =
                    format!("{name:?} is no name: letters, digits, \".\", \"_\" and \"-\", at most 64");
                problems.push(Problem::new(KEY, reason));
            } else if !names.insert(name) {
                problems.push(Problem::new(KEY, format!("two are named {name}")));
            }
            check_absolute(problems, KEY, &profile.cwd);
        }
        let counts = self.profiles.iter().map(|profile| u64::from(profile.count));
        let all: u64 = counts.sum();
        if all > self.max_processes.into() {
            let most = self.max_processes;
            problems.push(Problem::new(
                KEY,
                format!("ask for {all} processes together; warm.max_processes allows {most}"),
            ));
        }
    }
}
