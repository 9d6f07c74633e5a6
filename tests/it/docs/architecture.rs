//! Keeps the pages about the code true: the names and files that they link to, and their shape.

use std::path::Path;

use crate::{
    docs::{PAGES, read},
    support::pages::protocol,
};

/// The pages whose links name a function, a type or a test.
const OF_CODE: [&str; 5] = [
    "docs/ARCHITECTURE.md",
    "docs/GLOSSARY.md",
    "docs/INVARIANTS.md",
    "docs/JOURNAL.md",
    "docs/LIFECYCLE.md",
];
/// A map that is longer is read by nobody.
const LINES_OF_THE_MAP: usize = 200;

/// Text and target of each link to a file of the repository, the target without its anchor and from the root.
fn links(page: &str) -> Vec<(String, String)> {
    let text = read(page);
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for (at, _) in text.match_indices("](") {
        let target = text[at + 2..].split(')').next().unwrap_or_default();
        let target = target.split('#').next().unwrap_or_default();
        if target.is_empty() || target.contains("://") {
            continue;
        }
        let label = text[..at].rsplit('[').next().unwrap_or_default();
        let mut path = folder.to_path_buf();
        for part in target.split('/') {
            if part == ".." {
                path.pop();
            } else {
                path.push(part);
            }
        }
        found.push((label.to_owned(), path.display().to_string()));
    }
    found
}

#[test]
fn links_lead_to_files_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in PAGES {
        for (label, target) in links(page) {
            assert!(root.join(&target).exists(), "{page}: [{label}] leads to {target}");
        }
    }
}

#[test]
fn the_page_of_the_protocol_lists_its_pages() {
    let listed = links("docs/PROTOCOL.md");
    for (page, _) in protocol() {
        assert!(PAGES.contains(&page.as_str()), "no test reads {page}");
        assert!(
            listed.iter().any(|(_, target)| *target == page),
            "docs/PROTOCOL.md does not list {page}"
        );
    }
}

#[test]
fn names_of_code_are_in_the_file_that_is_named() {
    let mut names = 0;
    for (page, label, target) in OF_CODE.into_iter().flat_map(|page| {
        links(page)
            .into_iter()
            .map(move |(label, target)| (page, label, target))
    }) {
        let Some(name) = label.strip_prefix('`').and_then(|label| label.strip_suffix('`')) else {
            continue;
        };
        if name.ends_with(".rs") {
            continue;
        }
        let item = name.rsplit("::").next().unwrap_or(name);
        let code = read(&target);
        let is_there = ["fn", "struct", "enum", "trait"].iter().any(|kind| {
            let definition = format!("{kind} {item}");
            code.match_indices(&definition).any(|(at, _)| {
                let next = code[at + definition.len()..].chars().next();
                next.is_some_and(|next| !next.is_alphanumeric() && next != '_')
            })
        });
        assert!(is_there, "{page}: {target} has no {name}");
        names += 1;
    }
    assert!(names > 300, "only {names} names were found");
}

#[test]
fn the_map_fits_200_lines() {
    let lines = read("docs/ARCHITECTURE.md").lines().count();
    assert!(
        lines <= LINES_OF_THE_MAP,
        "docs/ARCHITECTURE.md has {lines} lines"
    );
}

#[test]
fn each_invariant_names_its_keeper_and_a_test() {
    let page = read("docs/INVARIANTS.md");
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| {
            line.starts_with("| ") && !line.starts_with("| --- ") && !line.starts_with("| invariant ")
        })
        .collect();
    assert!(rows.len() > 80, "only {} rows", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [invariant, keeper, tests] = cells[..] else {
            panic!("{} cells: {row}", cells.len());
        };
        assert!(invariant.ends_with('.') && !keeper.is_empty(), "{row}");
        let mut is_tested = false;
        for (at, _) in tests.match_indices("[`") {
            let name = tests[at + 2..].split('`').next().unwrap_or_default();
            let target = tests[at..]
                .split("](../")
                .nth(1)
                .and_then(|rest| rest.split(')').next());
            let code = read(target.unwrap_or_else(|| panic!("no file: {row}")));
            let (before, _) = code
                .split_once(&format!("fn {name}("))
                .unwrap_or_else(|| panic!("{name} is not there: {row}"));
            // A test has its attribute behind the end of whatever stands before it.
            let own = before.rsplit("\n\n").next().unwrap_or(before);
            let has_attribute = ["#[test]", "::test"].iter().any(|it| own.contains(it));
            assert!(has_attribute, "{name} is no test: {row}");
            is_tested = true;
        }
        assert!(is_tested, "no test: {row}");
    }
}
