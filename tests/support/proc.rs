//! Owns looking at the processes of this machine through `/proc`, and ending those that a test left behind.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A process as `/proc` shows it.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    /// `Z` is a zombie.
    pub(crate) state: char,
    /// The arguments, joined by blanks.
    pub(crate) command: String,
    environ: Vec<u8>,
    cwd: Option<PathBuf>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pid,
            parent,
            state,
            command,
            ..
        } = self;
        write!(f, "{pid} (parent {parent}, {state}): {command}")
    }
}

impl Process {
    /// The value of an environment variable at the process's start.
    pub(crate) fn env(&self, name: &str) -> Option<String> {
        let prefix = format!("{name}=");
        self.environ
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(prefix.as_bytes()))
            .map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// Whether environment, arguments, working directory or open files name a path below `root`.
    pub(crate) fn mentions(&self, root: &Path) -> bool {
        let needle = root.as_os_str().as_encoded_bytes();
        memchr::memmem::find(&self.environ, needle).is_some()
            || memchr::memmem::find(self.command.as_bytes(), needle).is_some()
            || self.cwd.as_deref().is_some_and(|cwd| cwd.starts_with(root))
            // A keeper is told what to do by a pipe, and is known by its journal alone.
            || open_files(self.pid).any(|file| file.starts_with(root))
    }
}

/// Every process that can be read, zombies included.
pub(crate) fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("read /proc");
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(read)
        .collect()
}

/// One process, or nothing if it is gone.
pub(crate) fn read(pid: i32) -> Option<Process> {
    let dir = PathBuf::from(format!("/proc/{pid}"));
    let stat = fs::read_to_string(dir.join("stat")).ok()?;
    // The name stands in parentheses and may itself hold any character.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let command = fs::read(dir.join("cmdline")).unwrap_or_default();
    Some(Process {
        pid,
        parent,
        state,
        command: String::from_utf8_lossy(&command)
            .replace('\0', " ")
            .trim_end()
            .to_owned(),
        environ: fs::read(dir.join("environ")).unwrap_or_default(),
        cwd: fs::read_link(dir.join("cwd")).ok(),
    })
}

fn open_files(pid: i32) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
}

/// Whether the process exists and is no zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    read(pid).is_some_and(|process| process.state != 'Z')
}

/// Live processes whose environment has `name=value`, such as `TRUNKLINE_RUN=<id>` for all that a run started.
pub(crate) fn with_env(name: &str, value: &str) -> Vec<Process> {
    let mut found = all();
    found.retain(|process| process.state != 'Z' && process.env(name).as_deref() == Some(value));
    found
}

/// Live processes that belong to a test's directory; this process is none of them.
pub(crate) fn below(root: &Path) -> Vec<Process> {
    let own = i32::try_from(std::process::id()).expect("a pid fits");
    let mut found = all();
    found.retain(|process| process.pid != own && process.state != 'Z' && process.mentions(root));
    found
}

/// Sends a signal; a process that is gone is no error.
pub(crate) fn signal(pid: i32, signal: Signal) {
    assert!(pid > 1, "not a process of a test: {pid}");
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
        Err(error) => panic!("cannot send {signal} to {pid}: {error}"),
    }
}
