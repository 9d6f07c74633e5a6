//! Owns the checked forms of patterns: of globs, regular expressions, paths and commands.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder, RegexSetBuilder};

use super::{InvalidRule, Lookup, Matcher, path, shell, spec::MAX_PATTERN_CHARS};

/// The memory for one compiled regular expression, in bytes.
const REGEX_BYTES: usize = 1 << 20;
/// The memory for all regular expressions of a list, in bytes. To compile one takes time as well as room.
const ALL_REGEX_BYTES: usize = 8 << 20;
/// Words of a command.
const MAX_WORDS: usize = 32;

/// The answer of a condition that cannot say whether it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenUncertain {
    /// It does not hold: nothing is allowed on a guess.
    NoMatch,
    /// It holds: nothing is let through on a guess.
    Match,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    No,
    /// The command line may run the command.
    Perhaps,
    Yes,
}

impl From<bool> for Fit {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// A glob over a whole text.
#[derive(Clone, Debug)]
pub(super) struct Glob(GlobMatcher);

impl Glob {
    pub(super) fn new(field: &str, pattern: &str) -> Result<Self, InvalidRule> {
        check_length(field, pattern)?;
        let glob = GlobBuilder::new(pattern).literal_separator(false).build();
        let glob = glob.map_err(|error| InvalidRule::new(field, format!("is no glob: {}", error.kind())))?;
        Ok(Self(glob.compile_matcher()))
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// The test that a field must pass.
#[derive(Clone, Debug)]
pub(super) enum Test {
    Glob(Glob),
    /// Only in the generous one a dot stands for line breaks too.
    Regex {
        strict: Regex,
        generous: Regex,
    },
    Path(PathBuf),
    Command(Vec<String>),
    IsSet(bool),
}

impl Test {
    pub(super) fn new(field: &str, matcher: &Matcher) -> Result<Self, InvalidRule> {
        match matcher {
            Matcher::Glob(pattern) => Glob::new(&format!("{field}.glob"), pattern).map(Self::Glob),
            Matcher::Regex(pattern) => {
                let field = format!("{field}.regex");
                check_length(&field, pattern)?;
                // By itself first: what is put around it must not mend it.
                regex(&field, pattern, false)?;
                let whole = format!(r"\A(?:{pattern})\z");
                Ok(Self::Regex {
                    strict: regex(&field, &whole, false)?,
                    generous: regex(&field, &whole, true)?,
                })
            }
            Matcher::PathPrefix(prefix) => {
                let field = format!("{field}.path_prefix");
                check_path(&field, prefix)?;
                Ok(Self::Path(PathBuf::from(prefix)))
            }
            Matcher::CommandPrefix(words) => {
                let field = format!("{field}.command_prefix");
                if words.is_empty() || words.len() > MAX_WORDS {
                    return Err(InvalidRule::new(field, "must be a list of 1 to 32 words"));
                }
                for word in words {
                    check_length(&field, word)?;
                    if word.chars().any(char::is_control) {
                        return Err(InvalidRule::new(field, "must hold no control characters"));
                    }
                }
                if words[0].chars().any(|c| c.is_whitespace() || c == '=') {
                    let reason =
                        "is a list of words that begins with a program, such as [\"git\", \"status\"]";
                    return Err(InvalidRule::new(field, reason));
                }
                Ok(Self::Command(words.clone()))
            }
            Matcher::IsSet(is_set) => Ok(Self::IsSet(*is_set)),
        }
    }

    pub(super) fn fit(&self, text: &str, when: WhenUncertain, cwd: Option<&Path>, lookup: Lookup<'_>) -> Fit {
        let holds = match (self, when) {
            // A text may be a path: nothing gets past a pattern by a `..`.
            (Self::Glob(_) | Self::Regex { .. }, WhenUncertain::NoMatch) => {
                self.is_whole(text, when)
                    && (!path::climbs(text) || self.is_whole(&path::resolved(text), when))
            }
            (Self::Glob(_) | Self::Regex { .. }, WhenUncertain::Match) => {
                self.is_whole(text, when)
                    || path::other_readings(text, cwd).any(|text| self.is_whole(&text, when))
            }
            (Self::Path(prefix), WhenUncertain::NoMatch) => path::is_below(text, prefix, cwd, lookup),
            (Self::Path(prefix), WhenUncertain::Match) => path::may_be_below(text, prefix, cwd, lookup),
            (Self::Command(prefix), WhenUncertain::NoMatch) => shell::runs_only(text, prefix),
            (Self::Command(prefix), WhenUncertain::Match) => return shell::runs(text, prefix),
            // It is about the field and not about a text.
            (Self::IsSet(_), _) => false,
        };
        holds.into()
    }

    /// Whether a pattern is one of this whole text.
    fn is_whole(&self, text: &str, when: WhenUncertain) -> bool {
        match (self, when) {
            (Self::Glob(glob), WhenUncertain::NoMatch) => !text.contains(['\n', '\r']) && glob.matches(text),
            (Self::Glob(glob), WhenUncertain::Match) => glob.matches(text),
            (Self::Regex { strict, .. }, WhenUncertain::NoMatch) => strict.is_match(text),
            (Self::Regex { generous, .. }, WhenUncertain::Match) => generous.is_match(text),
            (Self::Path(_) | Self::Command(_) | Self::IsSet(_), _) => false,
        }
    }
}

/// Refuses regular expressions that are too large together. The fault of a single one is found elsewhere.
pub(super) fn check_all<'a>(matchers: impl Iterator<Item = &'a Matcher>) -> Result<(), InvalidRule> {
    let patterns = matchers.filter_map(|matcher| match matcher {
        Matcher::Regex(pattern) => Some(pattern),
        Matcher::Glob(_) | Matcher::PathPrefix(_) | Matcher::CommandPrefix(_) | Matcher::IsSet(_) => None,
    });
    let patterns: Vec<&String> = patterns.collect();
    if patterns.len() <= ALL_REGEX_BYTES / REGEX_BYTES {
        return Ok(());
    }
    match RegexSetBuilder::new(patterns).size_limit(ALL_REGEX_BYTES).build() {
        Err(regex::Error::CompiledTooBig(_)) => Err(InvalidRule::new(
            "",
            "the regular expressions of the rules are too large together",
        )),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn regex(field: &str, pattern: &str, dot_is_any: bool) -> Result<Regex, InvalidRule> {
    let built = RegexBuilder::new(pattern)
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(REGEX_BYTES)
        .dot_matches_new_line(dot_is_any)
        .build();
    built.map_err(|error| {
        let reason = match error {
            regex::Error::CompiledTooBig(_) => "is too large a regular expression".to_owned(),
            error => {
                let text = error.to_string();
                let cause = text
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned();
                format!("is no regular expression: {cause}")
            }
        };
        InvalidRule::new(field, reason)
    })
}

pub(super) fn check_path(field: &str, text: &str) -> Result<(), InvalidRule> {
    check_length(field, text)?;
    let has_parent = Path::new(text)
        .components()
        .any(|component| component == std::path::Component::ParentDir);
    if has_parent || text.starts_with('~') || text.chars().any(char::is_control) {
        return Err(InvalidRule::new(
            field,
            "must be a path without .., ~ and control characters",
        ));
    }
    Ok(())
}

fn check_length(field: &str, text: &str) -> Result<(), InvalidRule> {
    if !text.is_empty() && text.chars().nth(MAX_PATTERN_CHARS).is_none() {
        Ok(())
    } else {
        Err(InvalidRule::new(
            field,
            format!("must have 1 to {MAX_PATTERN_CHARS} characters"),
        ))
    }
}
