//! Owns the listening side: connections are taken until the shutdown begins.

mod refusal;
mod visit;

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::ConnectInfo,
    serve::{Listener, ListenerExt as _},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use nix::unistd::{Uid, geteuid};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

pub(super) use visit::{Strangers, Visit};

use self::visit::{Arriving, Leaving, Phase, Watched};
use super::{AppState, HttpConfig, router};

/// The most bytes of a connection that wait to be read, a request's head among them.
const MOST_BUFFERED: usize = 128 * 1024;
/// How long requests that are under way at a shutdown may take. A client that does not read its answer must not hold up
/// the daemon.
pub(super) const DRAIN: Duration = Duration::from_secs(5);

/// The user at the other end of a Unix socket, as the system knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(Option<Uid>);

impl Peer {
    /// Whether it may read whatever the daemon's own user may, the token among it.
    pub(super) fn is_our_user(self) -> bool {
        self.0.is_some_and(|user| user == geteuid() || user.is_root())
    }
}

/// Serves HTTP on `listener` until `end` is cancelled, which comes with the state's shutdown token or after it: in between new
/// work is refused.
///
/// Plain requests that are under way at the end are answered, or have had their time. Sockets are told by the shutdown token;
/// the state's tracker knows when the last one is closed.
pub async fn serve(listener: TcpListener, state: AppState, end: CancellationToken) {
    // Frames are small and every one matters now.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its send delay");
        }
    });
    run(listener, state, end, |_| None).await;
}

/// As [`serve`], on a Unix socket. On one that is `private`, so that nobody else can connect, the daemon's own user needs no
/// token.
pub async fn serve_unix(listener: UnixListener, private: bool, state: AppState, end: CancellationToken) {
    let trusted = if private { peer } else { |_: &UnixStream| None };
    run(listener, state, end, trusted).await;
}

fn peer(stream: &UnixStream) -> Option<Peer> {
    let user = stream.peer_cred().map(|peer| Uid::from_raw(peer.uid()));
    Some(Peer(user.ok()))
}

/// Takes connections until the end; what is under way then has some time left.
async fn run<L: Listener>(
    mut listener: L,
    state: AppState,
    end: CancellationToken,
    peer: impl Fn(&L::Io) -> Option<Peer>,
) {
    let router = router(state.clone());
    let mut connections = JoinSet::new();
    loop {
        // All branches only receive, and so are cancel-safe.
        tokio::select! {
            biased;
            () = end.cancelled() => break,
            Some(_) = connections.join_next() => {}
            (io, _) = listener.accept() => {
                let peer = peer(&io);
                let is_trusted = peer.is_some_and(Peer::is_our_user);
                let visit = if is_trusted {
                    Some(Strangers::trusted())
                } else {
                    state.strangers().welcome()
                };
                // One too many is closed at once.
                if let Some(visit) = visit {
                    let served = Connection { visit, peer, router: router.clone(), end: end.clone() };
                    connections.spawn(served.run(io, Patience::of(state.config())));
                }
            }
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("a client did not take its answer within the shutdown");
    }
}

/// How long a connection may do nothing.
#[derive(Clone, Copy, Debug)]
struct Patience {
    head: Duration,
    idle: Duration,
    body: Duration,
}

impl Patience {
    fn of(config: &HttpConfig) -> Self {
        Self {
            head: Duration::from_millis(config.header_timeout_ms),
            idle: Duration::from_millis(config.idle_timeout_ms),
            body: Duration::from_millis(config.body_timeout_ms),
        }
    }

    /// When a connection that does this has had its time.
    fn deadline(&self, phase: Phase) -> Option<Instant> {
        match phase {
            Phase::Head(since) => Some(since + self.head),
            Phase::Idle(since) => Some(since + self.idle),
            Phase::Work => None,
        }
    }
}

/// One connection.
struct Connection {
    visit: Arc<Visit>,
    peer: Option<Peer>,
    router: Router,
    end: CancellationToken,
}

impl Connection {
    async fn run(self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, patience: Patience) {
        let Self {
            visit,
            peer,
            router,
            end,
        } = self;
        let io = Watched::new(io, Arc::clone(&visit));
        let mut phase = visit.phase();
        let asked = Arc::clone(&visit);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let under_way = asked.begin();
            let mut request = request.map(|body| Body::new(Arriving::new(Body::new(body), patience.body)));
            request.extensions_mut().insert(Arc::clone(&asked));
            if let Some(peer) = peer {
                request.extensions_mut().insert(ConnectInfo(peer));
            }
            let answer = router.clone().oneshot(request);
            async move {
                let answer = answer.await;
                answer.map(|response| response.map(|body| Body::new(Leaving::new(body, under_way))))
            }
        });
        let served = http1::Builder::new()
            .max_buf_size(MOST_BUFFERED)
            // Deadlines are kept below.
            .header_read_timeout(None)
            .serve_connection(io, service)
            .with_upgrades();
        let mut served = pin!(served);
        let mut is_ending = false;
        loop {
            let now = *phase.borrow_and_update();
            let deadline = async {
                match patience.deadline(now) {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            // The connection is polled in place; the others only wait.
            tokio::select! {
                biased;
                // The client knows how it ended.
                _ = served.as_mut() => return,
                () = visit.evicted().cancelled() => return,
                () = end.cancelled(), if !is_ending => {
                    is_ending = true;
                    served.as_mut().graceful_shutdown();
                }
                _ = phase.changed() => {}
                // A request that has just begun is seen above.
                () = deadline => return,
            }
        }
    }
}
