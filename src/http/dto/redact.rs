//! Owns what of the launch options is shown: everything but values that tend to be secrets.

use serde_json::{Map, Value};

/// What stands in the place of a hidden value.
const HIDDEN: &str = "<hidden>";
/// Members that are hidden: the keys of webhooks' signatures.
const SECRETS: [&str; 1] = ["secret"];
/// Objects whose values are hidden: environments, and headers and credentials of MCP servers.
const SECRET_MAPS: [&str; 3] = ["env", "headers", "oauth"];

/// Members that are addresses: the values in their queries are hidden.
const ADDRESSES: [&str; 1] = ["url"];

/// The stored options with the values of every environment, every header and every query of an address hidden. Names stay.
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
                } else if let (true, Value::String(url)) = (ADDRESSES.contains(&name.as_str()), &mut *member)
                {
                    hide_query(url);
                } else {
                    hide(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn hide_query(url: &mut String) {
    let Some((address, rest)) = url.split_once('?') else {
        return;
    };
    let (query, fragment) = match rest.split_once('#') {
        Some((query, fragment)) => (query, format!("#{fragment}")),
        None => (rest, String::new()),
    };
    let shown = query.split('&').map(|part| match part.split_once('=') {
        Some((name, _)) => format!("{name}={HIDDEN}"),
        None => HIDDEN.to_owned(),
    });
    *url = format!("{address}?{}{fragment}", shown.collect::<Vec<_>>().join("&"));
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

    #[test]
    fn values_in_queries_of_addresses_are_hidden() {
        let json = r#"{"hooks":[{"target":{"type":"webhook","url":"https://x/h?to=s3cret&s3cret&v=s3=cret#top"}}],
            "mcp_servers":{"a":{"url":"http://x/s?key=s3cret"},"b":{"url":"http://x/plain"}},"sdk_mcp_servers":{"c":{"target":{"url":"http://x?s3cret"}}}}"#;
        let shown = options(json);
        let url = &shown["hooks"][0]["target"]["url"];
        assert_eq!(*url, "https://x/h?to=<hidden>&<hidden>&v=<hidden>#top");
        assert_eq!(shown["mcp_servers"]["a"]["url"], "http://x/s?key=<hidden>");
        assert_eq!(shown["mcp_servers"]["b"]["url"], "http://x/plain");
        assert_eq!(
            shown["sdk_mcp_servers"]["c"]["target"]["url"],
            "http://x?<hidden>"
        );
    }
}
