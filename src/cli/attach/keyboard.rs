//! Owns what is typed: whole lines, read by a thread, as reading a terminal cannot be cancelled.

use std::io::{self, BufRead as _};

use tokio::sync::mpsc;

/// Lines typed ahead before the reader waits.
const TYPED_AHEAD: usize = 64;

/// The lines of a terminal.
#[derive(Debug)]
pub(super) struct Keyboard {
    lines: mpsc::Receiver<String>,
}

impl Keyboard {
    /// Starts the reader. It ends with the process, or when stdin does.
    pub(super) fn start() -> Self {
        let (sender, lines) = mpsc::channel(TYPED_AHEAD);
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// The next line; `None` after Ctrl-D.
    ///
    /// CANCEL-SAFETY: no line is lost.
    pub(super) async fn line(&mut self) -> Option<String> {
        self.lines.recv().await
    }
}
