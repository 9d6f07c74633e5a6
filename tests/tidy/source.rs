//! Owns how source files are read: as text, without comments, and as the modules they use.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The repository: the one that cargo runs the tests in, so that a built test can look at another checkout.
pub(crate) fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

/// A Rust file.
pub(crate) struct Source {
    /// Its path in the repository.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

/// All Rust files of a folder.
pub(crate) fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    collect(&root().join(folder), &mut found);
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let relative = path.strip_prefix(root()).expect("below the root");
            found.push(Source {
                path: relative.to_string_lossy().into_owned(),
                text: fs::read_to_string(&path).expect("UTF-8"),
            });
        }
    }
}

impl Source {
    /// The top-level module of the library that the file belongs to.
    pub(crate) fn module(&self) -> Option<String> {
        let inside = self.path.strip_prefix("src/")?;
        let first = inside.split('/').next()?.trim_end_matches(".rs");
        (!matches!(first, "lib" | "main")).then(|| first.to_owned())
    }

    /// How long the file is, up to its tests.
    pub(crate) fn lines_without_tests(&self) -> usize {
        let code = self.text.split("\n#[cfg(test)]\nmod tests {").next();
        code.map_or(0, |code| code.lines().count())
    }

    /// The text without comment lines.
    pub(crate) fn code(&self) -> String {
        self.text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The code without what stands between quotes: scripts in other languages are no Rust.
    pub(crate) fn code_without_strings(&self) -> String {
        let mut code = String::new();
        let mut rest = self.code();
        while let Some(start) = rest.find('"') {
            code.push_str(&rest[..start]);
            let hashes = rest[..start].chars().rev().take_while(|&c| c == '#').count();
            let is_raw = rest[..start - hashes].ends_with('r');
            let body = &rest[start + 1..];
            let end = if is_raw {
                let close = format!("\"{}", "#".repeat(hashes));
                body.find(&close).map(|at| at + close.len())
            } else {
                closing_quote(body).map(|at| at + 1)
            };
            let Some(end) = end else { break };
            code.extend(body[..end].chars().filter(|&c| c == '\n'));
            rest = body[end..].to_owned();
        }
        code.push_str(&rest);
        code
    }

    /// The top-level modules that the code names after `crate::`, in paths and in groups.
    pub(crate) fn modules_used(&self) -> BTreeSet<String> {
        let code = self.code();
        let mut used = BTreeSet::new();
        for (at, _) in code.match_indices("crate::") {
            let rest = &code[at + "crate::".len()..];
            match rest.strip_prefix('{') {
                Some(group) => used.extend(first_names(group)),
                None => used.extend(name_at(rest)),
            }
        }
        // A name that begins with a capital letter is a type or a macro of the root.
        used.retain(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
        used
    }
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

fn name_at(text: &str) -> Option<String> {
    let name: String = text
        .trim_start()
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    (!name.is_empty()).then_some(name)
}

/// The first names of the items of a group, up to its closing brace.
fn first_names(group: &str) -> Vec<String> {
    let mut names: Vec<String> = name_at(group).into_iter().collect();
    let mut depth = 0_usize;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.extend(name_at(&group[at + 1..])),
            _ => {}
        }
    }
    names
}

#[test]
fn imports_are_found_in_every_form() {
    let file = Source {
        path: "src/a/b.rs".into(),
        text: "use crate::{one::{x, y}, two, three::z};\n// crate::comment\nlet x = crate::four::f(); crate::Five"
            .into(),
    };
    let used: Vec<String> = file.modules_used().into_iter().collect();
    assert_eq!(used, ["four", "one", "three", "two"]);
    assert_eq!(file.module().as_deref(), Some("a"));
}

#[test]
fn strings_are_left_out() {
    let file = Source {
        path: "tests/x.rs".into(),
        text: "a(\"sleep(1) \\\" sleep(2)\"); b(r#\"sleep(3) \" \"#); sleep(4);".into(),
    };
    let code = file.code_without_strings();
    assert_eq!(code.matches("sleep(").count(), 1, "{code}");
}
