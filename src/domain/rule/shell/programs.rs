//! Owns the knowledge about programs: which ones run another program or a text, and where that stands among their words.

use super::line::{GAP, VARIABLE, WITHIN, is_marked};

/// Words before a program.
const BEFORE: [&str; 14] = [
    "!",
    "--",
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
    "until",
    "while",
];

/// Programs that run the words behind their options: the letters of the options whose value may be the next word, and how
/// many operands of their own come first.
const WRAPPERS: [(&str, &str, usize); 26] = [
    ("busybox", "", 0),
    ("chroot", "", 1),
    ("command", "", 0),
    ("doas", "Cau", 0),
    ("env", "Cu", 0),
    ("eval", "", 0),
    ("exec", "a", 0),
    ("flock", "Ew", 1),
    ("ionice", "cnp", 0),
    ("nice", "n", 0),
    ("nohup", "", 0),
    ("parallel", "IJNSajn", 0),
    ("setpriv", "", 0),
    ("setsid", "", 0),
    ("ssh", "BDEFIJLOPQRSWbceilmopw", 1),
    ("stdbuf", "eio", 0),
    ("strace", "EIOPSUXabeopsu", 0),
    ("sudo", "CDRTUghprtu", 0),
    ("taskset", "", 1),
    ("time", "fo", 0),
    ("timeout", "ks", 0),
    ("toybox", "", 0),
    ("trap", "", 0),
    ("unshare", "GRSw", 0),
    ("watch", "n", 0),
    ("xargs", "EIJLPRSadns", 0),
];

/// Long options of wrappers whose value is the next word.
const VALUED: [&str; 9] = [
    "--chdir",
    "--group",
    "--interval",
    "--jobs",
    "--kill-after",
    "--max-args",
    "--max-procs",
    "--signal",
    "--user",
];

/// Long options of wrappers that have no value.
const FLAGS: [&str; 10] = [
    "--foreground",
    "--ignore-environment",
    "--login",
    "--no-run-if-empty",
    "--non-interactive",
    "--null",
    "--preserve-env",
    "--preserve-status",
    "--verbose",
    "--wait",
];

/// Builtins that compute the subscripts in their arguments, and so run the substitutions there.
const SUBSCRIPTS: [&str; 15] = [
    "[",
    "[[",
    "declare",
    "export",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "test",
    "typeset",
    "unset",
];

/// Wrappers that give the words behind them to a shell.
const TEXT_WRAPPERS: [&str; 5] = ["eval", "parallel", "ssh", "trap", "watch"];

/// Wrappers that start a shell if nothing stands behind them.
const SHELL_WRAPPERS: [&str; 5] = ["chroot", "doas", "ssh", "sudo", "unshare"];

/// Programs that start another one in surroundings of its own. Their options are too many to know.
const STARTERS: [&str; 5] = ["docker", "kubectl", "podman", "poetry", "uv"];

/// Programs that run what an argument names, which may be the standard input.
const READERS: [&str; 6] = [".", "awk", "bun", "crontab", "make", "source"];

/// Programs that run a text or a file: their names without versions, and the letters of the options whose value is a text.
const INTERPRETERS: [(&str, &str); 22] = [
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
    ("script", "c"),
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

/// The part of a program in running the words behind it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Role<'a> {
    /// It runs these words.
    Wraps(&'a [String]),
    /// It runs some of the last of these words, and how many is not known.
    WrapsSomewhere { rest: &'a [String], is_text: bool },
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
        if name == "env"
            && let Some(line) = split_string(arguments)
        {
            return Role::RunsText(line);
        }
        let is_text = TEXT_WRAPPERS.contains(&name);
        let (rest, is_certain) = behind(name, arguments, letters, *operands);
        return match rest {
            [] if SHELL_WRAPPERS.contains(&name) => Role::RunsInput { is_shell: true },
            [] => Role::Ends,
            // By itself it prints what it reads.
            [_] if name == "xargs" => Role::Ends,
            [flag, text, ..] if name == "flock" && matches!(flag.as_str(), "-c" | "--command") => {
                Role::RunsText(text.clone())
            }
            rest if !is_certain => Role::WrapsSomewhere { rest, is_text },
            rest if is_text => Role::RunsText(rest.join(" ")),
            rest => Role::Wraps(rest),
        };
    }
    if let Some((name, letters)) = interpreter(program) {
        return source(name, letters, arguments);
    }
    if ["compgen", "mapfile", "readarray"].contains(&name)
        && let Some(at) = arguments.iter().position(|word| word.starts_with("-C"))
    {
        let text = [
            &arguments[at][2..],
            arguments.get(at + 1).map_or("", String::as_str),
        ];
        return Role::RunsText(text.join("\n"));
    }
    if READERS.contains(&name) {
        let is_script = name == "." || name == "source";
        return match arguments.first() {
            Some(script) if is_script && (script.contains(GAP) || is_marked(base(script))) => {
                Role::RunsComputed
            }
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
    // Their options may stand behind their operands, and may have their value in the same word.
    let is_mixed = name == "su" || name == "script";
    let reads = Role::RunsInput { is_shell };
    let is_cluster = |word: &String| word.starts_with(['-', '+']) && !word.starts_with("--");
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let is_option = word.starts_with(['-', '+']);
        if is_shell && is_marked(word) && (is_option || is_mixed || may_be_text(rest.as_slice())) {
            return Role::RunsComputed;
        }
        let text = match word.strip_prefix(['-', '+']) {
            _ if is_standard_input(word) && !is_mixed => return reads,
            None if is_computed(word) && !word.contains([VARIABLE, WITHIN]) => return Role::RunsComputed,
            None if word.contains(['.', '/']) && !is_mixed => return Role::Ends,
            None => continue,
            Some("-help" | "-test" | "-version") => return Role::Ends,
            Some("V") if !is_shell => return Role::Ends,
            Some("-init-file" | "-rcfile") if is_shell => {
                if rest.next().is_some_and(|file| file.contains(GAP)) {
                    return Role::RunsComputed;
                }
                continue;
            }
            Some("-command" | "-eval" | "-print") => rest.next().cloned(),
            Some(long) if long.starts_with('-') => match long.split_once('=') {
                Some(("-command" | "-eval" | "-print", text)) => Some(text.to_owned()),
                _ => continue,
            },
            Some(short) if is_mixed => match short.split_once('c') {
                Some((_, "")) => rest.next().cloned(),
                Some((_, text)) => Some(text.to_owned()),
                None => continue,
            },
            Some(short) if is_shell && short.contains('c') => {
                if rest
                    .as_slice()
                    .iter()
                    .any(|word| is_cluster(word) && is_marked(word))
                {
                    return Role::RunsComputed;
                }
                shell_text(short, &mut rest)
            }
            Some(short) if is_shell && short.contains('s') => {
                let has_text = rest.any(|word| is_cluster(word) && word.contains('c'));
                return if has_text { Role::RunsComputed } else { reads };
            }
            Some(short) if short.ends_with(|c| letters.contains(c)) => rest.next().cloned(),
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

/// The text of a shell's `-c`: the first word behind all options and their values.
fn shell_text<'a>(cluster: &str, rest: &mut impl Iterator<Item = &'a String>) -> Option<String> {
    let values = |cluster: &str| cluster.matches(['o', 'O']).count();
    let mut passed = values(cluster);
    while let Some(word) = rest.next() {
        if passed > 0 {
            passed -= 1;
        } else if matches!(word.as_str(), "-" | "--") {
            return rest.next().cloned();
        } else if matches!(word.as_str(), "--init-file" | "--rcfile") {
            passed = 1;
        } else if !word.starts_with(['-', '+']) {
            return Some(word.clone());
        } else if !word.starts_with("--") {
            passed = values(word);
        }
    }
    None
}

/// Whether a word looks like a text for a shell.
fn may_be_text(words: &[String]) -> bool {
    words
        .iter()
        .any(|word| word.contains(|c: char| c.is_whitespace() || "$`".contains(c)))
}

/// The line that `env -S` makes.
fn split_string(arguments: &[String]) -> Option<String> {
    for (at, word) in arguments.iter().enumerate() {
        let (text, next) = if let Some(text) = word.strip_prefix("--split-string=") {
            (text, at + 1)
        } else if word == "--split-string" {
            ("", at + 1)
        } else if word.starts_with('-') && !word.starts_with("--") {
            match word.split_once('S') {
                Some((_, text)) => (text, at + 1),
                None => continue,
            }
        } else {
            continue;
        };
        return Some(format!("env {text} {}", arguments[next..].join(" ")));
    }
    None
}

/// The words behind a wrapper's options and operands, and whether it is certain that they begin there.
fn behind<'a>(name: &str, arguments: &'a [String], letters: &str, operands: usize) -> (&'a [String], bool) {
    let (mut at, mut is_certain) = (0, true);
    let is_text = TEXT_WRAPPERS.contains(&name);
    while let Some(word) = arguments.get(at) {
        let has_value = match word.strip_prefix('-') {
            Some(long) if long.starts_with('-') => {
                let is_valued = VALUED.contains(&word.as_str()) && name != "unshare";
                let is_known =
                    is_valued || long.contains('=') || long == "-" || FLAGS.contains(&word.as_str());
                is_certain &= is_known;
                is_valued
            }
            Some(cluster) => cluster.find(|c| letters.contains(c)) == cluster.len().checked_sub(1),
            None => false,
        };
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        let is_passed = operands == 0 && !is_text && (is_number || word.contains('='));
        if has_value && word.len() > 1 {
            at += 2;
        } else if word.starts_with('-') || is_passed || (!is_text && is_assignment(word)) {
            at += 1;
        } else {
            break;
        }
    }
    (arguments.get(at + operands..).unwrap_or_default(), is_certain)
}

/// The texts among a wrapper's options that it puts its arguments in the place of, and where the words behind those begin.
pub(super) fn replaced(words: &[String]) -> Option<(Vec<&str>, usize)> {
    let at = words
        .iter()
        .position(|word| matches!(base(word), "parallel" | "xargs"))?;
    let (_, letters, _) = WRAPPERS.iter().find(|(name, ..)| *name == base(&words[at]))?;
    let (rest, _) = behind(base(&words[at]), &words[at + 1..], letters, 0);
    let options = &words[at..words.len() - rest.len()];
    let texts = options.windows(2).filter_map(|pair| {
        let replace = |flag: &str| pair[1].strip_prefix(flag).filter(|text| !text.is_empty());
        let is_next = matches!(pair[0].as_str(), "-I" | "-J");
        let next = is_next.then_some(pair[1].as_str());
        next.or_else(|| ["-I", "-J", "-i", "--replace="].into_iter().find_map(replace))
    });
    Some((texts.collect(), words.len() - rest.len()))
}

/// Whether a builtin may run a substitution that stands in quotes.
pub(super) fn runs_in_subscript(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else {
        return false;
    };
    let is_told = program != "printf" || arguments.iter().any(|word| word.starts_with("-v"));
    SUBSCRIPTS.contains(&program.as_str())
        && is_told
        && arguments
            .iter()
            .any(|word| word.contains("$(") || word.contains('`'))
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

/// Whether a word may be any. `$HOME/bin/tool` and `"$x"/tool` have a name.
pub(super) fn is_computed(word: &str) -> bool {
    word.contains([GAP, VARIABLE]) || base(word).contains(WITHIN) || word.contains("{}") || word == "%"
}

/// The name of a program without its folder.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
