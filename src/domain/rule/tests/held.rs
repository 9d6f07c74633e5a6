//! Checks what is held back for a person, fields that are set or not, and rules about every tool with a command.

use super::*;

fn write(reason: Option<&str>, has_safety_check: bool) -> Asked {
    Asked {
        reason_type: reason.map(str::to_owned),
        has_safety_check,
        ..asked(
            "Write",
            &json!({ "file_path": "/work/here/.claude/settings.json" }),
        )
    }
}

#[test]
fn a_safety_check_is_allowed_by_no_general_rule() {
    let home = json!({ "file_path": { "path_prefix": "." } });
    let allow = json!({ "action": "allow", "input": home });
    assert!(matches(allow.clone(), &write(None, false)));
    assert!(matches(allow.clone(), &write(Some("workingDir"), false)));
    for asked in [
        write(Some("safetyCheck"), true),
        write(Some("safetyCheck"), false),
        write(Some("subcommandResults"), true),
    ] {
        assert!(!matches(allow.clone(), &asked), "{asked:?}");
        assert!(!matches(json!({ "action": "allow" }), &asked));
        assert!(!matches(
            json!({ "action": "allow", "reason_type": ["workingDir", "subcommandResults"] }),
            &asked
        ));
        let named = json!({ "action": "allow", "input": home, "reason_type": ["other", "safetyCheck"] });
        assert!(matches(named.clone(), &asked), "{asked:?}");
        assert!(
            !matches(named, &write(Some("rule"), false)),
            "it is a condition too"
        );
        // It is held back all the same by rules that hold back.
        assert!(matches(json!({ "action": "deny", "input": home }), &asked));
        assert!(matches(json!({ "action": "ask", "input": home }), &asked));
    }
}

#[test]
fn a_rule_that_passes_a_safety_check_by_says_so() {
    let list = vec![RuleSpec::of_action(RuleAction::Allow)];
    let rules = Rules {
        session: std::sync::Arc::new(RuleSet::new(list).unwrap()),
        config: std::sync::Arc::default(),
    };
    let verdict = rules.decide(&write(Some("safetyCheck"), true), now(), &plain);
    assert!(verdict.decided.is_none());
    assert!(
        verdict.passed[0].why_not.contains("safetyCheck"),
        "{:?}",
        verdict.passed
    );
}

#[test]
fn no_deadline_allows_a_safety_check_by_itself() {
    let end = |named: Value| {
        let mut spec = json!({ "action": "ask", "deadline_ms": 5, "on_deadline": "allow" });
        if !named.is_null() {
            spec["reason_type"] = named;
        }
        let list = vec![serde_json::from_value(spec).unwrap()];
        let rules = Rules {
            session: std::sync::Arc::new(RuleSet::new(list).unwrap()),
            config: std::sync::Arc::default(),
        };
        let verdict = rules.decide(&write(Some("safetyCheck"), true), now(), &plain);
        verdict.decided.unwrap().on_deadline
    };
    assert_eq!(end(Value::Null), OnDeadline::Deny);
    assert_eq!(end(json!(["safetyCheck"])), OnDeadline::Allow);
}

#[test]
fn a_command_outside_of_the_sandbox_is_a_persons() {
    let run = |input: &str, reason: Option<&str>| {
        let mut asked = asked("Bash", &json!({}));
        asked.input = Input::read(input);
        asked.reason_type = reason.map(str::to_owned);
        asked
    };
    let ls = json!({ "command": { "command_prefix": ["ls"] } });
    for (input, reason, general, named) in [
        (r#"{"command":"ls"}"#, None, true, false),
        (
            r#"{"command":"ls","dangerouslyDisableSandbox":false}"#,
            None,
            true,
            false,
        ),
        (
            r#"{"command":"ls","dangerouslyDisableSandbox":true}"#,
            None,
            false,
            true,
        ),
        (
            r#"{"command":"ls","dangerouslyDisableSandbox":"true"}"#,
            None,
            false,
            true,
        ),
        (
            r#"{"dangerouslyDisableSandbox":true,"command":"ls","dangerouslyDisableSandbox":false}"#,
            None,
            false,
            true,
        ),
        (r#"{"command":"ls"}"#, Some("sandboxOverride"), false, true),
        (
            r#"{"command":"ls","dangerouslyDisableSandbox":true}"#,
            Some("safetyCheck"),
            false,
            false,
        ),
    ] {
        let asked = run(input, reason);
        let allow = json!({ "action": "allow", "tool": "Bash", "input": ls });
        assert_eq!(matches(allow, &asked), general, "{input} {reason:?}");
        let allow = json!({ "action": "allow", "input": ls, "reason_type": ["sandboxOverride"] });
        assert_eq!(matches(allow, &asked), named, "{input} {reason:?}");
    }
    let both = json!({ "action": "allow", "reason_type": ["sandboxOverride", "safetyCheck"] });
    let asked = run(
        r#"{"command":"ls","dangerouslyDisableSandbox":true}"#,
        Some("safetyCheck"),
    );
    assert!(matches(both, &asked));
}

#[test]
fn a_rule_can_ask_for_a_field_that_is_not_set() {
    let off = json!({ "is_set": false });
    let on = json!({ "is_set": true });
    for (input, off_allows, off_denies, on_allows, on_denies) in [
        (r#"{}"#, true, true, false, false),
        (r#"{"f":false}"#, true, true, false, false),
        (r#"{"f":null}"#, false, true, false, true),
        (r#"{"f":true}"#, false, false, true, true),
        (r#"{"f":"false"}"#, false, false, true, true),
        (r#"{"f":false,"f":true}"#, false, true, false, true),
        (r#"{"f":false,"g":"\ud83d"}"#, false, true, false, true),
    ] {
        assert_eq!(
            field("allow", off.clone(), input),
            off_allows,
            "allow off {input}"
        );
        assert_eq!(field("deny", off.clone(), input), off_denies, "deny off {input}");
        assert_eq!(field("allow", on.clone(), input), on_allows, "allow on {input}");
        assert_eq!(field("ask", on.clone(), input), on_denies, "ask on {input}");
    }
}

#[test]
fn a_denied_command_is_denied_to_every_tool_that_runs_one() {
    let rm = json!({ "command": { "command_prefix": ["rm"] } });
    let run = |tool: &str, input: &str| {
        let mut asked = asked(tool, &json!({}));
        asked.input = Input::read(input);
        asked
    };
    for (tool, input, held, allowed) in [
        ("Bash", r#"{"command":"rm x"}"#, true, true),
        ("Monitor", r#"{"command":"rm x","description":"d"}"#, true, false),
        ("mcp__shell__run", r#"{"command":["rm x"]}"#, true, false),
        ("Monitor", r#"{"command":"ls"}"#, false, false),
        ("Monitor", r#"{"ws":"rm x"}"#, false, false),
        (
            "Monitor",
            r#"{"command":"rm x","description":"\ud83d"}"#,
            true,
            false,
        ),
        (
            "Write",
            r#"{"file_path":"rm x","content":"\ud83d"}"#,
            false,
            false,
        ),
    ] {
        for action in ["deny", "ask"] {
            let rule = json!({ "action": action, "tool": "Bash", "input": rm });
            assert_eq!(matches(rule, &run(tool, input)), held, "{action} {tool} {input}");
        }
        let rule = json!({ "action": "allow", "tool": "Bash", "input": rm });
        assert_eq!(matches(rule, &run(tool, input)), allowed, "allow {tool} {input}");
    }
    // Without a condition on the command a rule is about the tool that it names.
    assert!(!matches(
        json!({ "action": "deny", "tool": "Bash" }),
        &run("Monitor", r#"{"command":"rm x"}"#)
    ));
    // A deadline allows the tool that the rule names, and no other.
    let late =
        json!({ "action": "ask", "tool": "Bash", "input": rm, "deadline_ms": 5, "on_deadline": "allow" });
    let rules = Rules {
        session: std::sync::Arc::new(RuleSet::new(vec![serde_json::from_value(late).unwrap()]).unwrap()),
        config: std::sync::Arc::default(),
    };
    let verdict = rules.decide(&run("Monitor", r#"{"command":"rm x"}"#), now(), &plain);
    assert_eq!(verdict.decided.unwrap().on_deadline, OnDeadline::Deny);
}
