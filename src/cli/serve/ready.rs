//! Owns what a person reads when the daemon is ready: one line on stdout, and how to go on on stderr.

use std::path::Path;

use serde_json::json;

use super::super::{
    CliError,
    daemon_file::DaemonFile,
    output::{Output, note},
};
use crate::supervisor::Health;

/// Prints the ready line; scripts may wait for it.
pub(super) fn print(
    output: &Output,
    file: &DaemonFile,
    data_dir: &Path,
    health: &Health,
) -> Result<(), CliError> {
    let token = data_dir.join("token");
    let cli = health.cli.as_ref().ok();
    if output.is_json() {
        let line = json!({
            "url": file.url, "socket": file.socket, "pid": file.pid, "version": file.version,
            "started_at": file.started_at, "data_dir": data_dir, "token_file": token,
            "simulated": cli.map(|cli| cli.simulated),
        });
        output.line(&line.to_string())?;
    } else {
        output.line(&format!(
            "trunkline {} listening on {} (process {}, data in {}, token in {})",
            file.version,
            file.url,
            file.pid,
            data_dir.display(),
            token.display()
        ))?;
    }
    for line in hints(file, &token, health) {
        note(&line);
    }
    Ok(())
}

fn hints(file: &DaemonFile, token: &Path, health: &Health) -> Vec<String> {
    let agent = match &health.cli {
        Ok(cli) if cli.simulated => {
            "agent:  SIMULATED. No agent CLI was found, so answers are made up and nothing is \
                                     run. `trunkline doctor` says how to get a real one"
                .to_owned()
        }
        Ok(cli) => format!(
            "agent:  {} {} ({})",
            cli.path.display(),
            cli.version.as_deref().unwrap_or("of unknown version"),
            cli.how
        ),
        Err(_) => "agent:  NOT FOUND, no session can start. `trunkline doctor` says what to do".to_owned(),
    };
    vec![
        agent,
        format!(
            "try:    curl -H \"Authorization: Bearer $(cat '{}')\" {}/v1/sessions",
            token.display(),
            file.url
        ),
        "        trunkline new --attach \"Hello\"".into(),
        "stop:   Ctrl-C".into(),
    ]
}
