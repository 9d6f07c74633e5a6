//! Owns the start of a program for the person at the screen, such as a browser: it lives on when this one ends.

use std::{
    ffi::OsStr,
    io,
    path::Path,
    process::{Child, Command, Stdio},
};

/// A program that was started for the person.
#[derive(Debug)]
pub struct Opened(Child);

impl Opened {
    /// Starts a program in a group of its own, so that Ctrl-C in the terminal ends this program alone. It has no part in the
    /// terminal's screen.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start<A: AsRef<OsStr>>(program: &Path, args: &[A]) -> io::Result<Self> {
        use std::os::unix::process::CommandExt as _;

        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that starts programs for the person"
        )]
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        command.spawn().map(Self)
    }

    /// Whether it has ended and says that it failed. Some openers end at once, others with the browser.
    pub fn has_failed(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(Some(status)) if !status.success())
    }
}
