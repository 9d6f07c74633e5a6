//! Owns the listening side: connections are taken until the shutdown begins.

use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use super::{AppState, router};

/// Serves HTTP on `listener` until the state's shutdown token is cancelled and plain requests are answered. Sockets are
/// told by the same token; the state's tracker knows when the last one is closed.
pub async fn serve(listener: TcpListener, state: AppState) -> std::io::Result<()> {
    let shutdown = state.shutdown().clone();
    // Frames are small and every one matters now.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its send delay");
        }
    });
    axum::serve(listener, router(state))
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
}
