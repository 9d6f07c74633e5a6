//! Owns the listening side: connections are taken until the shutdown begins.

use std::{future::IntoFuture as _, time::Duration};

use axum::serve::{Listener, ListenerExt as _};
use tokio::{
    net::{TcpListener, UnixListener},
    time::sleep,
};

use super::{AppState, router};

/// How long requests that are under way at a shutdown may take. A client that does not read its answer must not hold up
/// the daemon.
pub(super) const DRAIN: Duration = Duration::from_secs(5);

/// Serves HTTP on `listener` until the state's shutdown token is cancelled.
///
/// Plain requests that are under way then are answered, or have had their time. Sockets are told by the same token; the
/// state's tracker knows when the last one is closed.
///
/// # Errors
/// The listener failed.
pub async fn serve(listener: TcpListener, state: AppState) -> std::io::Result<()> {
    // Frames are small and every one matters now.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its send delay");
        }
    });
    run(listener, state).await
}

/// As [`serve`], on a Unix socket.
///
/// # Errors
/// The listener failed.
pub async fn serve_unix(listener: UnixListener, state: AppState) -> std::io::Result<()> {
    run(listener, state).await
}

async fn run<L>(listener: L, state: AppState) -> std::io::Result<()>
where
    L: Listener,
    L::Addr: std::fmt::Debug,
{
    let shutdown = state.shutdown().clone();
    let serving = axum::serve(listener, router(state))
        .with_graceful_shutdown(shutdown.clone().cancelled_owned())
        .into_future();
    let drained = async {
        shutdown.cancelled().await;
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
