//! The names and files that the documents link to.

use std::path::Path;

use crate::docs::{PAGES, read};

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
fn names_of_code_are_in_the_file_that_is_named() {
    let mut names = 0;
    for (label, target) in links("docs/ARCHITECTURE.md") {
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
        assert!(is_there, "{target} has no {name}");
        names += 1;
    }
    assert!(names > 80, "only {names} names were found");
}
