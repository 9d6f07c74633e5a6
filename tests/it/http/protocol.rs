//! The examples of `docs/protocol` are what the program takes and gives.

use serde_json::{Value, json};
use trunkline::{
    claude::{LaunchOptions, Policy, stdin::check_client_line},
    domain::RuleSet,
    http::openapi_json,
};

use crate::support::pages::protocol;

/// The fenced examples with this info string, each with its page and line.
fn examples(info: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (page, text) in protocol() {
        let of_page = examples_of(&text, info);
        found.extend(
            of_page
                .into_iter()
                .map(|(line, text)| (format!("{page}:{line}"), text)),
        );
    }
    assert!(!found.is_empty(), "no example of {info}");
    found
}

/// Those of one page, each with its line number.
fn examples_of(page: &str, info: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(bool, usize, String)> = None;
    for (number, line) in page.lines().enumerate() {
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
    found
}

fn parse(place: &str, text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{place}: {error}"))
}

#[test]
fn every_example_is_json() {
    for info in [
        "json",
        "json client",
        "json many",
        "json server",
        "json record",
        "json decision",
        "json rule",
    ] {
        for (place, text) in examples(info) {
            let value = parse(&place, &text);
            assert!(value.is_object(), "{place}");
        }
    }
}

#[test]
fn client_frames_are_lines_that_a_session_takes() {
    for (place, text) in examples("json client") {
        let value = parse(&place, &text);
        let kind = value["type"].as_str().unwrap();
        if !kind.starts_with("trunkline.") {
            check_client_line(value.to_string().as_bytes())
                .unwrap_or_else(|error| panic!("{place}: {error}"));
        }
    }
}

#[test]
fn server_frames_have_the_types_of_the_page_and_records_their_form() {
    for (place, text) in examples("json server") {
        let value = parse(&place, &text);
        let kind = value["type"].as_str().unwrap();
        assert!(is_named(kind), "{place}: {kind} is not explained");
    }
    for (place, text) in examples("json record") {
        let value = parse(&place, &text);
        let names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        for name in ["seq", "ts", "src", "data"] {
            assert!(names.contains(&name), "{place}: no {name}");
        }
    }
}

#[test]
fn the_session_examples_are_ones_that_can_be_made() {
    for (place, text) in examples("json create") {
        let value = parse(&place, &text);
        let options = value.get("options").cloned().unwrap_or_else(|| json!({}));
        let options: LaunchOptions =
            serde_json::from_value(options).unwrap_or_else(|error| panic!("{place}: {error}"));
        options
            .check(&Policy::default())
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        if let Some(rules) = value.get("rules") {
            RuleSet::new(serde_json::from_value(rules.clone()).unwrap()).unwrap();
        }
    }
}

/// Whether a page says this name in code type.
fn is_named(name: &str) -> bool {
    let name = format!("`{name}`");
    protocol().iter().any(|(_, page)| page.contains(&name))
}

/// The rows of the table of short routes: method, path below a session, body.
fn short_routes() -> Vec<(String, String, Option<Value>)> {
    let pages = protocol();
    let rows = pages
        .iter()
        .flat_map(|(_, page)| page.lines())
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let ["", route, body, _, ""] = cells.as_slice() else {
                return None;
            };
            let (method, path) = route.strip_suffix('`')?.split_once(" `/")?;
            let body = body.strip_prefix('`').map(|body| {
                let body = body.split('`').next().unwrap();
                serde_json::from_str(body).unwrap_or_else(|error| panic!("{route}: {body}: {error}"))
            });
            Some((method.to_lowercase(), format!("/v1/sessions/{{id}}/{path}"), body))
        });
    rows.collect()
}

#[test]
fn the_bodies_of_the_short_routes_are_those_of_the_contract() {
    let document: Value = serde_json::from_str(&openapi_json().unwrap()).unwrap();
    let rows = short_routes();
    assert_eq!(rows.len(), 15, "{rows:?}");
    for (method, path, body) in rows {
        let operation = &document["paths"][&path][&method];
        assert!(operation.is_object(), "there is no {method} {path}");
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let name = schema["$ref"].as_str().or(schema["oneOf"][0]["$ref"].as_str());
        let Some(name) = name.and_then(|name| name.strip_prefix("#/components/schemas/")) else {
            assert_eq!(body, None, "{method} {path} takes no body");
            continue;
        };
        let schema = &document["components"]["schemas"][name];
        let body = body.unwrap_or_else(|| panic!("{method} {path} takes a body"));
        let fields = body.as_object().unwrap();
        for field in fields.keys() {
            assert!(
                schema["properties"].get(field).is_some(),
                "{method} {path}: {field}"
            );
        }
        for required in schema["required"].as_array().into_iter().flatten() {
            let required = required.as_str().unwrap();
            assert!(fields.contains_key(required), "{method} {path}: no {required}");
        }
    }
}

#[test]
fn the_rules_are_ones_that_can_be_used() {
    let rules = examples("json rule");
    let rules = rules.iter().map(|(place, text)| {
        serde_json::from_value(parse(place, text)).unwrap_or_else(|error| panic!("{place}: {error}"))
    });
    RuleSet::new(rules.collect()).unwrap();
}

#[test]
fn every_path_of_the_api_is_on_a_page() {
    let document: Value = serde_json::from_str(&openapi_json().unwrap()).unwrap();
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(is_named(path), "no page of docs/protocol names {path}");
    }
}
