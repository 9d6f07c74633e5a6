//! Owns the two roles of clients: those that look, and those that act.

use serde::{Deserialize, Serialize};

/// The role of a client. An operator may do all that a viewer may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[schema(as = ClientRole)]
pub enum Role {
    /// Reads, and attaches to sessions without a word.
    Viewer,
    /// Does everything.
    Operator,
}

impl Role {
    /// The role on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }

    /// Whether a client of this role may do what needs the other one.
    pub fn covers(self, needed: Self) -> bool {
        self >= needed
    }
}
