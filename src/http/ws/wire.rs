//! Owns both directions of one socket in one task: while a send waits for a slow client, frames from it are still read.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::extract::ws::Message;
use futures_util::{Sink, Stream};
use tokio::time::Instant;

/// A socket that is read from and written to by turns.
#[derive(Debug)]
pub(super) struct Wire<S> {
    socket: S,
    /// The messages to send. The owner adds only what is bounded: one batch of records, or a few frames.
    queue: VecDeque<Message>,
    /// Whether the socket holds bytes that it may not have written.
    unflushed: bool,
    /// Answers that were added since everything was written.
    answers: usize,
    /// Whether the other side has said all that it will.
    ended: bool,
    /// When the socket last took something.
    progress: Instant,
}

/// An event on a socket.
#[derive(Debug)]
pub(super) enum Event<E> {
    /// A frame came.
    Received(Message),
    /// No frame will come any more.
    Ended,
    /// Everything that was to be sent is written.
    Drained,
    /// The socket failed while it was read.
    ReadFailed(E),
    /// The socket failed while it was written.
    WriteFailed(E),
}

impl<S, E> Wire<S>
where
    S: Stream<Item = Result<Message, E>> + Sink<Message, Error = E> + Unpin,
{
    pub(super) fn new(socket: S) -> Self {
        Self {
            socket,
            queue: VecDeque::new(),
            unflushed: false,
            answers: 0,
            ended: false,
            progress: Instant::now(),
        }
    }

    /// Adds a message to what is to be sent.
    pub(super) fn queue(&mut self, message: Message) {
        if !self.is_busy() {
            self.progress = Instant::now();
        }
        self.queue.push_back(message);
    }

    /// Adds the answer to something that the client has sent.
    pub(super) fn answer(&mut self, text: String) {
        self.answers += 1;
        self.queue(Message::Text(text.into()));
    }

    /// Answers since everything was written.
    pub(super) const fn answers(&self) -> usize {
        self.answers
    }

    /// Adds a text to what is to be sent, if there is one.
    pub(super) fn queue_text(&mut self, text: Option<String>) {
        if let Some(text) = text {
            self.queue(Message::Text(text.into()));
        }
    }

    /// Forgets what the socket has not taken yet.
    pub(super) fn forget_queue(&mut self) {
        self.queue.clear();
    }

    /// Whether something is still to be sent.
    pub(super) fn is_busy(&self) -> bool {
        self.unflushed || !self.queue.is_empty()
    }

    /// When the socket last took something, or was given something after a time with nothing to do.
    pub(super) const fn progress(&self) -> Instant {
        self.progress
    }

    /// Drives both directions; `reading` says whether a frame can be taken now.
    ///
    /// CANCEL-SAFETY: all state is in `self`; polling again goes on where it stopped.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, reading: bool) -> Poll<Event<E>> {
        if let Poll::Ready(sent) = self.poll_send(context) {
            return Poll::Ready(match sent {
                Ok(()) => Event::Drained,
                Err(error) => Event::WriteFailed(error),
            });
        }
        if !reading || self.ended {
            return Poll::Pending;
        }
        Poll::Ready(match ready!(Pin::new(&mut self.socket).poll_next(context)) {
            Some(Ok(message)) => Event::Received(message),
            Some(Err(error)) => Event::ReadFailed(error),
            None => {
                self.ended = true;
                Event::Ended
            }
        })
    }

    /// Ready when the last byte was written; pending also when there is nothing to send.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<Result<(), E>> {
        if !self.is_busy() {
            return Poll::Pending;
        }
        while !self.queue.is_empty() {
            ready!(Pin::new(&mut self.socket).poll_ready(context))?;
            if let Some(message) = self.queue.pop_front() {
                Pin::new(&mut self.socket).start_send(message)?;
                self.unflushed = true;
                self.progress = Instant::now();
            }
        }
        ready!(Pin::new(&mut self.socket).poll_flush(context))?;
        self.unflushed = false;
        self.answers = 0;
        self.progress = Instant::now();
        Poll::Ready(Ok(()))
    }
}
