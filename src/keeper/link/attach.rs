//! Owns the way to a connection: is it the same process, and does it let us in?

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bytes::Buf as _;
use nix::unistd::geteuid;
use tokio::{net::UnixStream, time::timeout};
use tokio_util::task::TaskTracker;

use super::{Link, runner};
use crate::{
    files,
    keeper::{
        identity::Identity,
        wire::{self, DaemonHello, FrameReader, HelloRefusal, KeeperHello, ToDaemon},
    },
};

/// How long a keeper may take to answer a hello. It answers at once unless its disk hangs. A keeper waits longer for the hello
/// of a daemon, so that it is the daemon that gives up.
const HELLO_DEADLINE: Duration = Duration::from_secs(3);

/// A deadline that is noticed so much later says that this program itself got no time.
const OWN_DELAY: Duration = Duration::from_millis(250);

/// How long a keeper is tried again that hangs up or whose socket is not in its place. It may be ending, or about to make its
/// socket again.
const ABSENT_PATIENCE: Duration = Duration::from_secs(3);
/// How long it is waited for the end of a keeper that says what means nothing.
const ENDING_PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The longest frame that a keeper sends; the largest is the exit with its stderr tail.
const INCOMING_LIMIT_BYTES: usize = 4 << 20;

/// Why a keeper could not be attached to.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is no identity file.
    #[error("no keeper is known")]
    NoIdentity,
    /// The file is stale: that process does not live any more.
    #[error("keeper process is gone")]
    ProcessGone,
    /// The keeper does not accept the secret of the file.
    #[error("keeper refused the connection")]
    Refused,
    /// The keeper is of a version of the program that is too far from this one: they have no protocol in common. It lives.
    #[error(
        "keeper is of trunkline {program} and speaks protocol version {theirs}; this program speaks {} to {}",
        wire::OLDEST,
        wire::VERSION
    )]
    VersionMismatch {
        /// The version of the program that runs as keeper.
        program: String,
        /// The newest version of the protocol that it speaks.
        theirs: u32,
    },
    /// The keeper lives and says nothing, hangs up, or has no socket: it was stopped, or the machine gives it or this program no
    /// time, or its folder was removed.
    #[error("keeper does not answer")]
    Silent,
    /// Another user listens in the keeper's place: he is told nothing. The keeper lives.
    #[error(
        "another user (uid {uid}) listens at {} in the place of the keeper: set data.runtime_dir (TRUNKLINE_DATA_RUNTIME_DIR) to a \
         directory of this user",
        socket.display()
    )]
    Foreign {
        /// The user.
        uid: u32,
        /// Where.
        socket: PathBuf,
    },
    /// The keeper of another session, or of another run, listens in the keeper's place. The keeper lives.
    #[error("the keeper of another session or run listens at {}", socket.display())]
    OtherRun {
        /// Where.
        socket: PathBuf,
    },
    /// It cannot be found out whether there is a keeper, as for want of file descriptors. It may live.
    #[error("it cannot be told whether the keeper lives")]
    Unclear(#[source] io::Error),
    /// The file or the connection failed: what is there is of no use.
    #[error("keeper cannot be reached")]
    Io(#[source] io::Error),
}

impl AttachError {
    /// Whether the keeper lives, or may.
    pub const fn may_live(&self) -> bool {
        matches!(
            self,
            Self::VersionMismatch { .. }
                | Self::Silent
                | Self::Foreign { .. }
                | Self::OtherRun { .. }
                | Self::Unclear(_)
        )
    }
}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> Self {
        if files::is_inconclusive(&error) {
            Self::Unclear(error)
        } else {
            Self::Io(error)
        }
    }
}

/// Connects to the keeper that wrote `identity_file`, once it is certain that it is the same process.
///
/// # Errors
/// See [`AttachError`].
pub async fn attach(identity_file: &Path, tracker: &TaskTracker) -> Result<Link, AttachError> {
    let identity = Identity::read(identity_file)?.ok_or(AttachError::NoIdentity)?;
    if !identity.lives()? {
        return Err(AttachError::ProcessGone);
    }
    let mut absent_until = None;
    let mut is_repeated = false;
    loop {
        identity.wake();
        let began = Instant::now();
        match timeout(HELLO_DEADLINE, greet(&identity)).await {
            Ok(Ok(greeted)) => return Ok(runner::start(greeted, tracker)),
            Ok(Err(error)) if is_absent(&error) => {
                if !identity.lives()? {
                    return Err(AttachError::ProcessGone);
                }
                // At least one try follows a failed one, however long that took: the keeper may have waited for us in vain.
                let until = *absent_until.get_or_insert_with(|| Instant::now() + ABSENT_PATIENCE);
                if std::mem::replace(&mut is_repeated, true) && Instant::now() >= until {
                    return Err(match error {
                        AttachError::Io(_) => AttachError::Silent,
                        error => error,
                    });
                }
                tokio::time::sleep(PAUSE).await;
            }
            // It may be about to end.
            Ok(Err(AttachError::Io(_))) if is_gone_soon(&identity).await => {
                return Err(AttachError::ProcessGone);
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                // Once more, if this program was paused: nothing is known of the keeper then.
                let is_own = began.elapsed() > HELLO_DEADLINE + OWN_DELAY;
                if !is_own || std::mem::replace(&mut is_repeated, true) {
                    return Err(AttachError::Silent);
                }
            }
        }
    }
}

/// Whether an error says no more than that the keeper is not at the other end. One that ends hangs up, and so does one that had
/// to wait for the hello too long; a socket can be removed by anybody who cleans up, and another be put in its place.
fn is_absent(error: &AttachError) -> bool {
    let error = match error {
        AttachError::Foreign { .. } | AttachError::OtherRun { .. } => return true,
        AttachError::Io(error) => error,
        _ => return false,
    };
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::ConnectionRefused
    )
}

/// Whether the process ends within a short time.
async fn is_gone_soon(identity: &Identity) -> bool {
    let until = Instant::now() + ENDING_PATIENCE;
    while identity.may_live() {
        if Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
    }
    true
}

/// A connection whose hello was exchanged.
pub(super) struct Greeted {
    pub(super) stream: UnixStream,
    pub(super) frames: FrameReader,
    pub(super) hello: KeeperHello,
}

/// Says hello in the newest version that both speak. Only the version in the keeper's own answer counts.
async fn greet(identity: &Identity) -> Result<Greeted, AttachError> {
    let asked = identity.protocol.clamp(wire::OLDEST, wire::VERSION);
    match greet_as(identity, asked).await {
        Err(AttachError::VersionMismatch { theirs, .. }) if theirs != asked && wire::speaks(theirs) => {
            greet_as(identity, theirs).await
        }
        greeted => greeted,
    }
}

async fn greet_as(identity: &Identity, protocol: u32) -> Result<Greeted, AttachError> {
    let stream = match UnixStream::connect(&identity.socket).await {
        Ok(stream) => stream,
        // So many tries wait already that no more fit.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(AttachError::Silent),
        Err(error) => return Err(error.into()),
    };
    let uid = stream.peer_cred()?.uid();
    if uid != geteuid().as_raw() {
        return Err(AttachError::Foreign {
            uid,
            socket: identity.socket.clone(),
        });
    }
    #[cfg(debug_assertions)]
    super::seam::pause_before_hello();
    let mut hello = wire::hello(&DaemonHello {
        protocol,
        secret: identity.secret().to_owned(),
    })?;
    while !hello.is_empty() {
        stream.writable().await?;
        match stream.try_write(&hello) {
            Ok(bytes) => hello.advance(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut frames = FrameReader::new(INCOMING_LIMIT_BYTES);
    loop {
        let frame = frames
            .next()
            .map_err(|error| AttachError::Io(io::Error::other(error)))?;
        if let Some(frame) = frame {
            let message = frame
                .parse_for_daemon()
                .map_err(|error| AttachError::Io(io::Error::other(error)))?;
            return match message {
                Some(ToDaemon::Hello(hello))
                    if (hello.session, hello.run) != (identity.session, identity.run) =>
                {
                    Err(AttachError::OtherRun {
                        socket: identity.socket.clone(),
                    })
                }
                Some(ToDaemon::Hello(hello)) => Ok(Greeted {
                    stream,
                    frames,
                    hello: *hello,
                }),
                Some(ToDaemon::Refused(HelloRefusal::Version(theirs))) => Err(AttachError::VersionMismatch {
                    program: identity.program_version.clone(),
                    theirs,
                }),
                _ => Err(AttachError::Refused),
            };
        }
        stream.readable().await?;
        match frames.read_with(|place| stream.try_read(place)) {
            Ok(0) => return Err(AttachError::Io(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}
