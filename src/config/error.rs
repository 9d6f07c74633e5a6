//! Owns what can be wrong with a configuration, and how it is said.

use std::{fmt, io, path::PathBuf};

use super::Origin;

/// A value that has the right type and makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `section.key`.
    pub key: &'static str,
    /// The fault, as the rest of a sentence that begins with the key.
    pub reason: String,
}

impl Problem {
    pub(super) fn new(key: &'static str, reason: impl Into<String>) -> Self {
        Self {
            key,
            reason: reason.into(),
        }
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration file {} is not valid TOML", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// The file has keys that the program does not know.
    #[error("unknown keys in {}: {}", path.display(), UnknownKeys(keys))]
    UnknownKeys {
        /// The file.
        path: PathBuf,
        /// Each unknown key with the known one that it resembles.
        keys: Vec<(String, Option<String>)>,
    },
    /// A value cannot be read as what the key needs.
    #[error("{key} ({origin}): {reason}")]
    Value {
        /// `section.key`.
        key: String,
        /// Where the value came from.
        origin: Origin,
        /// The expected value.
        reason: String,
    },
    /// A rule that cannot be used.
    #[error("{key} (file {}{}): {reason}", path.display(), AtLine(*line))]
    Rule {
        /// The file.
        path: PathBuf,
        /// The line on which the rule begins, or what is wrong with it stands.
        line: Option<usize>,
        /// `rules[place].member`.
        key: String,
        /// The fault.
        reason: String,
    },
    /// Values that make no sense, each with its origin.
    #[error("{}", Problems(.0))]
    Invalid(Vec<(Problem, Origin)>),
}

struct AtLine(Option<usize>);

impl fmt::Display for AtLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(line) => write!(f, ", line {line}"),
            None => Ok(()),
        }
    }
}

struct UnknownKeys<'a>(&'a [(String, Option<String>)]);

impl fmt::Display for UnknownKeys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, resembles)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(key)?;
            if let Some(known) = resembles {
                write!(f, " (did you mean {known}?)")?;
            }
        }
        Ok(())
    }
}

struct Problems<'a>(&'a [(Problem, Origin)]);

impl fmt::Display for Problems<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (problem, origin)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{} ({origin}): {}", problem.key, problem.reason)?;
        }
        Ok(())
    }
}
