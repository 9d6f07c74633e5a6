//! Owns how the operations of the OpenAPI document are shown: parameters, body, answers, and a line of curl.

use std::fmt::Write as _;

use serde_json::Value;

use super::words::{escape, example, fold, kind, paragraph, prose, referred, row};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
const JSON: &str = "application/json";

/// The operations with a tag.
pub(super) fn of_tag(document: &Value, tag: &str) -> String {
    let mut out = String::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for method in METHODS {
            let operation = &item[method];
            if operation["tags"][0] == tag {
                out.push_str(&operation_of(document, method, path, operation));
            }
        }
    }
    out
}

fn operation_of(document: &Value, method: &str, path: &str, operation: &Value) -> String {
    let id = operation["operationId"].as_str().unwrap_or_default();
    let summary = operation["summary"].as_str().unwrap_or_default();
    let mut body = paragraph(operation);
    let role = operation["x-role"].as_str();
    let role = role.map_or_else(
        || "No token is needed.".to_owned(),
        |role| format!("Role: <code>{}</code>.", escape(role)),
    );
    let _ = write!(body, "<p>{role} Name: <code>{}</code>.</p>", escape(id));
    let parameters: String = operation["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .map(parameter)
        .collect();
    if !parameters.is_empty() {
        let _ = write!(body, "<h4>Parameters</h4><dl>{parameters}</dl>");
    }
    let request = &operation["requestBody"]["content"][JSON];
    let sample = sample(document, request);
    if !request.is_null() {
        let _ = write!(body, "<h4>Body</h4><p>{}</p>", kind(&request["schema"]));
        if let Some(sample) = sample {
            body.push_str(&example(sample));
        }
    }
    body.push_str("<h4>Answers</h4>");
    body.push_str(&answers(operation));
    body.push_str(&curl(
        method,
        path,
        operation,
        (!request.is_null()).then_some(sample).flatten(),
    ));
    let summary = format!(
        "<b class=\"{method}\">{}</b> <code>{}</code> {}",
        method.to_uppercase(),
        escape(path),
        prose(summary)
    );
    fold(&format!("op-{id}"), &summary, &body)
}

fn parameter(parameter: &Value) -> String {
    let name = parameter["name"].as_str().unwrap_or_default();
    let place = parameter["in"].as_str().unwrap_or_default();
    let mut schema = parameter["schema"].clone();
    let words = parameter["description"].as_str().unwrap_or_default();
    let words = format!("In the {place}. {words}");
    match &mut schema {
        Value::Object(members) => {
            members.insert("description".to_owned(), words.into());
        }
        other => *other = serde_json::json!({ "description": words }),
    }
    row(name, &schema, parameter["required"] == true)
}

/// The example of a body: its own, or that of its schema.
fn sample<'a>(document: &'a Value, media: &'a Value) -> Option<&'a Value> {
    let mut schema = &media["schema"];
    let own = media.get("example");
    own.or_else(|| {
        // A body that may be left out is a schema or null.
        if schema["oneOf"].is_array() {
            schema = schema["oneOf"]
                .as_array()?
                .iter()
                .find(|it| referred(it).is_some())?;
        }
        let name = referred(schema)?;
        let schema = document.pointer(&format!("/components/schemas/{name}"))?;
        schema.get("example").or_else(|| schema["examples"].get(0))
    })
}

fn answers(operation: &Value) -> String {
    let mut out = String::from("<dl>");
    let mut problems = Vec::new();
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        if response["$ref"].is_string() {
            problems.push(format!("<code>{}</code>", escape(status)));
            continue;
        }
        let content = response["content"].as_object().into_iter().flatten();
        let content: Vec<String> = content
            .map(|(media, content)| format!("{}: {}", escape(media), kind(&content["schema"])))
            .collect();
        let words = response["description"].as_str().unwrap_or_default();
        let _ = write!(
            out,
            "<dt><code>{}</code> {}</dt><dd>{}</dd>",
            escape(status),
            prose(words),
            content.join("<br>")
        );
    }
    let _ = write!(
        out,
        "<dt><a href=\"#problems\">A problem</a></dt><dd>{}</dd></dl>",
        problems.join(" ")
    );
    out
}

/// A line for a shell. A socket has none.
fn curl(method: &str, path: &str, operation: &Value, body: Option<&Value>) -> String {
    if operation["responses"]["101"].is_object() {
        return String::new();
    }
    let mut line = "curl".to_owned();
    if operation["responses"]["200"]["content"]["text/event-stream"].is_object() {
        line.push_str(" -N -H 'Accept: text/event-stream'");
    }
    if method != "get" {
        let _ = write!(line, " -X {}", method.to_uppercase());
    }
    if operation["x-role"].is_string() {
        line.push_str(" -H \"Authorization: Bearer $TOKEN\"");
    }
    if let Some(body) = body {
        let body = body.to_string().replace('\'', "'\\''");
        let _ = write!(line, " -H 'Content-Type: application/json' -d '{body}'");
    }
    // A shell variable for each part of the path that the caller fills in.
    let path: String = path
        .split('{')
        .enumerate()
        .map(|(place, part)| match part.split_once('}') {
            Some((name, rest)) if place > 0 => format!("${}{rest}", name.to_uppercase()),
            _ => part.to_owned(),
        })
        .collect();
    let _ = write!(line, " \"$URL{path}\"");
    format!("<pre class=\"curl\" tabindex=\"0\">{}</pre>", escape(&line))
}

/// The table of problems.
pub(super) fn problems(document: &Value) -> String {
    let examples =
        &document["components"]["responses"]["Problem"]["content"]["application/problem+json"]["examples"];
    let rows: String = examples
        .as_object()
        .into_iter()
        .flatten()
        .map(|(code, problem)| {
            let problem = &problem["value"];
            let retryable = if problem["retryable"] == true {
                ", worth another try"
            } else {
                ""
            };
            format!(
                "<dt><code>{}</code> {}{retryable}</dt><dd>{}</dd>",
                escape(code),
                problem["status"],
                prose(problem["title"].as_str().unwrap_or_default())
            )
        })
        .collect();
    format!("<dl>{rows}</dl>")
}
