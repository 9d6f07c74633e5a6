//! Owns damage that an act does on purpose, where a run asks for it: by it one sees that the test goes red.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{journal::is_segment, marks, pieces};

/// Names the damage.
const PLANT: &str = "TRUNKLINE_CHAOS_PLANT";

/// The thing that an act breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// With the database goes the file of a session.
    SessionFile,
    /// With the database goes the last file of a journal.
    LastRecords,
    /// A closed file of a journal goes, and nothing says so.
    UnnamedFile,
    /// A result is taken out as if it were a piece of a message.
    NamedResult,
    /// A change is in the file of the session, and a part of it is not in the database.
    HalfChange,
}

impl Damage {
    /// The one that the environment names.
    ///
    /// # Panics
    /// When there is none of this name.
    pub(crate) fn planted() -> Option<Self> {
        let name = std::env::var(PLANT).ok()?;
        Some(match name.as_str() {
            "session-file" => Self::SessionFile,
            "last-records" => Self::LastRecords,
            "unnamed-file" => Self::UnnamedFile,
            "named-result" => Self::NamedResult,
            "half-change" => Self::HalfChange,
            _ => panic!("{PLANT}={name} is nothing that an act can break"),
        })
    }

    /// Does it after a loss of the database, while no daemon runs.
    pub(crate) fn with_database(self, folder: &Path) -> bool {
        match self {
            Self::SessionFile => fs::remove_file(folder.join("session.json")).is_ok(),
            Self::LastRecords => {
                let last = segments(folder).pop();
                last.is_some_and(|last| fs::write(last, "").is_ok())
            }
            Self::UnnamedFile | Self::NamedResult | Self::HalfChange => false,
        }
    }

    /// Does it after a look at journals.
    pub(crate) fn with_collection(self, folder: &Path) -> bool {
        let segments = segments(folder);
        let [first, .., _] = segments.as_slice() else {
            return false;
        };
        match self {
            Self::UnnamedFile => fs::remove_file(first).is_ok(),
            Self::NamedResult => {
                let text = fs::read_to_string(first).unwrap();
                let is_result = |line: &&str| {
                    line.contains(r#""src":"cli","data":{"type":"result""#) && !pieces::is_piece(line)
                };
                let Some(line) = text.lines().find(is_result) else {
                    return false;
                };
                let seq = line.trim_start_matches(r#"{"seq":"#).split(',').next().unwrap();
                let span = format!(r#"{{"seq":{seq},"last_seq":{seq},"src":"compacted"}}"#);
                fs::write(first, text.replace(line, &span)).is_ok()
            }
            Self::SessionFile | Self::LastRecords | Self::HalfChange => false,
        }
    }

    /// Does it after a change was answered.
    #[expect(clippy::disallowed_methods, reason = "another program writes the database")]
    pub(crate) fn with_change(self, database: &Path, id: &str) -> bool {
        let script = format!(
            "import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=30) as db:
    db.execute(\"DELETE FROM session_labels WHERE session_id = ? AND key = '{}'\", (sys.argv[2],))",
            marks::NAME
        );
        self == Self::HalfChange
            && Command::new("python3")
                .args(["-c", &script])
                .arg(database)
                .arg(id)
                .status()
                .unwrap()
                .success()
    }
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut segments: Vec<_> = files
        .map(|file| file.path())
        .filter(|path| is_segment(path))
        .collect();
    segments.sort();
    segments
}
