//! Owns where the CLI's executable is and which versions of it are known to work.

use std::{
    ffi::OsString,
    fmt,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// The executable's name.
const NAME: &str = "claude";

/// The versions that Trunkline is tested with: the oldest and the newest.
pub const TESTED_VERSIONS: (Version, Version) = (Version::new(2, 1, 197), Version::new(2, 1, 332));

/// The executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is; absolute when what named it was.
    pub path: PathBuf,
    /// How it was found.
    pub how: How,
}

/// How the executable was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The configuration names it.
    Configured,
    /// The variable `CLAUDE_BIN` names it.
    Variable,
    /// It is on the search path.
    SearchPath,
    /// It is in one of the places where installers put it.
    UsualPlace,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configured => "named by the configuration",
            Self::Variable => "named by CLAUDE_BIN",
            Self::SearchPath => "found on PATH",
            Self::UsualPlace => "found in a usual place",
        })
    }
}

/// The executable was not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no executable `claude` was found in {} places", searched.len())]
pub struct NotFound {
    /// Where it was looked for, in this order.
    pub searched: Vec<PathBuf>,
}

/// Finds the executable: the configured path, `CLAUDE_BIN`, `PATH`, the usual places.
///
/// A path that is named and holds no executable file is an error: another version in its place would surprise. A named program
/// without a folder is one on `PATH`.
///
/// # Errors
/// Where it was looked for in vain.
pub fn find(configured: Option<&Path>, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Found, NotFound> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let named = configured
        .map(|path| (path.to_owned(), How::Configured))
        .or_else(|| set("CLAUDE_BIN").map(|path| (PathBuf::from(path), How::Variable)));
    let home = set("HOME").map(PathBuf::from);
    // An empty entry of PATH means the working directory, from which nothing is started.
    let search_path: Vec<PathBuf> = std::env::split_paths(&set("PATH").unwrap_or_default())
        .filter(|directory| directory.is_absolute())
        .collect();
    if let Some((path, how)) = named {
        let path = in_home(path, home.as_deref());
        let searched = if path.components().count() == 1 && path.is_relative() {
            search_path
                .iter()
                .map(|directory| directory.join(&path))
                .collect()
        } else {
            vec![path]
        };
        let found = searched.iter().find(|path| is_executable(path)).cloned();
        return found.map(|path| Found { path, how }).ok_or(NotFound { searched });
    }
    let on_path = search_path
        .iter()
        .map(|directory| (directory.join(NAME), How::SearchPath));
    let usual = usual_places(home.as_deref(), &set)
        .into_iter()
        .map(|path| (path, How::UsualPlace));
    let mut searched = Vec::new();
    for (path, how) in on_path.chain(usual) {
        if searched.contains(&path) {
            continue;
        }
        if is_executable(&path) {
            return Ok(Found { path, how });
        }
        searched.push(path);
    }
    Err(NotFound { searched })
}

/// Where installers put the executable.
fn usual_places(home: Option<&Path>, set: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(home) = home {
        places.extend(
            [
                ".local/bin",
                ".claude/local",
                ".claude/local/node_modules/.bin",
                ".npm-global/bin",
                ".npm/bin",
                ".volta/bin",
                ".bun/bin",
                ".yarn/bin",
                ".local/share/pnpm",
                ".asdf/shims",
                ".local/share/mise/shims",
            ]
            .map(|directory| home.join(directory).join(NAME)),
        );
    }
    for (variable, inside) in [
        ("NPM_CONFIG_PREFIX", "bin"),
        ("VOLTA_HOME", "bin"),
        ("PNPM_HOME", ""),
    ] {
        places.extend(set(variable).map(|prefix| PathBuf::from(prefix).join(inside).join(NAME)));
    }
    places.extend(
        [
            "/usr/local/bin",
            "/opt/homebrew/bin",
            "/usr/bin",
            "/home/linuxbrew/.linuxbrew/bin",
        ]
        .map(|directory| Path::new(directory).join(NAME)),
    );
    let nvm = set("NVM_DIR")
        .map(PathBuf::from)
        .or_else(|| home.map(|home| home.join(".nvm")));
    places.extend(
        nvm.map(|nvm| nvm.join("versions/node"))
            .map(|root| newest_first(&root))
            .unwrap_or_default(),
    );
    places
}

/// The executable of each version of Node under `root`, the newest version first.
fn newest_first(root: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<(Option<Version>, PathBuf)> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| {
            let version = entry
                .file_name()
                .to_str()
                .and_then(|name| parse_version(name.trim_start_matches('v')));
            (version, entry.path().join("bin").join(NAME))
        })
        .collect();
    versions.sort_by(|one, other| other.cmp(one));
    versions.into_iter().map(|(_, path)| path).collect()
}

fn in_home(path: PathBuf, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0 && !is_ours(&file))
}

/// Whether this is our own program, which stands in for the CLI under its name.
fn is_ours(file: &std::fs::Metadata) -> bool {
    let own = std::env::current_exe().and_then(std::fs::metadata);
    own.is_ok_and(|own| (own.dev(), own.ino()) == (file.dev(), file.ino()))
}

/// A version of the CLI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    /// A version by its numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// How the version stands to [`TESTED_VERSIONS`].
    pub fn tested(self) -> Tested {
        let (oldest, newest) = TESTED_VERSIONS;
        if self < oldest {
            Tested::Older
        } else if self > newest {
            Tested::Newer
        } else {
            Tested::Tested
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// How a version stands to the tested ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tested {
    /// Between the oldest and the newest tested one.
    Tested,
    /// Newer than any tested one: it should work; what is new passes through.
    Newer,
    /// Older than any tested one: it may lack what is needed.
    Older,
}

/// The version in what `claude --version` prints (`2.1.332 (Claude Code)`) or in `claude_code_version`. Anything after
/// the three numbers (`-beta.1`) is left out.
pub fn parse_version(printed: &str) -> Option<Version> {
    let first = printed.split_whitespace().next()?;
    let numbers = first.split(['-', '+']).next()?;
    let mut parts = numbers.split('.');
    let mut number = || {
        parts
            .next()
            .filter(|part| part.bytes().all(|b| b.is_ascii_digit()))?
            .parse()
            .ok()
    };
    let version = Version::new(number()?, number()?, number()?);
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    struct Machine {
        root: tempfile::TempDir,
        variables: HashMap<String, OsString>,
    }

    impl Machine {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let home = root.path().join("home");
            std::fs::create_dir(&home).unwrap();
            let variables = HashMap::from([("HOME".to_owned(), home.into_os_string())]);
            Self { root, variables }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.root.path().join(name)
        }

        fn set(&mut self, name: &str, value: impl Into<OsString>) {
            self.variables.insert(name.to_owned(), value.into());
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn find(&self, configured: Option<&Path>) -> Result<Found, NotFound> {
            find(configured, &|name| self.variables.get(name).cloned())
        }

        /// Looks in this machine's own places alone: a `claude` of the real one must not be found by chance.
        fn find_here(&self) -> Option<Found> {
            self.find(None)
                .ok()
                .filter(|found| found.path.starts_with(self.root.path()))
        }
    }

    #[test]
    fn the_named_place_comes_before_the_found_one() {
        let mut machine = Machine::new();
        let usual = machine.file("home/.local/bin/claude", 0o755);
        let on_path = machine.file("bin/claude", 0o755);
        let named = machine.file("named/agent", 0o755);
        let configured = machine.file("configured/agent", 0o700);
        assert_eq!(machine.find_here().unwrap().path, usual);
        machine.set("PATH", machine.path("bin"));
        let found = machine.find_here().unwrap();
        assert_eq!((found.path, found.how), (on_path, How::SearchPath));
        machine.set("CLAUDE_BIN", &named);
        let found = machine.find(None).unwrap();
        assert_eq!((found.path, found.how), (named, How::Variable));
        let found = machine.find(Some(&configured)).unwrap();
        assert_eq!((found.path, found.how), (configured, How::Configured));
    }

    /// A service manager's search path holds the system's directories alone.
    #[test]
    fn each_usual_place_is_looked_into() {
        for place in [
            "home/.local/bin",
            "home/.claude/local",
            "home/.npm-global/bin",
            "home/.volta/bin",
            "home/.bun/bin",
            "home/.nvm/versions/node/v20.1.0/bin",
        ] {
            let mut machine = Machine::new();
            machine.set("PATH", "/nowhere/bin:/nowhere/else");
            let binary = machine.file(&format!("{place}/claude"), 0o755);
            let found = machine.find_here();
            assert_eq!(
                found,
                Some(Found {
                    path: binary,
                    how: How::UsualPlace
                }),
                "{place}"
            );
        }
    }

    #[test]
    fn the_newest_node_comes_first() {
        let machine = Machine::new();
        for version in ["v9.9.9", "v22.1.0", "v20.19.0", "odd"] {
            machine.file(&format!("home/.nvm/versions/node/{version}/bin/claude"), 0o755);
        }
        let found = machine.find_here().unwrap().path;
        assert!(found.to_str().unwrap().contains("v22.1.0"), "{found:?}");
    }

    #[test]
    fn only_an_executable_file_counts() {
        let mut machine = Machine::new();
        let plain = machine.file("one/claude", 0o644);
        std::fs::create_dir_all(machine.path("two/claude")).unwrap();
        let good = machine.file("three/claude", 0o755);
        let search = [machine.path("one"), machine.path("two"), machine.path("three")];
        machine.set("PATH", std::env::join_paths(&search).unwrap());
        assert_eq!(machine.find_here().unwrap().path, good);
        for bad in [&plain, &machine.path("two/claude"), &machine.path("none")] {
            let error = machine.find(Some(bad)).unwrap_err();
            assert_eq!(&error.searched, std::slice::from_ref(bad));
        }
    }

    #[test]
    fn a_named_place_without_a_binary_is_not_replaced_by_another() {
        let mut machine = Machine::new();
        machine.file("home/.local/bin/claude", 0o755);
        machine.set("CLAUDE_BIN", machine.path("missing"));
        let error = machine.find(None).unwrap_err();
        assert_eq!(error.searched, [machine.path("missing")]);
        machine.set("CLAUDE_BIN", "");
        assert!(machine.find_here().is_some(), "an empty variable names nothing");
    }

    #[test]
    fn a_bare_name_is_looked_up_on_the_search_path() {
        let mut machine = Machine::new();
        let agent = machine.file("bin/agent", 0o755);
        machine.set("PATH", machine.path("bin"));
        let found = machine.find(Some(Path::new("agent"))).unwrap();
        assert_eq!((found.path, found.how), (agent.clone(), How::Configured));
        let error = machine.find(Some(Path::new("other"))).unwrap_err();
        assert_eq!(error.searched, [machine.path("bin/other")]);
        machine.set("CLAUDE_BIN", "agent");
        assert_eq!(machine.find(None).unwrap().path, agent);
    }

    #[test]
    fn the_home_directory_may_be_written_short() {
        let machine = Machine::new();
        let binary = machine.file("home/tools/agent", 0o755);
        let found = machine.find(Some(Path::new("~/tools/agent"))).unwrap();
        assert_eq!(found.path, binary);
    }

    #[test]
    fn nothing_is_started_from_the_working_directory() {
        let mut machine = Machine::new();
        machine.set("PATH", ":.:bin");
        if let Err(error) = machine.find(None) {
            assert!(error.searched.iter().all(|path| path.is_absolute()), "{error:?}");
        }
        let found = machine.find(None).map(|found| found.path);
        assert!(found.map_or(true, |path| path.is_absolute()));
    }

    #[test]
    fn versions_are_read_and_compared_by_number() {
        for (printed, version) in [
            ("2.1.332 (Claude Code)\n", Some(Version::new(2, 1, 332))),
            ("2.1.332", Some(Version::new(2, 1, 332))),
            ("3.0.0-beta.1 (Claude Code)", Some(Version::new(3, 0, 0))),
            ("9.9.9 (Claude Code)", Some(Version::new(9, 9, 9))),
            ("", None),
            ("claude", None),
            ("2.1", None),
            ("2.1.3.4", None),
            ("2.+1.3", None),
            ("99999999999.0.0", None),
        ] {
            assert_eq!(parse_version(printed), version, "{printed}");
        }
        assert!(Version::new(2, 1, 332) > Version::new(2, 1, 99));
        assert_eq!(Version::new(2, 1, 332).to_string(), "2.1.332");
    }

    #[test]
    fn the_tested_range_includes_both_ends() {
        for (version, tested) in [
            ("2.1.332", Tested::Tested),
            ("2.1.197", Tested::Tested),
            ("2.1.196", Tested::Older),
            ("2.1.333", Tested::Newer),
            ("9.9.9", Tested::Newer),
        ] {
            assert_eq!(parse_version(version).unwrap().tested(), tested, "{version}");
        }
    }
}
