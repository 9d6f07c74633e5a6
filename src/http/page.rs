//! Owns the page of the documents, for people. It is written once per build, has no script, and asks for nothing else, so
//! that it works without a network and nothing on it can run. The browser's own search finds what is folded.

mod operations;
mod sockets;
mod words;

use std::fmt::Write as _;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use words::{escape, fold, kind, members, paragraph, prose};

/// How the page looks.
const STYLE: &str = include_str!("page/style.css");

/// The policy of the page: its own style, and nothing else.
pub(super) fn policy() -> String {
    let style = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
}

/// The page of both documents.
pub(super) fn page(openapi: &Value, asyncapi: &Value) -> String {
    let version = escape(openapi["info"]["version"].as_str().unwrap_or_default());
    let about = paragraph(&openapi["info"]);
    let tags = openapi["tags"].as_array().into_iter().flatten();
    let tags: Vec<(&str, &str)> = tags
        .filter_map(|tag| Some((tag["name"].as_str()?, tag["description"].as_str()?)))
        .collect();
    let parts = tags.iter().map(|(name, _)| *name);
    let links: Vec<String> = parts
        .chain(["sockets", "problems", "schemas"])
        .map(|name| format!("<a href=\"#{name}\">{name}</a>"))
        .collect();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>Trunkline {version}: the API</title>\
         <link rel=\"icon\" href=\"data:,\"><style>{STYLE}</style></head>\n<body>\n\
         <header><h1>Trunkline {version}</h1>{about}\
         <p>The documents: <a href=\"openapi.json\">OpenAPI</a>, <a href=\"asyncapi.yaml\">AsyncAPI</a>. \
         The lines of curl take two variables:</p>\
         <pre class=\"curl\" tabindex=\"0\">URL=http://127.0.0.1:7433 TOKEN=$(cat ~/.local/state/trunkline/token)</pre>\
         <nav aria-label=\"Parts\">{}</nav></header>\n<main>\n",
        links.join(" ")
    );
    for (name, about) in tags {
        let operations = operations::of_tag(openapi, name);
        let _ = write!(out, "<h2 id=\"{name}\">{}</h2>\n{operations}", prose(about));
    }
    let about = prose(asyncapi["info"]["description"].as_str().unwrap_or_default());
    let channels = sockets::channels(asyncapi);
    let _ = write!(
        out,
        "<h2 id=\"sockets\">Sockets and event streams</h2>\n<p>{about}</p>\n{channels}"
    );
    let problems = operations::problems(openapi);
    let _ = write!(
        out,
        "<h2 id=\"problems\">Problems</h2>\n<p>Each error is a {} with one of these codes, or a later one.</p>\n{}",
        words::link("Problem"),
        fold("codes", "Codes and their status", &problems)
    );
    let _ = write!(out, "<h2 id=\"schemas\">Schemas</h2>\n{}", schemas(openapi));
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn schemas(document: &Value) -> String {
    let schemas = document["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten();
    schemas
        .map(|(name, schema)| {
            let members = members(schema);
            let is_plain = members.is_empty() || schema["anyOf"].is_array() || schema["allOf"].is_array();
            let kind = if is_plain {
                format!("<p>{}</p>", kind(schema))
            } else {
                String::new()
            };
            let body = format!("{}{kind}{members}", paragraph(schema));
            fold(
                &format!("schema-{}", escape(name)),
                &format!("<code>{}</code>", escape(name)),
                &body,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::http::{asyncapi, openapi::openapi_json};

    #[test]
    fn every_part_of_both_documents_is_on_the_page_and_every_link_leads_there() {
        let openapi: Value = serde_json::from_str(&openapi_json().unwrap()).unwrap();
        let asyncapi = asyncapi::document().unwrap();
        let page = page(&openapi, &asyncapi);
        let after = |mark: &str| -> BTreeSet<&str> {
            let parts = page.split(mark).skip(1);
            parts.map(|part| part.split('"').next().unwrap()).collect()
        };
        let ids = after(" id=\"");
        for id in after(" href=\"#") {
            assert!(ids.contains(id), "{id}");
        }
        let operations = openapi["paths"].as_object().unwrap().values();
        let operations = operations.flat_map(|item| item.as_object().unwrap().values());
        for operation in operations {
            let id = format!("op-{}", operation["operationId"].as_str().unwrap());
            assert!(ids.contains(id.as_str()), "{id}");
        }
        for (name, channel) in asyncapi["channels"].as_object().unwrap() {
            for message in channel["messages"].as_object().unwrap().keys() {
                assert!(
                    ids.contains(format!("message-{name}-{message}").as_str()),
                    "{name} {message}"
                );
            }
        }
        assert!(!page.contains("<script") && !page.contains("http-equiv"));
    }
}
