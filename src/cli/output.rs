//! Owns what is printed: data on stdout, everything else on stderr. It makes sense without colour.

use std::io::{self, IsTerminal as _, Write};

use anyhow::Context as _;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::{
    CliError,
    words::{one_line, printable},
};

/// Where a command prints.
#[derive(Debug)]
pub(super) struct Output {
    json: bool,
    colour: bool,
}

/// How a piece of text is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tone {
    /// As it is.
    Plain,
    /// Less important.
    Dim,
    /// Needs attention.
    Strong,
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            colour: io::stdout().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
        }
    }

    /// Whether the terminal has colours.
    pub(super) const fn has_colour(&self) -> bool {
        self.colour
    }

    /// Prints a line that was made printable before.
    pub(super) fn raw_line(&self, line: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        settle(writeln!(out, "{line}").and_then(|()| out.flush()))
    }

    /// Whether the API's JSON was asked for.
    pub(super) const fn is_json(&self) -> bool {
        self.json
    }

    /// Prints data as it is, without a line break after it.
    pub(super) fn text(&self, tone: Tone, text: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        let clean = printable(text);
        let result = match tone {
            Tone::Dim if self.colour => write!(out, "\x1b[2m{clean}\x1b[0m"),
            Tone::Strong if self.colour => write!(out, "\x1b[1m{clean}\x1b[0m"),
            Tone::Plain | Tone::Dim | Tone::Strong => write!(out, "{clean}"),
        };
        settle(result.and_then(|()| out.flush()))
    }

    /// Prints one line of data.
    pub(super) fn line(&self, text: &str) -> Result<(), CliError> {
        self.text(Tone::Plain, &format!("{text}\n"))
    }

    /// Prints JSON of the API.
    pub(super) fn value(&self, value: &Value) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(value).context("cannot print the answer")?;
        settle(writeln!(io::stdout().lock(), "{text}"))
    }

    /// Prints rows under a heading, in columns that are as wide as they need to be.
    pub(super) fn table(&self, heading: &[&str], rows: &[Vec<String>]) -> Result<(), CliError> {
        let mut lines = Self::rows(heading, rows).into_iter();
        self.text(Tone::Dim, &lines.next().unwrap_or_default())?;
        self.line("")?;
        lines.try_for_each(|line| self.line(&line))
    }

    /// The lines of a table, the heading first.
    pub(super) fn rows(heading: &[&str], rows: &[Vec<String>]) -> Vec<String> {
        let clean: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| one_line(cell)).collect())
            .collect();
        let width = |column: usize| {
            clean
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.width())
                .chain(heading.get(column).map(|cell| cell.len()))
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heading.len()).map(width).collect();
        let format_row = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (cell, width) in cells.zip(&widths) {
                line.push_str(cell);
                let pad = width.saturating_sub(cell.width());
                line.extend(std::iter::repeat_n(' ', pad + 2));
            }
            line.trim_end().to_owned()
        };
        let mut lines = vec![format_row(&mut heading.iter().copied())];
        lines.extend(
            clean
                .iter()
                .map(|row| format_row(&mut row.iter().map(String::as_str))),
        );
        lines
    }
}

/// Prints a sentence to stderr: progress, notices, prompts.
pub(super) fn note(text: &str) {
    let _nobody_to_tell = writeln!(io::stderr().lock(), "{}", printable(text));
}

/// Prints the end of a failed command.
pub(super) fn failure(error: &CliError) {
    note(&format!("error: {}", error.chain()));
    if let Some(hint) = error.hint() {
        note(&format!("hint: {hint}"));
    }
}

/// A reader that went away (`| head`) is no failure: there is just nothing more to print.
fn settle(result: io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(CliError::ReaderGone),
        other => Ok(other.context("cannot write to stdout")?),
    }
}
