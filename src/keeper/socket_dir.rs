//! Owns the folder of the keepers' sockets: it is made again when it is gone, and it is used only if it is ours alone.
//!
//! The owner of a folder can put a socket of his own in a keeper's place, and would be told secrets and prompts.

use std::{
    fs::{self, DirBuilder, Metadata},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use nix::{
    fcntl::OFlag,
    unistd::{AccessFlags, access, geteuid},
};

/// Nobody but its owner can enter it.
const MODE: u32 = 0o700;

/// Why a folder is not used for sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOurs {
    /// It may lead elsewhere tomorrow.
    #[error(
        "it is a symbolic link: set data.runtime_dir (TRUNKLINE_DATA_RUNTIME_DIR) to a directory of this user"
    )]
    Link,
    /// It is a file, or something else.
    #[error(
        "it is no directory: set data.runtime_dir (TRUNKLINE_DATA_RUNTIME_DIR) to a directory of this user"
    )]
    NotADirectory,
    /// Its owner can put another socket in the place of a keeper's.
    #[error(
        "it belongs to another user (uid {uid}): set data.runtime_dir (TRUNKLINE_DATA_RUNTIME_DIR) to a directory of this user"
    )]
    Foreign {
        /// The owner.
        uid: u32,
    },
}

impl From<NotOurs> for io::Error {
    fn from(error: NotOurs) -> Self {
        Self::other(error)
    }
}

/// Makes the folder if it is not there, and makes sure that it is ours and that nobody else can enter it.
///
/// # Errors
/// [`NotOurs`] inside, or the system's.
pub fn prepare(dir: &Path) -> io::Result<()> {
    if examine(dir)?.is_none() {
        DirBuilder::new().recursive(true).mode(MODE).create(dir)?;
    }
    // The change reaches the folder that was looked at, whatever is put in its place meanwhile.
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(dir)?;
    let found = opened.metadata()?;
    check_owner(&found)?;
    if found.mode() & 0o777 != MODE {
        opened.set_permissions(fs::Permissions::from_mode(MODE))?;
    }
    Ok(access(dir, AccessFlags::W_OK | AccessFlags::X_OK)?)
}

/// Looks at the folder, and changes nothing. `false`: there is none, and it would be made.
///
/// # Errors
/// As [`prepare`].
pub fn check(dir: &Path) -> io::Result<bool> {
    if examine(dir)?.is_none() {
        return Ok(false);
    }
    access(dir, AccessFlags::W_OK | AccessFlags::X_OK)?;
    Ok(true)
}

fn examine(dir: &Path) -> io::Result<Option<Metadata>> {
    let found = match dir.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if found.is_symlink() {
        return Err(NotOurs::Link.into());
    }
    if !found.is_dir() {
        return Err(NotOurs::NotADirectory.into());
    }
    check_owner(&found)?;
    Ok(Some(found))
}

fn check_owner(found: &Metadata) -> Result<(), NotOurs> {
    if found.uid() == geteuid().as_raw() {
        Ok(())
    } else {
        Err(NotOurs::Foreign { uid: found.uid() })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn refused(dir: &Path) -> Option<NotOurs> {
        let error = prepare(dir).err()?;
        let found = check(dir).err().map(|error| error.to_string());
        assert_eq!(found, Some(error.to_string()), "{}", dir.display());
        error.get_ref()?.downcast_ref().copied()
    }

    #[test]
    fn a_folder_is_made_with_all_above_it_and_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a/b");
        for mode in [MODE, 0o777] {
            prepare(&place).unwrap();
            assert_eq!(place.metadata().unwrap().mode() & 0o777, MODE);
            fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
            assert!(check(&place).unwrap());
        }
        prepare(&place).unwrap();
        assert_eq!(place.metadata().unwrap().mode() & 0o777, MODE);
        assert!(!check(&dir.path().join("c")).unwrap());
    }

    #[test]
    fn what_may_be_of_somebody_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join("link"), dir.path().join("target"));
        fs::create_dir(&target).unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).unwrap();
        symlink(&target, &link).unwrap();
        assert_eq!(refused(&link), Some(NotOurs::Link));
        let mode = target.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode, 0o755, "the target of the link is as it was");
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(refused(&file), Some(NotOurs::NotADirectory));
        if geteuid().is_root() {
            let foreign = dir.path().join("foreign");
            fs::create_dir(&foreign).unwrap();
            fs::set_permissions(&foreign, fs::Permissions::from_mode(0o777)).unwrap();
            std::os::unix::fs::chown(&foreign, Some(65_534), None).unwrap();
            assert_eq!(refused(&foreign), Some(NotOurs::Foreign { uid: 65_534 }));
            let left = foreign.metadata().unwrap();
            assert_eq!((left.uid(), left.mode() & 0o777), (65_534, 0o777));
        }
    }
}
