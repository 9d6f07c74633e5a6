//! Owns a line for the process, and what of it is journaled.

use std::fmt;

use bytes::Bytes;

/// A line for the process: one JSON object without its newline.
#[derive(Clone)]
pub struct Line {
    text: Bytes,
    record: Option<Bytes>,
}

impl Line {
    /// A line that holds a secret: the journal gets `record` in its place, also one JSON object. Both together may be as
    /// long as one line. A keeper that can't do this never sees the line ([`WriteError`](super::WriteError)).
    pub fn secret(text: impl Into<Bytes>, record: impl Into<Bytes>) -> Self {
        Self {
            text: text.into(),
            record: Some(record.into()),
        }
    }

    /// Its bytes, and those of what the journal gets in its place.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.record.as_ref().map_or(0, Bytes::len)
    }

    /// The text, and what the journal gets in its place.
    pub(super) fn into_parts(self) -> (Bytes, Option<Bytes>) {
        (self.text, self.record)
    }
}

impl<T: Into<Bytes>> From<T> for Line {
    /// A line that is journaled as it is.
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            record: None,
        }
    }
}

/// Shows neither: a line without a mark holds what a person wrote.
impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("bytes", &self.text.len())
            .field("is_secret", &self.record.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_not_shown() {
        let line = Line::secret("PLANTED", "{}");
        assert_eq!(line.bytes(), 9);
        assert_eq!(format!("{line:?}"), "Line { bytes: 7, is_secret: true, .. }");
    }
}
