//! Owns `restart` and `upgrade`: ask the daemon to become its successor, and wait for that one.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{CliError, args::Upgrade, client::Client, output::Output};

/// How long the successor may take to answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks whether it does.
const PAUSE: Duration = Duration::from_millis(50);

/// `restart`
pub(super) async fn restart(client: &Client, output: &Output) -> Result<(), CliError> {
    replace(client, output, json!({})).await
}

/// `upgrade`
pub(super) async fn upgrade(client: &Client, output: &Output, upgrade: &Upgrade) -> Result<(), CliError> {
    let program = match &upgrade.program {
        Some(program) => std::path::absolute(program).context("cannot find the current directory")?,
        None => std::env::current_exe().context("cannot find the path of this program")?,
    };
    let program = program
        .to_str()
        .ok_or_else(|| CliError::Usage(format!("{} is not valid UTF-8", program.display())))?;
    replace(client, output, json!({ "program": program })).await
}

async fn replace(client: &Client, output: &Output, request: Value) -> Result<(), CliError> {
    let accepted = client.post(&["v1", "daemon", "restart"], &request).await?;
    let before = accepted.get("started_at").cloned().unwrap_or_default();
    let until = Instant::now() + PATIENCE;
    let readiness = loop {
        // The one that ends may still answer, and cut an answer short.
        if let Ok(readiness) = client.get(&["readyz"], &[]).await
            && readiness.get("started_at").is_some_and(|at| *at != before)
        {
            break readiness;
        }
        if Instant::now() >= until {
            return Err(CliError::Other(anyhow::anyhow!(
                "the daemon was asked to start again and does not answer; its log says why"
            )));
        }
        sleep(PAUSE).await;
    };
    if output.is_json() {
        return output.value(&readiness);
    }
    let text = |key: &str| {
        readiness
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let sessions = readiness
        .get("live_sessions")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    output.line(&format!(
        "trunkline {} runs now ({}); live sessions: {sessions}",
        text("version"),
        accepted
            .get("program")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    ))
}
