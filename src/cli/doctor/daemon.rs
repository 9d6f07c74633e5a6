//! Owns the daemon's part in `doctor`: whether one runs, what it says of itself, and where this shell differs from it.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use serde_json::Value;

use super::{
    super::{CliError, agent::Look, args::Common, client::Client, daemon_file::DaemonFile, reach, view},
    Check, GET_ONE, by_version,
};
use crate::{
    claude::binary::Tested,
    config::{Config, Loaded},
};

/// Variables by which the CLI logs in or finds its model. One that this shell alone has is often the reason why a prompt
/// works here and not in a session.
const LOGINS: [&str; 8] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CONFIG_DIR",
];

/// A daemon that says nothing for this long hangs, or has far too much to do.
const ANSWER: Duration = Duration::from_secs(4);

/// A daemon that answers.
#[derive(Debug)]
pub(super) struct Running {
    /// The content of `/readyz`.
    pub(super) ready: Value,
    /// The configuration in force; an older daemon does not tell it.
    configuration: Option<Value>,
}

impl Running {
    /// The values of the daemon, and where this shell has another one.
    pub(super) fn checks(&self, loaded: &Loaded, look: &Look) -> Vec<Check> {
        let mut checks = self.of_itself(look);
        checks.extend(self.in_force());
        checks.extend(self.differences(loaded, look));
        checks
    }

    /// A daemon that looks at itself.
    pub(super) const fn of(ready: Value) -> Self {
        Self {
            ready,
            configuration: None,
        }
    }

    /// The checks of what it says of itself.
    pub(super) fn of_itself(&self, look: &Look) -> Vec<Check> {
        let mut checks = vec![self.agent(look)];
        checks.extend(self.problems());
        checks
    }

    fn agent(&self, look: &Look) -> Check {
        const NAME: &str = "agent CLI";
        let cli = self.ready.get("cli").filter(|cli| !cli.is_null());
        let Some(cli) = cli else {
            return Check::bad(
                NAME,
                "the daemon finds none, and no session can start",
                format!(
                    "correct claude.bin of the daemon's configuration, then `trunkline restart`; or {GET_ONE}"
                ),
            );
        };
        if cli.get("simulated").and_then(Value::as_bool) == Some(true) {
            return match look {
                Look::Agent(found, _) => Check::notice(
                    NAME,
                    "the daemon finds none on its own PATH, and simulates sessions",
                    format!(
                        "set bin = \"{}\" below [claude] in the configuration file, then `trunkline restart`",
                        found.path.display()
                    ),
                ),
                _ => Check::notice(NAME, "the daemon finds none, and simulates sessions", GET_ONE),
            };
        }
        let place = format!("{} ({})", view::text(cli, &["path"]), view::text(cli, &["how"]));
        let version = view::text(cli, &["version"]);
        match view::text(cli, &["tested"]) {
            "tested" => by_version(&place, version, Tested::Tested),
            "newer" => by_version(&place, version, Tested::Newer),
            "older" => by_version(&place, version, Tested::Older),
            _ => Check::bad(
                NAME,
                format!("{place} does not say the version of an agent CLI"),
                "correct claude.bin of the daemon's configuration, then `trunkline restart`",
            ),
        }
    }

    fn problems(&self) -> Vec<Check> {
        view::list(&self.ready, &["problems"])
            .iter()
            .filter_map(Value::as_str)
            // The agent CLI has its own line.
            .filter(|problem| !problem.starts_with("no agent CLI"))
            .map(|problem| Check::bad("daemon", problem, "mend that; the daemon's log says more"))
            .collect()
    }

    fn in_force(&self) -> Option<Check> {
        let file = view::text(self.configuration.as_ref()?, &["file"]);
        let file = if file.is_empty() {
            "no file, defaults"
        } else {
            file
        };
        Some(Check::good(
            "in the daemon",
            format!("{file}; `trunkline config` prints all values"),
        ))
    }

    /// The one line about a shell that has other values than the daemon.
    fn differences(&self, loaded: &Loaded, look: &Look) -> Option<Check> {
        let mut differences = Vec::new();
        let theirs = view::text(&self.ready, &["cli", "path"]);
        let is_simulated = view::text(&self.ready, &["cli", "how"]) == "built in";
        match look {
            Look::Agent(found, _) if is_simulated => {
                differences.push(format!("it finds the agent CLI {}", found.path.display()));
            }
            Look::Agent(found, _) if found.path.to_string_lossy() != theirs => {
                differences.push(format!(
                    "it finds the agent CLI {} (the daemon: {theirs})",
                    found.path.display()
                ));
            }
            Look::Missing { .. } if !is_simulated && !theirs.is_empty() => {
                differences.push(format!("it finds no agent CLI (the daemon: {theirs})"));
            }
            _ => {}
        }
        if let Some(configuration) = &self.configuration {
            differences.extend(other_values(configuration, loaded));
            let names = view::list(configuration, &["variables"]);
            let has = |name: &str| names.iter().any(|known| known.as_str() == Some(name));
            let alone = LOGINS
                .into_iter()
                .filter(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()) && !has(name));
            differences.extend(alone.map(|name| format!("it has {name}, which sessions do not get")));
        }
        (!differences.is_empty()).then(|| {
            Check::notice(
                "this shell",
                format!("differs from the daemon: {}", differences.join("; ")),
                "the daemon's values hold; put yours into the configuration file and `trunkline restart`, or stop the daemon \
                 and start it from this shell",
            )
        })
    }
}

/// Values that this shell has otherwise than the daemon, but for those that a flag of the daemon set.
fn other_values(configuration: &Value, loaded: &Loaded) -> Vec<String> {
    let entries = loaded.config.entries().into_iter();
    entries
        .filter_map(|(key, ours)| {
            let entry = configuration.get("values")?.get(&key)?;
            let origin = view::text(entry, &["origin"]);
            let theirs = entry.get("value")?;
            (*theirs != ours && !origin.starts_with("flag"))
                .then(|| format!("{key} is {ours} here and {theirs} there ({origin})"))
        })
        .collect()
}

/// Whether a daemon answers, and what it says then.
pub(super) async fn find(common: &Common, config: &Config) -> (Check, Option<Running>) {
    const NAME: &str = "daemon";
    let data_dir = &config.data.dir;
    let address = match reach::locate(common, config, reach::SILENCE).await {
        Ok(address) => address,
        Err(error @ CliError::NotRunning { .. })
            if DaemonFile::read(data_dir).is_ok_and(|file| file.is_none()) =>
        {
            return (port(config.server.listen, &error), None);
        }
        Err(error) => {
            let check = Check::bad(NAME, error.chain(), "remove daemon.json if no daemon runs");
            return (check, None);
        }
    };
    let pid = DaemonFile::read(data_dir).ok().flatten().map(|file| file.pid);
    let client = match Client::new(&address) {
        Ok(client) => client,
        Err(error) => {
            let check = Check::bad(NAME, error.chain(), "check --url and --token-file");
            return (check, None);
        }
    };
    let Ok(readiness) = tokio::time::timeout(ANSWER, client.readiness()).await else {
        let check = Check::bad(
            NAME,
            format!("{} takes the connection and does not answer", address.url),
            match pid {
                Some(pid) => format!(
                    "the daemon, process {pid}, hangs: look at its log, then end it and start it again; sessions run on"
                ),
                None => "the daemon there hangs: look at its log".to_owned(),
            },
        );
        return (check, None);
    };
    let check = match readiness {
        Ok(ready) => {
            let version = view::text(&ready, &["version"]);
            let check = Check::good(NAME, format!("{} answers, version {version}", address.url));
            let path = ["v1", "daemon", "configuration"];
            let asked = tokio::time::timeout(ANSWER, client.get(&path, &[]));
            let configuration = asked.await.ok().and_then(Result::ok);
            return (check, Some(Running { ready, configuration }));
        }
        Err(CliError::NotRunning { .. }) if pid.is_some_and(|pid| !is_alive(pid)) => Check::notice(
            NAME,
            "not running; the last one ended without tidying up",
            "start it with `trunkline serve`; sessions that still run are taken over",
        ),
        Err(CliError::NotRunning { .. }) => Check::bad(
            NAME,
            format!("nothing answers at {}", address.url),
            "if a daemon runs, it hangs: look at its log; else start it with `trunkline serve`",
        ),
        Err(error) => Check::bad(
            NAME,
            format!("{}: {}", address.url, error.chain()),
            error.hint().unwrap_or_else(|| "look at the daemon's log".into()),
        ),
    };
    (check, None)
}

/// Without a daemon, the question is whether one could listen.
fn port(listen: SocketAddr, missing: &CliError) -> Check {
    const NAME: &str = "daemon";
    match TcpListener::bind(listen) {
        Ok(_) => Check::notice(
            NAME,
            format!("not running; {listen} is free"),
            "start it with `trunkline serve`",
        ),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let said = missing.to_string();
            // The one who asked it knows more.
            if said.contains(&listen.to_string()) {
                return Check::bad(NAME, said, missing.hint().unwrap_or_default());
            }
            Check::bad(
                NAME,
                format!("not running, and another program listens on {listen}"),
                "end that program, or choose another port with --listen (TRUNKLINE_LISTEN)",
            )
        }
        Err(error) => Check::bad(
            NAME,
            format!("not running, and {listen} cannot be used: {error}"),
            "choose another address with --listen (TRUNKLINE_LISTEN)",
        ),
    }
}

fn is_alive(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    !matches!(
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None),
        Err(nix::errno::Errno::ESRCH)
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{super::Grade, *};
    use crate::files;

    fn config(data_dir: &Path, listen: SocketAddr) -> Config {
        let mut config = Config::defaults(&|_| None);
        config.data.dir = data_dir.to_path_buf();
        config.server.listen = listen;
        config
    }

    #[tokio::test]
    async fn a_port_in_use_must_be_fixed_and_a_dead_daemon_is_told() {
        let dir = tempfile::tempdir().unwrap();
        // It takes connections and closes them.
        let busy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = busy.local_addr().unwrap();
        let settings = config(dir.path(), address);
        let common = Common::default();
        let (check, _) = tokio::select! {
            found = find(&common, &settings) => found,
            () = async { loop { drop(busy.accept().await); } } => unreachable!(),
        };
        assert_eq!(check.grade, Grade::Bad, "{check:?}");
        drop(busy);
        let (check, _) = find(&common, &settings).await;
        assert_eq!(check.grade, Grade::Notice, "{check:?}");

        let token = dir.path().join("token");
        files::replace(&token, &dir.path().join("new"), b"secret").unwrap();
        DaemonFile {
            url: format!("http://{address}"),
            socket: None,
            pid: u32::MAX / 2,
            version: "0".into(),
            started_at: crate::domain::Timestamp::from_micros(0),
        }
        .write(dir.path())
        .unwrap();
        let (check, _) = find(&common, &settings).await;
        assert_eq!(check.grade, Grade::Notice, "{check:?}");
    }
}
