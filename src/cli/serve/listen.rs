//! Owns where the daemon listens: on what the service manager passed, else on the configured address.

use std::{
    net::SocketAddr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileTypeExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use nix::unistd::geteuid;
use tokio::net::{TcpListener, UnixListener};

use super::super::CliError;
use crate::{config::Server, service::Passed};

/// The listeners of a daemon.
#[derive(Debug)]
pub(super) struct Listeners {
    /// At least one.
    pub(super) tcp: Vec<TcpListener>,
    /// With each whether nobody but the daemon's user can connect.
    pub(super) unix: Vec<(UnixListener, bool)>,
    /// The address of the first TCP listener, as the system has it.
    pub(super) address: SocketAddr,
    /// The path of the first Unix listener that has one.
    pub(super) socket: Option<PathBuf>,
    /// The same sockets once more: for as long as these are open, connections are taken by the system.
    pub(super) kept: Vec<OwnedFd>,
}

/// Takes over what was passed. The configured address is only bound when no TCP socket was passed.
pub(super) async fn open(server: &Server, passed: Vec<Passed>) -> Result<Listeners, CliError> {
    let (mut tcp, mut unix, mut socket) = (Vec::new(), Vec::new(), None);
    for passed in passed {
        match passed {
            Passed::Tcp(listener) => {
                let address = listener.local_addr().context("a passed socket has no address")?;
                if !address.ip().is_loopback() && !server.insecure {
                    return Err(CliError::Usage(format!(
                        "the passed socket listens on {address}, which is reachable from other machines, and the \
                         connection is not encrypted; let its ListenStream= name a loopback address, or say --insecure"
                    )));
                }
                tcp.push(TcpListener::from_std(listener).context("a passed socket cannot be used")?);
            }
            Passed::Unix(listener) => {
                let listener = UnixListener::from_std(listener).context("a passed socket cannot be used")?;
                let address = listener.local_addr().context("a passed socket has no address")?;
                let path = address.as_pathname();
                let private = path.is_some_and(is_private);
                socket = socket.or_else(|| path.map(Path::to_owned));
                unix.push((listener, private));
            }
        }
    }
    if tcp.is_empty() {
        tcp.push(bind(server.listen).await?);
    }
    let files = tcp
        .iter()
        .map(AsFd::as_fd)
        .chain(unix.iter().map(|(listener, _)| listener.as_fd()));
    let kept = files
        .map(|file| file.try_clone_to_owned())
        .collect::<Result<_, _>>()
        .context("a socket cannot be kept")?;
    let first = tcp.first().context("nothing listens")?;
    Ok(Listeners {
        address: first.local_addr().context("the listener has no address")?,
        tcp,
        unix,
        socket,
        kept,
    })
}

/// Whether a socket is ours and no group and no other user may use it. The system checks its mode when somebody connects.
fn is_private(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| {
        meta.file_type().is_socket() && meta.uid() == geteuid().as_raw() && meta.mode() & 0o077 == 0
    })
}

async fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            Err(CliError::AddressInUse { address })
        }
        Err(error) => Err(CliError::Other(
            anyhow::Error::new(error).context(format!("cannot listen on {address}")),
        )),
    }
}
