//! Owns a terminal of a test: a program runs in it, keys are typed, and the screen is looked at. It answers what a
//! terminal is asked.

use std::{
    fs,
    io::{Read as _, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use nix::sys::signal::Signal;
use tempfile::NamedTempFile;

use crate::{
    console::common::to,
    support::{
        daemon::TestDaemon,
        proc,
        wait::{PATIENCE, wait_for},
    },
};

/// How a terminal is: its size, whether it answers where its cursor is, and whether its owner wants no colour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) rows: u16,
    pub(crate) columns: u16,
    pub(crate) has_cursor: bool,
    pub(crate) no_color: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            rows: 40,
            columns: 120,
            has_cursor: true,
            no_color: false,
        }
    }
}

/// Runs the rest of its arguments in a terminal of their own and passes keys and text through. The size of the terminal stands in
/// a file, which is read again at SIGUSR1.
const RELAY: &str = r"
import fcntl, os, pty, select, signal, struct, sys, termios
def resize(*_):
    rows, columns = map(int, open(sys.argv[1]).read().split())
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
begin, go = os.pipe()
pid, fd = pty.fork()
if pid == 0:
    os.read(begin, 1)
    os.execvp(sys.argv[2], sys.argv[2:])
resize()
signal.signal(signal.SIGUSR1, resize)
os.write(go, b'.')
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
    size: NamedTempFile,
}

impl Terminal {
    /// `trunkline` in a terminal.
    pub(crate) fn new(daemon: &TestDaemon, args: &[&str]) -> Self {
        Self::with(daemon, args, Look::default())
    }

    /// As [`Terminal::new`], in one that says nothing of its cursor.
    pub(crate) fn without_cursor(daemon: &TestDaemon, args: &[&str]) -> Self {
        let look = Look {
            has_cursor: false,
            ..Look::default()
        };
        Self::with(daemon, args, look)
    }

    /// `trunkline` in a terminal that is like this.
    pub(crate) fn with(daemon: &TestDaemon, args: &[&str], look: Look) -> Self {
        let plain = to(daemon, args);
        let size = NamedTempFile::new().unwrap();
        fs::write(&size, format!("{} {}", look.rows, look.columns)).unwrap();
        let mut command = Command::new("python3");
        command
            .arg("-c")
            .arg(RELAY)
            .arg(size.path())
            .arg(plain.get_program())
            .args(plain.get_args())
            .env_clear()
            .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("TERM", "xterm-256color")
            .envs(look.no_color.then_some(("NO_COLOR", "1")))
            .current_dir(plain.get_current_dir().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let keys = Arc::new(Mutex::new(child.stdin.take().unwrap()));
        let [rows, columns] = [look.rows, look.columns].map(|size| size.try_into().unwrap());
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
                    if asked.ends_with(b"\x1b[6n") && look.has_cursor {
                        let (row, column) = screen.lock().unwrap().screen().cursor_position();
                        let answer = format!("\x1b[{};{}R", row + 1, column + 1);
                        // A program that has ended asks no more.
                        let _gone = keys.lock().unwrap().write_all(answer.as_bytes());
                    }
                    // A question may begin anywhere in what is written at once.
                    if asked.len() > 16 {
                        asked.drain(..12);
                    }
                }
            }
        });
        Self {
            child,
            keys,
            screen,
            said,
            size,
        }
    }

    /// Changes the size of the terminal.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        fs::write(&self.size, format!("{rows} {columns}")).unwrap();
        let mut screen = self.screen.lock().unwrap();
        let [high, wide] = [rows, columns].map(|size| size.try_into().unwrap());
        screen.screen_mut().set_size(high, wide);
        proc::signal(i32::try_from(self.child.id()).unwrap(), Signal::SIGUSR1);
    }

    /// The screen, row by row, with marks around text that stands out.
    pub(crate) fn painted(&self) -> String {
        let parser = self.screen.lock().unwrap();
        let screen = parser.screen();
        let (rows, columns) = screen.size();
        let mut painted = String::new();
        for row in 0..rows.into() {
            let mut line = String::new();
            let mut last = String::new();
            for column in 0..columns.into() {
                let Some(cell) = screen.cell(row, column) else {
                    continue;
                };
                let style = style(cell);
                if style != last {
                    line.extend(["<", &style, ">"]);
                    last = style;
                }
                line.push_str(if cell.has_contents() { cell.contents() } else { " " });
            }
            painted.push_str(line.trim_end());
            painted.push('\n');
        }
        painted.trim_end().to_owned()
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
            let line = screen.screen().rows(0, u16::MAX).nth(usize::from(row));
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

/// How a cell is painted, in words; nothing for plain text.
fn style(cell: &vt100::Cell) -> String {
    let mut words = Vec::new();
    for (word, holds) in [
        ("bold", cell.bold()),
        ("dim", cell.dim()),
        ("italic", cell.italic()),
        ("underline", cell.underline()),
        ("inverse", cell.inverse()),
    ] {
        if holds {
            words.push(word.to_owned());
        }
    }
    match cell.fgcolor() {
        vt100::Color::Default => {}
        vt100::Color::Idx(number) => words.push(format!("colour {number}")),
        vt100::Color::Rgb(..) => words.push("own colour".to_owned()),
    }
    words.join(" ")
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Only what this test started; it has ended if the test went well.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
