//! Owns framing: bytes in any pieces become lines, split on 0x0A only. A bad line is an item, never the end of the stream.

mod decoder;

pub use decoder::{Decoder, Item, OVERSIZED_HEAD_BYTES};
