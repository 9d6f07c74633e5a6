//! Owns the write lock of a daemon's database: held by another program, so that what the daemon writes has to wait.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// Takes the lock, says so, and keeps it until its input ends. A reader of the database does not notice.
const PROGRAM: &str = "import sqlite3, sys\n\
                       store = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                       store.execute('BEGIN IMMEDIATE')\n\
                       print('held', flush=True)\n\
                       sys.stdin.read()\n\
                       store.execute('ROLLBACK')";

/// The lock, until this is dropped. The daemon gives a write up after five seconds.
pub(crate) struct StoreLock(Child);

impl StoreLock {
    pub(crate) fn take(database: &Path) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", PROGRAM])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut said).unwrap();
        let lock = Self(child);
        assert_eq!(said, "held\n");
        lock
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}
