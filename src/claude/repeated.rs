//! Owns which lines of the CLI say nothing that its whole messages do not say: the pieces of a message whose `assistant` lines
//! are all there, and signs of life of tools.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use super::{
    Envelope,
    facts::{Lifecycle, LifecycleState},
    scan,
};
use crate::{domain::Seq, json};

/// Reads lines in their order and keeps the numbers of those that are repeated.
#[derive(Debug, Default)]
pub struct Repeated {
    lines: HashSet<Seq>,
    bytes: u64,
    /// The message that comes in pieces, by the call of the sub-agent that says it.
    open: HashMap<String, Message>,
    /// Whether an earlier line that stays has begun the turn.
    has_turn: bool,
}

#[derive(Debug)]
struct Message {
    id: String,
    /// Its lines, and their size.
    lines: Vec<(Seq, u64)>,
    blocks: usize,
    /// Blocks that whole lines have.
    whole: usize,
    is_over: bool,
}

#[derive(Deserialize)]
struct Piece {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    id: Option<String>,
    #[serde(default)]
    content: Vec<serde::de::IgnoredAny>,
}

impl Repeated {
    /// The numbers of the lines so far that are repeated.
    pub const fn lines(&self) -> &HashSet<Seq> {
        &self.lines
    }

    /// Their size.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the next line, which takes so many bytes where it is kept.
    pub fn push(&mut self, seq: Seq, line: &[u8], bytes: u64) {
        let Some(line) = scan(line) else { return };
        let speaker = line.parent_tool_use_id.as_deref().unwrap_or_default().to_owned();
        match line.kind.as_deref() {
            Some("stream_event") => self.on_piece(&line, speaker, (seq, bytes)),
            Some("assistant") => self.on_whole(&line, &speaker),
            Some("tool_progress") if json::member_bool(line.line, "heartbeat") == Some(true) => {
                self.take([(seq, bytes)]);
            }
            Some("system") if line.is_system("init") => self.has_turn = true,
            Some("system") if line.is_system("thinking_tokens") => {
                if let Some(message) = self.open.get_mut(&speaker).filter(|message| !message.is_over) {
                    message.lines.push((seq, bytes));
                }
            }
            Some("command_lifecycle") => {
                let state = Lifecycle::read(&line).map(|line| line.state);
                self.has_turn |= matches!(state, Some(LifecycleState::Started));
            }
            Some("result") => {
                self.has_turn = false;
                self.open.clear();
            }
            _ => {}
        }
    }

    /// The process ended: what was half said stays so.
    pub fn end_run(&mut self) {
        self.has_turn = false;
        self.open.clear();
    }

    fn on_piece(&mut self, line: &Envelope<'_>, speaker: String, place: (Seq, u64)) {
        // A line that stays may be the first of its turn.
        let had_turn = std::mem::replace(&mut self.has_turn, true);
        let piece =
            json::member(line.line, "event").and_then(|event| serde_json::from_str::<Piece>(event).ok());
        let Some(piece) = piece else { return };
        if piece.kind == "message_start" {
            self.open.remove(&speaker);
            let Some(id) = piece.message.and_then(|message| message.id) else {
                return;
            };
            let message = Message {
                id,
                lines: had_turn.then_some(place).into_iter().collect(),
                blocks: 0,
                whole: 0,
                is_over: false,
            };
            self.open.insert(speaker, message);
            return;
        }
        let Some(message) = self.open.get_mut(&speaker).filter(|message| !message.is_over) else {
            return;
        };
        match piece.kind.as_str() {
            "content_block_start" => message.blocks += 1,
            "message_stop" => message.is_over = true,
            "content_block_delta" | "content_block_stop" | "message_delta" => {}
            _ => return,
        }
        message.lines.push(place);
        self.settle(&speaker);
    }

    fn on_whole(&mut self, line: &Envelope<'_>, speaker: &str) {
        self.has_turn = true;
        let said = json::member(line.line, "message")
            .and_then(|message| serde_json::from_str::<Named>(message).ok());
        let (Some(said), Some(message)) = (said, self.open.get_mut(speaker)) else {
            return;
        };
        if said.id.as_deref() == Some(message.id.as_str()) {
            message.whole += said.content.len();
            self.settle(speaker);
        }
    }

    /// Takes the lines of a message that is over and whole.
    fn settle(&mut self, speaker: &str) {
        let is_done = |message: &&Message| message.is_over && message.whole >= message.blocks;
        if self.open.get(speaker).filter(is_done).is_some()
            && let Some(message) = self.open.remove(speaker)
        {
            self.take(message.lines);
        }
    }

    fn take(&mut self, lines: impl IntoIterator<Item = (Seq, u64)>) {
        for (seq, bytes) in lines {
            self.bytes += bytes;
            self.lines.insert(seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(lines: &[&str]) -> Vec<u64> {
        let mut repeated = Repeated::default();
        for (seq, line) in (1..).zip(lines) {
            repeated.push(Seq::new(seq), line.as_bytes(), 10);
        }
        assert_eq!(repeated.bytes(), repeated.lines().len() as u64 * 10);
        let mut lines: Vec<_> = repeated.lines().iter().map(|seq| seq.get()).collect();
        lines.sort_unstable();
        lines
    }

    const INIT: &str = r#"{"type":"system","subtype":"init"}"#;
    const BEGIN: &str =
        r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","content":[]}}}"#;
    const BLOCK: &str = r#"{"type":"stream_event","event":{"type":"content_block_start","index":0}}"#;
    const DELTA: &str = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0}}"#;
    const END: &str = r#"{"type":"stream_event","event":{"type":"message_stop"}}"#;
    const WHOLE: &str = r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text"}]}}"#;

    #[test]
    fn the_pieces_of_a_whole_message_are_repeated() {
        assert_eq!(repeated(&[INIT, BEGIN, BLOCK, DELTA, WHOLE, END]), [2, 3, 4, 6]);
        // The whole line may come last.
        assert_eq!(repeated(&[INIT, BEGIN, BLOCK, DELTA, END, WHOLE]), [2, 3, 4, 5]);
    }

    #[test]
    fn pieces_without_their_whole_stay() {
        assert!(repeated(&[INIT, BEGIN, BLOCK, DELTA]).is_empty());
        assert!(repeated(&[INIT, BEGIN, BLOCK, DELTA, END]).is_empty());
        // One of two blocks.
        assert!(repeated(&[INIT, BEGIN, BLOCK, WHOLE, BLOCK, DELTA, END]).is_empty());
        let other = r#"{"type":"assistant","message":{"id":"m2","content":[{"type":"text"}]}}"#;
        assert!(repeated(&[INIT, BEGIN, BLOCK, DELTA, other, END]).is_empty());
        let of_agent =
            r#"{"type":"assistant","parent_tool_use_id":"t","message":{"id":"m1","content":[{}]}}"#;
        assert!(repeated(&[INIT, BEGIN, BLOCK, of_agent, END]).is_empty());
    }

    #[test]
    fn the_line_that_begins_a_turn_stays() {
        assert_eq!(repeated(&[BEGIN, BLOCK, WHOLE, END]), [2, 4]);
        let result = r#"{"type":"result"}"#;
        assert_eq!(repeated(&[INIT, result, BEGIN, BLOCK, WHOLE, END]), [4, 6]);
    }

    #[test]
    fn signs_of_life_are_repeated() {
        let beat = r#"{"type":"tool_progress","tool_use_id":"t-heartbeat-1","heartbeat":true}"#;
        let progress = r#"{"type":"tool_progress","tool_use_id":"t"}"#;
        let tokens = r#"{"type":"system","subtype":"thinking_tokens"}"#;
        assert_eq!(repeated(&[INIT, beat, progress]), [2]);
        assert_eq!(
            repeated(&[INIT, BEGIN, tokens, BLOCK, WHOLE, END, tokens]),
            [2, 3, 4, 6]
        );
    }
}
