//! Owns the line splitter. Memory is bounded by the cap on a line, whatever arrives.

use memchr::memchr;

/// How many of its first bytes an oversized line keeps.
pub const OVERSIZED_HEAD_BYTES: usize = 256;

/// The buffer that a decoder keeps between lines; a larger one is given back after the line that needed it.
const RETAINED_BYTES: usize = 64 * 1024;

/// One line of the input, without its 0x0A. Blank lines are not items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A line in UTF-8. Nothing is stripped: a trailing CR is part of it.
    Line(&'a str),
    /// A line that is not UTF-8.
    NotUtf8(&'a [u8]),
    /// A line above the cap. The line after it is fine.
    Oversized {
        /// Its true size, the 0x0A not counted.
        bytes: u64,
        /// Its first [`OVERSIZED_HEAD_BYTES`] bytes, which may end inside a character.
        head: &'a [u8],
    },
}

/// Splits a stream of bytes into [`Item`]s.
#[derive(Debug)]
pub struct Decoder {
    max_line_bytes: usize,
    /// The start of the line that is not finished yet; only its head once it is over the cap.
    partial: Vec<u8>,
    /// How many bytes the unfinished line has so far.
    partial_bytes: u64,
}

impl Decoder {
    /// A decoder for lines of up to `max_line_bytes`, the 0x0A not counted.
    pub const fn new(max_line_bytes: usize) -> Self {
        Self {
            max_line_bytes,
            partial: Vec::new(),
            partial_bytes: 0,
        }
    }

    /// Takes the next bytes and gives every line that they complete, in order. A line that lies whole in `bytes` is not copied.
    pub fn feed(&mut self, bytes: &[u8], mut on_item: impl FnMut(Item<'_>)) {
        let mut rest = bytes;
        while let Some(newline) = memchr(b'\n', rest) {
            let line = &rest[..newline];
            rest = &rest[newline + 1..];
            if self.partial_bytes == 0 {
                deliver(line, line.len() as u64, self.max_line_bytes, &mut on_item);
            } else {
                self.keep(line);
                self.deliver_partial(&mut on_item);
            }
        }
        self.keep(rest);
    }

    /// The input has ended: gives the last line if no 0x0A ended it. The decoder is then as new.
    pub fn finish(&mut self, mut on_item: impl FnMut(Item<'_>)) {
        if self.partial_bytes > 0 {
            self.deliver_partial(&mut on_item);
        }
    }

    fn deliver_partial(&mut self, on_item: &mut impl FnMut(Item<'_>)) {
        deliver(&self.partial, self.partial_bytes, self.max_line_bytes, on_item);
        self.partial_bytes = 0;
        self.partial.clear();
        self.partial.shrink_to(RETAINED_BYTES);
    }

    /// Adds a piece of the unfinished line.
    fn keep(&mut self, piece: &[u8]) {
        self.partial_bytes += piece.len() as u64;
        let wanted = if self.partial_bytes > self.max_line_bytes as u64 {
            self.partial.truncate(OVERSIZED_HEAD_BYTES);
            self.partial.shrink_to(RETAINED_BYTES);
            OVERSIZED_HEAD_BYTES - self.partial.len()
        } else {
            piece.len()
        };
        let piece = &piece[..piece.len().min(wanted)];
        let needed = self.partial.len() + piece.len();
        if needed > self.partial.capacity() {
            // Doubling, as Vec does, but never past the cap.
            let capacity = (2 * self.partial.capacity()).min(self.max_line_bytes).max(needed);
            self.partial.reserve_exact(capacity - self.partial.len());
        }
        self.partial.extend_from_slice(piece);
    }
}

/// Names a finished line of `bytes` bytes, of which at least the head is in `line`.
fn deliver(line: &[u8], bytes: u64, max_line_bytes: usize, on_item: &mut impl FnMut(Item<'_>)) {
    if bytes > max_line_bytes as u64 {
        let head = &line[..line.len().min(OVERSIZED_HEAD_BYTES)];
        on_item(Item::Oversized { bytes, head });
    } else {
        match std::str::from_utf8(line) {
            Ok(text) if text.trim_ascii().is_empty() => {}
            Ok(text) => on_item(Item::Line(text)),
            Err(_) => on_item(Item::NotUtf8(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    enum Owned {
        Line(Vec<u8>),
        NotUtf8(Vec<u8>),
        Oversized(u64, Vec<u8>),
    }

    impl From<Item<'_>> for Owned {
        fn from(item: Item<'_>) -> Self {
            match item {
                Item::Line(line) => Self::Line(line.as_bytes().to_vec()),
                Item::NotUtf8(line) => Self::NotUtf8(line.to_vec()),
                Item::Oversized { bytes, head } => Self::Oversized(bytes, head.to_vec()),
            }
        }
    }

    fn decode<'a>(max_line_bytes: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
        let mut decoder = Decoder::new(max_line_bytes);
        let mut items = Vec::new();
        for piece in pieces {
            decoder.feed(piece, |item| items.push(item.into()));
            assert!(decoder.partial.capacity() <= max_line_bytes.max(OVERSIZED_HEAD_BYTES));
        }
        decoder.finish(|item| items.push(item.into()));
        items
    }

    /// The items as they must be, said in the plainest way.
    fn expected(max_line_bytes: usize, input: &[u8]) -> Vec<Owned> {
        let mut items = Vec::new();
        for line in input.split(|&byte| byte == b'\n') {
            if line.len() > max_line_bytes {
                let head = line.iter().take(OVERSIZED_HEAD_BYTES).copied().collect();
                items.push(Owned::Oversized(line.len() as u64, head));
            } else if String::from_utf8(line.to_vec()).is_err() {
                items.push(Owned::NotUtf8(line.to_vec()));
            } else if !line.iter().all(u8::is_ascii_whitespace) {
                items.push(Owned::Line(line.to_vec()));
            }
        }
        items
    }

    /// Bytes in which line ends, blanks, broken UTF-8 and long runs are frequent.
    fn input() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => Just(b"\n".to_vec()),
            1 => Just(b"\r\n".to_vec()),
            1 => Just(b" \t".to_vec()),
            2 => Just("{\"a\":\"\u{2028}é\"}".into()),
            1 => Just(b"\xff".to_vec()),
            1 => Just(b"\xe2\x80".to_vec()),
            2 => proptest::collection::vec(any::<u8>(), 0..8),
            1 => (0..700_usize).prop_map(|length| vec![b'x'; length]),
        ];
        proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_items(
            input in input(),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
            max_line_bytes in prop_oneof![0..12_usize, 200..600_usize],
        ) {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
            cuts.extend([0, input.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &input[pair[0]..pair[1]]);
            let items = expected(max_line_bytes, &input);
            prop_assert_eq!(&decode(max_line_bytes, pieces), &items);
            prop_assert_eq!(&decode(max_line_bytes, input.chunks(1)), &items);
        }
    }

    #[test]
    fn only_0x0a_ends_a_line() {
        let line = "{\"a\":\"\u{2028}\u{2029}\u{85}\r\u{b}\u{c}\"}\r";
        let input = format!("{line}\n\r\n \n\n2");
        assert_eq!(
            decode(100, [input.as_bytes()]),
            [Owned::Line(line.as_bytes().to_vec()), Owned::Line(b"2".to_vec())]
        );
    }

    #[test]
    fn an_oversized_line_tells_its_true_size_and_the_next_is_fine() {
        let mut input = vec![b'a'; 3_000_000];
        input.extend_from_slice(b"\nnext\n");
        for piece_bytes in [1_000, 65_536, input.len()] {
            assert_eq!(
                decode(1_000_000, input.chunks(piece_bytes)),
                [
                    Owned::Oversized(3_000_000, vec![b'a'; OVERSIZED_HEAD_BYTES]),
                    Owned::Line(b"next".to_vec())
                ]
            );
        }
    }

    #[test]
    fn a_line_as_long_as_the_cap_passes() {
        assert_eq!(
            decode(3, [&b"abc\nabcd\n"[..]]),
            [
                Owned::Line(b"abc".to_vec()),
                Owned::Oversized(4, b"abcd".to_vec())
            ]
        );
    }

    #[test]
    fn an_unterminated_last_line_is_delivered_once() {
        let mut decoder = Decoder::new(10);
        let mut lines = 0;
        decoder.feed(b"one", |_| lines += 1);
        assert_eq!(lines, 0);
        decoder.finish(|item| {
            assert_eq!(item, Item::Line("one"));
            lines += 1;
        });
        decoder.finish(|_| lines += 1);
        assert_eq!(lines, 1);
    }

    #[test]
    fn a_whole_line_is_not_copied_and_a_large_buffer_is_given_back() {
        let mut decoder = Decoder::new(10_000_000);
        let input = b"whole\nstart";
        decoder.feed(input, |item| match item {
            Item::Line(line) => assert_eq!(line.as_ptr(), input.as_ptr()),
            other => panic!("{other:?}"),
        });
        decoder.feed(&vec![b'x'; 5_000_000], |_| panic!("not finished"));
        decoder.feed(b"\n", |_| {});
        assert!(decoder.partial.capacity() <= RETAINED_BYTES);
    }
}
