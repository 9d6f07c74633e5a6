//! Owns the tolerant reading of a line: it never gives up, and where a text is computed it leaves a gap in the word. It
//! reads the inside of substitutions as well.

use std::{iter::Peekable, str::Chars};

use super::{interpreter::is_interpreter, wrapper::is_before};

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

/// All commands of a line, those inside of substitutions too. `is_fed` says whether the line itself reads what another command
/// prints.
pub(super) fn read(text: &str, is_fed: bool) -> Vec<Command> {
    let mut out = Vec::new();
    read_into(text, is_fed, 0, &mut out);
    out
}

fn read_into(text: &str, is_fed: bool, depth: usize, out: &mut Vec<Command>) {
    if depth == DEPTH {
        let words = vec![GAP.to_string()];
        out.push(Command { words, is_fed: true });
        return;
    }
    let reader = Reader {
        chars: text.chars().peekable(),
        depth,
        is_fed,
        command: Command {
            is_fed,
            ..Command::default()
        },
        start: out.len(),
        first: out.len(),
        out,
        word: None,
        is_target: false,
        documents: Vec::new(),
        groups: Vec::new(),
        closed: None,
        functions: Vec::new(),
    };
    reader.run();
}

/// A bracket around commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bracket {
    Parenthesis,
    Brace,
    Case,
    If,
    Loop,
}

impl Bracket {
    /// The bracket that a word opens.
    fn opened_by(word: &str) -> Option<Self> {
        match word {
            "case" => Some(Self::Case),
            "if" => Some(Self::If),
            "while" | "until" | "for" | "select" => Some(Self::Loop),
            _ => None,
        }
    }

    /// The bracket that a word closes.
    fn closed_by(word: &str) -> Option<Self> {
        match word {
            "esac" => Some(Self::Case),
            "fi" => Some(Self::If),
            "done" => Some(Self::Loop),
            _ => None,
        }
    }
}

/// Commands in brackets: they read what the group as a whole is given.
struct Group {
    bracket: Bracket,
    /// The first of its commands.
    first: usize,
    is_fed: bool,
}

/// A here-document that begins at the next line.
struct Document {
    end: String,
    /// It is taken as it is.
    is_quoted: bool,
    /// The first command that may read it.
    first: usize,
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    depth: usize,
    /// Whether all of it reads what another command prints.
    is_fed: bool,
    out: &'a mut Vec<Command>,
    command: Command,
    word: Option<String>,
    /// Whether the word is the target of a redirection.
    is_target: bool,
    documents: Vec<Document>,
    /// The first command of all.
    start: usize,
    /// The first command of the line that is read.
    first: usize,
    /// The brackets that are open.
    groups: Vec<Group>,
    /// The first command of the group that was closed just now: redirections behind it are those of all its commands.
    closed: Option<usize>,
    /// The names of functions.
    functions: Vec<String>,
}

impl Reader<'_> {
    fn run(mut self) {
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
                '(' => {
                    if self.chars.peek() == Some(&')') {
                        self.end_word();
                        self.functions.extend(self.command.words.last().cloned());
                    }
                    self.open(Bracket::Parenthesis);
                }
                // Behind a pattern of `case` it closes nothing.
                ')' if self.groups.last().map(|group| group.bracket) == Some(Bracket::Case) => {
                    self.end_command(false);
                }
                ')' => self.close(Bracket::Parenthesis),
                ';' | '&' => self.end_command(false),
                '<' | '>' => self.redirection(next),
                '{' => self.brace(),
                '}' if self.word.is_none() => self.close(Bracket::Brace),
                '#' if self.word.is_none() => while self.chars.next_if(|c| *c != '\n').is_some() {},
                '*' | '?' => self.push(GAP),
                '[' => self.bracket(),
                GAP | VARIABLE | FILE => self.push(next),
                other if other.is_control() || other.is_whitespace() => self.end_word(),
                other => self.push(other),
            }
        }
        self.end_command(false);
        self.feed_functions();
    }

    /// A function reads what its call is given.
    fn feed_functions(&mut self) {
        let functions = &self.functions;
        let calls = |command: &Command| command.words.iter().any(|word| functions.contains(word));
        let commands = &mut self.out[self.start..];
        if commands.iter().any(|command| command.is_fed && calls(command)) {
            commands.iter_mut().for_each(|command| command.is_fed = true);
        }
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.is_target)
        {
            if self.command.words.iter().all(|word| is_before(word)) {
                self.keyword(&word);
            }
            self.command.words.push(word);
        }
    }

    /// A word in the place of a program may open or close a bracket.
    fn keyword(&mut self, word: &str) {
        if let Some(bracket) = Bracket::opened_by(word) {
            self.push_group(bracket);
        } else if let Some(bracket) = Bracket::closed_by(word) {
            self.closed = self.pop_group(bracket);
        }
    }

    fn push_group(&mut self, bracket: Bracket) {
        self.groups.push(Group {
            bracket,
            first: self.out.len(),
            is_fed: self.command.is_fed,
        });
    }

    /// Takes out the group that is open, if it has this bracket; gives its first command.
    fn pop_group(&mut self, bracket: Bracket) -> Option<usize> {
        let group = self.groups.pop_if(|group| group.bracket == bracket)?;
        Some(group.first)
    }

    fn open(&mut self, bracket: Bracket) {
        self.end_command(false);
        self.push_group(bracket);
    }

    fn close(&mut self, bracket: Bracket) {
        self.end_command(false);
        let closed = self.pop_group(bracket);
        self.command.is_fed = self.is_around_fed();
        self.closed = closed;
    }

    /// Whether what is around a new command reads what another one prints.
    fn is_around_fed(&self) -> bool {
        self.groups.last().map_or(self.is_fed, |group| group.is_fed)
    }

    /// The command, and the group that it ends, read a file or a text of the line.
    fn feed(&mut self) {
        self.command.is_fed = true;
        if let Some(first) = self.closed {
            let commands = self.out.iter_mut().skip(first);
            commands.for_each(|command| command.is_fed = true);
        }
    }

    fn end_command(&mut self, feeds: bool) {
        self.end_word();
        self.is_target = false;
        let ends_group = self.closed.take().is_some();
        if self.command.words.is_empty() && !ends_group {
            // The pipe before a line break, or before a bracket, feeds the command behind that.
            self.command.is_fed |= feeds;
            return;
        }
        let next = Command {
            is_fed: feeds || self.is_around_fed(),
            ..Command::default()
        };
        let command = std::mem::replace(&mut self.command, next);
        if command.is_fed && command.words == ["exec"] {
            // The shell itself reads the file from here on.
            self.is_fed = true;
            self.command.is_fed = true;
        }
        if !command.words.is_empty() {
            self.out.push(command);
        }
    }

    /// Reads commands inside of this one.
    fn inside(&mut self, text: &str, is_fed: bool) {
        read_into(text, is_fed, self.depth + 1, self.out);
    }

    /// Reads commands whose output the command is given: they read the same as it.
    fn substituted(&mut self, text: &str) {
        self.inside(text, self.command.is_fed);
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
        self.substituted(&inner);
    }

    /// Reads on behind a dollar.
    fn expansion(&mut self) {
        match self.chars.peek() {
            Some('(') => {
                self.chars.next();
                let inner = self.balanced('(', ')');
                self.push(GAP);
                self.substituted(&inner);
            }
            Some('{') => {
                self.chars.next();
                let inner = self.balanced('{', '}');
                let is_plain = inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                self.push(if is_plain { VARIABLE } else { GAP });
                self.substituted(&inner);
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
            let is_fed = first == '>' || self.command.is_fed;
            self.inside(&inner, is_fed);
            return;
        }
        let mut operator = String::from(first);
        while let Some(next) = self.chars.next_if(|c| "<>&|-".contains(*c)) {
            operator.push(next);
        }
        match operator.as_str() {
            "<<" | "<<-" => self.document(),
            operator => {
                if operator.starts_with('<') {
                    self.feed();
                }
                self.is_target = true;
            }
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
        self.feed();
        let first = self.closed.unwrap_or(self.first).min(self.first);
        self.documents.push(Document {
            end,
            is_quoted,
            first,
        });
    }

    /// The texts of here-documents: an interpreter runs them, and else what is substituted in them is run.
    fn documents(&mut self) {
        for Document {
            end,
            is_quoted,
            first,
        } in std::mem::take(&mut self.documents)
        {
            let mut readers = self.out.iter().skip(first).flat_map(|command| &command.words);
            let is_run = readers.any(|word| is_interpreter(word));
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
                self.inside(&body, false);
            } else if !is_quoted {
                // As between quotation marks: what is computed is run, and all else is text.
                self.inside(&format!("\"{}\"", body.replace('"', "")), false);
            }
        }
    }

    fn brace(&mut self) {
        match self.chars.peek() {
            None | Some(' ' | '\t' | '\n') if self.word.is_none() => {
                if self.command.words.first().is_some_and(|word| word == "function") {
                    self.functions.extend(self.command.words.last().cloned());
                }
                self.open(Bracket::Brace);
            }
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
                self.substituted(&inner);
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
