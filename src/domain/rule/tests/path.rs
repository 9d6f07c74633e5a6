//! Checks the comparison of paths: what they say, and where they lead.

use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::{asked, matches_with, now, plain};
use crate::domain::rule::{Leads, RuleSet, Rules, path};

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
        // By names that stand for the process that looks.
        ("secret", "/proc/self/cwd/secret/a", false, true),
        ("/work/here", "/proc/self/cwd/a", false, true),
        ("secret", "/proc//self/../thread-self/cwd/secret/a", false, true),
        ("secret", "/dev/fd/3", false, true),
        ("secret", "/proc/selfish", false, false),
        // By links.
        ("/work/here", "/work/here/link/passwd", false, true),
        ("/work/here", "link/passwd", false, true),
        ("/work/here", "/work/here/link/../x", false, true),
        ("/etc", "/work/here/link/passwd", false, true),
        ("/etc", "/work/here/link/../x", false, false),
        ("/work/here/link", "/etc/passwd", false, true),
        ("/work/here/link", "/work/here/link/a", false, true),
        ("/work/here", "/alias/a", false, true),
        // Paths that are not there yet.
        ("/work/here", "/work/here/new/a/b", true, true),
        ("/work/here", "new", true, true),
        ("/work/here", "/work/here/new/../../x", false, true),
        ("/work/here", "/work/here/link/new", false, true),
        ("/etc", "/work/here/link/new", false, true),
        // Paths that are uncertain.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

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

#[test]
fn no_pattern_is_got_around_by_a_parent_directory() {
    let fits = |action: &str, matcher: &serde_json::Value, text: &str| {
        let spec = json!({ "action": action, "input": { "p": matcher } });
        matches_with(spec, &asked("Write", &json!({ "p": text })), &plain)
    };
    let glob = |pattern: &str| json!({ "glob": pattern });
    let regex = |pattern: &str| json!({ "regex": pattern });
    for (matcher, text, allow, deny) in [
        (glob("/work/a/**"), "/work/a/b", true, true),
        (glob("/work/a/**"), "/work/a/b/../c", true, true),
        (glob("/work/a/**"), "/work/a/../../etc/passwd", false, true),
        (glob("/work/a/**"), "/work/a/..", false, true),
        (glob("/work/a/**"), "/work/a/b/..", false, true),
        (glob("/work/a/**"), "/work/a/./../x", false, true),
        (glob("/work/a/**"), "/work/a//../x", false, true),
        (glob("/work/a/**"), "/work/a/b c/../../../etc/passwd", false, true),
        (regex("/work/a/.*"), "/work/a/../../etc/passwd", false, true),
        (
            regex("(?s)/work/a/.*"),
            "/work/a/\n/../../../etc/passwd",
            false,
            true,
        ),
        (glob("src/*"), "src/../../etc/passwd", false, true),
        // It is only by its links that it may lead there, which a pattern does not see.
        (glob("/etc/*"), "/work/../etc/passwd", false, true),
        (glob("../shared/*"), "../shared/x", true, true),
        (glob("../shared/*"), "../shared/../x", false, true),
        // A path that is held back stays so, however it is written.
        (glob("/etc/*"), "/etc/./passwd", true, true),
        (glob("/etc/passwd"), "/etc/./passwd", false, true),
        (glob("/etc/passwd"), "//etc//passwd/", false, true),
        (glob("/etc/*"), "../../etc/passwd", false, true),
        (glob("/etc/*"), "/../etc/passwd", false, true),
        (glob("/etc/*"), "/work/etc/passwd", false, false),
        // A name with dots is a name.
        (glob("/work/a/**"), "/work/a/..b/...", true, true),
        (glob("git log *"), "git log HEAD..main", true, true),
    ] {
        assert_eq!(fits("allow", &matcher, text), allow, "allow {matcher} {text:?}");
        assert_eq!(fits("deny", &matcher, text), deny, "deny {matcher} {text:?}");
    }
}

#[test]
fn no_text_that_a_pattern_allows_leads_out() {
    let rules = |matcher: serde_json::Value| Rules {
        session: std::sync::Arc::new(
            RuleSet::new(
                serde_json::from_value(json!([{ "action": "allow", "input": { "p": matcher } }])).unwrap(),
            )
            .unwrap(),
        ),
        config: std::sync::Arc::default(),
    };
    let all = [
        rules(json!({ "glob": "/work/here/**" })),
        rules(json!({ "regex": "(?s)/work/here/.*" })),
    ];
    let mut allowed = 0;
    let mut texts = vec!["/work/here".to_owned()];
    for _ in 0..5 {
        texts = texts
            .iter()
            .flat_map(|text| ["..", ".", "", "a", "b c", "\n"].map(|part| format!("{text}/{part}")))
            .collect();
        for text in &texts {
            for rules in &all {
                let asked = asked("Write", &json!({ "p": text }));
                if rules.decide(&asked, now(), &plain).decided.is_some() {
                    allowed += 1;
                    let leads = path::lexical(Path::new(text)).unwrap();
                    assert!(leads.starts_with("/work/here"), "{text:?}");
                }
            }
        }
    }
    assert!(allowed > 1000, "{allowed}");
}
