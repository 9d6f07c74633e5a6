//! Owns what of the launch options is shown: everything but values that tend to be secrets.

use serde_json::{Map, Value};

/// The text in the place of a hidden value.
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

/// The first member of options that has the mark of a hidden value, by its path.
pub(super) fn marked(options: &Value) -> Option<String> {
    match options {
        Value::Object(members) => members.iter().find_map(|(name, member)| {
            let is_address = ADDRESSES.contains(&name.as_str());
            match member.as_str() {
                Some(text) => {
                    let is_marked = text == HIDDEN || is_address && text.contains(HIDDEN);
                    is_marked.then(|| name.clone())
                }
                None => marked(member).map(|place| match place.starts_with('[') {
                    true => format!("{name}{place}"),
                    false => format!("{name}.{place}"),
                }),
            }
        }),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            let place = match item {
                Value::String(text) => (text == HIDDEN).then(String::new),
                item => marked(item).map(|place| format!(".{place}")),
            };
            place.map(|place| format!("[{index}]{place}"))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
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
    fn a_mark_is_found_where_a_value_was_hidden() {
        let json = r#"{"env":{"KEY":"s3cret"},"hooks":[{"target":{"type":"webhook","url":"https://x/h?to=s3cret"}}],
            "mcp_servers":{"a":{"url":"http://x/s?key=s3cret"}}}"#;
        let mut shown = options(json);
        for place in ["env.KEY", "hooks[0].target.url", "mcp_servers.a.url"] {
            assert_eq!(marked(&shown).as_deref(), Some(place));
            let (first, _) = place.split_once(['.', '[']).unwrap();
            shown.as_object_mut().unwrap().remove(first);
        }
        assert_eq!(marked(&serde_json::json!({"env": {"K": "is <hidden>"}})), None);
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
