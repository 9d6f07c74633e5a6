//! Owns the tests of a daemon whose CLI misbehaves. `docs/CASES.md` has the faults that were seen elsewhere, each with its tests.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests and their helpers fail by panicking, and tell figures"
)]

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
mod deferred;
mod desk;
mod failed_wakes;
mod forks;
mod framing;
mod garbage;
mod host_controls;
mod inbox;
mod kinds;
mod large;
mod later;
mod later_starts;
mod life;
mod limits;
mod load;
mod lobby;
mod many;
mod metrics;
mod misfits;
mod money;
mod newest;
mod one_process;
mod options_change;
mod outcomes;
mod parity;
mod park;
mod park_end;
mod park_policy;
mod processes;
mod put_off;
mod race;
mod refusals;
mod restart;
mod resume;
mod rules;
mod shown;
mod silence;
mod slow_link;
mod start;
mod taken;
mod unkept;
mod waiting_prompts;
mod warm;
mod webhooks;
