//! Owns the tolerant reading of a line: it never gives up, and where a text is computed it leaves a gap in the word. It
//! reads the inside of substitutions as well.

use std::{iter::Peekable, str::Chars};

use super::doubt::is_interpreter;

/// Stands for text that only the shell knows.
pub(super) const GAP: char = '\0';
/// Stands for the value of a plain variable.
pub(super) const VARIABLE: char = '\u{1}';
/// Stands for the output of another command, given as a file.
pub(super) const FILE: char = '\u{2}';
/// Substitutions inside of one another that are read; what is deeper counts as computed.
const DEPTH: usize = 8;

/// A simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// Its words, without quotes.
    pub(super) words: Vec<String>,
    /// Whether it reads what another command prints, or a text of the line.
    pub(super) is_fed: bool,
}

/// All commands of a line, those inside of substitutions too.
pub(super) fn read(text: &str) -> Vec<Command> {
    let mut out = Vec::new();
    read_into(text, 0, &mut out);
    out
}

fn read_into(text: &str, depth: usize, out: &mut Vec<Command>) {
    if depth == DEPTH {
        let words = vec![GAP.to_string()];
        out.push(Command { words, is_fed: false });
        return;
    }
    let reader = Reader {
        chars: text.chars().peekable(),
        depth,
        out,
        command: Command::default(),
        word: None,
        is_target: false,
        documents: Vec::new(),
        first: 0,
    };
    reader.run();
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    depth: usize,
    out: &'a mut Vec<Command>,
    command: Command,
    word: Option<String>,
    /// Whether the word is the target of a redirection.
    is_target: bool,
    /// The ends of here-documents that begin at the next line, and whether they are taken as they are.
    documents: Vec<(String, bool)>,
    /// The first command of the line that is read.
    first: usize,
}

impl Reader<'_> {
    fn run(mut self) {
        self.first = self.out.len();
        while let Some(next) = self.chars.next() {
            match next {
                ' ' | '\t' => self.end_word(),
                '\'' => self.single(),
                '"' => self.double(),
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(other) => self.push(other),
                },
                '$' => self.expansion(),
                '`' => self.backticks(),
                '\n' => {
                    self.end_command(false);
                    self.documents();
                    self.first = self.out.len();
                }
                '&' if self.chars.peek() == Some(&'>') => self.end_word(),
                '|' => {
                    let is_or = self.chars.next_if_eq(&'|').is_some();
                    let _ = self.chars.next_if_eq(&'&');
                    self.end_command(!is_or);
                }
                ';' | '&' | '(' | ')' => self.end_command(false),
                '<' | '>' => self.redirection(next),
                '{' => self.brace(),
                '}' if self.word.is_none() => self.end_command(false),
                '#' if self.word.is_none() => while self.chars.next_if(|c| *c != '\n').is_some() {},
                '*' | '?' => self.push(GAP),
                '[' => self.bracket(),
                GAP | VARIABLE | FILE => self.push(next),
                other if other.is_control() || other.is_whitespace() => self.end_word(),
                other => self.push(other),
            }
        }
        self.end_command(false);
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.is_target)
        {
            self.command.words.push(word);
        }
    }

    fn end_command(&mut self, feeds: bool) {
        self.end_word();
        self.is_target = false;
        let next = Command {
            is_fed: feeds,
            ..Command::default()
        };
        let command = std::mem::replace(&mut self.command, next);
        if !command.words.is_empty() {
            self.out.push(command);
        }
    }

    fn inside(&mut self, text: &str) {
        read_into(text, self.depth + 1, self.out);
    }

    fn single(&mut self) {
        let word = self.word.get_or_insert_default();
        word.extend(self.chars.by_ref().take_while(|c| *c != '\''));
    }

    fn double(&mut self) {
        self.word.get_or_insert_default();
        while let Some(next) = self.chars.next() {
            match next {
                '"' => return,
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(other) => self.push(other),
                },
                '$' if self.chars.peek() == Some(&'"') => self.push('$'),
                '$' => self.expansion(),
                '`' => self.backticks(),
                other => self.push(other),
            }
        }
    }

    fn backticks(&mut self) {
        let mut inner = String::new();
        while let Some(next) = self.chars.next() {
            match next {
                '`' => break,
                '\\' => inner.extend(self.chars.next()),
                other => inner.push(other),
            }
        }
        self.push(GAP);
        self.inside(&inner);
    }

    /// Reads on behind a dollar.
    fn expansion(&mut self) {
        match self.chars.peek() {
            Some('(') => {
                self.chars.next();
                let inner = self.balanced('(', ')');
                self.push(GAP);
                self.inside(&inner);
            }
            Some('{') => {
                self.chars.next();
                let inner = self.balanced('{', '}');
                let is_plain = inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                self.push(if is_plain { VARIABLE } else { GAP });
                self.inside(&inner);
            }
            Some('\'') => {
                self.chars.next();
                self.push(GAP);
                while let Some(next) = self.chars.next() {
                    match next {
                        '\'' => break,
                        '\\' => drop(self.chars.next()),
                        _ => {}
                    }
                }
            }
            Some('"') => {}
            Some('@' | '*' | '#' | '?' | '-' | '$' | '!') => {
                self.chars.next();
                self.push(GAP);
            }
            Some(c) if c.is_ascii_alphanumeric() || *c == '_' => {
                let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
                while self.chars.next_if(is_name).is_some() {}
                self.push(VARIABLE);
            }
            _ => self.push('$'),
        }
    }

    /// The text up to the closing character, which is passed.
    fn balanced(&mut self, open: char, close: char) -> String {
        let (mut depth, mut inner, mut quote) = (1_usize, String::new(), None);
        while let Some(next) = self.chars.next() {
            match (quote, next) {
                (None, '\'' | '"') => quote = Some(next),
                (Some(of), next) if of == next => quote = None,
                (None | Some('"'), '\\') => {
                    inner.push(next);
                    inner.extend(self.chars.next());
                    continue;
                }
                (None, next) if next == open => depth += 1,
                (None, next) if next == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            inner.push(next);
        }
        inner
    }

    fn redirection(&mut self, first: char) {
        if self
            .word
            .as_ref()
            .is_some_and(|word| word.chars().all(|c| c.is_ascii_digit()))
        {
            self.word = None;
        }
        self.end_word();
        if self.chars.next_if_eq(&'(').is_some() {
            let inner = self.balanced('(', ')');
            self.push(FILE);
            self.inside(&inner);
            return;
        }
        let mut operator = String::from(first);
        while let Some(next) = self.chars.next_if(|c| "<>&|-".contains(*c)) {
            operator.push(next);
        }
        match operator.as_str() {
            "<<" | "<<-" => self.document(),
            "<<<" => {
                self.command.is_fed = true;
                self.is_target = true;
            }
            _ => self.is_target = true,
        }
    }

    fn document(&mut self) {
        while self.chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let (mut end, mut is_quoted) = (String::new(), false);
        while let Some(next) = self
            .chars
            .next_if(|c| !c.is_whitespace() && !";&|<>()".contains(*c))
        {
            if matches!(next, '\'' | '"' | '\\') {
                is_quoted = true;
            } else {
                end.push(next);
            }
        }
        self.command.is_fed = true;
        self.documents.push((end, is_quoted));
    }

    /// The texts of here-documents: an interpreter runs them, and else what is substituted in them is run.
    fn documents(&mut self) {
        let is_run = self.out[self.first.min(self.out.len())..]
            .iter()
            .flat_map(|command| &command.words)
            .any(|word| is_interpreter(word));
        for (end, is_quoted) in std::mem::take(&mut self.documents) {
            let mut body = String::new();
            loop {
                let line: String = self.chars.by_ref().take_while(|c| *c != '\n').collect();
                if line.trim_start_matches('\t') == end || (line.is_empty() && self.chars.peek().is_none()) {
                    break;
                }
                body.push_str(&line);
                body.push('\n');
            }
            if is_run {
                self.inside(&body);
            } else if !is_quoted {
                // As between quotation marks: what is computed is run, and all else is text.
                self.inside(&format!("\"{}\"", body.replace('"', "")));
            }
        }
    }

    fn brace(&mut self) {
        match self.chars.peek() {
            None | Some(' ' | '\t' | '\n') if self.word.is_none() => self.end_command(false),
            Some('}') => {
                self.chars.next();
                self.push('{');
                self.push('}');
            }
            _ => {
                let inner = self.balanced('{', '}');
                if inner.contains(',') || inner.contains("..") {
                    self.push(GAP);
                } else {
                    let word = self.word.get_or_insert_default();
                    word.push('{');
                    word.push_str(&inner);
                    word.push('}');
                }
                self.inside(&inner);
            }
        }
    }

    fn bracket(&mut self) {
        let is_test = self.word.is_none() && matches!(self.chars.peek(), None | Some(' ' | '\t' | '['));
        if is_test {
            self.push('[');
            if self.chars.next_if_eq(&'[').is_some() {
                self.push('[');
            }
            return;
        }
        self.push(GAP);
        while self.chars.next_if(|c| *c != ']' && !c.is_whitespace()).is_some() {}
        let _ = self.chars.next_if_eq(&']');
    }
}
