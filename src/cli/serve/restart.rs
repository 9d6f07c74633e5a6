//! Owns how a daemon becomes its successor: whether a program can take its place is found out before anything ends, and then
//! this process becomes that program, with the same arguments, environment, sockets and lock.

use std::{
    convert::Infallible,
    ffi::{OsStr, OsString},
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::instance::Instance;
use crate::{
    http::Successor,
    keeper::{LINK_VERSION, OLDEST_LINK_VERSION},
    lifecycle::{Lifecycle, Requests},
    os::{self, CaptureError},
    service::{self, Addressee},
    store::Store,
    supervisor::{Supervisor, VERSION},
    telemetry,
};

/// How long a program may take to say whether it could be the daemon.
const CHECK_DEADLINE: Duration = Duration::from_secs(15);

/// The program that runs, even if the file at its path is another one by now, or none.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The most of what a program says that is repeated.
const SAID_BYTES: usize = 500;

/// The output of `serve --check`: the facts that a daemon needs about the program that takes its place.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fitness {
    /// Its version.
    trunkline: String,
    /// The oldest and the newest version of the link to keepers that it speaks.
    link: (u32, u32),
    /// The newest form of the database that it knows.
    schema: i64,
}

impl Fitness {
    /// The fitness of this program.
    pub(super) fn ours() -> Self {
        Self {
            trunkline: VERSION.to_owned(),
            link: (OLDEST_LINK_VERSION, LINK_VERSION),
            schema: Store::schema(),
        }
    }

    /// Why the program could not go on with what is there.
    fn objection(&self, keepers: &[u32]) -> Option<String> {
        let ours = Self::ours();
        if self.schema < ours.schema {
            return Some(format!(
                "trunkline {} knows the database up to form {}, and it has form {}",
                self.trunkline, self.schema, ours.schema
            ));
        }
        let speaks = |version: &u32| self.link.0 <= *version && *version <= self.link.1;
        // If we speak a version with a keeper, the keeper speaks it with others, too; and it may speak newer versions
        // than we.
        let lost = keepers
            .iter()
            .filter(|newest| !speaks(newest) && !speaks(&LINK_VERSION.min(**newest)))
            .count();
        (lost > 0).then(|| {
            format!(
                "trunkline {} could not talk to {lost} of the processes that keep sessions, which are of another version; \
                 restart those sessions first",
                self.trunkline
            )
        })
    }
}

/// How this process was started.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// The path of the program. Another file may be there by now.
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    /// Whether the arguments name the subcommand.
    names_serve: bool,
}

impl Start {
    pub(super) fn of_this_process(names_serve: bool) -> io::Result<Self> {
        let mut args = std::env::args_os();
        let name = args.next().unwrap_or_default();
        let passed_on =
            |name: &OsStr| name != service::HANDOVER && service::REPLACED.iter().all(|it| name != *it);
        Ok(Self {
            program: path_of(&name)?,
            args: args.collect(),
            env: std::env::vars_os().filter(|(name, _)| passed_on(name)).collect(),
            names_serve,
        })
    }

    /// Asks a program, `other` or the one at our path, whether it can take the place of this daemon.
    pub(super) async fn check(
        &self,
        other: Option<PathBuf>,
        supervisor: &Supervisor,
    ) -> Result<Successor, String> {
        if let Err(error) = supervisor.store().in_place().await {
            // The next daemon would not start.
            return Err(error.to_string());
        }
        let program = other.unwrap_or_else(|| self.program.clone());
        let shown = program.display().to_string();
        if !program.is_absolute() {
            return Err(format!("{shown} is no absolute path"));
        }
        let mut args = self.args.clone();
        if !self.names_serve {
            args.push("serve".into());
        }
        args.push("--check".into());
        let env: Vec<(String, String)> = self
            .env
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
            .collect();
        let said = match os::capture(&program, &args, &env, CHECK_DEADLINE).await {
            Ok(said) => said,
            Err(CaptureError::Spawn(error)) => return Err(format!("{shown} cannot be run: {error}")),
            Err(CaptureError::Timeout) => {
                let seconds = CHECK_DEADLINE.as_secs();
                return Err(format!("{shown} did not answer within {seconds} s"));
            }
            Err(CaptureError::Read(error)) => return Err(format!("{shown} cannot be heard: {error}")),
        };
        if said.code != Some(0) {
            return Err(match (said.code, last_words(&said.stderr)) {
                (_, words) if !words.is_empty() => format!("{shown} would not start: {words}"),
                (Some(code), _) => format!("{shown} would not start: it exits with {code}"),
                (None, _) => format!("{shown} would not start: a signal ended it"),
            });
        }
        let fitness: Fitness = serde_json::from_slice(&said.stdout)
            .map_err(|_| format!("{shown} is not trunkline, or too old"))?;
        let keepers = supervisor.keeper_versions();
        let keepers = keepers
            .map_err(|error| format!("the keepers cannot be looked for: {}", telemetry::chain(&error)))?;
        if let Some(objection) = fitness.objection(&keepers) {
            return Err(objection);
        }
        Ok(Successor {
            program,
            version: fitness.trunkline,
        })
    }
}

/// The path by which the program was found, as another may be installed there; else where its file is.
fn path_of(name: &OsStr) -> io::Result<PathBuf> {
    let file = std::env::current_exe()?;
    let is_same = |path: &Path| {
        let id = |path: &Path| std::fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
        id(path).is_some() && id(path) == id(&file)
    };
    let named = Path::new(name);
    let found = if named.components().count() > 1 {
        // In a directory that was deleted, no relative path leads anywhere.
        std::path::absolute(named).ok()
    } else {
        let dirs = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&dirs)
            .map(|dir| dir.join(named))
            .find(|path| is_same(path))
    };
    Ok(found
        .filter(|path| path.is_absolute() && is_same(path))
        .unwrap_or(file))
}

fn last_words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let mut words = text.trim().replace(char::is_control, " ");
    if words.len() > SAID_BYTES {
        let end = (0..=SAID_BYTES).rev().find(|end| words.is_char_boundary(*end));
        words.truncate(end.unwrap_or_default());
    }
    words
}

/// The program that this process becomes once everything of it has ended.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) start: Start,
    pub(super) successor: PathBuf,
    pub(super) us: Addressee,
    /// The sockets to go on listening on.
    pub(super) sockets: Vec<OwnedFd>,
    pub(super) instance: Instance,
    /// Signals that asked for the end meanwhile.
    pub(super) requests: Requests,
}

impl Replacement {
    /// Becomes the successor, or else this program once more: nothing of it runs by now.
    pub(super) fn carry_out(self) -> io::Result<Infallible> {
        let handover = service::hand_over(self.us, &self.sockets, self.instance.lock())?;
        let mut env = self.start.env;
        env.push((service::HANDOVER.into(), handover.into()));
        Lifecycle::hand_on(&self.requests)?;
        let become_it = |program: &Path| os::replace_this_process(program, &self.start.args, &env);
        match become_it(&self.successor) {
            Ok(never) => match never {},
            Err(error) => {
                tracing::error!(%error, program = %self.successor.display(), "the program cannot be run, and this one goes on");
                become_it(Path::new(THIS_PROGRAM))
            }
        }
    }
}
