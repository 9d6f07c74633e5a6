//! Owns the promise to programs that were built against the contract of the last release: what they send is still taken,
//! and what they read is still there.

mod changes;
mod examples;

use serde_json::Value;

use super::read;
use changes::{Break, breaks};

const RELEASED: &str = "openapi/released.json";

fn document(path: &str) -> Value {
    serde_json::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The word of lines that tell of a break.
const BREAKING: &str = "Breaking:";
/// The word of lines that tell of a limit which the document states now, and which the daemon kept before: it breaks nobody.
const HELD_BEFORE: &str = "Held before:";

/// The breaks that no line such as "Breaking: `name` …" of the changelog's unreleased part names.
fn untold<'a>(found: &'a [Break], word: &str, changelog: &str) -> Vec<&'a Break> {
    let unreleased = changelog
        .split_once("## [Unreleased]")
        .and_then(|(_, rest)| rest.split("\n## [").next())
        .unwrap_or_default();
    let told: Vec<&str> = unreleased.lines().filter(|line| line.contains(word)).collect();
    let is_told = |subject: &str| told.iter().any(|line| line.contains(&format!("`{subject}`")));
    found.iter().filter(|it| !is_told(&it.subject)).collect()
}

#[test]
fn clients_of_the_last_release_still_work() {
    let (released, current) = (document(RELEASED), document("openapi/trunkline.json"));
    let changelog = read("CHANGELOG.md");
    let all = breaks(&released, &current);
    let found: Vec<Break> = untold(&all, HELD_BEFORE, &changelog)
        .into_iter()
        .cloned()
        .collect();
    let untold = untold(&found, BREAKING, &changelog);
    let words = |list: &[&Break]| list.iter().map(|it| format!("\n  {it}")).collect::<String>();
    assert!(
        untold.is_empty(),
        "this breaks clients of {RELEASED}; undo it, or tell them of it in CHANGELOG.md (\"Breaking: `name` …\" under \
         Unreleased, with the name that stands first below) and run `make contract`:{}",
        words(&untold)
    );
    if std::env::var_os("CUT_CONTRACT").is_some() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(RELEASED);
        std::fs::write(path, read("openapi/trunkline.json")).unwrap();
        return;
    }
    let found: Vec<&Break> = found.iter().collect();
    assert!(
        found.is_empty(),
        "CHANGELOG.md tells of these breaks; `make contract` cuts {RELEASED} anew:{}",
        words(&found)
    );
}

#[test]
fn the_changelog_excuses_only_what_it_names() {
    let found = [
        Break::of("GET /a", "", "is gone"),
        Break::of("Session", "", "is gone"),
    ];
    let log = "# Changelog\n## [Unreleased]\n- Breaking: `GET /a` is gone.\n- Held before: `Session`.\n## [0.1.0]\n- Breaking: `Session`\n";
    let left = |word| -> Vec<&str> {
        let left = untold(&found, word, log);
        left.iter().map(|it| it.subject.as_str()).collect()
    };
    assert_eq!(left(BREAKING), ["Session"]);
    assert_eq!(left(HELD_BEFORE), ["GET /a"]);
}
