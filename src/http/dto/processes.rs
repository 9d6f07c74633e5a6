//! Owns the processes of a session and the findings of an examination of the daemon.

use serde::Serialize;

use crate::supervisor::ProcessMemory;

/// The processes of a session.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ProcessList {
    /// The processes, the keeper first; none while the session has no process, and where the system does not tell.
    pub(in crate::http) items: Vec<Process>,
    /// The sum of their shares, in bytes.
    pss_bytes: u64,
}

/// A process and its memory.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Process {
    /// Its id.
    pid: i32,
    /// The process that made it.
    parent_pid: i32,
    /// Its part in the session.
    role: ProcessRole,
    /// The name of its program, cut to 15 bytes.
    name: String,
    /// The memory that it holds, in bytes.
    rss_bytes: u64,
    /// Its share of that, in bytes: what several processes share is divided among them.
    pss_bytes: u64,
}

/// The part of a process in a session.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum ProcessRole {
    /// It keeps the CLI alive while no daemon runs.
    Keeper,
    /// The agent CLI.
    Cli,
    /// Something that the CLI started.
    Child,
}

impl ProcessList {
    pub(in crate::http) fn of(cli: Option<i32>, found: Vec<ProcessMemory>) -> Self {
        let pss_bytes = found.iter().map(|process| process.pss_bytes).sum();
        let items = found.into_iter().enumerate().map(|(place, process)| Process {
            role: match place {
                0 => ProcessRole::Keeper,
                _ if cli == Some(process.pid) => ProcessRole::Cli,
                _ => ProcessRole::Child,
            },
            pid: process.pid,
            parent_pid: process.parent,
            name: process.name,
            rss_bytes: process.rss_bytes,
            pss_bytes: process.pss_bytes,
        });
        Self {
            items: items.collect(),
            pss_bytes,
        }
    }
}

/// The findings of an examination of the daemon.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Examination {
    /// One finding for each thing that was looked at.
    pub(in crate::http) items: Vec<Finding>,
}

/// The finding about one thing.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Finding {
    /// The thing, for people.
    pub name: String,
    /// How good it is.
    pub grade: FindingGrade,
    /// The finding, for people.
    pub found: String,
    /// The advice about it; `null` when it is as it should be.
    pub advice: Option<String>,
}

/// How good a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingGrade {
    /// As it should be.
    Ok,
    /// It works, but a person should know.
    Notice,
    /// It must be fixed.
    Problem,
}
