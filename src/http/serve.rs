//! Owns the listening side: connections are taken until the shutdown begins.

use std::{future::IntoFuture as _, time::Duration};

use axum::serve::{Listener, ListenerExt as _};
use tokio::{
    net::{TcpListener, UnixListener},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{AppState, router};

/// How long requests that are under way at a shutdown may take. A client that does not read its answer must not hold up
/// the daemon.
pub(super) const DRAIN: Duration = Duration::from_secs(5);

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

/// As [`serve`], on a Unix socket.
///
/// # Errors
/// The listener failed.
pub async fn serve_unix(
    listener: UnixListener,
    state: AppState,
    end: CancellationToken,
) -> std::io::Result<()> {
    run(listener, state, end).await
}

async fn run<L>(listener: L, state: AppState, end: CancellationToken) -> std::io::Result<()>
where
    L: Listener,
    L::Addr: std::fmt::Debug,
{
    let serving = axum::serve(listener, router(state))
        .with_graceful_shutdown(end.clone().cancelled_owned())
        .into_future();
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
