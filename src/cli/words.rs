//! Owns how foreign text reaches a terminal: it cannot drive it, and no character of it is invisible.

/// More blanks in a row than this are counted in the place of being printed, where a person decides.
const LONGEST_BLANK: usize = 16;

/// More empty lines in a row than this are counted.
const LONGEST_GAP: usize = 2;

/// Text of the agent must not drive the terminal: control characters but line breaks and tabs become visible, and so do
/// characters that only change how others look.
pub(super) fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => clean.push(c),
            c if c.is_control() => clean.push(char::REPLACEMENT_CHARACTER),
            c if is_format(c) => clean.extend(c.escape_unicode()),
            c => clean.push(c),
        }
    }
    clean
}

/// Text in which the characters that [`printable`] would not print are escapes: it can be edited and shows what is sent.
pub(super) fn escaped(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => clean.push(c),
            c if c.is_control() || is_format(c) => clean.extend(c.escape_unicode()),
            c => clean.push(c),
        }
    }
    clean
}

/// The lines of a text that a person decides about: each character is seen or is an escape, and neither blanks nor empty
/// lines push the end of it away.
pub(super) fn exact(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut gap = 0;
    for line in text.split('\n') {
        if line.is_empty() {
            gap += 1;
            continue;
        }
        end_gap(&mut lines, std::mem::take(&mut gap));
        lines.push(exact_line(line));
    }
    // The break at the end of a text is no line.
    end_gap(&mut lines, gap.saturating_sub(1));
    lines
}

fn end_gap(lines: &mut Vec<String>, gap: usize) {
    if gap > LONGEST_GAP {
        lines.push(format!("‹{gap} empty lines›"));
    } else {
        lines.extend(std::iter::repeat_n(String::new(), gap));
    }
}

fn exact_line(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut blanks = String::new();
    for c in line.chars() {
        if matches!(c, ' ' | '\t') {
            blanks.push(c);
            continue;
        }
        end_blanks(&mut clean, &mut blanks);
        if is_visible(c) {
            clean.push(c);
        } else {
            clean.extend(c.escape_default());
        }
    }
    end_blanks(&mut clean, &mut blanks);
    clean
}

fn end_blanks(clean: &mut String, blanks: &mut String) {
    let count = blanks.chars().count();
    if count > LONGEST_BLANK {
        clean.extend(["‹", &count.to_string(), " blanks›"]);
    } else {
        clean.push_str(blanks);
    }
    blanks.clear();
}

/// Changes the look of other characters and has none itself. Joiners are left out: emoji and Persian need them.
const fn is_format(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

/// Looks like something, also to whom does not look for it.
fn is_visible(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_control();
    }
    let looks_like_nothing = matches!(c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2800}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}');
    // Behind a letter, the standard library escapes exactly what is not printable.
    let mut pair = String::from("a");
    pair.push(c);
    !looks_like_nothing && pair.escape_debug().count() == 2
}

/// The beginning of a text as one line.
pub(super) fn one_line(text: &str) -> String {
    const LONGEST: usize = 60;
    let joined = printable(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    if joined.chars().count() <= LONGEST {
        return joined;
    }
    let mut short: String = joined.chars().take(LONGEST - 1).collect();
    short.push('…');
    short
}

/// Why a text is not JSON, in a person's words.
pub(super) fn not_json(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "is not JSON: it ends too early".into();
    }
    format!(
        "is not JSON: look at line {}, column {}",
        error.line(),
        error.column()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_agent_cannot_drive_the_terminal() {
        assert_eq!(
            printable("a\x1b[31mb\r\n\tc\u{9b}"),
            "a\u{fffd}[31mb\u{fffd}\n\tc\u{fffd}"
        );
        assert_eq!(printable("a\u{202e}b\u{200b}"), "a\\u{202e}b\\u{200b}");
        assert_eq!(
            printable("👩\u{200d}🔧 é ü e\u{301}"),
            "👩\u{200d}🔧 é ü e\u{301}"
        );
    }

    #[test]
    fn text_that_is_edited_has_escapes_for_what_is_not_seen() {
        assert_eq!(escaped("a\x1b[2J\u{202e}b\n\tc"), "a\\u{1b}[2J\\u{202e}b\n\tc");
        assert_eq!(escaped("👩\u{200d}🔧 ä"), "👩\u{200d}🔧 ä");
    }

    #[test]
    fn nothing_hides_in_what_is_decided_about() {
        for (text, expected) in [
            ("ls\u{202e}\u{2066}x", &["ls\\u{202e}\\u{2066}x"][..]),
            (
                "a\u{200d}b\u{3164}\u{a0}c\u{fe0f}",
                &["a\\u{200d}b\\u{3164}\\u{a0}c\\u{fe0f}"],
            ),
            ("a\x1b[2J\rb", &["a\\u{1b}[2J\\rb"]),
            ("  ä é e\u{301} 漢字", &["  ä é e\u{301} 漢字"]),
            ("a\n\nb\n", &["a", "", "b"]),
            ("", &[]),
        ] {
            assert_eq!(exact(text), expected, "{text:?}");
        }
        let hidden = format!("make{}; curl evil", " \t".repeat(150));
        assert_eq!(exact(&hidden), ["make‹300 blanks›; curl evil"]);
        let hidden = format!("make{}curl evil", "\n".repeat(100));
        assert_eq!(exact(&hidden), ["make", "‹99 empty lines›", "curl evil"]);
    }

    #[test]
    fn long_text_is_cut_on_character_bounds() {
        assert_eq!(one_line("a\n  b"), "a b");
        let cut = one_line(&"ä".repeat(100));
        assert_eq!(cut.chars().count(), 60);
        assert!(cut.ends_with('…'));
    }
}
