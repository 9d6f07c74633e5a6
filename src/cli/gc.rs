//! Owns `gc`: journals are compacted and removed now, by the daemon, or by this process where none runs.

use std::{process::ExitCode, time::Duration};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{
    CliError,
    args::{Common, Gc},
    client::Client,
    output::Output,
    reach,
    serve::{Instance, journals},
    settings, view,
};
use crate::{
    http::JournalsCollected,
    store::Store,
    supervisor::{collect_journals, database_file},
    telemetry,
};

/// A look at many large journals takes its time.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// `gc`
pub(super) fn run(common: &Common, output: &Output, gc: &Gc) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let done = runtime.block_on(async {
        match by_daemon(common, gc).await {
            // Also one that was killed, whose address is still in its file.
            Err(CliError::NotRunning { .. }) if common.url.is_none() => by_ourselves(common, gc).await,
            done => done,
        }
    })?;
    if output.is_json() {
        output.value(&done)?;
    } else {
        for line in lines(&done, gc.dry_run) {
            output.line(&line)?;
        }
    }
    Ok(match view::number(&done, &["failed"]) {
        Some(0) | None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}

async fn by_daemon(common: &Common, gc: &Gc) -> Result<Value, CliError> {
    let client = Client::new(&reach::address(common).await?)?;
    let request = json!({ "dry_run": gc.dry_run });
    client
        .post_and_wait(&["v1", "daemon", "gc"], &[], &request, LONGEST)
        .await
}

async fn by_ourselves(common: &Common, gc: &Gc) -> Result<Value, CliError> {
    let loaded = settings::load(common, Vec::new())?;
    let data_dir = &loaded.config.data.dir;
    // It says why a journal is left as it is.
    let _log = telemetry::init(&loaded.config.log).context("cannot set up the log")?;
    // Held until the end.
    let _claim = Instance::acquire(data_dir, None)?;
    let database = database_file(data_dir);
    if !database.exists() {
        return Err(CliError::NotFound {
            message: format!("there are no sessions in {}", data_dir.display()),
            hint: Some("name another data directory with --data-dir".to_owned()),
        });
    }
    let store = Store::open(&database)
        .await
        .with_context(|| format!("cannot open {}", database.display()))?;
    let done = collect_journals(data_dir, &store, journals(&loaded.config), gc.dry_run).await;
    store.close().await;
    let done = JournalsCollected::from(done.context("the journals cannot be looked at")?);
    Ok(serde_json::to_value(done).context("cannot write the outcome")?)
}

fn lines(done: &Value, is_dry: bool) -> Vec<String> {
    let count = |path: &[&str]| view::number(done, path).unwrap_or(0);
    let would = if is_dry { "would be " } else { "" };
    let segments = |name: &str, word: &str| {
        let (segments, bytes) = (count(&[name, "segments"]), count(&[name, "bytes"]));
        let files = if segments == 1 { "file" } else { "files" };
        format!("{segments} {files} {would}{word}: {bytes} bytes")
    };
    let mut lines = vec![
        format!(
            "journals of {} sessions: {} bytes",
            count(&["sessions"]),
            count(&["bytes"])
        ),
        segments("compacted", "compacted"),
        segments("removed", "removed"),
    ];
    let live = count(&["live"]);
    if live > 0 {
        lines.push(format!("left alone, as a process has them: {live}"));
    }
    let failed = count(&["failed"]);
    if failed > 0 {
        lines.push(format!(
            "could not be read or written: {failed}; the log says why"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_said_in_lines() {
        let done = json!({
            "sessions": 3, "live": 1, "failed": 0, "bytes": 900,
            "compacted": { "segments": 1, "bytes": 200 },
            "removed": { "segments": 0, "bytes": 0 },
        });
        assert_eq!(
            lines(&done, true),
            [
                "journals of 3 sessions: 900 bytes",
                "1 file would be compacted: 200 bytes",
                "0 files would be removed: 0 bytes",
                "left alone, as a process has them: 1",
            ]
        );
    }
}
