//! Owns `[[rules]]`. They are a list, so they come from the file alone, and are read with their places in it.

use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use crate::domain::{RuleSet, RuleSpec};

/// The name of the list in the file.
pub(super) const KEY: &str = "rules";

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    rules: Vec<Spanned<RuleSpec>>,
}

/// Reads the rules of a file.
///
/// # Errors
/// A rule that cannot be read or used, with its line.
pub(super) fn read(path: &Path) -> Result<RuleSet, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.into(),
        source,
    })?;
    parse(&text).map_err(|(line, key, reason)| ConfigError::Rule {
        path: path.into(),
        line,
        key,
        reason,
    })
}

type Wrong = (Option<usize>, String, String);

fn parse(text: &str) -> Result<RuleSet, Wrong> {
    let line_of = |offset: usize| 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_of(span.start));
        (line, KEY.to_owned(), error.message().to_owned())
    })?;
    let lines: Vec<usize> = file.rules.iter().map(|rule| line_of(rule.span().start)).collect();
    let specs = file.rules.into_iter().zip(1..).map(|(rule, number)| {
        let mut rule = rule.into_inner();
        // The name must be the same after a restart.
        rule.id.get_or_insert_with(|| format!("config-{number}"));
        rule
    });
    RuleSet::new(specs.collect()).map_err(|error| {
        let line = error.place.and_then(|place| lines.get(place).copied());
        (line, error.path_in(KEY), error.reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_in_their_order() {
        let rules = parse(
            r#"
            [server]
            listen = "x"
            [[rules]]
            action = "allow"
            tool = "Bash"
            input.command.command_prefix = ["git", "status"]
            [[rules]]
            id = "asks"
            action = "ask"
            deadline_ms = 5
            "#,
        )
        .unwrap();
        let ids: Vec<&str> = rules.iter().map(|rule| rule.id()).collect();
        assert_eq!(ids, ["config-1", "asks"]);
    }

    #[test]
    fn a_wrong_rule_is_named_with_its_line() {
        for (text, line, key, reason) in [
            (
                "[[rules]]\naction = \"allow\"\n\n[[rules]]\naction = \"allow\"\ntool = \"[\"",
                4,
                "rules[1].tool",
                "is no glob",
            ),
            (
                "\n[[rules]]\naction = \"deny\"\nkind = \"question\"",
                2,
                "rules[0].action",
                "must be ask",
            ),
            ("[[rules]]\naction = \"maybe\"", 2, "rules", "unknown variant"),
            (
                "[[rules]]\naction = \"deny\"\ntoool = \"x\"",
                3,
                "rules",
                "unknown field",
            ),
            (
                "[[rules]]\naction = \"deny\"\ninput.x.regex = \"(\"",
                1,
                "rules[0].input.x.regex",
                "is no regular expression",
            ),
            ("rules = 7", 1, "rules", "invalid type"),
        ] {
            let (at, of, why) = parse(text).unwrap_err();
            assert_eq!((at, of.as_str()), (Some(line), key), "{text}: {why}");
            assert!(why.contains(reason), "{text}: {why}");
        }
    }
}
