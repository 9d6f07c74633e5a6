//! Owns the effort that a person typed as the command `/effort`. The CLI keeps it in memory alone, and its answer says
//! what it made of it.
//!
//! `get_settings` says it too, but together with all other settings: their secrets would be in the journal.

use crate::domain::PromptUuid;

use super::kept::{EFFORT, ULTRACODE};

/// The command.
const COMMAND: &str = "/effort";
/// Most commands that wait for their answers.
const MOST_OPEN: usize = 64;
/// Longest name of an effort.
const LEVEL_BYTES: usize = 32;

/// So many characters of a prompt say whether it is the command.
pub(in crate::session) const COMMAND_CHARS: usize = COMMAND.len() + 1;

/// Whether a prompt is the command.
pub(in crate::session) fn is_effort_command(prompt: &str) -> bool {
    let rest = prompt.strip_prefix(COMMAND);
    rest.is_some_and(|rest| rest.chars().next().is_none_or(char::is_whitespace))
}

/// The commands of this run.
#[derive(Debug, Default)]
pub(super) struct TypedEfforts {
    /// Those without an answer.
    open: Vec<PromptUuid>,
    /// Whether the newest answer was not understood.
    is_unknown: bool,
}

impl TypedEfforts {
    pub(super) fn typed(&mut self, prompt: PromptUuid) {
        if self.open.len() == MOST_OPEN {
            self.open.remove(0);
            self.is_unknown = true;
        }
        self.open.push(prompt);
    }

    /// Whether one of these prompts is such a command; it is open no longer.
    pub(super) fn take(&mut self, prompts: &[PromptUuid]) -> bool {
        let known = self.open.len();
        self.open.retain(|open| !prompts.contains(open));
        self.open.len() < known
    }

    /// An answer came, and was understood or not.
    pub(super) fn answered(&mut self, is_understood: bool) {
        self.is_unknown = !is_understood;
    }

    /// Whether the process had an effort that nobody knows. Prompts that a later process gets are none of it.
    pub(super) fn is_unknown(&self, is_carried: impl Fn(&PromptUuid) -> bool) -> bool {
        self.is_unknown || self.open.iter().any(|prompt| !is_carried(prompt))
    }
}

/// The settings that give a process the same as the command did, by the CLI's answer. Empty when the CLI changed nothing,
/// `None` when the answer is not understood.
pub(super) fn settings_of(answer: &str) -> Option<Vec<(&'static str, String)>> {
    let changes_nothing = [
        "Unknown option",
        "Usage:",
        "Effort level: ",
        "Ultracode isn't available",
    ];
    if changes_nothing.iter().any(|it| answer.starts_with(it)) {
        return Some(Vec::new());
    }
    if answer.starts_with("Ultracode on ") {
        return Some(vec![(ULTRACODE, "true".to_owned())]);
    }
    if answer.starts_with("Ultracode off") {
        return Some(vec![(ULTRACODE, "false".to_owned())]);
    }
    let level = if answer.starts_with("Effort level set to auto") {
        "null".to_owned()
    } else {
        let capped = || answer.strip_prefix("Effort '")?.split_once("set to '");
        let rest = answer.strip_prefix("Set effort level to ");
        let rest = rest.or_else(|| capped().map(|(_, rest)| rest))?;
        let end = rest.find(|c: char| !c.is_ascii_lowercase())?;
        let is_name = (1..=LEVEL_BYTES).contains(&end);
        format!("\"{}\"", rest.get(..end).filter(|_| is_name)?)
    };
    let mut settings = vec![(EFFORT, level)];
    if answer.contains("Ultracode off") {
        settings.push((ULTRACODE, "false".to_owned()));
    }
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_command_is_one() {
        for prompt in ["/effort", "/effort low", "/effort\nlow"] {
            assert!(is_effort_command(prompt), "{prompt}");
        }
        for prompt in ["", " /effort low", "/effortless", "use /effort low", "/model x"] {
            assert!(!is_effort_command(prompt), "{prompt}");
        }
    }

    #[test]
    fn answers_of_the_cli_say_what_holds() {
        let only = |name, value: &str| Some(vec![(name, value.to_owned())]);
        let capped =
            "Effort 'max' exceeds the cap for m set by your settings or organization; set to 'high' instead";
        for (answer, expected) in [
            (
                "Set effort level to xhigh (this session only): Deeper",
                only(EFFORT, r#""xhigh""#),
            ),
            (capped, only(EFFORT, r#""high""#)),
            (
                "Effort level set to auto (this session only)",
                only(EFFORT, "null"),
            ),
            (
                "Ultracode on (this session only): x. Effort stays low.",
                only(ULTRACODE, "true"),
            ),
            ("Ultracode off. Effort stays low.", only(ULTRACODE, "false")),
            ("Unknown option: bogus. Options: low, medium", Some(Vec::new())),
            ("Usage: /effort <low|medium>", Some(Vec::new())),
            ("Effort level: auto (currently low)", Some(Vec::new())),
            ("", None),
            ("Set effort level to ", None),
            ("Set effort level to \"x\"", None),
            ("Something else", None),
        ] {
            assert_eq!(settings_of(answer), expected, "{answer}");
        }
        let both = settings_of("Set effort level to low (this session only): Quick · Ultracode off").unwrap();
        assert_eq!(both.len(), 2);
    }
}
