//! Owns the sockets that the service manager opened for the daemon and passed to it.

use std::{
    fs,
    net::TcpListener,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
        unix::net::UnixListener,
    },
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::socket::{
        AddressFamily, SockType, SockaddrLike as _, SockaddrStorage, getsockname, getsockopt,
        sockopt::{AcceptConn, SockType as SockTypeOption},
    },
};

use super::{Addressee, Environment};

/// The first one; the others follow without a gap.
const FIRST: RawFd = 3;

/// More than anybody passes. It keeps a mistaken count from being believed.
const MOST: RawFd = 64;

/// A socket that listens.
#[derive(Debug)]
pub enum Passed {
    /// On an address of the network.
    Tcp(TcpListener),
    /// On a path.
    Unix(UnixListener),
}

/// Why what was passed cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The count makes no sense.
    #[error("LISTEN_FDS is {text:?}, which is no count of sockets")]
    Count {
        /// Its text.
        text: String,
    },
    /// There is nothing under the number.
    #[error("the passed socket {name} (file {fd}) is not open")]
    NotOpen {
        /// Its name in `LISTEN_FDNAMES`.
        name: String,
        /// Its number.
        fd: RawFd,
    },
    /// It is something else.
    #[error(
        "the passed file {name} (file {fd}) is {what}; it must be a TCP or Unix stream socket that listens"
    )]
    Unfit {
        /// Its name in `LISTEN_FDNAMES`.
        name: String,
        /// Its number.
        fd: RawFd,
        /// Its kind.
        what: &'static str,
    },
    /// The system refuses to say or to change something.
    #[error("the passed socket {name} (file {fd}) cannot be used")]
    System {
        /// Its name in `LISTEN_FDNAMES`.
        name: String,
        /// Its number.
        fd: RawFd,
        /// Why.
        #[source]
        source: Errno,
    },
}

/// The sockets that were passed to this process (`LISTEN_FDS`, `LISTEN_PID`, `LISTEN_FDNAMES`); none is the usual case. They are
/// closed in the programs that the daemon starts.
///
/// Call it once, before the process opens files of its own.
///
/// # Errors
/// See [`SocketError`].
pub fn passed(environment: Environment<'_>, us: Addressee) -> Result<Vec<Passed>, SocketError> {
    if !environment("LISTEN_PID").is_some_and(|pid| us.is_meant(&pid)) {
        // Left over from a parent that was meant.
        return Ok(Vec::new());
    }
    let text = environment("LISTEN_FDS").unwrap_or_default();
    let count: RawFd = match text.trim().parse() {
        Ok(count) if (0..=MOST).contains(&count) => count,
        _ => return Err(SocketError::Count { text }),
    };
    let names = environment("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':').filter(|name| !name.is_empty());
    (FIRST..FIRST + count)
        .map(|fd| take(fd, names.next().unwrap_or("without a name")))
        .collect()
}

pub(super) fn take(fd: RawFd, name: &str) -> Result<Passed, SocketError> {
    checked(open_file(fd, name)?, name)
}

/// A file that this process began with.
pub(super) fn open_file(fd: RawFd, name: &str) -> Result<OwnedFd, SocketError> {
    if fs::symlink_metadata(format!("/dev/fd/{fd}")).is_err() {
        return Err(SocketError::NotOpen {
            name: name.into(),
            fd,
        });
    }
    // SAFETY: it is open, and it is nobody else's: it was there when the process began, as nothing has been opened since, and
    // the environment says that it was passed to this process.
    #[expect(unsafe_code, reason = "a passed file is known by its number only")]
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(file)
}

fn checked(file: OwnedFd, name: &str) -> Result<Passed, SocketError> {
    let fd = file.as_raw_fd();
    let system = |source| SocketError::System {
        name: name.into(),
        fd,
        source,
    };
    let unfit = |what| SocketError::Unfit {
        name: name.into(),
        fd,
        what,
    };
    match getsockopt(&file, SockTypeOption) {
        Ok(SockType::Stream) => {}
        Ok(_) => return Err(unfit("a socket without streams")),
        Err(Errno::ENOTSOCK) => return Err(unfit("not a socket")),
        Err(errno) => return Err(system(errno)),
    }
    if !getsockopt(&file, AcceptConn).map_err(system)? {
        return Err(unfit("a socket that does not listen"));
    }
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(system)?;
    let address: SockaddrStorage = getsockname(fd).map_err(system)?;
    let (passed, nonblocking) = match address.family() {
        Some(AddressFamily::Inet | AddressFamily::Inet6) => {
            let listener = TcpListener::from(file);
            let nonblocking = listener.set_nonblocking(true);
            (Passed::Tcp(listener), nonblocking)
        }
        Some(AddressFamily::Unix) => {
            let listener = UnixListener::from(file);
            let nonblocking = listener.set_nonblocking(true);
            (Passed::Unix(listener), nonblocking)
        }
        _ => return Err(unfit("a socket of another kind of address")),
    };
    match nonblocking {
        Ok(()) => Ok(passed),
        Err(error) => Err(system(Errno::from_raw(error.raw_os_error().unwrap_or_default()))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    const US: Addressee = Addressee {
        pid: 42,
        below_init: false,
    };

    fn from(variables: &[(&str, &str)], us: Addressee) -> Result<usize, String> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        passed(&find, us)
            .map(|sockets| sockets.len())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_meant_for_this_process_is_left_alone() {
        assert_eq!(from(&[], US), Ok(0));
        assert_eq!(from(&[("LISTEN_FDS", "1")], US), Ok(0));
        assert_eq!(from(&[("LISTEN_FDS", "1"), ("LISTEN_PID", "41")], US), Ok(0));
        assert_eq!(from(&[("LISTEN_FDS", "x"), ("LISTEN_PID", "1")], US), Ok(0));
        assert_eq!(from(&[("LISTEN_FDS", "0"), ("LISTEN_PID", "42")], US), Ok(0));
    }

    #[test]
    fn what_process_1_was_given_is_meant_for_the_daemon_below_it() {
        let below = Addressee {
            below_init: true,
            ..US
        };
        let told = from(&[("LISTEN_FDS", "x"), ("LISTEN_PID", "1")], below).unwrap_err();
        assert!(told.contains("LISTEN_FDS"), "{told}");
    }

    #[test]
    fn a_count_that_makes_no_sense_is_an_error() {
        for text in ["", "x", "-1", "1000000"] {
            let told = from(&[("LISTEN_FDS", text), ("LISTEN_PID", "42")], US).unwrap_err();
            assert!(told.contains("LISTEN_FDS") && told.contains(text), "{told}");
        }
    }

    #[test]
    fn only_stream_sockets_that_listen_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(matches!(checked(tcp.into(), "a"), Ok(Passed::Tcp(_))));
        let unix = UnixListener::bind(dir.path().join("s")).unwrap();
        assert!(matches!(checked(unix.into(), "a"), Ok(Passed::Unix(_))));

        let file = fs::File::open("/dev/null").unwrap();
        let (connected, _peer) = UnixStream::pair().unwrap();
        let datagrams = UnixDatagram::unbound().unwrap();
        for (unfit, what) in [
            (OwnedFd::from(file), "not a socket"),
            (connected.into(), "does not listen"),
            (datagrams.into(), "without streams"),
        ] {
            let told = checked(unfit, "web").unwrap_err().to_string();
            assert!(told.contains(what) && told.contains("web"), "{told}");
        }
    }
}
