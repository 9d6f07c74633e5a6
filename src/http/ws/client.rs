//! Owns a client of one session: what the session has for it goes out, and its lines go to the session.

use std::future::Future;

use axum::{
    body::Bytes,
    extract::ws::{Message, Utf8Bytes},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    close::Close,
    dialect::{Dialect, Next, Received},
    socket::{Outgoing, Peer, Taken, Work},
};
use crate::{
    domain::{Role, Seq},
    journal::Cursor,
    session::ClientFrame,
};

/// Most lines in one frame of a viewer that are answered.
pub(super) const MAX_FORBIDDEN: usize = 64;
/// Most answers that are taken from the side channel at once.
pub(super) const MAX_ANSWERS: usize = 64;

/// The place that takes a client's lines.
pub(super) trait Inbox: Clone + Send + Sync + 'static {
    /// Takes one line. Answers to it come through the side channel; the error says that nothing can be taken any more.
    fn line(&self, line: Bytes) -> impl Future<Output = Result<(), String>> + Send;

    /// Whether a request of the CLI waits for an answer that may be this client's.
    fn is_asked(&self, request_id: String) -> impl Future<Output = bool> + Send + use<Self>;
}

/// Lines on their way to the session.
pub(super) type Delivery = Work<Result<(), String>>;

/// The things that a socket is connected to.
pub(super) struct Client<I, D> {
    /// How the client speaks.
    pub(super) dialect: D,
    /// The client's place in the journal.
    pub(super) cursor: Cursor,
    /// News for this client alone.
    pub(super) direct: mpsc::Receiver<ClientFrame>,
    /// Where the client's lines go.
    pub(super) inbox: I,
    /// Lines that the client has sent already, and that go on to the session.
    pub(super) early: Vec<Bytes>,
    /// Whether the client's lines go anywhere.
    pub(super) role: Role,
}

/// A client that is served.
pub(super) struct Served<I, D> {
    client: Client<I, D>,
    shutdown: CancellationToken,
    /// News that are taken and not told.
    news: Vec<ClientFrame>,
    /// Whether the session has news for this client.
    is_subscribed: bool,
    /// The last record that is certainly written: the end may forget what is not.
    sent: Seq,
}

impl<I: Inbox, D: Dialect> Served<I, D> {
    pub(super) fn new(client: Client<I, D>, shutdown: CancellationToken) -> Self {
        Self {
            sent: client.cursor.position(),
            client,
            shutdown,
            news: Vec::new(),
            is_subscribed: true,
        }
    }

    fn on_news(&mut self, count: usize) -> Outgoing {
        if count == 0 && !self.client.cursor.is_closed() && !self.shutdown.is_cancelled() {
            // The client did not take its answers.
            return Outgoing::Close(Close::Slow);
        }
        // A session that was deleted gives what it has before the end.
        self.is_subscribed = count > 0;
        let mut frames = Vec::new();
        for frame in self.news.drain(..) {
            match self.client.dialect.direct(frame) {
                Ok(text) => frames.extend(text.map(|text| Message::Text(text.into()))),
                Err(close) => return Outgoing::Close(close),
            }
        }
        Outgoing::Frames(frames)
    }

    fn on_next(&self, next: Next) -> Outgoing {
        match next {
            Next::Frames(frames) => Outgoing::Frames(frames),
            Next::End if self.shutdown.is_cancelled() => Outgoing::Shutdown,
            Next::End => Outgoing::Close(Close::Deleted),
            Next::Close(close) => Outgoing::Close(close),
            // The files of a deleted session go while a client that is behind reads them.
            Next::Failed(_) if self.client.cursor.is_closed() => Outgoing::Close(Close::Deleted),
            Next::Failed(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a client's records cannot be read"
                );
                Outgoing::Close(Close::Journal)
            }
        }
    }
}

impl<I: Inbox, D: Dialect> Peer for Served<I, D> {
    type Done = Result<(), String>;

    fn first(&mut self) -> (Option<String>, Option<Delivery>) {
        let early = std::mem::take(&mut self.client.early);
        (self.client.dialect.first(), deliver(&self.client.inbox, early))
    }

    async fn next(&mut self) -> Outgoing {
        let Client {
            dialect,
            cursor,
            direct,
            ..
        } = &mut self.client;
        // Both branches are cancel-safe: the dialect keeps what it took.
        tokio::select! {
            count = direct.recv_many(&mut self.news, MAX_ANSWERS), if self.is_subscribed => self.on_news(count),
            next = dialect.next(cursor) => self.on_next(next),
        }
    }

    fn received(&mut self, text: Utf8Bytes) -> Result<Taken<Self::Done>, Close> {
        let head = self.client.cursor.position();
        let Received { lines, mut answers } = self.client.dialect.received(text, head)?;
        let (lines, refused) = permitted(self.client.role, lines, &mut self.client.dialect)?;
        answers.extend(refused);
        Ok(Taken {
            answers,
            work: deliver(&self.client.inbox, lines),
        })
    }

    fn worked(&mut self, delivered: Self::Done) -> Result<Taken<Self::Done>, Close> {
        let answers = match delivered {
            Ok(()) => Vec::new(),
            Err(reason) => self.client.dialect.undelivered(&reason)?.into_iter().collect(),
        };
        Ok(Taken { answers, work: None })
    }

    fn written(&mut self) {
        self.sent = self.client.dialect.reached(self.client.cursor.position());
    }

    fn sent(&self) -> Option<u64> {
        self.client.dialect.counts().then(|| self.sent.get())
    }

    fn shutdown(&self, reconnect_after_ms: u64) -> (Option<String>, Close) {
        self.client.dialect.shutdown(reconnect_after_ms)
    }
}

/// The lines of a client that go on to the session, and what a viewer is told of those that do not.
pub(super) fn permitted<D: Dialect>(
    role: Role,
    lines: Vec<Bytes>,
    dialect: &mut D,
) -> Result<(Vec<Bytes>, Vec<String>), Close> {
    if role.covers(Role::Operator) {
        return Ok((lines, Vec::new()));
    }
    if lines.len() > MAX_FORBIDDEN {
        return Err(Close::Forbidden);
    }
    let answers = lines
        .iter()
        .filter_map(|line| dialect.forbidden(line).transpose());
    Ok((Vec::new(), answers.collect::<Result<_, _>>()?))
}

/// Hands lines over one after the other; nothing to do gives none.
pub(super) fn deliver<I: Inbox>(inbox: &I, lines: Vec<Bytes>) -> Option<Delivery> {
    if lines.is_empty() {
        return None;
    }
    let inbox = inbox.clone();
    Some(Box::pin(async move {
        for line in lines {
            inbox.line(line).await?;
        }
        Ok(())
    }))
}
