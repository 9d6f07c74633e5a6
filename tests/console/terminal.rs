//! Owns a terminal of a test: a program runs in it, keys are typed, and the screen is looked at. It answers what a
//! terminal is asked.

use std::{
    io::{Read as _, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    common::to,
    support::{
        daemon::TestDaemon,
        wait::{PATIENCE, wait_for},
    },
};

/// Size of the screen.
const ROWS: u16 = 40;
const COLUMNS: u16 = 120;

/// Runs the rest of its arguments in a terminal of their own and passes keys and text through.
const RELAY: &str = r"
import fcntl, os, pty, select, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', ROWS, COLUMNS, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
os.set_blocking(fd, False)
keys, open_keys = b'', True
while True:
    reads = [fd] + ([0] if open_keys and len(keys) < 65536 else [])
    ready, writable, _ = select.select(reads, [fd] if keys else [], [])
    if 0 in ready:
        more = os.read(0, 65536)
        open_keys, keys = bool(more), keys + more
    if fd in writable:
        try:
            keys = keys[os.write(fd, keys[:1024]):]
        except BlockingIOError:
            pass
    if fd in ready:
        try:
            text = os.read(fd, 65536)
        except BlockingIOError:
            continue
        except OSError:
            break
        if not text:
            break
        while text:
            text = text[os.write(1, text):]
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// A terminal with a program in it.
pub(crate) struct Terminal {
    child: Child,
    keys: Arc<Mutex<ChildStdin>>,
    screen: Arc<Mutex<vt100::Parser>>,
    said: Arc<Mutex<String>>,
}

impl Terminal {
    /// `trunkline` in a terminal.
    pub(crate) fn new(daemon: &TestDaemon, args: &[&str]) -> Self {
        Self::start(daemon, args, true)
    }

    /// As [`Terminal::new`], in one that says nothing of its cursor.
    pub(crate) fn without_cursor(daemon: &TestDaemon, args: &[&str]) -> Self {
        Self::start(daemon, args, false)
    }

    fn start(daemon: &TestDaemon, args: &[&str], answers: bool) -> Self {
        let plain = to(daemon, args);
        let relay = RELAY
            .replace("ROWS", &ROWS.to_string())
            .replace("COLUMNS", &COLUMNS.to_string());
        let mut command = Command::new("python3");
        command
            .arg("-c")
            .arg(relay)
            .arg(plain.get_program())
            .args(plain.get_args())
            .env_clear()
            .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("TERM", "xterm-256color")
            .current_dir(plain.get_current_dir().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let keys = Arc::new(Mutex::new(child.stdin.take().unwrap()));
        let [rows, columns] = [ROWS, COLUMNS].map(|size| size.try_into().unwrap());
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let said = Arc::new(Mutex::new(String::new()));
        let mut output = child.stdout.take().unwrap();
        let reader = (Arc::clone(&keys), Arc::clone(&screen), Arc::clone(&said));
        std::thread::spawn(move || {
            let (keys, screen, said) = reader;
            let mut bytes = [0; 4096];
            let mut asked = Vec::new();
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                said.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
                for &byte in &bytes[..count] {
                    screen.lock().unwrap().process(&[byte]);
                    asked.push(byte);
                    if asked.ends_with(b"\x1b[6n") && answers {
                        let (row, column) = screen.lock().unwrap().screen().cursor_position();
                        let answer = format!("\x1b[{};{}R", row + 1, column + 1);
                        // A program that has ended asks no more.
                        let _gone = keys.lock().unwrap().write_all(answer.as_bytes());
                    }
                    if byte == b'n' || asked.len() > 16 {
                        asked.clear();
                    }
                }
            }
        });
        Self {
            child,
            keys,
            screen,
            said,
        }
    }

    /// The text of the screen.
    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// All that was ever written to the terminal.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Waits until something holds of the screen.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&str) -> bool + Sync) {
        let seen = async || holds(&self.screen()).then_some(());
        if tokio::time::timeout(PATIENCE, wait_for(what, PATIENCE * 2, seen))
            .await
            .is_err()
        {
            panic!("in vain until {what}:\n{}\n{:?}", self.screen(), self.said());
        }
    }

    /// Waits until a text is on the screen.
    pub(crate) async fn shows(&self, text: &str) {
        self.until(&format!("the screen shows {text:?}"), |screen| {
            screen.contains(text)
        })
        .await;
    }

    /// Waits until the line at the cursor ends so.
    pub(crate) async fn line(&self, end: &str) {
        let at_cursor = |_: &str| {
            let screen = self.screen.lock().unwrap();
            let (row, _) = screen.screen().cursor_position();
            let line = screen.screen().rows(0, COLUMNS).nth(usize::from(row));
            line.is_some_and(|line| line.trim_end().ends_with(end.trim_end()))
        };
        self.until(&format!("the cursor's line ends with {end:?}"), at_cursor)
            .await;
    }

    pub(crate) fn types(&self, keys: &str) {
        let mut typed = self.keys.lock().unwrap();
        typed.write_all(keys.as_bytes()).unwrap();
        typed.flush().unwrap();
    }

    /// Types a line, sees it, and ends it.
    pub(crate) async fn enters(&self, line: &str) {
        self.types(line);
        self.line(line).await;
        self.types("\r");
    }

    /// Waits for the end and gives the exit code.
    pub(crate) async fn code(&mut self) -> i32 {
        wait_for("the program ends", Duration::from_secs(60), async || {
            let ended = self.child.try_wait().unwrap();
            ended.map(|status| status.code().unwrap_or(-1))
        })
        .await
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Only what this test started; it has ended if the test went well.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
