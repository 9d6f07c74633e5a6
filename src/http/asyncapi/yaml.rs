//! Owns how a JSON value is written as YAML: blocks, with what is short in one line. Every string is quoted as JSON has it,
//! which YAML takes.

use serde_json::{Map, Value};

/// A list or an object of so many bytes stands in one line.
const SHORT: usize = 100;

/// The value as a document, with these members of it first.
pub(super) fn text(value: &Value, first: &[&str]) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) => {
            let rest = members
                .keys()
                .map(String::as_str)
                .filter(|name| !first.contains(name));
            for name in first.iter().copied().chain(rest) {
                if let Some(value) = members.get(name) {
                    member(name, value, 0, &mut out);
                }
            }
        }
        other => out = format!("{other}\n"),
    }
    out
}

fn member(name: &str, value: &Value, depth: usize, out: &mut String) {
    indent(depth, out);
    out.push_str(&key(name));
    out.push(':');
    after(value, depth + 1, out);
}

/// The text that stands after a key or a dash.
fn after(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(members) if !is_short(value) => {
            out.push('\n');
            for (name, value) in members {
                member(name, value, depth, out);
            }
        }
        Value::Array(items) if !is_short(value) => {
            out.push('\n');
            for item in items {
                indent(depth, out);
                out.push('-');
                after(item, depth + 1, out);
            }
        }
        other => {
            out.push(' ');
            flow(other, out);
            out.push('\n');
        }
    }
}

fn is_short(value: &Value) -> bool {
    let is_empty = match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    is_empty || value.to_string().len() <= SHORT
}

/// A value in one line.
fn flow(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => flow_object(members, out),
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { ", " });
                flow(item, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn flow_object(members: &Map<String, Value>, out: &mut String) {
    out.push('{');
    for (place, (name, value)) in members.iter().enumerate() {
        out.push_str(if place == 0 { "" } else { ", " });
        out.push_str(&key(name));
        out.push_str(": ");
        flow(value, out);
    }
    out.push('}');
}

/// A name is quoted unless nobody can take it for anything else.
fn key(name: &str) -> String {
    let is_plain = name.len() > 3
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && !["true", "false", "null"].contains(&name.to_ascii_lowercase().as_str());
    if is_plain {
        name.to_owned()
    } else {
        Value::from(name).to_string()
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_indented_and_short_ones_stand_in_a_line() {
        let long = "x".repeat(SHORT);
        let value = json!({
            "later": {"no": null, "list": [1, {"deep": [long]}], "empty": {}},
            "first": "say \"yes\": #1\n",
        });
        let expected = format!(
            "first: \"say \\\"yes\\\": #1\\n\"\nlater:\n  empty: {{}}\n  list:\n    - 1\n    -\n      deep:\n        - \
             \"{long}\"\n  \"no\": null\n"
        );
        assert_eq!(text(&value, &["first", "absent"]), expected);
    }
}
