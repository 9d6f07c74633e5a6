//! Owns framing: bytes in any pieces become lines, split on 0x0A only. A bad line is an item, never the end of the stream.

mod decoder;
mod json;
pub(crate) mod scan;

pub use decoder::{Decoder, Item, OVERSIZED_HEAD_BYTES};
pub use json::{has_type, is_json, is_json_object, is_object};
