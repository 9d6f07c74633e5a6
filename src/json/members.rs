//! Owns the reading of raw JSON values without decoding the rest: slices of the text are handed out, and lone surrogate escapes
//! are text like any other.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::scan::{skip_space, string_end, value_end};

/// A JSON object kept byte for byte: the order of its keys and the spelling of its numbers survive.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct JsonObject(Box<RawValue>);

impl JsonObject {
    /// The object's text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The object as a raw value.
    pub fn raw(&self) -> &RawValue {
        &self.0
    }

    /// The raw text of the member with this name; the last one wins.
    pub(crate) fn member(&self, name: &str) -> Option<&str> {
        let [value] = members(self.get(), [name])?;
        value
    }
}

impl fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may hold secrets.
        write!(f, "{{{} bytes}}", self.get().len())
    }
}

impl PartialEq for JsonObject {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('{') {
            Ok(Self(raw))
        } else {
            Err(serde::de::Error::custom("expected a JSON object"))
        }
    }
}

impl utoipa::PartialSchema for JsonObject {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::Object::new().into()
    }
}

impl utoipa::ToSchema for JsonObject {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("JsonObject")
    }
}

/// The raw values of the named members of the object that is the whole of `text`, white space around it allowed.
/// `None` when `text` is not exactly one JSON object. A repeated name keeps its last value, as in JavaScript.
pub(crate) fn members<'a, const N: usize>(text: &'a str, names: [&str; N]) -> Option<[Option<&'a str>; N]> {
    let mut found = [None; N];
    for_each_member(text, |name, value| {
        if let Some(slot) = names.iter().position(|wanted| *wanted == name) {
            found[slot] = Some(value);
        }
    })?;
    Some(found)
}

/// Calls `visit` with each member's decoded name and raw value, in order. `None` when `text` is not exactly one object.
pub(crate) fn for_each_member<'a>(text: &'a str, mut visit: impl FnMut(&str, &'a str)) -> Option<()> {
    let bytes = text.as_bytes();
    let mut at = skip_space(bytes, 0);
    if bytes.get(at) != Some(&b'{') {
        return None;
    }
    at = skip_space(bytes, at + 1);
    if bytes.get(at) == Some(&b'}') {
        at += 1;
    } else {
        loop {
            if bytes.get(at) != Some(&b'"') {
                return None;
            }
            let name_start = at;
            at = string_end(bytes, at)?;
            let name = decode_lossy(&text[name_start..at])?;
            at = skip_space(bytes, at);
            if bytes.get(at) != Some(&b':') {
                return None;
            }
            let start = skip_space(bytes, at + 1);
            at = value_end(bytes, start)?;
            visit(&name, &text[start..at]);
            at = skip_space(bytes, at);
            match bytes.get(at)? {
                b',' => at = skip_space(bytes, at + 1),
                b'}' => {
                    at += 1;
                    break;
                }
                _ => return None,
            }
        }
    }
    (skip_space(bytes, at) == bytes.len()).then_some(())
}

/// The raw items of a JSON array; `None` when `text` is not exactly one array.
pub(crate) fn items(text: &str) -> Option<Vec<&str>> {
    let bytes = text.as_bytes();
    let mut at = skip_space(bytes, 0);
    if bytes.get(at) != Some(&b'[') {
        return None;
    }
    at = skip_space(bytes, at + 1);
    let mut found = Vec::new();
    if bytes.get(at) == Some(&b']') {
        at += 1;
    } else {
        loop {
            let start = at;
            at = value_end(bytes, start)?;
            found.push(&text[start..at]);
            at = skip_space(bytes, at);
            match bytes.get(at)? {
                b',' => at = skip_space(bytes, at + 1),
                b']' => {
                    at += 1;
                    break;
                }
                _ => return None,
            }
        }
    }
    (skip_space(bytes, at) == bytes.len()).then_some(found)
}

/// The string that `raw` spells; `None` when it is no string, or one with a lone surrogate that no Rust string can hold.
pub(crate) fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = quoted(raw)?;
    if inner.contains('\\') {
        serde_json::from_str(raw).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Like [`string()`], but a lone surrogate becomes U+FFFD.
pub(crate) fn decode_lossy(raw: &str) -> Option<Cow<'_, str>> {
    string(raw).or_else(|| quoted(raw).map(|inner| Cow::Owned(decode_units(inner))))
}

/// The boolean that `raw` spells.
pub(crate) fn boolean(raw: &str) -> Option<bool> {
    match raw {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// The count that `raw` spells: a whole number of at least 0, also in the form `3.0`.
pub(crate) fn count(raw: &str) -> Option<u64> {
    raw.parse().ok().or_else(|| {
        let number = float(raw)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "range checked here"
        )]
        (0.0..9e15).contains(&number).then_some(number as u64)
    })
}

/// The number that `raw` spells.
pub(crate) fn float(raw: &str) -> Option<f64> {
    let first = *raw.as_bytes().first()?;
    if first != b'-' && !first.is_ascii_digit() {
        return None;
    }
    raw.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Whether `raw` is an object.
pub(crate) fn is_object(raw: &str) -> bool {
    raw.starts_with('{')
}

fn quoted(raw: &str) -> Option<&str> {
    raw.strip_prefix('"')?.strip_suffix('"')
}

/// Decodes the escapes of a string that the scanner accepted.
fn decode_units(inner: &str) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    let mut buffer = [0; 2];
    while let Some(c) = chars.next() {
        if c != '\\' {
            units.extend_from_slice(c.encode_utf16(&mut buffer));
            continue;
        }
        match chars.next() {
            Some('u') => {
                let hex: String = chars.by_ref().take(4).collect();
                units.push(u16::from_str_radix(&hex, 16).unwrap_or(0xFFFD));
            }
            Some('b') => units.push(8),
            Some('f') => units.push(12),
            Some('n') => units.push(10),
            Some('r') => units.push(13),
            Some('t') => units.push(9),
            Some(other) => units.extend_from_slice(other.encode_utf16(&mut buffer)),
            None => {}
        }
    }
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_json_object(text: &str) -> bool {
        members(text, [""; 0]).is_some()
    }

    #[test]
    fn members_are_found_as_they_are_written() {
        let text = " {\"a\" : 1.0e2 ,\n\"b\":[ {\"a\":2} ],\"c\":\"x\\u0041\"} ";
        let found = members(text, ["a", "b", "c", "d"]).unwrap();
        let wanted = [Some("1.0e2"), Some("[ {\"a\":2} ]"), Some("\"x\\u0041\""), None];
        assert_eq!(found, wanted);
        assert_eq!(members("{}", ["a"]), Some([None]));
    }

    #[test]
    fn the_last_of_a_repeated_name_counts_however_it_is_spelled() {
        let found = members(r#"{"type":"a","t\u0079pe":"b"}"#, ["type"]).unwrap();
        assert_eq!(found, [Some("\"b\"")]);
    }

    #[test]
    fn a_lone_surrogate_is_text_like_any_other() {
        let text = r#"{"\ud800":1,"x":"cut \ud83d here","y":"\ud83d\ude00"}"#;
        let [x, y] = members(text, ["x", "y"]).unwrap();
        assert_eq!(string(x.unwrap()), None);
        assert_eq!(decode_lossy(x.unwrap()).unwrap(), "cut \u{FFFD} here");
        assert_eq!(string(y.unwrap()).unwrap(), "😀");
        let escapes = r#""\"\\\/\b\f\n\r\t\u00e9\ud800""#;
        assert_eq!(
            decode_lossy(escapes).unwrap(),
            "\"\\/\u{8}\u{c}\n\r\t\u{e9}\u{FFFD}"
        );
    }

    #[test]
    fn deep_nesting_costs_no_stack() {
        for depth in [63, 64, 65, 127, 128, 129, 1_000_000] {
            let open: String = "[{\"a\":".repeat(depth);
            let close = "}]".repeat(depth);
            let text = format!(r#"{{"deep":{open}1{close},"after":2}}"#);
            let [after] = members(&text, ["after"]).unwrap();
            assert_eq!(after, Some("2"), "{depth}");
            let crossed = format!(r#"{{"deep":{open}1{},"after":2}}"#, "]}".repeat(depth));
            assert!(!is_json_object(&crossed), "{depth}");
        }
    }

    #[test]
    fn numbers_are_read_as_counts_only_when_they_count() {
        assert_eq!(count("3"), Some(3));
        assert_eq!(count("3.0"), Some(3));
        for raw in ["-1", "1e300", "\"3\"", "null", "true", "inf", "NaN"] {
            assert_eq!(count(raw), None, "{raw}");
        }
        assert_eq!(float("1e999"), None);
        assert_eq!(float("2e-05"), Some(0.000_02));
    }

    #[test]
    fn items_are_the_values_of_a_list() {
        assert_eq!(
            items("[ 1 , \"a,]\" , [2,3] ]").unwrap(),
            ["1", "\"a,]\"", "[2,3]"]
        );
        assert_eq!(items("[]").unwrap().len(), 0);
        for text in ["[1,]", "[1 2]", "{}", "[", "[1]x", ""] {
            assert_eq!(items(text), None, "{text}");
        }
    }

    #[test]
    fn an_object_of_the_api_keeps_its_bytes_and_is_an_object() {
        let object: JsonObject = serde_json::from_str(r#"{"z":1e2,"a":[]}"#).unwrap();
        assert_eq!(object.get(), r#"{"z":1e2,"a":[]}"#);
        assert_eq!(serde_json::to_string(&object).unwrap(), object.get());
        assert_eq!(object.member("a"), Some("[]"));
        assert!(serde_json::from_str::<JsonObject>("[1]").is_err());
    }

    fn json_like() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("{"),
            Just("}"),
            Just("["),
            Just("]"),
            Just(","),
            Just(":"),
            Just("\""),
            Just("\\"),
            Just("\"a\""),
            Just("\"\\u00e9\""),
            Just("\\ud800"),
            Just("1"),
            Just("-0"),
            Just("01"),
            Just("1.5e+3"),
            Just("2."),
            Just("-"),
            Just("e"),
            Just("true"),
            Just("null"),
            Just("fals"),
            Just(" "),
            Just("\n"),
            Just("\u{1}"),
            Just("\u{2028}"),
            Just("é"),
            Just("\"12345678\\n\""),
        ];
        prop_oneof![
            3 => prop::collection::vec(piece, 0..16).prop_map(|pieces| format!("{{{}}}", pieces.concat())),
            1 => "\\PC{0,20}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        /// The grammar is that of another reader which also leaves escapes alone.
        #[test]
        fn what_is_an_object_is_what_another_reader_takes_for_one(text in json_like()) {
            let other = serde_json::from_str::<&RawValue>(&text)
                .is_ok_and(|raw| raw.get().starts_with('{'));
            prop_assert_eq!(is_json_object(&text), other);
        }

        #[test]
        fn strings_of_any_length_end_where_they_end(text in "[a-z\"\\\\\u{1}-\u{1F}é😀]{0,40}") {
            let raw = serde_json::to_string(&text).unwrap();
            let line = format!(r#"{{"a":{raw},"b":{raw}}}"#);
            let [a, b] = members(&line, ["a", "b"]).unwrap();
            prop_assert_eq!(a, Some(raw.as_str()));
            prop_assert_eq!(string(b.unwrap()).unwrap(), text.as_str());
            prop_assert_eq!(decode_lossy(b.unwrap()).unwrap(), text.as_str());
        }
    }
}
