//! Owns the stand-in of the CLI's program as tests use it: they are the program that starts it and speaks to it.

use std::process::{ExitStatus, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{
    daemon::TestDaemon,
    proc,
    programs::{clean_env, trunkline},
    wait::PATIENCE,
};

/// The arguments that every host gives.
const OF_HOSTS: [&str; 6] = [
    "--output-format",
    "stream-json",
    "--verbose",
    "--input-format",
    "stream-json",
    "--permission-prompt-tool=stdio",
];

/// A stand-in that runs.
#[derive(Debug)]
pub(crate) struct StandIn {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl StandIn {
    /// The program, for a daemon, in a directory for sessions.
    pub(crate) fn command(daemon: &TestDaemon, dir: &str) -> Command {
        // By a link, as the SDKs start one program without arguments of its own.
        let link = daemon.home().join("claude");
        if !link.exists() {
            std::os::unix::fs::symlink(trunkline(), &link).unwrap();
        }
        let mut command = Command::new(link);
        command
            .current_dir(daemon.work_dir(dir))
            .env_clear()
            .envs(clean_env(&daemon.home(), "http://127.0.0.1:9"))
            .env("TRUNKLINE_DATA_DIR", daemon.data_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Starts it as a host does, with more arguments.
    pub(crate) fn start(daemon: &TestDaemon, dir: &str, args: &[&str]) -> Self {
        let mut command = Self::command(daemon, dir);
        Self::of(command.args(OF_HOSTS).args(args))
    }

    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    pub(crate) async fn send(&mut self, line: &Value) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn initialize(&mut self, more: Value) {
        let mut request = json!({"subtype": "initialize"});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.send(&json!({"type": "control_request", "request_id": "init-1", "request": request}))
            .await;
    }

    pub(crate) async fn prompt(&mut self, text: &str) {
        let message = json!({"role": "user", "content": [{"type": "text", "text": text}]});
        self.send(&json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": ""}))
            .await;
    }

    pub(crate) async fn answer(&mut self, request: &Value, response: Value) {
        let response =
            json!({"subtype": "success", "request_id": request["request_id"], "response": response});
        self.send(&json!({"type": "control_response", "response": response}))
            .await;
    }

    /// The next line; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<String> {
        let line = timeout(PATIENCE, self.stdout.next_line()).await;
        line.expect("no line").unwrap()
    }

    /// Reads up to a line of this type; all lines read, that one last.
    pub(crate) async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut lines: Vec<Value> = Vec::new();
        while let Some(line) = self.next().await {
            lines.push(serde_json::from_str(&line).unwrap());
            if lines.last().unwrap()["type"] == kind {
                return lines;
            }
        }
        panic!("the output ended before a {kind}: {lines:#?}");
    }

    /// Reads up to a line of this type; that line.
    pub(crate) async fn line(&mut self, kind: &str) -> Value {
        self.until(kind).await.pop().unwrap()
    }

    pub(crate) fn end_input(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id().expect("it runs")).unwrap()
    }

    pub(crate) fn signal(&self, number: Signal) {
        proc::signal(self.pid(), number);
    }

    /// Waits for the end of one of whose output nobody reads any more.
    pub(crate) async fn end_unread(&mut self) -> ExitStatus {
        let status = timeout(PATIENCE, self.child.wait()).await;
        status.expect("it ends").unwrap()
    }

    /// Waits for the end; how it ended, the lines left, and what it said on standard error.
    pub(crate) async fn ended(mut self) -> (ExitStatus, Vec<String>, String) {
        let mut lines = Vec::new();
        while let Some(line) = self.next().await {
            lines.push(line);
        }
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        timeout(PATIENCE, stderr.read_to_string(&mut errors))
            .await
            .expect("standard error ends")
            .unwrap();
        let status = timeout(PATIENCE, self.child.wait()).await;
        (status.expect("it ends").unwrap(), lines, errors)
    }
}
