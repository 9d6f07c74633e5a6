//! Owns which kind of agent runs a session.

use serde::{Deserialize, Serialize};

/// The kind of agent behind a session. A session keeps the kind of its first run: one kind does not know the conversations of
/// the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    /// The CLI.
    Real,
    /// The simulated agent, which calls no model and costs nothing.
    Simulated,
}

impl AgentKind {
    /// The version that the simulated agent reports.
    pub const SIMULATED_VERSION: &'static str = "0.0.0-sim";

    /// The kind of an agent that reports this version.
    pub fn of_version(version: &str) -> Self {
        match version {
            Self::SIMULATED_VERSION => Self::Simulated,
            _ => Self::Real,
        }
    }

    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Simulated => "simulated",
        }
    }
}
