//! Owns the commands that the documents show. A test takes a line from its page, so that a change of the page changes what it runs.

use std::{collections::BTreeSet, fs, path::Path};

/// The fenced blocks of one kind on a page.
pub(crate) fn blocks(page: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}");
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in text(page).lines() {
        match &mut open {
            Some(block) if line == "```" => {
                found.push(std::mem::take(block));
                open = None;
            }
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
            None if line == fence => open = Some(String::new()),
            None => {}
        }
    }
    found
}

/// The lines that a person types in the `console` blocks of a page, without the remarks behind them.
pub(crate) fn typed(page: &str) -> Vec<String> {
    blocks(page, "console")
        .iter()
        .flat_map(|block| block.lines())
        .filter_map(|line| line.strip_prefix("$ "))
        .map(|line| line.split(" # ").next().unwrap_or_default().trim_end().to_owned())
        .collect()
}

/// The commands in code type in the sentences of a page: they begin with the name of a program.
pub(crate) fn in_sentences(page: &str, program: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_fenced = false;
    for line in text(page).lines() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced {
            continue;
        }
        for span in line.split('`').skip(1).step_by(2) {
            if span == program || span.starts_with(&format!("{program} ")) {
                found.insert(span.to_owned());
            }
        }
    }
    found
}

/// The one command of a page, typed or in a sentence, that is these words, or else begins with them.
///
/// # Panics
/// When the page has none, or several.
pub(crate) fn command_of(page: &str, beginning: &str) -> String {
    let program = beginning.split(' ').next().unwrap_or_default();
    let mut all = in_sentences(page, program);
    all.extend(typed(page));
    if all.contains(beginning) {
        return beginning.to_owned();
    }
    all.retain(|line| line.starts_with(beginning));
    assert_eq!(all.len(), 1, "{page} has one command `{beginning}…`: {all:?}");
    all.pop_first().unwrap_or_default()
}

/// The path and the text of each page of the protocol.
pub(crate) fn protocol() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/protocol");
    let mut pages: Vec<(String, String)> = fs::read_dir(folder)
        .expect("docs/protocol")
        .map(|entry| entry.expect("a page").file_name())
        .map(|name| format!("docs/protocol/{}", name.display()))
        .map(|page| (page.clone(), text(&page)))
        .collect();
    pages.sort();
    pages
}

fn text(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
