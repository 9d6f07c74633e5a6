//! Owns how the program tells what it does: log lines on stderr, as text or JSON, and errors as one line. Prompts, tool payloads, tokens and environment values are never logged.

mod queue;

use std::{
    error::Error,
    io::{self, IsTerminal as _},
};

use tracing_subscriber::EnvFilter;

pub use queue::dropped_lines;

use self::queue::Queue;
use crate::config::{Log, LogFormat};

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The level is no filter.
    #[error("log.level is not a filter")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// The thread that writes could not be started.
    #[error("the thread for the log could not be started")]
    Thread(#[source] io::Error),
    /// Something else already takes the log lines of this process.
    #[error("logging was already set up")]
    AlreadySet(#[source] Box<dyn Error + Send + Sync>),
}

/// The log of this process. Dropping it waits for the lines that wait, though not for long.
#[derive(Debug)]
#[must_use]
pub struct LogGuard(Queue);

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// Sends the log lines of this process to stderr from now on. Nobody who logs waits for stderr.
///
/// # Errors
/// A level that is no filter, or a second call.
pub fn init(log: &Log) -> Result<LogGuard, TelemetryError> {
    let filter = filter(&log.level).map_err(TelemetryError::Filter)?;
    let queue = Queue::start().map_err(TelemetryError::Thread)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(queue.clone())
        // It would tell stderr that stderr takes nothing, and panic because that fails.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(TelemetryError::AlreadySet)?;
    // The hook of the standard library writes to stderr, and what a panic says may hold what is never logged.
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        tracing::error!(location, "a panic");
    }));
    Ok(LogGuard(queue))
}

/// Libraries that write what they carry, prompts and tokens too, into their own trace and debug lines.
const CARRIERS: [&str; 5] = ["tungstenite", "tokio_tungstenite", "hyper", "hyper_util", "sqlx"];

/// The filter of a level; of libraries that would log payloads it passes only notices and worse.
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
