//! Owns messages that came as stream deltas only.

use serde_json::{Map, Value, value::RawValue};

use crate::domain::{Seq, Timestamp};

/// A message of the main conversation whose deltas are being read.
#[derive(Debug)]
pub(super) struct Streaming {
    pub(super) message_id: String,
    pub(super) seq: Seq,
    pub(super) at: Timestamp,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    value: Map<String, Value>,
    /// A tool's input comes as pieces of JSON text.
    input: String,
}

impl Streaming {
    /// Begins with a `message_start` event.
    pub(super) fn start(event: &Value, seq: Seq, at: Timestamp) -> Option<Self> {
        let message_id = event.pointer("/message/id")?.as_str()?.to_owned();
        Some(Self {
            message_id,
            seq,
            at,
            blocks: Vec::new(),
        })
    }

    /// Adds a `content_block_start` or `content_block_delta` event; others change nothing.
    pub(super) fn add(&mut self, event: &Value) {
        if let Some(Value::Object(block)) = event.get("content_block") {
            self.blocks.push(Block {
                value: block.clone(),
                input: String::new(),
            });
            return;
        }
        let (Some(block), Some(delta)) = (self.blocks.last_mut(), event.get("delta")) else {
            return;
        };
        for name in ["text", "thinking", "signature"] {
            let Some(more) = delta.get(name).and_then(Value::as_str) else {
                continue;
            };
            match block.value.get_mut(name) {
                Some(Value::String(text)) => text.push_str(more),
                _ => {
                    block.value.insert(name.to_owned(), more.into());
                }
            }
        }
        if let Some(more) = delta.get("partial_json").and_then(Value::as_str) {
            block.input.push_str(more);
        }
    }

    /// The content blocks as the whole message would have them.
    pub(super) fn blocks(self) -> Vec<Box<RawValue>> {
        self.blocks
            .into_iter()
            .filter_map(|mut block| {
                if let Ok(input) = serde_json::from_str::<Value>(&block.input) {
                    block.value.insert("input".to_owned(), input);
                }
                serde_json::value::to_raw_value(&block.value).ok()
            })
            .collect()
    }
}
