//! Owns `doctor`: looks at everything that a daemon needs, and says what to do about each problem. It needs no daemon.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{
    CliError,
    args::Common,
    client::{Address, Client},
    daemon_file::DaemonFile,
    output::{Output, Tone},
    settings, view, warm,
};
use crate::{
    claude::binary::{self, Tested},
    config::{Claude, Config, Loaded},
    domain::{CliSessionId, SessionId},
    files,
    keeper::{self, socket_dir},
    supervisor::LostDatabase,
    telemetry,
};

/// Less free space than this is worth a warning.
const LITTLE_SPACE_BYTES: u64 = 1024 * 1024 * 1024;

/// Less than this, and writing journals will fail soon.
const NO_SPACE_BYTES: u64 = 50 * 1024 * 1024;

/// The CLI prints its version in a fraction of this.
const VERSION_DEADLINE: Duration = Duration::from_secs(20);

/// How good a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    Good,
    /// Works, but a person should know.
    Notice,
    /// Must be fixed.
    Bad,
}

/// What was found out about one thing.
#[derive(Debug)]
struct Check {
    name: &'static str,
    grade: Grade,
    found: String,
    advice: Option<String>,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            grade: Grade::Good,
            found: found.into(),
            advice: None,
        }
    }

    fn notice(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            grade: Grade::Notice,
            advice: Some(advice.into()),
            ..Self::good(name, found)
        }
    }

    fn bad(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            grade: Grade::Bad,
            ..Self::notice(name, found, advice)
        }
    }
}

/// `doctor`
pub(super) fn run(common: &Common, output: &Output) -> Result<ExitCode, CliError> {
    let checks = match settings::load(common, Vec::new()) {
        Ok(loaded) => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("cannot start the runtime")?;
            runtime.block_on(examine(common, &loaded))
        }
        Err(error) => vec![Check::bad(
            "configuration",
            error.chain(),
            "mend it, then ask again",
        )],
    };
    report(output, &checks)?;
    let is_bad = checks.iter().any(|check| check.grade == Grade::Bad);
    Ok(ExitCode::from(u8::from(is_bad)))
}

async fn examine(common: &Common, loaded: &Loaded) -> Vec<Check> {
    let config = &loaded.config;
    let mut checks = vec![configuration(loaded), agent(&config.claude).await];
    checks.extend(data_directory(&config.data.dir));
    checks.extend(lost_database(&config.data.dir));
    checks.push(runtime_directory(&config.data.runtime_dir));
    checks.push(token(&config.data.dir.join("token")));
    if cfg!(target_os = "linux") {
        checks.push(conversations(&config.data.dir, config.claude.bin.as_deref()));
    }
    let (daemon, ready) = daemon(common, &config.data.dir, config.server.listen).await;
    if !config.warm.profiles.is_empty() {
        checks.push(warm_pool(config, ready.as_ref()));
    }
    checks.extend(ready.as_ref().and_then(unreadable));
    checks.push(daemon);
    checks
}

/// Sessions that the daemon cannot read, if there are any.
fn unreadable(ready: &Value) -> Option<Check> {
    let ids = view::list(ready, &["unreadable_sessions"]);
    let ids: Vec<&str> = ids.iter().filter_map(Value::as_str).collect();
    (!ids.is_empty()).then(|| {
        Check::notice(
            "sessions",
            format!(
                "{} cannot be read and are in no list: {}",
                ids.len(),
                ids.join(", ")
            ),
            "`trunkline rm ID` deletes one, with its journal",
        )
    })
}

fn configuration(loaded: &Loaded) -> Check {
    let file = loaded.file.as_ref().map_or_else(
        || "no file, defaults".to_owned(),
        |path| path.display().to_string(),
    );
    match loaded.check() {
        Ok(()) if loaded.warnings.is_empty() => Check::good("configuration", file),
        Ok(()) => Check::notice(
            "configuration",
            loaded.warnings.join("; "),
            "correct the name, or remove the variable",
        ),
        Err(error) => Check::bad("configuration", error.to_string(), "mend these values"),
    }
}

async fn agent(claude: &Claude) -> Check {
    const NAME: &str = "agent CLI";
    let found = match binary::find(claude.bin.as_deref(), &|name| std::env::var_os(name)) {
        Ok(found) => found,
        Err(missing) => {
            let places = missing
                .searched
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
                .join(", ");
            let named =
                claude.bin.is_some() || std::env::var_os("CLAUDE_BIN").is_some_and(|path| !path.is_empty());
            return if named {
                Check::bad(
                    NAME,
                    format!("{places} is no executable file"),
                    "correct claude.bin (TRUNKLINE_CLAUDE_BIN) or CLAUDE_BIN, or unset it to have the CLI searched",
                )
            } else {
                Check::notice(
                    NAME,
                    format!(
                        "not found on PATH, nor in the usual places ({} looked at)",
                        missing.searched.len()
                    ),
                    "sessions will be simulated; install Claude Code (npm install -g @anthropic-ai/claude-code), or \
                     name it with TRUNKLINE_CLAUDE_BIN",
                )
            };
        }
    };
    let place = format!("{} ({})", found.path.display(), found.how);
    let environment: Vec<(String, String)> = ["HOME", "PATH", "LANG"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
        .collect();
    let printed = match keeper::capture(&found.path, &["--version"], &environment, VERSION_DEADLINE).await {
        Ok(captured) => String::from_utf8_lossy(&captured.stdout).trim().to_owned(),
        Err(error) => {
            return Check::bad(
                NAME,
                format!("{place}: {}", telemetry::chain(&error)),
                "run it by hand to see why it does not start",
            );
        }
    };
    let (oldest, newest) = binary::TESTED_VERSIONS;
    match binary::parse_version(&printed) {
        None => Check::bad(
            NAME,
            format!("{place}: --version printed {printed:?}"),
            "this is not the Claude Code CLI; name the right program with TRUNKLINE_CLAUDE_BIN",
        ),
        Some(version) => match version.tested() {
            Tested::Tested => Check::good(NAME, format!("{place}, version {version}, tested")),
            Tested::Newer => Check::notice(
                NAME,
                format!("{place}, version {version}, newer than the newest tested one, {newest}"),
                "it should work; if something does not, try a tested version",
            ),
            Tested::Older => Check::notice(
                NAME,
                format!("{place}, version {version}, older than the oldest tested one, {oldest}"),
                "update it: claude update",
            ),
        },
    }
}

fn data_directory(dir: &Path) -> Vec<Check> {
    const NAME: &str = "data directory";
    let shown = dir.display().to_string();
    let Some(existing) = dir.ancestors().find(|path| path.exists()) else {
        return vec![Check::bad(
            NAME,
            format!("{shown} cannot be made"),
            "choose another with --data-dir",
        )];
    };
    let access = if existing == dir && dir.is_dir() {
        match probe(dir) {
            Ok(()) => Check::good(NAME, format!("{shown}, writable")),
            Err(error) => Check::bad(
                NAME,
                format!("{shown} is not writable: {error}"),
                "give it to the user that runs the daemon, or choose another with --data-dir",
            ),
        }
    } else if existing == dir {
        Check::bad(
            NAME,
            format!("{shown} is no directory"),
            "choose another with --data-dir",
        )
    } else {
        match probe(existing) {
            Ok(()) => Check::good(NAME, format!("{shown}, will be made at the first start")),
            Err(error) => Check::bad(
                NAME,
                format!(
                    "{shown} cannot be made: {} is not writable: {error}",
                    existing.display()
                ),
                "choose another with --data-dir",
            ),
        }
    };
    vec![access, space(existing)]
}

/// A database that is gone while its sessions are not.
fn lost_database(dir: &Path) -> Option<Check> {
    let lost = LostDatabase::find(dir).ok()??;
    Some(Check::bad(
        "database",
        lost.to_string(),
        "no daemon starts before that, and what runs is left alone",
    ))
}

/// Permission bits do not tell everything (read-only mounts, quotas), so a file is really written.
fn probe(dir: &Path) -> io::Result<()> {
    let file = dir.join(format!(".trunkline-doctor-{}", std::process::id()));
    fs::write(&file, b"x")?;
    fs::remove_file(file)
}

fn space(dir: &Path) -> Check {
    const NAME: &str = "disk space";
    let free = match nix::sys::statvfs::statvfs(dir) {
        Ok(stat) => stat.fragment_size().saturating_mul(stat.blocks_available()),
        Err(error) => return Check::notice(NAME, format!("unknown: {error}"), "look yourself"),
    };
    let found = format!("{} MiB free", free / (1024 * 1024));
    if free < NO_SPACE_BYTES {
        Check::bad(NAME, found, "make room: journals grow with every turn")
    } else if free < LITTLE_SPACE_BYTES {
        Check::notice(
            NAME,
            found,
            "journals grow with every turn; `trunkline rm` deletes a session with its journal",
        )
    } else {
        Check::good(NAME, found)
    }
}

fn runtime_directory(dir: &Path) -> Check {
    const NAME: &str = "runtime directory";
    let shown = dir.display().to_string();
    const ADVICE: &str = "choose another with data.runtime_dir (TRUNKLINE_DATA_RUNTIME_DIR)";
    match socket_dir::check(dir) {
        Ok(true) => match probe(dir) {
            Ok(()) => Check::good(NAME, shown),
            Err(error) => Check::bad(
                NAME,
                format!("{shown} is not writable: {error}"),
                "give it to this user",
            ),
        },
        Ok(false) => {
            let parent = dir.ancestors().skip(1).find(|path| path.exists());
            match parent.map(probe) {
                Some(Ok(())) => Check::good(NAME, format!("{shown}, will be made at the first start")),
                _ => Check::bad(NAME, format!("{shown} cannot be made"), ADVICE),
            }
        }
        Err(error) => Check::bad(NAME, format!("{shown}: {error}"), ADVICE),
    }
}

fn token(file: &Path) -> Check {
    const NAME: &str = "token";
    let shown = file.display().to_string();
    match fs::metadata(file) {
        Ok(meta) if meta.permissions().mode() & 0o077 != 0 => Check::bad(
            NAME,
            format!(
                "{shown} can be read by others (mode {:03o})",
                meta.permissions().mode() & 0o777
            ),
            format!("chmod 600 {shown}; if others may have read it, delete it and restart the daemon"),
        ),
        Ok(_) => match files::read(file) {
            Ok(_) => Check::good(NAME, shown),
            Err(error) => Check::bad(
                NAME,
                format!("{shown}: {error}"),
                "run this as the user of the daemon",
            ),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Check::good(NAME, format!("{shown}, will be made at the first start"))
        }
        Err(error) => Check::bad(
            NAME,
            format!("{shown}: {error}"),
            "run this as the user of the daemon",
        ),
    }
}

/// Whether somebody else's CLI works on a conversation of ours. Only Linux can tell.
fn conversations(data_dir: &Path, program: Option<&Path>) -> Check {
    const NAME: &str = "conversations";
    let (leases, sessions) = (data_dir.join("leases"), data_dir.join("sessions"));
    let is_known = |id: CliSessionId| leases.join(id.to_string()).exists();
    let is_own = |id: SessionId, _: Option<&str>| sessions.join(id.to_string()).exists();
    match keeper::outsiders(program, is_known, is_own) {
        Ok(found) if found.is_empty() => Check::good(NAME, "no other program is seen on one of a session"),
        Ok(found) => {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            Check::notice(
                NAME,
                found.join("; "),
                "its session cannot be resumed until that process ends; two on one conversation would mix their turns",
            )
        }
        Err(error) => Check::notice(NAME, format!("unknown: {error}"), "look yourself"),
    }
}

/// Whether what is to be started in advance can be, and what the daemon says of it.
fn warm_pool(config: &Config, ready: Option<&Value>) -> Check {
    const NAME: &str = "warm pool";
    let policy = warm::policy(config);
    let mut faults = Vec::new();
    for profile in &config.warm.profiles {
        let name = &profile.name;
        if let Err(reason) = warm::options(profile, &policy) {
            faults.push(format!("{name}: {reason}"));
        }
        if !profile.cwd.is_dir() {
            faults.push(format!("{name}: {} is no directory", profile.cwd.display()));
        }
    }
    if !faults.is_empty() {
        return Check::bad(
            NAME,
            faults.join("; "),
            "correct [[warm.profiles]], then restart the daemon",
        );
    }
    let reported = ready.and_then(|ready| ready["warm"].as_array());
    let reported: Vec<(String, bool)> = reported
        .into_iter()
        .flatten()
        .map(|profile| {
            let (name, failure) = (view::text(profile, &["profile"]), &profile["failure"]);
            let has = format!("{name}: {} of {} ready", profile["ready"], profile["wanted"]);
            match failure {
                Value::Null => (has, false),
                failure => (format!("{has}, {}", view::text(failure, &["detail"])), true),
            }
        })
        .collect();
    let is_failing = reported.iter().any(|(_, is_failing)| *is_failing);
    let found: Vec<String> = reported.into_iter().map(|(found, _)| found).collect();
    match (found.as_slice(), is_failing) {
        ([], _) => Check::good(NAME, format!("{} profiles", config.warm.profiles.len())),
        (_, false) => Check::good(NAME, found.join("; ")),
        (_, true) => Check::notice(
            NAME,
            found.join("; "),
            "sessions of these profiles start cold; create one with the same options to see why it does not start",
        ),
    }
}

/// Whether a daemon answers, and what it says then.
async fn daemon(common: &Common, data_dir: &Path, listen: SocketAddr) -> (Check, Option<Value>) {
    let mut ready = None;
    let check = ask_daemon(common, data_dir, listen, &mut ready).await;
    (check, ready)
}

async fn ask_daemon(common: &Common, data_dir: &Path, listen: SocketAddr, said: &mut Option<Value>) -> Check {
    const NAME: &str = "daemon";
    let address = match Address::find(data_dir, common.url.as_deref(), common.token_file.as_deref()) {
        Ok(address) => address,
        Err(CliError::NotRunning { .. }) => return port(listen),
        Err(error) => {
            return Check::bad(NAME, error.chain(), "remove daemon.json if no daemon runs");
        }
    };
    let pid = DaemonFile::read(data_dir).ok().flatten().map(|file| file.pid);
    let client = match Client::new(&address) {
        Ok(client) => client,
        Err(error) => return Check::bad(NAME, error.chain(), "check --url and --token-file"),
    };
    match client.get(&["readyz"], &[]).await {
        Ok(ready) => {
            let version = view::text(&ready, &["version"]);
            let check = Check::good(NAME, format!("{} answers, version {version}", address.url));
            *said = Some(ready);
            check
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
    }
}

/// Without a daemon, the question is whether one could listen.
fn port(listen: SocketAddr) -> Check {
    const NAME: &str = "daemon";
    match TcpListener::bind(listen) {
        Ok(_) => Check::notice(
            NAME,
            format!("not running; {listen} is free"),
            "start it with `trunkline serve`",
        ),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Check::bad(
            NAME,
            format!("not running, and another program listens on {listen}"),
            "end that program, or choose another port with --listen (TRUNKLINE_LISTEN)",
        ),
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

fn report(output: &Output, checks: &[Check]) -> Result<(), CliError> {
    if output.is_json() {
        let items: Vec<Value> = checks
            .iter()
            .map(|check| {
                json!({
                    "name": check.name,
                    "grade": match check.grade {
                        Grade::Good => "ok",
                        Grade::Notice => "notice",
                        Grade::Bad => "problem",
                    },
                    "found": check.found,
                    "advice": check.advice,
                })
            })
            .collect();
        return output.value(&json!({ "items": items }));
    }
    for check in checks {
        let (tone, mark) = match check.grade {
            Grade::Good => (Tone::Plain, "ok"),
            Grade::Notice => (Tone::Plain, "note"),
            Grade::Bad => (Tone::Strong, "FIX"),
        };
        output.text(tone, &format!("{mark:<5} {:<18} {}\n", check.name, check.found))?;
        if let Some(advice) = &check.advice {
            output.line(&format!("{:<24} hint: {advice}", ""))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, mode: u32, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    async fn agent_printing(text: &str) -> Check {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("claude");
        write(&bin, 0o755, &format!("#!/bin/sh\necho '{text}'\n"));
        agent(&Claude {
            bin: Some(bin),
            ..Claude::default()
        })
        .await
    }

    #[tokio::test]
    async fn the_agent_is_judged_by_its_version() {
        let (_, newest) = binary::TESTED_VERSIONS;
        let check = agent_printing(&format!("{newest} (Claude Code)")).await;
        assert_eq!(check.grade, Grade::Good, "{check:?}");
        for (text, grade) in [
            ("999.0.0 (Claude Code)", Grade::Notice),
            ("0.0.1 (Claude Code)", Grade::Notice),
            ("hello", Grade::Bad),
        ] {
            let check = agent_printing(text).await;
            assert_eq!(check.grade, grade, "{check:?}");
            assert!(check.advice.is_some());
        }
        let missing = Claude {
            bin: Some("/nonexistent/claude".into()),
            ..Claude::default()
        };
        assert_eq!(agent(&missing).await.grade, Grade::Bad);
    }

    #[test]
    fn an_open_token_must_be_fixed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        assert_eq!(token(&file).grade, Grade::Good);
        write(&file, 0o644, "secret");
        let check = token(&file);
        assert_eq!(check.grade, Grade::Bad);
        assert!(check.advice.unwrap().starts_with("chmod 600"));
        write(&file, 0o600, "secret");
        assert_eq!(token(&file).grade, Grade::Good);
    }

    #[test]
    fn directories_that_are_none_must_be_fixed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        write(&file, 0o600, "");
        assert_eq!(data_directory(&file)[0].grade, Grade::Bad);
        assert_eq!(runtime_directory(&file).grade, Grade::Bad);
        assert_eq!(data_directory(&file.join("below"))[0].grade, Grade::Bad);
        assert_eq!(data_directory(dir.path())[0].grade, Grade::Good);
        assert_eq!(data_directory(&dir.path().join("a/b"))[0].grade, Grade::Good);
        assert_eq!(runtime_directory(&dir.path().join("run")).grade, Grade::Good);
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing is left behind"
        );
    }

    #[tokio::test]
    async fn a_port_in_use_must_be_fixed_and_a_dead_daemon_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let busy = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = busy.local_addr().unwrap();
        let (check, _) = daemon(&Common::default(), dir.path(), address).await;
        assert_eq!(check.grade, Grade::Bad, "{check:?}");
        drop(busy);
        let (check, _) = daemon(&Common::default(), dir.path(), address).await;
        assert_eq!(check.grade, Grade::Notice, "{check:?}");

        write(&dir.path().join("token"), 0o600, "secret");
        DaemonFile {
            url: format!("http://{address}"),
            socket: None,
            pid: u32::MAX / 2,
            version: "0".into(),
            started_at: crate::domain::Timestamp::from_micros(0),
        }
        .write(dir.path())
        .unwrap();
        let (check, _) = daemon(&Common::default(), dir.path(), address).await;
        assert_eq!(check.grade, Grade::Notice, "{check:?}");
    }
}
