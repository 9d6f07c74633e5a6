//! Checks conditions and their order, and what all of these tests share.

mod deny;
mod held;
mod path;
mod shell;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;
use crate::domain::ApprovalKind;

/// A file system in which nothing is a link and everything is there.
fn plain(path: &Path) -> Leads {
    match super::path::lexical(path) {
        Some(path) => Leads::To(path),
        None => Leads::Unknown,
    }
}

fn now() -> Timestamp {
    Timestamp::from_micros(1_000_000)
}

fn rule(value: Value) -> Result<Rule, InvalidRule> {
    Rule::new(serde_json::from_value(value).unwrap())
}

fn asked(tool: &str, input: &Value) -> Asked {
    Asked {
        kind: ApprovalKind::Tool,
        subject: tool.to_owned(),
        needs_person: false,
        input: Input::read(&input.to_string()),
        cwd: Some(PathBuf::from("/work/here")),
        agent: None,
        mode: Some("default".to_owned()),
        reason_type: None,
        has_safety_check: false,
    }
}

/// Whether a rule matches.
fn matches_with(spec: Value, asked: &Asked, lookup: Lookup<'_>) -> bool {
    let rules = Rules {
        session: std::sync::Arc::new(RuleSet::new(vec![serde_json::from_value(spec).unwrap()]).unwrap()),
        config: std::sync::Arc::default(),
    };
    rules.decide(asked, now(), lookup).decided.is_some()
}

fn matches(spec: Value, asked: &Asked) -> bool {
    matches_with(spec, asked, &plain)
}

fn field(action: &str, matcher: Value, input: &str) -> bool {
    let mut asked = asked("T", &json!({}));
    asked.input = Input::read(input);
    matches(json!({ "action": action, "input": { "f": matcher } }), &asked)
}

#[test]
fn doubts_about_a_field_never_allow() {
    let x = json!({ "glob": "x" });
    for (input, allow, deny) in [
        (r#"{"f":"x"}"#, true, true),
        (r#"{"f":"\u0078"}"#, true, true),
        (r#"{"f":["x","x"]}"#, true, true),
        (r#"{"f":["x","y"]}"#, false, true),
        (r#"{"f":[]}"#, false, false),
        (r#"{"f":{"g":["x"]}}"#, false, true),
        (r#"{"f":"x","f":"y"}"#, false, true),
        (r#"{"f":"y","f":"x"}"#, false, true),
        (r#"{"f":"x","f":"x"}"#, false, true),
        (r#"{"F":"x"}"#, false, false),
        (r#"{}"#, false, false),
        (r#"{"f":null}"#, false, false),
        (r#"{"f":"X"}"#, false, false),
        (r#"{"f":"xx"}"#, false, false),
        (r#"{"f":"x","g":"\ud83d"}"#, false, true),
        (r#"["f","x"]"#, false, true),
    ] {
        assert_eq!(field("allow", x.clone(), input), allow, "{input}");
        assert_eq!(field("deny", x.clone(), input), deny, "{input}");
        assert_eq!(field("ask", x.clone(), input), deny, "{input}");
    }
    assert!(field("deny", json!({ "glob": "7" }), r#"{"f":7}"#));
    assert!(!field("allow", json!({ "glob": "7" }), r#"{"f":7}"#));
}

#[test]
fn patterns_are_about_the_whole_text() {
    for (matcher, text, allow, deny) in [
        (json!({ "glob": "a*" }), "abc", true, true),
        (json!({ "glob": "a*" }), "a/b/c", true, true),
        (json!({ "glob": "a*" }), "xa", false, false),
        (json!({ "glob": "a*" }), "ab\nc", false, true),
        (json!({ "glob": "a?" }), "ab", true, true),
        (json!({ "glob": "{a,b}" }), "b", true, true),
        (json!({ "glob": "[!a]" }), "b", true, true),
        (json!({ "glob": "a.c" }), "abc", false, false),
        (json!({ "regex": "a" }), "a", true, true),
        (json!({ "regex": "a" }), "ba", false, false),
        (json!({ "regex": "a|b" }), "ax", false, false),
        (json!({ "regex": "a|ab" }), "ab", true, true),
        (json!({ "regex": "a.*" }), "a b", true, true),
        (json!({ "regex": "a.*" }), "a\nb", false, true),
        (json!({ "regex": "^a$" }), "a\n", false, false),
        (json!({ "regex": "(?s)a.*" }), "a\nb", true, true),
        (json!({ "regex": "(?m)^a$" }), "a\nb", false, false),
        (json!({ "regex": "[^;]*" }), "a; b", false, false),
    ] {
        let input = json!({ "f": text }).to_string();
        assert_eq!(
            field("allow", matcher.clone(), &input),
            allow,
            "{matcher} {text:?}"
        );
        assert_eq!(field("deny", matcher.clone(), &input), deny, "{matcher} {text:?}");
    }
}

#[test]
fn conditions_are_and_ed() {
    let base = asked("Bash", &json!({ "command": "ls" }));
    let sub = Asked {
        agent: Some("agent-7".to_owned()),
        ..base.clone()
    };
    for (spec, main, of_sub) in [
        (json!({ "action": "allow" }), true, true),
        (json!({ "action": "allow", "tool": "Ba*" }), true, true),
        (json!({ "action": "allow", "tool": "bash" }), false, false),
        (json!({ "action": "allow", "tool": "Bas" }), false, false),
        (json!({ "action": "allow", "agent": "main" }), true, false),
        (json!({ "action": "allow", "agent": "sub" }), false, true),
        (json!({ "action": "allow", "agent": "agent-*" }), false, true),
        (json!({ "action": "allow", "agent": "other" }), false, false),
        (json!({ "action": "allow", "cwd": "/work" }), true, true),
        (json!({ "action": "allow", "cwd": "/wor" }), false, false),
        (
            json!({ "action": "allow", "cwd": "/work/here/below" }),
            false,
            false,
        ),
        (json!({ "action": "allow", "mode": ["manual"] }), true, true),
        (json!({ "action": "allow", "mode": ["plan"] }), false, false),
        (json!({ "action": "allow", "kind": "tool" }), true, true),
        (
            json!({ "action": "allow", "tool": "Bash", "mode": ["plan"] }),
            false,
            false,
        ),
        (
            json!({ "action": "allow", "expires_at": "1970-01-01T00:00:02Z" }),
            true,
            true,
        ),
        (
            json!({ "action": "allow", "expires_at": "1970-01-01T00:00:01Z" }),
            false,
            false,
        ),
    ] {
        assert_eq!(matches(spec.clone(), &base), main, "{spec}");
        assert_eq!(matches(spec.clone(), &sub), of_sub, "{spec}");
    }
    let unknown = Asked { mode: None, ..base };
    assert!(!matches(
        json!({ "action": "allow", "mode": ["default"] }),
        &unknown
    ));
    assert!(matches(
        json!({ "action": "deny", "mode": ["default"] }),
        &unknown
    ));
}

#[test]
fn what_needs_a_person_is_never_allowed_or_denied() {
    for kind in [
        ApprovalKind::Tool,
        ApprovalKind::Question,
        ApprovalKind::Plan,
        ApprovalKind::Elicitation,
        ApprovalKind::Dialog,
    ] {
        let asked = Asked {
            kind,
            needs_person: true,
            ..asked("AskUserQuestion", &json!({}))
        };
        for spec in [
            json!({ "action": "allow" }),
            json!({ "action": "allow", "tool": "*" }),
            json!({ "action": "deny" }),
            json!({ "action": "ask", "deadline_ms": 1 }),
            json!({ "action": "ask", "deadline_ms": 1, "on_deadline": "allow" }),
            json!({ "action": "allow", "kind": "tool" }),
            json!({ "action": "deny", "kind": "tool" }),
        ] {
            assert!(!matches(spec.clone(), &asked), "{kind:?} {spec}");
        }
        let named = json!({ "action": "ask", "kind": kind, "deadline_ms": 1 });
        assert!(matches(named, &asked), "{kind:?}");
        if kind != ApprovalKind::Tool {
            for action in ["allow", "deny"] {
                let error = rule(json!({ "action": action, "kind": kind })).unwrap_err();
                assert_eq!(error.field, "action");
            }
            let spec = json!({ "action": "ask", "kind": kind, "deadline_ms": 1, "on_deadline": "allow" });
            assert_eq!(rule(spec).unwrap_err().field, "on_deadline");
        }
    }
}

#[test]
fn a_deadline_allows_only_what_certainly_matches() {
    let spec = json!({ "action": "ask", "deadline_ms": 5, "on_deadline": "allow",
        "input": { "command": { "command_prefix": ["git", "push"] } } });
    for (line, expected) in [
        ("git push", OnDeadline::Allow),
        ("git push; rm x", OnDeadline::Deny),
        ("git push $(x)", OnDeadline::Deny),
    ] {
        let rules = Rules {
            session: std::sync::Arc::new(
                RuleSet::new(vec![serde_json::from_value(spec.clone()).unwrap()]).unwrap(),
            ),
            config: std::sync::Arc::default(),
        };
        let verdict = rules.decide(&asked("Bash", &json!({ "command": line })), now(), &plain);
        assert_eq!(verdict.decided.unwrap().on_deadline, expected, "{line}");
    }
}

#[test]
fn the_first_that_matches_decides_and_the_sessions_own_come_first() {
    let list =
        |specs: Value| std::sync::Arc::new(RuleSet::new(serde_json::from_value(specs).unwrap()).unwrap());
    let rules = Rules {
        session: list(json!([
            { "id": "a", "action": "deny", "tool": "Write" },
            { "id": "b", "action": "ask", "tool": "Bash", "input": { "command": { "command_prefix": ["rm"] } } },
        ])),
        config: list(json!([
            { "id": "c", "action": "allow", "tool": "Bash" },
            { "id": "d", "action": "deny" },
        ])),
    };
    for (tool, line, expected, passed) in [
        ("Write", "", "a", vec![]),
        ("Bash", "rm x", "b", vec!["a"]),
        ("Bash", "ls", "c", vec!["a", "b"]),
        ("Read", "", "d", vec!["a", "b", "c"]),
    ] {
        let verdict = rules.decide(&asked(tool, &json!({ "command": line })), now(), &plain);
        assert_eq!(verdict.decided.unwrap().id, expected);
        let before: Vec<&str> = verdict.passed.iter().map(|rule| rule.id.as_str()).collect();
        assert_eq!(before, passed);
        assert!(verdict.passed.iter().all(|rule| !rule.why_not.is_empty()));
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let long = "x".repeat(2000);
    for (spec, field) in [
        (json!({ "action": "allow", "id": "" }), "id"),
        (json!({ "action": "allow", "id": "a b" }), "id"),
        (json!({ "action": "allow", "tool": "[" }), "tool"),
        (json!({ "action": "allow", "tool": "" }), "tool"),
        (json!({ "action": "allow", "tool": long }), "tool"),
        (json!({ "action": "allow", "cwd": "here" }), "cwd"),
        (json!({ "action": "allow", "cwd": "/a/../b" }), "cwd"),
        (json!({ "action": "allow", "agent": "{" }), "agent"),
        (json!({ "action": "allow", "mode": [] }), "mode"),
        (json!({ "action": "allow", "reason_type": [] }), "reason_type"),
        (
            json!({ "action": "allow", "reason_type": ["a b"] }),
            "reason_type",
        ),
        (json!({ "action": "allow", "deadline_ms": 5 }), "deadline_ms"),
        (json!({ "action": "ask", "deadline_ms": 0 }), "deadline_ms"),
        (json!({ "action": "ask", "on_deadline": "deny" }), "on_deadline"),
        (json!({ "action": "allow", "message": "x" }), "message"),
        (json!({ "action": "deny", "message": " " }), "message"),
        (
            json!({ "action": "ask", "deadline_ms": 5, "on_deadline": "allow", "message": "x" }),
            "message",
        ),
        (
            json!({ "action": "allow", "input": { "a": { "regex": "(" } } }),
            "input.a.regex",
        ),
        (
            json!({ "action": "allow", "input": { "a": { "regex": "a)|(b" } } }),
            "input.a.regex",
        ),
        (
            json!({ "action": "allow", "input": { "a": { "regex": "(?x)a #" } } }),
            "input.a.regex",
        ),
        (
            json!({ "action": "allow", "input": { "a": { "regex": "(a{1000}){1000}" } } }),
            "input.a.regex",
        ),
        (
            json!({ "action": "allow", "input": { "a": { "path_prefix": "../x" } } }),
            "input.a.path_prefix",
        ),
        (
            json!({ "action": "allow", "input": { "a": { "path_prefix": "~/x" } } }),
            "input.a.path_prefix",
        ),
        (
            json!({ "action": "allow", "input": { "a": { "command_prefix": [] } } }),
            "input.a.command_prefix",
        ),
        (
            json!({ "action": "allow", "input": { "a": { "command_prefix": [""] } } }),
            "input.a.command_prefix",
        ),
        (
            json!({ "action": "allow", "input": { "a": { "command_prefix": ["git status"] } } }),
            "input.a.command_prefix",
        ),
    ] {
        assert_eq!(rule(spec.clone()).unwrap_err().field, field, "{spec}");
    }
    let twice = json!([{ "id": "a", "action": "allow" }, { "id": "a", "action": "deny" }]);
    let error = RuleSet::new(serde_json::from_value(twice).unwrap()).unwrap_err();
    assert_eq!(error.path_in("items"), "items[1].id");
    assert_eq!(error.to_string(), "rules[1].id: is the id of an earlier rule too");
    let many = vec![RuleSpec::of_action(RuleAction::Ask); MAX_RULES + 1];
    assert_eq!(RuleSet::new(many).unwrap_err().path_in("rules"), "rules");
    for wrong in [
        json!({ "action": "maybe" }),
        json!({ "action": "allow", "tol": "x" }),
        json!({ "action": "allow", "input": { "a": "x" } }),
        json!({ "action": "allow", "input": { "a": { "glob": "x", "regex": "x" } } }),
    ] {
        assert!(
            serde_json::from_value::<RuleSpec>(wrong.clone()).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn a_pattern_that_could_take_for_ever_does_not() {
    let spec = json!({ "action": "deny", "input": { "f": { "regex": "(a|a)*(a|aa)+$" } } });
    let text = format!("{}b", "a".repeat(100_000));
    let started = std::time::Instant::now();
    assert!(!matches(spec, &asked("T", &json!({ "f": text }))));
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
}

#[test]
fn regexes_that_are_too_large_together_are_refused_before_they_cost_much() {
    let rules = |pattern: &str, count: usize| {
        let fields: serde_json::Map<String, Value> = (0..8)
            .map(|field| (field.to_string(), json!({ "regex": pattern })))
            .collect();
        let rule = json!({ "action": "deny", "input": fields });
        let specs: Vec<RuleSpec> = (0..count)
            .map(|_| serde_json::from_value(rule.clone()).unwrap())
            .collect();
        RuleSet::new(specs)
    };
    // Each by itself is small enough.
    assert!(rules(r"\w{15}", 1).is_ok());
    let started = std::time::Instant::now();
    let refused = rules(r"\w{15}", MAX_RULES).unwrap_err();
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
    assert_eq!(refused.path_in("items"), "items");
    assert!(rules("git (status|log) [a-z/.-]{1,40}", 32).is_ok());
}
