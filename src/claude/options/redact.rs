//! Owns what of the launch options may be shown: values that may be secret are never given back and never logged.

use std::fmt;

use serde_json::{Map, Value};

use super::{JsonObject, LaunchOptions, Settings};

/// What stands in the place of a value that may be secret.
pub const HIDDEN: &str = "<hidden>";

impl LaunchOptions {
    /// The options as the API gives them back: the values of environment variables (also those of MCP servers and
    /// settings) and of MCP headers are [`HIDDEN`]. Their names stay.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut shown = self.clone();
        for value in shown.env.iter_mut().flat_map(|env| env.values_mut()) {
            HIDDEN.clone_into(value);
        }
        for server in shown
            .mcp_servers
            .iter_mut()
            .flat_map(|servers| servers.values_mut())
        {
            hide(server, &["env", "headers"]);
        }
        if let Some(Settings::Inline(settings)) = &mut shown.settings {
            hide(settings, &["env"]);
        }
        if let Some(settings) = &mut shown.managed_settings {
            hide(settings, &["env"]);
        }
        shown
    }

    /// The names of the options that are given.
    pub fn given(&self) -> Vec<String> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).collect(),
            _ => Vec::new(),
        }
    }
}

/// Names alone: options hold prompts and secrets, and whatever can be formatted is logged one day.
impl fmt::Debug for LaunchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaunchOptions")?;
        f.debug_set().entries(self.given()).finish()
    }
}

/// Hides every value inside the named members, however deep. An object without them keeps its bytes.
fn hide(object: &mut JsonObject, members: &[&str]) {
    if members.iter().all(|name| object.member(name).is_none()) {
        return;
    }
    let mut fields: Map<String, Value> = serde_json::from_str(object.get()).unwrap_or_default();
    for name in members {
        if let Some(value) = fields.get_mut(*name) {
            hide_values(value);
        }
    }
    if let Ok(raw) = serde_json::value::to_raw_value(&fields)
        && let Ok(hidden) = serde_json::from_str(raw.get())
    {
        *object = hidden;
    }
}

fn hide_values(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(hide_values),
        Value::Array(items) => items.iter_mut().for_each(hide_values),
        _ => *value = HIDDEN.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_neither_shown_nor_logged() {
        let text = r#"{
            "model": "sonnet",
            "env": {"TOKEN": "s3cret"},
            "mcp_servers": {
                "a": {"command": "c", "env": {"KEY": "s3cret"}},
                "b": {"type": "http", "url": "https://x", "headers": {"Authorization": "s3cret"}},
                "c": {"command": "plain", "z": 1.0}
            },
            "settings": {"env": {"KEY": "s3cret"}, "model": "haiku"},
            "managed_settings": {"env": ["s3cret"]}
        }"#;
        let options: LaunchOptions = serde_json::from_str(text).unwrap();
        let shown = serde_json::to_string(&options.redacted()).unwrap();
        assert!(!shown.contains("s3cret"), "{shown}");
        for kept in [
            "TOKEN",
            "KEY",
            "Authorization",
            "haiku",
            r#"{"command": "plain", "z": 1.0}"#,
        ] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
        let logged = format!("{options:?}");
        assert!(
            !logged.contains("s3cret") && logged.contains("mcp_servers"),
            "{logged}"
        );
    }

    #[test]
    fn an_object_that_cannot_be_read_shows_nothing() {
        let text = r#"{"mcp_servers": {"a": {"command": "c", "env": {"K": "\ud800 s3cret"}}}}"#;
        let options: LaunchOptions = serde_json::from_str(text).unwrap();
        let shown = serde_json::to_string(&options.redacted()).unwrap();
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
