//! Owns the AsyncAPI document: the sockets and the event streams. The messages that go over them have the schemas of
//! the OpenAPI document.

mod yaml;

use serde_json::{Map, Value};

use super::openapi::openapi_json;

/// The document without its version and its schemas.
const FRAME: &str = include_str!("openapi/asyncapi.json");
/// The beginning of a reference to a schema.
const SCHEMAS: &str = "#/components/schemas/";
/// The members that come first.
const FIRST: [&str; 7] = [
    "asyncapi",
    "info",
    "defaultContentType",
    "servers",
    "channels",
    "operations",
    "components",
];

/// The document, with every schema that it refers to.
pub fn document() -> Result<Value, serde_json::Error> {
    let openapi: Value = serde_json::from_str(&openapi_json()?)?;
    let mut document: Value = serde_json::from_str(FRAME)?;
    if let Some(version) = document.pointer_mut("/info/version") {
        *version = env!("CARGO_PKG_VERSION").into();
    }
    let mut schemas = Map::new();
    let mut wanted = Vec::new();
    references(&document, &mut wanted);
    while let Some(name) = wanted.pop() {
        let Some(schema) = openapi.pointer(&format!("/components/schemas/{name}")) else {
            continue;
        };
        if !schemas.contains_key(&name) {
            references(schema, &mut wanted);
            schemas.insert(name, schema.clone());
        }
    }
    if let Some(Value::Object(components)) = document.get_mut("components") {
        components.insert("schemas".to_owned(), schemas.into());
    }
    Ok(document)
}

/// The document as it is committed and served.
pub fn asyncapi_yaml() -> Result<String, serde_json::Error> {
    document().map(|document| yaml::text(&document, &FIRST))
}

/// The names of the schemas that a value refers to.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let name = members.get("$ref").and_then(Value::as_str);
            found.extend(
                name.and_then(|name| name.strip_prefix(SCHEMAS))
                    .map(str::to_owned),
            );
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        fn check(document: &Value, value: &Value) {
            match value {
                Value::Object(members) => {
                    if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
                    }
                    members.values().for_each(|member| check(document, member));
                }
                Value::Array(items) => items.iter().for_each(|item| check(document, item)),
                _ => {}
            }
        }
        let document = document().unwrap();
        check(&document, &document);
    }
}
