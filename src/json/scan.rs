//! Owns the walk over JSON text: where a value ends, by the grammar of RFC 8259 and nothing else. It nests without recursion,
//! decodes nothing, and looks at many bytes of a string at once, as all that a process prints comes through here.

/// The index after white space.
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The index after the value that starts at `at`; `None` when none does.
pub(crate) fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'{' | b'[' => container_end(bytes, at),
        _ => scalar_end(bytes, at),
    }
}

/// Whether this is one value, with white space around it allowed.
pub(super) fn is_value(bytes: &[u8]) -> bool {
    let end = value_end(bytes, skip_space(bytes, 0));
    end.is_some_and(|end| skip_space(bytes, end) == bytes.len())
}

/// As [`is_value`], and the value is an object.
pub(super) fn is_object(bytes: &[u8]) -> bool {
    bytes.get(skip_space(bytes, 0)) == Some(&b'{') && is_value(bytes)
}

#[inline]
fn scalar_end(bytes: &[u8], at: usize) -> Option<usize> {
    let word = |word: &[u8]| bytes[at..].starts_with(word).then_some(at + word.len());
    match bytes.get(at)? {
        b'"' => string_end(bytes, at),
        b't' => word(b"true"),
        b'f' => word(b"false"),
        b'n' => word(b"null"),
        b'-' | b'0'..=b'9' => number_end(bytes, at),
        _ => None,
    }
}

fn container_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut open = Stack::default();
    loop {
        // A value begins.
        at = skip_space(bytes, at);
        match *bytes.get(at)? {
            b'{' => {
                open.push(true);
                at = skip_space(bytes, at + 1);
                if bytes.get(at) != Some(&b'}') {
                    at = name_end(bytes, at)?;
                    continue;
                }
                open.pop();
                at += 1;
            }
            b'[' => {
                open.push(false);
                at = skip_space(bytes, at + 1);
                if bytes.get(at) != Some(&b']') {
                    continue;
                }
                open.pop();
                at += 1;
            }
            _ => at = scalar_end(bytes, at)?,
        }
        // A value has ended, and with it perhaps what holds it.
        loop {
            if open.depth == 0 {
                return Some(at);
            }
            at = skip_space(bytes, at);
            match (*bytes.get(at)?, open.top()) {
                (b',', true) => {
                    at = name_end(bytes, skip_space(bytes, at + 1))?;
                    break;
                }
                (b',', false) => {
                    at += 1;
                    break;
                }
                (b'}', true) | (b']', false) => {
                    open.pop();
                    at += 1;
                }
                _ => return None,
            }
        }
    }
}

/// The index after the colon of the name that starts at `at`.
#[inline]
pub(super) fn name_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let colon = skip_space(bytes, string_end(bytes, at)?);
    (bytes.get(colon) == Some(&b':')).then_some(colon + 1)
}

/// The kinds of the open containers (true: object), one bit each.
#[derive(Default)]
struct Stack {
    /// The innermost 64.
    bits: u64,
    /// The ones outside those, in words of 64.
    outer: Vec<u64>,
    depth: usize,
}

impl Stack {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.bits);
        }
        self.bits = (self.bits << 1) | u64::from(object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.bits >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }

    fn top(&self) -> bool {
        self.bits & 1 == 1
    }
}

/// The index after the closing quote of the string whose opening quote is at `at`.
#[inline]
pub(crate) fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at = plain_end(bytes, at);
        match *bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => match bytes.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' => {
                    let hex = bytes.get(at + 2..at + 6)?;
                    if !hex.iter().all(u8::is_ascii_hexdigit) {
                        return None;
                    }
                    at += 6;
                }
                _ => return None,
            },
            // A bare control character.
            _ => return None,
        }
    }
}

/// The index of the next quote, backslash or control character.
#[inline]
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    const fn every(byte: u8) -> u64 {
        ONES * byte as u64
    }
    let mut words = 0;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        // A byte that is zero after the XOR, or is below a space, borrows. The lowest mark is always true; those above it may
        // be borrowed on.
        let quote = (word ^ every(b'"')).wrapping_sub(ONES);
        let escape = (word ^ every(b'\\')).wrapping_sub(ONES);
        let control = word.wrapping_sub(every(b' '));
        let hit = (quote | escape | control) & !word & HIGHS;
        if hit != 0 {
            return at + hit.trailing_zeros() as usize / 8;
        }
        at += 8;
        words += 1;
        if words == WORDS_BEFORE_BLOCKS {
            at = plain_blocks_end(bytes, at);
        }
    }
    while let Some(byte) = bytes.get(at) {
        if is_special(*byte) {
            break;
        }
        at += 1;
    }
    at
}

/// Most strings are short; one that is longer than so many words of eight bytes is worth more at once.
const WORDS_BEFORE_BLOCKS: u32 = 4;

/// The start of the first block with a quote, backslash or control character. The compiler makes vector code of it.
fn plain_blocks_end(bytes: &[u8], mut at: usize) -> usize {
    const BLOCK_BYTES: usize = 32;
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK_BYTES>()) {
        let any = block.iter().fold(false, |any, byte| any | is_special(*byte));
        if any {
            break;
        }
        at += BLOCK_BYTES;
    }
    at
}

/// Whether the byte ends a run of plain bytes in a string.
#[inline]
const fn is_special(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < b' ')
}

fn number_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let digits = |mut at: usize| {
        let start = at;
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        (at > start).then_some(at)
    };
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    at = if bytes.get(at) == Some(&b'0') {
        at + 1
    } else {
        digits(at)?
    };
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at += 1;
        }
        at = digits(at)?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words, blocks and single bytes take turns, so every length is tried.
    #[test]
    fn a_string_ends_where_it_ends_however_long_it_is() {
        for length in 0..200 {
            for plain in ["x".repeat(length), "é".repeat(length), "\u{7f}".repeat(length)] {
                let end = |text: String| string_end(text.as_bytes(), 0);
                let bytes = plain.len();
                assert_eq!(end(format!("\"{plain}\",\"{plain}\"")), Some(bytes + 2));
                assert_eq!(end(format!("\"{plain}\\\"{plain}\"{plain}")), Some(2 * bytes + 4));
                assert_eq!(end(format!("\"{plain}\\u00e9\\\\\"")), Some(bytes + 10));
                for broken in ["\u{1}", "\n", "\u{1f}", "\\x", "\\u00g9", "\\", ""] {
                    assert_eq!(end(format!("\"{plain}{broken}")), None, "{plain}{broken}");
                    if !broken.ends_with('\\') {
                        let closed = broken.is_empty().then_some(bytes + 2);
                        assert_eq!(end(format!("\"{plain}{broken}\"")), closed, "{plain}{broken}");
                    }
                }
            }
        }
    }
}
