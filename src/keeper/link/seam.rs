//! Owns the place where a test can take a daemon's time away: it has connected to a keeper and has not said hello. Only builds for
//! tests have it.

use std::{path::Path, time::Duration};

/// Names a file. While that is there no thread goes on from here.
const VARIABLE: &str = "TRUNKLINE_PAUSE_BEFORE_HELLO";

#[expect(
    clippy::disallowed_methods,
    reason = "a daemon that gets no time is what is tested"
)]
pub(super) fn pause_before_hello() {
    let Some(file) = std::env::var_os(VARIABLE) else {
        return;
    };
    while Path::new(&file).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
}
