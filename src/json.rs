//! Owns JSON as text: its grammar, raw members and values without decoding the rest, and objects that keep their bytes.

mod members;
mod read;
pub(crate) mod scan;
pub mod validate;

pub use members::JsonObject;
pub(crate) use members::{
    boolean, count, decode_lossy, float, for_each_member, is_object, items, members, string,
};
pub(crate) use read::{member, member_bool, member_count, member_text, texts};
