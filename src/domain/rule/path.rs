//! Owns the comparison of paths. A path leads somewhere; where, only the file system knows, and it is asked through a
//! [`Lookup`]. Prefixes are compared by whole components.

use std::path::{Component, Path, PathBuf};

/// Where an absolute path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// It exists; this is its real path, without links.
    To(PathBuf),
    /// There is nothing.
    Nowhere,
    /// The path cannot be looked at, or it is a link to nothing.
    Unknown,
}

/// Asks the file system.
pub type Lookup<'a> = &'a dyn Fn(&Path) -> Leads;

/// Without `.` and `..`, as text alone says; `None` for a relative path.
pub(super) fn lexical(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::Normal(_) => out.push(component),
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) => return None,
        }
    }
    out.is_absolute().then_some(out)
}

/// Whether a text has a part `..`, as a path that leads out of where it seems to be.
pub(super) fn climbs(text: &str) -> bool {
    text.split('/').any(|part| part == "..")
}

/// A text without the parts of it that are empty, `.` or `..`, as it would be read as a path. A `..` that leads out of a
/// relative path stays.
pub(super) fn resolved(text: &str) -> String {
    let is_absolute = text.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => drop(kept.pop()),
            ".." if is_absolute => {}
            part => kept.push(part),
        }
    }
    let root = if is_absolute { "/" } else { "" };
    format!("{root}{}", kept.join("/"))
}

/// The other readings of a text as a path: with its `..` resolved, and by where it leads from `cwd`.
pub(super) fn other_readings(text: &str, cwd: Option<&Path>) -> impl Iterator<Item = String> {
    let is_odd =
        text.contains("//") || text.ends_with('/') || text.split('/').any(|part| part == "." || part == "..");
    let plain = is_odd.then(|| resolved(text));
    let from_cwd = cwd
        .filter(|_| climbs(text) && !text.starts_with('/'))
        .and_then(|cwd| Some(resolved(&format!("{}/{text}", cwd.to_str()?))));
    plain.into_iter().chain(from_cwd)
}

/// The real path: the part that exists without links, and the rest as it is. `None` when that is not certain.
fn real(path: &Path, lookup: Lookup<'_>) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        match lookup(existing) {
            Leads::To(mut real) => {
                real.extend(missing.into_iter().rev());
                return Some(real);
            }
            // `..` after what is missing leads nobody knows where.
            Leads::Nowhere => {
                missing.push(existing.file_name()?);
                existing = existing.parent()?;
            }
            Leads::Unknown => return None,
        }
    }
}

/// Names that stand for the process that looks: for the CLI they lead elsewhere than for whoever asks here.
const OF_THE_LOOKER: [&str; 6] = [
    "/proc/self",
    "/proc/thread-self",
    "/dev/fd",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
];

/// Whether a path leads elsewhere for another process.
pub fn is_of_the_looker(path: &Path) -> bool {
    OF_THE_LOOKER.iter().any(|name| path.starts_with(name))
}

/// The path that a text means, and whether that is certain: a tilde, blanks around it or control characters may mean
/// something to who opens it.
fn meant(text: &str, cwd: Option<&Path>) -> Option<PathBuf> {
    let is_plain = !text.is_empty()
        && text.trim() == text
        && !text.starts_with('~')
        && !text.chars().any(char::is_control);
    let path = Path::new(text);
    let path = match (is_plain, cwd) {
        (false, _) => None,
        (true, _) if path.is_absolute() => Some(path.to_owned()),
        (true, Some(cwd)) => Some(cwd.join(path)),
        (true, None) => None,
    };
    path.filter(|path| lexical(path).is_some_and(|path| !is_of_the_looker(&path)))
}

fn absolute_prefix(prefix: &Path, cwd: Option<&Path>) -> Option<PathBuf> {
    let path = match cwd {
        Some(cwd) => cwd.join(prefix),
        None => prefix.to_owned(),
    };
    lexical(&path)
}

/// Whether it is certain that the text is a path at or below `prefix`: by its text and by where it leads, also when the
/// system resolves `..` after a link and not before. The prefix is taken at its word: a link in it that an agent may have
/// made changes nothing.
pub(super) fn is_below(text: &str, prefix: &Path, cwd: Option<&Path>, lookup: Lookup<'_>) -> bool {
    let below = || {
        let path = meant(text, cwd)?;
        let prefix = absolute_prefix(prefix, cwd)?;
        let plain = lexical(&path)?;
        let all = [real(&path, lookup)?, real(&plain, lookup)?, plain];
        Some(all.iter().all(|path| path.starts_with(&prefix)))
    };
    below().unwrap_or(false)
}

/// Whether it is certain that the text is a path at or below `prefix` for a process that works in `cwd`.
pub fn is_certainly_below(text: &str, prefix: &Path, cwd: &Path, lookup: Lookup<'_>) -> bool {
    is_below(text, prefix, Some(cwd), lookup)
}

/// Whether the text may be a path at or below `prefix`: by its text or by where it leads, or because that is not certain.
pub(super) fn may_be_below(text: &str, prefix: &Path, cwd: Option<&Path>, lookup: Lookup<'_>) -> bool {
    let outside = || {
        let path = meant(text, cwd)?;
        let prefix = absolute_prefix(prefix, cwd)?;
        let real_prefix = real(&prefix, lookup)?;
        let plain = lexical(&path)?;
        let all = [real(&path, lookup)?, real(&plain, lookup)?, plain];
        let is_outside = |path: &PathBuf| !path.starts_with(&prefix) && !path.starts_with(&real_prefix);
        Some(all.iter().all(is_outside))
    };
    !outside().unwrap_or(false)
}
