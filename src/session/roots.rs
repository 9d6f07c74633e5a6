//! Owns the bounds of directories that are added to a session: those of its working directory hold for them too.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::looks::Looks;
use crate::{
    claude::{ClientLine, answer, stdin},
    json,
};

/// The directories below which sessions may work; anywhere when there are none.
#[derive(Clone, Debug)]
pub struct Roots {
    roots: Arc<[PathBuf]>,
    looks: Arc<Looks>,
}

impl Roots {
    /// These roots, and how directories are looked at.
    pub fn new(roots: &[PathBuf], looks: Arc<Looks>) -> Self {
        let roots = roots.into();
        Self { roots, looks }
    }

    /// The first of these directories that is outside, or of which that cannot be found out in time. A relative one begins at
    /// `cwd`.
    pub(super) async fn outside(&self, cwd: &Path, directories: Vec<String>) -> Option<String> {
        if self.roots.is_empty() || directories.is_empty() {
            return None;
        }
        let (roots, from, all) = (Arc::clone(&self.roots), cwd.to_owned(), directories.clone());
        let look = move || outside(&all, &from, &roots).into_iter().next();
        match self.looks.at(cwd, look).await {
            Ok(found) => found,
            Err(_) => directories.into_iter().next(),
        }
    }

    /// The first directory outside that a client's line would add.
    pub(super) async fn outside_of_line(&self, cwd: &Path, line: &[u8]) -> Option<String> {
        if self.roots.is_empty() {
            return None;
        }
        let directories = match stdin::check_client_line(line) {
            Ok(ClientLine::ControlResponse {
                outcome: Ok(Some(payload)),
                ..
            }) => answer::added_directories(payload.get()),
            Ok(ClientLine::ControlRequest { subtype, request, .. }) => added_by_request(&subtype, request),
            _ => Vec::new(),
        };
        self.outside(cwd, directories).await
    }

    /// The first directory outside that a control request would add.
    pub(super) async fn outside_of_request(
        &self,
        cwd: &Path,
        subtype: &str,
        request: &[u8],
    ) -> Option<String> {
        let request = std::str::from_utf8(request).unwrap_or_default();
        self.outside(cwd, added_by_request(subtype, request)).await
    }
}

fn added_by_request(subtype: &str, request: &str) -> Vec<String> {
    match subtype {
        "register_repo_root" => json::member_text(request, "directory").into_iter().collect(),
        "apply_flag_settings" | "update_settings" => {
            json::member(request, "settings").map_or_else(Vec::new, answer::directories_of_settings)
        }
        _ => Vec::new(),
    }
}

/// The directories that are outside of all roots, or of which that cannot be found out. Blocks.
pub fn outside(directories: &[String], cwd: &Path, roots: &[PathBuf]) -> Vec<String> {
    if roots.is_empty() {
        return Vec::new();
    }
    let roots: Vec<PathBuf> = roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
    let is_inside = |directory: &String| {
        let is_plain = !directory.starts_with('~') && !directory.chars().any(char::is_control);
        is_plain
            && real(&cwd.join(directory)).is_some_and(|real| roots.iter().any(|root| real.starts_with(root)))
    };
    directories
        .iter()
        .filter(|directory| !is_inside(directory))
        .cloned()
        .collect()
}

/// The real path: the part that exists without links, and the rest as it is.
fn real(path: &Path) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        match existing.canonicalize() {
            Ok(mut real) => {
                real.extend(missing.into_iter().rev());
                return Some(real);
            }
            Err(error) if error.kind() == ErrorKind::NotFound && existing.symlink_metadata().is_err() => {
                missing.push(existing.file_name()?);
                existing = existing.parent()?;
            }
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// On a disk that hangs each line of a client would leave one more thread behind.
    #[tokio::test]
    async fn looks_at_added_directories_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        let looks = Arc::new(Looks::with_patience(Duration::from_millis(100)));
        let roots = Roots::new(std::slice::from_ref(&cwd), Arc::clone(&looks));
        let outside = async || roots.outside(&cwd, vec!["sub".to_owned()]).await;
        let hanging = looks.hang(&cwd).await;
        assert_eq!(outside().await.as_deref(), Some("sub"));
        // Once the disk answers, it is found inside.
        drop(hanging);
        let found = async { while outside().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(20), found)
            .await
            .unwrap();
    }

    #[test]
    fn a_directory_is_inside_by_where_it_leads() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("root");
        std::fs::create_dir_all(root.join("cwd/sub")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        std::os::unix::fs::symlink("/nothing-there", root.join("dead")).unwrap();
        let cwd = root.join("cwd");
        for (directory, inside) in [
            ("sub", true),
            (".", true),
            ("new/one", true),
            ("..", true),
            ("../..", false),
            ("/etc", false),
            ("../link", false),
            ("../link/x", false),
            ("../dead", false),
            ("new/../../../x", false),
            ("~", false),
        ] {
            let found = outside(&[directory.to_owned()], &cwd, std::slice::from_ref(&root));
            assert_eq!(found.is_empty(), inside, "{directory}");
        }
        assert!(outside(&["/etc".to_owned()], &cwd, &[]).is_empty());
    }
}
