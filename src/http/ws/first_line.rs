//! Owns the proof of a client that can send no header: the first line of its socket. The line is read here and goes no further.

use std::{borrow::Cow, sync::Arc, time::Duration};

use axum::extract::ws::{Message, WebSocket};
use futures_util::StreamExt as _;
use serde::Deserialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::close::Close;
use crate::{auth::Shown, http::serve::Visit};

/// Connections that may wait for their first line at once.
const MOST_WAITING: usize = 32;
/// How long a client may take for its first line.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of the first line.
const MOST_BYTES: usize = 8 * 1024;
/// Most bytes that are read for it: the line in small frames.
const MOST_READ: usize = 2 * MOST_BYTES;

/// The place of one connection that has not proved itself; free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
}

/// The places of connections that have not proved themselves. Cloning gives another handle on the same.
#[derive(Clone, Debug)]
pub(in crate::http) struct Waiting(Arc<Semaphore>);

impl Default for Waiting {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_WAITING)))
    }
}

impl Waiting {
    /// A place, if one is free. A connection takes it before its upgrade is answered: the first to ask is the first to wait.
    pub(super) fn take(&self) -> Option<Place> {
        let permit = Arc::clone(&self.0).try_acquire_owned().ok()?;
        Some(Place { _permit: permit })
    }
}

/// Bounds the bytes that are read of a connection until it has shown the token.
pub(super) fn bound(visit: Option<&Arc<Visit>>) {
    if let Some(visit) = visit {
        visit.bound(MOST_READ);
    }
}

/// Reads the first line of a client and checks it: `opens` knows credentials. Gives what it opens, and the text that came behind it.
///
/// # Errors
/// The close that follows when it is not the token.
pub(super) async fn prove(
    socket: &mut WebSocket,
    opens: impl FnOnce(&str) -> Option<Shown>,
    visit: Option<&Arc<Visit>>,
    shutdown: &CancellationToken,
) -> Result<(Shown, String), Close> {
    let evicted = async {
        match visit {
            Some(visit) => visit.evicted().cancelled().await,
            None => std::future::pending().await,
        }
    };
    // The line is read in place; the others only wait.
    let text = tokio::select! {
        read = timeout(PATIENCE, first_text(socket)) => read.ok().flatten().ok_or(Close::Unproven)?,
        () = shutdown.cancelled() => return Err(Close::CutShort),
        // Another connection needs the place.
        () = evicted => return Err(Close::Unproven),
    };
    let (line, rest) = text.split_once('\n').ok_or(Close::Unproven)?;
    let shown = credential(line).and_then(|credential| opens(&credential));
    let shown = shown.ok_or(Close::Unproven)?;
    if let Some(visit) = visit {
        visit.shown();
    }
    Ok((shown, rest.to_owned()))
}

/// The text up to a first line that is whole, and the rest of its frame.
async fn first_text(socket: &mut WebSocket) -> Option<String> {
    let mut text = String::new();
    loop {
        match socket.next().await?.ok()? {
            Message::Text(piece) => text.push_str(&piece),
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Binary(_) | Message::Close(_) => return None,
        }
        match text.find('\n') {
            Some(end) if end <= MOST_BYTES => return Some(text),
            None if text.len() <= MOST_BYTES => {}
            Some(_) | None => return None,
        }
    }
}

/// Whether a line is for authentication, and so never for the session.
pub(super) fn is_auth(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    line.len() <= MOST_BYTES && serde_json::from_slice::<Typed<'_>>(line).is_ok_and(|it| it.kind == "auth")
}

/// The credential in a line for authentication.
pub(super) fn credential(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Auth<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        credential: Credential<'a>,
    }
    #[derive(Deserialize)]
    struct Credential<'a> {
        #[serde(borrow)]
        token: Cow<'a, str>,
    }
    let auth: Auth<'_> = serde_json::from_str(line).ok()?;
    (auth.kind == "auth").then(|| auth.credential.token.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_auth_line_has_a_credential() {
        let good = Some("a-token-of-thirty-two-characters");
        let line =
            |token: &str| format!(r#"{{"type":"auth","credential":{{"type":"oauth","token":"{token}"}}}}"#);
        for text in [
            "a-token-of-thirty-two-characters",
            r"a\u002dtoken-of-thirty-two-characters",
        ] {
            assert_eq!(credential(&line(text)).as_deref(), good);
        }
        for other in [
            r#"{"type":"auth"}"#.to_owned(),
            r#"{"type":"auth","credential":"a-token-of-thirty-two-characters"}"#.to_owned(),
            r#"{"type":"user","credential":{"token":"a-token-of-thirty-two-characters"}}"#.to_owned(),
            "a-token-of-thirty-two-characters".to_owned(),
        ] {
            assert_eq!(credential(&other), None, "{other}");
        }
        assert!(is_auth(br#"{"type":"auth"}"#) && !is_auth(br#"{"type":"user"}"#) && !is_auth(b"auth"));
    }
}
