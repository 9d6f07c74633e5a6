//! Owns what a person reads when the daemon is ready: one line on stdout, and how to go on on stderr.

use std::path::Path;

use serde_json::json;

use super::super::{
    args::Common,
    daemon_file::DaemonFile,
    output::{Output, note},
};
use crate::{
    auth::Secret,
    config::{Config, Loaded, OnShutdown, Origin},
    domain::SessionState,
    supervisor::Health,
};

/// The ways of a person to go on.
pub(super) struct Ways {
    /// This program, as another terminal takes it.
    pub(super) command: String,
    /// A ticket with which a browser is let in, where a person reads it.
    pub(super) ticket: Option<Secret>,
}

/// Prints the ready line; scripts may wait for it. A daemon serves also where nobody reads it, as after `serve | head -1` and a
/// restart.
pub(super) fn print(output: &Output, file: &DaemonFile, data_dir: &Path, health: &Health, ways: &Ways) {
    let token = data_dir.join("token");
    let cli = health.cli.as_ref().ok();
    let line = if output.is_json() {
        json!({
            "url": file.url, "socket": file.socket, "pid": file.pid, "version": file.version,
            "started_at": file.started_at, "data_dir": data_dir, "token_file": token,
            "simulated": cli.map(|cli| cli.simulated),
        })
        .to_string()
    } else {
        format!(
            "trunkline {} listening on {} (process {}, data in {}, token in {})",
            file.version,
            file.url,
            file.pid,
            data_dir.display(),
            token.display()
        )
    };
    if let Err(error) = output.line(&line) {
        tracing::warn!(error = %error.chain(), "the ready line could not be printed");
    }
    for line in hints(file, &token, health, ways) {
        note(&line);
    }
}

/// This program as a person in another terminal can type it, with what finds this daemon.
pub(super) fn command(common: &Common, loaded: &Loaded) -> String {
    let program = std::env::current_exe().and_then(|path| path.canonicalize()).ok();
    let on_path = std::env::var_os("PATH").and_then(|path| {
        let mut places = std::env::split_paths(&path).map(|dir| dir.join("trunkline"));
        places.find(|place| place.is_file())?.canonicalize().ok()
    });
    let mut command = match program {
        Some(program) if on_path.as_ref() != Some(&program) => quoted(&program),
        _ => "trunkline".to_owned(),
    };
    let is_found_alike = match loaded.origin("data.dir") {
        Origin::Default => true,
        Origin::File(_) => common.config.is_none(),
        Origin::Environment(_) | Origin::Flag(_) => false,
    };
    if !is_found_alike {
        command.push_str(" --data-dir ");
        command.push_str(&quoted(&loaded.config.data.dir));
    }
    command
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn hints(file: &DaemonFile, token: &Path, health: &Health, ways: &Ways) -> Vec<String> {
    let command = &ways.command;
    let (agent, works) = match &health.cli {
        Ok(cli) if cli.simulated => (
            format!(
                "agent:  SIMULATED. No agent CLI was found, so answers are made up and nothing is run. `{command} doctor` \
                 says how to get a real one"
            ),
            true,
        ),
        Ok(cli) => (
            format!(
                "agent:  {} {} ({})",
                cli.path.display(),
                cli.version.as_deref().unwrap_or("of unknown version"),
                cli.how
            ),
            true,
        ),
        Err(_) => (
            format!("agent:  NOT FOUND, no session can start. `{command} doctor` says what to do"),
            false,
        ),
    };
    let mut hints = vec![agent];
    if works {
        hints.push(format!("try:    {command} new --attach \"Hello\""));
    }
    // The token is in no process list.
    hints.push(format!(
        "curl:   printf 'header = \"Authorization: Bearer %s\"' \"$(cat {})\" | curl -sS -K - {}/v1/sessions",
        quoted(token),
        file.url
    ));
    hints.push("stop:   Ctrl-C".into());
    hints.push(match &ways.ticket {
        Some(ticket) => format!("open:   {}/open#{} (15 minutes, once)", file.url, ticket.expose()),
        None => format!("open:   {command} open"),
    });
    hints
}

/// The words for a person who ends the daemon, at once: they tell what it waits for.
pub(super) fn ending(on_shutdown: OnShutdown, config: &Config, states: &[SessionState]) -> String {
    let live = states.iter().filter(|state| state.is_live()).count();
    let turns = states
        .iter()
        .filter(|state| matches!(state, SessionState::Busy | SessionState::Waiting))
        .count();
    let sessions = |count| match count {
        1 => "1 session".to_owned(),
        count => format!("{count} sessions"),
    };
    match (on_shutdown, live, turns) {
        (_, 0, _) => "ending".into(),
        (OnShutdown::Detach, live, _) => {
            format!(
                "ending; {} run on, and the next daemon takes them over",
                sessions(live)
            )
        }
        (OnShutdown::Stop, live, 0) => format!("ending: {} to stop", sessions(live)),
        (OnShutdown::Stop, live, turns) => format!(
            "ending: {} to stop; {turns} in a turn, which has up to {} s; Ctrl-C again does not wait for it",
            sessions(live),
            config.stop.finish_turns_ms.div_ceil(1000)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn paths_are_quoted_for_a_shell() {
        for (path, expected) in [
            ("/usr/bin/trunkline", "/usr/bin/trunkline"),
            ("/a b/c", "'/a b/c'"),
            ("/it's", "'/it'\\''s'"),
        ] {
            assert_eq!(quoted(&PathBuf::from(path)), expected);
        }
    }
}
