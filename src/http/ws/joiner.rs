//! Owns the pieces of a client's lines: text comes in any pieces, and each line is given once its 0x0A is there.

/// Joins pieces into lines of a bounded size.
#[derive(Debug)]
pub(super) struct Joiner {
    max_line_bytes: usize,
    /// The start of the line that is not finished yet.
    partial: String,
}

/// A line is over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Joiner {
    pub(super) const fn new(max_line_bytes: usize) -> Self {
        Self {
            max_line_bytes,
            partial: String::new(),
        }
    }

    /// Takes the next piece and gives the lines that it completes, without their ends and without blank ones.
    ///
    /// # Errors
    /// `TooLong` when a line is over the limit, whether it is finished or not.
    pub(super) fn feed(&mut self, text: &str) -> Result<Vec<String>, TooLong> {
        let mut lines = Vec::new();
        for piece in text.split_inclusive('\n') {
            self.partial.push_str(piece);
            if self.partial.len() > self.max_line_bytes {
                return Err(TooLong);
            }
            if piece.ends_with('\n') {
                let line = std::mem::take(&mut self.partial);
                let bare = line.trim();
                if !bare.is_empty() {
                    lines.push(bare.to_owned());
                }
            }
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_lines() {
        let mut joiner = Joiner::new(16);
        let feed = |joiner: &mut Joiner, text: &str| joiner.feed(text).unwrap();
        assert_eq!(feed(&mut joiner, "{\"a\""), Vec::<String>::new());
        assert_eq!(
            feed(&mut joiner, ":1}\r\n\n \n{\"b\":2}\n{"),
            ["{\"a\":1}", "{\"b\":2}"]
        );
        assert_eq!(feed(&mut joiner, "\u{2028}}\n"), ["{\u{2028}}"]);
        assert_eq!(feed(&mut joiner, ""), Vec::<String>::new());
    }

    #[test]
    fn a_line_is_bounded_however_it_comes() {
        assert_eq!(Joiner::new(4).feed("12345\n"), Err(TooLong));
        let mut joiner = Joiner::new(4);
        assert_eq!(joiner.feed("123\n12"), Ok(vec!["123".to_owned()]));
        assert_eq!(joiner.feed("345"), Err(TooLong));
    }
}
