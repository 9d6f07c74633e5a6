//! Owns the keeper: the small process that is the parent of one agent CLI, and the daemon's link to it.
//!
//! It starts, signals and reaps the processes of sessions, with the means of `os`. A keeper outlives its daemon; the next one attaches to it by
//! the identity file. The daemon reads the output of the process from the journal; the link only carries commands, and how far
//! the journal got.
//!
//! The stop ladder: SIGINT to the process group if asked, wait; close stdin if asked, wait; SIGTERM to the group, wait;
//! SIGKILL to the group; kill every descendant; read the pipes until they end or a deadline; write the `run_exited` record; tell
//! the daemon; exit. While stdin is open, answers to what the process asks are written to it, and nothing else.

mod child;
mod foreign_processes;
mod identity;
mod init;
mod ladder;
mod launch;
mod lease;
mod leftovers;
mod link;
mod opener;
mod plan;
mod process;
mod recorder;
mod records;
mod report;
mod run;
mod server;
pub mod socket_dir;
mod stderr;
mod stdin;
mod stdout;
mod wire;

pub use foreign_processes::{Evidence, ForeignProcess, foreign_processes, take_own_name};
pub use identity::Identity;
pub use init::{InitRole, take_init_duties};
pub use launch::{LaunchError, launch};
pub use lease::remove_free_leases;
pub use leftovers::{StartSweep, Swept, is_running, kill_leftovers, kill_lock_holder, kill_strays};
pub use link::{
    AttachError, KeeperEvent, KeeperEvents, Line, Link, LinkGone, LinkHandle, WriteError, attach,
};
pub use opener::Opened;
pub use plan::{
    DATA_MARKER, KeeperLimits, LaunchPlan, RUN_MARKER, SESSION_MARKER, StdinLine, fits_socket_path,
};
pub use process::run_process;
pub use report::{LaunchFailure, LaunchFailureCause};
pub use wire::{KeeperHello, OLDEST as OLDEST_LINK_VERSION, StopRequest, VERSION as LINK_VERSION};
