//! Owns the stub of a large record: its number, its time, its source and the small members of its data, with the size of
//! what is left out.

use std::collections::BTreeMap;

use bytes::Bytes;
use memchr::memchr_iter;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    chunk::Chunk,
    history,
    record::{self, RecordRef},
};

/// The member of a stub's data that says how large the whole is.
const STUB: &str = "trunkline.stub";
/// The members of a line's outermost object that a stub keeps: those that tell what it is and where it belongs.
const KEPT: &[&str] = &[
    "type",
    "subtype",
    "uuid",
    "session_id",
    "parent_tool_use_id",
    "request_id",
    "is_error",
    "isReplay",
];
/// The most bytes of such a member.
const MOST_MEMBER_BYTES: usize = 512;

impl Chunk {
    /// The same records, with a stub in the place of each one whose line has more than `bytes` bytes.
    #[must_use]
    pub fn stubbed(self, bytes: usize) -> Self {
        let mut start = 0;
        let is_large = |end: usize| {
            let length = end - start;
            start = end + 1;
            length > bytes
        };
        if !memchr_iter(b'\n', &self.bytes).any(is_large) {
            return self;
        }
        let mut out = Vec::new();
        for record in self.records() {
            if record.line.len() > bytes {
                write_stub(&mut out, &record);
            } else {
                out.extend_from_slice(record.line);
                out.push(b'\n');
            }
        }
        Self {
            bytes: Bytes::from(out),
            ..self
        }
    }
}

/// The stub of a record's line.
fn write_stub(out: &mut Vec<u8>, record: &RecordRef<'_>) {
    if let Some((start, copied)) = history::parts(record) {
        let mut data = start.to_vec();
        write_stub(&mut data, &copied);
        data.pop();
        data.push(b'}');
        let at = record.at.to_string();
        record::encode(out, record.seq, &at, record.source, record.by, &data);
        return;
    }
    let mut data = Map::new();
    if let Ok(members) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(record.data) {
        for name in KEPT {
            let small = members
                .get(*name)
                .filter(|raw| raw.get().len() <= MOST_MEMBER_BYTES);
            if let Some(value) = small.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()) {
                data.insert((*name).to_owned(), value);
            }
        }
    }
    data.insert(STUB.to_owned(), json!({ "bytes": record.line.len() }));
    let data = Value::Object(data).to_string();
    let at = record.at.to_string();
    record::encode(out, record.seq, &at, record.source, record.by, data.as_bytes());
}
