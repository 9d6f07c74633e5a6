//! Owns single looks into raw values, where a whole reader would be too much.

use std::borrow::Cow;

use super::{Envelope, json};

/// The raw value of the member `name` of a raw object.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let [value] = json::members(object, [name])?;
    value
}

/// Calls `visit` with the name and raw value of each member of a raw object; none when it is no object.
pub fn for_each_member(object: &str, visit: impl FnMut(&str, &str)) {
    // For a value that is no object, `visit` is never called.
    let _is_object = json::for_each_member(object, visit);
}

/// The texts in a raw list; `None` when it is no list of texts.
pub fn texts(list: &str) -> Option<Vec<String>> {
    let items = json::items(list)?.into_iter();
    items
        .map(|item| json::decode_lossy(item).map(Cow::into_owned))
        .collect()
}

/// The text of the member `name` of a raw object; `None` when it is missing or no string.
pub fn member_text(object: &str, name: &str) -> Option<String> {
    let [value] = json::members(object, [name])?;
    json::decode_lossy(value?).map(Cow::into_owned)
}

/// The count in the member `name` of a raw object; `None` when it is missing or no count.
pub fn member_count(object: &str, name: &str) -> Option<u64> {
    let [value] = json::members(object, [name])?;
    json::count(value?)
}

/// The boolean in the member `name` of a raw object; `None` when it is missing or no boolean.
pub fn member_bool(object: &str, name: &str) -> Option<bool> {
    let [value] = json::members(object, [name])?;
    json::boolean(value?)
}

/// The `subtype` of the request in a control request line.
pub fn request_subtype(line: &Envelope<'_>) -> Option<String> {
    member_text(line.request?, "subtype")
}

/// The raw member `name` of what a line says: of the payload of a control answer, else of the line itself.
pub fn said<'a>(line: &Envelope<'a>, name: &str) -> Option<&'a str> {
    let object = match line.response {
        Some(response) => json::members(response, ["response"]).and_then(|[payload]| payload)?,
        None => line.line,
    };
    let [value] = json::members(object, [name])?;
    value
}

/// The start of what a user line says, for lists: its text, cut after `max_chars`; empty when it holds no text.
pub fn prompt_start(line: &Envelope<'_>, max_chars: usize) -> String {
    prompt_text(line)
        .map(|text| text.chars().take(max_chars).collect())
        .unwrap_or_default()
}

fn prompt_text<'a>(line: &Envelope<'a>) -> Option<Cow<'a, str>> {
    let [message] = json::members(line.line, ["message"])?;
    let [content] = json::members(message?, ["content"])?;
    let content = content?;
    if let Some(text) = json::decode_lossy(content) {
        return Some(text);
    }
    json::items(content)?.into_iter().find_map(|block| {
        let [kind, text] = json::members(block, ["type", "text"])?;
        (json::string(kind?)? == "text")
            .then(|| json::decode_lossy(text?))
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::envelope::scan;

    fn start(content: &str) -> String {
        let line = format!(r#"{{"type":"user","message":{{"role":"user","content":{content}}}}}"#);
        prompt_start(&scan(line.as_bytes()).unwrap(), 5)
    }

    #[test]
    fn a_prompt_starts_with_its_text() {
        assert_eq!(start(r#""hello you""#), "hello");
        assert_eq!(
            start(r#"[{"type":"image"},{"type":"text","text":"see this"}]"#),
            "see t"
        );
        assert_eq!(start(r#"[{"type":"image"}]"#), "");
        assert_eq!(start(r#""\ud83d!""#), "\u{fffd}!");
    }
}
