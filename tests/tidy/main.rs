//! Keeps the shape of the program: which module may use which, and where each fence stands.
#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod sentences;
mod source;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use source::{Source, root, sources};

/// The table of who may import whom. `docs/ARCHITECTURE.md` explains why. A module that is not here must be added with
/// a reason.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("json", &[]),
    ("ndjson", &[]),
    ("os", &["domain"]),
    ("files", &[]),
    ("telemetry", &["config"]),
    ("lifecycle", &[]),
    ("service", &[]),
    ("config", &["domain", "telemetry"]),
    ("claude", &["domain", "json"]),
    ("journal", &["domain", "files", "json"]),
    ("keeper", &["domain", "files", "json", "ndjson", "os", "journal"]),
    ("store", &["domain", "files"]),
    ("admission", &["domain"]),
    ("outbound", &["domain", "telemetry"]),
    ("metrics", &["domain", "claude", "journal"]),
    (
        "session",
        &[
            "domain",
            "admission",
            "json",
            "files",
            "claude",
            "journal",
            "keeper",
            "outbound",
            "telemetry",
            "metrics",
        ],
    ),
    (
        "supervisor",
        &[
            "domain",
            "admission",
            "json",
            "files",
            "session",
            "os",
            "keeper",
            "store",
            "journal",
            "claude",
            "outbound",
            "telemetry",
            "metrics",
        ],
    ),
    ("auth", &["domain", "files", "store"]),
    (
        "http",
        &[
            "domain",
            "json",
            "claude",
            "journal",
            "supervisor",
            "session",
            "auth",
            "store",
            "telemetry",
            "metrics",
        ],
    ),
    ("sim", &["claude"]),
    (
        "cli",
        &[
            "domain",
            "json",
            "config",
            "files",
            "telemetry",
            "lifecycle",
            "service",
            "claude",
            "os",
            "keeper",
            "store",
            "supervisor",
            "auth",
            "http",
            "sim",
        ],
    ),
];

/// Words that may stand in the code of these modules only.
const FENCES: &[(&str, &[&str])] = &[
    ("sqlx::", &["store"]),
    ("axum::", &["http"]),
    ("tower::", &["http"]),
    ("tower_http::", &["http"]),
    ("utoipa_axum::", &["http"]),
    ("clap::", &["cli"]),
    ("clap_complete::", &["cli"]),
    ("clap_mangen::", &["cli"]),
    ("crossterm::", &["cli"]),
    ("reedline::", &["cli"]),
    ("qrcode::", &["cli"]),
    ("hyper_util::", &["outbound"]),
    ("rustls::", &["outbound"]),
    ("process::Command", &["keeper", "os"]),
    ("Command::new(", &["keeper", "os"]),
];

/// Modules whose types the API takes or gives as they are: they may say what they look like in the contract.
const SCHEMAS: &[&str] = &["http", "domain", "json", "claude", "journal"];

/// Longer files do more than one thing. Tests at the end of a file do not count.
const LONGEST_FILE: usize = 900;

/// Longer entry points hide something that belongs into the library.
const LONGEST_MAIN: usize = 40;

fn fail_on(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn modules_import_only_what_they_may() {
    let table: BTreeMap<&str, BTreeSet<&str>> = MAY_IMPORT
        .iter()
        .map(|&(module, allowed)| (module, allowed.iter().copied().collect()))
        .collect();
    let mut faults = Vec::new();
    for file in sources("src") {
        let Some(module) = file.module() else { continue };
        let Some(allowed) = table.get(module.as_str()) else {
            faults.push(format!("{}: the module {module} is not in the table", file.path));
            continue;
        };
        for used in file.modules_used() {
            if used != module && !allowed.contains(used.as_str()) {
                faults.push(format!("{}: {module} may not import {used}", file.path));
            }
        }
    }
    fail_on(&faults);
}

#[test]
fn the_table_has_no_circles() {
    let config_and_log = ["config", "telemetry"];
    let mut left: Vec<(&str, Vec<&str>)> = MAY_IMPORT
        .iter()
        .filter(|(module, _)| !config_and_log.contains(module))
        .map(|&(module, allowed)| {
            let allowed = allowed
                .iter()
                .copied()
                .filter(|name| !config_and_log.contains(name));
            (module, allowed.collect())
        })
        .collect();
    while let Some(free) = left.iter().position(|(_, needs)| needs.is_empty()) {
        let (module, _) = left.swap_remove(free);
        for (_, needs) in &mut left {
            needs.retain(|need| *need != module);
        }
    }
    assert!(left.is_empty(), "these import each other: {left:?}");
}

#[test]
fn fences_stand() {
    let mut faults = Vec::new();
    for file in sources("src") {
        let module = file.module().unwrap_or_default();
        for (word, allowed) in FENCES {
            if file.code().contains(word) && !allowed.contains(&module.as_str()) {
                faults.push(format!(
                    "{}: {word} belongs into {}",
                    file.path,
                    allowed.join(", ")
                ));
            }
        }
        let other_than_schemas = file.code().replace("utoipa::ToSchema", "");
        if file.code().contains("utoipa::") && !SCHEMAS.contains(&module.as_str()) {
            faults.push(format!(
                "{}: utoipa belongs into {}",
                file.path,
                SCHEMAS.join(", ")
            ));
        }
        if matches!(module.as_str(), "domain" | "journal") && other_than_schemas.contains("utoipa::") {
            faults.push(format!("{}: only utoipa::ToSchema may be used here", file.path));
        }
    }
    fail_on(&faults);
}

#[test]
fn only_the_composition_root_builds_the_daemon() {
    let faults: Vec<String> = sources("src")
        .into_iter()
        .filter(|file| file.module().as_deref() != Some("http") && file.code().contains("AppState::new("))
        .filter(|file| file.path != "src/cli/serve.rs")
        .map(|file| format!("{} builds an AppState", file.path))
        .collect();
    fail_on(&faults);
}

#[test]
fn files_say_what_they_own_and_do_one_thing() {
    let mut faults = Vec::new();
    for file in sources("src").into_iter().chain(sources("tests")) {
        if !file.text.starts_with("//!") {
            faults.push(format!("{} does not open with //!", file.path));
        }
        let lines = file.lines_without_tests();
        if lines > LONGEST_FILE {
            faults.push(format!(
                "{} has {lines} lines; {LONGEST_FILE} are the most",
                file.path
            ));
        }
        if file.path == "src/main.rs" && lines >= LONGEST_MAIN {
            faults.push(format!("{} has {lines} lines", file.path));
        }
    }
    fail_on(&faults);
}

#[test]
fn tests_wait_for_conditions_and_not_for_time() {
    let faults: Vec<String> = sources("tests")
        .into_iter()
        .filter(|file| !file.path.contains("/support") && !file.path.starts_with("tests/tidy"))
        .flat_map(|file| {
            file.code_without_strings()
                .lines()
                .filter(|line| line.contains("sleep("))
                .map(|line| format!("{}: {}", file.path, line.trim()))
                .collect::<Vec<_>>()
        })
        .collect();
    fail_on(&faults);
}

/// A name says the behaviour. Which fault of `docs/CASES.md` a test shows stands there.
#[test]
fn no_test_is_named_by_an_id() {
    let is_id = |word: &str| {
        let number = word.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
        word.len() - number.len() == 1 && number.parse::<u8>().is_ok()
    };
    let mut names = 0;
    let mut faults = Vec::new();
    for file in sources("src").into_iter().chain(sources("tests")) {
        let mut is_test = false;
        for line in file.text.lines().map(str::trim) {
            if line.starts_with("#[") {
                is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
                continue;
            }
            let line = line.strip_prefix("async ").unwrap_or(line);
            let name = line.strip_prefix("fn ").and_then(|line| line.split('(').next());
            let Some(name) = name.filter(|_| std::mem::take(&mut is_test)) else {
                continue;
            };
            names += 1;
            if name.split('_').next().is_some_and(is_id) {
                faults.push(format!("{}: {name}", file.path));
            }
        }
    }
    assert!(names > 2_000, "only {names} tests were found");
    fail_on(&faults);
}

#[test]
fn the_architecture_names_every_module() {
    let text = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("docs/ARCHITECTURE.md");
    let modules: BTreeSet<String> = sources("src").iter().filter_map(Source::module).collect();
    let faults: Vec<String> = modules
        .into_iter()
        .filter(|module| !text.contains(&format!("`{module}`")))
        .map(|module| format!("docs/ARCHITECTURE.md does not name `{module}`"))
        .collect();
    fail_on(&faults);
}

#[test]
fn only_the_table_names_error_codes() {
    const TABLE: &str = "src/domain/error_code.rs";
    let all = sources("src");
    let table = all.iter().find(|file| file.path == TABLE).expect("the table");
    let names: BTreeSet<&str> = table
        .text
        .lines()
        .filter(|line| {
            line.ends_with(", final, none,") || line.contains(", retry, ") || line.ends_with("effect,")
        })
        .filter_map(|line| line.split('"').nth(1))
        // One word alone may mean much else.
        .filter(|name| name.contains('_'))
        .collect();
    assert!(names.len() > 70, "{names:?}");
    let is_test = |path: &str| path.contains("/tests") || path.ends_with("tests.rs");
    let faults: Vec<String> = all
        .iter()
        .filter(|file| file.path != TABLE && !is_test(&file.path))
        .flat_map(|file| {
            let code = file
                .text
                .split("\n#[cfg(test)]\nmod tests {")
                .next()
                .unwrap_or_default();
            let lines = code.lines().filter(|line| {
                let line = line.trim_start();
                // An attribute takes no constant.
                !line.starts_with("//") && !line.starts_with("#[")
            });
            lines
                .flat_map(|line| line.split('"').skip(1).step_by(2))
                .filter(|text| names.contains(text))
                .map(|name| format!("{}: \"{name}\" is an ErrorCode", file.path))
                .collect::<Vec<_>>()
        })
        .collect();
    fail_on(&faults);
}

#[test]
fn error_texts_leave_out_their_source() {
    let mut faults = Vec::new();
    for file in sources("src") {
        for line in file.text.lines().filter(|line| line.contains("#[error(\"")) {
            if line.contains("{source}") || line.contains("{0}: {1}") {
                faults.push(format!("{}: {}", file.path, line.trim()));
            }
        }
    }
    fail_on(&faults);
}
