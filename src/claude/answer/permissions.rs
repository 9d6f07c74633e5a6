//! Owns what permission updates must look like (PROTOCOL: `PermissionUpdate`). The CLI drops one that is malformed without
//! a word, so a person who said "always" would be asked again; with too many it refuses the whole answer.

use super::BadAnswer;
use crate::claude::json;

/// Updates, rules and directories that the CLI takes in one answer (its own message names the limit).
const MOST: usize = 4096;

/// Checks the updates of an answer, if it has any. Types and values that are new pass; what a known type needs must be there.
///
/// # Errors
/// The CLI would not take them, or would drop one.
pub(super) fn check(updates: Option<&str>) -> Result<(), BadAnswer> {
    let Some(updates) = updates else {
        return Ok(());
    };
    let updates = json::items(updates).ok_or(BadAnswer::BadPermissions)?;
    let mut count = updates.len();
    for (place, update) in updates.into_iter().enumerate() {
        count += check_one(update).map_err(|needs| BadAnswer::BadPermission { place, needs })?;
    }
    if count > MOST {
        return Err(BadAnswer::TooManyPermissions { most: MOST });
    }
    Ok(())
}

/// Gives how many rules or directories the update names.
fn check_one(update: &str) -> Result<usize, &'static str> {
    let names = ["type", "destination", "rules", "behavior", "mode", "directories"];
    let [kind, destination, rules, behavior, mode, directories] =
        json::members(update, names).ok_or("must be an object")?;
    let kind = kind.and_then(json::string).ok_or("needs a type")?;
    let count = match kind.as_ref() {
        "addRules" | "replaceRules" | "removeRules" => {
            let rules = rules.and_then(json::items).ok_or("needs a list of rules")?;
            if !rules.iter().all(|rule| is_rule(rule)) {
                return Err("needs a toolName in each rule, and no ruleContent but a text");
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
            mode.and_then(json::string).ok_or("needs a mode")?;
            0
        }
        "addDirectories" | "removeDirectories" => {
            let directories = directories
                .and_then(json::items)
                .ok_or("needs a list of directories")?;
            if !directories.iter().all(|directory| is_text(directory)) {
                return Err("needs a text for each directory");
            }
            directories.len()
        }
        _ => return Ok(0),
    };
    destination
        .and_then(json::string)
        .ok_or("needs a destination, such as session")?;
    Ok(count)
}

fn is_rule(rule: &str) -> bool {
    let Some([tool, content]) = json::members(rule, ["toolName", "ruleContent"]) else {
        return false;
    };
    tool.is_some_and(is_text) && content.is_none_or(is_text)
}

fn is_text(raw: &str) -> bool {
    raw.starts_with('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cli_suggests_passes_and_so_does_what_is_new() {
        for updates in [
            "[]",
            r#"[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"ls \ud83d"}],"behavior":"allow","destination":"localSettings"}]"#,
            r#"[{"type":"removeRules","rules":[],"behavior":"ask","destination":"session"},
                {"type":"setMode","mode":"brandNew","destination":"session"},
                {"type":"addDirectories","directories":["/a"],"destination":"brandNew"}]"#,
            r#"[{"type":"brandNew"}]"#,
        ] {
            assert_eq!(check(Some(updates)), Ok(()), "{updates}");
        }
        assert_eq!(check(None), Ok(()));
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
        ] {
            let error = check(Some(&format!(r#"[{{"type":"brandNew"}},{update}]"#))).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with("updatedPermissions[1] ") && text.contains(said),
                "{update}: {text}"
            );
        }
        assert_eq!(check(Some("{}")), Err(BadAnswer::BadPermissions));
    }

    #[test]
    fn as_many_pass_as_the_cli_takes() {
        let updates = |rules: usize| {
            let rules = vec![r#"{"toolName":"Bash"}"#; rules].join(",");
            format!(
                r#"[{{"type":"addRules","rules":[{rules}],"behavior":"allow","destination":"session"}},{{"type":"addDirectories","directories":["/a"],"destination":"session"}}]"#
            )
        };
        assert_eq!(check(Some(&updates(MOST - 3))), Ok(()));
        let too_many = BadAnswer::TooManyPermissions { most: MOST };
        assert_eq!(check(Some(&updates(MOST - 2))), Err(too_many));
    }
}
