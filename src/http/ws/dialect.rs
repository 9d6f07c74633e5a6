//! Owns the part of a socket in which the sub-protocols differ: how records and news become frames, and frames become lines.

use std::future::Future;

use axum::{
    body::Bytes,
    extract::ws::{Message, Utf8Bytes},
};

use super::close::Close;
use crate::{
    domain::Seq,
    journal::{Cursor, ReadError},
    session::ClientFrame,
};

/// Most bytes of records that are taken from the cursor at once.
pub(super) const BATCH_BYTES: usize = 256 * 1024;

/// A sub-protocol, as one client speaks it.
pub(super) trait Dialect: Send {
    /// The first frame, if there is one.
    fn first(&mut self) -> Option<String>;

    /// The next records as frames. It waits while there are none.
    ///
    /// CANCEL-SAFETY: what was taken from the cursor and not returned is kept.
    fn next(&mut self, cursor: &mut Cursor) -> impl Future<Output = Next> + Send;

    /// The lines in a frame of the client that are for the session. `head` is the newest record that was taken.
    ///
    /// # Errors
    /// The close that the frame leads to.
    fn received(&mut self, text: Utf8Bytes, head: Seq) -> Result<Received, Close>;

    /// A line of a client that may only look. It goes nowhere; the answer tells the client so.
    ///
    /// # Errors
    /// The close that the line leads to.
    fn forbidden(&mut self, line: &[u8]) -> Result<Option<String>, Close>;

    /// News for this client alone.
    ///
    /// # Errors
    /// The close that they lead to.
    fn direct(&mut self, frame: ClientFrame) -> Result<Option<String>, Close>;

    /// A line could not be given to the session, which is gone.
    ///
    /// # Errors
    /// The close that this leads to.
    fn undelivered(&mut self, reason: &str) -> Result<Option<String>, Close>;

    /// The end that the daemon's end is for the client, and the frame before it.
    fn shutdown(&self, reconnect_after_ms: u64) -> (Option<String>, Close);

    /// Whether the client counts records, and can go on after one.
    fn counts(&self) -> bool;

    /// The last record that the client was given, or needs not to be, where its cursor is at `position`.
    fn reached(&self, position: Seq) -> Seq {
        position
    }
}

/// The next step for a client.
#[derive(Debug)]
pub(super) enum Next {
    /// Frames.
    Frames(Vec<Message>),
    /// The feed is closed.
    End,
    /// The journal cannot be read.
    Failed(ReadError),
    /// The connection is to be closed.
    Close(Close),
}

/// The lines in a frame of a client.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Lines for the session.
    pub(super) lines: Vec<Bytes>,
    /// Frames that answer the others.
    pub(super) answers: Vec<String>,
}
