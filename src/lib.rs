//! Trunkline: one local daemon for all of a person's agent CLI sessions.
//!
//! `docs/ARCHITECTURE.md` is the map of the modules, and `docs/INVARIANTS.md` lists what they keep.

pub mod admission;
pub mod auth;
pub mod claude;
pub mod cli;
pub mod config;
pub mod domain;
pub mod files;
pub mod http;
pub mod journal;
pub mod json;
pub mod keeper;
pub mod lifecycle;
pub mod metrics;
pub mod ndjson;
pub mod os;
pub mod outbound;
pub mod service;
pub mod session;
pub mod sim;
pub mod store;
pub mod supervisor;
pub mod telemetry;
