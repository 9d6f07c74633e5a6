//! Owns where the CLI's executable is and which versions of it are known to work.

use std::{
    ffi::OsString,
    fmt,
    os::unix::fs::PermissionsExt,
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

/// Finds the executable: the configured path, `CLAUDE_BIN`, `PATH`, the usual places. A path that is named and holds no
/// executable file is an error: another version in its place would surprise.
///
/// # Errors
/// Where it was looked for in vain.
pub fn find(configured: Option<&Path>, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Found, NotFound> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let named = configured
        .map(|path| (path.to_owned(), How::Configured))
        .or_else(|| set("CLAUDE_BIN").map(|path| (PathBuf::from(path), How::Variable)));
    let home = set("HOME").map(PathBuf::from);
    if let Some((path, how)) = named {
        let path = in_home(path, home.as_deref());
        return if is_executable(&path) {
            Ok(Found { path, how })
        } else {
            Err(NotFound { searched: vec![path] })
        };
    }
    let search_path = set("PATH").unwrap_or_default();
    // An empty entry of PATH means the working directory, from which nothing is started.
    let on_path = std::env::split_paths(&search_path)
        .filter(|directory| directory.is_absolute())
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
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
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

/// The version in what `claude --version` prints (`2.1.332 (Claude Code)`) or in `claude_code_version`. What follows
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
