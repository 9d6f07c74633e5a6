//! Holds the rules' reading of commands against the shells themselves: what is allowed runs nothing else, and what runs a
//! denied program is denied.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use proptest::prelude::*;
use serde_json::json;
use trunkline::domain::{
    ApprovalKind, Clock, RuleSet,
    rule::{Asked, Input, Leads, Rules},
};

/// The shells that an agent may run commands with; those that are not installed are left out.
const SHELLS: [&str; 4] = ["bash", "dash", "zsh", "ksh"];

fn rules(action: &str, prefix: &[&str]) -> Rules {
    let rule = json!([{ "action": action, "input": { "command": { "command_prefix": prefix } } }]);
    Rules {
        session: Arc::new(RuleSet::new(serde_json::from_value(rule).unwrap()).unwrap()),
        config: Arc::default(),
    }
}

fn matches(rules: &Rules, line: &str) -> bool {
    let asked = Asked {
        kind: ApprovalKind::Tool,
        subject: "Bash".to_owned(),
        needs_person: false,
        input: Input::read(&json!({ "command": line }).to_string()),
        cwd: None,
        agent: None,
        mode: None,
        reason_type: None,
        has_safety_check: false,
    };
    rules
        .decide(&asked, Clock.now(), &|_| Leads::Unknown)
        .decided
        .is_some()
}

/// The result of running the line: the words of each program, and whether it made a file.
fn ran(shell: &str, line: &str) -> (Vec<Vec<String>>, bool) {
    let dir = tempfile::tempdir().unwrap();
    let (bin, work, log) = (
        dir.path().join("bin"),
        dir.path().join("work"),
        dir.path().join("log"),
    );
    fs::create_dir(&bin).unwrap();
    fs::create_dir(&work).unwrap();
    let program = format!(
        "#!/bin/sh\nall=$(basename \"$0\")\nfor word do all=\"$all<$word>\"; done\nprintf '%s\\n' \"$all\" >> {}\n",
        log.display()
    );
    for name in ["git", "rm", "x"] {
        let path = bin.join(name);
        fs::write(&path, &program).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", bin.display());
    // A line that waits for more, or asks for a terminal, is ended.
    Command::new("timeout")
        .args(["5", shell, "-c", line])
        .env_clear()
        .env("PATH", path)
        .env("HOME", &work)
        .current_dir(&work)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let logged = fs::read_to_string(&log).unwrap_or_default();
    let programs = logged
        .lines()
        .map(|line| {
            line.split(['<', '>'])
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        })
        .collect();
    (programs, fs::read_dir(&work).unwrap().next().is_some())
}

fn installed() -> Vec<&'static str> {
    let is_there =
        |shell: &&str| Path::new("/usr/bin").join(shell).exists() || Path::new("/bin").join(shell).exists();
    SHELLS.into_iter().filter(is_there).collect()
}

/// Lines that are mostly commands, with some of what shells give a meaning.
fn likely() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => Just("git status"),
        3 => Just(" "),
        2 => prop_oneof![Just(";"), Just(" && "), Just(" || "), Just(" | "), Just("\n")],
        2 => prop_oneof![Just(" 'a b'"), Just(" \"a;b\""), Just(" 'rm x'"), Just("'s'"), Just(" --x=1")],
        1 => prop_oneof![Just("rm x"), Just("x"), Just("\\"), Just("'"), Just("\""), Just("$x"), Just("#"), Just("&")],
    ];
    proptest::collection::vec(piece, 1..8).prop_map(|pieces| pieces.concat())
}

/// Lines made of everything. None can do harm: the only programs with names are ours, and no path is in them.
fn wild() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        5 => prop_oneof![Just("rm"), Just("rm x"), Just("r"), Just("m"), Just("git"), Just("x")],
        3 => Just(" "),
        4 => prop_oneof![
            Just(";"), Just("&"), Just("|"), Just("("), Just(")"), Just("{ "), Just("; }"), Just("\n"), Just("!")
        ],
        4 => prop_oneof![Just("'"), Just("\""), Just("\\"), Just("`"), Just("$("), Just("$"), Just("$@"), Just("${x}")],
        2 => prop_oneof![
            Just("env "), Just("eval "), Just("command "), Just("exec "), Just("x=1 "), Just("if "), Just("then "),
            Just("; fi"), Just("sh -c "), Just("xargs "), Just("time ")
        ],
        1 => prop_oneof![Just("*"), Just("?"), Just("[m]"), Just("#"), Just("<"), Just("{rm,x}"), Just("\\\n")],
    ];
    proptest::collection::vec(piece, 1..9).prop_map(|pieces| pieces.concat())
}

#[test]
fn the_shells_run_our_programs() {
    assert!(!installed().is_empty());
    for shell in installed() {
        let (programs, made_a_file) = ran(shell, "git status 'a b' && r\"\"m x > y");
        assert_eq!(
            programs,
            [vec!["git", "status", "a b"], vec!["rm", "x"]],
            "{shell}"
        );
        assert!(made_a_file);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_allowed_runs_nothing_else(line in likely()) {
        if matches(&rules("allow", &["git", "status"]), &line) {
            for shell in installed() {
                let (programs, made_a_file) = ran(shell, &line);
                let all = programs.iter().all(|words| words.starts_with(&["git".to_owned(), "status".to_owned()]));
                prop_assert!(all && !programs.is_empty() && !made_a_file, "{shell} {line:?}: {programs:?}");
            }
        }
    }

    #[test]
    fn what_runs_a_denied_program_is_denied(line in wild()) {
        if !matches(&rules("deny", &["rm"]), &line) {
            for shell in installed() {
                let (programs, _) = ran(shell, &line);
                prop_assert!(programs.iter().all(|words| words[0] != "rm"), "{shell} {line:?}: {programs:?}");
            }
        }
    }
}
