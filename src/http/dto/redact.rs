//! Owns what of the launch options is shown: everything but values that tend to be secrets.

use serde_json::{Map, Value};

/// What stands in the place of a hidden value.
const HIDDEN: &str = "<hidden>";
/// Members that are hidden: the keys of webhooks' signatures.
const SECRETS: [&str; 1] = ["secret"];
/// Objects whose values are hidden: environments, and headers and credentials of MCP servers.
const SECRET_MAPS: [&str; 3] = ["env", "headers", "oauth"];

/// The stored options with the values of every environment and every header hidden. Names stay.
pub(super) fn options(json: &str) -> Value {
    let mut options = serde_json::from_str(json).unwrap_or_else(|_| Value::Object(Map::new()));
    hide(&mut options);
    options
}

fn hide(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if SECRET_MAPS.contains(&name.as_str()) || SECRETS.contains(&name.as_str()) {
                    hide_values(member);
                } else {
                    hide(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn hide_values(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(hide_values),
        Value::Null => {}
        other => *other = HIDDEN.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_environments_and_headers_are_hidden_and_names_stay() {
        let json = r#"{"model":"opus","env":{"KEY":"s3cret"},"mcp_servers":{"a":{"command":"x","env":{"T":"s3cret"}},
            "b":{"url":"http://x","headers":{"Authorization":"s3cret"}}},"settings":{"env":{"P":"s3cret"}}}"#;
        let shown = options(json);
        assert!(!shown.to_string().contains("s3cret"), "{shown}");
        assert_eq!(shown["env"]["KEY"], HIDDEN);
        assert_eq!(shown["mcp_servers"]["a"]["command"], "x");
        assert_eq!(shown["model"], "opus");
    }
}
