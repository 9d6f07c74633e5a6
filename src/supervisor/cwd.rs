//! Owns the check of a working directory. A missing directory is told apart from a missing CLI before anything starts.

use std::{
    collections::HashMap,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::unistd::{AccessFlags, access};
use tokio::sync::Semaphore;

use super::{Supervisor, SupervisorError};
use crate::{
    claude::{InvalidOption, LaunchOptions},
    session::directories_outside,
};

/// How many look at files at a time. On a disk that hangs so many threads wait, and no more.
const MOST_LOOKS: usize = 16;
/// How many of these look at the same directory: one that hangs leaves some to the others.
const MOST_LOOKS_AT_ONE: usize = 4;
/// How long a look may take before the directory counts as one that can't be read.
const PATIENCE: Duration = Duration::from_secs(10);

/// The looks at directories of sessions. They are taken where blocking is allowed: a disk may be slow, or hang.
#[derive(Debug)]
pub(super) struct Looks {
    free: Arc<Semaphore>,
    /// What each directory has that somebody looks at just now.
    free_of_each: Mutex<HashMap<PathBuf, Arc<Semaphore>>>,
    patience: Duration,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            free: Arc::new(Semaphore::new(MOST_LOOKS)),
            free_of_each: Mutex::default(),
            patience: PATIENCE,
        }
    }
}

impl Looks {
    /// What `work` finds out about `cwd`; `CwdUnreadable` when that takes too long.
    pub(super) async fn at<T: Send + 'static>(
        &self,
        cwd: &Path,
        work: impl FnOnce() -> Result<T, SupervisorError> + Send + 'static,
    ) -> Result<T, SupervisorError> {
        let free_of_it = self.free_of(cwd);
        let looked = async {
            // Neither is ever closed. Who waits for a directory that hangs takes nothing from the others.
            let look_at_it = free_of_it.acquire_owned().await.ok();
            let look = Arc::clone(&self.free).acquire_owned().await.ok();
            let work = move || {
                let _looks = (look_at_it, look);
                work()
            };
            tokio::task::spawn_blocking(work).await
        };
        match tokio::time::timeout(self.patience, looked).await {
            Ok(Ok(done)) => done,
            Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Ok(Err(_)) => Err(SupervisorError::ShuttingDown),
            Err(_) => Err(SupervisorError::CwdUnreadable {
                cwd: cwd.display().to_string(),
            }),
        }
    }

    fn free_of(&self, cwd: &Path) -> Arc<Semaphore> {
        let mut all = self.free_of_each.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, free| Arc::strong_count(free) > 1);
        let free = all
            .entry(cwd.to_owned())
            .or_insert_with(|| Arc::new(Semaphore::new(MOST_LOOKS_AT_ONE)));
        Arc::clone(free)
    }
}

impl Supervisor {
    /// Resolves a working directory and checks that sessions may work there.
    pub(super) async fn check_cwd(&self, cwd: &str) -> Result<PathBuf, SupervisorError> {
        let (text, roots) = (cwd.to_owned(), self.shared.settings.cwd_roots.clone());
        self.shared
            .looks
            .at(Path::new(cwd), move || check(&text, &roots))
            .await
    }
}

impl Supervisor {
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

    async fn directories_outside(
        &self,
        cwd: &str,
        directories: Vec<String>,
    ) -> Result<Vec<String>, SupervisorError> {
        let roots = self.shared.settings.cwd_roots.clone();
        if roots.is_empty() || directories.is_empty() {
            return Ok(Vec::new());
        }
        let from = PathBuf::from(cwd);
        self.shared
            .looks
            .at(Path::new(cwd), move || {
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

    /// Looks that hang until the test has seen that they hold up nobody but those who need what they look at.
    #[tokio::test]
    async fn looks_that_hang_hold_up_no_task_and_are_bounded() {
        let looks = Looks {
            free: Arc::new(Semaphore::new(2)),
            patience: Duration::from_millis(200),
            ..Looks::default()
        };
        let began = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let mut gates = Vec::new();
        let look = |gates: &mut Vec<std::sync::mpsc::Sender<()>>| {
            let (gate, opened) = std::sync::mpsc::channel();
            gates.push(gate);
            let began = Arc::clone(&began);
            move || {
                began.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                // A test that fails ends all the same.
                opened.recv_timeout(Duration::from_secs(20)).ok();
                Ok(())
            }
        };
        let [first, second, third] = [(); 3].map(|()| look(&mut gates));
        let dir = Path::new("/slow");
        // All of them and this test are on one thread.
        let (first, second, third) =
            tokio::join!(looks.at(dir, first), looks.at(dir, second), looks.at(dir, third));
        for looked in [first, second, third] {
            let error = looked.unwrap_err();
            assert!(
                matches!(&error, SupervisorError::CwdUnreadable { cwd } if cwd == "/slow"),
                "{error:?}"
            );
        }
        assert_eq!(began.load(std::sync::atomic::Ordering::SeqCst), 2);
        // Once the disk answers, all goes on.
        drop(gates);
        let patient = Looks {
            patience: Duration::from_secs(20),
            ..looks
        };
        patient.at(dir, || Ok(())).await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_that_hangs_leaves_looks_to_the_others() {
        let looks = Looks {
            patience: Duration::from_millis(50),
            ..Looks::default()
        };
        let mut gates = Vec::new();
        for _ in 0..MOST_LOOKS {
            let (gate, opened) = std::sync::mpsc::channel::<()>();
            gates.push(gate);
            let hanging = looks.at(Path::new("/slow"), move || {
                // A test that fails ends all the same.
                opened.recv_timeout(Duration::from_secs(20)).ok();
                Ok(())
            });
            assert!(matches!(
                hanging.await,
                Err(SupervisorError::CwdUnreadable { .. })
            ));
        }
        let patient = Looks {
            patience: Duration::from_secs(10),
            ..looks
        };
        patient.at(Path::new("/fast"), || Ok(())).await.unwrap();
        drop(gates);
    }
}
