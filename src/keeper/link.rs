//! Owns the daemon's end of the connection to one keeper: a handle for commands, a stream of events, and the task between.

use std::{
    collections::{HashMap, VecDeque},
    io,
    path::Path,
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use tokio::{
    io::Interest,
    net::UnixStream,
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    identity::Identity,
    wire::{
        self, DaemonHello, FrameReader, HELLO_LIMIT_BYTES, HelloRefusal, KeeperHello, Refusal, StopRequest,
        ToDaemon,
    },
};
use crate::{
    domain::{RunExit, Seq},
    journal::Head,
};

/// Lines and notes that wait for the socket. Each holds the caller's bytes, so the caller bounds the memory.
const SUBMISSIONS: usize = 64;

/// Stops, signals and the like that wait for the socket.
const CONTROLS: usize = 16;

/// How long a keeper may take to answer a hello. It answers at once unless its disk hangs.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// How often a keeper that does not answer is looked at, since it may be ending, and how long between.
const ENDING_CHECKS: u32 = 50;
const ENDING_PAUSE: Duration = Duration::from_millis(20);

/// The longest frame that a keeper sends; the largest is the exit with its stderr tail.
const INCOMING_LIMIT_BYTES: usize = 4 << 20;

/// The most chunks that one write hands to the system.
const WRITE_CHUNKS: usize = 16;

/// A connection to a living keeper.
#[derive(Debug)]
pub struct Link {
    /// Sends commands.
    pub handle: LinkHandle,
    /// What the keeper tells.
    pub events: KeeperEvents,
    /// What it said of itself when the connection was made.
    pub hello: KeeperHello,
}

/// What a keeper tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeeperEvent {
    /// The journal has records up to here.
    Head(Head),
    /// The process ended; its `run_exited` record is in the journal unless the disk refused it to the end.
    Exited(RunExit),
    /// The connection is over. Nothing comes after this.
    Gone,
}

/// Why the link could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection to the keeper is gone")]
pub struct LinkGone;

/// Why a line or note was not taken. Nothing of it was written then, save after `Gone`, when that is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The queue for stdin is full, or the disk refuses the journal.
    #[error("input queue is full")]
    Busy,
    /// Stdin is closed or about to be.
    #[error("input is closed")]
    Closed,
    /// The process ended.
    #[error("process has ended")]
    Exited,
    /// The connection is over; whether it was taken is unknown until the journal is read.
    #[error("connection to the keeper is gone")]
    Gone,
    /// It is not one JSON object on one line.
    #[error("not one JSON object on one line")]
    Invalid,
    /// It is longer than a line may be.
    #[error("longer than {limit_bytes} bytes")]
    TooLarge {
        /// The longest line, in bytes.
        limit_bytes: usize,
    },
}

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
    /// The keeper is of another version of the program, which talks otherwise.
    #[error("keeper speaks protocol version {theirs}, not {ours}")]
    VersionMismatch {
        /// The version of this program.
        ours: u32,
        /// The version of the keeper.
        theirs: u32,
    },
    /// The file or the connection failed.
    #[error("keeper cannot be reached")]
    Io(#[source] io::Error),
}

/// Connects to the keeper that wrote `identity_file`, once it is certain that it is the same process.
///
/// # Errors
/// See [`AttachError`].
pub async fn attach(identity_file: &Path, tracker: &TaskTracker) -> Result<Link, AttachError> {
    let identity = Identity::read(identity_file)
        .map_err(AttachError::Io)?
        .ok_or(AttachError::NoIdentity)?;
    if !identity.is_alive() {
        return Err(AttachError::ProcessGone);
    }
    match timeout(HELLO_DEADLINE, greet(&identity)).await {
        Ok(Ok(connection)) => Ok(connection.start(tracker)),
        // It may be about to end.
        Ok(Err(AttachError::Io(_))) if is_gone_soon(&identity).await => Err(AttachError::ProcessGone),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(AttachError::Io(io::ErrorKind::TimedOut.into())),
    }
}

/// Whether the process ends within a short time.
async fn is_gone_soon(identity: &Identity) -> bool {
    for _ in 0..ENDING_CHECKS {
        if !identity.is_alive() {
            return true;
        }
        tokio::time::sleep(ENDING_PAUSE).await;
    }
    false
}

/// A connection whose hello was exchanged.
struct Greeted {
    stream: UnixStream,
    frames: FrameReader,
    hello: KeeperHello,
}

async fn greet(identity: &Identity) -> Result<Greeted, AttachError> {
    let stream = UnixStream::connect(&identity.socket)
        .await
        .map_err(AttachError::Io)?;
    let mut hello = wire::hello(&DaemonHello {
        protocol: wire::VERSION,
        secret: identity.secret().to_owned(),
    })
    .map_err(AttachError::Io)?;
    while !hello.is_empty() {
        stream.writable().await.map_err(AttachError::Io)?;
        match stream.try_write(&hello) {
            Ok(bytes) => hello.advance(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(AttachError::Io(error)),
        }
    }
    let mut frames = FrameReader::new(INCOMING_LIMIT_BYTES.max(HELLO_LIMIT_BYTES));
    loop {
        let frame = frames
            .next()
            .map_err(|error| AttachError::Io(io::Error::other(error)))?;
        if let Some(frame) = frame {
            let message = frame
                .parse_for_daemon()
                .map_err(|error| AttachError::Io(io::Error::other(error)))?;
            return match message {
                Some(ToDaemon::Hello(hello)) => Ok(Greeted {
                    stream,
                    frames,
                    hello: *hello,
                }),
                Some(ToDaemon::Refused(HelloRefusal::Version(theirs))) => Err(AttachError::VersionMismatch {
                    ours: wire::VERSION,
                    theirs,
                }),
                _ => Err(AttachError::Refused),
            };
        }
        stream.readable().await.map_err(AttachError::Io)?;
        match frames.read_with(|place| stream.try_read(place)) {
            Ok(0) => return Err(AttachError::Io(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(AttachError::Io(error)),
        }
    }
}

impl Greeted {
    fn start(self, tracker: &TaskTracker) -> Link {
        let (submissions, submission_inbox) = mpsc::channel(SUBMISSIONS);
        let (controls, control_inbox) = mpsc::channel(CONTROLS);
        let (state, observed) = watch::channel(Observed {
            head: self.hello.head,
            exited: self.hello.exited.clone(),
        });
        let over = CancellationToken::new();
        let runner = LinkRunner {
            _over: over.clone().drop_guard(),
            stream: self.stream,
            frames: self.frames,
            submissions: submission_inbox,
            controls: control_inbox,
            state,
            outgoing: VecDeque::new(),
            replies: HashMap::new(),
            next_id: 1,
        };
        tracker.spawn(runner.run());
        Link {
            handle: LinkHandle {
                submissions,
                controls,
                over,
                max_line_bytes: self.hello.max_line_bytes,
            },
            events: KeeperEvents {
                seen_head: self.hello.head,
                seen_exit: false,
                seen_gone: false,
                observed,
            },
            hello: self.hello,
        }
    }
}

/// Sends commands to a keeper. Clones share the connection.
#[derive(Clone, Debug)]
pub struct LinkHandle {
    submissions: mpsc::Sender<Submission>,
    controls: mpsc::Sender<Control>,
    over: CancellationToken,
    max_line_bytes: usize,
}

#[derive(Debug)]
struct Submission {
    kind: SubmissionKind,
    data: Bytes,
    reply: oneshot::Sender<Result<Seq, WriteError>>,
}

#[derive(Debug)]
enum SubmissionKind {
    Line { by: Option<String> },
    Note,
}

#[derive(Debug)]
enum Control {
    Signal(i32),
    Stop(StopRequest),
    CloseStdin,
    Detach,
}

impl LinkHandle {
    /// Gives a line (one JSON object, without its newline) to the process. Lines are written whole, in the order in which this
    /// was called. Resolves when the line is in the journal and its first byte is about to be written: at once, unless the
    /// process does not read. Dropping the future does not take the line back.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write_line(&self, by: Option<&str>, line: Bytes) -> Result<Seq, WriteError> {
        let by = by.map(str::to_owned);
        self.submit(SubmissionKind::Line { by }, line).await
    }

    /// Appends a record of the daemon (`src` is `daemon`; one JSON object) to the journal. Resolves when it is there.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn note(&self, data: Bytes) -> Result<Seq, WriteError> {
        self.submit(SubmissionKind::Note, data).await
    }

    async fn submit(&self, kind: SubmissionKind, data: Bytes) -> Result<Seq, WriteError> {
        if data.len() > self.max_line_bytes {
            return Err(WriteError::TooLarge {
                limit_bytes: self.max_line_bytes,
            });
        }
        let (reply, answer) = oneshot::channel();
        let submission = Submission { kind, data, reply };
        self.submissions
            .send(submission)
            .await
            .map_err(|_| WriteError::Gone)?;
        answer.await.unwrap_or(Err(WriteError::Gone))
    }

    /// Starts the stop ladder, or hastens one that runs: a second stop never lengthens the first. Does not wait for the end.
    ///
    /// # Errors
    /// The keeper is gone.
    pub async fn stop(&self, request: StopRequest) -> Result<(), LinkGone> {
        self.control(Control::Stop(request)).await
    }

    /// Sends a signal (its number) to the process, not to its group.
    ///
    /// # Errors
    /// The keeper is gone.
    pub async fn signal(&self, number: i32) -> Result<(), LinkGone> {
        self.control(Control::Signal(number)).await
    }

    /// Closes stdin once what waits for it is written. Lines that come later are refused as closed.
    ///
    /// # Errors
    /// The keeper is gone.
    pub async fn close_stdin(&self) -> Result<(), LinkGone> {
        self.control(Control::CloseStdin).await
    }

    /// Ends the connection. The keeper lives on and waits for the next daemon.
    pub fn detach(&self) {
        // A full queue means that the socket is stuck; dropping the last handle then ends the connection.
        let _ = self.controls.try_send(Control::Detach);
    }

    /// Is cancelled when the connection is over. Does not keep it alive.
    pub fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    async fn control(&self, control: Control) -> Result<(), LinkGone> {
        self.controls.send(control).await.map_err(|_| LinkGone)
    }
}

/// What is known of the keeper by now. Overwritten, never queued.
#[derive(Clone, Debug)]
struct Observed {
    head: Head,
    exited: Option<RunExit>,
}

/// The events of a keeper. Only the newest head is kept, so a slow reader costs nothing.
#[derive(Debug)]
pub struct KeeperEvents {
    seen_head: Head,
    seen_exit: bool,
    seen_gone: bool,
    observed: watch::Receiver<Observed>,
}

impl KeeperEvents {
    /// The next event; `None` after [`KeeperEvent::Gone`]. The head of the hello is not repeated; an exit always comes.
    ///
    /// CANCEL-SAFETY: nothing is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<KeeperEvent> {
        loop {
            let changed = self.observed.has_changed();
            {
                let observed = self.observed.borrow_and_update();
                if observed.head != self.seen_head {
                    self.seen_head = observed.head;
                    return Some(KeeperEvent::Head(observed.head));
                }
                if let Some(exit) = observed.exited.as_ref().filter(|_| !self.seen_exit) {
                    self.seen_exit = true;
                    return Some(KeeperEvent::Exited(exit.clone()));
                }
            }
            match changed {
                Err(_) if self.seen_gone => return None,
                Err(_) => {
                    self.seen_gone = true;
                    return Some(KeeperEvent::Gone);
                }
                Ok(_) => {
                    // An error means that the sender is gone, which the next round sees.
                    let _ = self.observed.changed().await;
                }
            }
        }
    }
}

/// The task that owns the socket. Both directions are served by readiness, with all progress in its fields, so no branch of
/// its select can lose anything.
struct LinkRunner {
    stream: UnixStream,
    frames: FrameReader,
    submissions: mpsc::Receiver<Submission>,
    controls: mpsc::Receiver<Control>,
    state: watch::Sender<Observed>,
    /// What is still to be sent: at most one line or note, and controls.
    outgoing: VecDeque<Bytes>,
    replies: HashMap<u64, oneshot::Sender<Result<Seq, WriteError>>>,
    next_id: u64,
    /// Says that the connection is over, however this task ends.
    _over: DropGuard,
}

/// Whether the connection goes on.
enum Flow {
    Continue,
    End,
}

impl LinkRunner {
    async fn run(mut self) {
        let end = loop {
            // The hello may have come with more behind it, so what is there is handled before anything is waited for.
            let step = match self.handle_frames() {
                Ok(()) => self.step().await,
                Err(error) => Err(error),
            };
            match step {
                Ok(Flow::Continue) => {}
                Ok(Flow::End) => break Ok(()),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    break self.hear_last_words().await;
                }
                Err(error) => break Err(error),
            }
        };
        if let Err(error) = end {
            tracing::debug!(%error, "keeper connection ended");
        }
        // Dropping the replies and the state tells everyone who waits.
    }

    /// A keeper that ended does not take commands any more, but may have told its end before.
    async fn hear_last_words(&mut self) -> io::Result<()> {
        self.outgoing.clear();
        loop {
            self.stream.readable().await?;
            match self.receive()? {
                Flow::Continue => self.handle_frames()?,
                Flow::End => return Ok(()),
            }
        }
    }

    async fn step(&mut self) -> io::Result<Flow> {
        let interest = if self.outgoing.is_empty() {
            Interest::READABLE
        } else {
            Interest::READABLE | Interest::WRITABLE
        };
        tokio::select! {
            biased;
            // Controls first: a stop must not wait behind lines.
            control = self.controls.recv() => match control {
                Some(control) => self.control(&control),
                None => Ok(Flow::End),
            },
            // One line at a time is in flight towards the socket; the rest waits in its bounded queue. Its callers wait for
            // answers, so this branch cannot starve the next.
            Some(submission) = self.submissions.recv(), if self.outgoing.is_empty() => {
                self.submit(submission)?;
                self.send()?;
                Ok(Flow::Continue)
            }
            ready = self.stream.ready(interest) => {
                let ready = ready?;
                if ready.is_writable() {
                    self.send()?;
                }
                if ready.is_readable() { self.receive() } else { Ok(Flow::Continue) }
            }
        }
    }

    fn control(&mut self, control: &Control) -> io::Result<Flow> {
        let (frame, flow) = match control {
            Control::Signal(number) => (wire::signal(*number)?, Flow::Continue),
            Control::Stop(request) => (wire::stop(request)?, Flow::Continue),
            Control::CloseStdin => (wire::close_stdin()?, Flow::Continue),
            Control::Detach => (wire::detach()?, Flow::End),
        };
        self.outgoing.push_back(frame);
        self.send()?;
        Ok(flow)
    }

    fn submit(&mut self, submission: Submission) -> io::Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        let head = match &submission.kind {
            SubmissionKind::Line { by } => wire::write_head(id, by.as_deref(), submission.data.len()),
            SubmissionKind::Note => wire::note_head(id, submission.data.len()),
        };
        let Ok(head) = head else {
            let _ = submission.reply.send(Err(WriteError::Invalid));
            return Ok(());
        };
        self.replies.insert(id, submission.reply);
        self.outgoing.push_back(head);
        self.outgoing.push_back(submission.data);
        Ok(())
    }

    /// Sends what the socket takes.
    fn send(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            let slices: Vec<_> = self
                .outgoing
                .iter()
                .take(WRITE_CHUNKS)
                .map(|chunk| io::IoSlice::new(chunk))
                .collect();
            let mut sent = match self.stream.try_write_vectored(&slices) {
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            while let Some(chunk) = self.outgoing.front_mut() {
                let bytes = sent.min(chunk.len());
                chunk.advance(bytes);
                sent -= bytes;
                if !chunk.is_empty() {
                    break;
                }
                self.outgoing.pop_front();
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Flow> {
        match self.frames.read_with(|place| self.stream.try_read(place)) {
            Ok(0) => return Ok(Flow::End),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Flow::Continue),
            Err(error) => return Err(error),
        }
        Ok(Flow::Continue)
    }

    fn handle_frames(&mut self) -> io::Result<()> {
        while let Some(frame) = self.frames.next().map_err(io::Error::other)? {
            if let Some(message) = frame.parse_for_daemon().map_err(io::Error::other)? {
                self.handle(message);
            }
        }
        Ok(())
    }

    fn handle(&mut self, message: ToDaemon) {
        match message {
            ToDaemon::Ack(answer) => self.reply(answer.id, Ok(answer.value)),
            ToDaemon::Refusal(answer) => self.reply(
                answer.id,
                Err(match answer.value {
                    Refusal::Busy => WriteError::Busy,
                    Refusal::Closed => WriteError::Closed,
                    Refusal::Exited => WriteError::Exited,
                    Refusal::Invalid => WriteError::Invalid,
                }),
            ),
            ToDaemon::Head(head) => {
                self.state.send_modify(|state| state.head = head);
            }
            ToDaemon::Exited(exit) => {
                self.state.send_modify(|state| state.exited = Some(exit));
            }
            // Only the first frame can be one of these; later ones mean nothing.
            ToDaemon::Hello(_) | ToDaemon::Refused(_) => {}
        }
    }

    fn reply(&mut self, id: u64, result: Result<Seq, WriteError>) {
        if let Some(reply) = self.replies.remove(&id) {
            // The caller may have stopped waiting.
            let _ = reply.send(result);
        }
    }
}
