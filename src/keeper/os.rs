//! Owns what differs between operating systems: facts about processes, and signals as a file descriptor.
//!
//! Linux has it all. Elsewhere there is no parent-death signal, no sub-reaper and no `/proc`: a stop reaches the process group
//! only, and an identity is checked by pid alone.

#[cfg(target_os = "linux")]
mod hunt;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(not(target_os = "linux"))]
pub(super) use other::*;
#[cfg(target_os = "linux")]
pub(super) use {hunt::*, linux::*};
