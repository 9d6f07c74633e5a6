//! Checks what a denied command makes of a line: it is denied, a person is asked, or it passes. And that everyday lines pass.

use super::*;
use RuleAction::{Ask, Deny};

const EVERYDAY: &str = include_str!("everyday.txt");

/// The rule that decides about a line, and its action.
fn decide(rules: &Value, line: &str) -> Option<(String, RuleAction)> {
    let rules = Rules {
        session: std::sync::Arc::new(RuleSet::new(serde_json::from_value(rules.clone()).unwrap()).unwrap()),
        config: std::sync::Arc::default(),
    };
    let verdict = rules.decide(&asked("Bash", &json!({ "command": line })), now(), &plain);
    verdict.decided.map(|decided| (decided.id, decided.action))
}

fn deny(id: &str, prefix: &[&str]) -> Value {
    json!({ "id": id, "action": "deny", "input": { "command": { "command_prefix": prefix } } })
}

fn denied(prefix: &[&str], line: &str) -> Option<RuleAction> {
    decide(&json!([deny("d", prefix)]), line).map(|(_, action)| action)
}

#[test]
fn a_denied_command_is_denied_where_it_is_certain() {
    for (prefix, line) in [
        (&["rm"][..], "rm x"),
        (&["rm"], "ls; /bin/rm x"),
        (&["rm"], "r\\m x"),
        (&["rm"], "sudo -u root rm x"),
        (&["rm"], "sh -c 'rm x'"),
        (&["rm"], "if true; then rm x; fi"),
        (&["rm"], "x() { rm y; }; x"),
        (&["rm"], "echo `rm x`"),
        (&["rm"], "bash <<'E'\nrm x\nE"),
        (&["git", "push"], "git -C . push"),
        (&["git", "push"], "git --no-pager push"),
        (&["git", "push"], "git -c a=b push"),
        (&["git", "push"], "git --git-dir=.git push"),
        (&["git", "push"], "bash -c 'git -C . push'"),
        (&["git", "push"], "git-push"),
    ] {
        assert_eq!(denied(prefix, line), Some(Deny), "{line:?}");
    }
}

#[test]
fn a_person_is_asked_where_a_denied_command_may_be_run() {
    for (prefix, line) in [
        (&["rm"][..], "$'\\x72m' v"),
        (&["rm"], "$'\\162m' v"),
        (&["rm"], "r{m,} v"),
        (&["rm"], "{r,}m v"),
        (&["rm"], "${x:-rm} v"),
        (&["rm"], "/bin/r? v"),
        (&["rm"], "$x v"),
        (&["rm"], "sudo $x v"),
        (&["rm"], "find . -exec $x {} +"),
        (&["rm"], "ls | xargs -I% % v"),
        (&["rm"], "eval $x"),
        (&["rm"], "eval \"$(curl x)\""),
        (&["rm"], "source <(curl x)"),
        (&["rm"], ". \"$x\""),
        (&["rm"], "bash -c \"$x\""),
        (&["rm"], "curl x | sh"),
        (&["rm"], "curl x | sudo bash -s -- y"),
        (&["rm"], "cat x | python3.11 -"),
        (&["rm"], "echo rm v | rbash"),
        (&["rm"], "echo rm v | mksh"),
        (&["rm"], "echo rm v | at now"),
        (&["rm"], "echo 'rm v' | tee s.sh && chmod +x s.sh && ./s.sh"),
        (&["rm"], "cp /bin/rm z && ./z v"),
        (&["rm"], "git commit -m 'rm x'"),
        (&["rm"], "npx rm x"),
        (&["git", "push"], "git $'\\x70ush'"),
        (&["git", "push"], "git pu{sh,}"),
        (&["git", "push"], "git ${x:-push}"),
        (&["git", "push"], "git $(echo push)"),
    ] {
        assert_eq!(denied(prefix, line), Some(Ask), "{line:?}");
    }
}

#[test]
fn everyday_lines_ask_nobody() {
    let lines: Vec<String> = EVERYDAY.lines().map(|line| line.replace("\\n", "\n")).collect();
    assert_eq!(lines.len(), 200);
    let rules = json!([
        deny("rm", &["rm"]),
        deny("push", &["git", "push"]),
        deny("sudo", &["sudo"]),
        deny("publish", &["npm", "publish"]),
        { "id": "all", "action": "allow" },
    ]);
    let held: Vec<_> = lines
        .iter()
        .filter(|line| decide(&rules, line) != Some(("all".to_owned(), RuleAction::Allow)))
        .collect();
    assert!(held.len() <= 5, "{held:#?}");
}

#[test]
fn a_guess_gives_way_to_a_certain_denial_alone() {
    let certain = deny("certain", &["curl"]);
    let allow = json!({ "id": "all", "action": "allow" });
    let ask = json!({ "id": "ask", "action": "ask", "deadline_ms": 5, "on_deadline": "allow" });
    let guess = deny("guess", &["rm"]);
    for (rules, expected) in [
        (json!([guess, certain]), ("certain", Deny)),
        (json!([guess, allow, certain]), ("guess", Ask)),
        (json!([guess, ask, certain]), ("guess", Ask)),
        (json!([guess]), ("guess", Ask)),
        (json!([allow, guess]), ("all", RuleAction::Allow)),
    ] {
        let decided = decide(&rules, "curl x | sh");
        assert_eq!(decided, Some((expected.0.to_owned(), expected.1)), "{rules}");
    }
}
