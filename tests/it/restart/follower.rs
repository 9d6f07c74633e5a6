//! Owns a client that follows a session over all lives of the daemon, as a careful one does: it comes back with the
//! number of the last record that it has. It keeps each record byte for byte.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::StreamExt as _;
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};

use crate::support::{
    daemon::TestDaemon,
    wait::{PATIENCE, wait_for},
};

/// How long a client waits before it tries again to connect.
const RETRY: Duration = Duration::from_millis(20);

/// Where the daemon is now.
#[derive(Clone, Debug)]
struct Address {
    url: String,
    token: String,
}

/// Tells followers where the daemon of the moment is.
#[derive(Debug)]
pub(crate) struct Beacon(watch::Sender<Address>);

impl Beacon {
    pub(crate) fn new(daemon: &TestDaemon) -> Self {
        Self(watch::Sender::new(address(daemon)))
    }

    /// The daemon came back.
    pub(crate) fn moved(&self, daemon: &TestDaemon) {
        self.0.send_replace(address(daemon));
    }
}

fn address(daemon: &TestDaemon) -> Address {
    Address {
        url: daemon.url().to_owned(),
        token: daemon.token().to_owned(),
    }
}

/// The client. It ends with this value.
#[derive(Debug)]
pub(crate) struct Follower {
    got: Arc<Mutex<Vec<u8>>>,
    seen: watch::Receiver<u64>,
    task: JoinSet<()>,
}

impl Follower {
    /// Follows a session from its first record on. With `restless` it leaves after so many records and comes back.
    pub(crate) fn start(beacon: &Beacon, session: &str, restless: Option<usize>) -> Self {
        let got = Arc::new(Mutex::new(Vec::new()));
        let (sender, seen) = watch::channel(0);
        let mut task = JoinSet::new();
        task.spawn(follow(
            session.to_owned(),
            beacon.0.subscribe(),
            Arc::clone(&got),
            sender,
            restless.unwrap_or(usize::MAX),
        ));
        Self { got, seen, task }
    }

    /// The number of the last record.
    pub(crate) fn seq(&self) -> u64 {
        *self.seen.borrow()
    }

    /// Everything, one record per line.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.got.lock().unwrap().clone()
    }

    /// Waits until `records` more came, at most for `limit`: one of the two decides at random where a test goes on.
    pub(crate) async fn more(&mut self, records: u64, limit: Duration) {
        let goal = self.seq() + records;
        // Too few in time is a moment like any other.
        drop(timeout(limit, self.seen.wait_for(|seq| *seq >= goal)).await);
        self.check();
    }

    /// Waits until the client has every byte of the journal, and not one more.
    pub(crate) async fn has_all_of(&mut self, daemon: &TestDaemon, session: &str) -> Vec<u8> {
        let what = format!("a client of {session} has the whole journal");
        wait_for(&what, PATIENCE, async || {
            self.check();
            // In this order: the journal may grow in between, and a client is never ahead of it.
            let got = self.bytes();
            let journal = daemon.journal(session).into_bytes();
            (got.len() >= journal.len()).then(|| {
                assert_same(&got, &journal);
                journal
            })
        })
        .await
    }

    /// Panics if the client did.
    pub(crate) fn check(&mut self) {
        if let Some(ended) = self.task.try_join_next() {
            ended.unwrap();
            panic!("a client ended");
        }
    }
}

/// Compares without printing megabytes.
pub(crate) fn assert_same(got: &[u8], journal: &[u8]) {
    if got == journal {
        return;
    }
    let at = got.iter().zip(journal).take_while(|(a, b)| a == b).count();
    let show = |bytes: &[u8]| {
        let around = at.saturating_sub(60)..bytes.len().min(at + 200);
        String::from_utf8_lossy(&bytes[around]).into_owned()
    };
    panic!(
        "{} bytes and {} in the journal differ at {at}:\n{}\n{}",
        got.len(),
        journal.len(),
        show(got),
        show(journal)
    );
}

async fn follow(
    session: String,
    mut address: watch::Receiver<Address>,
    got: Arc<Mutex<Vec<u8>>>,
    seen: watch::Sender<u64>,
    restless: usize,
) {
    loop {
        let here = address.borrow_and_update().clone();
        let after = *seen.borrow();
        let url = here.url.replacen("http", "ws", 1);
        let mut request = format!("{url}/v1/sessions/{session}/ws?after={after}")
            .into_client_request()
            .unwrap();
        let bearer = format!("Bearer {}", here.token).parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let Ok((mut socket, _)) = connect_async(request).await else {
            // The daemon is dead, or about to take over.
            let _gone = timeout(RETRY, address.changed()).await;
            continue;
        };
        let mut records = 0;
        while records < restless
            && let Some(Ok(message)) = socket.next().await
        {
            let Message::Text(text) = message else {
                continue;
            };
            let Some(rest) = text.strip_prefix(r#"{"seq":"#) else {
                continue;
            };
            let digits = rest.split(',').next().unwrap();
            let seq: u64 = digits.parse().unwrap();
            assert_eq!(seq, *seen.borrow() + 1, "lost or repeated: {text}");
            {
                let mut got = got.lock().unwrap();
                got.extend_from_slice(text.as_bytes());
                got.push(b'\n');
            }
            seen.send_replace(seq);
            records += 1;
        }
    }
}
