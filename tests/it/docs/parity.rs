//! Keeps `docs/PARITY.md` whole: a row for every name that is known or was seen, and a test behind every row.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;
use trunkline::claude::{
    catalogue::{Access, CONTROLS, MESSAGES, RESULT_SUBTYPES, STDIN_TYPES, SYSTEM_SUBTYPES, Sender, control},
    controls::UNTYPED,
    environment::{DEFAULT_ALLOW, NEVER, child},
};

use crate::docs::read;

const PAGE: &str = "docs/PARITY.md";
/// The text in the place of tests where there is none.
pub(super) const NOT_SHOWN: &str = "not shown: ";
/// The text before the number of such rows.
const NOT_SHOWN_ROWS: &str = "Rows that are not shown: ";

// The headings of the tables.
const MESSAGE: &str = "Messages of the CLI";
const SYSTEM: &str = "Subtypes of system";
const RESULT: &str = "Subtypes of result";
const TO_CLI: &str = "Control requests to the CLI";
const OF_CLI: &str = "Control requests of the CLI";
const STDIN: &str = "Lines on the CLI's stdin";
const HOOK: &str = "Hook events";
const TOOL: &str = "Tools";
const OPTION: &str = "Launch options";
const MODE: &str = "Permission modes";
const PASSES: &str = "Variables that pass";
const NEVER_PASSES: &str = "Variables that never pass";

/// Every event of a hook that is known.
const HOOK_EVENTS: &str = include_str!("../../fixtures/hook-events.txt");

/// A row of a table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    table: String,
    name: String,
    what: String,
    shown: String,
}

/// The rows of a page.
fn rows(page: &str) -> Vec<Row> {
    let mut table = "";
    let mut found = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            table = heading;
        }
        let cells = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
        let Some(cells) = cells else { continue };
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        let name = cells[0].strip_prefix('`').and_then(|name| name.strip_suffix('`'));
        let Some(name) = name else { continue };
        assert_eq!(cells.len(), 3, "three cells: {line}");
        found.push(Row {
            table: table.to_owned(),
            name: name.to_owned(),
            what: cells[1].to_owned(),
            shown: cells[2].to_owned(),
        });
    }
    found
}

/// The tests that a cell links to: name and file from the root.
pub(super) fn tests(shown: &str) -> Vec<(String, String)> {
    let links = shown.strip_suffix(')');
    links
        .unwrap_or_else(|| panic!("no link to a test: {shown}"))
        .split("), ")
        .map(|link| {
            let parts = link.strip_prefix('[').and_then(|link| link.split_once("](../"));
            let (name, file) = parts.unwrap_or_else(|| panic!("no link to a test: {link}"));
            (name.to_owned(), file.to_owned())
        })
        .collect()
}

/// Is there a function of this name that is run as a test?
pub(super) fn has_test(code: &str, name: &str) -> bool {
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(at, line)| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let is_it = line
            .strip_prefix("fn ")
            .and_then(|line| line.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with('('));
        // An attribute may go over several lines.
        let is_above = |line: &str| !line.is_empty() && !line.ends_with('}') && !line.starts_with("//");
        let attributes = || lines[..at].iter().rev().take_while(|line| is_above(line));
        let is_test = attributes().any(|it| *it == "#[test]" || it.starts_with("#[tokio::test"));
        is_it && is_test && !attributes().any(|it| it.starts_with("#[ignore"))
    })
}

/// The names that the catalogue knows, by table.
fn known() -> BTreeMap<&'static str, BTreeSet<String>> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let controls = |not_by: Sender| {
        let controls = CONTROLS.iter().filter(|control| control.sender != not_by);
        controls.map(|control| control.name.to_owned()).collect()
    };
    let contract: Value = serde_json::from_str(&read("openapi/trunkline.json")).unwrap_or_default();
    let schemas = &contract["components"]["schemas"];
    let options = schemas["LaunchOptions"]["properties"].as_object();
    let modes = schemas["PermissionMode"]["enum"].as_array();
    let tools = seen().into_iter().filter(|(table, _)| *table == TOOL);
    BTreeMap::from([
        (HOOK, owned(&HOOK_EVENTS.lines().collect::<Vec<_>>())),
        (TOOL, tools.map(|(_, name)| name).collect()),
        (
            OPTION,
            options
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone())
                .collect(),
        ),
        (
            MODE,
            modes
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        ),
        (PASSES, owned(DEFAULT_ALLOW)),
        (NEVER_PASSES, owned(NEVER)),
        (MESSAGE, owned(MESSAGES)),
        (SYSTEM, owned(SYSTEM_SUBTYPES)),
        (RESULT, owned(RESULT_SUBTYPES)),
        (TO_CLI, controls(Sender::Cli)),
        (OF_CLI, controls(Sender::Host)),
        (STDIN, owned(STDIN_TYPES)),
    ])
}

/// The lines of a recording.
fn recorded(path: &Path) -> Vec<Value> {
    let name = path.display();
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let parsed = text.lines().map(serde_json::from_str);
    parsed
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The names that the real CLI said and took in the recordings, by table.
fn seen() -> BTreeSet<(&'static str, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recordings");
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("no recordings: {error}"));
    let mut seen = BTreeSet::new();
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("{error}")).path();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(name) = path.to_string_lossy().strip_suffix(".stdin.ndjson") {
            // A recording may ask for what no CLI knows, to see what it says.
            let refused: BTreeSet<String> = recorded(Path::new(&format!("{name}.ndjson")))
                .iter()
                .filter(|line| line["response"]["error_code"] == "unsupported_request")
                .map(|line| text(&line["response"]["request_id"]))
                .collect();
            for line in recorded(&path) {
                if line["type"] == "control_request" && !refused.contains(&text(&line["request_id"])) {
                    seen.insert((TO_CLI, text(&line["request"]["subtype"])));
                }
                seen.insert((STDIN, text(&line["type"])));
            }
            continue;
        }
        for line in recorded(&path) {
            let kind = text(&line["type"]);
            // Tools of MCP servers have the names that their servers give them.
            let tools = line["tools"].as_array().into_iter().flatten().map(text);
            seen.extend(
                tools
                    .filter(|name| !name.starts_with("mcp__"))
                    .map(|name| (TOOL, name)),
            );
            seen.extend(match kind.as_str() {
                "system" => Some((SYSTEM, text(&line["subtype"]))),
                "result" => Some((RESULT, text(&line["subtype"]))),
                "control_request" => Some((OF_CLI, text(&line["request"]["subtype"]))),
                _ => None,
            });
            seen.insert((MESSAGE, kind));
        }
    }
    seen
}

#[test]
fn every_name_has_one_row_and_no_row_names_what_is_unknown() {
    let mut left = known();
    let mut faults = Vec::new();
    for row in rows(&read(PAGE)) {
        let is_known = left
            .get_mut(row.table.as_str())
            .is_some_and(|names| names.remove(&row.name));
        if !is_known {
            faults.push(format!(
                "{}: `{}` is unknown, or has two rows",
                row.table, row.name
            ));
        }
        if row.what.is_empty() {
            faults.push(format!(
                "{}: `{}` does not say what is done with it",
                row.table, row.name
            ));
        }
    }
    for (table, names) in left {
        faults.extend(names.iter().map(|name| format!("{table}: `{name}` has no row")));
    }
    assert!(faults.is_empty(), "{PAGE}\n{}", faults.join("\n"));
}

#[test]
fn what_the_real_cli_was_seen_to_say_has_a_row() {
    let rows: BTreeSet<(String, String)> = rows(&read(PAGE))
        .into_iter()
        .map(|row| (row.table, row.name))
        .collect();
    let seen = seen();
    assert!(seen.len() > 20, "the recordings are read: {seen:?}");
    for (table, name) in seen {
        assert!(
            rows.contains(&(table.to_owned(), name.clone())),
            "{table}: `{name}` was recorded and has no row"
        );
    }
}

#[test]
fn each_listed_variable_passes_or_never_does() {
    let allow: Vec<String> = DEFAULT_ALLOW.iter().map(|name| (*name).to_owned()).collect();
    let passed = |allow: &[String], pattern: &str| {
        let variable = (pattern.replace('*', "X"), "1".to_owned());
        !child(allow, [variable], &[], &BTreeMap::new()).is_empty()
    };
    for pattern in DEFAULT_ALLOW {
        assert!(passed(&allow, pattern), "{pattern}");
    }
    for pattern in NEVER {
        assert!(!passed(&["*".to_owned()], pattern), "{pattern}");
        let session = BTreeMap::from([(pattern.replace('*', "X"), "1".to_owned())]);
        assert!(child(&allow, [], &[], &session).is_empty(), "{pattern}");
    }
}

#[test]
fn every_row_has_a_test_that_is_there_or_says_why_not() {
    let page = read(PAGE);
    let mut not_shown = 0;
    let mut faults = Vec::new();
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for row in rows(&page) {
        if let Some(why) = row.shown.strip_prefix(NOT_SHOWN) {
            not_shown += 1;
            if why.trim().is_empty() {
                faults.push(format!("`{}` is not shown and does not say why", row.name));
            }
            continue;
        }
        for (name, file) in tests(&row.shown) {
            let code = files.entry(file.clone()).or_insert_with(|| read(&file));
            if !has_test(code, &name) {
                faults.push(format!("`{}`: {file} has no test {name}", row.name));
            }
        }
    }
    assert!(faults.is_empty(), "{PAGE}\n{}", faults.join("\n"));
    let said = page
        .lines()
        .find_map(|line| line.strip_prefix(NOT_SHOWN_ROWS)?.strip_suffix('.'));
    let said: usize = said.and_then(|number| number.parse().ok()).unwrap_or_else(|| {
        panic!("{PAGE} does not say `{NOT_SHOWN_ROWS}<number>.`");
    });
    assert_eq!(
        not_shown, said,
        "{PAGE} says another number of rows that are not shown"
    );
}

/// The routes that a text names: method and the part of the path after a session's id.
fn routes(what: &str) -> Vec<(String, String)> {
    let quoted = what.split('`').skip(1).step_by(2);
    let mut method = "";
    let mut found = Vec::new();
    for text in quoted {
        let path = match text.split_once(' ') {
            Some((named, path)) => {
                method = named;
                path
            }
            None => text,
        };
        if let Some(path) = path.strip_prefix('…') {
            found.push((method.to_ascii_lowercase(), path.to_owned()));
        }
    }
    found
}

#[test]
fn what_a_row_says_of_types_refusals_and_routes_is_so() {
    let contract: Value = serde_json::from_str(&read("openapi/trunkline.json")).unwrap();
    let mut faults = Vec::new();
    let mut named = 0;
    for row in rows(&read(PAGE)) {
        for (method, path) in routes(&row.what) {
            named += 1;
            if contract["paths"][format!("/v1/sessions/{{id}}{path}")][&method].is_null() {
                faults.push(format!("`{}`: there is no {method} {path}", row.name));
            }
        }
        if row.table != TO_CLI {
            continue;
        }
        let Some(control) = control(&row.name) else {
            continue;
        };
        let is_refused = control.access != Access::Open;
        // The CLI refuses `remote_control` or not, depending on what it asks for.
        if row.what.starts_with("refused") != is_refused && row.name != "remote_control" {
            faults.push(format!("`{}` is refused, or is not", row.name));
        }
        let is_typed = !is_refused && !UNTYPED.iter().any(|(name, _)| *name == row.name);
        if row.what.contains("relayed, typed") != is_typed {
            faults.push(format!("`{}` has types, or has none", row.name));
        }
    }
    assert!(faults.is_empty(), "{PAGE}\n{}", faults.join("\n"));
    assert!(named > 15, "routes are read: {named}");
}

#[test]
fn a_page_is_read_row_by_row() {
    let page = "\
## One

| name | what | shown by |
| --- | --- | --- |
| `a` | passes | [t](../tests/x.rs), [u](../src/y.rs) |

## Two
| `b` | refused | not shown: no reason |
";
    let rows = rows(page);
    let names: Vec<_> = rows
        .iter()
        .map(|row| (row.table.as_str(), row.name.as_str()))
        .collect();
    assert_eq!(names, [("One", "a"), ("Two", "b")]);
    let both = [("t", "tests/x.rs"), ("u", "src/y.rs")];
    assert_eq!(
        tests(&rows[0].shown),
        both.map(|(name, file)| (name.to_owned(), file.to_owned()))
    );
    assert_eq!(rows[1].shown, "not shown: no reason");
    let named = routes("relayed; `GET …/a`, `…/b` and `PUT …/c/{d}`; a `sdk`");
    let named: Vec<_> = named
        .iter()
        .map(|(method, path)| (method.as_str(), path.as_str()))
        .collect();
    assert_eq!(named, [("get", "/a"), ("get", "/b"), ("put", "/c/{d}")]);
}

#[test]
fn only_what_is_run_is_a_test() {
    let code = "\
#[test]
fn runs() {}
    #[tokio::test(flavor = \"multi_thread\")]
    #[expect(
        dead_code
    )]
    async fn runs_too() {}
fn helper() {}
// fn said() {}
#[test]
#[ignore = \"slow\"]
fn is_passed_over() {}
";
    for (name, expected) in [
        ("runs", true),
        ("runs_too", true),
        ("run", false),
        ("helper", false),
        ("said", false),
        ("absent", false),
        ("is_passed_over", false),
    ] {
        assert_eq!(has_test(code, name), expected, "{name}");
    }
}
