//! Owns `doctor`: looks at everything that a daemon needs, and says what to do about each problem. A daemon that runs is asked
//! what it has (`daemon.rs`); without one this shell's view is what the next one would have. Nothing is changed.

mod daemon;

use std::{
    fs, io,
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{
    CliError,
    agent::{self, Look},
    args::Common,
    output::{Output, Tone},
    settings, view, warm,
    words::one_line,
};
use crate::{
    auth::{TOKEN_FILE, TokenError, VIEWER_TOKEN_FILE, check_token},
    claude::binary::{self, Found, Tested},
    config::{Config, Loaded},
    domain::{CliSessionId, SessionId},
    http::{Examiner, Finding, FindingGrade},
    keeper::{self, socket_dir},
    store::{Store, StoreError},
    supervisor::{LostDatabase, database_file, sessions_without_file},
    telemetry,
};

/// Less free space than this is worth a warning.
const LITTLE_SPACE_BYTES: u64 = 1024 * 1024 * 1024;

/// Less than this, and writing journals will fail soon.
const NO_SPACE_BYTES: u64 = 50 * 1024 * 1024;

/// How a person gets an agent CLI.
const GET_ONE: &str =
    "install Claude Code (npm install -g @anthropic-ai/claude-code), or name it with TRUNKLINE_CLAUDE_BIN";

/// How good a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    Good,
    /// Works, but a person should know.
    Notice,
    /// Must be fixed.
    Bad,
}

/// The result of one check.
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

/// How a daemon that runs with this configuration examines itself.
pub(super) fn examiner(loaded: &Loaded) -> Examiner {
    let loaded = Arc::new(loaded.clone());
    Box::new(move |ready| Box::pin(examine_itself(Arc::clone(&loaded), ready)))
}

/// The findings of a daemon about itself, by what `/readyz` says and by a look of its own.
async fn examine_itself(loaded: Arc<Loaded>, ready: Value) -> Vec<Finding> {
    let running = daemon::Running::of(ready);
    let look = agent::look(&loaded.config.claude).await;
    let mut checks = vec![configuration(&loaded)];
    checks.extend(running.of_itself(&look));
    // The program that the daemon found at its start may not run any more.
    if matches!(look, Look::Broken { .. } | Look::Other { .. }) {
        checks.push(agent(&look));
    }
    let dirs = loaded.config.data.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let mut checks = data_directory(&dirs.dir);
        checks.push(runtime_directory(&dirs.runtime_dir));
        checks.push(token("token", &dirs.dir.join(TOKEN_FILE)));
        checks.push(token("viewer token", &dirs.dir.join(VIEWER_TOKEN_FILE)));
        checks.extend(session_files(&dirs.dir));
        checks
    });
    checks.extend(looked.await.unwrap_or_default());
    if !loaded.config.warm.profiles.is_empty() {
        checks.push(warm_pool(&loaded.config, Some(&running.ready)));
    }
    checks.extend(unreadable(&running.ready));
    checks.extend(unknown(&running.ready));
    let findings = checks.into_iter().map(|check| Finding {
        name: check.name.to_owned(),
        grade: match check.grade {
            Grade::Good => FindingGrade::Ok,
            Grade::Notice => FindingGrade::Notice,
            Grade::Bad => FindingGrade::Problem,
        },
        found: check.found,
        advice: check.advice,
    });
    findings.collect()
}

async fn examine(common: &Common, loaded: &Loaded) -> Vec<Check> {
    let config = &loaded.config;
    let look = agent::look(&config.claude).await;
    let (daemon, running) = daemon::find(common, config).await;
    let mut checks = vec![configuration(loaded)];
    match &running {
        Some(running) => checks.extend(running.checks(loaded, &look)),
        None => checks.push(agent(&look)),
    }
    checks.extend(data_directory(&config.data.dir));
    checks.extend(database(&config.data.dir, running.is_some()).await);
    checks.extend(session_files(&config.data.dir));
    checks.push(runtime_directory(&config.data.runtime_dir));
    checks.push(token("token", &config.data.dir.join(TOKEN_FILE)));
    checks.push(token("viewer token", &config.data.dir.join(VIEWER_TOKEN_FILE)));
    if cfg!(target_os = "linux") {
        checks.push(conversations(&config.data.dir, config.claude.bin.as_deref()));
    }
    let ready = running.as_ref().map(|running| &running.ready);
    if !config.warm.profiles.is_empty() {
        checks.push(warm_pool(config, ready));
    }
    checks.extend(ready.and_then(unreadable));
    checks.extend(ready.and_then(unknown));
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

/// Sessions that run and that the daemon's database does not know, if there are any.
fn unknown(ready: &Value) -> Option<Check> {
    let ids = view::list(ready, &["unknown_sessions"]);
    let ids: Vec<&str> = ids.iter().filter_map(Value::as_str).collect();
    (!ids.is_empty()).then(|| {
        Check::notice(
            "sessions",
            format!(
                "{} have a process and are not in the database: {}",
                ids.len(),
                ids.join(", ")
            ),
            "put the database back that knows them, or `trunkline rm ID` ends one and deletes its journal",
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

/// The agent CLI as this shell would find it.
fn agent(look: &Look) -> Check {
    const NAME: &str = "agent CLI";
    let place = |found: &Found| format!("{} ({})", found.path.display(), found.how);
    match look {
        Look::Missing {
            searched,
            is_named: true,
        } => {
            let places: Vec<String> = searched.iter().map(|path| path.display().to_string()).collect();
            Check::bad(
                NAME,
                format!("{} is no executable file", places.join(", ")),
                "correct claude.bin (TRUNKLINE_CLAUDE_BIN) or CLAUDE_BIN, or unset it to have the CLI searched",
            )
        }
        Look::Missing { searched, .. } => Check::notice(
            NAME,
            format!(
                "not found on PATH, nor in the usual places ({} looked at)",
                searched.len()
            ),
            format!("sessions will be simulated; {GET_ONE}"),
        ),
        Look::Broken { found, error } => Check::bad(
            NAME,
            format!("{}: {error}", place(found)),
            "run it by hand to see why it does not start",
        ),
        Look::Other { found, printed, .. } => Check::bad(
            NAME,
            format!("{}: --version printed \"{}\"", place(found), one_line(printed)),
            "this is not the Claude Code CLI; name the right program with TRUNKLINE_CLAUDE_BIN",
        ),
        Look::Agent(found, version) => by_version(&place(found), &version.to_string(), version.tested()),
    }
}

fn by_version(place: &str, version: &str, tested: Tested) -> Check {
    const NAME: &str = "agent CLI";
    let (oldest, newest) = binary::TESTED_VERSIONS;
    match tested {
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

/// The database as a start of the daemon would find it. One that runs has it open and tells of it by itself.
async fn database(dir: &Path, is_open: bool) -> Option<Check> {
    const NAME: &str = "database";
    if let Ok(Some(lost)) = LostDatabase::find(dir) {
        return Some(Check::notice(
            NAME,
            lost.to_string(),
            "the next start of the daemon makes it again from the sessions; what only it had, such as idempotency keys, is lost",
        ));
    }
    if is_open {
        return None;
    }
    let file = database_file(dir);
    let shown = file.display().to_string();
    Some(match Store::look(&file).await {
        Ok(()) if file.exists() => Check::good(NAME, shown),
        Ok(()) => Check::good(NAME, format!("{shown}, will be made at the first start")),
        Err(error @ StoreError::NewerSchema { .. }) => Check::bad(
            NAME,
            format!("{shown}: {error}"),
            "a newer trunkline wrote it: run that version, or `trunkline rebuild`, which makes a new one from the sessions and keeps it",
        ),
        Err(error) => Check::bad(
            NAME,
            telemetry::chain(&error),
            "no daemon starts with it: `trunkline rebuild` makes a new one from the sessions and keeps it",
        ),
    })
}

/// Sessions without a file of what no journal says, if there are any.
fn session_files(dir: &Path) -> Option<Check> {
    const NAME: &str = "session files";
    const ADVICE: &str = "a daemon writes them while it runs, and its log says why it cannot; until then the database alone \
                          has their titles and options, so keep a backup of it";
    match sessions_without_file(dir) {
        Ok(without) => match without.len() {
            0 => None,
            1 => Some(Check::notice(NAME, "1 session has no session.json", ADVICE)),
            count => Some(Check::notice(
                NAME,
                format!("{count} sessions have no session.json"),
                ADVICE,
            )),
        },
        Err(error) => Some(Check::notice(NAME, format!("unknown: {error}"), ADVICE)),
    }
}

/// Permission bits do not tell everything (read-only mounts, quotas), so a file is really written.
fn probe(dir: &Path) -> io::Result<()> {
    // A daemon may examine itself several times at once.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = dir.join(format!(".trunkline-doctor-{}-{count}", std::process::id()));
    fs::write(&file, b"x")?;
    fs::remove_file(file)
}

fn space(dir: &Path) -> Check {
    const NAME: &str = "disk space";
    let Some(free) = crate::files::free_bytes(dir) else {
        return Check::notice(NAME, "unknown".to_owned(), "look yourself");
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

fn token(name: &'static str, file: &Path) -> Check {
    let shown = file.display().to_string();
    match check_token(file) {
        Ok(()) => Check::good(name, shown),
        Err(TokenError::Exposed { mode, .. }) => Check::bad(
            name,
            format!("{shown} can be read by others (mode {mode:03o})"),
            format!("chmod 600 {shown}; if others may have read it, delete it and restart the daemon"),
        ),
        Err(TokenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Check::good(name, format!("{shown}, will be made at the first start"))
        }
        Err(error @ TokenError::Io { .. }) => Check::bad(
            name,
            telemetry::chain(&error),
            "run this as the user of the daemon",
        ),
        Err(error) => Check::bad(
            name,
            telemetry::chain(&error),
            "no daemon starts with it: delete it, and the next start makes a new one",
        ),
    }
}

/// Whether somebody else's CLI works on a conversation of ours. Only Linux can tell.
fn conversations(data_dir: &Path, program: Option<&Path>) -> Check {
    const NAME: &str = "conversations";
    let (leases, sessions) = (data_dir.join("leases"), data_dir.join("sessions"));
    let is_known = |id: CliSessionId| leases.join(id.to_string()).exists();
    let is_own = |id: SessionId, _: Option<&str>| sessions.join(id.to_string()).exists();
    match keeper::foreign_processes(program, is_known, is_own) {
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
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::Claude;

    fn write(path: &Path, mode: u32, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    async fn agent_printing(text: &str) -> Check {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("claude");
        write(&bin, 0o755, &format!("#!/bin/sh\necho '{text}'\n"));
        agent_at(bin).await
    }

    async fn agent_at(bin: impl Into<std::path::PathBuf>) -> Check {
        let claude = Claude {
            bin: Some(bin.into()),
            ..Claude::default()
        };
        agent(&agent::look(&claude).await)
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
        assert_eq!(agent_at("/nonexistent/claude").await.grade, Grade::Bad);
    }

    #[test]
    fn an_open_token_must_be_fixed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        assert_eq!(token("token", &file).grade, Grade::Good);
        write(&file, 0o644, &"s".repeat(43));
        let check = token("token", &file);
        assert_eq!(check.grade, Grade::Bad);
        assert!(check.advice.unwrap().starts_with("chmod 600"));
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "it was changed");
        write(&file, 0o600, &"s".repeat(43));
        assert_eq!(token("token", &file).grade, Grade::Good);
        write(&file, 0o600, "short");
        assert_eq!(token("token", &file).grade, Grade::Bad);
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
}
