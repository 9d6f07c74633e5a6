//! Owns how words are found in a text, whatever case either is written in, and the short piece of the text around them.

use std::ops::Range;

use memchr::memmem::Finder;
use unicode_segmentation::UnicodeSegmentation as _;

/// The longest words that are looked for, in characters.
pub const MAX_WORDS_CHARS: usize = 200;
/// The most of a text that an excerpt has on each side of the words, in characters as a reader counts them.
const AROUND: usize = 60;
/// The same in bytes: a letter may carry any number of marks.
const AROUND_BYTES: usize = 600;

/// Words to be found.
#[derive(Clone, Debug)]
pub struct Words(Finder<'static>);

/// Why nothing can be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWords {
    /// The words are empty or blank.
    #[error("expected words to look for")]
    Blank,
    /// The words are too long.
    #[error("expected at most {MAX_WORDS_CHARS} characters")]
    TooLong,
}

/// Words in a text, with what stands before and after them, all in one line. A side that is cut begins or ends with `…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The text before the words.
    pub before: String,
    /// The words as the text has them.
    pub words: String,
    /// The text after the words.
    pub after: String,
}

impl Words {
    /// The words of a text.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn new(text: &str) -> Result<Self, BadWords> {
        if text.trim().is_empty() {
            return Err(BadWords::Blank);
        }
        if text.chars().count() > MAX_WORDS_CHARS {
            return Err(BadWords::TooLong);
        }
        Ok(Self(Finder::new(&folded(text)).into_owned()))
    }

    /// The first place of the words in a text, and what is around it.
    pub fn first_in(&self, text: &str) -> Option<Excerpt> {
        self.place_in(text).map(|place| around(text, place))
    }

    fn place_in(&self, text: &str) -> Option<Range<usize>> {
        let folded = folded(text);
        let start = self.0.find(folded.as_bytes())?;
        let end = start + self.0.needle().len();
        // A letter may fold to several, and its fold to more or fewer bytes: the text is gone through once more.
        let (mut passed, mut begin) = (0, None);
        for (from, run) in runs(text) {
            if run.is_ascii() && passed + run.len() <= start {
                passed += run.len();
                continue;
            }
            for (at, c) in run.char_indices() {
                passed += fold(c).map(char::len_utf8).sum::<usize>();
                if passed > start {
                    begin.get_or_insert(from + at);
                }
                if passed >= end {
                    return begin.map(|begin| begin..from + at + c.len_utf8());
                }
            }
        }
        None
    }
}

/// The text without regard to case.
fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (_, run) in runs(text) {
        if run.is_ascii() {
            let start = out.len();
            out.push_str(run);
            out[start..].make_ascii_lowercase();
        } else {
            out.extend(run.chars().flat_map(fold));
        }
    }
    out
}

/// The longest pieces of a text that are ASCII, or are not, with their places: most of a large text is, and that is quick.
fn runs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let runs = text
        .as_bytes()
        .chunk_by(|one, next| one.is_ascii() == next.is_ascii());
    runs.scan(0, |at, run| {
        let start = std::mem::replace(at, *at + run.len());
        Some((start, &text[start..*at]))
    })
}

/// The letters that a letter is compared by. Once is not enough: `ẞ`, `ß` and `ss` are the same, and so are `Σ`, `σ` and `ς`.
fn fold(c: char) -> impl Iterator<Item = char> {
    let lower = c.to_lowercase();
    lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// The excerpt around a place. It cuts no character as a reader counts them, unless one is endless.
fn around(text: &str, place: Range<usize>) -> Excerpt {
    let from = text.floor_char_boundary(place.start.saturating_sub(AROUND_BYTES));
    let to = text.ceil_char_boundary(place.end.saturating_add(AROUND_BYTES));
    let window = &text[from..to];
    let ends: Vec<usize> = window
        .grapheme_indices(true)
        .map(|(at, _)| from + at)
        .chain([to])
        .collect();
    let first = ends.partition_point(|at| *at <= place.start).saturating_sub(1);
    let last = ends.partition_point(|at| *at < place.end).min(ends.len() - 1);
    // The window's own edges may be within a character.
    let cut = usize::from(from > 0 && first > 0);
    let begin = ends[first.saturating_sub(AROUND).max(cut)];
    let rest = usize::from(to < text.len() && last + 1 < ends.len());
    let end = ends[(last + AROUND).min(ends.len() - 1 - rest)];
    let ellipsis = |is_cut: bool| if is_cut { "…" } else { "" };
    Excerpt {
        before: format!("{}{}", ellipsis(begin > 0), one_line(&text[begin..ends[first]])),
        words: one_line(&text[ends[first]..ends[last]]),
        after: format!(
            "{}{}",
            one_line(&text[ends[last]..end]),
            ellipsis(end < text.len())
        ),
    }
}

/// The text with one blank for each stretch of white space.
fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_whitespace() {
            out.push(c);
        } else if !out.ends_with(' ') {
            out.push(' ');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &str, text: &str) -> Option<(String, String, String)> {
        let found = Words::new(words).unwrap().first_in(text)?;
        Some((found.before, found.words, found.after))
    }

    fn words_in(words: &str, text: &str) -> Option<String> {
        found(words, text).map(|(_, words, _)| words)
    }

    #[test]
    fn the_first_place_is_shown_with_what_is_around_in_one_line() {
        let (before, words, after) = found("TWO", "They pass now.\n\n\tTwo were  wrong, two.").unwrap();
        assert_eq!(
            (before.as_str(), words.as_str(), after.as_str()),
            ("They pass now. ", "Two", " were wrong, two.")
        );
        assert_eq!(words_in("three", "One and two."), None);
        assert_eq!(words_in("a", ""), None);
    }

    #[test]
    fn case_does_not_matter_in_any_script() {
        for (words, text, hit) in [
            ("STRASSE", "Die Straße.", "Straße"),
            ("straße", "Die STRASSE.", "STRASSE"),
            ("ΟΔΟΣ", "η οδος μου", "οδος"),
            ("οδός", "Η ΟΔΌΣ", "ΟΔΌΣ"),
            ("МОСКВА", "в москва", "москва"),
            ("istanbul", "in ISTANBUL", "ISTANBUL"),
            ("éCOLE", "L'École", "École"),
            ("kelvin", "\u{212a}elvin", "\u{212a}elvin"),
            ("日本", "これは日本です", "日本"),
        ] {
            assert_eq!(words_in(words, text).as_deref(), Some(hit), "{words} in {text}");
        }
        for c in ('\u{0}'..='\u{10ffff}').filter(|c| c.is_alphabetic()) {
            let text = format!("x{c}y");
            for words in [c.to_uppercase().to_string(), c.to_lowercase().to_string()] {
                let hit = Words::new(&words).unwrap().place_in(&text);
                assert!(hit.is_some(), "{words} in {text}");
            }
        }
    }

    #[test]
    fn an_excerpt_is_short_and_cuts_no_character() {
        let text = format!("{}needle{}", "é".repeat(500), "👩‍🚀".repeat(500));
        let (before, words, after) = found("needle", &text).unwrap();
        assert_eq!(before, format!("…{}", "é".repeat(60)));
        assert_eq!(words, "needle");
        let whole = after.strip_suffix('…').unwrap();
        assert!(
            whole.chars().count() <= 60 * 3 && whole.chars().count() % 3 == 0,
            "{after}"
        );
        // A mark belongs to the letter before it.
        assert_eq!(words_in("cafe", "Cafe\u{301} au lait").unwrap(), "Cafe\u{301}");
        assert_eq!(found("\u{301}", "Cafe\u{301} au lait").unwrap().1, "e\u{301}");
    }

    #[test]
    fn letters_with_endless_marks_stay_short() {
        let marks = "\u{301}".repeat(100_000);
        let text = format!("a{marks}needle{marks}z");
        let (before, words, after) = found("needle", &text).unwrap();
        assert!(words.starts_with("needle"));
        assert!(before.len() + words.len() + after.len() < 4 * AROUND_BYTES);
    }

    #[test]
    fn words_are_neither_blank_nor_endless() {
        for blank in ["", "  ", "\n\t"] {
            assert_eq!(Words::new(blank).unwrap_err(), BadWords::Blank);
        }
        assert!(Words::new(&"é".repeat(MAX_WORDS_CHARS)).is_ok());
        assert_eq!(
            Words::new(&"é".repeat(MAX_WORDS_CHARS + 1)).unwrap_err(),
            BadWords::TooLong
        );
    }
}
