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
    Line(&'a [u8]),
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

    /// Is the start of an unfinished line held?
    pub const fn is_mid_line(&self) -> bool {
        self.partial_bytes > 0
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
    } else if std::str::from_utf8(line).is_err() {
        on_item(Item::NotUtf8(line));
    } else if !line.trim_ascii().is_empty() {
        on_item(Item::Line(line));
    }
}
