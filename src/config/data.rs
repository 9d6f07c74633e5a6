//! Owns `[data]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Problem, base_dir, check_absolute};

/// Where files live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// Database, journals, token, lock.
    pub dir: PathBuf,
    /// Sockets of the keepers: a short path, as the system limits the length of a socket's name.
    pub runtime_dir: PathBuf,
}

/// Room for the socket's own name under the 108 bytes that a socket path may have.
const LONGEST_RUNTIME_DIR: usize = 60;

impl Data {
    pub(super) fn defaults(environment: &dyn Fn(&str) -> Option<String>) -> Self {
        let runtime = environment("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .map_or_else(
                || PathBuf::from(format!("/tmp/trunkline-{}", nix::unistd::getuid())),
                |dir| dir.join("trunkline"),
            );
        Self {
            dir: base_dir(environment, "XDG_STATE_HOME", ".local/state")
                .map(|dir| dir.join("trunkline"))
                .unwrap_or_default(),
            runtime_dir: runtime,
        }
    }

    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if self.dir.as_os_str().is_empty() {
            problems.push(Problem::new(
                "data.dir",
                "HOME is not set, so there is no default; give --data-dir or TRUNKLINE_DATA_DIR",
            ));
        } else {
            check_absolute(problems, "data.dir", &self.dir);
        }
        check_absolute(problems, "data.runtime_dir", &self.runtime_dir);
        if self.runtime_dir.as_os_str().len() > LONGEST_RUNTIME_DIR {
            problems.push(Problem::new(
                "data.runtime_dir",
                format!("must not be longer than {LONGEST_RUNTIME_DIR} bytes, as it holds sockets"),
            ));
        }
    }
}
