//! Owns `[log]`.

use serde::{Deserialize, Serialize};

use super::Problem;

/// What is logged, and how.
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
        if let Err(error) = tracing_subscriber::EnvFilter::builder().parse(&self.level) {
            problems.push(Problem::new("log.level", error.to_string()));
        }
    }
}
