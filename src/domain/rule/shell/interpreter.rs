//! Owns how programs are told what to run: by a text among their arguments, by a script, or by what they read.

use super::{base, read::FILE};

/// Programs that run what they read, apart from the shells.
const INTERPRETERS: [&str; 11] = [
    "at",
    "batch",
    "bun",
    "crontab",
    "lua",
    "node",
    "osascript",
    "perl",
    "php",
    "python",
    "ruby",
];

/// Names of the standard input as a file.
const STANDARD_INPUT: [&str; 4] = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// Where a program finds what it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source<'a> {
    /// A text among the arguments.
    Text,
    /// A file, or a module.
    Script(&'a str),
    /// It reads it.
    Input,
    /// It runs nothing.
    Nothing,
}

/// The letters of an interpreter's options.
struct Letters {
    /// The value is a text to run.
    text: &'static str,
    /// The value is a script.
    script: &'static str,
    /// They have a value, perhaps as the next word.
    valued: &'static str,
    /// All behind them in the word is their value.
    attached: &'static str,
}

/// Whether a program runs what it reads. Versions in names do not count.
pub(super) fn is_interpreter(program: &str) -> bool {
    let name = without_version(program);
    INTERPRETERS.contains(&name) || is_shell(name)
}

/// As [`is_interpreter`], without scripts that are called like one: `build.sh` reads data.
pub(super) fn reads_programs(program: &str) -> bool {
    is_interpreter(program) && !without_version(program).contains('.')
}

pub(super) fn is_shell(name: &str) -> bool {
    name.ends_with("sh")
        && !matches!(
            name,
            "ssh" | "push" | "hash" | "refresh" | "flush" | "mosh" | "trash"
        )
}

/// The name of a program without its folder and its version.
fn without_version(program: &str) -> &str {
    base(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// Whether a file is the standard input.
pub(super) fn is_standard_input(file: &str) -> bool {
    STANDARD_INPUT.contains(&file)
}

/// Where an interpreter with these arguments finds what it runs.
pub(super) fn source<'a>(program: &str, arguments: &'a [String]) -> Source<'a> {
    let name = without_version(program);
    match name {
        "at" | "batch" => return of_queue(arguments, "f"),
        "crontab" => return of_queue(arguments, ""),
        _ => {}
    }
    let letters = letters(name);
    let mut reads = false;
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if is_standard_input(word) {
            return Source::Input;
        }
        let is_short = word.starts_with(['-', '+']) && !word.starts_with("--");
        if word == "--" {
            let script = rest.next().filter(|_| !reads);
            return script.map_or(Source::Input, Source::Script);
        } else if is_short {
            match short(&word[1..], &letters, &mut rest) {
                Some(source) => return source,
                None => reads |= is_shell(name) && word.contains('s'),
            }
        } else if let Some(option) = word.strip_prefix("--") {
            match option {
                "help" | "version" => return Source::Nothing,
                "command" | "eval" | "print" => return text(rest.next()),
                "conditions"
                | "env-file"
                | "experimental-loader"
                | "import"
                | "init-command"
                | "init-file"
                | "loader"
                | "rcfile"
                | "require" => {
                    if let Some(script) = rest.next().filter(|value| value.contains(FILE)) {
                        return Source::Script(script);
                    }
                }
                option if option.starts_with("eval=") || option.starts_with("command=") => {
                    return Source::Text;
                }
                _ => {}
            }
        } else if reads {
            return Source::Input;
        } else {
            return Source::Script(word);
        }
    }
    Source::Input
}

/// The source that a word of short options names, if it names one. Their values are passed.
fn short<'a>(
    options: &'a str,
    letters: &Letters,
    rest: &mut impl Iterator<Item = &'a str>,
) -> Option<Source<'a>> {
    for (at, letter) in options.char_indices() {
        let value = Some(&options[at + letter.len_utf8()..]).filter(|value| !value.is_empty());
        if letters.text.contains(letter) {
            return Some(match value {
                Some(_) => Source::Text,
                None => text(rest.next()),
            });
        }
        if letters.script.contains(letter) {
            let script = value.or_else(|| rest.next());
            return Some(script.map_or(Source::Input, Source::Script));
        }
        if letters.valued.contains(letter) {
            let value = value.or_else(|| rest.next());
            // The program of an option that was computed runs too.
            return value.filter(|value| value.contains(FILE)).map(Source::Script);
        }
        if letters.attached.contains(letter) {
            return None;
        }
    }
    None
}

/// Without a text the program is given one later, as by `xargs`.
fn text(text: Option<&str>) -> Source<'static> {
    match text {
        Some(_) => Source::Text,
        None => Source::Input,
    }
}

/// The source of a program that runs later what it reads now; `file` is the option that names a script.
fn of_queue<'a>(arguments: &'a [String], file: &str) -> Source<'a> {
    let mut words = arguments.iter().map(String::as_str);
    let lists = |word: &str| matches!(word, "-l" | "-r" | "-d" | "-e");
    if arguments.iter().any(|word| lists(word)) {
        return Source::Nothing;
    }
    match file {
        "" => match words.find(|word| !word.starts_with('-') || *word == "-") {
            Some(script) if !is_standard_input(script) => Source::Script(script),
            _ => Source::Input,
        },
        _ => match words.any(|word| word == "-f") {
            true => words.next().map_or(Source::Input, Source::Script),
            false => Source::Input,
        },
    }
}

fn letters(name: &str) -> Letters {
    let (text, script, valued, attached) = match name {
        "bun" | "node" => ("ep", "", "rC", ""),
        "lua" => ("e", "", "l", ""),
        "osascript" => ("e", "", "l", "s"),
        "perl" => ("eE", "", "I", "CDFMVdimx"),
        "php" => ("BERr", "Ff", "Scdtz", ""),
        "python" => ("c", "m", "QWX", ""),
        "ruby" => ("e", "", "CEIr", "FKTWix"),
        // All others are shells.
        _ => ("c", "", "CDOo", ""),
    };
    Letters {
        text,
        script,
        valued,
        attached,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> (String, String) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        (line.to_owned(), format!("{:?}", source(&words[0], &words[1..])))
    }

    #[test]
    fn only_a_text_or_a_script_keeps_an_interpreter_from_its_input() {
        for line in [
            "sh",
            "bash -e",
            "bash -euo pipefail",
            "sh -x",
            "bash -s x",
            "bash -xs x",
            "bash -",
            "bash +o posix",
            "bash --login",
            "bash -O extglob",
            "bash -c",
            "python3 -u",
            "python3 -W ignore",
            "python3 -Werror",
            "perl -w",
            "perl -Mfeature",
            "perl -I lib",
            "ruby -rset",
            "ruby -r set",
            "node -i",
            "node -r esm",
            "node --require esm",
            "php -d a=b",
            "bash /dev/stdin",
            "python3 /dev/fd/0",
            "at now",
            "crontab -",
            "bash --rcfile x",
            "python3 -c",
        ] {
            assert_eq!(of(line), (line.to_owned(), "Input".to_owned()));
        }
        for line in [
            "sh -c x",
            "bash -lc x",
            "bash -euc x",
            "python3 -c x",
            "python3 -Ic x",
            "perl -e x",
            "perl -ne x",
            "perl -lane x",
            "perl -i.bak -pe x",
            "perl -Mstrict -ex",
            "ruby -ne x",
            "node -e x",
            "node -pe x",
            "node --eval x",
            "php -r x",
            "fish --command x",
            "fish --command=x",
        ] {
            assert_eq!(of(line), (line.to_owned(), "Text".to_owned()));
        }
        for line in [
            "sh y",
            "bash -e y",
            "bash -euo pipefail y",
            "python3 -u y",
            "python3 -m y",
            "python3 -my",
            "node --test-only y",
            "perl -w y",
            "php -f y",
            "at -f y now",
            "crontab y",
            "bash -- y",
        ] {
            let script = format!("Script({:?})", "y");
            assert_eq!(of(line), (line.to_owned(), script));
        }
        for line in ["node --version", "bash --help", "crontab -l"] {
            assert_eq!(of(line), (line.to_owned(), "Nothing".to_owned()));
        }
    }
}
