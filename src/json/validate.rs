//! Owns the question whether bytes are JSON, without building values: depth, size of numbers and escapes are free.

use super::scan;

/// Is this exactly one JSON value in UTF-8? Whitespace around it is allowed.
///
/// It asks for the grammar of RFC 8259 only: lone surrogate escapes, repeated keys, any depth and numbers of any size pass.
pub fn is_json(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok() && scan::is_value(bytes)
}

/// As [`is_json`], and the value is an object.
pub fn is_json_object(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(is_object)
}

/// As [`is_json_object`], of what is known to be text.
pub fn is_object(text: &str) -> bool {
    scan::is_object(text.as_bytes())
}

/// Whether this is an object whose member `type` is this text, spelled without escapes. The last of several holds.
pub fn has_type(bytes: &[u8], wanted: &str) -> bool {
    let mut found = false;
    let mut at = scan::skip_space(bytes, 0);
    if bytes.get(at) != Some(&b'{') {
        return false;
    }
    loop {
        // The brace, or the comma behind a member.
        let start = scan::skip_space(bytes, at + 1);
        let Some(colon) = scan::name_end(bytes, start) else {
            return false;
        };
        let value = scan::skip_space(bytes, colon);
        let Some(end) = scan::value_end(bytes, value) else {
            return false;
        };
        if bytes[start..].starts_with(br#""type""#) {
            let text = bytes[value..end].strip_prefix(b"\"");
            let text = text.and_then(|text| text.strip_suffix(b"\""));
            found = text == Some(wanted.as_bytes());
        }
        at = scan::skip_space(bytes, end);
        match bytes.get(at) {
            Some(b',') => {}
            _ => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_an_object_is_found_at_its_top() {
        for (text, found) in [
            (r#"{"type":"a"}"#, true),
            (r#" { "b" : {"type":"b"} , "type" : "a" } "#, true),
            (r#"{"type":"b","type":"a"}"#, true),
            (r#"{"type":"a","type":"b"}"#, false),
            (r#"{"type":"ab"}"#, false),
            (r#"{"b":{"type":"a"}}"#, false),
            (r#"{"b":"\"type\":\"a\""}"#, false),
            (r#"{"type":["a"]}"#, false),
            ("{}", false),
            ("[]", false),
            ("", false),
        ] {
            assert_eq!(has_type(text.as_bytes(), "a"), found, "{text}");
        }
    }

    #[test]
    fn objects_are_accepted() {
        for text in [
            "{}",
            " \t{\"a\":1}\r\n",
            r#"{"text":"\ud83d"}"#,
            r#"{"text":"\udc00\ud83d tail"}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"n":123456789012345678901234567890123456789012345678901234567890}"#,
            r#"{"n":-1.5e999999}"#,
            "{\"text\":\"\u{2028}\u{2029}\u{85}\"}",
        ] {
            assert!(is_json_object(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_is_not_one_object_is_refused() {
        let texts: [&[u8]; 15] = [
            b"",
            b"  ",
            b"[]",
            b"null",
            b"\"{}\"",
            b"{",
            b"{}{}",
            b"{} x",
            b"[DEBUG] {half",
            b"{'a':1}",
            b"{\"a\":01}",
            b"{\"a\":\"\xff\"}",
            b"{\"a\":\"\\ud8\"}",
            b"{\"a\":\"\x01\"}",
            b"\xef\xbb\xbf{}",
        ];
        for text in texts {
            assert!(!is_json_object(text), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_value_need_not_be_an_object() {
        assert!(is_json(b"[1,null]"));
        assert!(!is_json(b"[1,null"));
    }

    #[test]
    fn a_million_levels_do_not_overflow_the_stack() {
        const DEPTH: usize = 1_000_000;
        let mut arrays = b"{\"a\":".to_vec();
        arrays.resize(arrays.len() + DEPTH, b'[');
        arrays.resize(arrays.len() + DEPTH, b']');
        assert!(!is_json_object(&arrays));
        arrays.push(b'}');
        assert!(is_json_object(&arrays));

        let mut objects = b"{\"a\":".repeat(DEPTH);
        objects.push(b'1');
        objects.resize(objects.len() + DEPTH, b'}');
        assert!(is_json_object(&objects));
        objects.pop();
        assert!(!is_json_object(&objects));
    }
}
