//! Owns which agent is started: the look-up of the CLI, its version, and the simulated agent where there is no CLI.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{
    claude::binary::{self, Tested, Version},
    domain::AgentKind,
    os::capture,
};

use super::{Simulator, SupervisorError, SupervisorSettings};

/// How long `--version` may take.
const VERSION_DEADLINE: Duration = Duration::from_secs(10);

/// The program that sessions start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliFound {
    /// The executable.
    pub path: PathBuf,
    /// Arguments before all others.
    pub first_args: Vec<String>,
    /// How it was found, for people.
    pub how: String,
    /// Its version, as it states it itself.
    pub version: Option<String>,
    /// Whether that version was tested with this program; `None` for a version that can't be read.
    pub tested: Option<Tested>,
    /// Whether it is the simulated agent, which calls no model.
    pub simulated: bool,
}

/// There is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliMissing {
    /// Where it was looked for.
    pub searched: Vec<PathBuf>,
}

/// Finds the CLI, and looks again when it is gone or was replaced.
#[derive(Debug, Default)]
pub(super) struct CliSource {
    /// The one that was found last. A daemon that has found one never falls back to the simulated agent.
    found: Mutex<Option<(CliFound, FileStamp)>>,
    /// The programs of the configuration that were found, by their names.
    named: Mutex<BTreeMap<String, (CliFound, FileStamp)>>,
    /// Held while it is looked for: many starts at once ask one process for its version, not one each.
    looking: tokio::sync::Mutex<()>,
}

/// Tells whether a file was replaced: its size and time of change.
pub(super) type FileStamp = Option<(u64, std::time::SystemTime)>;

pub(super) fn stamp(path: &std::path::Path) -> FileStamp {
    let file = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((file.len(), file.modified().ok()?))
}

impl CliSource {
    /// The program for a session of this kind, or for a new session; with `executable` the one that the configuration calls so.
    pub(super) async fn look(
        &self,
        settings: &SupervisorSettings,
        kind: Option<AgentKind>,
        executable: Option<&str>,
    ) -> Result<CliFound, CliMissing> {
        if kind == Some(AgentKind::Simulated) {
            return simulated(settings).ok_or(CliMissing { searched: Vec::new() });
        }
        if let Some(name) = executable {
            return self.look_for_named(settings, name).await;
        }
        let missing = match self.look_for_cli(settings).await {
            Ok(found) => return Ok(found),
            Err(missing) => missing,
        };
        match simulated(settings) {
            Some(simulated) if kind.is_none() && self.falls_back(settings) => Ok(simulated),
            _ => Err(missing),
        }
    }

    /// The CLI, looked up again if the known one is gone or was replaced.
    async fn look_for_cli(&self, settings: &SupervisorSettings) -> Result<CliFound, CliMissing> {
        if let Some(found) = self.unchanged() {
            return Ok(found);
        }
        let _looking = self.looking.lock().await;
        if let Some(found) = self.unchanged() {
            return Ok(found);
        }
        let found = find(settings, settings.claude_bin.as_deref()).await?;
        let known = (found.clone(), stamp(&found.path));
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(found)
    }

    /// The program that the configuration calls so, looked at again if it was replaced.
    async fn look_for_named(
        &self,
        settings: &SupervisorSettings,
        name: &str,
    ) -> Result<CliFound, CliMissing> {
        let Some(path) = settings.executables.get(name) else {
            return Err(CliMissing { searched: Vec::new() });
        };
        let known = || {
            let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
            named.get(name).cloned().and_then(unchanged)
        };
        if let Some(found) = known() {
            return Ok(found);
        }
        let _looking = self.looking.lock().await;
        if let Some(found) = known() {
            return Ok(found);
        }
        let found = find(settings, Some(path)).await?;
        let stamp = stamp(&found.path);
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.insert(name.to_owned(), (found.clone(), stamp));
        Ok(found)
    }

    /// Whether a new session is simulated while no CLI is found. A CLI that was named, or was there a moment ago, must not be
    /// replaced behind the back of who has it.
    pub(super) fn falls_back(&self, settings: &SupervisorSettings) -> bool {
        settings.claude_bin.is_none() && self.known().is_none() && simulated(settings).is_some()
    }

    /// The known one, if it is there as it was.
    fn unchanged(&self) -> Option<CliFound> {
        unchanged(self.known()?)
    }

    fn known(&self) -> Option<(CliFound, FileStamp)> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A program that was found, if it is there as it was.
fn unchanged((found, then): (CliFound, FileStamp)) -> Option<CliFound> {
    let is_same = then.is_some() && stamp(&found.path) == then;
    is_same.then_some(found)
}

async fn find(settings: &SupervisorSettings, bin: Option<&std::path::Path>) -> Result<CliFound, CliMissing> {
    let variable = |name: &str| -> Option<OsString> {
        let found = settings.daemon_env.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| OsString::from(value))
    };
    match binary::find(bin, &variable) {
        Ok(found) => {
            let version = ask_version(&found.path, settings).await;
            let parsed = version.as_deref().and_then(binary::parse_version);
            Ok(CliFound {
                how: found.how.to_string(),
                path: found.path,
                first_args: Vec::new(),
                version: parsed.map(|version| version.to_string()).or(version),
                tested: parsed.map(Version::tested),
                simulated: false,
            })
        }
        Err(missing) => Err(CliMissing {
            searched: missing.searched,
        }),
    }
}

/// The simulated agent, if this program has one.
fn simulated(settings: &SupervisorSettings) -> Option<CliFound> {
    let Simulator::WhenNoCli(path, first_args) = &settings.simulator else {
        return None;
    };
    Some(CliFound {
        path: path.clone(),
        first_args: first_args.clone(),
        how: "built in".to_owned(),
        version: Some(crate::claude::SIMULATED_VERSION.to_owned()),
        tested: None,
        simulated: true,
    })
}

async fn ask_version(path: &std::path::Path, settings: &SupervisorSettings) -> Option<String> {
    let env = crate::claude::environment::child(
        &settings.env_allow,
        settings.daemon_env.iter().cloned(),
        &[],
        &settings.env_fixed,
    );
    let args = ["--version".to_owned()];
    match capture(path, &args, &env, VERSION_DEADLINE).await {
        Ok(captured) => {
            let text = String::from_utf8_lossy(&captured.stdout);
            let line = text.lines().next().unwrap_or_default().trim().to_owned();
            (!line.is_empty()).then_some(line)
        }
        Err(error) => {
            tracing::warn!(error = %crate::telemetry::chain(&error), "the CLI did not say its version");
            None
        }
    }
}

impl From<CliMissing> for SupervisorError {
    fn from(missing: CliMissing) -> Self {
        Self::CliNotFound {
            searched: missing.searched,
        }
    }
}
