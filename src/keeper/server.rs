//! Owns the keeper's end of the link: the socket, who may talk, and what is still to be sent.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::unistd::geteuid;
use subtle::ConstantTimeEq as _;

use super::{
    socket_dir,
    wire::{self, FrameReader, HELLO_LIMIT_BYTES, HelloRefusal, KeeperHello, ToDaemon, ToKeeper},
};
use crate::{domain::StopStep, journal::Head, os};

/// Connections that have not said hello yet. One more drops the oldest.
const NEWCOMERS: usize = 4;

/// How long a connection may take to say hello: much longer than a daemon waits for the answer, as a daemon that has connected
/// may get no time for a while.
const HELLO_PATIENCE: Duration = Duration::from_secs(30);

/// Unsent bytes at which a daemon counts as gone: it sends commands and does not read the answers.
const UNSENT_LIMIT_BYTES: usize = 1 << 20;

/// The socket of a keeper.
pub(super) struct Server {
    listener: UnixListener,
    place: Place,
    secret: String,
    max_line_bytes: usize,
    newcomers: Vec<Newcomer>,
    daemon: Option<Daemon>,
    connections: u64,
}

/// Where a keeper listens, and which file its socket is: device and inode.
struct Place {
    path: PathBuf,
    file: (u64, u64),
}

impl Place {
    /// Listens at `path`, in place of a socket that a dead keeper may have left there.
    fn bind(path: &Path) -> io::Result<(UnixListener, Self)> {
        if let Some(dir) = path.parent() {
            socket_dir::prepare(dir)?;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let place = Self {
            path: path.to_owned(),
            file: file_at(path)?,
        };
        Ok((listener, place))
    }
}

fn file_at(path: &Path) -> io::Result<(u64, u64)> {
    let found = path.symlink_metadata()?;
    Ok((found.dev(), found.ino()))
}

struct Newcomer {
    peer: Peer,
    until: Instant,
}

struct Daemon {
    peer: Peer,
    number: u64,
    /// The version that is spoken with it.
    protocol: u32,
    told: Head,
    /// A head waits to be sent; no second one is put behind it.
    head_unsent: bool,
}

/// The descriptors and directions to poll for a connection.
pub(super) struct Interest<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) write: bool,
}

/// A change of the daemon's connection.
pub(super) enum Change {
    /// The connection with this number is over.
    Lost(u64),
    /// A new one took the place of the one with this number, if there was one.
    Joined(Option<u64>),
}

impl Server {
    /// Listens at `path`, in place of a socket that a dead keeper may have left there.
    pub(super) fn bind(path: &Path, secret: String, max_line_bytes: usize) -> io::Result<Self> {
        let (listener, place) = Place::bind(path)?;
        Ok(Self {
            listener,
            place,
            secret,
            max_line_bytes,
            newcomers: Vec::new(),
            daemon: None,
            connections: 0,
        })
    }

    /// Listens anew if its socket is gone from its place, or another file is there. Connections stay.
    pub(super) fn listen_again(&mut self) {
        if file_at(&self.place.path).is_ok_and(|file| file == self.place.file) {
            return;
        }
        // Where it cannot be made now it may be later: each daemon that looks for it asks.
        if let Ok((listener, place)) = Place::bind(&self.place.path) {
            (self.listener, self.place) = (listener, place);
        }
    }

    /// The listening socket.
    pub(super) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The daemon's socket.
    pub(super) fn daemon(&self) -> Option<Interest<'_>> {
        self.daemon.as_ref().map(|daemon| Interest {
            socket: daemon.peer.stream.as_fd(),
            write: !daemon.peer.unsent.is_empty(),
        })
    }

    /// The sockets that have not said hello.
    pub(super) fn newcomers(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.newcomers.iter().map(|newcomer| newcomer.peer.stream.as_fd())
    }

    /// The number of the daemon's connection.
    pub(super) fn connection(&self) -> Option<u64> {
        self.daemon.as_ref().map(|daemon| daemon.number)
    }

    /// Whether a daemon was ever let in.
    pub(super) const fn had_daemon(&self) -> bool {
        self.connections > 0
    }

    /// When a silent newcomer is to be dropped.
    pub(super) fn next(&self) -> Option<Instant> {
        self.newcomers.iter().map(|newcomer| newcomer.until).min()
    }

    /// Takes new connections.
    pub(super) fn accept(&mut self, now: Instant) {
        while let Ok((stream, _)) = self.listener.accept() {
            // Nobody else is heard, whatever became of the folder's mode.
            let is_ours = os::peer_uid(&stream).is_ok_and(|uid| uid == geteuid().as_raw());
            if !is_ours || stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.newcomers.len() == NEWCOMERS {
                self.newcomers.remove(0);
            }
            self.newcomers.push(Newcomer {
                peer: Peer::new(stream),
                until: now + HELLO_PATIENCE,
            });
        }
    }

    /// Hears what newcomers say. `hello` makes our answer to the one that is let in, from the version that is spoken with
    /// it; at most one is let in at a time.
    pub(super) fn greet(&mut self, now: Instant, hello: impl FnOnce(u32) -> KeeperHello) -> Option<Change> {
        let mut newcomers = std::mem::take(&mut self.newcomers).into_iter();
        let mut joining = None;
        for mut newcomer in newcomers.by_ref() {
            match newcomer.peer.hello(&self.secret) {
                Hello::Waiting if now < newcomer.until => self.newcomers.push(newcomer),
                Hello::Waiting | Hello::Lost => {}
                Hello::Refused(refusal) => {
                    newcomer.peer.queue(&ToDaemon::Refused(refusal));
                    // A new socket has room for so little.
                    let _ = newcomer.peer.flush();
                }
                Hello::Accepted { protocol } => {
                    joining = Some((newcomer.peer, protocol));
                    break;
                }
            }
        }
        self.newcomers.extend(newcomers);
        joining.map(|(peer, protocol)| Change::Joined(self.join(peer, hello(protocol))))
    }

    fn join(&mut self, mut peer: Peer, hello: KeeperHello) -> Option<u64> {
        self.connections += 1;
        peer.frames.set_limit(wire::frame_limit(self.max_line_bytes));
        let (told, protocol) = (hello.head, hello.protocol);
        peer.queue(&ToDaemon::Hello(Box::new(hello)));
        let previous = self.daemon.replace(Daemon {
            peer,
            number: self.connections,
            protocol,
            told,
            head_unsent: false,
        });
        previous.map(|daemon| daemon.number)
    }

    /// Reads once from the daemon; what came is then given by [`Self::next_command`].
    pub(super) fn read(&mut self) -> Option<Change> {
        let daemon = self.daemon.as_mut()?;
        match daemon.peer.read() {
            Ok(()) => None,
            Err(_) => self.drop_daemon(),
        }
    }

    /// The next command that has arrived whole.
    pub(super) fn next_command(&mut self) -> Result<Option<ToKeeper>, Change> {
        while let Some(daemon) = &mut self.daemon {
            let number = daemon.number;
            let parsed = match daemon.peer.frames.next() {
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => frame.parse_for_keeper(),
                Err(error) => Err(error),
            };
            match parsed {
                Ok(Some(ToKeeper::Detach)) | Err(_) => {
                    self.daemon = None;
                    return Err(Change::Lost(number));
                }
                Ok(Some(command)) => return Ok(Some(command)),
                // A frame of a later version.
                Ok(None) => {}
            }
        }
        Ok(None)
    }

    /// Queues a message for the connection with this number, if it is still there.
    pub(super) fn tell(&mut self, connection: u64, message: &ToDaemon) {
        if let Some(daemon) = self.daemon.as_mut().filter(|daemon| daemon.number == connection) {
            daemon.peer.queue(message);
        }
    }

    /// Tells the daemon of a step of the stop, if it understands that.
    pub(super) fn tell_step(&mut self, step: StopStep) {
        if let Some(daemon) = self.daemon.as_mut().filter(|it| it.protocol >= wire::WITH_STEPS) {
            daemon.peer.queue(&ToDaemon::Step(step));
        }
    }

    /// Sends what the daemon's socket takes, the newest head included.
    pub(super) fn flush(&mut self, head: Head) -> Option<Change> {
        loop {
            let daemon = self.daemon.as_mut()?;
            if daemon.told != head && !daemon.head_unsent {
                daemon.peer.queue(&ToDaemon::Head(head));
                daemon.told = head;
                daemon.head_unsent = true;
            }
            if daemon.peer.flush().is_err() || daemon.peer.unsent.len() > UNSENT_LIMIT_BYTES {
                return self.drop_daemon();
            }
            if !daemon.peer.unsent.is_empty() {
                return None;
            }
            daemon.head_unsent = false;
            if daemon.told == head {
                return None;
            }
        }
    }

    fn drop_daemon(&mut self) -> Option<Change> {
        self.daemon.take().map(|daemon| Change::Lost(daemon.number))
    }
}

/// One connection.
struct Peer {
    stream: UnixStream,
    frames: FrameReader,
    unsent: Vec<u8>,
}

enum Hello {
    Waiting,
    Lost,
    Refused(HelloRefusal),
    Accepted { protocol: u32 },
}

impl Peer {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            frames: FrameReader::new(HELLO_LIMIT_BYTES),
            unsent: Vec::new(),
        }
    }

    fn hello(&mut self, secret: &str) -> Hello {
        if self.read().is_err() {
            return Hello::Lost;
        }
        let hello = match self.frames.next() {
            Ok(None) => return Hello::Waiting,
            Ok(Some(frame)) => match frame.parse_for_keeper() {
                Ok(Some(ToKeeper::Hello(hello))) => hello,
                _ => return Hello::Lost,
            },
            Err(_) => return Hello::Lost,
        };
        if !wire::speaks(hello.protocol) {
            Hello::Refused(HelloRefusal::Version(wire::VERSION))
        } else if bool::from(hello.secret.as_bytes().ct_eq(secret.as_bytes())) {
            Hello::Accepted {
                protocol: hello.protocol,
            }
        } else {
            Hello::Refused(HelloRefusal::Secret)
        }
    }

    /// Reads once; an end of the stream is an error.
    fn read(&mut self) -> io::Result<()> {
        match self.frames.read_with(|place| (&self.stream).read(place)) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn queue(&mut self, message: &ToDaemon) {
        // These types always have a JSON form.
        if let Ok(frame) = message.encode() {
            self.unsent.extend_from_slice(&frame);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            let rest = self.unsent.get(sent..).unwrap_or_default();
            if rest.is_empty() {
                break Ok(());
            }
            match (&self.stream).write(rest) {
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.unsent.drain(..sent);
        result
    }
}
