//! Owns the look at the agent CLI from this process: where it is, and whether it is one.

use std::{path::PathBuf, time::Duration};

use super::CliError;
use crate::{
    claude::binary::{self, Found, Version},
    config::Claude,
    os, telemetry,
};

/// The CLI prints its version in a fraction of this.
const VERSION_DEADLINE: Duration = Duration::from_secs(20);

/// The agent that was found.
#[derive(Debug)]
pub(super) enum Look {
    /// An agent CLI.
    Agent(Found, Version),
    /// A program that says another thing than a version of the CLI.
    Other {
        found: Found,
        printed: String,
        code: Option<i32>,
    },
    /// It does not run.
    Broken { found: Found, error: String },
    /// There is none in these places.
    Missing { searched: Vec<PathBuf>, is_named: bool },
}

/// Looks for the CLI that a daemon with this configuration and this process's environment would use.
pub(super) async fn look(claude: &Claude) -> Look {
    let found = match binary::find(claude.bin.as_deref(), &|name| std::env::var_os(name)) {
        Ok(found) => found,
        Err(missing) => {
            let is_named =
                claude.bin.is_some() || std::env::var_os("CLAUDE_BIN").is_some_and(|path| !path.is_empty());
            let searched = missing.searched;
            return Look::Missing { searched, is_named };
        }
    };
    let environment: Vec<(String, String)> = ["HOME", "PATH", "LANG"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
        .collect();
    match os::capture(&found.path, &["--version"], &environment, VERSION_DEADLINE).await {
        Ok(captured) => {
            let text = String::from_utf8_lossy(&captured.stdout);
            let printed = text.lines().next().unwrap_or_default().trim().to_owned();
            match binary::parse_version(&printed) {
                Some(version) => Look::Agent(found, version),
                None => Look::Other {
                    found,
                    printed,
                    code: captured.code,
                },
            }
        }
        Err(error) => Look::Broken {
            found,
            error: telemetry::chain(&error),
        },
    }
}

/// Refuses to start with a program that was named and is no agent CLI. One that is missing may be under way, as in an
/// update, and one that fails may have its reasons: sessions say them.
pub(super) async fn refuse_others(claude: &Claude) -> Result<(), CliError> {
    const ADVICE: &str = "name Claude Code with --claude-bin, or leave it out to have it searched";
    if claude.bin.is_none() && std::env::var_os("CLAUDE_BIN").is_none_or(|path| path.is_empty()) {
        return Ok(());
    }
    let refusal = match look(claude).await {
        Look::Agent(..) => return Ok(()),
        Look::Other {
            found,
            printed,
            code: Some(0),
        } => format!(
            "{} is not the agent CLI: its --version prints \"{}\"",
            found.path.display(),
            super::words::one_line(&printed)
        ),
        Look::Other { .. } => return Ok(()),
        Look::Broken { found, error } => format!("{} cannot be run: {error}", found.path.display()),
        Look::Missing { searched, .. } => match (searched.as_slice(), &claude.bin) {
            ([path], _) if path.exists() => format!("{} is no program", path.display()),
            (_, Some(bin)) if bin.components().count() == 1 => {
                format!("no program {} is on PATH", bin.display())
            }
            _ => return Ok(()),
        },
    };
    Err(CliError::Usage(format!("{refusal}; {ADVICE}")))
}
