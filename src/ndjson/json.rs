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

#[cfg(test)]
mod tests {
    use super::*;

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
