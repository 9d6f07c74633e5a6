//! The commands that stand in the midst of a sentence: each of them is run as well.

use std::collections::BTreeSet;

use crate::{
    docs::{PAGES, daemon::Newcomer},
    support::pages::in_sentences,
};

/// Other files that speak of commands.
pub(crate) const OTHERS: [&str; 3] = [
    "config/trunkline.toml",
    "packaging/systemd/system/trunkline.service",
    "packaging/systemd/user/trunkline.service",
];

/// A tool is asked about.
const ASKED: &str = "trunkline send last 'Use a tool, please' > /dev/null
until trunkline approvals | grep -q Bash; do sleep 0.1; done";

/// The command, what is done before it, its exit code, and what it prints.
const COMMANDS: &[(&str, &str, i32, &str)] = &[
    ("trunkline", "", 7, "another daemon"),
    ("trunkline serve", "", 7, "another daemon"),
    ("trunkline --help", "", 0, "Commands:"),
    ("trunkline completions bash", "", 0, "complete -F _trunkline"),
    ("trunkline man", "", 0, ".TH trunkline"),
    ("trunkline doctor", "", 0, "answers"),
    ("trunkline rebuild", "", 7, "another daemon"),
    ("trunkline gc", "", 0, "compacted"),
    ("trunkline gc --dry-run", "", 0, "would be compacted"),
    ("trunkline config", "", 0, "server.listen"),
    (
        "trunkline new --wait",
        "exec < <(echo Hello)",
        0,
        "simulated agent",
    ),
    ("trunkline new --wait \"prompt\"", "", 0, "simulated agent"),
    ("trunkline ls", "", 0, "idle (simulated)"),
    ("trunkline status", "", 0, "http://127.0.0.1"),
    ("trunkline approvals", ASKED, 0, "echo"),
    ("trunkline approve last", "", 0, "allowed"),
    ("trunkline deny last", ASKED, 0, "denied"),
    ("trunkline model last", "", 0, "simulated"),
    ("trunkline mode last", "", 0, "default"),
    ("trunkline rules last", "", 0, "no rules"),
    (
        "trunkline options last effort=low max_budget_usd=20",
        "",
        0,
        "effort = low",
    ),
    (
        "trunkline rules --test Bash --input '{\"command\": \"git status\"}'",
        "",
        0,
        "no rule matches",
    ),
    ("trunkline stop last", "", 0, "stopped"),
    ("trunkline resume --all", "", 0, "(simulated)"),
    ("trunkline new --continue", "", 0, "going on with the session"),
    (
        "trunkline new --resume 0d2b1f0e-6c1f-4c3e-9a51-2f3b8c5d7e90",
        "",
        4,
        "conversation",
    ),
    ("trunkline open", "", 0, "/open#"),
    ("trunkline open --print", "", 0, "/open#"),
    ("trunkline open --qr", "", 5, "server.allowed_hosts"),
    ("trunkline logins", "", 0, "no browser is signed in"),
    ("trunkline logins revoke --all", "", 0, "revoked 0 logins"),
    ("trunkline restart", "", 0, "runs now"),
    ("trunkline upgrade", "", 0, "runs now"),
];

/// Commands that need a terminal or a program that speaks to them, which other tests give them, and forms with a word in capitals in the place of a name.
const ELSEWHERE: &[&str] = &[
    "trunkline attach",
    "trunkline claude",
    "trunkline keeper",
    "trunkline new --attach",
    "trunkline new --resume ID",
];

#[test]
fn every_command_in_a_sentence_works() {
    let stated: BTreeSet<String> = PAGES
        .iter()
        .chain(&OTHERS)
        .flat_map(|page| in_sentences(page, "trunkline"))
        .collect();
    let known: BTreeSet<String> = COMMANDS
        .iter()
        .map(|(command, ..)| *command)
        .chain(ELSEWHERE.iter().copied())
        .map(ToOwned::to_owned)
        .collect();
    assert_eq!(
        stated, known,
        "a command of the documents has no expectation, or the other way round"
    );
    let newcomer = Newcomer::start();
    for (command, before, code, fragment) in COMMANDS {
        let script = format!("{before}\n{command} 2>&1");
        let output = newcomer.command("bash").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(*code), "{command}\n{said}");
        assert!(
            said.contains(fragment),
            "{command} does not print {fragment:?}:\n{said}"
        );
    }
    let log = newcomer.stop();
    assert!(!log.contains("ERROR"), "{log}");
}
