//! Owns the format of a record: how its line is written, and how it is read by position.

use std::{fmt, io::Write as _};

use memchr::memchr;
use serde::{Deserialize, Serialize};

use super::chunk::Missing;
use crate::domain::{Seq, Timestamp};

/// The bytes from the start of a line within which its `seq` is whole.
pub(super) const SEQ_PREFIX_BYTES: usize = SEQ_KEY.len() + 20 + 1;

/// The bytes from the start of a line within which all numbers are that it tells of.
pub(super) const SPAN_PREFIX_BYTES: usize = SEQ_PREFIX_BYTES + LAST_SEQ_KEY.len() + 20 + COMPACTED_END.len();

/// The longest `by` that is taken.
pub(super) const MAX_BY_BYTES: usize = 256;

const SEQ_KEY: &[u8] = b"{\"seq\":";
const TS_KEY: &[u8] = b",\"ts\":\"";
const SRC_KEY: &[u8] = b"\",\"src\":\"";
const BY_KEY: &[u8] = b",\"by\":\"";
const DATA_KEY: &[u8] = b",\"data\":";
const LAST_SEQ_KEY: &[u8] = b",\"last_seq\":";
const COMPACTED_END: &[u8] = b",\"src\":\"compacted\"}";

/// Where a record came from.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A line that the CLI printed on stdout and that is a JSON object.
    Cli,
    /// A line that was written to the CLI's stdin.
    Client,
    /// An event of our own.
    Daemon,
    /// Other text on the CLI's stdout.
    StdoutText,
    /// Text on the CLI's stderr.
    Stderr,
}

impl Source {
    /// The name in a record.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Client => "client",
            Self::Daemon => "daemon",
            Self::StdoutText => "stdout_text",
            Self::Stderr => "stderr",
        }
    }

    fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"cli" => Some(Self::Cli),
            b"client" => Some(Self::Client),
            b"daemon" => Some(Self::Daemon),
            b"stdout_text" => Some(Self::StdoutText),
            b"stderr" => Some(Self::Stderr),
            _ => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One record, borrowed from its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// Its number.
    pub seq: Seq,
    /// When it was journaled.
    pub at: Timestamp,
    /// Where it came from.
    pub source: Source,
    /// The sender, for a line that a client wrote.
    pub by: Option<&'a str>,
    /// The JSON value, verbatim.
    pub data: &'a [u8],
    /// The whole record without its 0x0A: what a client receives.
    pub line: &'a [u8],
}

/// May this text stand in a record's `by` as it is, without an escape?
pub(super) fn is_plain_by(by: &str) -> bool {
    by.len() <= MAX_BY_BYTES
        && by
            .bytes()
            .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
}

/// Appends one record with its 0x0A. `data` is one JSON value without a raw 0x0A, `by` is plain.
pub(super) fn encode(out: &mut Vec<u8>, seq: Seq, at: &str, source: Source, by: Option<&str>, data: &[u8]) {
    out.extend_from_slice(SEQ_KEY);
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{seq}");
    out.extend_from_slice(TS_KEY);
    out.extend_from_slice(at.as_bytes());
    out.extend_from_slice(SRC_KEY);
    out.extend_from_slice(source.as_str().as_bytes());
    out.push(b'"');
    if let Some(by) = by {
        out.extend_from_slice(BY_KEY);
        out.extend_from_slice(by.as_bytes());
        out.push(b'"');
    }
    out.extend_from_slice(DATA_KEY);
    out.extend_from_slice(data);
    out.extend_from_slice(b"}\n");
}

/// The number of the record that begins with `start`, of which [`SEQ_PREFIX_BYTES`] are enough.
pub(super) fn seq_of(start: &[u8]) -> Option<Seq> {
    take_seq(start).map(|(seq, _)| seq)
}

/// Appends the line that stands in the place of records that a compaction took out.
pub(super) fn encode_compacted(out: &mut Vec<u8>, first: Seq, last: Seq) {
    // Writing to a Vec cannot fail.
    let _ = writeln!(out, r#"{{"seq":{first},"last_seq":{last},"src":"compacted"}}"#);
}

/// The records that the line, which is no record, stands for. [`SPAN_PREFIX_BYTES`] of it are enough.
pub(super) fn compacted_of(line: &[u8]) -> Option<Missing> {
    let (first, rest) = take_seq(line)?;
    let digits = rest.strip_prefix(LAST_SEQ_KEY)?;
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let last = std::str::from_utf8(&digits[..length]).ok()?.parse().ok()?;
    let last = (first.get()..=Seq::MAX.get())
        .contains(&last)
        .then(|| Seq::new(last))?;
    (digits[length..].starts_with(COMPACTED_END)).then(|| Missing::compacted(first, last))
}

/// The numbers that the line tells of: of one record, or of those in whose place it stands.
pub(super) fn span_of(start: &[u8]) -> Option<(Seq, Seq)> {
    match compacted_of(start) {
        Some(range) => Some((range.first_seq, range.last_seq)),
        None => seq_of(start).map(|seq| (seq, seq)),
    }
}

fn take_seq(line: &[u8]) -> Option<(Seq, &[u8])> {
    let digits = line.strip_prefix(SEQ_KEY)?;
    let mut number = 0_u64;
    let mut length = 0;
    for &byte in digits.iter().take_while(|byte| byte.is_ascii_digit()) {
        number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
        length += 1;
    }
    let rest = &digits[length..];
    // No journal gets that far: a larger number is not one of ours.
    let canonical =
        (1..=Seq::MAX.get()).contains(&number) && digits[0] != b'0' && rest.first() == Some(&b',');
    canonical.then_some((Seq::new(number), rest))
}

/// Reads records by the position of their fields. Records of one batch share their time, so the last one is remembered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parser<'a> {
    last_time: Option<(&'a [u8], Timestamp)>,
}

impl<'a> Parser<'a> {
    /// The record in `line`, which has no 0x0A; `None` when the line is not one of ours. `data` is not looked into.
    pub(super) fn parse(&mut self, line: &'a [u8]) -> Option<RecordRef<'a>> {
        let (seq, rest) = take_seq(line)?;
        let (time, rest) = take_string(rest, TS_KEY)?;
        let at = self.time(time)?;
        // The key of `src` begins with the quote that ends the time.
        let (source, mut rest) = take_string(rest, &SRC_KEY[1..])?;
        let source = Source::from_name(source)?;
        let mut by = None;
        if let Some((text, after)) = take_string(rest, BY_KEY) {
            by = Some(std::str::from_utf8(text).ok()?);
            rest = after;
        }
        let data = rest.strip_prefix(DATA_KEY)?.strip_suffix(b"}")?;
        (!data.is_empty()).then_some(RecordRef {
            seq,
            at,
            source,
            by,
            data,
            line,
        })
    }

    fn time(&mut self, text: &'a [u8]) -> Option<Timestamp> {
        if let Some((last, at)) = self.last_time
            && last == text
        {
            return Some(at);
        }
        let at = std::str::from_utf8(text).ok()?.parse().ok()?;
        self.last_time = Some((text, at));
        Some(at)
    }
}

/// Takes `key`, then the text up to the next quote, then that quote.
fn take_string<'a>(text: &'a [u8], key: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let value = text.strip_prefix(key)?;
    let quote = memchr(b'"', value)?;
    Some((&value[..quote], &value[quote + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(by: Option<&str>, source: Source, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let at = Timestamp::from_micros(1_767_323_045_678_901).to_string();
        encode(&mut out, Seq::new(42), &at, source, by, data);
        out
    }

    #[test]
    fn the_line_is_as_documented() {
        assert_eq!(
            line(None, Source::Cli, br#"{"type":"x"}"#),
            b"{\"seq\":42,\"ts\":\"2026-01-02T03:04:05.678901Z\",\"src\":\"cli\",\"data\":{\"type\":\"x\"}}\n"
        );
        assert_eq!(
            line(Some("phone"), Source::Client, b"1"),
            b"{\"seq\":42,\"ts\":\"2026-01-02T03:04:05.678901Z\",\"src\":\"client\",\"by\":\"phone\",\"data\":1}\n"
        );
    }

    #[test]
    fn what_is_written_is_read() {
        let sources = [
            Source::Cli,
            Source::Client,
            Source::Daemon,
            Source::StdoutText,
            Source::Stderr,
        ];
        for source in sources {
            for by in [None, Some(""), Some("téléphone, }")] {
                let line = line(by, source, br#"{"a":"\",\"data\":{}}"}"#);
                let line = &line[..line.len() - 1];
                let record = Parser::default().parse(line).unwrap();
                assert_eq!(record.seq, Seq::new(42));
                assert_eq!(record.at, Timestamp::from_micros(1_767_323_045_678_901));
                assert_eq!(record.source, source);
                assert_eq!(record.by, by);
                assert_eq!(record.data, br#"{"a":"\",\"data\":{}}"}"#);
                assert_eq!(record.line, line);
                assert_eq!(seq_of(&line[..SEQ_PREFIX_BYTES]), Some(record.seq));
                let json: serde_json::Value = serde_json::from_slice(line).unwrap();
                assert_eq!(json["src"], serde_json::to_value(source).unwrap());
                assert_eq!(json["src"], source.as_str());
            }
        }
    }

    #[test]
    fn foreign_lines_are_not_records() {
        let good = r#"{"seq":42,"ts":"2026-01-02T03:04:05.678901Z","src":"cli","data":{}}"#;
        assert!(Parser::default().parse(good.as_bytes()).is_some());
        for (from, to) in [
            ("{\"seq\":42", "{\"seq\":042"),
            ("{\"seq\":42", "{\"seq\":0"),
            ("{\"seq\":42", "{\"seq\":"),
            ("{\"seq\":42", "{\"seq\":-42"),
            ("{\"seq\":42", "{\"seq\":99999999999999999999"),
            ("{\"seq\":42", "{\"seq\":18446744073709551615"),
            ("{\"seq\":42", "{\"seq\":9007199254740992"),
            ("{\"seq\":42", " {\"seq\":42"),
            ("2026-01-02", "yesterday"),
            ("\"cli\"", "\"cly\""),
            ("\"cli\"", "\"cli\",\"by\":\"x"),
            (",\"data\":{}", ""),
            ("\"data\":{}", "\"data\":"),
            ("{}}", "{"),
        ] {
            let bad = good.replace(from, to);
            assert_ne!(bad, good);
            assert_eq!(Parser::default().parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn the_largest_number_fits_the_prefix() {
        let mut out = Vec::new();
        encode(&mut out, Seq::MAX, "t", Source::Cli, None, b"1");
        assert_eq!(seq_of(&out[..SEQ_PREFIX_BYTES]), Some(Seq::MAX));
    }

    #[test]
    fn the_line_of_a_compaction_is_no_record() {
        let mut out = Vec::new();
        encode_compacted(&mut out, Seq::new(3), Seq::new(17));
        assert_eq!(out, b"{\"seq\":3,\"last_seq\":17,\"src\":\"compacted\"}\n");
        assert_eq!(Parser::default().parse(&out[..out.len() - 1]), None);
        assert_eq!(
            compacted_of(&out),
            Some(Missing::compacted(Seq::new(3), Seq::new(17)))
        );
        out.clear();
        encode_compacted(&mut out, Seq::MAX, Seq::MAX);
        assert_eq!(
            span_of(&out[..SPAN_PREFIX_BYTES.min(out.len())]),
            Some((Seq::MAX, Seq::MAX))
        );
        let record = line(None, Source::Cli, b"1");
        assert_eq!(compacted_of(&record), None);
        assert_eq!(span_of(&record), Some((Seq::new(42), Seq::new(42))));
        assert_eq!(compacted_of(br#"{"seq":3,"last_seq":2,"src":"compacted"}"#), None);
    }

    #[test]
    fn a_by_that_needs_an_escape_is_not_plain() {
        assert!(is_plain_by("connection 7 (Zoë)"));
        for by in ["a\"b", "a\\b", "a\nb", "a\u{0}b", &"x".repeat(MAX_BY_BYTES + 1)] {
            assert!(!is_plain_by(by), "{by:?}");
        }
    }
}
