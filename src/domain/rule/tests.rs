//! Checks matching: tables of tricks, and properties that no input breaks.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::domain::ApprovalKind;

/// A file system in which nothing is a link and everything is there.
fn plain(path: &Path) -> Leads {
    match path::lexical(path) {
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

fn command(action: &str, prefix: &[&str], line: &str) -> bool {
    let spec =
        json!({ "action": action, "tool": "Bash", "input": { "command": { "command_prefix": prefix } } });
    matches(spec, &asked("Bash", &json!({ "command": line })))
}

#[test]
fn only_what_is_certainly_the_command_is_allowed() {
    let git = ["git", "status"];
    for line in [
        "git status",
        "  git   status\t",
        "git status -s",
        "git status\n",
        "git status;",
        "git status && git status -s",
        "git status || git status",
        "git status; git status --short=yes",
        "git status | git status",
        "git status\ngit status",
        "git 'status'",
        "\"git\" status",
        "g'i't st\"at\"us",
        "git status 'a; rm -rf /'",
        "git status \"a && b\"",
        "git status --format='%H $x `y`'",
        "git status src/a_b.rs:10 --x=1,2@3+4%5",
        "git status 'größe'",
    ] {
        assert!(command("allow", &git, line), "{line:?} is asked for");
    }
    for line in [
        "",
        " ",
        "git",
        "git statusx",
        "gitstatus",
        "git  log",
        "git -c core.pager=sh status",
        "/usr/bin/git status",
        "./git status",
        "git status; rm -rf /",
        "git status;rm -rf /",
        "git status && rm x",
        "git status&&rm x",
        "git status || rm x",
        "git status | sh",
        "git status | tee /etc/x",
        "git status |& sh",
        "git status & rm x",
        "git status &",
        "git status &rm",
        "git status\nrm -rf /",
        "git status\r\nrm -rf /",
        "git status\rrm x",
        "git status\u{b}rm",
        "git status\u{c}rm",
        "git status\0rm",
        "git status\u{85}rm",
        "git status\u{a0}rm",
        "git status\u{2028}rm",
        "git\u{a0}status",
        "rm x; git status",
        "git status $(rm x)",
        "git status $((1))",
        "git status \"$(rm x)\"",
        "git status `rm x`",
        "git status \"`rm x`\"",
        "git status $x",
        "git status ${x}",
        "git status \"$x\"",
        "git status $'a'",
        "git status $\"a\"",
        "git status \\; rm",
        "git status \\\n; rm",
        "git status \"a\\\"; rm x; \\\"\"",
        "git status 'a''; rm x; '''",
        "git status 'a",
        "git status \"a",
        "git status > /etc/passwd",
        "git status >> x",
        "git status 2>x",
        "git status 2>&1",
        "git status >| x",
        "git status &> x",
        "git status < x",
        "git status << EOF\nrm\nEOF",
        "git status <<< x",
        "git status <(rm x)",
        "git status >(rm x)",
        "git status; (rm x)",
        "(git status)",
        "{ git status; }",
        "git status; { rm x; }",
        "git() { rm x; }; git status",
        "function git { rm x; }\ngit status",
        "alias git=rm; git status",
        "env git status",
        "env -i rm; git status",
        "X=1 git status",
        "PATH=/tmp git status",
        "PATH=/tmp; git status",
        "GIT_PAGER='rm x' git status",
        "LD_PRELOAD=/tmp/x.so git status",
        "X+=1 git status",
        "=git status",
        "git =status",
        "git status =rm",
        "export PATH=/tmp && git status",
        "cd /tmp && git status",
        "sudo git status",
        "command git status",
        "time git status",
        "! git status",
        "if git status; then rm x; fi",
        "while git status; do rm x; done",
        "for x in 1; do git status; done",
        "case x in x) git status;; esac",
        "[[ x ]] && git status",
        "coproc git status",
        "eval git status",
        "git status *",
        "git status ?",
        "git status [a]",
        "git status {a,b}",
        "git status ~",
        "git status !!",
        "git status \"!!\"",
        "git status ^a^b",
        "git status # x",
        "git status#x",
        "git s*",
        "git stat?s",
        "g?t status",
        "{git,status}",
        "git status;;",
        "git status ;",
        ";git status",
        "&& git status",
        "git status &&",
        "git status ||",
        "git status |",
        "git status | | git status",
        "git status &&& git status",
        "git status ||| git status",
        "git status && && git status",
        "git status &&\n git status",
        "'' git status",
        "'git status'",
        "\"git status\"",
        "git 'status; rm x'",
        "git\\ status",
        "git stat\\us",
        "gi\\\nt status",
        "git 'sta\ntus'",
    ] {
        // A blank before the last semicolon is the one harmless line here.
        let is_harmless = line == "git status ;";
        assert_eq!(command("allow", &git, line), is_harmless, "{line:?}");
    }
}

#[test]
fn what_may_be_the_command_is_denied() {
    for (prefix, line) in [
        (&["rm"][..], "rm x"),
        (&["rm"], "/bin/rm x"),
        (&["rm"], "ls; rm x"),
        (&["rm"], "ls && rm x"),
        (&["rm"], "ls | rm x"),
        (&["rm"], "ls\nrm x"),
        (&["rm"], "ls & rm x"),
        (&["rm"], "'rm' x"),
        (&["rm"], "r''m x"),
        (&["rm"], "r\"\"m x"),
        (&["rm"], "\\rm x"),
        (&["rm"], "r\\m x"),
        (&["rm"], "r\\\nm x"),
        (&["rm"], "$(rm x)"),
        (&["rm"], "echo `rm x`"),
        (&["rm"], "echo \"$(rm x)\""),
        (&["rm"], "(rm x)"),
        (&["rm"], "{ rm x; }"),
        (&["rm"], "X=1 rm x"),
        (&["rm"], "env rm x"),
        (&["rm"], "env X=1 /bin/rm x"),
        (&["rm"], "sudo -u root rm x"),
        (&["rm"], "command rm x"),
        (&["rm"], "nohup rm x"),
        (&["rm"], "timeout 5 rm x"),
        (&["rm"], "find . -exec rm x"),
        (&["rm"], "xargs rm"),
        (&["rm"], "bash -c 'rm x'"),
        (&["rm"], "eval \"rm x\""),
        (&["rm"], "if true; then rm x; fi"),
        (&["rm"], "x() { rm y; }; x"),
        (&["rm"], "cat <(rm x)"),
        (&["rm"], "bash <<< 'rm x'"),
        (&["rm"], "bash << E\nrm x\nE"),
        (&["rm"], "/bin/r? x"),
        (&["rm"], "/bin/r* x"),
        (&["rm"], "r[m] x"),
        (&["rm"], "r$@m x"),
        (&["rm"], "r${x}m y"),
        (&["rm"], "r$(true)m y"),
        (&["rm"], "{rm,-rf,/}"),
        (&["rm"], "ls >x;rm y"),
        (&["rm"], "rm\tx"),
        (&["rm"], "! rm x"),
        (&["git", "push"], "git push"),
        (&["git", "push"], "ls && git 'push' -f"),
        (&["git", "push"], "ssh host 'git push'"),
        (&["git", "push"], "git pu\"sh\" $x"),
    ] {
        assert!(command("deny", prefix, line), "{line:?} gets through");
        assert!(command("ask", prefix, line), "{line:?} is not asked for");
        assert!(!command("allow", &["ls"], line), "{line:?}");
    }
    for (prefix, line) in [
        (&["rm"][..], "ls"),
        (&["rm"], "ls rm"),
        (&["rm"], "echo 'rm x'"),
        (&["rm"], "ls $x"),
        (&["rm"], "ls *"),
        (&["rm"], "ls r*"),
        (&["rm"], "$EDITOR x"),
        (&["rm"], "rmdir x"),
        (&["rm"], "npm x"),
        (&["git", "push"], "git pull && git status"),
        (&["git", "push"], "git log > push"),
        (&["git", "push"], "push git $x"),
    ] {
        assert!(!command("deny", prefix, line), "{line:?} is denied");
    }
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

/// `/work/here/link` leads out, `/work/here/in` back in, `/work/here/dead` to nothing, `/private` cannot be looked at.
fn linked(path: &Path) -> Leads {
    let text = path.to_str().unwrap();
    let real = |from: &str, to: &str| {
        let rest = Path::new(text).strip_prefix(from).ok()?;
        Some(path::lexical(&Path::new(to).join(rest)).unwrap())
    };
    if let Some(path) = real("/work/here/link", "/etc") {
        return Leads::To(path);
    }
    if let Some(path) = real("/alias", "/work/here") {
        return Leads::To(path);
    }
    if text.starts_with("/private") || text.starts_with("/work/here/dead") {
        return Leads::Unknown;
    }
    if text.contains("new") {
        return Leads::Nowhere;
    }
    plain(path)
}

#[test]
fn paths_are_where_they_lead() {
    let below = |action: &str, prefix: &str, text: &str| {
        let spec = json!({ "action": action, "input": { "p": { "path_prefix": prefix } } });
        matches_with(spec, &asked("Write", &json!({ "p": text })), &linked)
    };
    for (prefix, text, allow, deny) in [
        ("/work/here", "/work/here", true, true),
        ("/work/here", "/work/here/a/b", true, true),
        ("/work/here/", "/work/here/a", true, true),
        ("/work/here", "/work//here/./a", true, true),
        ("/work/here", "a", true, true),
        (".", "a", true, true),
        ("sub", "sub/a", true, true),
        ("sub", "/work/here/sub/a", true, true),
        ("sub", "other/a", false, false),
        ("/work/here", "/work/hereafter", false, false),
        ("/work/here", "/work", false, false),
        ("/work/here", "/etc/passwd", false, false),
        ("/work/here", "../x", false, false),
        ("/work/here", "/work/here/../x", false, false),
        ("/work/here", "/work/here/a/../../../etc/x", false, false),
        ("/work/here", "/work/x/../here/a", true, true),
        // By links.
        ("/work/here", "/work/here/link/passwd", false, true),
        ("/work/here", "link/passwd", false, true),
        ("/work/here", "/work/here/link/../x", false, true),
        ("/etc", "/work/here/link/passwd", false, true),
        ("/etc", "/work/here/link/../x", false, false),
        ("/work/here/link", "/etc/passwd", false, true),
        ("/work/here/link", "/work/here/link/a", false, true),
        ("/work/here", "/alias/a", false, true),
        // What is not there yet.
        ("/work/here", "/work/here/new/a/b", true, true),
        ("/work/here", "new", true, true),
        ("/work/here", "/work/here/new/../../x", false, true),
        ("/work/here", "/work/here/link/new", false, true),
        ("/etc", "/work/here/link/new", false, true),
        // What is not certain.
        ("/work/here", "/work/here/dead", false, true),
        ("/work/here", "/work/here/dead/a", false, true),
        ("/work/here", "/private/a", false, true),
        ("/work/here", "~/a", false, true),
        ("/work/here", "~root/a", false, true),
        ("/work/here", " /work/here/a", false, true),
        ("/work/here", "/work/here/a ", false, true),
        ("/work/here", "/work/here/a\0b", false, true),
        ("/work/here", "/work/here/a\n", false, true),
        ("/work/here", "", false, true),
    ] {
        assert_eq!(below("allow", prefix, text), allow, "allow {prefix} {text:?}");
        assert_eq!(below("deny", prefix, text), deny, "deny {prefix} {text:?}");
    }
    // Without a directory a relative path is anywhere.
    let mut nowhere = asked("Write", &json!({ "p": "a" }));
    nowhere.cwd = None;
    for (action, expected) in [("allow", false), ("deny", true)] {
        let spec = json!({ "action": action, "input": { "p": { "path_prefix": "/work/here" } } });
        assert_eq!(matches_with(spec, &nowhere, &linked), expected, "{action}");
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

/// Lines made of what shells give a meaning.
fn line() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "(git|status|rm|x| )",
        2 => "[;&|<>()$`'\"\\\\ \n\t#!*?~={}\\[\\]]",
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn what_is_allowed_could_be_denied(line in line()) {
        for prefix in [&["git", "status"][..], &["git"], &["rm"]] {
            if shell::runs_only(&line, &words(prefix)) {
                prop_assert!(shell::may_run(&line, &words(prefix)), "{line:?}");
            }
        }
    }

    #[test]
    fn a_second_command_is_never_allowed(tail in line()) {
        for glue in [";", "&&", "||", "|", "\n", "&", " $(", "`", "<(", " >"] {
            let line = format!("git status {glue} rm {tail}");
            prop_assert!(!shell::runs_only(&line, &words(&["git", "status"])), "{line:?}");
        }
    }

    #[test]
    fn quoted_text_is_one_word(text in "[a-z;&|<>()#*?~ ]{0,20}") {
        let line = format!("git status '{text}'");
        let parsed = shell::commands(&line);
        prop_assert_eq!(parsed, Some(vec![words(&["git", "status", &text])]));
    }

    #[test]
    fn no_path_gets_out(parts in proptest::collection::vec("(\\.\\.|\\.|a|new|link|dead|in)", 0..8)) {
        let text = format!("/work/here/{}", parts.join("/"));
        if path::is_below(&text, Path::new("/work/here"), None, &linked) {
            let plain = path::lexical(Path::new(&text)).unwrap();
            prop_assert!(plain.starts_with("/work/here"), "{text}");
            prop_assert!(!plain.starts_with("/work/here/link"), "{text}");
        }
    }
}
