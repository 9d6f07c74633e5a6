//! Owns how launch options are formatted: by the names of what is given, for they hold prompts and secrets, and whatever
//! can be formatted is logged one day.

use std::fmt;

use serde_json::Value;

use super::LaunchOptions;

impl fmt::Debug for LaunchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaunchOptions")?;
        let mut names = f.debug_set();
        if let Ok(Value::Object(given)) = serde_json::to_value(self) {
            names.entries(given.keys());
        }
        names.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_options_hold_no_value() {
        let text = r#"{"model":"s3cret","env":{"TOKEN":"s3cret"},"settings":{"env":{"KEY":"s3cret"}}}"#;
        let options: LaunchOptions = serde_json::from_str(text).unwrap();
        assert_eq!(
            format!("{options:?}"),
            r#"LaunchOptions{"env", "model", "settings"}"#
        );
        let settings = format!("{:?}", options.settings);
        assert!(!settings.contains("s3cret"), "{settings}");
    }
}
