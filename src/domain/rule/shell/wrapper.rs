//! Owns the programs that run another one, and where that stands among their arguments.

use super::{
    HANDS_ON, KEEPS_TO_ITSELF, base,
    interpreter::{Source, is_interpreter, is_standard_input, reads_programs, source},
};

/// Programs that start another one in surroundings of its own, and give it their input. Their options are too many to know.
const STARTERS: [&str; 8] = [
    "docker", "kubectl", "nerdctl", "oc", "pipenv", "podman", "poetry", "uv",
];

/// Long options of wrappers whose value is the next word.
const VALUED: [&str; 17] = [
    "--adjustment",
    "--arg-file",
    "--chdir",
    "--class",
    "--classdata",
    "--delimiter",
    "--error",
    "--group",
    "--host",
    "--input",
    "--kill-after",
    "--max-args",
    "--max-procs",
    "--output",
    "--signal",
    "--unset",
    "--user",
];

/// Words before a program.
const BEFORE: [&str; 16] = [
    "if",
    "then",
    "elif",
    "else",
    "while",
    "until",
    "do",
    "!",
    "time",
    "coproc",
    "noglob",
    "nocorrect",
    "builtin",
    "command",
    "exec",
    "nohup",
];

/// Whether a word stands before a program.
pub(super) fn is_before(word: &str) -> bool {
    BEFORE.contains(&word)
}

pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.trim_end_matches('+');
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Whether a program runs another one, which stands behind it.
pub(super) fn is_wrapper(name: &str) -> bool {
    HANDS_ON.contains(&name) && !is_interpreter(name) && !runs_text(name)
}

/// Whether a wrapper adds arguments to its program.
pub(super) fn is_open_ended(word: &str) -> bool {
    matches!(base(word), "fd" | "parallel" | "xargs")
}

/// The place of the program that a wrapper runs: behind its options, their values, and operands of its own.
pub(super) fn program_of(words: &[String], wrapper: usize) -> usize {
    let name = base(&words[wrapper]);
    let has_operand = matches!(name, "chroot" | "flock" | "gosu" | "ssh");
    let mut at = wrapper + 1;
    while let Some(word) = words.get(at) {
        let is_number = !has_operand && word.starts_with(|c: char| c.is_ascii_digit());
        if is_valued(name, word) {
            at += 2;
        } else if word.starts_with('-') || is_assignment(word) || is_number {
            at += 1;
        } else {
            break;
        }
    }
    at + usize::from(has_operand)
}

fn is_valued(wrapper: &str, option: &str) -> bool {
    let letters = match wrapper {
        "chrt" => "DPT",
        "doas" => "Cu",
        "env" => "Cu",
        "exec" => "a",
        "flock" => "Ew",
        "ionice" => "cnp",
        "nice" | "watch" => "n",
        "nsenter" => "GSt",
        "parallel" => "IJNSajn",
        "runuser" | "su" => "Gcgsuw",
        "script" => "BEIOTcmo",
        "ssh" => "BDEFIJLOPQRSWbceilmopw",
        "stdbuf" => "eio",
        "strace" => "EOPSUXabeopsu",
        "sudo" => "CDRTUghprtu",
        "systemd-run" => "EHMpu",
        "time" => "fo",
        "timeout" => "ks",
        "unshare" => "GRSw",
        "xargs" => "EILPadns",
        _ => "",
    };
    let is_letter = |letter| letters.contains(letter);
    match option.strip_prefix('-') {
        Some(letter) if letter.len() == 1 => letter.chars().all(is_letter),
        _ => VALUED.contains(&option),
    }
}

/// Whether a command that is fed runs what it reads by way of the programs that it starts: an interpreter somewhere behind a
/// wrapper, the shell that some wrappers start by themselves, a program that is given its commands as a file.
pub(super) fn runs_its_input(words: &[String], places: &[usize]) -> bool {
    let [Some(first), Some(last)] = [places.first(), places.last()] else {
        return false;
    };
    let (name, arguments) = (base(&words[*first]), &words[first + 1..]);
    if matches!(name, "awk" | "gawk" | "gmake" | "make" | "mawk") {
        let is_file = |pair: &[String]| pair[0] == "-f" && is_standard_input(&pair[1]);
        return arguments.windows(2).any(is_file)
            || arguments.iter().any(|word| word == "-f-" || word == "--file=-");
    }
    let is_precise = matches!(name, "fd" | "find" | "parallel" | "watch" | "xargs");
    if !is_precise && (is_wrapper(name) || STARTERS.contains(&name)) {
        let is_leaf = |word: &&String| KEEPS_TO_ITSELF.contains(&base(word));
        let end = arguments.iter().take_while(|word| !is_leaf(word)).count();
        let reads = |at: usize| {
            reads_programs(&arguments[at]) && source(&arguments[at], &arguments[at + 1..]) == Source::Input
        };
        if (0..end).any(reads) {
            return true;
        }
    }
    let without_command = |words: &[String]| !words.iter().any(|word| word == "-c" || word == "--command");
    if places
        .iter()
        .any(|at| base(&words[*at]) == "su" && without_command(&words[*at..]))
    {
        return true;
    }
    let (name, arguments) = (base(&words[*last]), &words[last + 1..]);
    let has = |options: &[&str]| arguments.iter().any(|word| options.contains(&word.as_str()));
    let is_alone = program_of(words, *last) >= words.len();
    match name {
        "doas" | "sudo" if is_alone && has(&["-i", "-s", "--login", "--shell"]) => true,
        "chroot" | "nsenter" | "parallel" | "ssh" | "unshare" => is_alone,
        _ => is_alone && is_wrapper(name) && words[..*last].iter().any(|word| is_open_ended(word)),
    }
}

/// Whether a word begins something that is no program.
fn runs_text(name: &str) -> bool {
    matches!(
        name,
        "eval"
            | "source"
            | "."
            | "trap"
            | "alias"
            | "for"
            | "case"
            | "select"
            | "function"
            | "hash"
            | "enable"
    )
}
