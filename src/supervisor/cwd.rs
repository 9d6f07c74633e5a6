//! Owns the check of a working directory. A missing directory is told apart from a missing CLI before anything starts.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use nix::unistd::{AccessFlags, access};

use super::{
    FileBefore, Supervisor, SupervisorError,
    directories::{Directories, MOST_PREFIX_BYTES, complete},
    file_before,
};
use crate::{
    claude::{InvalidOption, LaunchOptions},
    domain::{ApprovalId, SessionId},
    session::{Unseen, directories_outside},
    store::SessionRow,
};

impl Supervisor {
    /// Resolves a working directory and checks that sessions may work there.
    pub(super) async fn check_cwd(&self, cwd: &str) -> Result<PathBuf, SupervisorError> {
        let (text, roots) = (cwd.to_owned(), self.shared.settings.cwd_roots.clone());
        self.look_at(Path::new(cwd), move || check(&text, &roots)).await
    }

    /// The directory that a filter means, as sessions have theirs: without links and slashes at its end. One that is gone, or that
    /// does not answer, is taken as it is written.
    pub async fn resolved_cwd(&self, cwd: String) -> String {
        let path = PathBuf::from(&cwd);
        if !path.is_absolute() || cwd.contains('\0') {
            return cwd;
        }
        // The components of a path have no slash at their end.
        let written: PathBuf = path.components().collect();
        let found = self.look_at(&path, {
            let path = path.clone();
            move || Ok(path.canonicalize().ok())
        });
        let found = found.await.ok().flatten().unwrap_or(written);
        found.into_os_string().into_string().unwrap_or(cwd)
    }

    /// The working directory of a session, resolved and checked.
    ///
    /// # Errors
    /// `CwdUnknown`, and those of a directory in which no session may work.
    pub(super) async fn cwd_of(&self, row: &SessionRow) -> Result<PathBuf, SupervisorError> {
        if row.cwd.is_empty() {
            return Err(SupervisorError::CwdUnknown);
        }
        self.check_cwd(&row.cwd).await
    }

    /// Says where a session works whose file was lost. The directory of any other session can be said again, and not changed.
    ///
    /// # Errors
    /// `SessionNotFound`, `CwdDiffers`, `Cwd…`, `Store`.
    pub async fn give_cwd(&self, id: SessionId, cwd: &str) -> Result<(), SupervisorError> {
        let cwd = self.check_cwd(cwd).await?.display().to_string();
        let session = self.handle(id).await?;
        let _exclusive = self.shared.registry.exclusive(id).await;
        let row = self.row(id).await?;
        if row.cwd == cwd {
            return Ok(());
        }
        if !row.cwd.is_empty() {
            return Err(SupervisorError::CwdDiffers);
        }
        // Its actor has the old one; the next who asks for it opens it anew.
        session.retire().await?;
        self.shared.registry.remove(id);
        Ok(self.shared.store.set_cwd(id, cwd).await?)
    }

    /// Runs `work`, which looks at a working directory; `CwdUnreadable` when that takes too long.
    pub(super) async fn look_at<T: Send + 'static>(
        &self,
        cwd: &Path,
        work: impl FnOnce() -> Result<T, SupervisorError> + Send + 'static,
    ) -> Result<T, SupervisorError> {
        match self.shared.looks.at(cwd, work).await {
            Ok(found) => found,
            Err(Unseen::Late) => Err(SupervisorError::CwdUnreadable {
                cwd: cwd.display().to_string(),
            }),
            Err(Unseen::Closing) => Err(SupervisorError::ShuttingDown),
        }
    }
}

impl Supervisor {
    /// The directories inside of the roots whose paths begin with this text, at most so many.
    ///
    /// # Errors
    /// `CwdNotAbsolute`, `CwdUnreadable`.
    pub async fn complete_directories(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Result<Directories, SupervisorError> {
        let is_path = prefix.is_empty() || prefix.starts_with('/');
        if !is_path || prefix.contains('\0') || prefix.len() > MOST_PREFIX_BYTES {
            return Err(SupervisorError::CwdNotAbsolute);
        }
        let settings = &self.shared.settings;
        let (text, roots) = (prefix.to_owned(), settings.cwd_roots.clone());
        let home = settings.daemon_env.iter().find(|(name, _)| name == "HOME");
        let home = home.map_or_else(|| "/".into(), |(_, home)| PathBuf::from(home));
        let parent = Path::new(prefix).parent().unwrap_or(Path::new("/"));
        self.look_at(parent, move || Ok(complete(&text, &roots, &home, limit)))
            .await
    }

    /// The content of the file that the tool of an open approval is to change.
    ///
    /// # Errors
    /// `SessionNotFound`, `ApprovalNotFound`, `ApprovalEnded`, `FileNotNamed`, `FileOutsideRoots`, `FileUnreadable`.
    pub async fn file_before(
        &self,
        session: SessionId,
        id: ApprovalId,
    ) -> Result<FileBefore, SupervisorError> {
        let cwd = PathBuf::from(self.row(session).await?.cwd);
        let row = self.approval(session, id).await?;
        if row.resolution.is_some() {
            return Err(SupervisorError::ApprovalEnded);
        }
        let path = file_before::named(&row.approval).ok_or(SupervisorError::FileNotNamed)?;
        let (from, roots) = (cwd.clone(), self.shared.settings.cwd_roots.clone());
        self.look_at(&cwd, move || file_before::read(path, &from, &roots))
            .await
    }

    /// Refuses options of a new session that add a directory outside of the roots.
    ///
    /// # Errors
    /// `InvalidOption`, `CwdUnreadable`.
    pub(super) async fn check_directories(
        &self,
        cwd: &str,
        options: &LaunchOptions,
    ) -> Result<(), SupervisorError> {
        for (field, directories) in options.added_directories() {
            let outside = self.directories_outside(cwd, directories).await?;
            if !outside.is_empty() {
                let reason = "adds a directory outside of sessions.cwd_roots".to_owned();
                return Err(SupervisorError::InvalidOption(InvalidOption { field, reason }));
            }
        }
        Ok(())
    }

    /// Takes the directories outside of the roots out of the inline settings of stored options. It comes before the choices of
    /// people shape them.
    ///
    /// # Errors
    /// `CwdUnreadable`.
    pub(super) async fn leave_out_of_settings(
        &self,
        cwd: &str,
        options: &mut LaunchOptions,
    ) -> Result<Vec<String>, SupervisorError> {
        let mut directories = options.directories_of_settings().unwrap_or_default();
        let outside = self.directories_outside(cwd, directories.clone()).await?;
        if !outside.is_empty() {
            directories.retain(|directory| !outside.contains(directory));
            options.set_directories_of_settings(&directories);
        }
        Ok(outside)
    }

    /// Takes the directories outside of the roots out of stored options: the roots may have changed since.
    ///
    /// # Errors
    /// `CwdUnreadable`.
    pub(super) async fn leave_out_directories(
        &self,
        cwd: &str,
        options: &mut LaunchOptions,
    ) -> Result<Vec<String>, SupervisorError> {
        let Some(directories) = &mut options.additional_directories else {
            return Ok(Vec::new());
        };
        let outside = self.directories_outside(cwd, directories.clone()).await?;
        directories.retain(|directory| !outside.contains(directory));
        Ok(outside)
    }

    /// Those of the directories that are outside of the roots.
    ///
    /// # Errors
    /// `CwdUnreadable`.
    pub(super) async fn directories_outside(
        &self,
        cwd: &str,
        directories: Vec<String>,
    ) -> Result<Vec<String>, SupervisorError> {
        let roots = self.shared.settings.cwd_roots.clone();
        if roots.is_empty() || directories.is_empty() {
            return Ok(Vec::new());
        }
        let from = PathBuf::from(cwd);
        self.look_at(Path::new(cwd), move || {
            Ok(directories_outside(&directories, &from, &roots))
        })
        .await
    }
}

/// Resolves a working directory and checks that sessions may work there.
fn check(cwd: &str, roots: &[PathBuf]) -> Result<PathBuf, SupervisorError> {
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
    // One that can be listed and not entered, or the other way round, is of no use to the CLI.
    if std::fs::read_dir(&resolved).is_err() || access(&resolved, AccessFlags::X_OK).is_err() {
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
