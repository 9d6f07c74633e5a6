//! Owns a stand-in for the service manager: the socket on which it is told things.

use std::{os::unix::net::UnixDatagram, path::PathBuf, time::Duration};

use tempfile::TempDir;
use tokio::sync::mpsc::{Receiver, channel};

use crate::support::wait::{PATIENCE, wait_for};

/// More messages than a test lets pass unread.
const UNREAD: usize = 4096;

/// The mark that a manager sends itself.
const MARK: &str = "UP_TO_HERE=1";

/// A service manager that listens.
#[derive(Debug)]
pub(crate) struct Manager {
    _dir: TempDir,
    pub(crate) socket: PathBuf,
    messages: Receiver<String>,
}

impl Manager {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let (sender, messages) = channel(UNREAD);
        // It is read all the time, so that the daemon never waits for the test.
        std::thread::spawn(move || {
            let mut buffer = vec![0; 4096];
            loop {
                let told = match socket.recv(&mut buffer) {
                    Ok(length) => String::from_utf8_lossy(&buffer[..length]).into_owned(),
                    // Only shows whether the test is over.
                    Err(_) => String::new(),
                };
                if sender.blocking_send(told).is_err() {
                    return;
                }
            }
        });
        Self {
            _dir: dir,
            socket: path,
            messages,
        }
    }

    /// The messages sent since the last call, and until now.
    pub(crate) async fn told(&mut self) -> Vec<String> {
        // Messages keep their order, so this one is behind all of them.
        let ours = UnixDatagram::unbound().unwrap();
        ours.send_to(MARK.as_bytes(), &self.socket).unwrap();
        let mut told = self.until(MARK).await;
        told.pop();
        told
    }

    /// The messages up to the first one that has this line, and that one last.
    pub(crate) async fn until(&mut self, line: &str) -> Vec<String> {
        let mut before = Vec::new();
        let what = format!("the service manager is told {line}");
        wait_for(&what, PATIENCE, async || {
            loop {
                let message = self.messages.try_recv().ok()?;
                if message.is_empty() {
                    continue;
                }
                let found = has(&message, line);
                before.push(message);
                if found {
                    return Some(());
                }
            }
        })
        .await;
        before
    }
}

/// Whether a message has a line.
pub(crate) fn has(message: &str, line: &str) -> bool {
    message.lines().any(|it| it == line)
}
