//! Owns the permission rules and directories that people gave for the session with their decisions, and how the next
//! process gets them. The CLI keeps these in memory alone.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    claude::{LaunchOptions, answer, control::replaced, options::Settings},
    domain::Seq,
    json,
};

/// The destination of an update that the CLI keeps in memory.
const SESSION: &str = "session";
/// Most bytes of the rules that go by one flag.
const FLAG_BYTES: usize = 64 * 1024;

/// The rules, as the CLI writes them, and the directories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionRules {
    /// The newest record that changed something: records up to it count no second time.
    pub(super) through: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    allow: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deny: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ask: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    directories: Vec<String>,
}

impl SessionRules {
    /// Nothing, where the records up to this one are known.
    pub(super) fn since(seq: u64) -> Self {
        Self {
            through: seq,
            ..Self::default()
        }
    }

    /// Nothing was ever given.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The rules of a copy of the session: it has records of its own, and nobody has allowed it anything.
    pub(super) fn of_copy(self) -> Self {
        Self {
            through: 0,
            allow: Vec::new(),
            ..self
        }
    }

    /// The CLI was given this answer, or this output of a hook.
    pub(super) fn answered(&mut self, seq: Seq, payload: &str) {
        self.change(seq, |rules| {
            for updates in answer::permission_updates(payload) {
                for update in json::items(updates).unwrap_or_default() {
                    // The CLI drops what is not whole.
                    let _ = rules.update(update);
                }
            }
        });
    }

    /// A person stopped the session: what was allowed ends with it.
    pub(super) fn stopped(&mut self, seq: Seq) {
        self.change(seq, |rules| rules.allow.clear());
    }

    fn change(&mut self, seq: Seq, change: impl FnOnce(&mut Self)) {
        if seq.get() <= self.through {
            return;
        }
        let mut changed = self.clone();
        change(&mut changed);
        if changed != *self {
            changed.through = seq.get();
            *self = changed;
        }
    }

    fn update(&mut self, update: &str) -> Option<()> {
        let names = ["type", "rules", "behavior", "destination", "directories"];
        let [kind, rules, behavior, destination, directories] = json::members(update, names)?;
        if json::string(destination?)? != SESSION {
            return None;
        }
        let kind = json::string(kind?)?;
        let (list, given) = if let "addDirectories" | "removeDirectories" = kind.as_ref() {
            let given = json::items(directories?)?.into_iter();
            let given: Option<Vec<String>> = given.map(|it| Some(json::string(it)?.into_owned())).collect();
            (&mut self.directories, given?)
        } else {
            let list = match json::string(behavior?)?.as_ref() {
                "allow" => &mut self.allow,
                "deny" => &mut self.deny,
                "ask" => &mut self.ask,
                _ => return None,
            };
            // One that would mean more to the next process is not carried over.
            let given = json::items(rules?)?.into_iter().filter_map(answer::rule_text);
            (list, given.collect())
        };
        match kind.as_ref() {
            "removeRules" | "removeDirectories" => list.retain(|item| !given.contains(item)),
            "addRules" | "addDirectories" => add(list, given),
            "replaceRules" => {
                list.clear();
                add(list, given);
            }
            _ => {}
        }
        Some(())
    }

    /// Whether some rules go by the settings of the launch, as no flag can say them.
    pub(super) fn need_settings(&self) -> bool {
        self.beyond_flags().iter().any(|(_, rules)| !rules.is_empty())
    }

    /// The rules that no flag can say, by the list that each belongs to.
    fn beyond_flags(&self) -> [(&'static str, Vec<String>); 3] {
        let (_, allow) = split(&self.allow);
        let (_, deny) = split(&self.deny);
        [("allow", allow), ("deny", deny), ("ask", self.ask.clone())]
    }

    /// Makes them part of the launch options: allow and deny rules and directories go by flags, and what flags cannot say goes
    /// by the settings. A file of settings is left as it is: where rules must join it, it has been read before.
    pub(super) fn shape(&self, options: &mut LaunchOptions) {
        let by_flag = |list: &mut Option<Vec<String>>, rules: &[String]| {
            let (plain, _) = split(rules);
            if !plain.is_empty() {
                add(list.get_or_insert_default(), plain);
            }
        };
        by_flag(&mut options.allowed_tools, &self.allow);
        by_flag(&mut options.disallowed_tools, &self.deny);
        if !self.directories.is_empty() {
            let directories = options.additional_directories.get_or_insert_default();
            add(directories, self.directories.clone());
        }
        let of_launch = match &options.settings {
            Some(Settings::Inline(settings)) => Some(settings.get().to_owned()),
            Some(Settings::Path(_)) => return,
            None => None,
        };
        if let Some(merged) = self.merge_into_settings(of_launch.as_deref().unwrap_or("{}"))
            && let Ok(merged) = serde_json::from_str(merged.get())
        {
            options.settings = Some(Settings::Inline(merged));
        }
    }

    /// The settings with the rules that no flag gives, as a change of `permissions` replaces these as a whole. `None` when
    /// nothing is to be added.
    pub(super) fn merge_into_settings(&self, settings: &str) -> Option<Box<RawValue>> {
        let [permissions] = json::members(settings, ["permissions"])?;
        let permissions = self.merge(permissions.filter(|it| json::is_object(it)).unwrap_or("{}"))?;
        replaced(settings, "permissions", permissions)
    }

    /// A request that replaces `permissions`, with the rules that no flag gives. `null` goes back to those of the launch, which
    /// have them.
    pub(super) fn merge_into_request(&self, request: &str) -> Option<String> {
        let [settings] = json::members(request, ["settings"])?;
        let [permissions] = json::members(settings?, ["permissions"])?;
        permissions.filter(|it| json::is_object(it))?;
        let merged = replaced(request, "settings", self.merge_into_settings(settings?)?)?;
        Some(merged.get().to_owned())
    }

    /// The value of the setting `permissions` with the rules that no flag gives.
    pub(super) fn merge(&self, permissions: &str) -> Option<Box<RawValue>> {
        let mut merged: Option<Box<RawValue>> = None;
        for (name, rules) in self.beyond_flags() {
            if rules.is_empty() {
                continue;
            }
            let text = merged.as_deref().map_or(permissions, RawValue::get);
            let known = json::members(text, [name]).and_then(|[list]| json::items(list?));
            let mut all: Vec<String> = known
                .unwrap_or_default()
                .into_iter()
                .map(ToOwned::to_owned)
                .collect();
            add(&mut all, rules.iter().map(|rule| quoted(rule)).collect());
            let list = RawValue::from_string(format!("[{}]", all.join(","))).ok()?;
            merged = replaced(text, name, list);
        }
        merged
    }
}

/// The rules that a flag can say, and the others.
fn split(rules: &[String]) -> (Vec<String>, Vec<String>) {
    let mut bytes = 0;
    rules.iter().cloned().partition(|rule| {
        bytes += rule.len() + 1;
        bytes <= FLAG_BYTES && is_plain(rule)
    })
}

/// Whether a list of rules on the command line is certain to be read with this rule as one.
fn is_plain(rule: &str) -> bool {
    let (tool, content) = match rule.split_once('(') {
        Some((tool, rest)) => (tool, rest.strip_suffix(')').unwrap_or("(")),
        None => (rule, ""),
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '.' | ':');
    !tool.is_empty()
        && tool.chars().all(is_word)
        && !content
            .chars()
            .any(|c| matches!(c, '(' | ')' | '\\') || c.is_control())
}

fn add(list: &mut Vec<String>, given: Vec<String>) {
    for item in given {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seq(number: u64) -> Seq {
        Seq::new(number)
    }

    fn update(kind: &str, behavior: &str, rules: &str) -> String {
        format!(
            r#"{{"behavior":"allow","updatedPermissions":[{{"type":"{kind}","behavior":"{behavior}","rules":[{rules}],"destination":"session"}}]}}"#
        )
    }

    fn directories(kind: &str, directory: &str) -> String {
        format!(
            r#"{{"updatedPermissions":[{{"type":"{kind}","directories":["{directory}"],"destination":"session"}}]}}"#
        )
    }

    const TOUCH: &str = r#"{"toolName":"Bash","ruleContent":"touch *"}"#;

    fn shaped(rules: &SessionRules, options: &str) -> LaunchOptions {
        let mut options = serde_json::from_str(options).unwrap();
        rules.shape(&mut options);
        options
    }

    fn settings(options: &LaunchOptions) -> serde_json::Value {
        match &options.settings {
            Some(Settings::Inline(settings)) => serde_json::from_str(settings.get()).unwrap(),
            _ => serde_json::Value::Null,
        }
    }

    #[test]
    fn rules_and_directories_join_those_of_the_launch() {
        let mut rules = SessionRules::default();
        rules.answered(seq(1), &update("addRules", "deny", TOUCH));
        rules.answered(seq(2), &update("addRules", "allow", r#"{"toolName":"Read"}"#));
        rules.answered(seq(3), &update("addRules", "ask", TOUCH));
        rules.answered(seq(4), &directories("addDirectories", "/a"));
        rules.answered(seq(5), &directories("addDirectories", "/b"));
        rules.answered(seq(6), &directories("removeDirectories", "/a"));
        let options = shaped(
            &rules,
            r#"{"disallowed_tools":["WebFetch"],"settings":{"x":1,"permissions":{"deny":["A"],"ask":["B"]}}}"#,
        );
        assert_eq!(options.allowed_tools.as_deref().unwrap(), ["Read"]);
        let denied = options.disallowed_tools.as_deref().unwrap();
        assert_eq!(denied, ["WebFetch", "Bash(touch *)"]);
        assert_eq!(options.additional_directories.as_deref().unwrap(), ["/b"]);
        let expected =
            serde_json::json!({ "x": 1, "permissions": { "deny": ["A"], "ask": ["B", "Bash(touch *)"] } });
        assert_eq!(settings(&options), expected);
    }

    #[test]
    fn removals_and_replacements_count() {
        let mut rules = SessionRules::default();
        rules.answered(
            seq(1),
            &update("addRules", "deny", r#"{"toolName":"A"},{"toolName":"B"}"#),
        );
        rules.answered(seq(2), &update("removeRules", "deny", r#"{"toolName":"A"}"#));
        let denied = |rules: &SessionRules| shaped(rules, "{}").disallowed_tools;
        assert_eq!(denied(&rules).unwrap(), ["B"]);
        rules.answered(seq(3), &update("replaceRules", "deny", r#"{"toolName":"C"}"#));
        assert_eq!(denied(&rules).unwrap(), ["C"]);
        // The journal is read once more.
        rules.answered(seq(2), &update("removeRules", "deny", r#"{"toolName":"C"}"#));
        assert_eq!(denied(&rules).unwrap(), ["C"]);
        rules.answered(seq(4), &update("replaceRules", "deny", ""));
        assert_eq!(denied(&rules), None);
    }

    #[test]
    fn other_destinations_are_files_of_the_cli() {
        let mut rules = SessionRules::default();
        let answer = update("addRules", "deny", TOUCH).replace("session", "localSettings");
        rules.answered(seq(1), &answer);
        assert!(rules.is_empty());
    }

    /// As a text it would be a rule about all of the tool, or about other calls than the CLI allowed.
    #[test]
    fn a_rule_that_would_mean_more_is_not_carried_over() {
        let mut rules = SessionRules::default();
        let given = r#"{"toolName":"Bash","ruleContent":""},{"toolName":"Bash","ruleContent":"*"},{"toolName":"Bash(touch:*)"}"#;
        rules.answered(seq(1), &update("addRules", "allow", &format!("{given},{TOUCH}")));
        assert_eq!(shaped(&rules, "{}").allowed_tools.unwrap(), ["Bash(touch *)"]);
    }

    #[test]
    fn outputs_of_hooks_count_too() {
        let mut rules = SessionRules::default();
        let decision = update("addRules", "deny", TOUCH);
        let output = format!(
            r#"{{"hookSpecificOutput":{{"hookEventName":"PermissionRequest","decision":{decision}}}}}"#
        );
        rules.answered(seq(1), &output);
        assert_eq!(shaped(&rules, "{}").disallowed_tools.unwrap(), ["Bash(touch *)"]);
    }

    #[test]
    fn a_stop_ends_only_what_was_allowed() {
        let mut rules = SessionRules::default();
        rules.answered(seq(1), &update("addRules", "allow", TOUCH));
        rules.answered(seq(2), &update("addRules", "deny", r#"{"toolName":"A"}"#));
        let copy = shaped(&rules.clone().of_copy(), "{}");
        rules.stopped(seq(3));
        for options in [copy, shaped(&rules, "{}")] {
            assert_eq!(options.allowed_tools, None);
            assert_eq!(options.disallowed_tools.unwrap(), ["A"]);
        }
        rules.answered(seq(1), &update("addRules", "allow", TOUCH));
        assert_eq!(shaped(&rules, "{}").allowed_tools, None);
    }

    #[test]
    fn a_rule_that_no_flag_can_say_goes_by_the_settings() {
        let mut rules = SessionRules::default();
        let rule = r#"{"toolName":"Bash","ruleContent":"f (x), y"}"#;
        rules.answered(seq(1), &update("addRules", "deny", rule));
        let options = shaped(&rules, "{}");
        assert_eq!(options.disallowed_tools, None);
        let expected = serde_json::json!({ "permissions": { "deny": [r"Bash(f \(x\), y)"] } });
        assert_eq!(settings(&options), expected);
    }

    #[test]
    fn new_permissions_keep_the_rules_that_ask() {
        let mut rules = SessionRules::default();
        let request =
            r#"{"subtype":"apply_flag_settings","settings":{"permissions":{"deny":["A"]},"x":1.50}}"#;
        assert_eq!(rules.merge_into_request(request), None);
        rules.answered(seq(1), &update("addRules", "ask", TOUCH));
        let merged = rules.merge_into_request(request).unwrap();
        assert!(
            merged.contains(r#""permissions":{"deny":["A"],"ask":["Bash(touch *)"]}"#)
                && merged.contains("1.50"),
            "{merged}"
        );
        for other in [r#"{"permissions":null}"#, r#"{"x":1}"#] {
            let request = format!(r#"{{"subtype":"apply_flag_settings","settings":{other}}}"#);
            assert_eq!(rules.merge_into_request(&request), None);
        }
    }
}
