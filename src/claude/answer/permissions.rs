//! Owns what permission updates must look like (PROTOCOL: `PermissionUpdate`). The CLI drops one that is malformed without
//! a word, so a person who said "always" would be asked again; with too many it refuses the whole answer.

use super::{BadAnswer, keys};
use crate::{claude::options, json};

/// Updates, rules and directories that the CLI takes in one answer (its own message names the limit).
const MOST: usize = 4096;

/// The keys of an update.
const KEYS: [&str; 6] = ["type", "rules", "behavior", "destination", "mode", "directories"];
/// The keys of a rule.
const RULE_KEYS: [&str; 2] = ["toolName", "ruleContent"];
/// Longest path, in bytes: Linux takes no longer one.
const MOST_PATH_BYTES: usize = 4095;
/// Where an update goes.
const DESTINATIONS: [&str; 5] = [
    "session",
    "localSettings",
    "projectSettings",
    "userSettings",
    "cliArg",
];
/// The modes; `manual` is another name of `default`.
const MODES: [&str; 7] = [
    "default",
    "manual",
    "acceptEdits",
    "bypassPermissions",
    "plan",
    "dontAsk",
    "auto",
];
/// Why a session does not come into the mode that asks nobody.
pub(super) const NO_BYPASS: &str = "asks for bypassPermissions, which the session was not made for";

/// Checks the updates of an answer, if it has any. For one that the CLI does not know it drops the whole list.
///
/// # Errors
/// The CLI would not take them, or would drop them.
pub(super) fn check(updates: Option<&str>, may_bypass: bool) -> Result<(), BadAnswer> {
    let Some(updates) = updates else {
        return Ok(());
    };
    let updates = json::items(updates).ok_or(BadAnswer::BadPermissions)?;
    let mut count = updates.len();
    for (place, update) in updates.into_iter().enumerate() {
        count += check_one(update, may_bypass).map_err(|needs| BadAnswer::BadPermission { place, needs })?;
        check_keys(update)?;
    }
    if count > MOST {
        return Err(BadAnswer::TooManyPermissions { most: MOST });
    }
    Ok(())
}

/// A rule whose content is misspelt would be one for the whole tool.
fn check_keys(update: &str) -> Result<(), BadAnswer> {
    keys::check(update, &KEYS)?;
    let rules = json::members(update, ["rules"]).and_then(|[rules]| rules);
    for rule in rules.and_then(json::items).unwrap_or_default() {
        keys::check(rule, &RULE_KEYS)?;
    }
    Ok(())
}

/// Gives how many rules or directories the update names.
fn check_one(update: &str, may_bypass: bool) -> Result<usize, &'static str> {
    let [kind, rules, behavior, destination, mode, directories] =
        json::members(update, KEYS).ok_or("must be an object")?;
    let kind = kind.and_then(json::string).ok_or("needs a type")?;
    let count = match kind.as_ref() {
        "addRules" | "replaceRules" | "removeRules" => {
            let rules = rules.and_then(json::items).ok_or("needs a list of rules")?;
            if !rules.iter().all(|rule| is_rule(rule)) {
                return Err("needs a toolName in each rule, and no ruleContent but a text");
            }
            if !rules.iter().all(|rule| means_the_same_as_a_text(rule)) {
                return Err(
                    "needs a toolName without spaces, commas and parentheses, and a ruleContent that is neither empty nor *: \
                     leave it out for a rule about all of the tool",
                );
            }
            if !matches!(
                behavior.and_then(json::string).as_deref(),
                Some("allow" | "deny" | "ask")
            ) {
                return Err("needs a behavior: allow, deny or ask");
            }
            rules.len()
        }
        "setMode" => {
            let mode = mode.and_then(json::string).ok_or("needs a mode")?;
            if !MODES.contains(&mode.as_ref()) {
                return Err("needs a mode that the CLI knows");
            }
            if mode == "bypassPermissions" && !may_bypass {
                return Err(NO_BYPASS);
            }
            0
        }
        "addDirectories" | "removeDirectories" => {
            let directories = directories
                .and_then(json::items)
                .ok_or("needs a list of directories")?;
            if !directories.iter().all(|directory| is_text(directory)) {
                return Err("needs a text for each directory");
            }
            if !directories.iter().all(|directory| can_be_path(directory)) {
                return Err("needs directories of one line and at most 4095 bytes");
            }
            directories.len()
        }
        _ => return Err("needs a type that the CLI knows, such as addRules"),
    };
    let destination = destination
        .and_then(json::string)
        .ok_or("needs a destination, such as session")?;
    if !DESTINATIONS.contains(&destination.as_ref()) {
        return Err("needs a destination that the CLI knows, such as session");
    }
    Ok(count)
}

fn is_rule(rule: &str) -> bool {
    let Some([tool, content]) = json::members(rule, ["toolName", "ruleContent"]) else {
        return false;
    };
    tool.is_some_and(is_text) && content.is_none_or(is_text)
}

/// Whether the rule matches as much once it is written as a text. An empty content, or `*`, matches nothing as an object, and all
/// calls of the tool as a text.
fn means_the_same_as_a_text(rule: &str) -> bool {
    let [tool, content] = json::members(rule, ["toolName", "ruleContent"]).unwrap_or_default();
    let is_apart = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '(' | ')' | ',' | '\\');
    let tool = tool.and_then(json::decode_lossy).unwrap_or_default();
    let content = content.and_then(json::decode_lossy);
    !tool.is_empty()
        && !tool.contains(is_apart)
        && content.is_none_or(|content| !matches!(content.trim(), "" | "*"))
}

/// A rule as the CLI writes it in its settings and reads it there and in its flags; `None` for one that would match more there.
pub fn rule_text(rule: &str) -> Option<String> {
    let [tool, content] = json::members(rule, ["toolName", "ruleContent"])?;
    if !means_the_same_as_a_text(rule) {
        return None;
    }
    let mut text = json::string(tool?)?.into_owned();
    let Some(content) = content else {
        return Some(text);
    };
    let content = json::string(content)?;
    text.push('(');
    for c in content.chars() {
        if matches!(c, '\\' | '(' | ')') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push(')');
    Some(text)
}

/// Whether the next process can be given the directory by a flag.
fn can_be_path(directory: &str) -> bool {
    json::decode_lossy(directory).is_some_and(|directory| options::is_one_line(&directory, MOST_PATH_BYTES))
}

fn is_text(raw: &str) -> bool {
    raw.starts_with('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"type":"setMode","mode":"plan","destination":"session"}"#;

    #[test]
    fn what_the_cli_suggests_passes() {
        for updates in [
            "[]",
            r#"[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"ls \ud83d"}],"behavior":"allow","destination":"localSettings"}]"#,
            r#"[{"type":"removeRules","rules":[],"behavior":"ask","destination":"session"},
                {"type":"setMode","mode":"manual","destination":"session","brandNew":1},
                {"type":"addDirectories","directories":["/a"],"destination":"cliArg"}]"#,
        ] {
            assert_eq!(check(Some(updates), false), Ok(()), "{updates}");
        }
        assert_eq!(check(None, false), Ok(()));
    }

    #[test]
    fn what_the_cli_would_drop_is_refused() {
        for (update, said) in [
            ("7", "must be an object"),
            ("{}", "needs a type"),
            (r#"{"type":7}"#, "needs a type"),
            (
                r#"{"type":"addRules","behavior":"allow","destination":"session"}"#,
                "a list of rules",
            ),
            (
                r#"{"type":"addRules","rules":[{}],"behavior":"allow","destination":"session"}"#,
                "toolName",
            ),
            (
                r#"{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":7}],"behavior":"allow","destination":"session"}"#,
                "ruleContent",
            ),
            (
                r#"{"type":"addRules","rules":[],"destination":"session"}"#,
                "behavior",
            ),
            (
                r#"{"type":"replaceRules","rules":[],"behavior":"maybe","destination":"session"}"#,
                "behavior",
            ),
            (
                r#"{"type":"addRules","rules":[],"behavior":"deny"}"#,
                "destination",
            ),
            (
                r#"{"type":"addRule","rules":[],"behavior":"allow","destination":"session"}"#,
                "a type",
            ),
            (r#"{"type":"brandNew"}"#, "a type"),
            (
                r#"{"type":"setMode","mode":"weird","destination":"session"}"#,
                "a mode",
            ),
            (
                r#"{"type":"setMode","mode":"plan","destination":"nowhere"}"#,
                "a destination",
            ),
            (
                r#"{"type":"setMode","mode":"bypassPermissions","destination":"session"}"#,
                "bypassPermissions",
            ),
            (r#"{"type":"setMode","destination":"session"}"#, "a mode"),
            (r#"{"type":"setMode","mode":"acceptEdits"}"#, "destination"),
            (
                r#"{"type":"addDirectories","directories":"/a","destination":"session"}"#,
                "a list of directories",
            ),
            (
                r#"{"type":"removeDirectories","directories":[1],"destination":"session"}"#,
                "a text for each",
            ),
            (
                r#"{"type":"addDirectories","directories":["/a\u0000b"],"destination":"session"}"#,
                "of one line",
            ),
        ] {
            let error = check(Some(&format!("[{GOOD},{update}]")), false).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with("updatedPermissions[1] ") && text.contains(said),
                "{update}: {text}"
            );
        }
        assert_eq!(check(Some("{}"), false), Err(BadAnswer::BadPermissions));
        let bypass = r#"[{"type":"setMode","mode":"bypassPermissions","destination":"session"}]"#;
        assert_eq!(check(Some(bypass), true), Ok(()));
    }

    /// The next process is given the rule as a text, which would allow more than the CLI did while it had the object.
    #[test]
    fn a_rule_that_means_more_as_a_text_is_refused() {
        let checked = |rule: &str| {
            let update = r#"[{"type":"addRules","rules":[RULE],"behavior":"allow","destination":"session"}]"#;
            check(Some(&update.replace("RULE", rule)), false)
        };
        for rule in [
            r#"{"toolName":"Bash","ruleContent":""}"#,
            r#"{"toolName":"Bash","ruleContent":" "}"#,
            r#"{"toolName":"Bash","ruleContent":"*"}"#,
            r#"{"toolName":"Bash(touch:*)"}"#,
            r#"{"toolName":"Bash,Write"}"#,
            r#"{"toolName":"Bash Write"}"#,
            r#"{"toolName":""}"#,
        ] {
            let said = checked(rule).unwrap_err().to_string();
            assert!(
                said.starts_with("updatedPermissions[0] needs a toolName without"),
                "{rule}: {said}"
            );
        }
        for rule in [
            r#"{"toolName":"Bash"}"#,
            r#"{"toolName":"Bash","ruleContent":"touch *"}"#,
            r#"{"toolName":"Bash","ruleContent":"f (x), \\*"}"#,
            r#"{"toolName":"mcp__a-b__*"}"#,
        ] {
            assert_eq!(checked(rule), Ok(()), "{rule}");
        }
    }

    /// The CLI would take the rule for one over the whole tool.
    #[test]
    fn a_misspelt_part_of_a_rule_is_refused() {
        for rule in [
            r#"{"toolName":"Bash","rule_content":"ls"}"#,
            r#"{"toolName":"Bash","rulecontent":"ls"}"#,
        ] {
            let update = format!(
                r#"[{{"type":"addRules","rules":[{rule}],"behavior":"allow","destination":"session"}}]"#
            );
            let error = check(Some(&update), false).unwrap_err();
            assert!(matches!(error, BadAnswer::MisspeltKey { .. }), "{error}");
        }
    }

    #[test]
    fn as_many_pass_as_the_cli_takes() {
        let updates = |rules: usize| {
            let rules = vec![r#"{"toolName":"Bash"}"#; rules].join(",");
            format!(
                r#"[{{"type":"addRules","rules":[{rules}],"behavior":"allow","destination":"session"}},{{"type":"addDirectories","directories":["/a"],"destination":"session"}}]"#
            )
        };
        assert_eq!(check(Some(&updates(MOST - 3)), false), Ok(()));
        let too_many = BadAnswer::TooManyPermissions { most: MOST };
        assert_eq!(check(Some(&updates(MOST - 2)), false), Err(too_many));
    }
}
