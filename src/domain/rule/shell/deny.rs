//! Owns whether a line runs a command that is denied: it certainly does, or it may, or it does not.

use super::{
    commands,
    line::{GAP, VARIABLE, is_marked, read},
    programs::{
        Role, base, interpreter, is_assignment, is_before, is_computed, may_be_run, replaced, role,
        runs_in_subscript,
    },
};
use crate::domain::rule::matcher::Fit;

/// Wrappers, texts and places of programs that are looked at in one line.
const STEPS: usize = 128;

/// Whether a line runs this program with these first arguments.
pub(in crate::domain::rule) fn runs(text: &str, prefix: &[String]) -> Fit {
    let mut search = Search { prefix, steps: STEPS };
    match search.text(text, Input::None) {
        Fit::No if is_named(text, prefix) => Fit::Perhaps,
        found => found,
    }
}

/// The input of a command.
#[derive(Clone, Copy)]
enum Input<'a> {
    None,
    /// A text of the line.
    Document(&'a str),
    Unknown,
}

struct Search<'a> {
    prefix: &'a [String],
    steps: usize,
}

impl Search<'_> {
    /// `around` is the input of the shell that runs the text.
    fn text(&mut self, text: &str, around: Input<'_>) -> Fit {
        let line = read(text);
        let mut found = if line.is_understood { Fit::No } else { Fit::Perhaps };
        for command in &line.commands {
            let input = match command.document.and_then(|number| line.documents.get(number)) {
                Some(document) => Input::Document(document),
                None if line.is_fed => Input::Unknown,
                None => around,
            };
            found = found.max(self.command(command.words.clone(), input));
        }
        found
    }

    fn command(&mut self, mut words: Vec<String>, input: Input<'_>) -> Fit {
        let has = |words: &[String], names: &[&str]| words.iter().any(|word| names.contains(&base(word)));
        if has(&words, &["fd", "parallel", "xargs"]) {
            // They add arguments.
            words.push(GAP.to_string());
            if let Some((texts, begin)) = replaced(&words) {
                let mark = GAP.to_string();
                let behind = words[begin..].iter().map(|word| {
                    texts
                        .iter()
                        .fold(word.clone(), |word, text| word.replace(text, &mark))
                });
                words = words[..begin].iter().cloned().chain(behind).collect();
            }
        }
        let mut found = self.words(&words, input);
        if has(&words, &["fd", "find"]) {
            let flags = [
                "-exec",
                "-execdir",
                "-ok",
                "-okdir",
                "-x",
                "-X",
                "--exec",
                "--exec-batch",
            ];
            for at in 1..words.len() {
                if flags.contains(&words[at - 1].as_str()) {
                    found = found.max(self.step(|search| search.words(&words[at..], input)));
                }
            }
        }
        found
    }

    /// Looks further; too many steps are not followed.
    fn step(&mut self, look: impl FnOnce(&mut Self) -> Fit) -> Fit {
        match self.steps.checked_sub(1) {
            Some(steps) => {
                self.steps = steps;
                look(self)
            }
            None => Fit::Perhaps,
        }
    }

    fn words(&mut self, words: &[String], input: Input<'_>) -> Fit {
        let skipped = words
            .iter()
            .take_while(|word| is_assignment(word) || is_before(word));
        let words = &words[skipped.count()..];
        let Some(program) = words.first() else {
            return Fit::No;
        };
        let found = begins(words, self.prefix);
        if found != Fit::No {
            return found;
        }
        if is_computed(program) || runs_in_subscript(words) {
            return Fit::Perhaps;
        }
        match role(words) {
            Role::Wraps(rest) => self.step(|search| search.words(rest, input)),
            Role::WrapsSomewhere { rest, is_text } => {
                let mut found = Fit::No;
                for at in 0..rest.len() {
                    let here = self.step(|search| {
                        if is_text {
                            search.text(&rest[at..].join(" "), input)
                        } else {
                            search.words(&rest[at..], input)
                        }
                    });
                    found = found.max(if at == 0 { here } else { here.min(Fit::Perhaps) });
                }
                found
            }
            Role::RunsText(text) => self.step(|search| search.text(&text, input)),
            Role::RunsComputed => Fit::Perhaps,
            Role::RunsInput { is_shell } => match input {
                Input::None => Fit::No,
                Input::Document(text) if is_shell => self.step(|search| search.text(text, Input::None)),
                Input::Document(_) => Fit::No,
                Input::Unknown => Fit::Perhaps,
            },
            Role::Starts => {
                let places = (1..words.len()).filter(|at| interpreter(&words[*at]).is_some());
                let found = places.map(|at| self.step(|search| search.words(&words[at..], input)));
                found.max().unwrap_or(Fit::No)
            }
            Role::Ends => Fit::No,
        }
    }
}

/// Whether a command begins with the words. Options before its own command are passed, with their values; an option that is
/// denied may stand anywhere behind.
fn begins(words: &[String], prefix: &[String]) -> Fit {
    let ([first, rest @ ..], [program, wanted @ ..]) = (words, prefix) else {
        return Fit::No;
    };
    if first != program && (program.contains('/') || base(first) != program) {
        let is_joined = !wanted.is_empty() && base(first) == prefix.join("-");
        return if is_joined { Fit::Yes } else { Fit::No };
    }
    let mut found = Fit::Yes;
    let mut rest = rest.iter().peekable();
    for wanted in wanted {
        if rest.next_if_eq(&wanted).is_some() {
            continue;
        }
        if wanted.starts_with('-') {
            if !rest.clone().any(|word| word == wanted || is_marked(word)) {
                return Fit::No;
            }
            found = Fit::Perhaps;
            continue;
        }
        // Whether a value may have been more than that.
        let mut is_open = false;
        loop {
            let Some(word) = rest.next() else {
                return if is_open { Fit::Perhaps } else { Fit::No };
            };
            if word == wanted {
                break;
            }
            if is_open || is_marked(word) {
                return Fit::Perhaps;
            }
            if !word.starts_with(['-', '+']) {
                return Fit::No;
            }
            let is_long = word.starts_with("--") && !word.contains('=');
            if defines(word) {
                return Fit::Perhaps;
            }
            if (is_long || (word.starts_with('-') && word.len() == 2))
                && let Some(value) = rest.next_if(|value| *value != wanted && !value.starts_with('-'))
            {
                if defines(value) || (is_long && is_marked(value)) {
                    return Fit::Perhaps;
                }
                let is_folder = word == "-C" && !value.contains([GAP, VARIABLE]);
                is_open = is_marked(value) && !is_folder;
                if is_long {
                    // The value may be the command itself.
                    found = Fit::Perhaps;
                }
            }
        }
    }
    found
}

/// Whether an option or its value may give a command another name: `git -c alias.x=push x`.
fn defines(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["alias.", "include.", "includeif."]
        .iter()
        .any(|section| word.contains(section))
}

/// Whether the words stand somewhere in the line where a program may run them. They do not among the arguments of programs
/// that run none, unless another program of the line could run what those make.
fn is_named(text: &str, prefix: &[String]) -> bool {
    let known = commands(text).and_then(|commands| {
        let arguments = commands
            .iter()
            .map(|command| may_be_run(command).map(|words| words.join(" ")));
        arguments.collect::<Option<Vec<String>>>()
    });
    match known {
        Some(arguments) => arguments.iter().any(|text| stands_in(text, prefix)),
        None => stands_in(text, prefix),
    }
}

/// Whether the words stand one after the other in the text, when quotes are overlooked and all that separates does.
fn stands_in(text: &str, prefix: &[String]) -> bool {
    let text: String = text
        .replace("\\\n", "")
        .chars()
        .filter(|c| !matches!(c, '\'' | '"' | '\\'))
        .collect();
    let separates = |c: char| c.is_whitespace() || c.is_control() || ";&|()<>{}$`,=#!".contains(c);
    let words: Vec<&str> = text.split(separates).filter(|word| !word.is_empty()).collect();
    let is_program = |word: &str| word == prefix[0] || (!prefix[0].contains('/') && base(word) == prefix[0]);
    words
        .windows(prefix.len())
        .any(|words| is_program(words[0]) && words[1..] == prefix[1..])
}
