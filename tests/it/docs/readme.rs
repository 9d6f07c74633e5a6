//! The lines of the README, and of the page that goes on from it, run in their order in one shell, as a newcomer would, with the
//! simulated agent.

use crate::{
    docs::{daemon::Newcomer, read},
    support::pages::{blocks, command_of},
};

/// The default address, which the README's lines name; a test listens elsewhere.
const ADDRESS: &str = "http://127.0.0.1:7433";

/// The line between the output of two blocks.
const MARK: &str = "=== block ends with ";

/// curl's exit code when `--max-time` ends a stream that would go on.
const CURL_TIMED_OUT: &str = "28";

/// The output that each block must print, in order, and how its last command ends.
const BLOCKS: &[(&str, &[&str])] = &[
    // The command line.
    (
        "0",
        &[
            "simulated agent",
            "idle (simulated)",
            "From the shell",
            "Tell me more",
            "agent version",
            "ask: no rule matches",
            "$0.0",
            "stopped",
        ],
    ),
    // The helpers.
    ("0", &[]),
    // Create.
    ("0", &["/v1/sessions/"]),
    // Follow.
    (
        CURL_TIMED_OUT,
        &[
            r#"{"seq":1,"#,
            r#""type":"run_started""#,
            "Hello! What can you do?",
            r#""src":"cli""#,
            r#""type":"result""#,
            r#"{"type":"state","state":"idle"}"#,
        ],
    ),
    // Send and wait.
    (
        "0",
        &[r#""repeated":false"#, r#""cost_usd":0.0"#, r#""type":"result""#],
    ),
    // Conversation, turns, usage.
    (
        "0",
        &[
            r#""role":"user""#,
            "And what else?",
            r#""role":"assistant""#,
            r#""number":1"#,
            r#""number":2"#,
            r#""cost_usd":0.0"#,
            r#""simulated_turns":4"#,
        ],
    ),
    // Approve.
    ("0", &[r#""seq":"#, r#""state":"allowed""#]),
    // WebSocket.
    ("0", &["trunkline.snapshot", "client user", "cli result"]),
    // Configuration and doctor.
    ("0", &["server.listen", "data directory", "answers"]),
    // A rule.
    (
        "0",
        &[
            r#""id":"touch""#,
            r#""decision":"ask""#,
            r#""passed":[{"id":"touch""#,
            "id,session_id",
            ",allowed,",
            "rule:touch",
            "touch again.txt",
        ],
    ),
    // A hook.
    ("0", &["No shell in here."]),
    // Find, and export.
    ("0", &[r#""who":"call""#, "5"]),
    // Stop, resume, fork, delete.
    ("0", &[r#""state":"stopped""#, r#""state":"idle""#, "204"]),
];

#[test]
fn every_shell_line_does_what_the_readme_says() {
    let newcomer = Newcomer::start();
    let blocks = [blocks("README.md", "sh"), blocks("docs/CURL.md", "sh")].concat();
    assert_eq!(
        blocks.len(),
        BLOCKS.len(),
        "a block has no expectation, or the other way round"
    );
    let script: String = blocks
        .iter()
        .map(|block| format!("{}\necho \"{MARK}$?\"\n", block.replace(ADDRESS, &newcomer.url)))
        .collect();
    let output = newcomer.command("bash").args(["-c", &script]).output().unwrap();
    let (said, errors) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );

    let mut rest = said.as_str();
    for (number, (block, (code, fragments))) in blocks.iter().zip(BLOCKS).enumerate() {
        let (printed, after) = rest
            .split_once(MARK)
            .unwrap_or_else(|| panic!("block {number} did not end:\n{block}\n{rest}\n{errors}"));
        let (ended, after) = after.split_once('\n').unwrap_or((after, ""));
        assert_eq!(ended, *code, "block {number}:\n{block}\n{printed}\n{errors}");
        let mut unread = printed;
        for fragment in *fragments {
            let Some((_, after)) = unread.split_once(fragment) else {
                panic!("block {number} does not print {fragment} (in order):\n{block}\n{printed}\n{errors}");
            };
            unread = after;
        }
        rest = after;
    }
    let log = newcomer.stop();
    assert!(log.contains("SIMULATED"), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn attach_is_a_session_in_a_terminal() {
    let newcomer = Newcomer::start();
    // The text to await, and the text to type then. The last one leaves with Ctrl-D.
    let dialogs = [
        r#"[["says why", "y\n"], ["turn done", "\u0004"]]"#,
        r#"[["idle", "Hello again\n"], ["turn done", "\u0004"]]"#,
    ];
    let beginnings = [r#"trunkline new --attach "Use"#, "trunkline attach last"];
    let lines = beginnings.map(|beginning| command_of("README.md", beginning));
    for (line, dialog) in lines.iter().zip(dialogs) {
        let terminal = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/docs/terminal.py");
        let output = newcomer
            .command("python3")
            .args([terminal, dialog, line])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{line}: {:?}\n{said}", output.status);
        assert!(said.contains("simulated"), "{line}\n{said}");
    }
    let log = newcomer.stop();
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn the_picture_is_what_a_terminal_shows() {
    let picture = blocks("README.md", "text").remove(0);
    let screen = read("tests/it/console/snapshots/simulated_80x24_no_color_2_done.snap");
    let mut rest = screen.as_str();
    // The first line is what the person types in the shell.
    for line in picture.lines().skip(1) {
        let Some((_, after)) = rest.split_once(&format!("\n{line}")) else {
            panic!("the terminal does not show {line:?} (in order):\n{screen}");
        };
        rest = after;
    }
}
