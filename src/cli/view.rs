//! Owns how the API's JSON is read for people: what is missing is left out, what is new is ignored.

use serde_json::Value;

use super::words;
use crate::domain::{Clock, Timestamp};

/// The text at a path of keys, or nothing.
pub(super) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or("")
}

/// The number at a path of keys.
pub(super) fn number(value: &Value, path: &[&str]) -> Option<u64> {
    at(value, path).and_then(Value::as_u64)
}

/// The list at a path of keys; an empty one if there is none.
pub(super) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The value at a path of keys.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// An amount of dollars; `?` when it is unknown.
pub(super) fn dollars(value: Option<&Value>) -> String {
    match value.and_then(Value::as_f64) {
        Some(amount) => format!("${amount:.4}"),
        None => "?".into(),
    }
}

/// How long ago an RFC 3339 time was, in its largest unit.
pub(super) fn ago(time: &str) -> String {
    let Ok(time) = time.parse::<Timestamp>() else {
        return String::new();
    };
    let seconds = Clock.now().millis_since(time) / 1000;
    match seconds {
        0..=59 => format!("{seconds} s ago"),
        60..=3_599 => format!("{} min ago", seconds / 60),
        3_600..=86_399 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// The one who decided, in a person's words.
pub(super) fn by(who: &str) -> String {
    match who.split_once(':') {
        None if who == "rest" => "a request".into(),
        None if who == "cli" => "the agent".into(),
        Some(("ws", _)) => "a client".into(),
        Some(("login", name)) => words::escaped(name),
        Some(("rule", name)) => format!("the rule {name}"),
        _ => who.into(),
    }
}

/// A duration in milliseconds for people.
pub(super) fn duration(milliseconds: u64) -> String {
    if milliseconds < 60_000 {
        format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
    } else {
        format!("{} min {} s", milliseconds / 60_000, milliseconds / 1000 % 60)
    }
}

/// A tool's action, in a few words: the one input that says most, else the whole input.
pub(super) fn tool_input(input: &Value) -> String {
    const TELLING: &[&str] = &[
        "command",
        "file_path",
        "notebook_path",
        "path",
        "pattern",
        "url",
        "query",
        "description",
        "prompt",
        "skill",
    ];
    let telling = TELLING.iter().find_map(|&key| {
        input
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    });
    match (telling, input) {
        (Some(text), _) => text.into(),
        (None, Value::Null) => String::new(),
        (None, Value::Object(fields)) if fields.is_empty() => String::new(),
        (None, other) => other.to_string(),
    }
}

/// The text of message content: a string, or the text blocks of a list.
pub(super) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks
            .iter()
            .filter(|block| text(block, &["type"]) == "text")
            .map(|block| text(block, &["text"]))
            .collect::<Vec<_>>()
            .join("\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_left_out() {
        let value = json!({"a": {"b": "c"}, "n": 3, "l": [1]});
        assert_eq!(text(&value, &["a", "b"]), "c");
        assert_eq!(text(&value, &["a", "x"]), "");
        assert_eq!(number(&value, &["n"]), Some(3));
        assert_eq!(list(&value, &["l"]).len(), 1);
        assert!(list(&value, &["a"]).is_empty());
        assert_eq!(dollars(value.get("n")), "$3.0000");
        assert_eq!(dollars(None), "?");
    }

    #[test]
    fn durations_and_tools_for_people() {
        assert_eq!(duration(1_250), "1.2 s");
        assert_eq!(duration(61_000), "1 min 1 s");
        assert_eq!(tool_input(&json!({"description": "list", "command": "ls"})), "ls");
        assert_eq!(tool_input(&json!({"a": 1})), r#"{"a":1}"#);
        assert_eq!(tool_input(&json!({})), "");
        assert_eq!(
            content_text(&json!([{"type": "text", "text": "a"}, {"type": "image"}])),
            "a"
        );
    }
}
