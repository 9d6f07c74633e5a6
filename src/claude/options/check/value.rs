//! Owns the checks of single values: names, paths, texts, lists, JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Checked, InvalidOption, invalid};
use crate::json::{self, JsonObject};

/// Longest name (a model, an agent, a tool), in characters, as JSON Schema counts them.
pub(super) const MAX_NAME_CHARS: usize = 1024;
/// Longest path, in bytes: Linux takes no longer one.
pub(super) const MAX_PATH_BYTES: usize = 4095;
/// Longest text that becomes one item of argv or of the environment, in bytes. Linux refuses items over 128 KiB.
pub(super) const MAX_ITEM_BYTES: usize = 100 * 1024;
/// Most items of one list or map.
pub(super) const MAX_ITEMS: usize = 1000;
/// Longest text or JSON that goes by file or over stdin, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

pub(super) fn optional<T: ?Sized>(value: Option<&T>, check: impl FnOnce(&T) -> Checked) -> Checked {
    value.map_or(Ok(()), check)
}

/// Checks each item; the whole list must fit one item of argv.
pub(super) fn list(field: &str, items: Option<&[String]>, check: impl Fn(&str, &str) -> Checked) -> Checked {
    let items = items.unwrap_or_default();
    few(field, items.len())?;
    for (index, item) in items.iter().enumerate() {
        check(&format!("{field}[{index}]"), item)?;
    }
    if items.iter().map(|item| item.len() + 1).sum::<usize>() > MAX_ITEM_BYTES {
        return Err(too_long(field, MAX_ITEM_BYTES));
    }
    Ok(())
}

pub(super) fn entries<'a, V>(
    field: &str,
    map: Option<&'a BTreeMap<String, V>>,
) -> Result<impl Iterator<Item = (&'a String, &'a V)> + use<'a, V>, InvalidOption> {
    few(field, map.map_or(0, BTreeMap::len))?;
    Ok(map.into_iter().flatten())
}

pub(super) fn few(field: &str, count: usize) -> Checked {
    if count > MAX_ITEMS {
        return Err(invalid(field, format!("has more than {MAX_ITEMS} items")));
    }
    Ok(())
}

pub(super) fn too_long(field: &str, limit: usize) -> InvalidOption {
    invalid(field, format!("is longer than {limit} bytes"))
}

pub(super) fn short(field: &str, value: &str, limit: usize) -> Checked {
    if value.len() > limit {
        return Err(too_long(field, limit));
    }
    Ok(())
}

/// A text that is one line and not empty.
pub(super) fn single_line(field: &str, value: &str, limit: usize) -> Checked {
    if value.trim().is_empty() {
        return Err(invalid(field, "is empty"));
    }
    if value.chars().any(char::is_control) {
        return Err(invalid(
            field,
            "must not contain control characters or line breaks",
        ));
    }
    short(field, value, limit)
}

/// Whether a text is one line of at most so many bytes, and not empty: what a flag can say.
pub(in crate::claude) fn is_one_line(value: &str, limit: usize) -> bool {
    single_line("", value, limit).is_ok()
}

/// Whether a launch takes the name, as that of a model.
pub(in crate::claude) fn is_name(value: &str) -> bool {
    name("", value).is_ok()
}

pub(super) fn name(field: &str, value: &str) -> Checked {
    single_line(field, value, MAX_ITEM_BYTES)?;
    if value.chars().nth(MAX_NAME_CHARS).is_some() {
        return Err(invalid(
            field,
            format!("is longer than {MAX_NAME_CHARS} characters"),
        ));
    }
    Ok(())
}

/// A name that goes into a comma-joined list.
pub(super) fn word(field: &str, value: &str) -> Checked {
    name(field, value)?;
    if value.contains(|c: char| c == ',' || c.is_whitespace()) {
        return Err(invalid(field, "must not contain commas or white space"));
    }
    Ok(())
}

/// A tool or a permission rule such as `Bash(git log, git show)`.
///
/// The CLI splits lists at commas and white space outside parentheses, and to it the first closing parenthesis ends
/// them: `Bash(f (x), y)` would become two rules.
pub(super) fn rule(field: &str, value: &str) -> Checked {
    single_line(field, value, MAX_ITEM_BYTES)?;
    let mut inside = false;
    for c in value.chars() {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            c if !inside && (c == ',' || c.is_whitespace()) => {
                return Err(invalid(
                    field,
                    "must not contain commas or white space outside parentheses, or after an inner pair of them",
                ));
            }
            _ => {}
        }
    }
    if inside {
        return Err(invalid(field, "has an opening parenthesis without a closing one"));
    }
    Ok(())
}

pub(super) fn path(field: &str, value: &str) -> Checked {
    single_line(field, value, MAX_PATH_BYTES)?;
    if !value.starts_with('/') {
        return Err(invalid(field, "must be an absolute path"));
    }
    Ok(())
}

/// A text of any number of lines that is not empty.
pub(super) fn text(field: &str, value: &str) -> Checked {
    if value.trim().is_empty() {
        return Err(invalid(field, "is empty"));
    }
    short(field, value, MAX_TEXT_BYTES)
}

pub(super) fn prompt_blocks(field: &str, blocks: &[String]) -> Checked {
    few(field, blocks.len())?;
    if blocks.is_empty() {
        return Err(invalid(field, "is empty; use an empty text for an empty prompt"));
    }
    if blocks.iter().map(String::len).sum::<usize>() > MAX_TEXT_BYTES {
        return Err(too_long(field, MAX_TEXT_BYTES));
    }
    Ok(())
}

pub(super) fn object(field: &str, value: Option<&JsonObject>) -> Checked {
    optional(value, |value| {
        short(field, value.get(), MAX_TEXT_BYTES)?;
        // Some objects are merged with ours later on; what could not be read then would be lost without a word.
        match serde_json::from_str::<Map<String, Value>>(value.get()) {
            Ok(_) => Ok(()),
            Err(_) => Err(invalid(
                field,
                "nests too deep, or has text that is not valid Unicode or a number that is too large",
            )),
        }
    })
}

/// Newer kinds of servers pass; the known ones must have what the CLI needs.
pub(super) fn mcp_server(field: &str, config: &JsonObject) -> Checked {
    object(field, Some(config))?;
    let kind = match config.member("type") {
        None => "stdio".into(),
        Some(kind) => {
            json::string(kind).ok_or_else(|| invalid(format!("{field}.type"), "must be a string"))?
        }
    };
    let needed = match kind.as_ref() {
        "stdio" => "command",
        "http" | "sse" => "url",
        "sdk" => {
            return Err(invalid(
                format!("{field}.type"),
                "servers inside a client belong into sdk_mcp_servers",
            ));
        }
        _ => return Ok(()),
    };
    let value = config.member(needed).and_then(json::string).unwrap_or_default();
    single_line(&format!("{field}.{needed}"), &value, MAX_ITEM_BYTES)
}
