//! Owns the table of all commands that the documents show and that are none of the program's own: each line says how it is run.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "asks the script that `make test` asks, and fails by panicking"
)]

use std::{collections::BTreeMap, path::Path, process::Command};

use crate::{
    docs::{PAGES, inline::OTHERS, read},
    support::pages::{in_sentences, typed},
};

/// The programs of those commands. The ones of the program itself, in sentences, are in `inline`.
const PROGRAMS: [&str; 10] = [
    "apt",
    "cargo",
    "claude",
    "docker",
    "loginctl",
    "make",
    "npm",
    "python3",
    "sudo",
    "systemctl",
];

/// How a command is run.
enum Runs {
    /// A test takes the line from its page: the file with it, its name, and the part of `.ci/lacks` that it needs.
    Test(&'static str, &'static str, Option<&'static str>),
    /// A check of `make package` takes the line from the README, where the part is.
    Package(&'static str, &'static str),
    /// It is a part of `make test`: this target.
    Suite(&'static str),
    /// Nothing runs it. It takes long, needs an account, or is not for this program; the text says which.
    Never(&'static str),
}
use Runs::{Never, Package, Suite, Test};

const TERMINAL: Runs = Test(
    "tests/it/docs/readme.rs",
    "attach_is_a_session_in_a_terminal",
    None,
);
const RUN: Runs = Test(
    "tests/it/service/commands.rs",
    "make_run_says_what_to_try_and_ends_with_ctrl_c",
    None,
);
const INSTALL: Runs = Test(
    "tests/it/service/commands.rs",
    "the_lines_of_an_installation_put_it_in_place_and_take_it_away",
    Some("namespaces"),
);
const HOME: Runs = Test(
    "tests/it/service/commands.rs",
    "an_installation_below_a_home_needs_no_sudo",
    None,
);
const APT: Runs = Test(
    "tests/it/service/commands.rs",
    "the_package_is_installed_and_removed_with_apt",
    Some("apt"),
);
const TARGETS: Runs = Test(
    "tests/it/service/commands.rs",
    "the_targets_that_write_files_write_them",
    None,
);
const SYSTEMD: Runs = Test(
    "tests/it/service/systemd.rs",
    "systemd_starts_the_units_and_a_restart_in_a_turn_keeps_its_processes",
    Some("systemd"),
);
const COMPOSE: Runs = Package("packaging/check-compose", "compose");
const CHAOS: Runs = Suite("test-rust");
const RELEASE: Runs = Never("builds a release");
const FIGURES: Runs = Never("measures a release build for minutes");
const ACCOUNT: Runs = Never("needs an account");
const OTHER: Runs = Never("is of another program, which a table compares");
const EXAMPLE: Runs = Never("is what an agent runs, in an example of rules");

const COMMANDS: &[(&str, Runs)] = &[
    ("make run", RUN),
    (
        r#"mkdir -p ~/bin && ln -s "$(command -v trunkline)" ~/bin/claude"#,
        Test(
            "tests/it/docs/clients.rs",
            "the_program_with_the_official_sdk_is_answered_through_the_stand_in",
            None,
        ),
    ),
    ("make run PROFILE=dev", RUN),
    ("make test", Suite("test")),
    ("make lint", Suite("lint")),
    ("make web", Suite("web")),
    ("make help", TARGETS),
    ("make openapi", TARGETS),
    ("make contract", Never("cuts the contract of a release")),
    ("make build", INSTALL),
    ("sudo make install", INSTALL),
    ("sudo make uninstall", INSTALL),
    ("make install", INSTALL),
    ("make uninstall", INSTALL),
    (r#"make install PREFIX="$HOME/.local""#, HOME),
    ("make package", APT),
    ("sudo apt install ./target/debian/trunkline_*.deb", APT),
    ("apt remove trunkline", APT),
    ("systemctl --user enable --now trunkline", SYSTEMD),
    ("systemctl --user restart trunkline", SYSTEMD),
    ("systemctl --user disable --now trunkline", SYSTEMD),
    ("sudo -u trunkline HOME=/var/lib/trunkline claude", SYSTEMD),
    (
        "TRUNKLINE_USER=$(id -u):$(id -g) docker compose up --build --detach",
        COMPOSE,
    ),
    ("docker compose exec trunkline claude", COMPOSE),
    (
        r#"docker compose exec trunkline trunkline new --attach "Hello""#,
        COMPOSE,
    ),
    (r#"trunkline new --attach "Use a tool, please""#, TERMINAL),
    ("trunkline attach last", TERMINAL),
    ("make chaos", CHAOS),
    ("make chaos SECONDS=3600", CHAOS),
    ("make chaos KILLS=1000", CHAOS),
    ("make chaos SEED=7", CHAOS),
    ("npm ci --ignore-scripts", Suite("$(WEB_TEST_READY)")),
    ("make clients", Suite("clients")),
    ("npm ci", Suite("clients")),
    ("npm pack", Suite("clients")),
    ("cargo nextest run NAME", Suite("test-rust")),
    ("cargo nextest run --test tidy", Suite("test-rust")),
    ("cargo test NAME", Suite("test-rust")),
    ("cargo insta review", Never("asks a person")),
    ("cargo install --path . --locked", RELEASE),
    (
        "cargo build --release && npm ci --ignore-scripts --prefix web-test",
        FIGURES,
    ),
    ("python3 bench/figures.py", FIGURES),
    ("python3 bench/figures.py warm", FIGURES),
    (
        "python3 bench/flood.py target/release/trunkline /path/to/another/trunkline",
        FIGURES,
    ),
    ("cargo build --release && python3 bench/recovery.py", FIGURES),
    ("cargo build --release && python3 bench/many.py", FIGURES),
    ("cargo build --release && python3 bench/rebuild.py", FIGURES),
    ("cargo build --release && python3 bench/upgrade.py", FIGURES),
    ("cargo build --release && python3 bench/stand_in.py", FIGURES),
    ("RECORDS=20000 python3 bench/recovery.py", FIGURES),
    ("make bench", FIGURES),
    ("node bench/console.mjs", FIGURES),
    ("ROUNDS=1 node bench/console.mjs list deltas", FIGURES),
    (
        "make web build && npm ci --ignore-scripts --prefix web-test",
        FIGURES,
    ),
    ("cargo bench --bench journal", FIGURES),
    (
        "cargo test --test it -- --ignored five_hundred --nocapture",
        FIGURES,
    ),
    (
        "loginctl enable-linger",
        Never("needs a login of a person on a machine with logind"),
    ),
    ("claude setup-token", ACCOUNT),
    ("claude --resume", ACCOUNT),
    (r#"claude "prompt""#, OTHER),
    (r#"claude -p "prompt""#, OTHER),
    ("claude --continue", OTHER),
    ("claude --resume ID", OTHER),
    ("claude --version", OTHER),
    ("claude mcp list", OTHER),
    ("python3 -c '… rm x …'", EXAMPLE),
    ("sudo rm", EXAMPLE),
];

/// Each command of the pages, with a page that shows it.
fn shown() -> BTreeMap<String, &'static str> {
    let mut all = BTreeMap::new();
    for page in PAGES.into_iter().chain(OTHERS) {
        for line in typed(page) {
            all.insert(line, page);
        }
        for program in PROGRAMS {
            for command in in_sentences(page, program) {
                // A name alone is no command.
                if command != program {
                    all.insert(command, page);
                }
            }
        }
    }
    all
}

#[test]
fn every_command_says_how_it_is_run() {
    let known: BTreeMap<String, &str> = COMMANDS
        .iter()
        .map(|(command, _)| ((*command).to_owned(), ""))
        .collect();
    assert_eq!(known.len(), COMMANDS.len(), "an entry is there twice");
    let shown = shown();
    let unknown: Vec<_> = shown
        .iter()
        .filter(|(line, _)| !known.contains_key(*line))
        .collect();
    assert!(
        unknown.is_empty(),
        "these have no entry in the table: {unknown:?}"
    );
    let gone: Vec<_> = known.keys().filter(|line| !shown.contains_key(*line)).collect();
    assert!(gone.is_empty(), "no page shows these: {gone:?}");
}

#[test]
fn what_is_said_to_run_a_command_is_there() {
    let makefile = read("Makefile");
    for (command, runs) in COMMANDS {
        let part = match runs {
            Test(file, test, part) => {
                assert!(read(file).contains(&format!("fn {test}(")), "{command}: {test}");
                *part
            }
            Package(check, part) => {
                assert!(makefile.contains(check), "{command}: {check}");
                Some(*part)
            }
            Suite(target) => {
                assert!(makefile.contains(&format!("\n{target}:")), "{command}: {target}");
                None
            }
            Never(reason) => {
                assert!(!reason.is_empty(), "{command}");
                None
            }
        };
        // Where the part is missing, `make test` says that the line is not run.
        let Some(part) = part else { continue };
        let told = lacking(part);
        let program = program(command);
        assert!(
            told.contains(program),
            "{command} is not run without {part}, which says: {told}"
        );
    }
}

/// The program of a command line, behind what is set for it.
fn program(command: &str) -> &str {
    let mut words = command.split(' ').filter(|word| !word.contains(['=', '$', ')']));
    match words.next().unwrap_or_default() {
        "sudo" if !command.starts_with("sudo -u") => words.next().unwrap_or_default(),
        program => program,
    }
}

/// The output of `make test` where a part is missing.
fn lacking(part: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/lacks");
    let told = sh(&[script.to_str().unwrap(), "--without", part]);
    assert!(!told.is_empty(), "{part}");
    told
}

fn sh(args: &[&str]) -> String {
    let output = Command::new("sh").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
