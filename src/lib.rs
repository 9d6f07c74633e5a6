//! Trunkline: one local daemon for all of a person's agent CLI sessions.
//!
//! `docs/ARCHITECTURE.md` is the map of the modules.

pub mod domain;
pub mod store;
