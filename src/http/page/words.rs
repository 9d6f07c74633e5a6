//! Owns how words and schemas of the documents become HTML.

use serde_json::Value;

/// The beginning of a reference to a schema.
const SCHEMAS: &str = "#/components/schemas/";

/// A text in which nothing is HTML.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

/// A description: what stands between backticks is code.
pub(super) fn prose(text: &str) -> String {
    let parts = escape(text);
    let parts = parts.split('`').enumerate();
    parts
        .map(|(place, part)| match place % 2 {
            0 => part.to_owned(),
            _ => format!("<code>{part}</code>"),
        })
        .collect()
}

/// The description of a value, as a paragraph.
pub(super) fn paragraph(value: &Value) -> String {
    let text = value["description"].as_str().unwrap_or_default();
    if text.is_empty() {
        return String::new();
    }
    format!("<p>{}</p>", prose(text))
}

/// JSON as people read it.
pub(super) fn example(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    format!("<pre tabindex=\"0\">{}</pre>", escape(&text))
}

/// A name as an address on this page.
pub(super) fn link(name: &str) -> String {
    let name = escape(name);
    format!("<a href=\"#schema-{name}\">{name}</a>")
}

/// The name of the schema that this one refers to.
pub(super) fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(SCHEMAS)
}

/// The values that a schema allows, in a line.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(name) = referred(schema) {
        return link(name);
    }
    let joined = |key: &str, between: &str| {
        let parts = schema[key].as_array()?;
        let parts: Vec<String> = parts.iter().map(kind).collect();
        Some(parts.join(between))
    };
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values
            .iter()
            .map(|value| format!("<code>{}</code>", escape(&value.to_string())))
            .collect();
        return values.join(", ");
    }
    let union = joined("anyOf", " or ")
        .or_else(|| joined("oneOf", " or "))
        .or_else(|| joined("allOf", " and "));
    if let Some(union) = union {
        return union;
    }
    let names = match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec!["anything"],
    };
    let names = names.into_iter().map(|name| match name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map of {}", kind(&schema["additionalProperties"]))
        }
        name => name.to_owned(),
    });
    let names: Vec<String> = names.collect();
    let format = schema["format"].as_str();
    let format = format.map_or_else(String::new, |format| format!(" ({})", escape(format)));
    format!("{}{format}{}", names.join(" or "), bounds(schema))
}

/// The bounds of a value.
fn bounds(schema: &Value) -> String {
    let words = [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "characters at least"),
        ("maxLength", "characters at most"),
        ("minItems", "items at least"),
        ("maxItems", "items at most"),
        ("pattern", "like"),
        ("default", "by default"),
    ];
    let bounds = words.iter().filter_map(|(key, words)| {
        let bound = schema.get(*key).filter(|bound| !bound.is_null())?;
        let bound = bound.as_str().map_or_else(|| bound.to_string(), str::to_owned);
        Some(format!(", {words} <code>{}</code>", escape(&bound)))
    });
    bounds.collect()
}

/// The members of an object.
pub(super) fn members(schema: &Value) -> String {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let rows = schema["properties"].as_object().into_iter().flatten();
    let rows: String = rows
        .map(|(name, member)| row(name, member, required.contains(&name.as_str())))
        .collect();
    if rows.is_empty() {
        return rows;
    }
    format!("<dl>{rows}</dl>")
}

/// A named value in a list.
pub(super) fn row(name: &str, schema: &Value, is_required: bool) -> String {
    let required = if is_required { " <b>required</b>" } else { "" };
    let words = schema["description"].as_str().unwrap_or_default();
    format!(
        "<dt><code>{}</code> <i>{}</i>{required}</dt><dd>{}</dd>",
        escape(name),
        kind(schema),
        prose(words)
    )
}

/// A part that opens; an address within it opens it too.
pub(super) fn fold(id: &str, summary: &str, body: &str) -> String {
    format!("<details><summary>{summary}</summary><div id=\"{id}\">{body}</div></details>\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_of_a_document_is_html() {
        assert_eq!(
            prose("a `<b>` & \"c\""),
            "a <code>&lt;b&gt;</code> &amp; &quot;c&quot;"
        );
        assert_eq!(
            kind(&json!({"enum": ["<x>"]})),
            "<code>&quot;&lt;x&gt;&quot;</code>"
        );
    }

    #[test]
    fn a_schema_is_told_in_a_line() {
        for (schema, words) in [
            (json!({}), "anything"),
            (
                json!({"type": ["string", "null"], "format": "uuid"}),
                "string or null (uuid)",
            ),
            (
                json!({"type": "array", "items": {"type": "integer", "minimum": 0}}),
                "list of integer, at least <code>0</code>",
            ),
            (
                json!({"oneOf": [{"$ref": "#/components/schemas/Seq"}, {"type": "null"}]}),
                "<a href=\"#schema-Seq\">Seq</a> or null",
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                "map of string",
            ),
            (json!({"type": "object", "additionalProperties": true}), "object"),
        ] {
            assert_eq!(kind(&schema), words);
        }
    }
}
