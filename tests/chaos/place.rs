//! Owns the place that the test runs in: namespaces of its own, so that it may mount a disk of any size, and so that nothing of
//! it is left on the machine however it ends.

use std::{os::unix::process::CommandExt as _, process::Command};

/// Set inside.
const INSIDE: &str = "TRUNKLINE_CHAOS_INSIDE";

pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs this test once more, inside.
///
/// # Panics
/// When it fails there, and when this machine allows no such place: the test never passes by doing nothing.
#[expect(clippy::disallowed_methods, reason = "starts this test again")]
pub(crate) fn enter(test: &str) {
    let mut command = Command::new("unshare");
    if !nix::unistd::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let status = command
        .args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child"])
        // The shell is process 1 there, and reaps what lost its parent.
        .args(["sh", "-c", "\"$@\" & wait $!", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        // A signal to the test's terminal ends the whole of it.
        .process_group(0)
        .status()
        .expect("unshare is needed: Debian has it in the package util-linux");
    assert!(
        status.success(),
        "chaos failed ({status}); if nothing is said above, this machine allows no namespaces of mounts and processes"
    );
}
