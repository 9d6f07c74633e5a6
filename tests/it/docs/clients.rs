//! Owns the programs of `docs/CLIENTS.md`, run as they stand there, with the simulated agent.
#![expect(
    clippy::unwrap_used,
    reason = "reads what the programs print, and fails by panicking"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{docs::daemon::Newcomer, support::pages::blocks};

const PAGE: &str = "docs/CLIENTS.md";
/// The default address, which the page names; a test listens elsewhere.
const ADDRESS: &str = "http://127.0.0.1:7433";
/// The words of the simulated agent at the end of a turn with a tool.
const END: &str = "pretended to run";

/// The one program of the page in this language.
fn program(language: &str) -> String {
    let mut found = blocks(PAGE, language);
    assert_eq!(found.len(), 1, "the page has one program in {language}");
    found.remove(0)
}

/// A product of `make clients`.
fn made(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("target/clients")
        .join(path);
    assert!(
        path.exists(),
        "{} is missing: `make clients` makes it",
        path.display()
    );
    path
}

#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    said
}

#[test]
fn the_program_in_curl_decides_and_reads_a_result() {
    let newcomer = Newcomer::start();
    let script = program("sh").replace(ADDRESS, &newcomer.url);
    let said = output(newcomer.command("bash").args(["-ec", &script]));
    let (state, result) = said.trim().split_once('\n').unwrap();
    assert_eq!(state, "allowed");
    assert!(result.contains("And hello!"), "{said}");
    newcomer.stop();
}

#[test]
fn the_program_on_a_websocket_decides_and_reads_to_the_end() {
    let newcomer = Newcomer::start();
    let script = program("js");
    let mut node = newcomer.command("node");
    node.env("TL", &newcomer.url)
        .args(["--experimental-websocket", "--input-type=module", "-e", &script]);
    let said = output(&mut node);
    assert!(said.contains(END), "{said}");
    newcomer.stop();
}

/// The page and the README of the package show one program, which is run where the packed client is installed.
#[test]
fn the_first_program_in_typescript_decides_and_reads_to_the_end() {
    let program = program("ts");
    assert_eq!(
        blocks("clients/typescript/README.md", "ts"),
        std::slice::from_ref(&program)
    );
    let first = made("typescript/first.mjs");
    assert_eq!(
        fs::read_to_string(&first).unwrap(),
        program,
        "`make clients` is behind"
    );
    assert!(program.lines().count() <= 20);
    let newcomer = Newcomer::start();
    let said = output(newcomer.command("node").arg(first));
    assert!(said.contains("it asks for Bash") && said.contains(END), "{said}");
    newcomer.stop();
}

#[test]
fn the_first_program_in_python_decides_and_reads_to_the_end() {
    let program = program("python");
    assert_eq!(
        blocks("clients/python/README.md", "python"),
        std::slice::from_ref(&program)
    );
    assert!(program.lines().count() <= 20);
    let python = made("python/bin/python");
    let newcomer = Newcomer::start();
    let said = output(newcomer.command(python.to_str().unwrap()).args(["-c", &program]));
    assert!(said.contains("it asks for Bash") && said.contains(END), "{said}");
    newcomer.stop();
}

#[test]
fn the_program_with_the_official_sdk_is_answered_through_the_stand_in() {
    let newcomer = Newcomer::start();
    let link = blocks(PAGE, "console").remove(0);
    output(
        newcomer
            .command("bash")
            .args(["-ec", link.trim_start_matches("$ ")]),
    );
    // Node looks for the package from here.
    let mut node = newcomer.command("node");
    node.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("web-test"))
        .args(["--input-type=module", "-e", &program("javascript")]);
    let said = output(&mut node);
    assert!(said.contains(END), "{said}");
    let sessions = output(newcomer.command("trunkline").args(["list", "--json"]));
    assert!(sessions.contains("\"stopped\""), "{sessions}");
    newcomer.stop();
}

#[test]
fn the_program_with_the_official_browser_sdk_decides_and_reads_to_the_end() {
    let newcomer = Newcomer::start();
    let token = output(
        newcomer
            .command("sh")
            .args(["-c", "cat ~/.local/state/trunkline/token"]),
    );
    let id = output(newcomer.command("bash").args([
        "-c",
        "trunkline new --json | grep -o '\"id\": *\"[^\"]*' | head -n 1 | tr -d ' ' | cut -d '\"' -f 4",
    ]));
    let base = newcomer.url.replace("http", "ws");
    let url = format!("{base}/v1/sessions/{}/ws?protocol=ndjson", id.trim());
    let daemon = serde_json::json!({ "url": url, "token": token.trim() });
    let script = format!("globalThis.daemon = {daemon};\n{}", program("mjs"));
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("web-test");
    // Node looks for the package from here.
    let mut node = newcomer.command("node");
    node.current_dir(dir)
        .args(["--experimental-websocket", "--input-type=module", "-e", &script]);
    let said = output(&mut node);
    assert!(said.contains(END), "{said}");
    newcomer.stop();
}
