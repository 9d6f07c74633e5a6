//! Owns clients that follow a session over all lives of the daemon: each comes back with the number of the last record that it
//! has, and keeps what it got byte for byte, and what it was told is gone. It can be told to stall: to stay connected and read nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};

use crate::{
    journal::Journal,
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{pass, wait_for},
    },
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
    /// How often a database was lost before, and with it all keys of requests.
    pub(crate) losses: u64,
}

impl Address {
    pub(crate) fn of(daemon: &TestDaemon, losses: u64) -> Self {
        Self {
            rest: daemon.rest(),
            token: daemon.token().to_owned(),
            losses,
        }
    }
}

/// The news that a client has got.
#[derive(Debug, Default)]
struct Got {
    /// Records by their numbers.
    records: BTreeMap<u64, String>,
    /// Ranges that it was told are gone, and why.
    gaps: Vec<Gap>,
    /// The last number that it knows of.
    seen: u64,
}

#[derive(Debug)]
struct Gap {
    first: u64,
    last: u64,
    reason: String,
}

/// A client. It ends with this value.
#[derive(Debug)]
pub(crate) struct Client {
    got: Arc<Mutex<Got>>,
    stalled: watch::Sender<bool>,
    task: JoinSet<()>,
}

impl Client {
    /// Follows a session from its first record on. With `restless` it leaves after so many records and comes back.
    pub(crate) fn start(address: watch::Receiver<Address>, session: &str, restless: usize) -> Self {
        let got = Arc::new(Mutex::new(Got::default()));
        let stalled = watch::Sender::new(false);
        let mut task = JoinSet::new();
        let reader = Reader {
            session: session.to_owned(),
            address,
            got: Arc::clone(&got),
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

    /// A record as the client got it.
    pub(crate) fn record(&self, seq: u64) -> Option<String> {
        self.got.lock().unwrap().records.get(&seq).cloned()
    }

    /// Waits until the client has as much as the journal, and compares: not a byte is missing, other or too much, and what it was
    /// told is gone is. Anything beyond that is of a turn that has just begun by itself.
    pub(crate) async fn has_all_of(&mut self, journal: &Journal) -> Result<(), String> {
        wait_for("a client has caught up", CATCH_UP, async || {
            if let Some(ended) = self.task.try_join_next() {
                ended.unwrap();
                panic!("a client ended");
            }
            (self.got.lock().unwrap().seen >= journal.head).then_some(())
        })
        .await;
        self.got.lock().unwrap().fits(journal)
    }
}

impl Got {
    fn fits(&self, journal: &Journal) -> Result<(), String> {
        for gap in self.gaps.iter().filter(|gap| gap.first <= journal.head) {
            if let Some(seq) = (gap.first..=gap.last).find(|seq| !journal.is_gone(*seq, &gap.reason)) {
                return Err(format!("a client was told of {gap:?}, and record {seq} is there"));
            }
        }
        for (seq, record) in self.records.range(..=journal.head) {
            if let Some(own) = journal.record(*seq)
                && own != record
            {
                return Err(format!(
                    "record {seq} of a client and of the journal differ:\n{record:.400}\n{own:.400}"
                ));
            }
        }
        Ok(())
    }

    /// Keeps a record, or the news that some are gone; says whether it is a record. A number that is passed over in silence is a
    /// fault.
    fn take(&mut self, text: &str) -> Result<bool, String> {
        if text.starts_with(r#"{"type":"trunkline.gap""#) {
            let frame: Value = serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))?;
            let (Some(first), Some(last)) = (frame["first_seq"].as_u64(), frame["last_seq"].as_u64()) else {
                return Err(format!("a gap of nothing: {text}"));
            };
            let reason = frame["reason"].as_str().unwrap_or_default().to_owned();
            let is_on_purpose = ["compacted", "removed"].contains(&reason.as_str());
            if first != self.seen + 1 || last < first || !is_on_purpose {
                return Err(format!("after {} a gap: {text}", self.seen));
            }
            self.gaps.push(Gap { first, last, reason });
            self.seen = last;
            return Ok(false);
        }
        let Some(rest) = text.strip_prefix(r#"{"seq":"#) else {
            return Ok(false);
        };
        let seq: u64 = rest.split(',').next().unwrap().parse().unwrap();
        if seq != self.seen + 1 {
            return Err(format!("lost or repeated after {}: {text}", self.seen));
        }
        self.records.insert(seq, text.to_owned());
        self.seen = seq;
        Ok(true)
    }
}

struct Reader {
    session: String,
    address: watch::Receiver<Address>,
    got: Arc<Mutex<Got>>,
    stalled: watch::Receiver<bool>,
    restless: usize,
}

impl Reader {
    async fn follow(mut self) {
        loop {
            let here = self.address.borrow_and_update().clone();
            let url = here.rest.url().replacen("http", "ws", 1);
            let seen = self.got.lock().unwrap().seen;
            let mut request = format!("{url}/v1/sessions/{}/ws?after={seen}", self.session)
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

    fn take(&self, text: &str) -> bool {
        let taken = self.got.lock().unwrap().take(text);
        taken.unwrap_or_else(|fault| panic!("a client of {}: {fault}", self.session))
    }
}

#[test]
fn a_client_is_told_of_all_that_it_does_not_get() {
    let mut got = Got::default();
    let gap = |first: u64, last: u64, reason: &str| {
        format!(r#"{{"type":"trunkline.gap","first_seq":{first},"last_seq":{last},"reason":"{reason}"}}"#)
    };
    assert_eq!(got.take(r#"{"seq":1,"ts":""}"#), Ok(true));
    assert_eq!(got.take(&gap(2, 3, "compacted")), Ok(false));
    assert_eq!(got.take(r#"{"seq":4,"ts":""}"#), Ok(true));
    for wrong in [
        gap(5, 6, "lost"),
        gap(6, 7, "removed"),
        gap(5, 4, "removed"),
        r#"{"seq":6,"ts":""}"#.to_owned(),
        r#"{"seq":4,"ts":""}"#.to_owned(),
    ] {
        got.take(&wrong).unwrap_err();
    }
}
