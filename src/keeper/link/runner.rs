//! Owns the task between the socket and everyone who uses the link.

use std::{
    collections::{HashMap, VecDeque},
    io,
};

use bytes::{Buf as _, Bytes};
use tokio::{
    io::Interest,
    net::UnixStream,
    sync::{mpsc, oneshot, watch},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    Control, KeeperEvents, Link, LinkHandle, Observed, Submission, SubmissionKind, WriteError,
    attach::Greeted,
};
use crate::{
    domain::{Seq, SessionId, StopIntent},
    keeper::wire::{self, FrameReader, Refusal, ToDaemon},
};

/// Lines and notes that wait for the socket. Each holds the caller's bytes, so the caller bounds the memory.
const SUBMISSIONS: usize = 64;

/// Stops, signals and the like that wait for the socket.
const CONTROLS: usize = 16;

/// The most chunks that one write hands to the system.
const WRITE_CHUNKS: usize = 16;

/// Starts the task of a connection.
pub(super) fn start(greeted: Greeted, tracker: &TaskTracker) -> Link {
    let (submissions, submission_inbox) = mpsc::channel(SUBMISSIONS);
    let (controls, control_inbox) = mpsc::channel(CONTROLS);
    let (state, observed) = watch::channel(Observed {
        head: greeted.hello.head,
        exited: greeted.hello.exited.clone(),
    });
    let over = CancellationToken::new();
    let runner = LinkRunner {
        _over: over.clone().drop_guard(),
        stream: greeted.stream,
        frames: greeted.frames,
        submissions: submission_inbox,
        controls: control_inbox,
        state,
        session: greeted.hello.session,
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
            max_line_bytes: greeted.hello.max_line_bytes,
            journal_as: greeted.hello.journal_as,
        },
        events: KeeperEvents {
            seen_head: greeted.hello.head,
            seen_exit: false,
            seen_gone: false,
            observed,
        },
        hello: greeted.hello,
    }
}

/// The task that owns the socket. Both directions are served by readiness, with all progress in its fields, so no branch of
/// its select can lose anything.
struct LinkRunner {
    /// Says that the connection is over, however this task ends, and before anybody who waits is told: fields are dropped in
    /// this order.
    _over: DropGuard,
    stream: UnixStream,
    frames: FrameReader,
    submissions: mpsc::Receiver<Submission>,
    controls: mpsc::Receiver<Control>,
    state: watch::Sender<Observed>,
    session: SessionId,
    /// The frames still to be sent: at most one line or note, and controls.
    outgoing: VecDeque<Bytes>,
    replies: HashMap<u64, oneshot::Sender<Result<Seq, WriteError>>>,
    next_id: u64,
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
        if let Control::Stop(request) = control {
            let (session, term_grace_ms) = (self.session, request.term_grace_ms);
            tracing::info!(session.id = %session, term_grace_ms, "the keeper is told to stop the process");
        }
        Ok(flow)
    }

    fn submit(&mut self, submission: Submission) -> io::Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        let head = match &submission.kind {
            SubmissionKind::Line { by, record: None } => {
                wire::write_head(id, by.as_deref(), submission.data.len())
            }
            SubmissionKind::Line {
                by,
                record: Some(record),
            } => wire::write_as_head(id, by.as_deref(), record, submission.data.len()),
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
            ToDaemon::Step(step) => {
                let (session, after_ms) = (self.session, step.after_ms);
                tracing::info!(session.id = %session, step = step.step.as_str(), after_ms, "step of a stop");
            }
            ToDaemon::Exited(exit) => {
                let (session, by_us) = (self.session, exit.intent != StopIntent::None);
                let (code, signal, killed) = (exit.code, exit.signal, exit.killed);
                tracing::info!(session.id = %session, code, signal, killed, by_us, "process ended");
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
