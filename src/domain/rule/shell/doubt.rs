//! Owns whether a line runs a certain program, or may run one that it computes. It is for what is denied: a line that runs
//! it is denied, and one that may is a person's.

use super::{
    HANDS_ON, HAS_COMMANDS, KEEPS_TO_ITSELF, base, begins, commands,
    interpreter::{Source, is_interpreter, is_shell, is_standard_input, reads_programs, source},
    may_run,
    read::{Command, FILE, GAP, VARIABLE, read},
    stands_in,
    wrapper::{is_assignment, is_before, is_open_ended, is_wrapper, program_of, runs_its_input},
};

/// The knowledge about a line and a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::domain::rule) enum Runs {
    /// The command stands where programs do.
    Surely,
    /// It may be run: its words stand in the line, or what is run is computed.
    Perhaps,
    /// It is not there.
    No,
}

/// Whether a line runs this program with these first arguments, as far as that is known.
pub(in crate::domain::rule) fn runs(text: &str, prefix: &[String]) -> Runs {
    let commands = read(text, false);
    if commands.iter().any(|command| surely(command, prefix, 0)) {
        Runs::Surely
    } else if may_run(text, prefix)
        || commands.iter().any(|command| is_computed(command, prefix, 0))
        || (stands_in(text, prefix) && !is_harmless(text))
        || commands.iter().any(|command| stands_apart(command, prefix))
    {
        Runs::Perhaps
    } else {
        Runs::No
    }
}

/// The places in a command where its program stands: wrappers run the program behind them.
fn places(words: &[String]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let is_skipped = is_assignment(word) || is_before(word);
        if is_skipped {
            at += 1;
            continue;
        }
        found.push(at);
        let name = base(word);
        if name == "find" || name == "fd" {
            let runs = |word: &String| matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-x" | "-X");
            found.extend((at..words.len()).filter(|place| *place > 0 && runs(&words[place - 1])));
            break;
        }
        if !is_wrapper(name) {
            break;
        }
        at = program_of(words, at);
    }
    found.retain(|place| *place < words.len());
    found
}

fn is_gap(c: char) -> bool {
    matches!(c, GAP | FILE | VARIABLE)
}

/// Whether the command stands where a program does, or is what a wrapper or a shell is given.
fn surely(command: &Command, prefix: &[String], depth: usize) -> bool {
    let words = &command.words;
    let wraps = |place: usize| {
        let name = base(&words[place]);
        (HANDS_ON.contains(&name) || is_interpreter(name)) && stands_in(&words[place + 1..].join(" "), prefix)
    };
    let is_there = |place: usize| {
        let at = &words[place..];
        let joined = prefix.len() > 1 && base(&at[0]) == prefix.join("-");
        begins(at, prefix, false) || joined || begins(&without_options(at), prefix, false) || wraps(place)
    };
    places(words).into_iter().any(is_there)
        || (depth < 2
            && texts(words).iter().any(|text| {
                read(text, command.is_fed)
                    .iter()
                    .any(|command| surely(command, prefix, depth + 1))
            }))
}

/// Whether what is run is computed: the program itself, what `eval`, `source` or a shell is given as text, what an
/// interpreter reads; and, of a program with commands of its own, the command.
fn is_computed(command: &Command, prefix: &[String], depth: usize) -> bool {
    let words = &command.words;
    let places = places(words);
    let computed = |place: &usize| {
        let (program, arguments) = (&words[*place], &words[*place + 1..]);
        let name = base(program);
        if may_be_any(program) || program == "{}" || program == "%" {
            return true;
        }
        if matches!(name, "eval" | "source" | ".") {
            return arguments
                .iter()
                .any(|word| word.contains(is_gap) || (command.is_fed && is_standard_input(word)));
        }
        if reads_programs(name) {
            return match source(name, arguments) {
                Source::Text | Source::Nothing => false,
                Source::Script(script) => script.contains(FILE) || script == "{}" || script == "%",
                Source::Input => command.is_fed || words[..*place].iter().any(|word| is_open_ended(word)),
            };
        }
        let begins_so = prefix.len() > 1 && begins(&words[*place..], &prefix[..1], false);
        begins_so
            && without_options(&words[*place..])
                .get(1)
                .is_some_and(|word| word.contains(is_gap))
    };
    places.iter().any(computed)
        || (command.is_fed && runs_its_input(words, &places))
        || (depth < 2
            && texts(words).iter().any(|text| {
                read(text, command.is_fed)
                    .iter()
                    .any(|command| is_computed(command, prefix, depth + 1))
            }))
}

/// Whether a program may be any: its name is not there. `$HOME/bin/tool` has one.
fn may_be_any(program: &str) -> bool {
    if program.contains([GAP, FILE]) {
        return true;
    }
    base(program).contains(VARIABLE)
}

/// The texts that a command has a shell run: what comes behind `-c`, and what `eval` is given.
fn texts(words: &[String]) -> Vec<String> {
    let mut texts = Vec::new();
    for place in places(words) {
        let (name, arguments) = (base(&words[place]), &words[place + 1..]);
        if name == "eval" {
            texts.push(arguments.join(" "));
        } else if name == "ssh" {
            let host = program_of(words, place).saturating_sub(1);
            texts.extend(words.get(host + 1..).map(|command| command.join(" ")));
        } else if is_shell(name) || is_interpreter(name) || matches!(name, "su" | "runuser" | "script") {
            let is_flag =
                |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains('c');
            let at = arguments.iter().position(is_flag);
            texts.extend(
                at.and_then(|at| arguments.get(at + 1))
                    .cloned()
                    .filter(|_| !is_interpreter(name) || is_shell(name)),
            );
        }
    }
    texts
}

/// A command without the options before its own command, and without what may be their values: `git -C . push`.
fn without_options(words: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = words.first().cloned().into_iter().collect();
    let mut rest = words.iter().skip(1).peekable();
    while let Some(option) = rest.next_if(|word| word.starts_with('-')) {
        let is_short = option.len() == 2 && option != "-p" && option != "-P";
        let is_long = matches!(
            option.as_str(),
            "--git-dir" | "--work-tree" | "--namespace" | "--context" | "--prefix"
        );
        if is_short || is_long {
            let _ = rest.next();
        }
    }
    kept.extend(rest.cloned());
    kept
}

/// Whether the words stand in the command one behind the other, perhaps with others between them.
fn stands_apart(command: &Command, prefix: &[String]) -> bool {
    let words = &command.words;
    prefix.len() > 1
        && (0..words.len()).any(|from| {
            let mut rest = words[from + 1..].iter();
            begins(&words[from..], &prefix[..1], false)
                && !HAS_COMMANDS_OF_OTHERS.contains(&base(words.get(from + 1).map_or("", String::as_str)))
                && prefix[1..].iter().all(|wanted| rest.any(|word| word == wanted))
        })
}

/// Commands of programs behind which a word is only a word: messages, patterns, names.
const HAS_COMMANDS_OF_OTHERS: [&str; 12] = [
    "add", "branch", "checkout", "commit", "diff", "grep", "log", "merge", "show", "stash", "switch", "tag",
];

/// Whether the words of the line are only words: no program in it runs, or makes, what another one could run.
fn is_harmless(text: &str) -> bool {
    let Some(commands) = commands(text) else {
        return false;
    };
    let keeps = |command: &Vec<String>| KEEPS_TO_ITSELF.contains(&base(&command[0]));
    let has_commands = |command: &Vec<String>| HAS_COMMANDS.contains(&base(&command[0]));
    commands
        .iter()
        .all(|command| keeps(command) || has_commands(command))
}
