//! Owns the test that Schemathesis finds nothing: it makes requests of the contract, right ones and wrong ones, and holds the answers
//! against it. `make fuzz` lets it go on with requests made up at random.

use std::{env, process::Command};

use crate::support::{daemon::TestDaemon, programs::repository};

/// The seed of a run that is asked for none: every run tries the same.
const SEED: &str = "7";

#[tokio::test]
async fn schemathesis_finds_no_fault() {
    // The simulated agent: a fake CLI for each session would cost ten times as much.
    let nothing = tempfile::tempdir().unwrap();
    let daemon = TestDaemon::with_fake().claude_in(nothing.path()).start().await;
    let seconds = env::var("TRUNKLINE_FUZZ_SECONDS").ok();
    let seed = env::var("TRUNKLINE_FUZZ_SEED").unwrap_or_else(|_| SEED.to_owned());
    let mut command = Command::new(repository("target/schemathesis/bin/schemathesis"));
    command
        .current_dir(repository("."))
        .env("TRUNKLINE_URL", daemon.url())
        .env("TRUNKLINE_TOKEN", daemon.token())
        .env("TRUNKLINE_WORK", daemon.work_dir("w"))
        .args([
            "--config-file",
            "web-test/schemathesis.toml",
            "run",
            "openapi/trunkline.json",
        ])
        .args(["--no-color", "--seed", &seed, "--url", daemon.url()]);
    match seconds {
        Some(seconds) => command.args(["--phases", "fuzzing,stateful", "--max-time", &seconds]),
        None => command.args(["--phases", "examples,coverage"]),
    };
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}
