//! A daemon as a newcomer has it: everything at its default below a HOME of its own, no agent CLI on the machine.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "starts the programs that the README speaks of, and fails by panicking"
)]

use std::{
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::JoinHandle,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

const TRUNKLINE: &str = env!("CARGO_BIN_EXE_trunkline");

/// A running daemon with the simulated agent.
pub(crate) struct Newcomer {
    home: TempDir,
    daemon: Child,
    log: Option<JoinHandle<String>>,
    /// Where it listens.
    pub(crate) url: String,
}

impl Newcomer {
    pub(crate) fn start() -> Self {
        let home = tempfile::Builder::new().prefix("tl-").tempdir().unwrap();
        for name in ["project", "run"] {
            fs::create_dir(home.path().join(name)).unwrap();
        }
        let mut daemon = command(Path::new(TRUNKLINE), home.path())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = daemon.stderr.take().unwrap();
        // It is read all the time, so that the daemon never waits for us.
        let log = std::thread::spawn(move || {
            let mut log = Vec::new();
            errors.read_to_end(&mut log).unwrap();
            String::from_utf8_lossy(&log).into_owned()
        });
        let mut ready = String::new();
        BufReader::new(daemon.stdout.take().unwrap())
            .read_line(&mut ready)
            .unwrap();
        let mut newcomer = Self {
            home,
            daemon,
            log: Some(log),
            url: String::new(),
        };
        let url = ready.split(' ').find(|word| word.starts_with("http://"));
        newcomer.url = url.unwrap_or_else(|| panic!("no ready line: {ready}")).to_owned();
        newcomer
    }

    /// A program in the directory that sessions work in.
    pub(crate) fn command(&self, program: &str) -> Command {
        command(Path::new(program), self.home.path())
    }

    /// SIGTERM, and what the daemon had to say.
    pub(crate) fn stop(mut self) -> String {
        let pid = Pid::from_raw(self.daemon.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        let status = self.daemon.wait().unwrap();
        let log = self.log.take().unwrap().join().unwrap();
        assert!(status.success(), "the daemon ended with {status}\n{log}");
        log
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        if self.log.is_some() {
            // A failed test: its sessions are stopped by an orderly end as well.
            let pid = Pid::from_raw(self.daemon.id().try_into().unwrap());
            kill(pid, Signal::SIGTERM).ok();
            self.daemon.wait().ok();
        }
    }
}

fn command(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("HOME", home)
        .env("PATH", path())
        .env("LANG", "C.UTF-8")
        .env("TERM", "dumb")
        .env("XDG_RUNTIME_DIR", home.join("run"))
        .current_dir(home.join("project"))
        .stdin(Stdio::null());
    command
}

/// The PATH of this process without an agent CLI, and with the program under test first.
fn path() -> OsString {
    let inherited = std::env::var_os("PATH").unwrap();
    let dirs = std::env::split_paths(&inherited).filter(|dir| !dir.join("claude").exists());
    let ours = PathBuf::from(TRUNKLINE).parent().unwrap().to_owned();
    std::env::join_paths(std::iter::once(ours).chain(dirs)).unwrap()
}
