//! Owns the completion of directories: the directories inside of the allowed roots whose paths begin with a text.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Entries of a directory that are looked at; a directory with more is completed in part.
const MOST_ENTRIES: usize = 20_000;
/// The longest text that is completed, in bytes: no path is longer.
pub(super) const MOST_PREFIX_BYTES: usize = 4096;

/// Directories whose paths begin with a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directories {
    /// Their paths, as the text has them, in their order.
    pub paths: Vec<String>,
    /// Whether there are more.
    pub has_more: bool,
}

/// Completes a text. Nothing outside of the roots is told, also not through a link; an entry whose name begins with a dot
/// only when the text asks for the dot. Without roots every directory is inside. Blocks.
pub(super) fn complete(prefix: &str, roots: &[PathBuf], home: &Path, limit: usize) -> Directories {
    let real_roots: Vec<PathBuf> = roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
    let mut found = match (prefix.is_empty(), roots.is_empty()) {
        (true, true) => Directories {
            paths: home.to_str().map(str::to_owned).into_iter().collect(),
            has_more: false,
        },
        (true, false) => below_no_directory(prefix, &real_roots),
        (false, _) => {
            let mut found = entries(prefix, roots.is_empty(), &real_roots);
            // The way to a root leads through directories that are not told.
            let ways = below_no_directory(prefix, &real_roots);
            found.paths.extend(ways.paths);
            found
        }
    };
    found.paths.sort_unstable();
    found.paths.dedup();
    found.has_more |= found.paths.len() > limit;
    found.paths.truncate(limit);
    found
}

/// The roots whose paths begin with the text.
fn below_no_directory(prefix: &str, roots: &[PathBuf]) -> Directories {
    let paths = roots.iter().filter_map(|root| root.to_str());
    let paths = paths.filter(|root| root.starts_with(prefix));
    Directories {
        paths: paths.map(str::to_owned).collect(),
        has_more: false,
    }
}

/// The directories in the directory that the text names up to its last `/`.
fn entries(prefix: &str, is_free: bool, roots: &[PathBuf]) -> Directories {
    let mut found = Directories::default();
    let Some((parent, start)) = prefix.rsplit_once('/') else {
        return found;
    };
    let parent = format!("{parent}/");
    let is_inside = |real: &Path| is_free || roots.iter().any(|root| real.starts_with(root));
    let Some(real) = Path::new(&parent)
        .canonicalize()
        .ok()
        .filter(|real| is_inside(real))
    else {
        return found;
    };
    let Ok(listed) = fs::read_dir(&real) else {
        return found;
    };
    for (count, entry) in listed.enumerate() {
        if count == MOST_ENTRIES {
            found.has_more = true;
            break;
        }
        let Some((entry, name)) = entry.ok().and_then(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((entry, name))
        }) else {
            continue;
        };
        let is_hidden = name.starts_with('.') && !start.starts_with('.');
        if is_hidden || !name.starts_with(start) || name.chars().any(char::is_control) {
            continue;
        }
        let is_directory = match entry.file_type() {
            Ok(kind) if kind.is_dir() => true,
            Ok(kind) if kind.is_symlink() => {
                let target = entry.path().canonicalize().ok();
                target.is_some_and(|target| is_inside(&target) && target.is_dir())
            }
            _ => false,
        };
        if is_directory {
            found.paths.push(format!("{parent}{name}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_inside_of_the_roots_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let root = top.join("code");
        for name in [
            "code/shop",
            "code/site",
            "code/.git",
            "code/shop/src",
            "other/secret",
        ] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        fs::write(root.join("side"), "").unwrap();
        std::os::unix::fs::symlink(top.join("other"), root.join("sneaky")).unwrap();
        std::os::unix::fs::symlink(root.join("shop"), root.join("same")).unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let roots = [root.clone()];
        let complete = |prefix: &str, limit: usize| {
            let found = complete(prefix, &roots, Path::new("/home"), limit);
            let top = format!("{}/", text(&top));
            let paths = found.paths.into_iter().map(|path| path.replace(&top, ""));
            (paths.collect::<Vec<_>>(), found.has_more)
        };
        let of = |rest: &str| format!("{}/{rest}", text(&top));
        assert_eq!(
            complete(&of("code/s"), 9).0,
            ["code/same", "code/shop", "code/site"]
        );
        assert_eq!(
            complete(&of("code/s"), 2),
            (vec!["code/same".to_owned(), "code/shop".to_owned()], true)
        );
        assert_eq!(
            complete(&of("code/"), 9).0,
            ["code/same", "code/shop", "code/site"]
        );
        assert_eq!(complete(&of("code/."), 9).0, ["code/.git"]);
        assert_eq!(complete(&of("code/shop/"), 9).0, ["code/shop/src"]);
        assert_eq!(complete("", 9).0, ["code"]);
        assert_eq!(complete(&of("c"), 9).0, ["code"]);
        assert_eq!(complete(&of("code"), 9).0, ["code"]);
        for outside in ["o", "other/", "code/sneaky/", "code/../other/", "code/../o"] {
            assert_eq!(complete(&of(outside), 9).0, [""; 0], "{outside}");
        }
    }

    #[test]
    fn without_roots_every_directory_is_told() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("one")).unwrap();
        let prefix = format!("{}/o", dir.path().display());
        let found = complete(&prefix, &[], Path::new("/home/me"), 9);
        assert_eq!(found.paths, [format!("{}/one", dir.path().display())]);
        assert_eq!(complete("", &[], Path::new("/home/me"), 9).paths, ["/home/me"]);
    }
}
