//! Owns what the permission updates of an answer allow from then on, where that is certain.

use crate::json;

/// Where an allowance holds at once. The CLI heeds the settings of a project once that is trusted.
const AT_ONCE: [&str; 3] = ["session", "localSettings", "cliArg"];

/// A rule that allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleGrant {
    /// The tool.
    pub tool: String,
    /// Which of its calls; `None`: all.
    pub content: Option<String>,
}

/// The rules and directories that updates allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// The rules.
    pub rules: Vec<RuleGrant>,
    /// The directories.
    pub directories: Vec<String>,
}

impl Grants {
    /// The grants of an answer beyond its own request. `None` when that is nothing, or not certain: when one of its updates
    /// takes something away, or is of a kind that is not known.
    pub fn of_answer(answer: &str) -> Option<Self> {
        let [updates] = json::members(answer, ["updatedPermissions"])?;
        let mut all = Self::default();
        for update in Self::each(updates?) {
            let update = update?;
            all.rules.extend(update.rules);
            all.directories.extend(update.directories);
        }
        (!all.rules.is_empty() || !all.directories.is_empty()).then_some(all)
    }

    /// The grants of each of these updates; `None` for one of which that is not certain.
    pub fn each(updates: &str) -> Vec<Option<Self>> {
        let updates = json::items(updates).unwrap_or_default();
        updates.into_iter().map(Self::of_update).collect()
    }

    fn of_update(update: &str) -> Option<Self> {
        let names = ["type", "rules", "behavior", "destination", "directories"];
        let [kind, rules, behavior, destination, directories] = json::members(update, names)?;
        let kind = json::string(kind?)?;
        let is_now = AT_ONCE.contains(&json::string(destination?)?.as_ref());
        match kind.as_ref() {
            "addRules" if json::string(behavior?)? == "allow" => {
                let rules: Option<Vec<_>> = json::items(rules?)?.into_iter().map(rule).collect();
                Some(Self {
                    rules: rules?.into_iter().filter(|_| is_now).collect(),
                    directories: Vec::new(),
                })
            }
            "addDirectories" => {
                let directories = json::items(directories?)?.into_iter();
                let directories: Option<Vec<_>> = directories
                    .map(|directory| Some(json::string(directory)?.into_owned()))
                    .collect();
                Some(Self {
                    rules: Vec::new(),
                    directories: directories?.into_iter().filter(|_| is_now).collect(),
                })
            }
            // The mode counts once the CLI reports it.
            "setMode" => Some(Self::default()),
            _ => None,
        }
    }
}

/// The lists of permission updates in an answer, and in the output of a hook that answers for a person.
pub fn permission_updates(payload: &str) -> Vec<&str> {
    let [updates, specific] =
        json::members(payload, ["updatedPermissions", "hookSpecificOutput"]).unwrap_or_default();
    let of_decision = specific
        .and_then(|specific| json::members(specific, ["decision"]))
        .and_then(|[decision]| json::members(decision?, ["updatedPermissions"]))
        .and_then(|[updates]| updates);
    [updates, of_decision].into_iter().flatten().collect()
}

/// The directories that an answer, or the output of a hook, adds. A worktree that a hook has made is one of them.
pub fn added_directories(payload: &str) -> Vec<String> {
    let specific = json::members(payload, ["hookSpecificOutput"]).and_then(|[specific]| specific);
    let worktree = specific
        .and_then(|specific| json::members(specific, ["worktreePath"]))
        .and_then(|[worktree]| json::decode_lossy(worktree?));
    let lists = permission_updates(payload).into_iter();
    let directories = lists.flat_map(directories_of_updates);
    directories
        .chain(worktree.map(std::borrow::Cow::into_owned))
        .collect()
}

/// The directories that settings add.
pub fn directories_of_settings(settings: &str) -> Vec<String> {
    let permissions = json::members(settings, ["permissions"]).and_then(|[permissions]| permissions);
    permissions.map_or_else(Vec::new, directories_of_permissions)
}

/// The directories that the setting `permissions` adds.
pub fn directories_of_permissions(permissions: &str) -> Vec<String> {
    let listed = json::members(permissions, ["additionalDirectories"]).and_then(|[listed]| listed);
    texts(listed.and_then(json::items).unwrap_or_default())
}

/// The directories that permission updates add.
pub fn directories_of_updates(updates: &str) -> Vec<String> {
    let updates = json::items(updates).unwrap_or_default().into_iter();
    let directories = updates.filter_map(|update| {
        let [kind, directories] = json::members(update, ["type", "directories"])?;
        (json::string(kind?)? == "addDirectories").then_some(())?;
        json::items(directories?)
    });
    directories.flat_map(texts).collect()
}

fn texts(items: Vec<&str>) -> Vec<String> {
    let texts = items.into_iter().filter_map(json::decode_lossy);
    texts.map(std::borrow::Cow::into_owned).collect()
}

fn rule(rule: &str) -> Option<RuleGrant> {
    let [tool, content] = json::members(rule, ["toolName", "ruleContent"])?;
    Some(RuleGrant {
        tool: json::string(tool?)?.into_owned(),
        content: match content {
            None => None,
            Some(content) => Some(json::string(content)?.into_owned()),
        },
    })
}
