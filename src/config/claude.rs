//! Owns `[claude]`.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{Problem, check_absolute, is_plain};

/// The agent CLI and the environment it is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claude {
    /// The CLI's executable; unset = it is searched.
    pub bin: Option<PathBuf>,
    /// Programs of the CLI by the names that sessions ask for.
    pub executables: BTreeMap<String, PathBuf>,
    /// Names of variables of the daemon's environment that sessions get beside the built-in list; `*` stands for
    /// anything.
    pub env_allow: Vec<String>,
    /// Names of variables that sessions do not get although the built-in list has them; `*` stands for anything.
    pub env_deny: Vec<String>,
    /// Variables that every session gets, whatever the daemon's own environment holds.
    pub env: BTreeMap<String, String>,
    /// Directories put in front of `PATH` for sessions.
    pub path_extra: Vec<PathBuf>,
}

impl Claude {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if let Some(bin) = &self.bin {
            // A bare name is looked up on PATH.
            if bin.components().count() != 1 {
                check_absolute(problems, "claude.bin", bin);
            }
        }
        for (name, path) in &self.executables {
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if name.is_empty() || name.len() > 64 || !name.chars().all(is_of_name) {
                problems.push(Problem::new(
                    "claude.executables",
                    format!("{name:?} is no name: letters, digits, \".\", \"_\" and \"-\", at most 64"),
                ));
            }
            check_absolute(problems, "claude.executables", path);
        }
        for dir in &self.path_extra {
            check_absolute(problems, "claude.path_extra", dir);
            if dir.to_string_lossy().contains(':') {
                problems.push(Problem::new(
                    "claude.path_extra",
                    "takes one directory per item, without a colon",
                ));
            }
        }
        for (key, patterns) in [
            ("claude.env_allow", &self.env_allow),
            ("claude.env_deny", &self.env_deny),
        ] {
            if !patterns.iter().all(|text| is_name(&text.replace('*', "_"))) {
                problems.push(Problem::new(
                    key,
                    "takes names of variables, in which * stands for anything",
                ));
            }
        }
        for (name, value) in &self.env {
            if !is_name(name) {
                problems.push(Problem::new(
                    "claude.env",
                    format!("{name:?} is not a name of a variable"),
                ));
            }
            if value.contains('\0') {
                problems.push(Problem::new(
                    "claude.env",
                    format!("the value of {name} holds a zero byte"),
                ));
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    is_plain(text)
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
