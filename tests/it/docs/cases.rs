//! Keeps `docs/CASES.md` whole: a test behind every fault that was seen elsewhere.

use std::collections::BTreeSet;

use super::{
    parity::{NOT_SHOWN, has_test, tests},
    read,
};

const PAGE: &str = "docs/CASES.md";

/// Is this one of the page's ids: a letter for the area, and a number?
fn is_id(cell: &str) -> bool {
    let number = cell.strip_prefix(|area: char| area.is_ascii_uppercase());
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

#[test]
fn every_fault_has_a_test() {
    let page = read(PAGE);
    let mut ids = BTreeSet::new();
    for line in page.lines() {
        let cells = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
        let Some(cells) = cells else { continue };
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        if !is_id(cells[0]) {
            assert!(matches!(cells[0], "id" | "---"), "{line}");
            continue;
        }
        let [id, happened, right, shown] = cells[..] else {
            panic!("four cells: {line}");
        };
        assert!(ids.insert(id), "{id} is there twice");
        assert!(!happened.is_empty() && !right.is_empty(), "{line}");
        if shown.starts_with(NOT_SHOWN) {
            continue;
        }
        for (name, file) in tests(shown) {
            let code = read(&file);
            let is_there = if file.ends_with(".rs") {
                has_test(&code, &name)
            } else {
                code.contains(&format!("test('{name}'"))
            };
            assert!(is_there, "{id}: {file} has no test {name}");
        }
    }
    assert!(ids.len() > 120, "only {} faults were found", ids.len());
}
