//! Keeps sentences to named subjects: in comments, docs and messages none begins with a clause or with a word in the place of a
//! name ("what is left", "who asks", "of these").

use std::{fs, path::Path};

use super::{fail_on, source::root};

/// The words that no sentence begins with.
const OPENERS: [&str; 6] = ["What", "Who", "Whoever", "Whatever", "That", "Of"];

/// The folders and files that are read.
const PLACES: &[&str] = &[
    "src",
    "tests",
    "benches",
    "bench",
    "web/src",
    "web-test",
    "clients",
    "config",
    "packaging",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "AGENTS.md",
    "Makefile",
    "Dockerfile",
    "Cargo.toml",
    "clippy.toml",
    "deny.toml",
    "compose.yaml",
];

/// Folders of data, of other people's code, and of build results.
const FOREIGN: [&str; 5] = ["node_modules", "target", "dist", "fixtures", "snapshots"];

/// Files that are made from the `OpenAPI` document, and so from the sources.
const GENERATED: [&str; 2] = [
    "clients/typescript/src/api.ts",
    "clients/python/src/trunkline/rest.py",
];

/// The literals in Rust code that people read.
const MESSAGES: [&str; 2] = ["#[error(\"", "description = \""];

/// The language of a file, as far as it tells prose from code.
#[derive(Clone, Copy)]
enum Language {
    Rust,
    Script,
    Python,
    Hash,
    Markdown,
}

impl Language {
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        match name.rsplit_once('.').map_or(name, |(_, extension)| extension) {
            "rs" => Some(Self::Rust),
            "ts" | "tsx" | "mjs" | "js" | "css" => Some(Self::Script),
            "py" => Some(Self::Python),
            "toml" | "yaml" | "sh" | "service" | "socket" | "Makefile" | "Dockerfile" => Some(Self::Hash),
            "md" => Some(Self::Markdown),
            _ => None,
        }
    }
}

/// Takes the prose out of a file, line by line.
struct Prose {
    language: Language,
    /// Whether the line stands between two fences of Markdown.
    is_fenced: bool,
    /// Whether the line stands in a comment or docstring of several lines.
    is_inside: bool,
}

impl Prose {
    /// The prose of a line; `None` when it has none.
    fn of<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let line = line.trim();
        let prose = match self.language {
            Language::Markdown => Some(line),
            Language::Rust => slashes(line).or_else(|| message(line)),
            Language::Script => slashes(line).or_else(|| self.between(line, "/*", "*/")),
            Language::Python => hashes(line).or_else(|| self.between(line, "\"\"\"", "\"\"\"")),
            Language::Hash => hashes(line),
        }?;
        if prose.trim_start().starts_with("```") {
            self.is_fenced = !self.is_fenced;
            return None;
        }
        (!self.is_fenced).then_some(prose)
    }

    /// The part of a line that stands in a comment with these marks, which may go on over lines.
    fn between<'a>(&mut self, line: &'a str, open: &str, close: &str) -> Option<&'a str> {
        let text = match self.is_inside {
            true => line,
            false => line.strip_prefix(open)?,
        };
        let end = text.find(close);
        self.is_inside = end.is_none();
        let text = text.get(..end.unwrap_or(text.len()))?;
        Some(text.trim_start_matches('*').trim())
    }
}

fn slashes(line: &str) -> Option<&str> {
    Some(line.strip_prefix("//")?.trim_start_matches(['/', '!']).trim())
}

/// A comment of a shell; `#:` begins a value that is commented out.
fn hashes(line: &str) -> Option<&str> {
    let text = line.strip_prefix('#')?;
    (!text.starts_with([':', '!'])).then(|| text.trim())
}

fn message(line: &str) -> Option<&str> {
    let at = MESSAGES
        .iter()
        .find_map(|begin| Some(line.find(begin)? + begin.len()))?;
    line.get(at..)?.split('"').next()
}

/// The sentences of a text that begin with one of the words, each with the number of its line.
fn faults_in(language: Language, text: &str) -> Vec<(usize, String)> {
    let mut prose = Prose {
        language,
        is_fenced: false,
        is_inside: false,
    };
    let mut found = Vec::new();
    let mut begins = true;
    for (place, line) in text.lines().enumerate() {
        let Some(line) = prose.of(line).filter(|line| !line.is_empty()) else {
            begins = true;
            continue;
        };
        let line = without_spans(line);
        let body = without_marks(&line);
        begins |= body.len() < line.len();
        for (at, sentence) in sentences(body) {
            let first = sentence
                .split(|letter: char| !letter.is_alphanumeric())
                .next()
                .unwrap_or_default();
            if (at > 0 || begins) && OPENERS.contains(&first) {
                found.push((place + 1, sentence.to_owned()));
            }
        }
        begins = ends(body) || line.starts_with(['#', '|']);
    }
    found
}

/// The text without the content of its code spans.
fn without_spans(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`…`")
}

/// The text without the marks of a heading, an item, a cell or a stressed word before it.
fn without_marks(text: &str) -> &str {
    let text = text.trim_start_matches(['#', '>', '*', '-', '|', '_', ' ']);
    let after_number = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    after_number.strip_prefix(". ").unwrap_or(text)
}

/// The sentences, cells and parts after a colon of a line, each with its place.
fn sentences(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = line.match_indices(' ').filter_map(|(at, _)| {
        let is_start = line
            .get(..at)
            .is_some_and(|before| ends(before) || before.ends_with('|'));
        is_start.then_some(at + 1)
    });
    let mut starts: Vec<usize> = [0].into_iter().chain(starts).collect();
    starts.push(line.len());
    (1..starts.len()).filter_map(move |next| {
        let (from, to) = (starts[next - 1], starts[next]);
        Some((
            from,
            line.get(from..to)?.trim_start_matches(['*', '_', '(']).trim(),
        ))
    })
}

/// Whether a sentence ends with this text.
fn ends(text: &str) -> bool {
    text.trim_end_matches([')', '*', '_', '"', '”'])
        .ends_with(['.', '!', '?', ':', ';'])
}

fn collect(path: &Path, found: &mut Vec<(String, Language)>) {
    if path.is_dir() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || FOREIGN.contains(&name.as_ref()) {
            return;
        }
        let entries = fs::read_dir(path).expect("a folder");
        for entry in entries {
            collect(&entry.expect("an entry").path(), found);
        }
    } else if let Some(language) = Language::of(path) {
        let relative = path.strip_prefix(root()).expect("below the root");
        let relative = relative.to_string_lossy().into_owned();
        if !GENERATED.contains(&relative.as_str()) {
            found.push((relative, language));
        }
    }
}

#[test]
fn sentences_begin_with_their_subject() {
    let mut files = Vec::new();
    for place in PLACES {
        collect(&root().join(place), &mut files);
    }
    assert!(files.len() > 900, "only {} files were found", files.len());
    let mut faults = Vec::new();
    for (path, language) in files {
        let text = fs::read_to_string(root().join(&path)).expect("UTF-8");
        for (line, sentence) in faults_in(language, &text) {
            faults.push(format!("{path}:{line}: name the subject: {sentence}"));
        }
    }
    faults.sort();
    fail_on(&faults);
}

#[test]
fn a_sentence_without_a_named_subject_is_found_wherever_it_stands() {
    let lines = |language, text: &str| -> Vec<usize> {
        faults_in(language, text)
            .into_iter()
            .map(|(line, _)| line)
            .collect()
    };
    let rust = "/// What it does.\nfn f() {\n    // It is said. Of\n    // many one stays; Who asks?\n    \
                // It knows\n    // That for certain.\n    let what = \"What now?\";\n\n    \
                #[error(\"it failed: That is bad\")]\n}\n/// ```\n/// What = 1\n/// ```\n/// `a. What` is code.\n/// \"What?\" is quoted.";
    assert_eq!(lines(Language::Rust, rust), [1, 3, 4, 9]);
    let script = "/** Whoever asks. */\n/**\n * It ends.\n * Whatever comes.\n */\nconst a = 'Of b'; // short\n// That\n// b";
    assert_eq!(lines(Language::Script, script), [1, 4, 7]);
    let python =
        "#!/usr/bin/What\ndef f():\n    \"\"\"What it gives.\"\"\"\n    return \"What\"  # a\n# Of these";
    assert_eq!(lines(Language::Python, python), [3, 5]);
    let markdown = "## What goes\nA line\nThat goes on.\n\n- **What stays** stays\n2. Who\n| a | Of b |\n\n```\nWhat\n```\n**a.** What b";
    assert_eq!(lines(Language::Markdown, markdown), [1, 5, 6, 7, 12]);
    assert_eq!(
        lines(Language::Hash, "#: what = 1\n# What = 1\na = \"What\""),
        [2]
    );
}
