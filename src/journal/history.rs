//! Owns the form of the records that a fork has of the conversation that it copies: each holds a record of the session that it is
//! of, byte for byte.

use super::record::{Parser, RecordRef, Source};
use crate::domain::SessionId;

const START: &[u8] = b"{\"type\":\"history\",\"session_id\":\"";
const RECORD_KEY: &[u8] = b"\",\"record\":";

/// The data of a record that repeats one of this session.
pub fn encode_history(session: SessionId, record: &RecordRef<'_>) -> Vec<u8> {
    if is_history(record) {
        // It says already which session it is of.
        return record.data.to_vec();
    }
    let session = session.to_string();
    let mut data = Vec::with_capacity(START.len() + session.len() + RECORD_KEY.len() + record.line.len() + 1);
    for part in [START, session.as_bytes(), RECORD_KEY, record.line, b"}"] {
        data.extend_from_slice(part);
    }
    data
}

/// Whether a record repeats one of another session.
pub fn is_history(record: &RecordRef<'_>) -> bool {
    record.source == Source::Daemon && record.data.starts_with(START)
}

/// The record that this one repeats, with the number that it has here; itself, if it repeats none.
pub fn unfold(record: RecordRef<'_>) -> RecordRef<'_> {
    parts(&record).map_or(record, |(_, inner)| RecordRef {
        seq: record.seq,
        ..inner
    })
}

/// The data up to the record that is repeated, and that record; `None` for a record that repeats none.
pub(super) fn parts<'a>(record: &RecordRef<'a>) -> Option<(&'a [u8], RecordRef<'a>)> {
    if !is_history(record) {
        return None;
    }
    let (start, rest) = record
        .data
        .split_at_checked(START.len() + SESSION_CHARS + RECORD_KEY.len())?;
    let line = rest.strip_suffix(b"}").filter(|_| start.ends_with(RECORD_KEY))?;
    Some((start, Parser::default().parse(line)?))
}

/// The length of an id.
const SESSION_CHARS: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Seq, Timestamp},
        journal::record::encode,
    };

    fn parsed(line: &[u8]) -> RecordRef<'_> {
        Parser::default().parse(line).unwrap()
    }

    fn line(seq: u64, source: Source, by: Option<&str>, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let at = Timestamp::from_micros(1_767_323_045_678_901).to_string();
        encode(&mut out, Seq::new(seq), &at, source, by, data);
        out.pop();
        out
    }

    #[test]
    fn a_record_survives_its_copies() {
        let original = line(
            17,
            Source::Client,
            Some("phone"),
            br#"{"type":"user","message":{"content":"}"}}"#,
        );
        let parent = SessionId::new();
        let data = encode_history(parent, &parsed(&original));
        assert!(serde_json::from_slice::<serde_json::Value>(&data).is_ok());
        let copy = line(3, Source::Daemon, None, &data);
        let copy = parsed(&copy);
        assert!(is_history(&copy));
        let inner = unfold(copy);
        assert_eq!(
            (inner.seq, inner.source, inner.by),
            (Seq::new(3), Source::Client, Some("phone"))
        );
        assert_eq!((inner.at, inner.line), (parsed(&original).at, &original[..]));
        assert_eq!(inner.data, parsed(&original).data);
        let (start, whole) = parts(&copy).unwrap();
        assert!(start.starts_with(START) && whole == parsed(&original));
        // The copy of a copy names the first session still.
        let again = encode_history(SessionId::new(), &copy);
        assert_eq!(again, data);
    }

    #[test]
    fn other_records_are_as_they_are() {
        for (source, data) in [
            (Source::Cli, &br#"{"type":"history","session_id":"x"}"#[..]),
            (Source::Daemon, br#"{"type":"history","session_id":"short"}"#),
            (Source::Daemon, br#"{"type":"state"}"#),
        ] {
            let line = line(5, source, None, data);
            assert_eq!(unfold(parsed(&line)), parsed(&line));
        }
    }
}
