//! Owns the listening side: connections are taken until the shutdown begins.

use std::{future::IntoFuture as _, time::Duration};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener, ListenerExt as _},
};
use nix::unistd::{Uid, geteuid};
use tokio::{
    net::{TcpListener, UnixListener},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{AppState, router};

/// How long requests that are under way at a shutdown may take. A client that does not read its answer must not hold up
/// the daemon.
pub(super) const DRAIN: Duration = Duration::from_secs(5);

/// Who is at the other end of a Unix socket, as the system knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(Option<Uid>);

impl Peer {
    /// Whether it may read whatever the daemon's own user may, the token among it.
    pub(super) fn is_our_user(self) -> bool {
        self.0.is_some_and(|user| user == geteuid() || user.is_root())
    }
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        let user = stream.io().peer_cred().map(|peer| Uid::from_raw(peer.uid()));
        Self(user.ok())
    }
}

/// Serves HTTP on `listener` until `end` is cancelled, which comes with the state's shutdown token or after it: in between new
/// work is refused.
///
/// Plain requests that are under way at the end are answered, or have had their time. Sockets are told by the shutdown token;
/// the state's tracker knows when the last one is closed.
///
/// # Errors
/// The listener failed.
pub async fn serve(listener: TcpListener, state: AppState, end: CancellationToken) -> std::io::Result<()> {
    // Frames are small and every one matters now.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its send delay");
        }
    });
    run(listener, state, end).await
}

/// As [`serve`], on a Unix socket. On one that is `private`, so that nobody else can connect, the daemon's own user needs no
/// token.
///
/// # Errors
/// The listener failed.
pub async fn serve_unix(
    listener: UnixListener,
    private: bool,
    state: AppState,
    end: CancellationToken,
) -> std::io::Result<()> {
    if !private {
        return run(listener, state, end).await;
    }
    let router = router(state).into_make_service_with_connect_info::<Peer>();
    let serving = axum::serve(listener, router)
        .with_graceful_shutdown(end.clone().cancelled_owned())
        .into_future();
    drained(serving, end).await
}

async fn run<L>(listener: L, state: AppState, end: CancellationToken) -> std::io::Result<()>
where
    L: Listener,
    L::Addr: std::fmt::Debug,
{
    let serving = axum::serve(listener, router(state))
        .with_graceful_shutdown(end.clone().cancelled_owned())
        .into_future();
    drained(serving, end).await
}

/// Serves until the end, and no longer than what is under way then may take.
async fn drained(
    serving: impl Future<Output = std::io::Result<()>>,
    end: CancellationToken,
) -> std::io::Result<()> {
    let drained = async {
        end.cancelled().await;
        sleep(DRAIN).await;
    };
    tokio::select! {
        served = serving => served,
        () = drained => {
            tracing::warn!("a client did not take its answer within the shutdown");
            Ok(())
        }
    }
}
