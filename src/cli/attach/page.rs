//! Owns where `attach` prints: straight out, or line by line above the prompt of the editor.

use std::collections::VecDeque;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{
    super::{
        CliError,
        output::{Output, Tone},
        words::printable,
    },
    editor::Editor,
};

/// More than this waits for the editor: nothing more is read from the daemon until it has printed some.
const LONGEST_BACKLOG: usize = 256 * 1024;

/// Where text goes.
#[derive(Debug)]
pub(super) struct Page {
    output: Output,
    has_colour: bool,
    /// The end of a text whose line is not over.
    partial: String,
    /// The last lines of what happened before, while that is read.
    recent: Option<VecDeque<String>>,
}

impl Page {
    pub(super) const fn new(output: Output, has_colour: bool) -> Self {
        Self {
            output,
            has_colour,
            partial: String::new(),
            recent: None,
        }
    }

    /// Keeps the last screen of what comes, in the place of printing all of it.
    pub(super) fn collect(&mut self) {
        self.recent = Some(VecDeque::new());
    }

    /// Prints what was kept.
    pub(super) fn show_collected(&mut self, editor: &mut Option<Editor>) -> Result<(), CliError> {
        for line in self.recent.take().into_iter().flatten() {
            self.line(editor, &line)?;
        }
        // The line that streams just now goes on.
        if editor.is_none() && !self.partial.is_empty() {
            let begun = std::mem::take(&mut self.partial);
            self.output.text(Tone::Plain, &begun)?;
        }
        Ok(())
    }

    /// Whether more can be taken.
    pub(super) fn has_room(editor: Option<&Editor>) -> bool {
        editor.is_none_or(|editor| editor.backlog() < LONGEST_BACKLOG)
    }

    /// Prints text; above an editor its last line stays back until it is over, or as long as the screen is wide.
    pub(super) fn text(
        &mut self,
        editor: &mut Option<Editor>,
        tone: Tone,
        text: &str,
    ) -> Result<(), CliError> {
        if editor.is_none() && self.recent.is_none() {
            return self.output.text(tone, text);
        }
        let width = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        for piece in printable(text).split_inclusive('\n') {
            self.partial.push_str(piece.trim_end_matches('\n'));
            // A question is shown as it is, each blank of it.
            while matches!(tone, Tone::Plain | Tone::Dim)
                && let Some(row) = full_row(&mut self.partial, width)
            {
                self.line(editor, &toned(self.has_colour, tone, &row))?;
            }
            if piece.ends_with('\n') {
                let line = std::mem::take(&mut self.partial);
                self.line(editor, &toned(self.has_colour, tone, &line))?;
            }
        }
        Ok(())
    }

    /// Prints what had no end of its line yet.
    pub(super) fn end_line(&mut self, editor: &mut Option<Editor>) -> Result<(), CliError> {
        if self.partial.is_empty() {
            return Ok(());
        }
        let line = std::mem::take(&mut self.partial);
        self.line(editor, &line)
    }

    fn line(&mut self, editor: &mut Option<Editor>, line: &str) -> Result<(), CliError> {
        match (&mut self.recent, editor) {
            (Some(recent), _) => {
                let rows = crossterm::terminal::size().map_or(24, |(_, rows)| usize::from(rows));
                if recent.len() + 3 > rows.max(8) {
                    recent.pop_front();
                }
                recent.push_back(line.to_owned());
            }
            (None, Some(editor)) => editor.print(line),
            (None, None) => self.output.raw_line(line)?,
        }
        Ok(())
    }
}

fn toned(has_colour: bool, tone: Tone, line: &str) -> String {
    match tone {
        Tone::Dim if has_colour => format!("\x1b[2m{line}\x1b[0m"),
        Tone::Strong if has_colour => format!("\x1b[1m{line}\x1b[0m"),
        Tone::Plain | Tone::Dim | Tone::Strong => line.to_owned(),
    }
}

/// Takes the first row of a text that is longer than one, broken between words where that can be.
fn full_row(text: &mut String, width: usize) -> Option<String> {
    if text.width() < width.max(2) {
        return None;
    }
    let mut used = 0;
    let mut blank = None;
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used >= width.max(2) {
            end = at;
            break;
        }
        if c == ' ' {
            blank = Some(at);
        }
    }
    let (end, skip) = blank.filter(|at| *at > 0).map_or((end.max(1), 0), |at| (at, 1));
    let rest = text.get(end + skip..)?.to_owned();
    text.truncate(end);
    Some(std::mem::replace(text, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_broken_between_words() {
        let mut text = String::from("one two three four");
        assert_eq!(full_row(&mut text, 10).as_deref(), Some("one two"));
        assert_eq!(full_row(&mut text, 10).as_deref(), Some("three"));
        assert_eq!((full_row(&mut text, 10), text.as_str()), (None, "four"));
        let mut text = "漢".repeat(10);
        assert_eq!(full_row(&mut text, 9).as_deref(), Some("漢漢漢漢"));
        let mut text = "x".repeat(25);
        assert_eq!(full_row(&mut text, 10).as_deref(), Some("xxxxxxxxx"));
        assert_eq!(text.len(), 16);
    }
}
