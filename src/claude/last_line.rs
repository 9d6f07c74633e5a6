//! Owns what an `assistant` line says last: its last line of text, or the tool that it calls and with what.

use std::borrow::Cow;

use super::Envelope;
use crate::{
    domain::{LastLineKind, last_line::short_line},
    json,
};

/// Members of a tool's input that tell most about a call, the most telling first.
const TELLING: [&str; 11] = [
    "command",
    "file_path",
    "notebook_path",
    "pattern",
    "url",
    "query",
    "description",
    "path",
    "skill",
    "prompt",
    "task_id",
];
/// More of a text is not looked at: it is cut to far less.
const MOST_BYTES: usize = 16 * 1024;

/// The kind, the text and the tool of the last thing that the main agent says or does in this line.
pub fn of(line: &Envelope<'_>) -> Option<(LastLineKind, String, Option<String>)> {
    if line.parent_tool_use_id.is_some() {
        return None;
    }
    let [message] = json::members(line.line, ["message"])?;
    let [content] = json::members(message?, ["content"])?;
    json::items(content?)?.into_iter().rev().find_map(of_block)
}

fn of_block(block: &str) -> Option<(LastLineKind, String, Option<String>)> {
    let [kind, text, name, input] = json::members(block, ["type", "text", "name", "input"])?;
    match json::string(kind?)?.as_ref() {
        "text" => {
            let text = json::decode_lossy(text?)?;
            let last = end_of(&text).lines().rev().find(|line| !line.trim().is_empty())?;
            Some((LastLineKind::Said, short_line(last), None))
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let name = json::decode_lossy(name?).map(Cow::into_owned)?;
            let called = input.and_then(told).unwrap_or_default();
            Some((LastLineKind::Tool, called, Some(short_line(&name))))
        }
        _ => None,
    }
}

/// The end of a text, as much as is looked at.
fn end_of(text: &str) -> &str {
    let mut start = text.len().saturating_sub(MOST_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The first line of the most telling member of a tool's input.
fn told(input: &str) -> Option<String> {
    let members = json::members(input, TELLING)?;
    let value = members.into_iter().flatten().find_map(json::decode_lossy)?;
    let first = value.lines().find(|line| !line.trim().is_empty())?;
    Some(short_line(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::scan;

    fn said(content: &str) -> Option<(LastLineKind, String, Option<String>)> {
        let line = format!(r#"{{"type":"assistant","message":{{"content":{content}}}}}"#);
        of(&scan(line.as_bytes()).unwrap())
    }

    #[test]
    fn the_last_line_of_a_text_is_told() {
        let content = r#"[{"type":"text","text":"First.\n\u0007The\tend.\n\n"}]"#;
        assert_eq!(
            said(content),
            Some((LastLineKind::Said, "The end.".to_owned(), None))
        );
        assert_eq!(said(r#"[{"type":"thinking","thinking":"hm"}]"#), None);
        assert_eq!(said(r#""text""#), None);
        let long = format!(r#"[{{"type":"text","text":"{}"}}]"#, "é".repeat(300));
        let (_, text, _) = said(&long).unwrap();
        assert_eq!(text.chars().count(), 200);
        assert!(text.ends_with("é…"));
    }

    #[test]
    fn a_call_is_told_with_its_argument() {
        let content = r#"[{"type":"text","text":"I run it."},{"type":"tool_use","name":"Bash","input":{"description":"Tests","command":"cargo test\n  --all"}}]"#;
        let (kind, text, tool) = said(content).unwrap();
        assert_eq!(
            (kind, text.as_str(), tool.as_deref()),
            (LastLineKind::Tool, "cargo test", Some("Bash"))
        );
        let (_, text, tool) = said(r#"[{"type":"tool_use","name":"Other","input":{"n":1}}]"#).unwrap();
        assert_eq!((text.as_str(), tool.as_deref()), ("", Some("Other")));
    }

    #[test]
    fn a_sub_agent_is_not_the_session() {
        let line = br#"{"type":"assistant","parent_tool_use_id":"t","message":{"content":[{"type":"text","text":"x"}]}}"#;
        assert_eq!(of(&scan(line).unwrap()), None);
    }
}
