//! Owns what is typed where there is no line editor: whole lines, read by a thread, as reading a terminal cannot be
//! cancelled.
//!
//! A line belongs to the question that was on the screen when it was ended. Input that is pending when another one comes up is
//! dropped, so that no answer meets a question it was not typed for.

use std::{
    io::{self, BufRead as _},
    sync::Arc,
};

use nix::sys::termios::{FlushArg, tcflush};
use tokio::sync::mpsc;

use super::board::{Board, Key, Typed};

/// Lines typed ahead before the reader waits.
const TYPED_AHEAD: usize = 64;

/// The lines of a terminal.
#[derive(Debug)]
pub(in crate::cli) struct Keyboard {
    lines: mpsc::Receiver<Typed>,
}

impl Keyboard {
    /// Starts the reader. It ends with the process, or when stdin does.
    pub(in crate::cli) fn start(board: &Arc<Board>) -> Self {
        let (sender, lines) = mpsc::channel(TYPED_AHEAD);
        let board = Arc::clone(board);
        std::thread::spawn(move || {
            let mut stdin = io::stdin().lock();
            loop {
                let mut line = String::new();
                // Text that Ctrl-D ended was not sent.
                if stdin.read_line(&mut line).is_err() || !line.ends_with('\n') {
                    return;
                }
                line.pop();
                let asked = board.asked();
                let key = Key::Line(line);
                if sender.blocking_send(Typed { asked, key }).is_err() {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// Another question is open: what is half typed is no answer to it.
    pub(in crate::cli) fn turn_over(&self) {
        // No terminal, nothing pending.
        let _nothing_typed = tcflush(io::stdin(), FlushArg::TCIFLUSH);
    }

    /// The next line, or Ctrl-D.
    ///
    /// CANCEL-SAFETY: no line is lost.
    pub(in crate::cli) async fn typed(&mut self) -> Typed {
        self.lines.recv().await.unwrap_or(Typed {
            asked: None,
            key: Key::Leave,
        })
    }
}
