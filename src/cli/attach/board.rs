//! Owns what the reader of keys and the rest of `attach` share: the question that is open, the sign of the prompt, and the
//! words that can be completed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::words::escaped;

/// The typed text, and its question.
#[derive(Debug)]
pub(in crate::cli) struct Typed {
    /// The question that was open when the prompt was painted; `None` for a message.
    pub(in crate::cli) asked: Option<u64>,
    /// The typed text.
    pub(in crate::cli) key: Key,
}

/// A line or a key.
#[derive(Debug)]
pub(in crate::cli) enum Key {
    /// A line, or several that were pasted.
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Esc.
    Escape,
    /// Ctrl-D.
    Leave,
    /// Nothing can be typed any more.
    Failed(String),
}

/// The shared state.
#[derive(Debug, Default)]
pub(in crate::cli) struct Board(Mutex<Content>);

#[derive(Debug, Default)]
struct Content {
    asked: Option<u64>,
    sign: String,
    words: Vec<String>,
}

impl Board {
    // No holder panics; if one did, what is here is still whole.
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The question that what is typed now would answer.
    pub(in crate::cli) fn asked(&self) -> Option<u64> {
        self.lock().asked
    }

    /// Opens a question, or goes back to messages. Whether that is a change.
    pub(in crate::cli) fn set_asked(&self, asked: Option<u64>) -> bool {
        let before = std::mem::replace(&mut self.lock().asked, asked);
        before != asked
    }

    /// The sign before the line that is typed.
    pub(in crate::cli) fn sign(&self) -> String {
        self.lock().sign.clone()
    }

    /// Changes the sign. Whether it was another one.
    pub(in crate::cli) fn set_sign(&self, sign: String) -> bool {
        // Models, modes and tools are named by the agent.
        let sign = escaped(&sign);
        let mut content = self.lock();
        let is_new = content.sign != sign;
        content.sign = sign;
        is_new
    }

    /// Adds words that can be completed.
    pub(in crate::cli) fn add_words(&self, words: impl IntoIterator<Item = String>) {
        let mut content = self.lock();
        // The editor paints them as they are, and the agent names some of them.
        content
            .words
            .extend(words.into_iter().filter(|word| escaped(word) == *word));
        content.words.sort();
        content.words.dedup();
    }

    /// The words that begin so. Only lines with a slash at their beginning are completed.
    pub(in crate::cli) fn words(&self, begun: &str) -> Vec<String> {
        if !begun.starts_with('/') {
            return Vec::new();
        }
        let content = self.lock();
        let is_argument = begun.contains(' ');
        let found = content.words.iter().filter(|word| word.starts_with(begun));
        found
            .filter(|word| is_argument || !word.contains(' '))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_agent_cannot_drive_the_terminal() {
        let board = Board::default();
        board.add_words([
            "/fine".to_owned(),
            "/fi\x1b[2J".to_owned(),
            "/fi\u{202e}x".to_owned(),
        ]);
        assert_eq!(board.words("/fi"), ["/fine"]);
        assert!(board.set_sign("idle | o\x1b[2Jpus".to_owned()));
        assert_eq!(board.sign(), "idle | o\\u{1b}[2Jpus");
    }

    #[test]
    fn words_are_completed_behind_a_slash() {
        let board = Board::default();
        board.add_words(["/mode".to_owned(), "/model".to_owned(), "/attach 0196".to_owned()]);
        assert_eq!(board.words("/mo"), ["/mode", "/model"]);
        assert_eq!(board.words("/attach 0"), ["/attach 0196"]);
        assert!(board.words("/").len() == 2 && board.words("mo").is_empty() && board.words("").is_empty());
    }
}
