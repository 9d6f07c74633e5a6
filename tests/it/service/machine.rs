//! Owns processes that have namespaces of their own, as a container or a machine has, and what a test does in them.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;

use crate::support::{
    proc,
    programs::repository,
    wait::{PATIENCE, holds_within, wait_for},
};

#[expect(clippy::disallowed_methods, reason = "runs what a person runs")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Stands in for `sudo`, which few machines of tests have, in what the documents show of it: a user, variables, and a command.
pub(crate) const SUDO: &str = r#"#!/bin/sh
set -eu
user=root
if [ "$1" = -u ]; then
    user=$2
    shift 2
fi
exec runuser -u "$user" -- env "$@"
"#;

/// Writes a script that can be started.
pub(crate) fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Whether this machine lacks a part that a machine may lack: `make test` prints those.
///
/// # Panics
/// When `.ci/lacks` does not name the part.
pub(crate) fn lacks(part: &str) -> bool {
    let script = repository(".ci/lacks");
    let asked = command("sh").arg(script).arg(part).output().unwrap();
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    match asked.status.code() {
        Some(0) => true,
        Some(1) => false,
        other => panic!("{part}: {other:?} {said}"),
    }
}

/// Where the machine's own cgroup is, of the second version: of this process.
fn own_cgroup() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts
        .lines()
        .find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            after.starts_with("cgroup2 ").then(|| before.split(' ').nth(4))?
        })
        .unwrap();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
    Path::new(mount).join(own)
}

/// Process 1 of namespaces of its own, and all below it. It ends with this value.
pub(crate) struct Machine {
    unshare: Child,
    cgroup: Option<PathBuf>,
    log: PathBuf,
}

impl Machine {
    /// Runs a shell script as process 1. Its mounts, its network and its processes are its own.
    pub(crate) async fn start(script: &str, args: &[&OsStr], log: &Path) -> Self {
        let unshare = Self::unshare(&[], script, args, log);
        Self::with(unshare, None, log).await
    }

    /// The same in a cgroup of its own, which looks like the root of all from inside. The script sees itself alone in there.
    pub(crate) async fn start_in_cgroup(script: &str, args: &[&OsStr], log: &Path) -> Self {
        let home = own_cgroup();
        let cgroup = home.join(format!("tl-test-{}", std::process::id()));
        fs::create_dir(&cgroup).unwrap();
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cgroup.display());
        let unshare = Self::unshare(&["sh", "-c", &join, "sh"], script, args, log);
        let pid = unshare.id().to_string();
        let machine = Self::with(unshare, Some(cgroup), log).await;
        // Its parent is none of its own.
        fs::write(home.join("cgroup.procs"), pid).unwrap();
        machine
    }

    fn unshare(before: &[&str], script: &str, args: &[&OsStr], log: &Path) -> Child {
        let unshare = "unshare --cgroup --mount --propagation private --pid --fork --kill-child --uts --ipc --net --mount-proc";
        let words: Vec<&str> = before.iter().copied().chain(unshare.split(' ')).collect();
        let log = fs::File::create(log).unwrap();
        command(words[0])
            .args(&words[1..])
            .args(["sh", "-euc", script, "sh"])
            .args(args)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    async fn with(unshare: Child, cgroup: Option<PathBuf>, log: &Path) -> Self {
        let log = log.to_owned();
        let mut machine = Self { unshare, cgroup, log };
        wait_for("process 1 is there", PATIENCE, async || {
            let ended = machine.unshare.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "it ended at its start: {ended:?}\n{}",
                machine.told()
            );
            machine.find_init()
        })
        .await;
        machine
    }

    fn find_init(&self) -> Option<i32> {
        let unshare = i32::try_from(self.unshare.id()).unwrap();
        let all = proc::all();
        all.iter()
            .find(|process| process.parent == unshare)
            .map(|process| process.pid)
    }

    /// Process 1, by the id that it has outside.
    pub(crate) fn init(&self) -> i32 {
        self.find_init()
            .unwrap_or_else(|| panic!("process 1 has ended:\n{}", self.told()))
    }

    /// The log so far.
    pub(crate) fn told(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The cgroup's processes, and those of all below it whose path ends so, by the ids that they have outside.
    pub(crate) fn processes_of(&self, unit: &str) -> Vec<i32> {
        let mut found = Vec::new();
        for dir in below(self.cgroup.as_ref().unwrap()) {
            if dir.ends_with(unit) {
                let procs = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
                found.extend(procs.lines().map(|pid| pid.parse::<i32>().unwrap()));
            }
        }
        found.sort_unstable();
        found
    }

    /// A command in there, as a user and with these variables alone.
    pub(crate) fn run(&self, user: &str, env: &[(String, String)], line: &[&str]) -> Output {
        let (uid, gid) = user.split_once(':').unwrap();
        command("nsenter")
            .args(["--target", &self.init().to_string()])
            .args(["--all", "--root", "--wd", "--setuid", uid, "--setgid", gid])
            .args(line)
            .env_clear()
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// SIGTERM to process 1, as at the stop of a container, and its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        proc::signal(self.init(), Signal::SIGTERM);
        let mut status = None;
        holds_within(Duration::from_secs(30), || {
            status = self.unshare.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // All in it ends with it, and what they held is free.
        let namespace = self.find_init().and_then(pid_namespace);
        self.unshare.kill().ok();
        self.unshare.wait().ok();
        holds_within(Duration::from_secs(10), || {
            let mut all = proc::all().into_iter();
            namespace.is_none() || all.all(|process| pid_namespace(process.pid) != namespace)
        });
        if let Some(cgroup) = &self.cgroup {
            holds_within(Duration::from_secs(10), || {
                for dir in below(cgroup) {
                    fs::remove_dir(dir).ok();
                }
                !cgroup.exists()
            });
        }
    }
}

fn pid_namespace(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// A folder and all folders in it, the deepest first.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .flat_map(|entry| below(&entry.path()))
        .collect();
    found.push(dir.to_owned());
    found
}

/// The output of a command that succeeded.
#[track_caller]
pub(crate) fn good(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}{errors}", output.status);
    said
}
