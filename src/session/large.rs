//! Owns how much of a CLI's request stands in memory. The whole is in the journal, and is read there for the rules, for
//! its owner and for people.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::{
    claude::{ControlRequest, answer, control::CanUseTool, facts, scan},
    domain::{Approval, LeftOut},
    journal::{Feed, ReadError, Reader},
    json,
};

use super::{
    approvals::{deferred_id, deferred_request, sha256},
    machine::digest,
};

/// The largest request that is held whole, in bytes. A command or an edit has a few KiB; a person reads no more at a glance.
pub const MOST_BYTES: usize = 64 << 10;
/// Requests of a session that are open at the same time; of what comes later only an excerpt is held until it is its turn.
pub(super) const MOST_OPEN: usize = 256;
/// The bytes of a session's open approvals from which on no more than an excerpt of another one is held.
const OPEN_BYTES: usize = 4 << 20;
/// The size of the held part of such a request, in bytes.
const EXCERPT_BYTES: usize = 1 << 10;
/// Members that are named as left out, and how long their names may be.
const NAMES: usize = 32;
const NAME_BYTES: usize = 128;
/// Members of which the small members are kept, and how deep.
const OPENED: [&str; 6] = [
    "input",
    "updatedInput",
    "tool_input",
    "message",
    "params",
    "arguments",
];
const DEPTH: usize = 4;

/// A part of a large object.
#[derive(Debug)]
pub struct Excerpt {
    /// The object with its small members, each byte for byte.
    pub object: Box<RawValue>,
    /// The part that is missing in it.
    pub left_out: LeftOut,
}

/// The excerpt of an object that is larger than `limit`.
pub fn excerpt(object: &RawValue, limit: usize) -> Option<Excerpt> {
    let text = object.get();
    if text.len() <= limit {
        return None;
    }
    let mut cutter = Cutter {
        most: limit / 16,
        room: limit / 2,
        members: Vec::new(),
    };
    let mut kept = String::new();
    cutter.object(text, "", DEPTH, &mut kept);
    Some(Excerpt {
        object: RawValue::from_string(kept).ok()?,
        left_out: LeftOut {
            bytes: text.len() as u64,
            members: cutter.members,
            meaning: None,
        },
    })
}

struct Cutter {
    /// The largest member that is kept.
    most: usize,
    /// The bytes of members that may be kept.
    room: usize,
    members: Vec<String>,
}

impl Cutter {
    fn object(&mut self, text: &str, path: &str, depth: usize, kept: &mut String) {
        kept.push('{');
        let mut is_first = true;
        // A value that is no object has no members.
        let _read = json::for_each_member(text, |name, value| {
            let size = name.len() + value.len();
            let is_kept = size <= self.most.min(self.room);
            let is_opened = !is_kept && depth > 0 && OPENED.contains(&name) && json::is_object(value);
            let whole_path = || match path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            if !is_kept && !is_opened {
                if self.members.len() < NAMES && path.len() + name.len() < NAME_BYTES {
                    self.members.push(whole_path());
                }
                return;
            }
            if !std::mem::take(&mut is_first) {
                kept.push(',');
            }
            kept.push_str(&serde_json::Value::from(name).to_string());
            kept.push(':');
            if is_kept {
                self.room -= size;
                kept.push_str(value);
            } else {
                self.object(value, &whole_path(), depth - 1, kept);
            }
        });
        kept.push('}');
    }
}

/// How large a further approval may be that is held whole.
pub(super) fn room(open: &[Arc<Approval>]) -> usize {
    let bytes = |open: &[Arc<Approval>]| open.iter().map(|it| it.request.get().len()).sum::<usize>();
    if open.len() < MOST_OPEN && bytes(open) < OPEN_BYTES {
        MOST_BYTES
    } else {
        EXCERPT_BYTES
    }
}

/// The held part of an approval.
pub(super) fn held(approval: &Approval, limit: usize) -> Approval {
    let Some(Excerpt { object, mut left_out }) = excerpt(&approval.request, limit) else {
        return approval.clone();
    };
    left_out.meaning = CanUseTool::read(approval.request.get()).and_then(|tool| meaning(tool.input));
    Approval {
        id: approval.id,
        run_id: approval.run_id,
        seq: approval.seq,
        request_id: approval.request_id.clone(),
        kind: approval.kind,
        subject: approval.subject.clone(),
        request: object,
        left_out: Some(Box::new(left_out)),
        input_sha256: approval.input_sha256.clone(),
        requested_at: approval.requested_at,
        deadline: approval.deadline,
        rule: approval.rule.clone(),
    }
}

/// The held part of an approval that nothing else is open beside.
pub(super) fn held_alone(approval: &Approval) -> Approval {
    held(approval, MOST_BYTES)
}

/// The digest of a JSON value, however it is spelled.
pub(super) fn meaning(text: &str) -> Option<[u8; 32]> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(digest(value.to_string().as_bytes()))
}

/// Whether an input differs from the one that was asked about, of which `asked` may be an excerpt.
pub(super) fn is_other_input(
    asked: &str,
    left_out: Option<&LeftOut>,
    asked_sha256: Option<&str>,
    given: &str,
) -> bool {
    let Some(left_out) = left_out else {
        return answer::is_other_input(asked, given);
    };
    if given == "null" || asked_sha256 == Some(sha256(given).as_str()) {
        return false;
    }
    left_out.meaning.is_none_or(|asked| meaning(given) != Some(asked))
}

/// An approval with all that was asked, by the data of its record.
fn completed(approval: &Approval, data: &[u8]) -> Option<Approval> {
    let line = scan(data)?;
    let request = match ControlRequest::read(&line) {
        Some(request) => (request.request_id == approval.request_id).then_some(request.request)?,
        None => {
            let call = facts::deferred_call(&line)?;
            (deferred_id(&call.id) == approval.request_id).then(|| deferred_request(&call))?
        }
    };
    Some(Approval {
        request,
        left_out: None,
        ..approval.clone()
    })
}

/// An approval with all that was asked. It blocks.
///
/// # Errors
/// When the journal cannot be read.
pub(super) fn whole(
    approval: &Approval,
    reader: &Reader,
    head: crate::journal::Head,
) -> Result<Approval, ReadError> {
    if approval.left_out.is_none() {
        return Ok(approval.clone());
    }
    let (_, data) = reader.record(approval.seq, head)?;
    completed(approval, &data).ok_or(ReadError::Absent { seq: approval.seq })
}

/// An approval of a session's view with all that was asked. It blocks.
///
/// # Errors
/// When the journal cannot be read.
pub fn whole_approval(approval: &Approval, feed: &Feed) -> Result<Approval, ReadError> {
    if approval.left_out.is_none() {
        return Ok(approval.clone());
    }
    let (_, data) = feed.record(approval.seq)?;
    completed(approval, &data).ok_or(ReadError::Absent { seq: approval.seq })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    #[test]
    fn an_excerpt_has_the_small_members_and_names_the_others() {
        let request = json!({
            "subtype": "can_use_tool", "tool_name": "Write", "title": "x".repeat(70_000),
            "input": { "content": "y".repeat(70_000), "file_path": "/a", "params": { "n": 1, "big": "z".repeat(5_000) } },
        });
        let Excerpt { object, left_out } = excerpt(&raw(&request), MOST_BYTES).unwrap();
        let kept: Value = serde_json::from_str(object.get()).unwrap();
        assert_eq!(
            kept,
            json!({ "subtype": "can_use_tool", "tool_name": "Write", "input": { "file_path": "/a", "params": { "n": 1 } } })
        );
        assert_eq!(left_out.members, ["input.content", "input.params.big", "title"]);
        assert_eq!(left_out.bytes, request.to_string().len() as u64);
        assert!(excerpt(&raw(&json!({ "input": { "command": "ls" } })), MOST_BYTES).is_none());
    }

    #[test]
    fn an_excerpt_is_small_whatever_the_object() {
        let many: serde_json::Map<String, Value> = (0..50_000)
            .map(|n| (format!("k{n}"), json!("x".repeat(20))))
            .collect();
        let deep = "{\"input\":".repeat(50_000) + "1" + &"}".repeat(50_000);
        for object in [
            raw(&json!({ "input": many })),
            RawValue::from_string(deep).unwrap(),
            raw(&json!(vec!["x"; 50_000])),
        ] {
            for limit in [EXCERPT_BYTES, MOST_BYTES] {
                let part = excerpt(&object, limit).unwrap();
                assert!(part.object.get().len() <= limit && part.left_out.members.len() <= NAMES);
            }
        }
    }

    #[test]
    fn an_input_that_was_left_out_is_known_again_however_it_is_spelled() {
        let asked = r#"{"b":1,"a":"é"}"#;
        let left_out = LeftOut {
            bytes: 1,
            members: Vec::new(),
            meaning: meaning(asked),
        };
        let sha = sha256(asked);
        for (given, is_other) in [
            (asked, false),
            (r#"{ "a": "\u00e9", "b": 1 }"#, false),
            ("null", false),
            (r#"{"a":"e","b":1}"#, true),
            ("{}", true),
        ] {
            assert_eq!(
                is_other_input("{}", Some(&left_out), Some(&sha), given),
                is_other,
                "{given}"
            );
        }
    }
}
