//! Checks what is held back for a person, and fields that are set or not.

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
