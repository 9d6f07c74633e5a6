//! Owns the operating system: facts about processes, signals as a file descriptor, killing a tree of processes, memory, limits,
//! short helper commands, and becoming another program.
//!
//! Linux has it all. Elsewhere there is no parent-death signal, no sub-reaper and no `/proc`: a stop reaches the process group
//! only, and an identity is checked by pid alone.

mod capture;
mod exec;
mod file_limits;
#[cfg(target_os = "linux")]
mod kill_tree;
#[cfg(target_os = "linux")]
mod linux;
mod memory;
#[cfg(not(target_os = "linux"))]
mod other;

pub(crate) use file_limits::limit_open_files;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;
#[cfg(target_os = "linux")]
pub(crate) use {kill_tree::*, linux::*};

pub use capture::{CaptureError, Captured, capture};
pub use exec::{inherited_children, reap_inherited, replace_this_process};
pub use file_limits::{given_open_files, open_files_limit, raise_open_files, spare_files};
pub use memory::{ProcessMemory, give_back_free_pages, give_back_large_buffers, memory, processes};
