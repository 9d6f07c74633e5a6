//! Owns the daemon under test: start on a directory of its own, kill, restart, stop, and the check that nothing is left.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::signal::Signal,
};
use serde_json::Value;
use tempfile::TempDir;

use super::{
    model_api::ModelApi,
    proc,
    programs::{clean_env, fake_claude, fake_settings, real_claude, trunkline},
    rest::Rest,
    wait::{PATIENCE, holds_within, wait_for},
    ws::Ws,
};

/// Longest time an orderly end may take before the test calls it stuck.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// Longest time for processes of sessions to vanish after the daemon's end.
const LEFTOVER_LIMIT: Duration = Duration::from_secs(10);

/// The program to start, and how.
#[derive(Debug)]
pub(crate) struct TestDaemonBuilder {
    claude: Option<PathBuf>,
    api_url: String,
    fake: Option<Value>,
    home_files: Vec<(PathBuf, String)>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    launcher: Vec<OsString>,
    data_disk: Option<u64>,
    allow_errors: bool,
}

impl TestDaemonBuilder {
    /// Settings of every fake CLI this daemon starts; a session's directory may override them with a file of its own.
    pub(crate) fn fake(mut self, settings: Value) -> Self {
        self.fake = Some(settings);
        self
    }

    /// A file in HOME that is there before the daemon starts, with its folders.
    pub(crate) fn home_file(mut self, path: impl Into<PathBuf>, text: &str) -> Self {
        self.home_files.push((path.into(), text.to_owned()));
        self
    }

    /// One more argument of `trunkline serve`.
    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// One more variable of the daemon's environment, such as a `TRUNKLINE_<SECTION>_<KEY>` setting.
    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// A program, with its arguments, that becomes the daemon: the daemon's command line follows.
    pub(crate) fn launcher(mut self, launcher: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.launcher = launcher.into_iter().map(Into::into).collect();
        self
    }

    /// Another CLI binary, such as one that does not exist.
    pub(crate) fn claude(mut self, path: impl Into<PathBuf>) -> Self {
        self.claude = Some(path.into());
        self
    }

    /// The CLI is named nowhere: the daemon searches it, in this directory first.
    pub(crate) fn claude_in(mut self, dir: &Path) -> Self {
        self.claude = None;
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let others = std::env::split_paths(&inherited).filter(|dir| !dir.join("claude").exists());
        let path = std::env::join_paths([dir.to_owned()].into_iter().chain(others)).unwrap();
        self.env("PATH", path)
    }

    /// The data directory is a disk of its own, of so many bytes. The test must have the right to mount one.
    pub(crate) fn data_disk(mut self, bytes: u64) -> Self {
        self.data_disk = Some(bytes);
        self
    }

    /// The test makes the daemon log errors on purpose.
    pub(crate) fn allow_errors(mut self) -> Self {
        self.allow_errors = true;
        self
    }

    /// Starts the daemon and waits until it answers.
    pub(crate) async fn start(self) -> TestDaemon {
        // The real path: a session's directory is resolved, and the check for leftovers compares paths.
        let root = tempfile::Builder::new().prefix("tl-").tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        for name in ["data", "home", "work"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        if let Some(bytes) = self.data_disk {
            let size = format!("size={bytes}");
            let (kind, flags) = (Some("tmpfs"), MsFlags::empty());
            mount(kind, &path.join("data"), kind, flags, Some(size.as_str()))
                .expect("mount a disk for the data");
        }
        if let Some(settings) = &self.fake {
            fake_settings(&path.join("home"), settings);
        }
        for (file, text) in &self.home_files {
            let file = path.join("home").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let mut daemon = TestDaemon {
            plan: self,
            _root: root,
            path,
            child: None,
            url: String::new(),
            token: String::new(),
        };
        daemon.start().await;
        daemon
    }
}

/// A running daemon. Dropping it stops it and fails the test if a process is left or an error was logged.
#[derive(Debug)]
pub(crate) struct TestDaemon {
    plan: TestDaemonBuilder,
    _root: TempDir,
    path: PathBuf,
    child: Option<Child>,
    url: String,
    token: String,
}

impl TestDaemon {
    /// A daemon whose sessions are fake CLIs.
    pub(crate) fn with_fake() -> TestDaemonBuilder {
        Self::builder(fake_claude(), "http://127.0.0.1:9")
    }

    /// A daemon whose sessions are real CLIs that talk to the stand-in API.
    pub(crate) fn with_real(api: &ModelApi) -> TestDaemonBuilder {
        Self::builder(real_claude(), api.url())
    }

    fn builder(claude: PathBuf, api_url: &str) -> TestDaemonBuilder {
        TestDaemonBuilder {
            claude: Some(claude),
            api_url: api_url.to_owned(),
            fake: None,
            home_files: Vec::new(),
            args: Vec::new(),
            // Most tests look at the leftovers of a death; tests of restarts say how many they want. Turns that never
            // end are common; tests of the shutdown say how long they are waited for.
            env: vec![
                ("TRUNKLINE_RESTART_MAX_RESTARTS".into(), "0".into()),
                ("TRUNKLINE_STOP_FINISH_TURNS_MS".into(), "0".into()),
            ],
            launcher: Vec::new(),
            data_disk: None,
            allow_errors: false,
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        let child = self.child.as_ref().expect("the daemon runs");
        i32::try_from(child.id()).unwrap()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The token of viewers.
    pub(crate) fn viewer_token(&self) -> String {
        let text = fs::read_to_string(self.data_dir().join("viewer-token")).unwrap();
        text.trim().to_owned()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.path.join("data")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// A new directory for a session to work in.
    pub(crate) fn work_dir(&self, name: &str) -> PathBuf {
        let dir = self.path.join("work").join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    pub(crate) fn rest(&self) -> Rest {
        Rest::new(&self.url, Some(&self.token))
    }

    /// Attaches to a session; with `after` the history from there comes first.
    pub(crate) async fn attach(&self, session: &str, after: Option<u64>) -> Ws {
        let query = after.map_or(String::new(), |seq| format!("?after={seq}"));
        let path = format!("/v1/sessions/{session}/ws{query}");
        Ws::try_connect(&self.url, &path, &["trunkline.v1"], Some(&self.token))
            .await
            .unwrap()
    }

    /// Attaches a client that names itself.
    pub(crate) async fn attach_as(&self, client: &str, session: &str, after: Option<u64>) -> Ws {
        let after = after.map_or(String::new(), |seq| format!("&after={seq}"));
        let path = format!("/v1/sessions/{session}/ws?client_id={client}{after}");
        Ws::try_connect(&self.url, &path, &["trunkline.v1"], Some(&self.token))
            .await
            .unwrap()
    }

    /// The daemon's standard error over all its lives.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path.join("daemon.log")).unwrap_or_default()
    }

    /// The journal of a session as it lies on the disk.
    pub(crate) fn journal(&self, session: &str) -> String {
        let dir = self.data_dir().join("sessions").join(session);
        let mut segments: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "ndjson"))
            .collect();
        segments.sort();
        segments
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect()
    }

    /// The database file.
    pub(crate) fn database(&self) -> PathBuf {
        self.data_dir().join("trunkline.db")
    }

    /// Live processes of this daemon's sessions: keepers, CLIs and what those started.
    pub(crate) fn session_processes(&self) -> Vec<proc::Process> {
        let daemon = self.child.as_ref().map(|child| child.id());
        let mut found = proc::below(&self.path);
        found.retain(|process| u32::try_from(process.pid).ok() != daemon);
        found
    }

    /// SIGKILL: sessions live on.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("the daemon runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM, and the wait for an orderly end.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the daemon runs");
        proc::signal(i32::try_from(child.id()).unwrap(), Signal::SIGTERM);
        wait_exit(&mut child)
            .unwrap_or_else(|| panic!("no end within {STOP_LIMIT:?} of SIGTERM\n{}", self.log()))
    }

    /// Sends a signal to the daemon.
    pub(crate) fn signal(&self, number: Signal) {
        proc::signal(self.pid(), number);
    }

    /// The wait for the end of a daemon that was told to end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the daemon runs");
        wait_exit(&mut child).unwrap_or_else(|| panic!("no end within {STOP_LIMIT:?}\n{}", self.log()))
    }

    /// Starts again on the same data; the address changes.
    pub(crate) async fn start(&mut self) {
        self.launch();
        self.ready().await;
    }

    /// Waits until a launched daemon answers.
    pub(crate) async fn ready(&mut self) {
        if let Err(status) = self.ready_or_ended().await {
            panic!("the daemon ended at its start: {status}\n{}", self.log());
        }
    }

    /// Waits until a launched daemon answers, or has ended.
    pub(crate) async fn ready_or_ended(&mut self) -> Result<(), ExitStatus> {
        wait_for("the daemon answers", PATIENCE, async || {
            let child = self.child.as_mut().expect("the daemon was started");
            if let Some(status) = child.try_wait().unwrap() {
                self.child = None;
                return Some(Err(status));
            }
            (self.url, self.token) = self.probe().await?;
            Some(Ok(()))
        })
        .await
    }

    /// Starts the process again on the same data, and does not wait for it.
    pub(crate) fn launch(&mut self) {
        assert!(self.child.is_none(), "the daemon already runs");
        let data = self.data_dir();
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path.join("daemon.log"))
            .unwrap();
        let mut line = self.plan.launcher.iter().cloned().chain([trunkline().into()]);
        let mut command = Command::new(line.next().unwrap());
        command
            .args(line)
            .arg("serve")
            .args(["--listen", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(&data)
            .args(
                self.plan
                    .claude
                    .iter()
                    .flat_map(|path| [OsStr::new("--claude-bin"), path.as_os_str()]),
            )
            .args(&self.plan.args)
            .current_dir(&self.path)
            .env_clear()
            .envs(clean_env(&self.home(), &self.plan.api_url))
            .envs(self.plan.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // A signal to the test's terminal is not meant for the daemon.
            .process_group(0);
        self.child = Some(command.spawn().expect("start trunkline"));
    }

    /// The program with a command for the data of this daemon, in its environment.
    pub(crate) fn command(&self, command: &str) -> Command {
        let mut program = Command::new(trunkline());
        program
            .arg(command)
            .arg("--data-dir")
            .arg(self.data_dir())
            .current_dir(&self.path)
            .env_clear()
            .envs(clean_env(&self.home(), &self.plan.api_url))
            .envs(self.plan.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        program
    }

    /// Address and token once this life of the daemon is ready.
    async fn probe(&self) -> Option<(String, String)> {
        let pid = self.child.as_ref()?.id();
        let facts: Value = read_json(&self.data_dir().join("daemon.json"))?;
        if facts["pid"].as_u64() != Some(u64::from(pid)) {
            return None;
        }
        let url = facts["url"].as_str()?.to_owned();
        let token = fs::read_to_string(self.data_dir().join("token"))
            .ok()?
            .trim()
            .to_owned();
        let health = reqwest::Client::builder().no_proxy().build().unwrap();
        let response = health.get(format!("{url}/healthz")).send().await.ok()?;
        response.status().is_success().then_some((url, token))
    }

    /// Lines of the log that report errors.
    fn errors(&self) -> Vec<String> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.contains("ERROR"));
        lines.map(ToOwned::to_owned).collect()
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            proc::signal(i32::try_from(child.id()).unwrap(), Signal::SIGTERM);
            let ended = wait_exit(&mut child).is_some();
            if !ended {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            if !ended && !std::thread::panicking() {
                panic!("no end within {STOP_LIMIT:?} of SIGTERM\n{}", self.log());
            }
        }
        holds_within(LEFTOVER_LIMIT, || proc::below(&self.path).is_empty());
        let left = proc::below(&self.path);
        for process in &left {
            proc::signal(process.pid, Signal::SIGKILL);
        }
        if self.plan.data_disk.is_some() {
            // The directory below it is removed with the rest; what cannot be unmounted stays until the test ends.
            umount2(&self.data_dir(), MntFlags::MNT_DETACH).ok();
        }
        if std::thread::panicking() {
            eprintln!("log of the daemon:\n{}", self.log());
            return;
        }
        assert!(left.is_empty(), "processes are left: {left:#?}");
        let errors = self.errors();
        assert!(
            self.plan.allow_errors || errors.is_empty(),
            "errors were logged: {errors:#?}"
        );
    }
}

fn wait_exit(child: &mut Child) -> Option<ExitStatus> {
    let mut status = None;
    holds_within(STOP_LIMIT, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
