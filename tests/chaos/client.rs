//! Owns clients that follow a session over all lives of the daemon: each comes back with the number of the last record that it
//! has, and keeps what it got byte for byte. It can be told to stall: to stay connected and read nothing.

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
    rest::Rest,
    wait::{pass, wait_for},
};

/// How long a client waits before it tries again to connect.
const RETRY: Duration = Duration::from_millis(50);
/// How long it may take until a client has caught up.
const CATCH_UP: Duration = Duration::from_secs(60);

/// Where the daemon of the moment is.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) rest: Rest,
    token: String,
}

impl Address {
    pub(crate) fn of(daemon: &TestDaemon) -> Self {
        Self {
            rest: daemon.rest(),
            token: daemon.token().to_owned(),
        }
    }
}

/// A client. It ends with this value.
#[derive(Debug)]
pub(crate) struct Client {
    got: Arc<Mutex<Vec<u8>>>,
    stalled: watch::Sender<bool>,
    task: JoinSet<()>,
}

impl Client {
    /// Follows a session from its first record on. With `restless` it leaves after so many records and comes back.
    pub(crate) fn start(address: watch::Receiver<Address>, session: &str, restless: usize) -> Self {
        let got = Arc::new(Mutex::new(Vec::new()));
        let stalled = watch::Sender::new(false);
        let mut task = JoinSet::new();
        let reader = Reader {
            session: session.to_owned(),
            address,
            got: Arc::clone(&got),
            seen: 0,
            stalled: stalled.subscribe(),
            restless,
        };
        task.spawn(reader.follow());
        Self { got, stalled, task }
    }

    /// `true` has it read nothing, `false` go on reading.
    pub(crate) fn stall(&self) -> watch::Sender<bool> {
        self.stalled.clone()
    }

    /// Waits until the client has as much as the journal, and compares: not a byte is missing, other or too much. What it has
    /// beyond that is of a turn that has just begun by itself.
    pub(crate) async fn has_all_of(&mut self, journal: &[u8]) -> Result<(), String> {
        wait_for("a client has caught up", CATCH_UP, async || {
            if let Some(ended) = self.task.try_join_next() {
                ended.unwrap();
                panic!("a client ended");
            }
            (self.got.lock().unwrap().len() >= journal.len()).then_some(())
        })
        .await;
        let got = self.got.lock().unwrap();
        if got.starts_with(journal) {
            return Ok(());
        }
        let at = got.iter().zip(journal).take_while(|(a, b)| a == b).count();
        let show = |bytes: &[u8]| {
            let around = at.saturating_sub(60).min(bytes.len())..bytes.len().min(at + 200);
            String::from_utf8_lossy(&bytes[around]).into_owned()
        };
        Err(format!(
            "{} bytes and {} in the journal differ at {at}:\n{}\n{}",
            got.len(),
            journal.len(),
            show(&got),
            show(journal)
        ))
    }
}

struct Reader {
    session: String,
    address: watch::Receiver<Address>,
    got: Arc<Mutex<Vec<u8>>>,
    seen: u64,
    stalled: watch::Receiver<bool>,
    restless: usize,
}

impl Reader {
    async fn follow(mut self) {
        loop {
            let here = self.address.borrow_and_update().clone();
            let url = here.rest.url().replacen("http", "ws", 1);
            let mut request = format!("{url}/v1/sessions/{}/ws?after={}", self.session, self.seen)
                .into_client_request()
                .unwrap();
            let bearer = format!("Bearer {}", here.token).parse().unwrap();
            request.headers_mut().insert("authorization", bearer);
            // A daemon that is frozen takes the connection and says nothing.
            let Ok(Ok((mut socket, _))) = timeout(Duration::from_secs(5), connect_async(request)).await
            else {
                // The daemon is dead, or about to take over.
                let _gone = timeout(RETRY, self.address.changed()).await;
                continue;
            };
            let mut records = 0;
            while records < self.restless {
                self.stalled.wait_for(|stalled| !stalled).await.unwrap();
                let Some(Ok(message)) = socket.next().await else {
                    break;
                };
                let Message::Text(text) = message else {
                    continue;
                };
                records += usize::from(self.take(&text));
            }
            pass(Duration::from_millis(1)).await;
        }
    }

    /// Keeps a record; says whether it is one.
    fn take(&mut self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix(r#"{"seq":"#) else {
            return false;
        };
        let seq: u64 = rest.split(',').next().unwrap().parse().unwrap();
        assert_eq!(seq, self.seen + 1, "lost or repeated in {}: {text}", self.session);
        let mut got = self.got.lock().unwrap();
        got.extend_from_slice(text.as_bytes());
        got.push(b'\n');
        self.seen = seq;
        true
    }
}
