//! Owns running the command line and looking at how it ended.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{daemon::TestDaemon, programs::trunkline};

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Its standard output, if it went well and nothing was complained about.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!(self.code, 0, "{self:#?}");
        self.stdout
    }

    /// The one line that was printed.
    #[track_caller]
    pub(crate) fn line(self) -> String {
        let text = self.good();
        assert_eq!(text.lines().count(), 1, "{text:?}");
        text.trim_end().to_owned()
    }

    /// Its standard output, as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let text = self.good();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("no JSON: {error}: {text}"))
    }

    /// Its complaint, if it ended with this code and printed no data.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{self:#?}");
        assert!(self.stderr.starts_with("error: "), "{self:#?}");
        self.stderr
    }
}

/// A command of a person with this home and no other environment.
pub(crate) fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(trunkline());
    command
        .args(args)
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        .current_dir(home)
        .stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command) -> Ran {
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs a command with a text on its stdin.
pub(crate) fn run_with(mut command: Command, stdin: &str) -> Ran {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A command of a person whose daemon this is, in a directory of theirs.
pub(crate) fn to(daemon: &TestDaemon, args: &[&str]) -> Command {
    let mut command = command(&daemon.home(), args);
    command
        .env("TRUNKLINE_DATA_DIR", daemon.data_dir())
        .current_dir(daemon.work_dir("here"));
    command
}

/// Runs a command against a daemon without keeping this thread's runtime from its work.
pub(crate) fn tl(daemon: &TestDaemon, args: &[&str]) -> Ran {
    run(to(daemon, args))
}
