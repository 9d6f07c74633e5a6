//! Owns single looks into raw values, where a whole reader would be too much.

use std::borrow::Cow;

use super::members::{boolean, count, decode_lossy, items, members};

/// The raw value of the member `name` of a raw object.
pub(crate) fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let [value] = members(object, [name])?;
    value
}

/// The texts in a raw list; `None` when it is no list of texts.
pub(crate) fn texts(list: &str) -> Option<Vec<String>> {
    let items = items(list)?.into_iter();
    items
        .map(|item| decode_lossy(item).map(Cow::into_owned))
        .collect()
}

/// The text of the member `name` of a raw object; `None` when it is missing or no string.
pub(crate) fn member_text(object: &str, name: &str) -> Option<String> {
    let [value] = members(object, [name])?;
    decode_lossy(value?).map(Cow::into_owned)
}

/// The count in the member `name` of a raw object; `None` when it is missing or no count.
pub(crate) fn member_count(object: &str, name: &str) -> Option<u64> {
    let [value] = members(object, [name])?;
    count(value?)
}

/// The boolean in the member `name` of a raw object; `None` when it is missing or no boolean.
pub(crate) fn member_bool(object: &str, name: &str) -> Option<bool> {
    let [value] = members(object, [name])?;
    boolean(value?)
}
