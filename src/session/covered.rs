//! Owns what an answer allows beyond its own request, and which open requests that certainly covers. The CLI does not look
//! again at what it has asked; where it is not certain that it would not have asked, a person decides as before.

use std::path::Path;

use crate::{
    claude::{
        answer::{Grants, RuleGrant},
        control::CanUseTool,
    },
    domain::{
        Approval, ApprovalId, ApprovalKind,
        rule::{Lookup, is_certainly_below},
    },
    json,
};

/// The mode in which files below the session's directory are changed without a question.
const ACCEPTS_EDITS: &str = "acceptEdits";

/// Tools that run what a shell runs: no command is taken for another.
const SHELLS: [&str; 3] = ["Bash", "Monitor", "PowerShell"];

/// Allowances that are kept for what is open.
const MOST_ALLOWANCES: usize = 64;

/// Members of a tool's input that are paths.
const PATHS: [&str; 4] = ["file_path", "notebook_path", "path", "filePath"];

/// An allowance that came while requests were open.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    /// By what: the approval whose answer says so, or the mode.
    by: String,
    what: What,
    /// The approvals that were open then. A later request was asked although this holds, so for another reason.
    open: Vec<ApprovalId>,
}

#[derive(Clone, Debug)]
enum What {
    /// The permission mode became the one that accepts edits.
    Edits,
    /// An answer for this tool carried permission updates.
    Updates { tool: String, grants: Grants },
}

impl What {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Edits, Self::Edits) => true,
            (
                Self::Updates { tool, grants },
                Self::Updates {
                    tool: other_tool,
                    grants: other,
                },
            ) => tool == other_tool && grants.rules == other.rules && grants.directories == other.directories,
            (Self::Edits, Self::Updates { .. }) | (Self::Updates { .. }, Self::Edits) => false,
        }
    }
}

impl Granted {
    /// The allowance of an answer for the other approvals that are open.
    pub(super) fn by_answer(approval: &Approval, response: &str, open: Vec<ApprovalId>) -> Option<Self> {
        let grants = Grants::of_answer(response)?;
        let what = What::Updates {
            tool: approval.subject.clone(),
            grants,
        };
        Self::new(approval.id.to_string(), what, open)
    }

    /// The allowance of the session's mode for the approvals that are open.
    pub(super) fn by_mode(mode: &str, open: Vec<ApprovalId>) -> Option<Self> {
        (mode == ACCEPTS_EDITS)
            .then(|| Self::new(mode.to_owned(), What::Edits, open))
            .flatten()
    }

    fn new(by: String, what: What, open: Vec<ApprovalId>) -> Option<Self> {
        (!open.is_empty()).then_some(Self { by, what, open })
    }

    /// Forgets an approval; whether any is left.
    fn forget(&mut self, id: ApprovalId) -> bool {
        self.open.retain(|open| *open != id);
        !self.open.is_empty()
    }

    fn covers(&self, asked: &Request<'_>, place: &Place<'_>) -> bool {
        let accepts_edits = place.mode == Some(ACCEPTS_EDITS);
        let edits = matches!(asked.tool, "Edit" | "Write");
        match &self.what {
            What::Edits => edits && accepts_edits && !asked.is_elsewhere && asked.is_below(place.cwd, place),
            What::Updates { tool, grants } => {
                let readable = tool == asked.tool && (asked.tool == "Read" || (edits && accepts_edits));
                let below = |directory: &String| asked.is_below(Path::new(directory), place);
                (readable && grants.directories.iter().any(below))
                    || grants.rules.iter().any(|rule| asked.is_read_below(rule, place))
                    || asked.is_suggested(&grants.rules)
            }
        }
    }
}

/// The allowances that cover what is open, oldest first. One that says nothing new takes the place of the one before it, and the
/// oldest leaves when there are too many: then a person decides as before.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowances(Vec<Granted>);

impl Allowances {
    pub(super) fn add(&mut self, granted: Granted) {
        self.0.retain(|known| !known.what.is_same(&granted.what));
        if self.0.len() >= MOST_ALLOWANCES {
            self.0.remove(0);
        }
        self.0.push(granted);
    }

    /// Forgets an approval, and the allowances that came while it alone was open.
    pub(super) fn forget(&mut self, id: ApprovalId) {
        self.0.retain_mut(|granted| granted.forget(id));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// By what an open request is certainly covered.
    pub(super) fn cover(&self, approval: &Approval, place: &Place<'_>) -> Option<String> {
        let asked = Request::of(approval)?;
        self.0
            .iter()
            .find(|granted| granted.open.contains(&approval.id) && granted.covers(&asked, place))
            .map(|granted| granted.by.clone())
    }
}

/// Where the session is, and how to ask the file system.
pub(super) struct Place<'a> {
    pub(super) cwd: &'a Path,
    pub(super) mode: Option<&'a str>,
    pub(super) lookup: Lookup<'a>,
}

/// A request that permissions alone decide.
struct Request<'a> {
    tool: &'a str,
    file: Option<String>,
    /// Whether the input has a path, which may lead elsewhere.
    names_path: bool,
    /// Whether it is asked because the file is outside of the session's directories.
    is_elsewhere: bool,
    /// The permission updates that the CLI suggests.
    suggestions: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// `None` for what is a person's in any case: shell commands, safety checks, what a rule or a hook has asked about.
    fn of(approval: &'a Approval) -> Option<Self> {
        let request = approval.request.get();
        let tool = CanUseTool::read(request)?;
        let is_elsewhere = tool.reason_type.as_deref() == Some("workingDir");
        let is_plain = approval.kind == ApprovalKind::Tool
            && !tool.requires_user_interaction
            && !tool.has_safety_check
            && (is_elsewhere || tool.reason_type.is_none())
            && json::member(request, "matched_ask_rule").is_none_or(|rule| rule == "null");
        let is_shell =
            SHELLS.contains(&approval.subject.as_str()) || json::member(tool.input, "command").is_some();
        (is_plain && !is_shell).then(|| Self {
            tool: &approval.subject,
            file: json::member_text(tool.input, "file_path"),
            names_path: PATHS.iter().any(|name| json::member(tool.input, name).is_some()),
            is_elsewhere,
            suggestions: json::member(request, "permission_suggestions"),
        })
    }

    /// The place of a relative path is the CLI's to know, so it is not certain.
    fn is_below(&self, directory: &Path, place: &Place<'_>) -> bool {
        let file = self.file.as_deref().filter(|file| file.starts_with('/'));
        directory.is_absolute()
            && file.is_some_and(|file| is_certainly_below(file, directory, place.cwd, place.lookup))
    }

    /// Whether the rule is one over all files below a directory: `Read(//etc/**)`.
    fn is_read_below(&self, rule: &RuleGrant, place: &Place<'_>) -> bool {
        let directory = rule.content.as_deref().and_then(|content| {
            let path = content.strip_prefix('/')?.strip_suffix("/**")?;
            (path.starts_with('/') && !path.contains(['*', '?', '[', '{', '!', '\\'])).then_some(path)
        });
        rule.tool == "Read"
            && self.tool == "Read"
            && directory.is_some_and(|directory| self.is_below(Path::new(directory), place))
    }

    /// Whether the CLI suggested these very rules for the request. It suggests the directory of a file for a link in it as well,
    /// and with that rule in force it asks for the link: where a file leads is looked at elsewhere.
    fn is_suggested(&self, rules: &[RuleGrant]) -> bool {
        let suggested = self.suggestions.map(Grants::each).unwrap_or_default();
        let holds = |rule: &RuleGrant| {
            rule.tool == self.tool && rules.contains(rule) && (rule.content.is_none() || !self.names_path)
        };
        suggested
            .into_iter()
            .flatten()
            .any(|suggestion| !suggestion.rules.is_empty() && suggestion.rules.iter().all(holds))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json, value::RawValue};

    use super::*;
    use crate::domain::{RunId, Seq, SessionId, Timestamp, rule::Leads};

    fn approval(seq: u64, tool: &str, input: &Value, with: Value) -> Approval {
        let mut request = json!({ "subtype": "can_use_tool", "tool_name": tool, "input": input });
        for (name, value) in with.as_object().unwrap() {
            request[name] = value.clone();
        }
        let session = SessionId::new();
        Approval {
            id: ApprovalId::of_record(session, Seq::new(seq)),
            run_id: RunId::new(),
            seq: Seq::new(seq),
            request_id: seq.to_string(),
            kind: ApprovalKind::Tool,
            subject: tool.to_owned(),
            request: RawValue::from_string(request.to_string()).unwrap(),
            left_out: None,
            input_sha256: None,
            requested_at: Timestamp::from_micros(0),
            deadline: None,
            rule: None,
        }
    }

    fn covers(granted: &Granted, approval: &Approval, mode: &str) -> bool {
        let lookup = |path: &Path| Leads::To(PathBuf::from(path));
        let place = Place {
            cwd: Path::new("/work/here"),
            mode: Some(mode),
            lookup: &lookup,
        };
        Allowances(vec![granted.clone()])
            .cover(approval, &place)
            .is_some()
    }

    fn answered(tool: &str, updates: Value, open: &Approval) -> Option<Granted> {
        let first = approval(1, tool, &json!({}), json!({}));
        let response = json!({ "behavior": "allow", "updatedPermissions": updates });
        Granted::by_answer(&first, &response.to_string(), vec![open.id])
    }

    fn file(path: &str) -> Value {
        json!({ "file_path": path })
    }

    #[test]
    fn a_file_below_what_was_allowed_is_covered() {
        let rule = |content: &str, destination: &str| {
            json!([{ "type": "addRules", "rules": [{ "toolName": "Read", "ruleContent": content }],
                "behavior": "allow", "destination": destination }])
        };
        let directory =
            json!([{ "type": "addDirectories", "directories": ["/etc"], "destination": "session" }]);
        let elsewhere = json!({ "decision_reason_type": "workingDir" });
        for (updates, path, with, expected) in [
            (rule("//etc/**", "session"), "/etc/x", &elsewhere, true),
            (directory.clone(), "/etc/x", &elsewhere, true),
            (rule("//etc/**", "localSettings"), "/etc/x", &elsewhere, true),
            (rule("//etc/**", "projectSettings"), "/etc/x", &elsewhere, false),
            (rule("//etc/*", "session"), "/etc/x", &elsewhere, false),
            (rule("//e*/**", "session"), "/etc/x", &elsewhere, false),
            (rule("/etc/**", "session"), "/etc/x", &elsewhere, false),
            (rule("//etc/**", "session"), "/etcetera", &elsewhere, false),
            (rule("//etc/**", "session"), "/etc/../root/x", &elsewhere, false),
            (directory.clone(), "x", &elsewhere, false),
            (
                directory.clone(),
                "/etc/x",
                &json!({ "decision_reason_type": "safetyCheck" }),
                false,
            ),
            (
                directory.clone(),
                "/etc/x",
                &json!({ "decision_reason_type": "rule" }),
                false,
            ),
            (
                directory.clone(),
                "/etc/x",
                &json!({ "classifier_approvable": true }),
                false,
            ),
            (
                directory.clone(),
                "/etc/x",
                &json!({ "requires_user_interaction": true }),
                false,
            ),
        ] {
            let open = approval(2, "Read", &file(path), with.clone());
            let granted = answered("Read", updates.clone(), &open);
            let is_covered = granted.is_some_and(|granted| covers(&granted, &open, "default"));
            assert_eq!(is_covered, expected, "{updates} {path} {with}");
        }
        // A later request is asked for another reason, and another tool for its own.
        let open = approval(2, "Read", &file("/etc/x"), elsewhere.clone());
        let granted = answered("Read", directory.clone(), &open).unwrap();
        assert!(!covers(
            &granted,
            &approval(3, "Read", &file("/etc/x"), elsewhere.clone()),
            "default"
        ));
        let write = approval(2, "Write", &file("/etc/x"), elsewhere);
        let granted = answered("Read", directory.clone(), &write).unwrap();
        assert!(!covers(&granted, &write, "acceptEdits"));
        let granted = answered("Write", directory, &write).unwrap();
        assert!(!covers(&granted, &write, "default") && covers(&granted, &write, "acceptEdits"));
    }

    #[test]
    fn an_equal_rule_covers_and_a_shell_command_is_never_covered() {
        let rule = |tool: &str, content: &str| {
            json!([{ "type": "addRules", "rules": [{ "toolName": tool, "ruleContent": content }],
                "behavior": "allow", "destination": "localSettings" }])
        };
        for (tool, input, suggested, given, expected) in [
            (
                "WebFetch",
                json!({ "url": "http://a/1" }),
                "domain:a",
                "domain:a",
                true,
            ),
            (
                "WebFetch",
                json!({ "url": "http://a/1" }),
                "domain:a",
                "domain:b",
                false,
            ),
            ("Bash", json!({ "command": "ls" }), "ls", "ls", false),
            ("Monitor", json!({ "command": "ls" }), "ls", "ls", false),
            ("mcp__x__run", json!({ "command": "ls" }), "ls", "ls", false),
        ] {
            let open = approval(
                2,
                tool,
                &input,
                json!({ "permission_suggestions": rule(tool, suggested) }),
            );
            let granted = answered(tool, rule(tool, given), &open).unwrap();
            assert_eq!(
                covers(&granted, &open, "default"),
                expected,
                "{tool} {suggested} {given}"
            );
        }
        // An answer that also takes something away says nothing for certain.
        let open = approval(
            2,
            "WebFetch",
            &json!({}),
            json!({ "permission_suggestions": rule("WebFetch", "domain:a") }),
        );
        let mut updates = rule("WebFetch", "domain:a");
        let deny = json!({ "type": "addRules", "rules": [{ "toolName": "WebFetch" }], "behavior": "deny", "destination": "session" });
        updates.as_array_mut().unwrap().push(deny);
        assert!(answered("WebFetch", updates, &open).is_none());
    }

    /// The CLI suggests the same rule for a link as for a file beside it, and asks for the link all the same.
    #[test]
    fn a_link_out_of_the_directory_of_a_suggested_rule_is_not_covered() {
        let rule = json!([{ "type": "addRules", "rules": [{ "toolName": "Read", "ruleContent": "//tmp/o/**" }],
            "behavior": "allow", "destination": "session" }]);
        let lookup = |path: &Path| {
            let is_link = path == Path::new("/tmp/o/link");
            Leads::To(PathBuf::from(if is_link {
                Path::new("/tmp/secret/s")
            } else {
                path
            }))
        };
        let place = Place {
            cwd: Path::new("/work/here"),
            mode: Some("default"),
            lookup: &lookup,
        };
        for (path, expected) in [("/tmp/o/b", true), ("/tmp/o/link", false)] {
            let with = json!({ "decision_reason_type": "workingDir", "permission_suggestions": rule });
            let open = approval(2, "Read", &file(path), with);
            let granted = answered("Read", rule.clone(), &open).unwrap();
            let mut all = Allowances::default();
            all.add(granted);
            assert_eq!(all.cover(&open, &place).is_some(), expected, "{path}");
        }
    }

    #[test]
    fn allowances_are_few_however_many_answers_allow() {
        let elsewhere = json!({ "decision_reason_type": "workingDir" });
        let open = approval(2, "Read", &file("/etc/x"), elsewhere);
        let directory = |path: &str| {
            let updates =
                json!([{ "type": "addDirectories", "directories": [path], "destination": "session" }]);
            answered("Read", updates, &open).unwrap()
        };
        let is_covered = |all: &Allowances| {
            let lookup = |path: &Path| Leads::To(PathBuf::from(path));
            let place = Place {
                cwd: Path::new("/work/here"),
                mode: Some("default"),
                lookup: &lookup,
            };
            all.cover(&open, &place).is_some()
        };
        let mut all = Allowances::default();
        all.add(directory("/etc"));
        for _ in 0..2 * MOST_ALLOWANCES {
            all.add(directory("/usr"));
            all.add(Granted::by_mode("acceptEdits", vec![open.id]).unwrap());
        }
        assert_eq!(all.0.len(), 3, "the same again says nothing new");
        assert!(is_covered(&all));
        for n in 0..2 * MOST_ALLOWANCES {
            all.add(directory(&format!("/srv/{n}")));
            assert!(all.0.len() <= MOST_ALLOWANCES);
        }
        assert!(!is_covered(&all), "a person decides as before");
        all.add(directory("/etc"));
        assert!(is_covered(&all), "the newest stays");
        all.forget(open.id);
        assert!(all.is_empty());
    }

    #[test]
    fn accepted_edits_cover_files_of_the_session_alone() {
        for (tool, path, with, mode, expected) in [
            ("Write", "/work/here/a", json!({}), "acceptEdits", true),
            ("Edit", "/work/here/b/a", json!({}), "acceptEdits", true),
            ("Write", "/work/here/a", json!({}), "default", false),
            ("Write", "/work/elsewhere", json!({}), "acceptEdits", false),
            ("Write", "/work/here/../a", json!({}), "acceptEdits", false),
            ("Write", "a", json!({}), "acceptEdits", false),
            ("NotebookEdit", "/work/here/a", json!({}), "acceptEdits", false),
            (
                "Write",
                "/work/here/.claude/settings.json",
                json!({ "decision_reason_type": "safetyCheck", "classifier_approvable": true }),
                "acceptEdits",
                false,
            ),
        ] {
            let open = approval(2, tool, &file(path), with.clone());
            let granted = Granted::by_mode("acceptEdits", vec![open.id]).unwrap();
            assert_eq!(
                covers(&granted, &open, mode),
                expected,
                "{tool} {path} {with} {mode}"
            );
        }
        let open = approval(2, "Write", &file("/work/here/a"), json!({}));
        assert!(Granted::by_mode("plan", vec![open.id]).is_none());
        assert!(Granted::by_mode("acceptEdits", Vec::new()).is_none());
    }
}
