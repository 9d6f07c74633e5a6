//! Owns the knowledge about programs: which ones run another program or a text, and where that stands among their words.

use super::line::{GAP, VARIABLE};

/// Words before a program.
const BEFORE: [&str; 14] = [
    "!",
    "-p",
    "builtin",
    "coproc",
    "do",
    "elif",
    "else",
    "if",
    "nocorrect",
    "noglob",
    "then",
    "time",
    "until",
    "while",
];

/// Programs that run the words behind their options: the letters of the options whose value may be the next word, and how
/// many operands of their own come first.
const WRAPPERS: [(&str, &str, usize); 22] = [
    ("busybox", "", 0),
    ("chroot", "", 1),
    ("command", "", 0),
    ("doas", "Cu", 0),
    ("env", "Cu", 0),
    ("eval", "", 0),
    ("exec", "a", 0),
    ("flock", "Ew", 1),
    ("ionice", "cnp", 0),
    ("nice", "n", 0),
    ("nohup", "", 0),
    ("parallel", "IJNSajn", 0),
    ("setsid", "", 0),
    ("ssh", "BDEFIJLOPQRSWbceilmopw", 1),
    ("stdbuf", "eio", 0),
    ("sudo", "CDRTUghprtu", 0),
    ("time", "fo", 0),
    ("timeout", "ks", 0),
    ("toybox", "", 0),
    ("trap", "", 0),
    ("watch", "n", 0),
    ("xargs", "EILPadns", 0),
];

/// Long options of wrappers whose value is the next word.
const VALUED: [&str; 6] = [
    "--chdir",
    "--group",
    "--kill-after",
    "--max-args",
    "--signal",
    "--user",
];

/// Wrappers that give the words behind them to a shell.
const TEXT_WRAPPERS: [&str; 5] = ["eval", "parallel", "ssh", "trap", "watch"];

/// Wrappers that start a shell if nothing stands behind them.
const SHELL_WRAPPERS: [&str; 4] = ["chroot", "doas", "ssh", "sudo"];

/// Programs that start another one in surroundings of its own. Their options are too many to know.
const STARTERS: [&str; 5] = ["docker", "kubectl", "podman", "poetry", "uv"];

/// Programs that run what an argument names, which may be the standard input.
const READERS: [&str; 6] = [".", "awk", "bun", "crontab", "make", "source"];

/// Programs that run a text or a file: their names without versions, and the letters of the options whose value is a text.
const INTERPRETERS: [(&str, &str); 21] = [
    ("ash", "c"),
    ("at", ""),
    ("bash", "c"),
    ("batch", ""),
    ("csh", "c"),
    ("dash", "c"),
    ("fish", "c"),
    ("ksh", "c"),
    ("lua", "e"),
    ("mksh", "c"),
    ("node", "ep"),
    ("osascript", "e"),
    ("perl", "eE"),
    ("php", "r"),
    ("python", "cm"),
    ("rbash", "c"),
    ("ruby", "e"),
    ("sh", "c"),
    ("su", "c"),
    ("tcsh", "c"),
    ("zsh", "c"),
];

/// Programs that run none of their arguments.
const LEAF_PROGRAMS: &[&str] = &[
    "basename", "cat", "cd", "chmod", "chown", "cmp", "cp", "cut", "date", "df", "diff", "dirname", "du",
    "echo", "egrep", "false", "fgrep", "file", "grep", "head", "hostname", "id", "jq", "kill", "ln", "ls",
    "mkdir", "mv", "printf", "ps", "pwd", "readlink", "realpath", "rm", "rmdir", "seq", "sleep", "stat",
    "tail", "tee", "test", "touch", "tr", "true", "uname", "uniq", "wc", "which", "whoami",
];

/// Programs whose first argument is a command of their own: `git rm` runs no `rm`.
const SUBCOMMAND_PROGRAMS: &[&str] = &[
    "apt", "apt-get", "brew", "cargo", "docker", "git", "go", "hg", "kubectl", "npm", "pip", "pip3", "pnpm",
    "podman", "svn", "uv", "yarn",
];

/// What a program does with the words behind it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Role<'a> {
    /// It runs these words.
    Wraps(&'a [String]),
    /// A shell runs this text.
    RunsText(String),
    /// It runs a file or a text that is computed.
    RunsComputed,
    /// It runs what it reads.
    RunsInput { is_shell: bool },
    /// It may run an interpreter that stands among the words.
    Starts,
    /// It runs nothing that can be looked at.
    Ends,
}

/// The role of the program that the words begin with.
pub(super) fn role(words: &[String]) -> Role<'_> {
    let Some((program, arguments)) = words.split_first() else {
        return Role::Ends;
    };
    let name = base(program);
    if let Some((_, letters, operands)) = WRAPPERS.iter().find(|(known, ..)| *known == name) {
        return match behind(arguments, letters, *operands) {
            [] if SHELL_WRAPPERS.contains(&name) => Role::RunsInput { is_shell: true },
            [] => Role::Ends,
            // By itself it prints what it reads.
            [_] if name == "xargs" => Role::Ends,
            rest if TEXT_WRAPPERS.contains(&name) => Role::RunsText(rest.join(" ")),
            rest => Role::Wraps(rest),
        };
    }
    if let Some((name, letters)) = interpreter(program) {
        return source(name, letters, arguments);
    }
    if READERS.contains(&name) {
        let is_script = name == "." || name == "source";
        return match arguments.first() {
            Some(script) if is_script && is_computed(script) => Role::RunsComputed,
            _ if arguments.iter().any(|word| is_standard_input(word)) => {
                Role::RunsInput { is_shell: is_script }
            }
            _ => Role::Ends,
        };
    }
    if STARTERS.contains(&name) {
        return Role::Starts;
    }
    Role::Ends
}

/// Where an interpreter finds what it runs. A word without a dot and a slash may be the value of an option, and is no file.
fn source<'a>(name: &str, letters: &str, arguments: &[String]) -> Role<'a> {
    let is_shell = letters == "c" || letters.is_empty();
    let reads = Role::RunsInput { is_shell };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let text = match word.strip_prefix(['-', '+']) {
            _ if is_standard_input(word) && name != "su" => return reads,
            None if is_computed(word) && !word.contains(VARIABLE) => return Role::RunsComputed,
            None if word.contains(['.', '/']) && name != "su" => return Role::Ends,
            None => continue,
            Some("-help" | "-test" | "-version" | "V") => return Role::Ends,
            Some("-command" | "-eval" | "-print") => rest.next().cloned(),
            Some(long) if long.starts_with('-') => match long.split_once('=') {
                Some(("-command" | "-eval" | "-print", text)) => Some(text.to_owned()),
                _ => continue,
            },
            Some(short) if is_shell && short.contains('s') && name != "su" => return reads,
            Some(short) if short.ends_with(|c| letters.contains(c)) || (is_shell && short.contains('c')) => {
                rest.next().cloned()
            }
            Some(short) if short.starts_with(|c| letters.contains(c)) => Some(short[1..].to_owned()),
            Some(_) => continue,
        };
        return match text {
            None => reads,
            Some(text) if is_shell => Role::RunsText(text),
            Some(_) => Role::Ends,
        };
    }
    reads
}

/// The words behind a wrapper's options and operands.
fn behind<'a>(arguments: &'a [String], letters: &str, operands: usize) -> &'a [String] {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let is_number = operands == 0 && word.starts_with(|c: char| c.is_ascii_digit());
        let has_value = match word.strip_prefix('-') {
            Some(letter) if letter.len() == 1 => letters.contains(letter),
            _ => VALUED.contains(&word.as_str()),
        };
        if has_value {
            at += 2;
        } else if word.starts_with('-') || is_assignment(word) || is_number {
            at += 1;
        } else {
            break;
        }
    }
    arguments.get(at + operands..).unwrap_or_default()
}

/// The arguments that a program may run, as far as is known; `None` for a program of which nothing is known.
pub(super) fn may_be_run(command: &[String]) -> Option<&[String]> {
    let name = base(command.first()?);
    if LEAF_PROGRAMS.contains(&name) {
        Some(&[])
    } else if SUBCOMMAND_PROGRAMS.contains(&name) {
        Some(command.get(2..).unwrap_or_default())
    } else {
        None
    }
}

/// An interpreter's name without its folder and version, and the letters of its options.
pub(super) fn interpreter(program: &str) -> Option<(&'static str, &'static str)> {
    let name = base(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.into_iter().find(|(known, _)| *known == name)
}

pub(super) fn is_before(word: &str) -> bool {
    BEFORE.contains(&word)
}

pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.trim_end_matches('+');
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Whether a file is the standard input, or another one that is open.
fn is_standard_input(file: &str) -> bool {
    matches!(file, "-" | "/dev/stdin") || file.starts_with("/dev/fd/") || file.starts_with("/proc/self/fd/")
}

/// Whether a word may be any. `$HOME/bin/tool` has a name.
pub(super) fn is_computed(word: &str) -> bool {
    word.contains(GAP) || base(word).contains(VARIABLE) || word == "{}" || word == "%"
}

/// The name of a program without its folder.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
