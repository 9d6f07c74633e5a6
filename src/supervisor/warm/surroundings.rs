//! Owns what the CLI reads around it when it starts and never again: instructions, settings, the state of the repository. A
//! process that read something else than a new one would is not given to anybody.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use jiff::{civil::Date, tz::TimeZone};

use crate::{
    domain::{Clock, Timestamp},
    files,
};

use super::super::cli::{FileStamp, stamp};

/// Files in the working directory and in those above it.
const NEAR_FILES: [&str; 5] = [
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    ".claude/settings.json",
    ".claude/settings.local.json",
];
/// Files of the user, in the CLI's own directory.
const USER_FILES: [&str; 2] = ["CLAUDE.md", "settings.json"];
/// Directories in `.claude` and in the CLI's own directory, whose entries count as well.
const DIRECTORIES: [&str; 5] = ["agents", "commands", "hooks", "rules", "skills"];
/// Files of the repository, which change with each commit and each checkout.
const GIT_FILES: [&str; 2] = ["HEAD", "logs/HEAD"];
/// Entries of a directory that are looked at.
const MOST_ENTRIES: usize = 256;

/// Most bytes of a `.git` that is a file.
const MOST_LINK_BYTES: usize = 8 * 1024;

/// The surroundings that a process would read if it started now.
#[derive(Debug, PartialEq)]
pub(super) struct Surroundings {
    files: BTreeMap<PathBuf, FileStamp>,
    /// The CLI tells the model the date.
    day: Option<Date>,
}

impl Surroundings {
    /// As they are now.
    pub(super) fn now(cwd: &Path, env: &[(String, String)]) -> Self {
        let mut found = Self {
            files: BTreeMap::new(),
            day: day_of(Clock.now()),
        };
        for dir in cwd.ancestors() {
            found.look(dir, &NEAR_FILES);
        }
        found.look(cwd, &[".mcp.json"]);
        found.look_into(&cwd.join(".claude"));
        let variable = |wanted: &str| {
            env.iter()
                .find(|(name, _)| name == wanted)
                .map(|(_, value)| value)
        };
        let own = variable("CLAUDE_CONFIG_DIR")
            .map(PathBuf::from)
            .or_else(|| variable("HOME").map(|home| Path::new(home).join(".claude")));
        if let Some(own) = own {
            found.look(&own, &USER_FILES);
            found.look_into(&own);
        }
        if let Some(git) = cwd
            .ancestors()
            .map(|dir| dir.join(".git"))
            .find(|git| git.exists())
        {
            found.look(&repository(&git), &GIT_FILES);
        }
        found
    }

    fn look(&mut self, dir: &Path, names: &[&str]) {
        for name in names {
            let path = dir.join(name);
            if let Some(stamp) = stamp(&path) {
                self.files.insert(path, Some(stamp));
            }
        }
    }

    fn look_into(&mut self, dir: &Path) {
        for name in DIRECTORIES {
            let Ok(entries) = std::fs::read_dir(dir.join(name)) else {
                continue;
            };
            for entry in entries.flatten().take(MOST_ENTRIES) {
                let path = entry.path();
                // A skill is a folder.
                let of_folder = path.join("SKILL.md");
                let stamp = stamp(&path).or_else(|| stamp(&of_folder));
                self.files.insert(path, stamp);
            }
        }
    }
}

/// Where the state of a working tree is: in `.git`, or where the file of that name says.
fn repository(git: &Path) -> PathBuf {
    let bytes = files::read_at_most(git, MOST_LINK_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    match text.strip_prefix("gitdir:") {
        Some(place) => git.parent().unwrap_or(git).join(place.trim()),
        None => git.to_owned(),
    }
}

fn day_of(at: Timestamp) -> Option<Date> {
    let at = jiff::Timestamp::from_microsecond(at.as_micros()).ok()?;
    Some(TimeZone::system().to_datetime(at).date())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn what_the_cli_reads_is_looked_at_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let (home, cwd) = (root.path().join("home"), root.path().join("up/app"));
        std::fs::create_dir_all(&cwd).unwrap();
        let env = [("HOME".to_owned(), home.display().to_string())];
        let mut before = Surroundings::now(&cwd, &env);
        for (number, path) in [
            cwd.join("CLAUDE.md"),
            root.path().join("up/CLAUDE.md"),
            cwd.join(".claude/settings.local.json"),
            cwd.join(".claude/agents/a.md"),
            cwd.join(".claude/skills/s/SKILL.md"),
            cwd.join(".mcp.json"),
            home.join(".claude/settings.json"),
            home.join(".claude/commands/c.md"),
            cwd.join(".git/HEAD"),
            cwd.join(".git/logs/HEAD"),
        ]
        .into_iter()
        .enumerate()
        {
            for text in ["one", "the other one"] {
                write(&path, text);
                let after = Surroundings::now(&cwd, &env);
                assert_ne!(after, before, "{number}: {}", path.display());
                before = after;
            }
        }
        for path in [
            cwd.join("src/main.rs"),
            home.join(".claude.json"),
            home.join(".claude/projects/p.jsonl"),
            cwd.join(".git/objects/o"),
        ] {
            write(&path, "x");
            assert_eq!(Surroundings::now(&cwd, &env), before, "{}", path.display());
        }
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let (cwd, mode) = (root.path().to_owned(), nix::sys::stat::Mode::S_IRWXU);
        for name in [".git", "CLAUDE.md", ".mcp.json"] {
            nix::unistd::mkfifo(&cwd.join(name), mode).unwrap();
        }
        let (sender, looked) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(Surroundings::now(&cwd, &[])).ok());
        looked
            .recv_timeout(std::time::Duration::from_secs(20))
            .expect("it waits");
    }

    #[test]
    fn the_state_of_a_linked_working_tree_is_where_its_file_says() {
        let root = tempfile::tempdir().unwrap();
        let cwd = root.path().join("tree");
        write(&cwd.join(".git"), "gitdir: ../main/.git/worktrees/tree\n");
        let head = root.path().join("main/.git/worktrees/tree/HEAD");
        write(&head, "ref: refs/heads/a\n");
        let before = Surroundings::now(&cwd, &[]);
        write(&head, "ref: refs/heads/other\n");
        assert_ne!(Surroundings::now(&cwd, &[]), before);
    }
}
