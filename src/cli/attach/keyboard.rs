//! Owns what is typed: whole lines, read by a thread, as reading a terminal cannot be cancelled.
//!
//! A line belongs to the question that was on the screen when it was ended. What is pending when another one comes up is
//! dropped, so that no answer meets a question it was not typed for.

use std::{
    io::{self, BufRead as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use nix::sys::termios::{FlushArg, tcflush};
use tokio::sync::mpsc;

/// Lines typed ahead before the reader waits.
const TYPED_AHEAD: usize = 64;

/// The lines of a terminal.
#[derive(Debug)]
pub(super) struct Keyboard {
    lines: mpsc::Receiver<(u64, String)>,
    /// How many times the question has changed.
    question: Arc<AtomicU64>,
}

impl Keyboard {
    /// Starts the reader. It ends with the process, or when stdin does.
    pub(super) fn start() -> Self {
        let (sender, lines) = mpsc::channel(TYPED_AHEAD);
        let question = Arc::new(AtomicU64::new(0));
        let asked = Arc::clone(&question);
        std::thread::spawn(move || {
            let mut stdin = io::stdin().lock();
            loop {
                let mut line = String::new();
                // Text that Ctrl-D ended was not sent.
                if stdin.read_line(&mut line).is_err() || !line.ends_with('\n') {
                    return;
                }
                line.pop();
                let asked = asked.load(Ordering::SeqCst);
                if sender.blocking_send((asked, line)).is_err() {
                    return;
                }
            }
        });
        Self { lines, question }
    }

    /// Another question is to be shown: what was typed so far is no answer to it.
    pub(super) fn forget(&self) {
        self.question.fetch_add(1, Ordering::SeqCst);
        // No terminal, nothing pending.
        let _nothing_typed = tcflush(io::stdin(), FlushArg::TCIFLUSH);
    }

    /// The next line; `None` after Ctrl-D.
    ///
    /// CANCEL-SAFETY: no line is lost but those that were typed for a question that is gone.
    pub(super) async fn line(&mut self) -> Option<String> {
        loop {
            let (question, line) = self.lines.recv().await?;
            if question == self.question.load(Ordering::SeqCst) {
                return Some(line);
            }
        }
    }
}
