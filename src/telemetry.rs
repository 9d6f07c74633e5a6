//! Owns how the program tells what it does: log lines on stderr, as text or JSON, and errors as one line. Prompts, tool payloads, tokens and environment values are never logged.

use std::{
    error::Error,
    io::{self, IsTerminal as _},
};

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The level is no filter.
    #[error("log.level is not a filter")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// Something else already takes the log lines of this process.
    #[error("logging was already set up")]
    AlreadySet(#[source] Box<dyn Error + Send + Sync>),
}

/// Sends the log lines of this process to stderr from now on.
///
/// # Errors
/// A level that is no filter, or a second call.
pub fn init(log: &Log) -> Result<(), TelemetryError> {
    let filter = filter(&log.level).map_err(TelemetryError::Filter)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // It would tell stderr that stderr takes nothing, and panic because that fails.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(TelemetryError::AlreadySet)
}

/// Libraries that write what they carry, prompts and tokens too, into their own trace and debug lines.
const CARRIERS: [&str; 5] = ["tungstenite", "tokio_tungstenite", "hyper", "hyper_util", "sqlx"];

/// What is logged: as the level says, but of the libraries that would log payloads only what is worth a notice.
fn filter(level: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    let capped: Vec<String> = CARRIERS.iter().map(|name| format!("{name}=info")).collect();
    EnvFilter::builder().parse(format!("{level},{}", capped.join(",")))
}

/// An error with all its causes, as one line.
pub fn chain(error: &(dyn Error + '_)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
