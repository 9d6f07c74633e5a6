//! Owns everything that knows the CLI's protocol.
//!
//! It has launch options and their way into a process, the lines on stdout and stdin, and the search for the
//! executable. It does no IO but the file look-ups of [`binary`].

pub mod activity;
pub mod answer;
pub mod arguments;
pub mod binary;
pub mod catalogue;
pub mod control;
pub mod controls;
pub mod denials;
pub mod envelope;
pub mod environment;
pub mod facts;
pub mod hooks;
pub mod invocation;
pub mod last_line;
pub mod options;
pub mod rate_limit;
#[cfg(test)]
mod recordings;
mod repeated;
pub mod said;
pub mod stdin;
pub mod tasks;
pub mod todos;

pub use answer::BadAnswer;
pub use control::{ControlRequest, ControlResponse};
pub use envelope::{Envelope, scan};
pub use invocation::{Invocation, LaunchFile, Start};
pub use options::{InvalidOption, LaunchOptions, Policy};
pub use repeated::Repeated;
pub use stdin::{BadLine, ClientLine};

/// The version that the simulated agent reports. Sessions with it are shown as simulated.
pub const SIMULATED_VERSION: &str = crate::domain::AgentKind::SIMULATED_VERSION;
