//! Owns the search for processes of runs whose keeper is dead. A living keeper needs none of this.
//!
//! The sweep finds every process that carries the marker of the run in its environment, whatever session, group or parent it
//! has, and all that descends from one at the time of the search. It cannot tell a process that lost its parents *and* its
//! environment after its keeper had been killed from any other of the user's, so it leaves that one alone.

use std::{
    collections::{BTreeSet, HashSet},
    io,
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use tokio_util::sync::CancellationToken;

use super::{
    identity::Identity,
    plan::{DATA_MARKER, RUN_MARKER, SESSION_MARKER},
};
use crate::{
    domain::{RunId, SessionId},
    files, os,
};

/// How long leftovers are looked for. A process that cannot be killed by then hangs in the kernel, or is not ours to
/// kill.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long the processes cannot be listed before that is given up. The daemon may be short of file descriptors for a while.
const LIST_PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);
/// Between two tries to list them.
const LIST_PAUSE: Duration = Duration::from_millis(50);

/// How often in a row nothing must be found. A process can be forked just behind a look.
pub(super) const CLEAN_LOOKS: u32 = 3;

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Processes that are gone.
    pub killed: usize,
    /// Processes that could not be killed.
    pub left: usize,
    /// The sessions that they belonged to.
    pub sessions: BTreeSet<SessionId>,
}

/// The environment entry of every process of a run.
pub(super) fn marker(run: RunId) -> String {
    format!("{RUN_MARKER}={run}")
}

/// Whether an environment, as the system shows it, has this entry.
pub(super) fn has_entry(environment: &[u8], entry: &str) -> bool {
    environment
        .split(|byte| *byte == 0)
        .any(|text| text == entry.as_bytes())
}

/// Kills every process that carries the marker of `run`, and all that descends from one, until none is left.
///
/// Those that carry another mark of a data directory than `mark` are of a run of the same id, in the directory that ours is a
/// copy of: they are left alone.
///
/// The agent itself dies with its keeper, but tools in sessions of their own do not. Call it once [`super::attach`] said that
/// the keeper's process is gone; it reads all of `/proc` and takes at most 3 s, or 10 s more when that cannot be read at once, so
/// call it where blocking is allowed.
///
/// # Errors
/// The processes cannot be listed.
pub fn kill_leftovers(mark: &str, run: RunId) -> io::Result<Swept> {
    let marker = marker(run);
    sweep(|environment| {
        has_entry(environment, &marker) && value(environment, DATA_MARKER).is_none_or(|its| its == mark)
    })
}

/// As [`kill_leftovers`] for all processes that carry `mark`, the mark of a data directory, and belong to no run that
/// `is_kept`.
///
/// # Errors
/// The processes cannot be listed.
pub fn kill_strays(mark: &str, is_kept: impl Fn(SessionId, RunId) -> bool) -> io::Result<Swept> {
    kill_strays_and(&HashSet::new(), mark, is_kept)
}

/// The sweep of a daemon that starts. It is one for all sessions: those whose run was lost name the run, and wait for its end.
#[derive(Debug)]
pub struct StartSweep {
    /// `None` once it has begun.
    lost: Mutex<Option<HashSet<RunId>>>,
    over: CancellationToken,
}

impl Default for StartSweep {
    fn default() -> Self {
        Self {
            lost: Mutex::new(Some(HashSet::new())),
            over: CancellationToken::new(),
        }
    }
}

impl StartSweep {
    /// Has it end the processes of a run too. Gives what says that it is over, or nothing if it has begun before.
    pub fn include(&self, run: RunId) -> Option<CancellationToken> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.as_mut()?.insert(run);
        Some(self.over.clone())
    }

    /// As [`kill_strays`], for the runs that were named too.
    ///
    /// # Errors
    /// The processes cannot be listed.
    pub fn run(&self, mark: &str, is_kept: impl Fn(SessionId, RunId) -> bool) -> io::Result<Swept> {
        let _over = self.over.clone().drop_guard();
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).take();
        kill_strays_and(&lost.unwrap_or_default(), mark, is_kept)
    }
}

fn kill_strays_and(
    lost: &HashSet<RunId>,
    mark: &str,
    is_kept: impl Fn(SessionId, RunId) -> bool,
) -> io::Result<Swept> {
    let sessions = std::cell::RefCell::new(BTreeSet::new());
    let swept = sweep(|environment| {
        let run = value(environment, RUN_MARKER).and_then(|run| run.parse().ok());
        let session = value(environment, SESSION_MARKER).and_then(|session| session.parse().ok());
        let is_stray = match (value(environment, DATA_MARKER), run, session) {
            // It belongs to another directory, or to no run at all.
            (Some(its), _, _) if its != mark => false,
            (_, None, _) => false,
            (_, Some(run), _) if lost.contains(&run) => true,
            // A process that carries the mark alone was given it by hand: nothing says that it is a stray.
            (Some(_), Some(run), Some(session)) => !is_kept(session, run),
            _ => false,
        };
        if let Some(session) = session.filter(|_| is_stray) {
            sessions.borrow_mut().insert(session);
        }
        is_stray
    })?;
    Ok(Swept {
        sessions: sessions.into_inner(),
        ..swept
    })
}

/// Ends the process that holds the lock of a journal although it cannot be talked to; says whether there was one.
///
/// It is the keeper of `identity_file`, or if that cannot be read the process that the system says has the lock.
pub fn kill_lock_holder(identity_file: &Path, lock_file: &Path) -> bool {
    let known = Identity::read(identity_file).ok().flatten();
    let known = known
        .filter(Identity::may_live)
        .map(|identity| identity.process());
    let holder = os::lock_holder(lock_file);
    let keeper = match (known, holder) {
        // Only whoever has the lock is in the way.
        (Some(known), Some(holder)) => (known == holder).then_some(known),
        (known, holder) => known.or(holder),
    };
    keeper.is_some_and(|keeper| os::signal_same(keeper, Signal::SIGKILL).is_ok())
}

/// The value of an entry of an environment, as the system shows it.
pub(super) fn value<'a>(environment: &'a [u8], name: &str) -> Option<&'a str> {
    let entry = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    std::str::from_utf8(entry).ok()
}

fn sweep(is_target: impl Fn(&[u8]) -> bool) -> io::Result<Swept> {
    let mut until = Instant::now() + PATIENCE;
    let list_until = Instant::now() + LIST_PATIENCE;
    let mut killer = os::TreeKiller::default();
    let mut found = HashSet::new();
    let mut clean = 0;
    let mut left = 0;
    let mut has_failed = false;
    while clean < CLEAN_LOOKS {
        let targets = match killer.kill(&is_target, false) {
            Ok(targets) => targets,
            Err(error) if Instant::now() >= list_until => return Err(error),
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(%error, "processes cannot be listed; it is tried again");
                }
                pause(LIST_PAUSE);
                // The search has not begun, so its whole time is still to come.
                until = Instant::now() + PATIENCE;
                continue;
            }
        };
        left = targets.len();
        if targets.is_empty() {
            clean += 1;
            if found.is_empty() {
                break;
            }
        } else {
            clean = 0;
            found.extend(targets);
        }
        if Instant::now() >= until {
            break;
        }
        pause(PAUSE);
    }
    Ok(Swept {
        killed: found.len() - left,
        left,
        sessions: BTreeSet::new(),
    })
}

#[expect(clippy::disallowed_methods, reason = "called where blocking is allowed")]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Whether this process lives, which one that nobody has reaped yet does not; what cannot be told lives.
pub fn is_running(pid: i32) -> bool {
    let pid = nix::unistd::Pid::from_raw(pid);
    match os::start_time(pid) {
        Ok(_) => !os::is_zombie(pid),
        // It cannot be told.
        Err(error) => files::is_inconclusive(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_entry_is_a_marker() {
        let environment = b"A=1\0TRUNKLINE_RUN=x\0B=TRUNKLINE_RUN=y\0";
        assert!(has_entry(environment, "TRUNKLINE_RUN=x"));
        assert!(!has_entry(environment, "TRUNKLINE_RUN=y"));
        assert!(!has_entry(environment, "TRUNKLINE_RUN="));
        assert_eq!(value(environment, RUN_MARKER), Some("x"));
        assert_eq!(value(environment, "TRUNKLINE"), None);
    }

    /// As in `os::kill_tree`, the limit is the whole process's.
    #[test]
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "a process to sweep")]
    fn a_sweep_that_cannot_look_for_a_while_goes_on() {
        use std::{cell::Cell, os::unix::process::ExitStatusExt as _, process::Command};

        use nix::sys::resource::{Resource, getrlimit, setrlimit};

        let run = RunId::new();
        let mut child = Command::new("sleep")
            .arg("90")
            .env(RUN_MARKER, run.to_string())
            .spawn()
            .unwrap();
        let (limit, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let is_cut = Cell::new(false);
        let cut = || {
            if !is_cut.replace(true) {
                setrlimit(Resource::RLIMIT_NOFILE, 0, most).unwrap();
                std::thread::spawn(move || {
                    pause(LIST_PAUSE * 3);
                    setrlimit(Resource::RLIMIT_NOFILE, limit, most).unwrap();
                });
            }
        };
        let marker = marker(run);
        let swept = sweep(|environment| {
            cut();
            has_entry(environment, &marker)
        });
        assert_eq!(swept.unwrap().killed, 1);
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
    }
}
