//! Owns the reading of a command line for what is denied: its simple commands, those inside of groups and substitutions too,
//! with a mark where a word is computed. It says so where it does not understand the line.

use super::programs::is_before;

/// Stands for text that only the shell knows.
pub(super) const GAP: char = '\0';
/// Stands for the value of a plain variable, which may be several words.
pub(super) const VARIABLE: char = '\u{1}';
/// Stands for the value of a variable that stays within its word.
pub(super) const WITHIN: char = '\u{2}';
/// Groups and substitutions inside of one another that are read.
const DEPTH: usize = 16;

/// Whether some of a word is known to the shell alone.
pub(super) fn is_marked(word: &str) -> bool {
    word.contains([GAP, VARIABLE, WITHIN])
}

/// A line as it was read.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Its commands, as far as it is understood.
    pub(super) commands: Vec<Command>,
    /// The texts of its here-documents.
    pub(super) documents: Vec<String>,
    /// Whether anything in it reads a file, a text or what another command prints.
    pub(super) is_fed: bool,
    /// Whether it was read to its end.
    pub(super) is_understood: bool,
}

/// A simple command.
#[derive(Debug, Default)]
pub(super) struct Command {
    /// Its words, without quotes and redirections.
    pub(super) words: Vec<String>,
    /// The here-document that it reads, if nothing in that is computed.
    pub(super) document: Option<usize>,
    word: Option<String>,
    /// Whether the word is the target of a redirection.
    is_target: bool,
}

impl Command {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.is_target)
        {
            self.words.push(word);
        }
    }
}

/// A here-document that begins at the next line.
struct Document {
    number: usize,
    end: String,
    has_tabs: bool,
    /// Whether it is taken as it is.
    is_quoted: bool,
}

/// Reads a line.
pub(super) fn read(text: &str) -> Line {
    let mut reader = Reader {
        chars: text.chars().collect(),
        at: 0,
        depth: 0,
        keeps_places: ["HOME", "PWD"].iter().all(|name| is_only_read(text, name)),
        line: Line::default(),
        pending: Vec::new(),
    };
    reader.line.is_understood = reader.commands(None).is_some();
    reader.line
}

/// Each of its functions gives `None` where the line is not understood.
struct Reader {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    /// Whether `$HOME` and `$PWD` are places.
    keeps_places: bool,
    line: Line,
    pending: Vec<Document>,
}

impl Reader {
    /// The next character, where a backslash before a line break is none.
    fn peek(&mut self) -> Option<char> {
        while self.chars[self.at..].starts_with(&['\\', '\n']) {
            self.at += 2;
        }
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        self.peek()?;
        self.next_as_it_is()
    }

    fn next_as_it_is(&mut self) -> Option<char> {
        let next = self.chars.get(self.at).copied();
        self.at += usize::from(next.is_some());
        next
    }

    fn next_if(&mut self, is_wanted: impl Fn(char) -> bool) -> Option<char> {
        self.peek().filter(|c| is_wanted(*c))?;
        self.next()
    }

    fn next_is(&mut self, wanted: char) -> bool {
        self.next_if(|c| c == wanted).is_some()
    }

    /// The text up to a character, which is passed.
    fn up_to(&mut self, end: char) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.next_as_it_is()? {
                c if c == end => return Some(text),
                c => text.push(c),
            }
        }
    }

    /// Reads commands up to a closing character, or to the end of the text.
    fn commands(&mut self, end: Option<char>) -> Option<()> {
        self.go_in()?;
        let mut command = Command::default();
        loop {
            let next = self.next();
            if next == end {
                break;
            }
            self.read_char(next?, &mut command)?;
        }
        self.end_command(&mut command)?;
        self.depth -= 1;
        self.pending.is_empty().then_some(())
    }

    fn go_in(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= DEPTH).then_some(())
    }

    fn read_char(&mut self, next: char, command: &mut Command) -> Option<()> {
        let begins_word = command.word.is_none();
        match next {
            '\'' => {
                let text = self.up_to('\'')?;
                command.word.get_or_insert_default().push_str(&text);
            }
            '"' => self.quoted(command)?,
            '\\' => command.push(self.next_as_it_is()?),
            '$' => self.expansion(command, false)?,
            '`' => self.backticks(command)?,
            '\n' => {
                self.end_command(command)?;
                self.documents()?;
            }
            '&' if self.peek() == Some('>') => command.end_word(),
            '|' => {
                self.line.is_fed |= !self.next_is('|');
                self.next_is('&');
                self.end_command(command)?;
            }
            '(' => {
                self.end_command(command)?;
                self.commands(Some(')'))?;
            }
            ')' => return None,
            ';' | '&' => self.end_command(command)?,
            '<' | '>' => self.redirection(next, command)?,
            '{' if self.next_is('}') => {
                command.push('{');
                command.push('}');
            }
            '{' if begins_word && self.peek().is_none_or(is_space) => self.end_command(command)?,
            '}' if begins_word && self.peek().is_none_or(ends_word) => self.end_command(command)?,
            '[' if begins_word && self.next_is('[') => {
                command.push('[');
                command.push('[');
            }
            '[' if begins_word && self.peek().is_none_or(is_space) => command.push('['),
            '{' | '[' | '*' | '?' => command.push(GAP),
            '#' if begins_word => {
                while self.chars.get(self.at).is_some_and(|c| *c != '\n') {
                    self.at += 1;
                }
            }
            ' ' | '\t' => command.end_word(),
            other => command.push(other),
        }
        Some(())
    }

    fn end_command(&mut self, command: &mut Command) -> Option<()> {
        command.end_word();
        let command = std::mem::take(command);
        // The brackets of its patterns close nothing.
        if command
            .words
            .iter()
            .find(|word| !is_before(word) && *word != "time")
            .is_some_and(|word| word == "case")
        {
            return None;
        }
        if !command.words.is_empty() {
            self.line.commands.push(command);
        }
        Some(())
    }

    fn quoted(&mut self, command: &mut Command) -> Option<()> {
        command.word.get_or_insert_default();
        loop {
            match self.next()? {
                '"' => return Some(()),
                '\\' => {
                    let next = self.next_as_it_is()?;
                    if !"$`\"\\".contains(next) {
                        command.push('\\');
                    }
                    command.push(next);
                }
                '$' => self.expansion(command, true)?,
                '`' => self.backticks(command)?,
                other => command.push(other),
            }
        }
    }

    fn backticks(&mut self, command: &mut Command) -> Option<()> {
        let inner = self.up_to('`')?;
        if inner.contains('\\') {
            return None;
        }
        command.push(GAP);
        let outer = (
            std::mem::replace(&mut self.chars, inner.chars().collect()),
            self.at,
        );
        self.at = 0;
        self.commands(None)?;
        (self.chars, self.at) = outer;
        Some(())
    }

    /// Reads on behind a dollar.
    fn expansion(&mut self, command: &mut Command, is_quoted: bool) -> Option<()> {
        match self.peek() {
            Some('(') => {
                self.next();
                command.push(GAP);
                self.commands(Some(')'))?;
            }
            Some('{') => {
                self.next();
                self.braced(command, is_quoted)?;
            }
            Some('\'') if !is_quoted => {
                self.next();
                command.push(GAP);
                loop {
                    match self.next_as_it_is()? {
                        '\'' => break,
                        '\\' => drop(self.next_as_it_is()?),
                        _ => {}
                    }
                }
            }
            Some('"') if !is_quoted => {}
            Some(c) if "@*#?-$!".contains(c) => {
                self.next();
                command.push(GAP);
            }
            Some(c) if is_of_name(c) => {
                let mut name = String::new();
                while let Some(next) = self.next_if(is_of_name) {
                    name.push(next);
                }
                command.push(self.mark(&name, is_quoted));
            }
            Some('[') => command.push(GAP),
            _ => command.push('$'),
        }
        Some(())
    }

    /// The mark of a plain variable.
    fn mark(&self, name: &str, is_quoted: bool) -> char {
        if is_quoted || (self.keeps_places && matches!(name, "HOME" | "PWD")) {
            WITHIN
        } else {
            VARIABLE
        }
    }

    /// Reads on behind `${`.
    fn braced(&mut self, command: &mut Command, is_quoted: bool) -> Option<()> {
        // Behind anything else some shells run commands.
        self.peek().filter(|c| is_of_name(*c) || "#!@*?".contains(*c))?;
        self.go_in()?;
        let (mut name, mut is_plain) = (String::new(), true);
        loop {
            match self.next()? {
                '}' => break,
                '$' => {
                    is_plain = false;
                    self.expansion(command, is_quoted)?;
                }
                '`' => self.backticks(command)?,
                '\'' | '"' | '\\' | '{' => return None,
                // `${x@P}` runs commands.
                '@' if !name.is_empty() && !name.ends_with(['[', '#']) => return None,
                c => {
                    is_plain &= is_of_name(c);
                    name.push(c);
                }
            }
        }
        self.depth -= 1;
        command.push(if is_plain {
            self.mark(&name, is_quoted)
        } else {
            GAP
        });
        Some(())
    }

    fn redirection(&mut self, first: char, command: &mut Command) -> Option<()> {
        let is_number = |word: &mut String| word.chars().all(|c| c.is_ascii_digit());
        let number = command.word.take_if(is_number);
        command.end_word();
        if self.next_is('(') {
            self.line.is_fed = true;
            command.push(GAP);
            return self.commands(Some(')'));
        }
        let mut operator = String::from(first);
        while let Some(next) = self.next_if(|c| "<>&|".contains(c)) {
            operator.push(next);
        }
        if first == '<' {
            self.line.is_fed = true;
            command.document = None;
        }
        if operator == "<<" {
            let has_tabs = self.next_is('-');
            let document = self.document(has_tabs)?;
            if document.is_quoted && number.is_none() {
                command.document = Some(document.number);
            }
            self.pending.push(document);
        } else {
            // One that closes a file has no target.
            let may_close = operator.ends_with('&');
            if may_close {
                self.pass_blanks();
            }
            command.is_target = !(may_close && self.next_is('-'));
        }
        Some(())
    }

    fn pass_blanks(&mut self) {
        while self.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
    }

    fn document(&mut self, has_tabs: bool) -> Option<Document> {
        self.pass_blanks();
        let (mut end, mut is_quoted) = (String::new(), false);
        while let Some(next) = self.next_if(|c| !ends_word(c)) {
            match next {
                '\'' | '"' => {
                    is_quoted = true;
                    let text = self.up_to(next)?;
                    if next == '"' && text.contains('\\') {
                        return None;
                    }
                    end.push_str(&text);
                }
                '$' | '`' | '\\' => return None,
                other => end.push(other),
            }
        }
        self.line.documents.push(String::new());
        Some(Document {
            number: self.line.documents.len() - 1,
            end,
            has_tabs,
            is_quoted,
        })
    }

    /// Reads the here-documents that begin here.
    fn documents(&mut self) -> Option<()> {
        for document in std::mem::take(&mut self.pending) {
            let mut body = String::new();
            loop {
                let rest = &self.chars[self.at..];
                if rest.is_empty() {
                    return None;
                }
                let length = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
                let line: String = rest[..length].iter().collect();
                self.at += (length + 1).min(rest.len());
                let bare = if document.has_tabs {
                    line.trim_start_matches('\t')
                } else {
                    &line
                };
                if bare == document.end {
                    break;
                }
                body.push_str(&line);
                body.push('\n');
            }
            // Without quotes the shell runs the substitutions in it, and joins lines, perhaps to its end.
            if !document.is_quoted && ["$(", "`", "\\\n"].iter().any(|text| body.contains(text)) {
                return None;
            }
            self.line.documents[document.number] = body;
        }
        Some(())
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n')
}

/// Whether an unquoted character ends a word before it.
fn ends_word(c: char) -> bool {
    is_space(c) || ";&|<>()".contains(c)
}

/// Whether a variable stands in a text only where its value is taken.
fn is_only_read(text: &str, name: &str) -> bool {
    text.match_indices(name)
        .all(|(at, _)| text[..at].ends_with('$') || text[..at].ends_with("${"))
}
