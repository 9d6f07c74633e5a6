//! Checks the comparison of paths: what they say, and where they lead.

use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::{asked, matches_with, plain};
use crate::domain::rule::{Leads, path};

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
