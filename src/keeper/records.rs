//! Owns the form of the records that a keeper writes of its own.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{
    domain::{RunExit, RunId, StopIntent, StopStep},
    journal::Source,
    json,
    ndjson::{self, Item},
};

/// The most of a text that a record keeps, in bytes.
pub(super) const TEXT_BYTES: usize = 4 << 10;

/// The data of a `run_exited` record.
pub(super) fn run_exited(run: RunId, exit: &RunExit) -> Vec<u8> {
    #[derive(Serialize)]
    struct RunExited<'a> {
        r#type: &'static str,
        run_id: RunId,
        code: Option<i32>,
        signal: Option<i32>,
        intent: StopIntent,
        killed: bool,
        stderr_tail: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        spawn_error: Option<&'a str>,
        unwritten_lines: u32,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        stop_steps: &'a [StopStep],
    }
    let RunExit {
        code,
        signal,
        intent,
        killed,
        stderr_tail,
        spawn_error,
        unwritten_lines,
        stop_steps,
    } = exit;
    json(&RunExited {
        r#type: "run_exited",
        run_id: run,
        code: *code,
        signal: *signal,
        intent: *intent,
        killed: *killed,
        stderr_tail,
        spawn_error: spawn_error.as_deref(),
        unwritten_lines: *unwritten_lines,
        stop_steps,
    })
}

/// Something that a person may want to know: a stable code and words.
pub(super) fn notice(code: &str, detail: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Notice<'a> {
        r#type: &'static str,
        code: &'a str,
        detail: &'a str,
    }
    json(&Notice {
        r#type: "notice",
        code,
        detail,
    })
}

/// A piece of stderr.
pub(super) fn stderr(text: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Stderr<'a> {
        text: &'a str,
    }
    json(&Stderr { text })
}

/// Gives the record of one item of stdout to `write`: its source and data.
pub(super) fn stdout_item(item: Item<'_>, write: impl FnOnce(Source, &[u8])) {
    match item {
        Item::Line(line) if json::validate::is_object(line) => write(Source::Cli, line.as_bytes()),
        Item::Line(line) => write(Source::StdoutText, &stdout_text(line)),
        Item::NotUtf8(line) => write(
            Source::Daemon,
            &bad_line("line_not_utf8", line.len() as u64, line),
        ),
        Item::Oversized { bytes, head } => {
            write(Source::Daemon, &bad_line("line_oversized", bytes, head));
        }
    }
}

/// Whether this is the `type` of a JSON object.
pub(super) fn is_of_type(object: &[u8], kind: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
    }
    serde_json::from_slice::<Typed<'_>>(object).is_ok_and(|object| object.r#type.as_bytes() == kind)
}

fn stdout_text(line: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct StdoutText<'a> {
        text: &'a str,
        bytes: usize,
    }
    json(&StdoutText {
        text: &lossy_head(line.as_bytes(), TEXT_BYTES),
        bytes: line.len(),
    })
}

fn bad_line(code: &str, bytes: u64, line: &[u8]) -> Vec<u8> {
    #[derive(Serialize)]
    struct BadLine<'a> {
        r#type: &'static str,
        code: &'a str,
        bytes: u64,
        head: &'a str,
    }
    json(&BadLine {
        r#type: "notice",
        code,
        bytes,
        head: &lossy_head(line, ndjson::OVERSIZED_HEAD_BYTES),
    })
}

fn lossy_head(bytes: &[u8], limit: usize) -> String {
    let head = if bytes.len() > limit {
        bytes.get(..character_end(bytes, limit)).unwrap_or_default()
    } else {
        bytes
    };
    String::from_utf8_lossy(head).into_owned()
}

/// The last place up to `limit` that does not split a UTF-8 character.
pub(super) fn character_end(bytes: &[u8], limit: usize) -> usize {
    (limit.saturating_sub(3)..=limit)
        .rev()
        .find(|end| bytes.get(*end).is_none_or(|byte| byte & 0xC0 != 0x80))
        .unwrap_or(limit)
}

/// These types have string keys and finite numbers, so they always have a JSON form.
fn json(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::domain::StopAction;

    use super::*;

    fn record(item: Item<'_>) -> (Source, serde_json::Value) {
        let mut out = None;
        stdout_item(item, |source, data| {
            out = Some((source, serde_json::from_slice(data).unwrap()));
        });
        out.unwrap()
    }

    #[test]
    fn only_objects_count_as_the_clis_words() {
        assert_eq!(record(Item::Line(r#"{"type":"x"}"#)).0, Source::Cli);
        for text in ["[1]", "17", "Loading…", "{\"a\":", "{} {}"] {
            let (source, data) = record(Item::Line(text));
            assert_eq!(source, Source::StdoutText, "{text}");
            assert_eq!(data["text"], text);
            assert_eq!(data["bytes"], text.len());
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_keeps_its_true_size() {
        let line = "€".repeat(2_000);
        let (_, data) = record(Item::Line(&line));
        let text = data["text"].as_str().unwrap();
        assert!(text.len() <= TEXT_BYTES && text.len() > TEXT_BYTES - 3);
        assert!(text.chars().all(|character| character == '€'));
        assert_eq!(data["bytes"], 6_000);
    }

    #[test]
    fn bad_lines_are_notices_with_their_size() {
        let (source, data) = record(Item::NotUtf8(b"a\xffb"));
        assert_eq!(source, Source::Daemon);
        assert_eq!(data["code"], "line_not_utf8");
        assert_eq!((&data["bytes"], &data["head"]), (&3.into(), &"a\u{fffd}b".into()));
        let (_, data) = record(Item::Oversized {
            bytes: 1 << 33,
            head: b"{\"type\"",
        });
        assert_eq!(data["code"], "line_oversized");
        assert_eq!(data["bytes"], 1u64 << 33);
    }

    #[test]
    fn run_exited_has_every_field_of_the_exit() {
        let exit = RunExit {
            code: None,
            signal: Some(9),
            intent: StopIntent::Stop,
            killed: true,
            stderr_tail: "oops".to_owned(),
            spawn_error: Some("no".to_owned()),
            unwritten_lines: 2,
            stop_steps: vec![StopStep {
                step: StopAction::Sigterm,
                after_ms: 3,
            }],
        };
        let data = run_exited(RunId::new(), &exit);
        assert_eq!(serde_json::from_slice::<RunExit>(&data).unwrap(), exit);
        let value: serde_json::Value = serde_json::from_slice(&data).unwrap();
        assert_eq!(value["type"], "run_exited");
        assert!(value["run_id"].is_string());
    }
}
