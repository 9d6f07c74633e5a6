//! Owns the check of a working directory. A missing directory is told apart from a missing CLI before anything starts.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use super::SupervisorError;

/// Resolves a working directory and checks that sessions may work there.
pub(super) fn check(cwd: &str, roots: &[PathBuf]) -> Result<PathBuf, SupervisorError> {
    let path = Path::new(cwd);
    if !path.is_absolute() || cwd.contains('\0') {
        return Err(SupervisorError::CwdNotAbsolute);
    }
    let cwd = || cwd.to_owned();
    let resolved = path.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => SupervisorError::CwdMissing { cwd: cwd() },
        ErrorKind::NotADirectory => SupervisorError::CwdNotADirectory { cwd: cwd() },
        _ => SupervisorError::CwdUnreadable { cwd: cwd() },
    })?;
    if !resolved.is_dir() {
        return Err(SupervisorError::CwdNotADirectory { cwd: cwd() });
    }
    if std::fs::read_dir(&resolved).is_err() {
        return Err(SupervisorError::CwdUnreadable { cwd: cwd() });
    }
    let allowed = roots.is_empty()
        || roots.iter().any(|root| {
            let root = root.canonicalize();
            root.is_ok_and(|root| resolved.starts_with(root))
        });
    if !allowed {
        return Err(SupervisorError::CwdOutsideRoots {
            cwd: resolved.display().to_string(),
        });
    }
    match resolved.to_str() {
        Some(_) => Ok(resolved),
        None => Err(SupervisorError::CwdUnreadable { cwd: cwd() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        assert!(matches!(check("here", &[]), Err(SupervisorError::CwdNotAbsolute)));
        assert!(matches!(check("", &[]), Err(SupervisorError::CwdNotAbsolute)));
        let missing = text(&dir.path().join("nope"));
        assert!(matches!(
            check(&missing, &[]),
            Err(SupervisorError::CwdMissing { .. })
        ));
        assert!(matches!(
            check(&text(&file), &[]),
            Err(SupervisorError::CwdNotADirectory { .. })
        ));
        let below = text(&file.join("x"));
        assert!(matches!(
            check(&below, &[]),
            Err(SupervisorError::CwdNotADirectory { .. })
        ));
    }

    #[test]
    fn roots_hold_also_through_links() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let link = root.path().join("out");
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();
        let roots = [root.path().to_owned()];
        assert!(check(root.path().to_str().unwrap(), &roots).is_ok());
        let found = check(link.to_str().unwrap(), &roots);
        assert!(matches!(found, Err(SupervisorError::CwdOutsideRoots { .. })));
        let sibling = format!("{}-other", root.path().display());
        std::fs::create_dir(&sibling).unwrap();
        let found = check(&sibling, &roots);
        std::fs::remove_dir(&sibling).unwrap();
        assert!(matches!(found, Err(SupervisorError::CwdOutsideRoots { .. })));
    }
}
