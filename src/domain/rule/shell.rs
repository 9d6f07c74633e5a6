//! Owns the reading of shell commands. Two questions are asked of a line, and each is answered on its safe side: which
//! commands does it run, if that is certain; and may it run a certain one.
//!
//! The first reader takes a small part of the language, in which bash, zsh and sh agree, and gives up on everything else: it
//! is for what is allowed. The second overlooks quotes and structure: it is for what is denied, and finds more than is there.

mod doubt;
mod interpreter;
mod read;
mod wrapper;

pub(super) use doubt::{Runs, runs};

/// Programs that run what their arguments say.
const HANDS_ON: &[&str] = &[
    ".",
    "ash",
    "bash",
    "builtin",
    "busybox",
    "chroot",
    "chrt",
    "command",
    "dash",
    "doas",
    "env",
    "eval",
    "exec",
    "fd",
    "find",
    "fish",
    "flock",
    "gosu",
    "ionice",
    "ksh",
    "nice",
    "node",
    "nohup",
    "noglob",
    "nsenter",
    "parallel",
    "perl",
    "python",
    "python3",
    "ruby",
    "runuser",
    "script",
    "setsid",
    "sh",
    "source",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "toybox",
    "trap",
    "unshare",
    "watch",
    "xargs",
    "zsh",
    "if",
    "then",
    "elif",
    "else",
    "while",
    "until",
    "do",
    "for",
    "case",
    "select",
    "function",
    "coproc",
    "repeat",
    "nocorrect",
    "alias",
    "hash",
    "enable",
];

/// Programs whose arguments nobody runs: what else stands in their lines is no program.
const KEEPS_TO_ITSELF: &[&str] = &[
    "basename", "cat", "cd", "chmod", "chown", "cmp", "cp", "cut", "date", "df", "diff", "dirname", "du",
    "echo", "egrep", "false", "fgrep", "file", "grep", "head", "hostname", "id", "jq", "kill", "ln", "ls",
    "mkdir", "mv", "printf", "ps", "pwd", "readlink", "realpath", "rm", "rmdir", "seq", "sleep", "stat",
    "tail", "tee", "test", "touch", "tr", "true", "uname", "uniq", "wc", "which", "whoami",
];

/// Programs whose first argument is a command of their own: `git rm` runs no `rm`.
const HAS_COMMANDS: &[&str] = &[
    "apt", "apt-get", "brew", "cargo", "docker", "git", "go", "hg", "kubectl", "npm", "pip", "pip3", "pnpm",
    "podman", "svn", "uv", "yarn",
];

/// The simple commands of a line, each as its words; `None` unless every character is understood. Understood are plain
/// words, words in quotes without expansions, and `;`, `&&`, `||`, `|` and line breaks between commands.
pub(super) fn commands(text: &str) -> Option<Vec<Vec<String>>> {
    let mut chars = text.chars().peekable();
    let mut commands = Vec::new();
    let mut command: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    // Whether an operator waits for its second command.
    let mut is_owed = false;
    while let Some(next) = chars.next() {
        match next {
            ' ' | '\t' => command.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        other if other.is_control() => return None,
                        other => word.push(other),
                    }
                }
                // One shell takes two of them for a quotation mark, the other for none.
                if chars.peek() == Some(&'\'') {
                    return None;
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '$' | '`' | '\\' | '!' => return None,
                        other if other.is_control() => return None,
                        other => word.push(other),
                    }
                }
            }
            ';' | '\n' => {
                command.extend(word.take());
                match (command.is_empty(), next) {
                    (true, '\n') if !is_owed => {}
                    (true, _) => return None,
                    (false, _) => commands.push(std::mem::take(&mut command)),
                }
                is_owed = false;
            }
            '&' | '|' => {
                let is_double = chars.next_if_eq(&next).is_some();
                command.extend(word.take());
                if command.is_empty() || (next == '&' && !is_double) {
                    return None;
                }
                commands.push(std::mem::take(&mut command));
                is_owed = true;
            }
            // At the start of a word one shell looks for a program.
            '=' if word.is_none() => return None,
            plain if plain.is_ascii_alphanumeric() || "_./:,@%+-=".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    command.extend(word);
    if !command.is_empty() {
        commands.push(command);
    } else if is_owed {
        return None;
    }
    let is_program = |command: &Vec<String>| {
        command
            .first()
            .is_some_and(|first| !first.is_empty() && !first.contains('='))
    };
    (!commands.is_empty() && commands.iter().all(is_program)).then_some(commands)
}

/// Whether it is certain that the line runs nothing but this program with these first arguments.
pub(super) fn runs_only(text: &str, prefix: &[String]) -> bool {
    commands(text).is_some_and(|commands| commands.iter().all(|command| command.starts_with(prefix)))
}

/// Whether the line may run this program with these first arguments. Where the line is understood, its commands are
/// compared, and the arguments of programs that may run them are looked at; else it is enough that the words stand
/// somewhere in it.
pub(super) fn may_run(text: &str, prefix: &[String]) -> bool {
    if let Some(commands) = commands(text)
        && !commands.iter().any(|command| hands_on(&command[0]))
    {
        return commands.iter().any(|command| {
            begins(command, prefix, false) || stands_in(&may_be_run(command).join(" "), prefix)
        });
    }
    stands_in(text, prefix) || [false, true].into_iter().any(|keeps| glued(text, prefix, keeps))
}

fn hands_on(program: &str) -> bool {
    HANDS_ON.contains(&base(program))
}

/// The arguments of a command that its program may run, as far as is known: interpreters, wrappers and tools with a
/// `--exec` are too many to name.
fn may_be_run(command: &[String]) -> &[String] {
    let from = match command.first().map(|program| base(program)) {
        Some(program) if KEEPS_TO_ITSELF.contains(&program) => command.len(),
        Some(program) if HAS_COMMANDS.contains(&program) => 2,
        _ => 1,
    };
    command.get(from..).unwrap_or_default()
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Stands for text that only the shell knows.
const GAP: char = '\0';

fn begins(words: &[String], prefix: &[String], may_guess: bool) -> bool {
    let Some((program, arguments)) = prefix.split_first() else {
        return false;
    };
    let Some((first, rest)) = words.split_first() else {
        return false;
    };
    let is_program = first == program
        || (!program.contains('/') && base(first) == program)
        || (may_guess && (fits(first, program) || fits(base(first), program)));
    is_program && rest.starts_with(arguments)
}

/// Whether the words stand one after the other in the line, when quotes are overlooked and all that separates does.
fn stands_in(text: &str, prefix: &[String]) -> bool {
    let text = without_quotes(text);
    let separates = |c: char| c.is_whitespace() || c.is_control() || ";&|()<>{}$`,=#!".contains(c);
    let words: Vec<String> = text
        .split(separates)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    (0..words.len()).any(|from| begins(&words[from..], prefix, false))
}

/// As [`stands_in`], with expansions as gaps in their words: `r$@m` may be `rm`. With `keeps` a parenthesis after a dollar
/// is a gap as a whole; else its content is looked at too.
fn glued(text: &str, prefix: &[String], keeps: bool) -> bool {
    let text = with_gaps(&without_quotes(text), keeps);
    text.split(|c: char| ";&|(){}\n".contains(c)).any(|segment| {
        let words: Vec<String> = segment
            .split(|c: char| c.is_whitespace() || "<>".contains(c))
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        let program = words.iter().position(|word| !word.contains('=')).unwrap_or(0);
        (0..words.len()).any(|from| begins(&words[from..], prefix, from == program))
    })
}

fn without_quotes(text: &str) -> String {
    text.replace("\\\n", "")
        .chars()
        .filter(|c| !matches!(c, '\'' | '"' | '\\'))
        .collect()
}

fn with_gaps(text: &str, keeps: bool) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '$' => {
                out.push(GAP);
                match chars.peek() {
                    Some('(' | '{') if keeps => skip_balanced(&mut chars),
                    Some('@' | '*' | '#' | '?' | '-' | '$' | '!') => {
                        let _ = chars.next();
                    }
                    _ => {
                        while chars
                            .next_if(|c| c.is_ascii_alphanumeric() || *c == '_')
                            .is_some()
                        {}
                    }
                }
            }
            '`' if keeps => {
                out.push(GAP);
                while chars.next().is_some_and(|c| c != '`') {}
            }
            '[' => {
                out.push(GAP);
                while chars.next_if(|c| *c != ']' && !c.is_whitespace()).is_some() {}
                let _ = chars.next_if_eq(&']');
            }
            '*' | '?' => out.push(GAP),
            other => out.push(other),
        }
    }
    out
}

fn skip_balanced(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let mut depth = 0_usize;
    for c in chars.by_ref() {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

/// Whether a word with gaps may be this one. One that is nothing but gaps may be anything, and so says nothing.
fn fits(pattern: &str, word: &str) -> bool {
    if !pattern.contains(GAP) || pattern.chars().all(|c| c == GAP) {
        return false;
    }
    let parts: Vec<&str> = pattern.split(GAP).collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        return false;
    };
    let Some(mut rest) = word.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
        return false;
    };
    for part in &parts[1..parts.len() - 1] {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}
