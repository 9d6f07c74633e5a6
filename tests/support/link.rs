//! Owns a bad link in front of a daemon: it is far away, thin, and breaks by chance.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::chance::Chance;

/// The bytes that are read at once.
const PIECE: usize = 4 << 10;

/// How bad a link is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Badness {
    /// How long a byte takes one way.
    pub(crate) delay: Duration,
    /// How many bytes a second get through, each way.
    pub(crate) rate: u64,
    /// The shortest life of a connection, and by how much it may be longer, in milliseconds.
    pub(crate) life: (u64, u64),
}

/// A proxy that is such a link. It ends with the value.
pub(crate) struct Link {
    pub(crate) url: String,
    /// Bytes that came through to clients.
    down: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Link {
    /// A link to the daemon at `url`.
    pub(crate) async fn start(url: &str, badness: Badness, seed: u64) -> Self {
        let target = url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let down = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&down);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut chance = Chance::of(seed);
            let mut connections = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let life = Duration::from_millis(badness.life.0 + chance.below(badness.life.1));
                let (target, counted) = (target.clone(), Arc::clone(&counted));
                connections.spawn(async move {
                    let far = TcpStream::connect(target).await.unwrap();
                    // Both ends are dropped with the future, wherever it is.
                    let _cut = timeout(life, carry(near, far, badness, &counted)).await;
                });
            }
        });
        Self {
            url,
            down,
            _tasks: tasks,
        }
    }

    /// Bytes that came through to clients.
    pub(crate) fn carried(&self) -> u64 {
        self.down.load(Ordering::Relaxed)
    }
}

async fn carry(near: TcpStream, far: TcpStream, badness: Badness, down: &AtomicU64) {
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let up = AtomicU64::new(0);
    tokio::join!(
        one_way(near_read, far_write, badness, &up),
        one_way(far_read, near_write, badness, down),
    );
}

async fn one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    badness: Badness,
    count: &AtomicU64,
) {
    // The pieces that are on the way: as much as a second holds.
    let (sender, mut way) = mpsc::channel::<(Instant, Vec<u8>)>(16);
    let read = async move {
        loop {
            let mut piece = vec![0; PIECE];
            match from.read(&mut piece).await {
                Ok(0) | Err(_) => return,
                Ok(length) => piece.truncate(length),
            }
            if sender
                .send((Instant::now() + badness.delay, piece))
                .await
                .is_err()
            {
                return;
            }
        }
    };
    let write = async move {
        while let Some((at, piece)) = way.recv().await {
            sleep_until(at).await;
            let micros = piece.len() as u64 * 1_000_000 / badness.rate;
            sleep(Duration::from_micros(micros)).await;
            count.fetch_add(piece.len() as u64, Ordering::Relaxed);
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
