//! Owns `[log]`.

use serde::{Deserialize, Serialize};

use super::Problem;

/// The level and form of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// A level (`error`, `warn`, `info`, `debug`, `trace`), or directives such as `info,trunkline::keeper=debug`.
    pub level: String,
    /// The form of the lines.
    pub format: LogFormat,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: "info".into(),
            format: LogFormat::Text,
        }
    }
}

impl Log {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        let is_read = tracing_subscriber::EnvFilter::builder()
            .parse(&self.level)
            .is_ok();
        if !is_read || !self.level.split(',').all(is_directive) {
            let text = format!(
                "{:?} is not error, warn, info, debug, trace or off, nor directives such as info,trunkline::keeper=debug",
                self.level
            );
            problems.push(Problem::new("log.level", text));
        }
    }
}

/// A word alone is a level, or names a part of the program: another one would silently log nothing.
fn is_directive(text: &str) -> bool {
    let text = text.trim();
    text.contains('=')
        || text.contains('[')
        || text.starts_with("trunkline")
        || text.parse::<tracing_subscriber::filter::LevelFilter>().is_ok()
}
