//! Owns socket activation: what was passed is listened on, survives the daemon, and is refused when it is of no use.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::{
            fs::PermissionsExt as _,
            net::{UnixListener, UnixStream},
        },
    },
    path::Path,
    process::{Command, Output, Stdio},
};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde_json::{Value, json};

use crate::{
    service::manager::Manager,
    support::{
        daemon::TestDaemon,
        programs::{clean_env, fake_claude, repository, trunkline},
        wait::{PATIENCE, wait_for},
    },
};

/// How a program is started that gets `file` as the first file, under `name`.
fn passing(name: &str, file: impl AsFd) -> Vec<String> {
    let file = file.as_fd();
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let script = repository("tests/programs/pass_sockets.py");
    let script = script.to_str().unwrap();
    let passed = format!("{name}={}", file.as_raw_fd());
    ["python3", script, &passed, "--"].map(str::to_owned).to_vec()
}

fn daemon_file(daemon: &TestDaemon) -> Value {
    serde_json::from_slice(&fs::read(daemon.data_dir().join("daemon.json")).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passed_socket_is_listened_on_and_clients_wait_over_a_restart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut daemon = TestDaemon::with_fake()
        .launcher(passing("http", &listener))
        .start()
        .await;
    assert_eq!(daemon.url(), format!("http://{address}"), "not that of --listen");
    assert_eq!(daemon_file(&daemon)["socket"], Value::Null);
    let session = daemon
        .rest()
        .create_ready(json!({ "cwd": daemon.work_dir("a") }))
        .await;
    daemon.rest().ask(&session, "hello").await;

    // The socket is none of the sessions' business.
    let inode = |pid: &str, fd: &str| fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok();
    let socket = inode("self", &listener.as_raw_fd().to_string()).unwrap();
    let held = |pid: i32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        files
            .flatten()
            .any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == socket))
    };
    assert!(held(daemon.pid()));
    for process in daemon.session_processes() {
        assert!(!held(process.pid), "{process:?}");
    }

    daemon.kill();
    let mut early = TcpStream::connect(address).unwrap();
    early
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    daemon.start().await;
    assert_eq!(daemon.url(), format!("http://{address}"));
    let mut answer = String::new();
    early.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    daemon.rest().ask(&session, "still there?").await;
}

/// The answer to a GET over a Unix socket.
fn ask_over(socket: &Path, path: &str, headers: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A socket that listens, with this mode.
fn socket(path: &Path, mode: u32) -> UnixListener {
    let listener = UnixListener::bind(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    listener
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unix_socket_is_served_beside_the_address() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [0o660, 0o606, 0o755] {
        let path = dir.path().join(format!("api-{mode:o}"));
        let listener = socket(&path, mode);
        let daemon = TestDaemon::with_fake()
            .launcher(passing("api", &listener))
            .start()
            .await;
        assert_eq!(daemon_file(&daemon)["socket"], path.to_str().unwrap());
        daemon.rest().get("/v1/sessions").await.expect(200);
        let token = format!("Authorization: Bearer {}\r\nHost: localhost\r\n", daemon.token());
        let answer = ask_over(&path, "/v1/sessions", &token);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let answer = ask_over(&path, "/v1/sessions", "Host: localhost\r\n");
        assert!(answer.starts_with("HTTP/1.1 401 "), "{mode:o}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_alone_can_use_a_unix_socket_needs_no_token_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api");
    let listener = socket(&path, 0o600);
    let daemon = TestDaemon::with_fake()
        .launcher(passing("api", &listener))
        .start()
        .await;
    let ask = |headers: &str| ask_over(&path, "/v1/sessions", headers);
    let answer = ask("Host: localhost\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // A viewer stays one there.
    let viewer = format!(
        "Host: localhost\r\nAuthorization: Bearer {}\r\n",
        daemon.viewer_token()
    );
    let answer = ask(&viewer);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = ask_over(&path, "/v1/daemon/configuration", &viewer);
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    // A request that a page of a browser could send is refused as everywhere.
    let answer = ask("Host: evil.example\r\n");
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    let answer = ask("Host: localhost\r\nOrigin: https://evil.example\r\n");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    // Over TCP nothing has changed.
    let url = format!("{}/v1/sessions", daemon.url());
    let status = reqwest::get(url).await.unwrap().status();
    assert_eq!(status, 401);
    // A restart hands the socket on.
    let before = daemon_file(&daemon)["started_at"].clone();
    daemon
        .rest()
        .post("/v1/daemon/restart", json!({}))
        .await
        .expect(202);
    wait_for("the restart", PATIENCE, async || {
        let file = fs::read(daemon.data_dir().join("daemon.json")).ok()?;
        let file: Value = serde_json::from_slice(&file).ok()?;
        (file["started_at"] != before).then_some(())
    })
    .await;
    let answer = ask("Host: localhost\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// A restart by itself hands on what the service manager passed, and tells it what happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passed_sockets_are_handed_on_over_a_restart_that_the_manager_is_told_of() {
    let mut manager = Manager::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api");
    let listener = UnixListener::bind(&path).unwrap();
    let daemon = TestDaemon::with_fake()
        .launcher(passing("api", &listener))
        .env("NOTIFY_SOCKET", &manager.socket)
        .env("TRUNKLINE_CLAUDE_ENV_ALLOW", "*")
        .start()
        .await;
    drop(listener);
    manager.until("READY=1").await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let before = daemon_file(&daemon);

    rest.post("/v1/daemon/restart", json!({})).await.expect(202);
    let mut told = manager.until("READY=1").await;
    let ready = told.pop().unwrap();
    assert!(ready.contains(&format!("MAINPID={}", daemon.pid())), "{ready}");
    let begin = told.iter().find(|it| it.starts_with("RELOADING=1\n")).unwrap();
    assert!(begin.contains("\nMONOTONIC_USEC="), "{begin}");
    assert!(told.iter().all(|it| !it.contains("STOPPING=1")), "{told:?}");

    let after = daemon_file(&daemon);
    for same in ["url", "socket", "pid"] {
        assert_eq!(after[same], before[same]);
    }
    assert_ne!(after["started_at"], before["started_at"]);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    rest.ask(&session, "still there?").await;
    // The daemon's own variables are handed on to the daemon, and to no session.
    rest.create_ready(json!({ "cwd": daemon.work_dir("b") })).await;
    for process in daemon.session_processes() {
        assert_eq!(process.env("TRUNKLINE_HANDOVER"), None, "{process:?}");
    }
}

/// Starts a daemon with a file that it is expected to refuse.
#[expect(clippy::disallowed_methods, reason = "starts the program under test")]
fn refused(name: &str, file: &impl AsFd) -> (Option<i32>, String) {
    let home = tempfile::tempdir().unwrap();
    let launcher = passing(name, file);
    let Output { status, stderr, .. } = Command::new(&launcher[0])
        .args(&launcher[1..])
        .arg(trunkline())
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(home.path().join("data"))
        .arg("--claude-bin")
        .arg(fake_claude())
        .env_clear()
        .envs(clean_env(home.path(), "http://127.0.0.1:9"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn what_cannot_be_listened_on_is_refused_by_name() {
    let (connected, _peer) = UnixStream::pair().unwrap();
    for (told, part) in [
        (refused("web", &File::open("/dev/null").unwrap()), "not a socket"),
        (refused("web", &connected), "does not listen"),
        (
            refused("web", &TcpListener::bind("0.0.0.0:0").unwrap()),
            "reachable from other machines",
        ),
    ] {
        let (code, told) = told;
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(part), "{told}");
        assert!(!told.contains("panicked"), "{told}");
    }
}
