//! Owns what a daemon leaves to the program that it becomes: files that stay open, and what a variable says of them.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde::{Deserialize, Serialize};

use super::{Addressee, Environment, Passed, SocketError, sockets};

/// The variable. It is for the process with the id in it and for no other.
pub const HANDOVER: &str = "TRUNKLINE_HANDOVER";

/// Variables of the service manager that the handover stands in for.
pub const REPLACED: [&str; 3] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

#[derive(Serialize, Deserialize)]
struct Text {
    pid: u32,
    below_init: bool,
    sockets: Vec<RawFd>,
    lock: RawFd,
}

/// The sockets and files that the program before this one left.
#[derive(Debug)]
pub struct Inherited {
    /// The sockets that it listened on. Connections that came meanwhile wait in them.
    pub sockets: Vec<Passed>,
    /// The lock on the data directory, which was never let go.
    pub lock: OwnedFd,
    /// Whom the service manager means.
    pub us: Addressee,
}

/// Marks the files to stay open in the program that this one becomes, and gives the value of [`HANDOVER`].
///
/// # Errors
/// The system refuses to mark a file.
pub fn hand_over(us: Addressee, sockets: &[OwnedFd], lock: BorrowedFd<'_>) -> io::Result<String> {
    for file in sockets.iter().map(AsFd::as_fd).chain([lock]) {
        fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    let text = Text {
        pid: us.pid,
        below_init: us.below_init,
        sockets: sockets.iter().map(|file| file.as_raw_fd()).collect(),
        lock: lock.as_raw_fd(),
    };
    serde_json::to_string(&text).map_err(io::Error::other)
}

/// The handover to this process, `pid`; `None` is the usual case. The files are closed in the programs that the daemon
/// starts.
///
/// Call it once, before the process opens files of its own.
///
/// # Errors
/// A file is not what the variable says.
pub fn inherited(environment: Environment<'_>, pid: u32) -> Result<Option<Inherited>, SocketError> {
    let text = environment(HANDOVER).and_then(|text| serde_json::from_str::<Text>(&text).ok());
    // The variable may be left over in the environment of a program that somebody started by hand.
    let Some(text) = text.filter(|text| text.pid == pid) else {
        return Ok(None);
    };
    let sockets = text
        .sockets
        .iter()
        .map(|fd| sockets::take(*fd, "handed over"))
        .collect::<Result<_, _>>()?;
    let lock = sockets::open_file(text.lock, "lock")?;
    fcntl(&lock, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(|source| SocketError::System {
        name: "lock".into(),
        fd: text.lock,
        source,
    })?;
    Ok(Some(Inherited {
        sockets,
        lock,
        us: Addressee {
            pid,
            below_init: text.below_init,
        },
    }))
}
