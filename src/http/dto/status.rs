//! Owns what the probes say.

use serde::Serialize;

use crate::{
    claude::binary::Tested,
    domain::{FailReason, SessionId, Timestamp},
    store::StoreError,
    supervisor,
};

/// The daemon is alive.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Health {
    /// Always `ok`: a daemon that is not would not answer.
    pub(in crate::http) status: &'static str,
}

/// Whether the daemon can work.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Readiness {
    /// Whether sessions can be made and run.
    pub(in crate::http) ready: bool,
    /// The obstacles, for people.
    pub(in crate::http) problems: Vec<String>,
    /// The daemon's version.
    version: &'static str,
    /// The program that runs: another one after an upgrade.
    build: &'static str,
    /// When it started.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Sessions with a process.
    live_sessions: usize,
    /// The processes started in advance, by profile of the configuration.
    warm: Vec<WarmStatus>,
    /// Sessions that are in no list, as their rows of the database are damaged: their ids, by which they can be deleted.
    unreadable_sessions: Vec<String>,
    /// Sessions that have a process and are not in the database, as this one is older than they are, say: they run on. Their ids,
    /// by which they can be deleted.
    #[schema(value_type = Vec<String>)]
    unknown_sessions: Vec<SessionId>,
    /// Whether the database takes writes.
    store_writable: bool,
    /// The agent CLI; `null` when there is none.
    cli: Option<CliStatus>,
}

/// Processes that are started before anybody asks for a session.
#[derive(Serialize, utoipa::ToSchema)]
struct WarmStatus {
    /// The profile's name.
    profile: String,
    /// How many are to wait.
    wanted: usize,
    /// How many do.
    ready: usize,
    /// How many are being started.
    starting: usize,
    /// Why the last one was of no use; `null` once another is ready.
    failure: Option<FailReason>,
}

/// The agent CLI that sessions are run with.
#[derive(Serialize, utoipa::ToSchema)]
struct CliStatus {
    /// Its path.
    path: String,
    /// Its version; `null` when it did not say.
    version: Option<String>,
    /// How it was found, for people.
    how: String,
    /// How its version stands to those that this daemon was tested with; `null` when it cannot be read.
    tested: Option<VersionCheck>,
    /// Whether it is the built-in simulated agent.
    simulated: bool,
}

/// How a version stands to the tested ones.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum VersionCheck {
    /// One of them.
    Tested,
    /// Newer than all of them.
    Newer,
    /// Older than all of them.
    Older,
}

impl From<supervisor::Health> for Readiness {
    fn from(health: supervisor::Health) -> Self {
        let mut problems = Vec::new();
        let cli = health
            .cli
            .map_err(|_| {
                problems.push(
                    "no agent CLI was found; 'trunkline doctor' shows where it was looked for".to_owned(),
                )
            })
            .ok();
        match &health.store {
            Ok(()) => {}
            Err(moved @ StoreError::Moved { .. }) => problems.push(moved.to_string()),
            Err(_) => problems.push("the database cannot be written".to_owned()),
        }
        if let Some(fault) = &health.runtime_dir_fault {
            problems.push(format!("no process can be started: {fault}"));
        }
        Self {
            ready: problems.is_empty(),
            problems,
            version: health.version,
            build: supervisor::build_id(),
            started_at: health.started_at,
            live_sessions: health.live_sessions,
            warm: health
                .warm
                .into_iter()
                .map(|warm| WarmStatus {
                    profile: warm.profile,
                    wanted: warm.wanted,
                    ready: warm.ready,
                    starting: warm.starting,
                    failure: warm.failure,
                })
                .collect(),
            unreadable_sessions: health.unreadable_sessions,
            unknown_sessions: health.unknown_sessions,
            store_writable: health.store.is_ok(),
            cli: cli.map(|cli| CliStatus {
                path: cli.path.display().to_string(),
                version: cli.version,
                how: cli.how,
                tested: cli.tested.map(|tested| match tested {
                    Tested::Tested => VersionCheck::Tested,
                    Tested::Newer => VersionCheck::Newer,
                    Tested::Older => VersionCheck::Older,
                }),
                simulated: cli.simulated,
            }),
        }
    }
}
