//! Owns how what an agent asks is put before a person: all of it, or as much as fits and how much does not.

use serde_json::Value;

use super::{
    approvals::{self, form},
    client::Client,
    view,
    words::{exact, one_line},
};

/// Stands before each line that came from outside, so that none passes for one of ours.
const GUTTER: &str = "    | ";

/// The text that shows a request.
#[derive(Debug, PartialEq)]
pub(super) struct Shown {
    /// Lines, each with its end.
    pub(super) text: String,
    /// Whether something is not shown.
    pub(super) is_cut: bool,
}

/// How much of a request is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    lines: usize,
    characters: usize,
}

impl Room {
    /// Everything.
    pub(super) const ALL: Self = Self {
        lines: usize::MAX,
        characters: usize::MAX,
    };
    /// A screen.
    pub(super) const SCREEN: Self = Self {
        lines: 60,
        characters: 8_000,
    };
    /// One of many.
    pub(super) const LIST: Self = Self {
        lines: 12,
        characters: 1_200,
    };
}

/// The request of an approval as lines; the end is kept when something has to be left out.
pub(super) fn shown(approval: &Value, room: Room) -> Shown {
    let mut shown = fitted(approval, room);
    if is_part(approval) {
        let bytes = view::number(approval, &["request_bytes"]).unwrap_or(0);
        let names: Vec<String> = view::list(approval, &["left_out"])
            .iter()
            .filter_map(Value::as_str)
            .map(|name| exact(name).join(" "))
            .collect();
        let names = match names.is_empty() {
            true => String::new(),
            false => format!(" ({})", names.join(", ")),
        };
        let hint =
            format!("    ✂ a part of {bytes} bytes{names}; `trunkline approvals --full` shows all of it\n");
        shown.text.push_str(&hint);
        shown.is_cut = true;
    }
    shown
}

/// Whether the daemon has given a part of a large request only.
pub(super) fn is_part(approval: &Value) -> bool {
    view::at(approval, &["request_truncated"]).and_then(Value::as_bool) == Some(true)
}

/// An approval with all that was asked. While that cannot be had it stays a part, which nobody can allow unseen.
pub(super) async fn completed(client: &Client, session: &str, approval: Value) -> Value {
    if !is_part(&approval) {
        return approval;
    }
    let path = [
        "v1",
        "sessions",
        session,
        "approvals",
        view::text(&approval, &["id"]),
    ];
    client.get(&path, &[]).await.unwrap_or(approval)
}

fn fitted(approval: &Value, room: Room) -> Shown {
    let lines = whole(approval);
    let characters = |lines: &[String]| lines.iter().map(|line| line.chars().count()).sum::<usize>();
    let size = characters(&lines);
    if lines.len() <= room.lines && size <= room.characters {
        return Shown {
            text: joined(&lines),
            is_cut: false,
        };
    }
    let tail_lines = room.lines / 4;
    let tail_room = room.characters / 4;
    let mut left = room.characters - tail_room;
    let mut head = Vec::new();
    let mut rest = lines.iter().cloned();
    let mut broken = None;
    for line in rest.by_ref().take(room.lines - tail_lines) {
        let count = line.chars().count();
        if count > left {
            let (begin, end): (Vec<_>, Vec<_>) = line.chars().enumerate().partition(|(at, _)| *at < left);
            head.push(begin.into_iter().map(|(_, c)| c).collect::<String>());
            broken = Some(end.into_iter().map(|(_, c)| c).collect::<String>());
            break;
        }
        left -= count;
        head.push(line);
    }
    let rest: Vec<String> = broken.into_iter().chain(rest).collect();
    let mut tail = Vec::new();
    let mut left = tail_room;
    for line in rest.iter().rev().take(tail_lines) {
        let count = line.chars().count();
        if count > left {
            let end: String = line.chars().skip(count - left).collect();
            tail.push(format!("{GUTTER}… {end}"));
            break;
        }
        left -= count;
        tail.push(line.clone());
    }
    tail.reverse();
    let hidden = size.saturating_sub(characters(&head) + characters(&tail));
    let missing = rest.len() - tail.len();
    let marker =
        format!("    ✂ cut here: {missing} lines or parts of them, about {hidden} characters are not shown");
    Shown {
        text: joined(&head) + &joined(&[marker]) + &joined(&tail),
        is_cut: true,
    }
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A request in a few words, for lists of choices and for what was decided. It says when it is not all.
pub(super) fn in_a_line(approval: &Value) -> String {
    let subject = view::text(approval, &["subject"]);
    let input = view::at(approval, &["request", "input"]).unwrap_or(&Value::Null);
    match view::text(approval, &["kind"]) {
        "question" => view::list(input, &["questions"])
            .iter()
            .map(|question| view::text(question, &["question"]))
            .collect::<Vec<_>>()
            .join(" / "),
        "plan" => "carry out the plan?".into(),
        "elicitation" => format!("{subject} asks: {}", elicitation(approval)),
        "dialog" => format!("dialog {subject}"),
        _ => {
            let mut words = vec![subject.to_owned()];
            for (name, value) in fields(input) {
                words.push(match (name.as_str(), value) {
                    ("command" | "file_path" | "url", Value::String(text)) => text.clone(),
                    (name, Value::String(text)) => format!("{name}={text:?}"),
                    (name, value) => format!("{name}={value}"),
                });
            }
            words.join(" ")
        }
    }
}

fn elicitation(approval: &Value) -> String {
    [&["request", "message"], &["request", "url"]]
        .map(|path| view::text(approval, path))
        .join(" ")
        .trim_end()
        .to_owned()
}

/// The members of a tool's input, the one that says most first.
fn fields(input: &Value) -> Vec<(&String, &Value)> {
    const FIRST: &[&str] = &[
        "command",
        "file_path",
        "notebook_path",
        "path",
        "url",
        "query",
        "pattern",
    ];
    let mut fields: Vec<(&String, &Value)> = input.as_object().into_iter().flatten().collect();
    fields.sort_by_key(|(name, _)| FIRST.iter().position(|it| it == name).unwrap_or(FIRST.len()));
    fields
}

fn whole(approval: &Value) -> Vec<String> {
    let request = approval.get("request").unwrap_or(&Value::Null);
    let input = request.get("input").unwrap_or(&Value::Null);
    let subject = view::text(approval, &["subject"]);
    let mut lines = Vec::new();
    match view::text(approval, &["kind"]) {
        "question" => {
            for question in approvals::questions(approval) {
                lines.extend(approvals::describe_question(&question));
            }
        }
        "plan" => {
            lines.push("the agent has a plan:".into());
            quoted(&mut lines, view::text(input, &["plan"]));
            for (name, value) in fields(input).into_iter().filter(|(name, _)| *name != "plan") {
                field(&mut lines, name, value);
            }
        }
        "elicitation" => {
            lines.push(format!("{} asks:", one_line(subject)));
            quoted(&mut lines, &elicitation(approval));
            for field in form::fields(approval) {
                lines.push(format!("  field {}", one_line(&field.name)));
            }
        }
        "dialog" => {
            lines.push(format!("dialog {}", one_line(subject)));
            value_of(&mut lines, request.get("payload").unwrap_or(&Value::Null));
        }
        _ => tool(&mut lines, subject, request, input),
    }
    lines
}

fn tool(lines: &mut Vec<String>, subject: &str, request: &Value, input: &Value) {
    lines.push(exact(subject).join(" "));
    if view::at(input, &["dangerouslyDisableSandbox"]).and_then(Value::as_bool) == Some(true) {
        lines.push("  ! it would run outside of the sandbox".into());
    }
    if let Value::Object(members) = input {
        let is_edit =
            ["old_string", "new_string"].map(|name| members.get(name).is_some_and(Value::is_string));
        for (name, value) in fields(input) {
            match (name.as_str(), value) {
                ("old_string", Value::String(old)) if is_edit == [true, true] => {
                    lines.push("  change".into());
                    diff(lines, old, view::text(input, &["new_string"]));
                }
                ("new_string", Value::String(_)) if is_edit == [true, true] => {}
                ("edits", Value::Array(edits)) if edits.iter().all(is_plain_edit) => {
                    for edit in edits {
                        lines.push("  change".into());
                        diff(
                            lines,
                            view::text(edit, &["old_string"]),
                            view::text(edit, &["new_string"]),
                        );
                        for (name, value) in fields(edit) {
                            if !matches!(name.as_str(), "old_string" | "new_string") {
                                field(lines, name, value);
                            }
                        }
                    }
                }
                (name, value) => field(lines, name, value),
            }
        }
    } else if !input.is_null() {
        field(lines, "input", input);
    }
    for (name, key) in [("why it asks", "decision_reason"), ("path", "blocked_path")] {
        match request.get(key) {
            None | Some(Value::Null) => {}
            Some(value) => field(lines, name, value),
        }
    }
}

fn is_plain_edit(edit: &Value) -> bool {
    ["old_string", "new_string"]
        .iter()
        .all(|name| edit.get(name).is_some_and(Value::is_string))
}

/// A name and its value: on one line if the value has one.
fn field(lines: &mut Vec<String>, name: &str, value: &Value) {
    let name = exact(name).join(" ");
    let first = lines.len();
    value_of(lines, value);
    if lines.len() == first + 1 {
        let only = lines.remove(first);
        lines.push(format!("  {name}: {}", only.trim_start_matches(GUTTER)));
    } else {
        lines.insert(first, format!("  {name}:"));
    }
}

fn value_of(lines: &mut Vec<String>, value: &Value) {
    match value {
        Value::String(text) if text.is_empty() => lines.push(format!("{GUTTER}(empty)")),
        Value::String(text) => quoted(lines, text),
        Value::Object(members) if members.is_empty() => lines.push(format!("{GUTTER}{{}}")),
        Value::Array(_) | Value::Object(_) => {
            let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
            quoted(lines, &text);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => lines.push(format!("{GUTTER}{value}")),
    }
}

fn quoted(lines: &mut Vec<String>, text: &str) {
    lines.extend(exact(text).into_iter().map(|line| format!("{GUTTER}{line}")));
}

/// The removed and the added lines, with the equal ones around them.
pub(super) fn diff(lines: &mut Vec<String>, old: &str, new: &str) {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (old.get(same..).unwrap_or(&[]), new.get(same..).unwrap_or(&[]));
    let same_end = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (gone, kept) = old_rest.split_at(old_rest.len() - same_end);
    let (come, _) = new_rest.split_at(new_rest.len() - same_end);
    let mut add = |sign: char, part: &[&str]| {
        // Line by line: an empty line of a file is one.
        for line in part {
            lines.push(match exact(line).concat() {
                line if line.is_empty() => format!("{GUTTER}{sign}").trim_end().to_owned(),
                line => format!("{GUTTER}{sign} {line}"),
            });
        }
    };
    add(' ', old.get(..same).unwrap_or(&[]));
    add('-', gone);
    add('+', come);
    add(' ', kept);
}

/// Input that is nested deeper than this is shown, and read, as the text of its JSON.
const DEEPEST: usize = 100;

/// JSON of the daemon, however deep: what an agent nests deeper than a reader goes becomes a text of JSON.
pub(super) fn parse(bytes: &[u8]) -> serde_json::Result<Value> {
    let mut depth = 0_usize;
    let mut deep = None;
    let mut flat: Vec<u8> = Vec::new();
    let mut copied = 0;
    let (mut is_text, mut is_escaped) = (false, false);
    for (at, &byte) in bytes.iter().enumerate() {
        if is_text {
            is_text = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => is_text = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > DEEPEST {
                    deep.get_or_insert(at);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == DEEPEST
                    && let Some(start) = deep.take()
                {
                    flat.extend_from_slice(bytes.get(copied..start).unwrap_or(&[]));
                    let part = String::from_utf8_lossy(bytes.get(start..=at).unwrap_or(&[]));
                    flat.extend(serde_json::to_vec(&part)?);
                    copied = at + 1;
                }
            }
            _ => {}
        }
    }
    if copied == 0 {
        return serde_json::from_slice(bytes);
    }
    flat.extend_from_slice(bytes.get(copied..).unwrap_or(&[]));
    serde_json::from_slice(&flat)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool_of(subject: &str, input: &Value) -> String {
        let approval = json!({"kind": "tool", "subject": subject, "request": {"input": input}});
        let shown = shown(&approval, Room::SCREEN);
        assert!(!shown.is_cut, "{shown:?}");
        shown.text
    }

    #[test]
    fn every_argument_is_shown() {
        let input = json!({"description": "Check the balance", "to": "mallory", "amount": 1_000_000});
        assert_eq!(
            tool_of("mcp__bank__transfer", &input),
            "mcp__bank__transfer\n  amount: 1000000\n  description: Check the balance\n  to: mallory\n"
        );
        let bash =
            json!({"command": "ls\n  dangerouslyDisableSandbox: false", "dangerouslyDisableSandbox": true});
        assert_eq!(
            tool_of("Bash", &bash),
            "Bash\n  ! it would run outside of the sandbox\n  command:\n    | ls\n    |   dangerouslyDisableSandbox: false\n  \
             dangerouslyDisableSandbox: true\n"
        );
        let fetch = json!({"prompt": "the secrets", "url": "https://x", "deep": {"a": [1]}, "none": {}});
        let text = tool_of("WebFetch", &fetch);
        for part in ["url: https://x", "prompt: the secrets", "\"a\": [", "none: {}"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn an_edit_is_a_diff_and_a_write_its_content() {
        let edit =
            json!({"file_path": "a.rs", "old_string": "one\ntwo\n\nend", "new_string": "one\n2\n\nend"});
        assert_eq!(
            tool_of("Edit", &edit),
            "Edit\n  file_path: a.rs\n  change\n    |   one\n    | - two\n    | + 2\n    |\n    |   end\n"
        );
        let write = json!({"file_path": "a.txt", "content": "first\nsecond\n"});
        assert_eq!(
            tool_of("Write", &write),
            "Write\n  file_path: a.txt\n  content:\n    | first\n    | second\n"
        );
        // A value that is no text has no diff, and is shown as it is.
        let odd = json!({"file_path": "a", "old_string": 1, "new_string": "x"});
        let text = tool_of("Edit", &odd);
        assert!(
            text.contains("old_string: 1") && text.contains("new_string: x"),
            "{text}"
        );
    }

    #[test]
    fn what_is_left_out_is_said_and_the_end_is_kept() {
        for content in ["line\n".repeat(500) + "evil", "x ".repeat(50_000) + "evil"] {
            let approval =
                json!({"kind": "tool", "subject": "Bash", "request": {"input": {"command": content}}});
            let part = shown(&approval, Room::SCREEN);
            assert!(part.is_cut && part.text.contains("cut here"), "{part:?}");
            assert!(part.text.ends_with("evil\n"), "{part:?}");
            assert!(part.text.chars().count() < 9_000, "{}", part.text.len());
            let all = shown(&approval, Room::ALL);
            assert!(!all.is_cut && all.text.len() > content.len() / 2);
        }
    }

    #[test]
    fn deep_json_is_read_and_shown() {
        let deep = |depth: usize| "{\"a]}\\\"\":".repeat(depth) + "1" + &"}".repeat(depth);
        for depth in [1, 99, 100, 101, 125, 100_000] {
            let text = format!("[{},{{\"b\":2}}]", deep(depth));
            let value = parse(text.as_bytes()).unwrap();
            assert_eq!(value[1], json!({"b": 2}), "{depth}");
        }
        let text = format!("{{\"kind\":\"tool\",\"request\":{{\"input\":{}}}}}", deep(125));
        let value = parse(text.as_bytes()).unwrap();
        let shown = shown(&value, Room::ALL);
        assert!(shown.text.contains('1') && !shown.is_cut, "{shown:?}");
        assert!(parse(b"{").is_err() && parse(b"]]").is_err());
    }
}
