//! Owns `rebuild`: the database is made again from the sessions, while no daemon uses the data directory.

use std::{process::ExitCode, time::Duration};

use anyhow::Context as _;
use serde_json::json;

use super::{
    CliError,
    args::Common,
    output::{Output, note},
    serve::Instance,
    settings,
};
use crate::supervisor::{RebuildProgress, rebuild};

/// Between two lines that say how far it is.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// `rebuild`
pub(super) fn run(common: &Common, output: &Output) -> Result<ExitCode, CliError> {
    let loaded = settings::load(common, Vec::new())?;
    let data_dir = &loaded.config.data.dir;
    // Held until the end.
    let _claim = Instance::acquire(data_dir, None)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let (rebuilt, kept) = runtime.block_on(async {
        let progress = RebuildProgress::default();
        let tell = async {
            loop {
                tokio::time::sleep(TELL_EVERY).await;
                let (done, sessions) = progress.counts();
                note(&format!("{done} of {sessions} sessions"));
            }
        };
        // A rebuild that ends is all that this waits for.
        tokio::select! {
            made = rebuild(data_dir, &progress) => made.context("the database stays as it is"),
            () = tell => Err(anyhow::anyhow!("unreachable")),
        }
    })?;
    let kept = kept.map(|path| path.display().to_string());
    if output.is_json() {
        output.value(&json!({
            "sessions": rebuilt.sessions,
            "recovered": rebuilt.recovered,
            "unreadable": rebuilt.unreadable,
            "kept": kept,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output.line(&match rebuilt.sessions {
        1 => "made the database again from 1 session".to_owned(),
        sessions => format!("made the database again from {sessions} sessions"),
    })?;
    if rebuilt.recovered > 0 {
        output.line(&format!(
            "{} had no session.json: each has the title \"recovered\", and its resume needs a cwd",
            rebuilt.recovered
        ))?;
    }
    if rebuilt.unreadable > 0 {
        output.line(&format!("the journals of {} cannot be read", rebuilt.unreadable))?;
    }
    if let Some(kept) = kept {
        output.line(&format!("the old database is kept as {kept}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
