//! Owns the tests of a daemon whose CLI misbehaves: each is named by the row of the catalogue of faults that it shows.
#![expect(clippy::unwrap_used, reason = "tests and their helpers fail by panicking")]

mod adoption;
mod approvals;
mod audit;
mod bed;
mod behind;
mod budget;
mod choices;
mod clients;
mod control;
mod credentials;
mod deadlines;
mod decisions;
mod desk;
mod framing;
mod garbage;
mod host_controls;
mod inbox;
mod kinds;
mod later_starts;
mod life;
mod limits;
mod load;
mod metrics;
mod misfits;
mod money;
mod one_process;
mod parity;
mod park;
mod park_end;
mod park_policy;
mod processes;
mod race;
mod restart;
mod resume;
mod rules;
mod silence;
mod start;
#[path = "../support/mod.rs"]
mod support;
mod unkept;
mod warm;
