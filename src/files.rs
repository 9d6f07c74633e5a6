//! Owns how the files of the data directory are opened: a file is a regular one, and no open waits for anybody. A FIFO in the
//! place of a file would hang whoever opens it, without a word.

use std::{
    fs::{self, File, FileType, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{self, OFlag},
    sys::{stat::Mode, statvfs::statvfs},
};

/// The thing in the place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {0}, not a file")]
pub struct NotAFile(&'static str);

/// The room that a folder's disk has left; `None` when that is not known.
pub fn free_bytes(dir: &Path) -> Option<u64> {
    let stat = statvfs(dir).ok()?;
    Some(stat.fragment_size().saturating_mul(stat.blocks_available()))
}

/// Opens a file with these options. A link is followed: where people may want the file elsewhere.
///
/// # Errors
/// Those of an open; [`NotAFile`] inside when it is something else.
pub fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    open_with(path, options, OFlag::empty())
}

/// As [`open`], for files that the program makes itself: a link is none of them.
///
/// # Errors
/// As [`open`].
pub fn open_own(path: &Path, options: &OpenOptions) -> io::Result<File> {
    open_with(path, options, OFlag::O_NOFOLLOW)
}

/// Opens a file to read it, by the way to it from a directory. No part of the way may be a link, so that a link that somebody
/// puts there meanwhile leads nowhere.
///
/// # Errors
/// As [`open`].
pub fn open_below(dir: &Path, way: &Path) -> io::Result<File> {
    let (Some(parents), Some(name)) = (way.parent(), way.file_name()) else {
        return Err(io::Error::other(NotAFile("a directory")));
    };
    let step = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut at = fcntl::open(dir, step, Mode::empty())?;
    for part in parents.components() {
        at = fcntl::openat(&at, part.as_os_str(), step, Mode::empty())?;
    }
    let last = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = File::from(fcntl::openat(&at, name, last, Mode::empty())?);
    match not_a_file(file.metadata()?.file_type()) {
        Some(error) => Err(error),
        None => Ok(file),
    }
}

fn open_with(path: &Path, options: &OpenOptions, flags: OFlag) -> io::Result<File> {
    let flags = flags | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = options.clone().custom_flags(flags.bits()).open(path);
    let file = opened.map_err(|error| {
        // The system's words are about devices and addresses.
        let found = if flags.contains(OFlag::O_NOFOLLOW) {
            path.symlink_metadata()
        } else {
            path.metadata()
        };
        found
            .ok()
            .and_then(|found| not_a_file(found.file_type()))
            .unwrap_or(error)
    })?;
    match not_a_file(file.metadata()?.file_type()) {
        Some(error) => Err(error),
        None => Ok(file),
    }
}

/// Whether a directory takes so many bytes more now.
pub fn has_room(dir: &Path, bytes: usize) -> bool {
    let path = dir.join(".room");
    let fill = || {
        let mut options = OpenOptions::new();
        open_own(&path, options.write(true).create(true).truncate(true).mode(0o600))?
            .write_all(&vec![0; bytes])
    };
    let is_taken = fill().is_ok();
    // A file that cannot be removed is overwritten the next time.
    let _ = fs::remove_file(&path);
    is_taken
}

/// Checks what is at a path that another library opens; nothing is fine too.
///
/// # Errors
/// [`NotAFile`] inside, or the path cannot be looked at.
pub fn check(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) => not_a_file(found.file_type()).map_or(Ok(()), Err),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether an open failed because something else is in the place of the file.
pub fn is_not_a_file(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<NotAFile>())
}

/// Whether the look itself failed, as for want of file descriptors, memory or rights.
///
/// Such an error says nothing of the file. A caller that asks whether something lives must then take it that it may.
pub fn is_inconclusive(error: &io::Error) -> bool {
    error.raw_os_error().map(Errno::from_raw).is_some_and(|number| {
        !matches!(
            number,
            Errno::ENOENT
                | Errno::EEXIST
                | Errno::ENOTDIR
                | Errno::EISDIR
                | Errno::ELOOP
                | Errno::ENAMETOOLONG
                | Errno::ENXIO
                | Errno::EINVAL
                | Errno::ESRCH
                | Errno::ECONNREFUSED
                | Errno::ECONNRESET
                | Errno::ENOTCONN
                | Errno::EPIPE
                | Errno::EPROTOTYPE
        )
    })
}

/// Whether there is certainly nothing at a path; what cannot be looked at may be there.
pub fn is_missing(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// All bytes of a file.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, OpenOptions::new().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All bytes of a file that has at most so many. For files that somebody else named: they may have any size.
///
/// # Errors
/// As [`open`]; `FileTooLarge`.
pub fn read_at_most(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open(path, OpenOptions::new().read(true))?;
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        let error = format!("it has more than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
    }
    Ok(bytes)
}

/// The text of a file.
///
/// # Errors
/// As [`open`]; what is no UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes a file that only its owner can read, and puts it in the place of what was there: a reader sees all of it or
/// nothing. `draft` is in the same folder.
///
/// # Errors
/// Those of writing and renaming.
pub fn replace(path: &Path, draft: &Path, bytes: &[u8]) -> io::Result<()> {
    write_draft(draft, bytes)?;
    fs::rename(draft, path)
}

/// As [`replace`]; when this returns, the new file is there also after a loss of power.
///
/// # Errors
/// Those of [`replace`], and of waiting for the disk.
pub fn replace_durably(path: &Path, draft: &Path, bytes: &[u8]) -> io::Result<()> {
    write_draft(draft, bytes)?.sync_all()?;
    fs::rename(draft, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn write_draft(draft: &Path, bytes: &[u8]) -> io::Result<File> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(draft)?;
    file.write_all(bytes)?;
    Ok(file)
}

fn not_a_file(found: FileType) -> Option<io::Error> {
    let what = match found {
        it if it.is_file() => return None,
        it if it.is_dir() => "a directory",
        it if it.is_symlink() => "a symbolic link",
        it if it.is_fifo() => "a FIFO",
        it if it.is_socket() => "a socket",
        _ => "a device",
    };
    Some(io::Error::new(io::ErrorKind::InvalidInput, NotAFile(what)))
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::{fs::symlink, net::UnixListener},
        path::PathBuf,
        sync::mpsc,
        time::Duration,
    };

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    /// The outcome of an open; one that waits fails the test.
    fn said(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> String {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(work()).ok());
        let said = receiver.recv_timeout(Duration::from_secs(20)).expect("it waits");
        said.map_or_else(|error| error.to_string(), |()| "opened".to_owned())
    }

    #[test]
    fn what_is_no_file_is_named_and_waits_for_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("fifo"), at("link-to-fifo")).unwrap();
        let way = |path: PathBuf, is_own: bool, is_write: bool| {
            said(move || {
                let mut options = OpenOptions::new();
                options.read(!is_write).write(is_write).create(is_write);
                if is_own {
                    open_own(&path, &options).map(drop)
                } else {
                    open(&path, &options).map(drop)
                }
            })
        };
        for (path, own, other) in [
            (at("fifo"), "it is a FIFO, not a file", "it is a FIFO, not a file"),
            (
                at("socket"),
                "it is a socket, not a file",
                "it is a socket, not a file",
            ),
            (
                at("directory"),
                "it is a directory, not a file",
                "it is a directory, not a file",
            ),
            (at("link"), "it is a symbolic link, not a file", "opened"),
            (
                at("link-to-fifo"),
                "it is a symbolic link, not a file",
                "it is a FIFO, not a file",
            ),
            (
                "/dev/null".into(),
                "it is a device, not a file",
                "it is a device, not a file",
            ),
            (at("file"), "opened", "opened"),
        ] {
            for is_write in [false, true] {
                assert_eq!(way(path.clone(), true, is_write), own, "{path:?} {is_write}");
                assert_eq!(way(path.clone(), false, is_write), other, "{path:?} {is_write}");
            }
        }
        let missing = read(&at("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(is_not_a_file(&read(&at("directory")).unwrap_err()) && !is_not_a_file(&missing));
    }

    #[test]
    fn a_file_takes_the_place_of_whatever_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let (path, draft) = (dir.path().join("it"), dir.path().join("it.new"));
        for at in [&path, &draft] {
            mkfifo(at, Mode::S_IRWXU).unwrap();
        }
        let (place, new) = (path.clone(), draft.clone());
        assert_eq!(said(move || replace(&place, &new, b"text")), "opened");
        assert_eq!(read_to_string(&path).unwrap(), "text");
        assert!(!draft.exists());
    }
}
