//! Owns the supervisor's settings and the places that follow from them.

use std::{
    collections::BTreeMap,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    admission::Limits,
    claude::Policy,
    domain::{CliSessionId, Liveness, RestartPolicy, RuleSet, SessionId},
    keeper::{self, KeeperLimits},
    session::DeskTimes,
};

use super::{JournalSettings, SupervisorError, WarmSettings};

/// Where a keeper says how to reach it, in the folder of its session.
pub(super) const IDENTITY_FILE: &str = "keeper.json";

/// The program to start when no CLI is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Simulator {
    /// Nothing: sessions can't be made then.
    Never,
    /// This program with these first arguments.
    WhenNoCli(PathBuf, Vec<String>),
}

/// When sessions are parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkSettings {
    /// How long nothing is asked of a session before it is parked; 0 = for ever.
    pub idle_ms: u64,
    /// How long at least, before its process goes to make room or to save memory.
    pub grace_ms: u64,
    /// Whether a process goes when another session needs its place.
    pub make_room: bool,
    /// The memory that the processes of all sessions may take; 0 = any.
    pub memory_budget_bytes: u64,
    /// Between two looks at it.
    pub measure_ms: u64,
}

/// Settings of the supervisor. Paths are absolute.
#[derive(Clone, Debug)]
pub struct SupervisorSettings {
    /// Holds `sessions/`, `leases/` and `warm/`.
    pub data_dir: PathBuf,
    /// Holds the keepers' sockets; its path is short.
    pub runtime_dir: PathBuf,
    /// The program that is started as keeper.
    pub keeper_program: PathBuf,
    /// The CLI, when the configuration names one.
    pub claude_bin: Option<PathBuf>,
    /// Other programs of the CLI, by the names that sessions ask for.
    pub executables: BTreeMap<String, PathBuf>,
    /// The program to start when no CLI is found.
    pub simulator: Simulator,
    /// Names (or prefixes with `*`) of the daemon's variables that the CLI gets.
    pub env_allow: Vec<String>,
    /// Variables that every CLI gets.
    pub env_fixed: BTreeMap<String, String>,
    /// The daemon's environment, as it was started with.
    pub daemon_env: Vec<(String, String)>,
    /// Directories below which sessions may work; anywhere when empty.
    pub cwd_roots: Vec<PathBuf>,
    /// The limits of launch options.
    pub policy: Policy,
    /// The rules of the configuration.
    pub rules: Arc<RuleSet>,
    /// The longest prompt.
    pub max_prompt_bytes: usize,
    /// How long `initialize` may take.
    pub start_timeout_ms: u64,
    /// How long is waited for clients that answer the CLI.
    pub desk: DeskTimes,
    /// When processes that died are started again.
    pub restart: RestartPolicy,
    /// When silence is too long.
    pub liveness: Liveness,
    /// When sessions are parked.
    pub park: ParkSettings,
    /// How many processes there may be.
    pub limits: Limits,
    /// The processes to start in advance.
    pub warm: WarmSettings,
    /// Sizes and times of keepers.
    pub keeper: KeeperLimits,
    /// How long journals are kept, and how large.
    pub journal: JournalSettings,
    /// Newest records of each session kept in memory for live clients.
    pub ring_bytes: usize,
}

impl SupervisorSettings {
    /// The folder of a session: its journal and what belongs to it.
    pub fn session_dir(&self, id: SessionId) -> PathBuf {
        sessions(&self.data_dir).join(id.to_string())
    }

    pub(super) fn launch_dir(&self, id: SessionId) -> PathBuf {
        self.session_dir(id).join("launch")
    }

    /// Holds what a start needs that waits for its turn.
    pub(super) fn queued_file(&self, id: SessionId) -> PathBuf {
        self.session_dir(id).join("queued.json")
    }

    pub(super) fn identity_file(&self, id: SessionId) -> PathBuf {
        self.session_dir(id).join(IDENTITY_FILE)
    }

    pub(super) fn lease_file(&self, id: CliSessionId) -> PathBuf {
        self.data_dir.join("leases").join(id.to_string())
    }

    /// Says that the session of this id is one that nobody has asked for yet.
    pub(super) fn warm_file(&self, id: SessionId) -> PathBuf {
        warm(&self.data_dir, id)
    }

    /// Where the keeper of a session listens. Daemons on other data directories have theirs in the same folder, and on a copy of
    /// ours there is a session of the same id: the name is made of both.
    pub(super) fn socket(&self, data_mark: &str, id: SessionId) -> PathBuf {
        let name = uuid::Uuid::new_v5(id.as_uuid(), data_mark.as_bytes());
        self.runtime_dir.join(format!("{}.sock", name.simple()))
    }

    /// From the first rung of the stop ladder to the last, with room for what lies between.
    pub(super) fn stop_deadline(&self) -> std::time::Duration {
        const ROOM_MS: u64 = 15_000;
        let keeper = &self.keeper;
        std::time::Duration::from_millis(
            keeper.eof_grace_ms + keeper.term_grace_ms + keeper.drain_ms + ROOM_MS,
        )
    }

    pub(super) fn make_folders(&self) -> Result<(), SupervisorError> {
        for dir in [
            self.data_dir.join("sessions"),
            self.data_dir.join("leases"),
            self.data_dir.join("warm"),
        ] {
            make_private_dir(&dir).map_err(SupervisorError::files(&dir))?;
        }
        self.prepare_runtime_dir()
    }

    /// Makes the folder of the sockets again if somebody removed it, as a system does at the end of a login.
    pub(super) fn prepare_runtime_dir(&self) -> Result<(), SupervisorError> {
        keeper::socket_dir::prepare(&self.runtime_dir).map_err(SupervisorError::files(&self.runtime_dir))
    }
}

/// The database of a data directory.
pub fn database_file(data_dir: &Path) -> PathBuf {
    data_dir.join("trunkline.db")
}

/// The folder of the sessions' folders.
pub(super) fn sessions(data_dir: &Path) -> PathBuf {
    data_dir.join("sessions")
}

/// The file that says of a session that nobody has asked for it yet.
pub(super) fn warm(data_dir: &Path, id: SessionId) -> PathBuf {
    data_dir.join("warm").join(id.to_string())
}

/// Makes a folder that only its owner can enter.
pub(super) fn make_private_dir(dir: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
}
