//! Owns what a line says to a reader: what a person sent, what the agent answered, thought and called, and what it got back.
//!
//! Pieces of a message that is being written say nothing of their own: the whole message repeats them.

use crate::json;
use std::{borrow::Cow, fmt::Write as _};

/// How deep an argument is looked into. A deeper one stays as it is written.
const MOST_DEPTH: usize = 16;

/// All that a line says.
#[derive(Debug, PartialEq, Eq)]
pub struct Speech<'a> {
    /// The call of the sub-agent whose line it is; `None` for the main conversation.
    pub parent_tool_use_id: Option<Cow<'a, str>>,
    /// The pieces, in their order.
    pub pieces: Vec<Said<'a>>,
}

/// A piece of what a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// The text of a person.
    Prompt(Cow<'a, str>),
    /// A picture of a person.
    Image,
    /// The agent's text.
    Answer(Cow<'a, str>),
    /// The agent's thinking.
    Thought(Cow<'a, str>),
    /// A call of a tool.
    Call {
        /// The tool.
        tool: Cow<'a, str>,
        /// The arguments, as they are written.
        input: &'a str,
    },
    /// The result of a call.
    Result {
        /// Its text. Something else than text is named in parentheses.
        text: Cow<'a, str>,
        /// Whether the call failed.
        is_error: bool,
    },
}

impl<'a> Speech<'a> {
    /// The words of a line that was sent to the CLI; `None` when it has none.
    pub fn sent(line: &'a [u8]) -> Option<Self> {
        Self::read(line, &["user"], |_, block| match block {
            Block::Text(text) => Some(Said::Prompt(text)),
            Block::Other { kind, .. } => (kind == "image").then_some(Said::Image),
        })
    }

    /// The words of a line of the CLI; `None` when it has none.
    pub fn printed(line: &'a [u8]) -> Option<Self> {
        Self::read(line, &["assistant", "user"], |of, block| match block {
            Block::Text(text) => (of == "assistant").then_some(Said::Answer(text)),
            Block::Other { kind, raw } => other(&kind, raw),
        })
    }

    fn read(
        line: &'a [u8],
        kinds: &[&str],
        mut piece: impl FnMut(&str, Block<'a>) -> Option<Said<'a>>,
    ) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let [kind, message, parent, is_replay, is_meta] = json::members(
            line,
            ["type", "message", "parent_tool_use_id", "isReplay", "isMeta"],
        )?;
        let kind = json::string(kind?)?;
        let repeats = [is_replay, is_meta].contains(&Some("true"));
        if !kinds.contains(&kind.as_ref()) || repeats {
            return None;
        }
        let [content] = json::members(message?, ["content"])?;
        let pieces: Vec<_> = blocks(content?)
            .into_iter()
            .filter_map(|block| piece(&kind, block))
            .filter(|said| !said.is_empty())
            .collect();
        (!pieces.is_empty()).then(|| Self {
            parent_tool_use_id: parent.and_then(json::decode_lossy),
            pieces,
        })
    }
}

impl Said<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Prompt(text) | Self::Answer(text) | Self::Thought(text) | Self::Result { text, .. } => {
                text.is_empty()
            }
            Self::Image | Self::Call { .. } => false,
        }
    }
}

/// A block of a message.
enum Block<'a> {
    Text(Cow<'a, str>),
    Other { kind: Cow<'a, str>, raw: &'a str },
}

/// The blocks of a message, or of a result. Text alone is a block of text.
fn blocks(content: &str) -> Vec<Block<'_>> {
    if let Some(text) = json::decode_lossy(content) {
        return vec![Block::Text(text)];
    }
    let items = json::items(content).unwrap_or_default().into_iter();
    items
        .filter_map(|raw| {
            let [kind, text] = json::members(raw, ["type", "text"])?;
            let kind = json::decode_lossy(kind?)?;
            match text.and_then(json::decode_lossy) {
                Some(text) if kind == "text" => Some(Block::Text(text)),
                _ => Some(Block::Other { kind, raw }),
            }
        })
        .collect()
}

fn other<'a>(kind: &str, raw: &'a str) -> Option<Said<'a>> {
    let [thinking, name, input, content, is_error] =
        json::members(raw, ["thinking", "name", "input", "content", "is_error"])?;
    match kind {
        "thinking" => Some(Said::Thought(json::decode_lossy(thinking?)?)),
        "tool_use" | "server_tool_use" | "mcp_tool_use" => Some(Said::Call {
            tool: name.and_then(json::decode_lossy).unwrap_or(Cow::Borrowed("Tool")),
            input: input.unwrap_or("{}"),
        }),
        // A tool of the model API has a kind of its own, such as `web_search_tool_result`.
        _ if kind.ends_with("tool_result") => Some(Said::Result {
            text: result(content?),
            is_error: is_error == Some("true"),
        }),
        _ => None,
    }
}

/// The text of a result.
fn result(content: &str) -> Cow<'_, str> {
    let mut lines = blocks(content).into_iter().map(|block| match block {
        Block::Text(text) => text,
        Block::Other { kind, raw } => Cow::Owned(found(raw).unwrap_or_else(|| format!("({kind})"))),
    });
    let first = lines.next().unwrap_or_default();
    lines.fold(first, |text, line| Cow::Owned(text.into_owned() + "\n" + &line))
}

/// A page that a search found.
fn found(raw: &str) -> Option<String> {
    let [title, url] = json::members(raw, ["title", "url"])?;
    let (title, url) = (json::decode_lossy(title?)?, json::decode_lossy(url?)?);
    Some(format!("{title} {url}"))
}

/// The arguments of a call as a reader wants them: a command, or the only argument, as it is, and else all of them as JSON.
pub fn call_text(input: &str) -> Cow<'_, str> {
    if let Some(only) = only_argument(input) {
        return only;
    }
    let command = json::members(input, ["command"]).and_then(|[command]| json::decode_lossy(command?));
    command.unwrap_or_else(|| {
        let mut out = String::new();
        write_pretty(input, 0, &mut out);
        Cow::Owned(out)
    })
}

/// All arguments of a call, each with its name, as text in which words are found: without the quotes and escapes of JSON.
pub fn arguments(input: &str) -> Cow<'_, str> {
    only_argument(input).unwrap_or_else(|| {
        let mut out = String::new();
        write_plain(input, 0, &mut out);
        Cow::Owned(out)
    })
}

/// The value of the only member, if it is a text.
fn only_argument(input: &str) -> Option<Cow<'_, str>> {
    let (mut count, mut value) = (0, None);
    json::for_each_member(input, |_, raw| {
        count += 1;
        value = Some(raw);
    })?;
    value.filter(|_| count == 1).and_then(json::decode_lossy)
}

fn write_plain(raw: &str, depth: usize, out: &mut String) {
    if let Some(text) = json::decode_lossy(raw) {
        out.push_str(&text);
        return;
    }
    if depth < MOST_DEPTH {
        let mut is_first = true;
        let mut next_line = |out: &mut String| {
            if !std::mem::take(&mut is_first) {
                out.push('\n');
            }
        };
        let of_object = json::for_each_member(raw, |name, value| {
            next_line(out);
            // A text takes all that is written into it.
            let _ = write!(out, "{name}: ");
            write_plain(value, depth + 1, out);
        });
        if of_object.is_some() {
            return;
        }
        if let Some(items) = json::items(raw) {
            for item in items {
                next_line(out);
                write_plain(item, depth + 1, out);
            }
            return;
        }
    }
    out.push_str(raw);
}

/// Writes a value as JSON with indents. Names keep their order, and numbers their spelling.
fn write_pretty(raw: &str, depth: usize, out: &mut String) {
    let mut members = Vec::new();
    let is_object = json::for_each_member(raw, |name, value| {
        // A text is always JSON.
        let name = serde_json::to_string(name).unwrap_or_default();
        members.push((name + ": ", value));
    });
    let items = match is_object {
        Some(()) => members,
        None => {
            let items = json::items(raw).unwrap_or_default().into_iter();
            items.map(|value| (String::new(), value)).collect()
        }
    };
    if items.is_empty() || depth >= MOST_DEPTH {
        out.push_str(raw);
        return;
    }
    let (open, close) = if is_object.is_some() {
        ('{', '}')
    } else {
        ('[', ']')
    };
    out.push(open);
    for (at, (name, value)) in items.into_iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth + 1));
        out.push_str(&name);
        write_pretty(value, depth + 1, out);
    }
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(speech: Option<Speech<'_>>) -> Vec<Said<'_>> {
        speech.map(|speech| speech.pieces).unwrap_or_default()
    }

    #[test]
    fn a_prompt_is_text_or_blocks() {
        let text = br#"{"type":"user","message":{"content":"a \"b\""}}"#;
        assert_eq!(pieces(Speech::sent(text)), [Said::Prompt("a \"b\"".into())]);
        let blocks = br#"{"type":"user","message":{"content":[{"type":"text","text":"x"},{"type":"image","source":{}},{"type":"text","text":""}]}}"#;
        assert_eq!(
            pieces(Speech::sent(blocks)),
            [Said::Prompt("x".into()), Said::Image]
        );
        assert_eq!(
            Speech::sent(br#"{"type":"control_request","message":{"content":"x"}}"#),
            None
        );
    }

    #[test]
    fn answers_thoughts_calls_and_results_are_told_apart() {
        let line = br#"{"type":"assistant","parent_tool_use_id":"t","message":{"content":[
            {"type":"thinking","thinking":"hm"},{"type":"text","text":"Yes."},
            {"type":"tool_use","name":"Bash","input":{"command":"ls","n":1.0}},
            {"type":"web_search_tool_result","content":[{"type":"web_search_result","title":"T","url":"http://x"}]},
            {"type":"redacted_thinking","data":"x"}]}}"#;
        let speech = Speech::printed(line).unwrap();
        assert_eq!(speech.parent_tool_use_id.as_deref(), Some("t"));
        assert_eq!(
            speech.pieces,
            [
                Said::Thought("hm".into()),
                Said::Answer("Yes.".into()),
                Said::Call {
                    tool: "Bash".into(),
                    input: r#"{"command":"ls","n":1.0}"#
                },
                Said::Result {
                    text: "T http://x".into(),
                    is_error: false
                },
            ]
        );
        let line = br#"{"type":"user","message":{"content":[{"type":"tool_result","is_error":true,
            "content":[{"type":"text","text":"a"},{"type":"image","source":{}}]},{"type":"text","text":"not a person's"}]}}"#;
        let told = Said::Result {
            text: "a\n(image)".into(),
            is_error: true,
        };
        assert_eq!(pieces(Speech::printed(line)), [told]);
    }

    #[test]
    fn repeats_and_pieces_say_nothing() {
        for line in [
            r#"{"type":"user","isReplay":true,"message":{"content":[{"type":"tool_result","content":"x"}]}}"#,
            r#"{"type":"user","isMeta":true,"message":{"content":[{"type":"tool_result","content":"x"}]}}"#,
            r#"{"type":"stream_event","event":{"delta":{"text":"x"}}}"#,
            r#"{"type":"assistant","message":{"content":[]}}"#,
            r#"{"type":"assistant","message":"x"}"#,
            "x",
        ] {
            assert_eq!(Speech::printed(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn arguments_are_read_as_people_write_them() {
        for (input, call, plain) in [
            (r#"{"file_path":"/a\"b"}"#, "/a\"b", "/a\"b"),
            (
                r#"{"command":"ls","description":"List"}"#,
                "ls",
                "command: ls\ndescription: List",
            ),
            ("{}", "{}", ""),
            (
                r#"{"z":1.0,"a":[{"old":"x\ny"},[]]}"#,
                "{\n  \"z\": 1.0,\n  \"a\": [\n    {\n      \"old\": \"x\\ny\"\n    },\n    []\n  ]\n}",
                "z: 1.0\na: old: x\ny\n",
            ),
        ] {
            assert_eq!(call_text(input), call);
            assert_eq!(arguments(input), plain);
        }
        let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(call_text(&deep).contains("[[[[") && arguments(&deep).contains("[[[["));
    }
}
