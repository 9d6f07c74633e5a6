//! Owns the identity file: how the next daemon finds a living keeper, and knows a stale file for what it is.

use std::{
    fmt, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::wire;
use crate::{
    domain::{RunId, SessionId},
    files,
    journal::is_locked,
    os,
};

/// Between two looks whether a keeper has ended.
const END_PAUSE: Duration = Duration::from_millis(20);

/// A keeper's record of itself, in a file that only its user can read.
#[derive(Clone, Serialize, Deserialize)]
pub struct Identity {
    /// Pid of the keeper.
    pub pid: i32,
    /// Its kernel start time, in clock ticks since boot: a pid is used again, the pair is not.
    pub start_time: u64,
    /// The boot that the two belong to.
    pub boot_id: String,
    /// The secret that admits a daemon.
    secret: String,
    /// Where it listens.
    pub socket: PathBuf,
    /// The session it keeps.
    pub session: SessionId,
    /// The run it keeps.
    pub run: RunId,
    /// The version of the program that runs as keeper.
    pub program_version: String,
    /// The folder that the file is in. A copy of the file, in a copy of the folder, tells of somebody else's keeper. Older keepers
    /// do not say.
    #[serde(default)]
    folder: Option<Place>,
    /// The newest version of the link's protocol that it speaks. Keepers of version 1 do not say.
    #[serde(default = "first_protocol")]
    pub protocol: u32,
}

/// A folder, whatever it is called: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place(u64, u64);

impl Place {
    fn of_folder(file: &Path) -> io::Result<Self> {
        let folder = file.parent().unwrap_or(file).metadata()?;
        Ok(Self(folder.dev(), folder.ino()))
    }
}

const fn first_protocol() -> u32 {
    1
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("pid", &self.pid)
            .field("session", &self.session)
            .field("run", &self.run)
            .field("program_version", &self.program_version)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// The identity of the calling process.
    pub(super) fn of_this_process(
        secret: String,
        socket: PathBuf,
        session: SessionId,
        run: RunId,
    ) -> io::Result<Self> {
        let pid = nix::unistd::getpid();
        Ok(Self {
            pid: pid.as_raw(),
            start_time: os::start_time(pid)?,
            boot_id: os::boot_id()?,
            secret,
            socket,
            session,
            run,
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            folder: None,
            protocol: wire::VERSION,
        })
    }

    /// Reads the identity file of a session's folder. `None` when there is no such file, or when it came with a copy of the
    /// folder: that keeper is another daemon's.
    ///
    /// # Errors
    /// The file cannot be read, or is not an identity, or it cannot be told whose keeper that is.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let Some(identity) = Self::read_any(path)? else {
            return Ok(None);
        };
        Ok((!identity.is_elsewhere(path)?).then_some(identity))
    }

    /// The keeper that an identity file tells of which came with a copy of a folder, if it lives.
    pub fn of_the_original(path: &Path) -> Option<Self> {
        let identity = Self::read_any(path).ok()??;
        // An answer that cannot be found is `None`.
        identity.is_elsewhere(path).ok()?.then_some(identity)
    }

    /// Whether the keeper lives, and keeps another folder than that of the file at `path`.
    fn is_elsewhere(&self, path: &Path) -> io::Result<bool> {
        if let Some(folder) = self.folder
            && Place::of_folder(path)? == folder
        {
            return Ok(false);
        }
        // The keeper of this folder holds the lock of its journal. The lock alone does not prove it: any writer of this folder
        // may hold it for a moment.
        Ok(self.lives()?
            && path
                .parent()
                .map_or(Ok(true), is_locked)
                .map(|is_locked| !is_locked)?)
    }

    fn read_any(path: &Path) -> io::Result<Option<Self>> {
        match files::read(path) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the file so that a reader sees all of it or nothing.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let placed = Self {
            folder: Some(Place::of_folder(path)?),
            ..self.clone()
        };
        files::replace(path, &path.with_extension("new"), &serde_json::to_vec(&placed)?)
    }

    /// Whether this very process still lives: same boot, same pid, same start time.
    ///
    /// # Errors
    /// It cannot be told, as for want of a file descriptor.
    pub fn lives(&self) -> io::Result<bool> {
        let pid = nix::unistd::Pid::from_raw(self.pid);
        if os::boot_id()? != self.boot_id {
            return Ok(false);
        }
        match os::start_time(pid) {
            Ok(time) => Ok(time == self.start_time && !os::is_zombie(pid)),
            Err(error) if files::is_inconclusive(&error) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// As [`Self::lives`]; what cannot be told may live.
    pub fn may_live(&self) -> bool {
        self.lives().unwrap_or(true)
    }

    /// Asks the keeper, by a signal, to stop its process and to end, and waits for that: whether it came in time.
    pub async fn end(&self, deadline: Duration) -> bool {
        let gone = async {
            while self.may_live() {
                tokio::time::sleep(END_PAUSE).await;
            }
        };
        if self.may_live() {
            // It may have ended.
            let _ = os::signal_same(self.process(), Signal::SIGTERM);
        }
        tokio::time::timeout(deadline, gone).await.is_ok()
    }

    /// Has the process go on if it was stopped, as by a SIGSTOP: it could not answer, nor end. One that runs looks whether its
    /// socket is in its place, and makes it again if it is not; older ones do not notice.
    pub fn wake(&self) {
        // It may have ended.
        let _ = os::signal_same(self.process(), Signal::SIGCONT);
    }

    /// The process, in the form that signals take.
    pub(super) fn process(&self) -> os::ProcessId {
        (nix::unistd::Pid::from_raw(self.pid), self.start_time)
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }
}

/// A new secret: 32 random bytes in hexadecimal.
pub(super) fn new_secret() -> io::Result<String> {
    use std::fmt::Write as _;

    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| io::Error::other("no random bytes"))?;
    let mut text = String::with_capacity(64);
    for byte in bytes {
        write!(text, "{byte:02x}").map_err(io::Error::other)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn identity() -> Identity {
        Identity::of_this_process(new_secret().unwrap(), "/s".into(), SessionId::new(), RunId::new()).unwrap()
    }

    #[test]
    fn the_file_is_private_and_comes_back_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keeper.json");
        let written = identity();
        written.write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = Identity::read(&path).unwrap().unwrap();
        assert_eq!(read.secret(), written.secret());
        assert!(read.may_live());
        assert!(!format!("{read:?}").contains(written.secret()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_copy_of_the_folder_has_no_keeper() {
        let folder = tempfile::tempdir().unwrap();
        let [original, copy] = ["a", "b"].map(|name| folder.path().join(name).join("keeper.json"));
        for path in [&original, &copy] {
            fs::create_dir(path.parent().unwrap()).unwrap();
        }
        let options = || crate::journal::WriterOptions {
            segment_bytes: 1024,
            ..crate::journal::WriterOptions::default()
        };
        let kept = |path: &Path| crate::journal::Writer::open(path.parent().unwrap(), options()).unwrap();
        let is_read = |path: &Path| {
            let read = Identity::read(path).unwrap().is_some();
            assert_eq!(
                Identity::of_the_original(path).is_some(),
                !read,
                "{}",
                path.display()
            );
            read
        };
        let written = identity();
        written.write(&original).unwrap();
        fs::copy(&original, &copy).unwrap();
        assert!(is_read(&original) && !is_read(&copy));

        // As keepers wrote it that do not say which folder they keep.
        let mut old: serde_json::Value = serde_json::from_slice(&fs::read(&original).unwrap()).unwrap();
        old.as_object_mut().unwrap().remove("folder").unwrap();
        for path in [&original, &copy] {
            fs::write(path, old.to_string()).unwrap();
        }
        let keeper = kept(&original);
        assert!(is_read(&original) && !is_read(&copy));
        drop(keeper);

        // One that is gone is the same for both: there is none.
        old["start_time"] = 1.into();
        fs::write(&copy, old.to_string()).unwrap();
        assert!(!Identity::read(&copy).unwrap().unwrap().may_live());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn another_start_time_or_boot_is_another_process() {
        let mut other = identity();
        other.start_time += 1;
        assert!(!other.may_live());
        let mut other = identity();
        other.boot_id = "before".to_owned();
        assert!(!other.may_live());
    }

    #[test]
    fn a_missing_file_is_no_error_and_rubbish_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keeper.json");
        assert!(Identity::read(&path).unwrap().is_none());
        fs::write(&path, "{").unwrap();
        assert!(Identity::read(&path).is_err());
    }
}
