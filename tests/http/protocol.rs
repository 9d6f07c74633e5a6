//! The examples of `docs/PROTOCOL.md` are what the program takes and gives.

use serde_json::Value;
use trunkline::{
    claude::{LaunchOptions, Policy, stdin::check_client_line},
    domain::RuleSet,
    http::openapi_json,
};

const PAGE: &str = include_str!("../../docs/PROTOCOL.md");

/// The fenced examples with this info string, each with its line number.
fn examples(info: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(bool, usize, String)> = None;
    for (number, line) in PAGE.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(name)) => open = Some((name == info, number + 1, String::new())),
            (Some(_), Some(_)) => {
                if let Some((true, start, text)) = open.take() {
                    found.push((start, text));
                }
            }
            (Some((_, _, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "an example is not closed");
    assert!(!found.is_empty(), "no example of {info}");
    found
}

fn parse(line: usize, text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("docs/PROTOCOL.md:{line}: {error}"))
}

#[test]
fn every_example_is_json() {
    for info in [
        "json",
        "json client",
        "json server",
        "json record",
        "json decision",
        "json rule",
    ] {
        for (line, text) in examples(info) {
            let value = parse(line, &text);
            assert!(value.is_object(), "docs/PROTOCOL.md:{line}");
        }
    }
}

#[test]
fn client_frames_are_lines_that_a_session_takes() {
    for (line, text) in examples("json client") {
        let value = parse(line, &text);
        let kind = value["type"].as_str().unwrap();
        if !kind.starts_with("trunkline.") {
            check_client_line(value.to_string().as_bytes())
                .unwrap_or_else(|error| panic!("docs/PROTOCOL.md:{line}: {error}"));
        }
    }
}

#[test]
fn server_frames_have_the_types_of_the_page_and_records_their_form() {
    for (line, text) in examples("json server") {
        let value = parse(line, &text);
        let kind = value["type"].as_str().unwrap();
        assert!(
            PAGE.contains(&format!("`{kind}`")),
            "docs/PROTOCOL.md:{line}: {kind} is not explained"
        );
    }
    for (line, text) in examples("json record") {
        let value = parse(line, &text);
        let names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        for name in ["seq", "ts", "src", "data"] {
            assert!(names.contains(&name), "docs/PROTOCOL.md:{line}: no {name}");
        }
    }
}

#[test]
fn the_session_example_is_one_that_can_be_made() {
    let (line, text) = examples("json create").remove(0);
    let value = parse(line, &text);
    let options: LaunchOptions = serde_json::from_value(value["options"].clone()).unwrap();
    options.check(&Policy::default()).unwrap();
}

#[test]
fn the_rules_are_ones_that_can_be_used() {
    let rules = examples("json rule");
    let rules = rules.iter().map(|(line, text)| {
        serde_json::from_value(parse(*line, text))
            .unwrap_or_else(|error| panic!("docs/PROTOCOL.md:{line}: {error}"))
    });
    RuleSet::new(rules.collect()).unwrap();
}

#[test]
fn every_path_of_the_api_is_on_the_page() {
    let document: Value = serde_json::from_str(&openapi_json().unwrap()).unwrap();
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(
            PAGE.contains(&format!("`{path}`")),
            "docs/PROTOCOL.md does not name {path}"
        );
    }
}
