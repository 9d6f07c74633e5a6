//! The committed OpenAPI document and the table of codes.

use std::collections::BTreeSet;

use serde_json::Value;
use trunkline::http::{ApiError, ErrorCode, asyncapi_yaml, openapi_json};

use crate::http::harness::Bed;

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().iter();
            methods
                .filter(|(method, _)| METHODS.contains(&method.as_str()))
                .map(move |(method, operation)| (format!("{method} {path}"), operation))
        })
        .collect()
}

#[tokio::test]
async fn the_committed_documents_are_those_that_are_served() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/trunkline.json");
    let current = openapi_json().unwrap();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(file, &current).unwrap();
    }
    let committed = std::fs::read_to_string(file).unwrap();
    assert!(
        committed == current,
        "openapi/trunkline.json is stale: run this test with UPDATE_OPENAPI=1"
    );
    let bed = Bed::start().await;
    assert_eq!(bed.get("/openapi.json").await.text, current);

    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/asyncapi.yaml");
    let current = asyncapi_yaml().unwrap();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(file, &current).unwrap();
    }
    let committed = std::fs::read_to_string(file).unwrap();
    assert!(
        committed == current,
        "openapi/asyncapi.yaml is stale: run this test with UPDATE_OPENAPI=1"
    );
    assert_eq!(bed.get("/asyncapi.yaml").await.text, current);
}

#[test]
fn every_operation_has_an_id_a_summary_and_problems() {
    let document: Value = serde_json::from_str(&openapi_json().unwrap()).unwrap();
    let operations = operations(&document);
    assert_eq!(operations.len(), 92);
    let mut ids = BTreeSet::new();
    for (name, operation) in operations {
        let id = operation["operationId"].as_str().unwrap();
        assert!(id.contains('_') && ids.insert(id.to_owned()), "{name}: {id}");
        assert!(
            operation["summary"]
                .as_str()
                .is_some_and(|text| text.ends_with('.') || text.ends_with('?')),
            "{name}"
        );
        assert_eq!(operation["tags"].as_array().unwrap().len(), 1, "{name}");
        let responses = &operation["responses"];
        assert_eq!(
            responses["default"]["$ref"], "#/components/responses/Problem",
            "{name}"
        );
        let is_open = [
            "get /asyncapi.yaml",
            "get /docs",
            "get /healthz",
            "get /openapi.json",
        ]
        .contains(&name.as_str());
        assert_eq!(responses.get("401").is_none(), is_open, "{name}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(parameter["description"].is_string(), "{name}: {parameter}");
        }
    }
}

#[test]
fn every_reference_of_the_document_leads_somewhere() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let document: Value = serde_json::from_str(&openapi_json().unwrap()).unwrap();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 20);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn the_protocol_page_lists_every_code() {
    let page = include_str!("../../../docs/protocol/errors.md");
    for code in ErrorCode::ALL {
        let status = ApiError::new(*code).response(None).status();
        let row = format!("| {} | `{}` | {} |", status.as_u16(), code.as_str(), code.title());
        assert!(page.contains(&row), "docs/protocol/errors.md has no row {row}");
    }
}
