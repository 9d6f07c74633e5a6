//! Owns the daemon's death at fifty random moments of flat-out and paced turns, with clients that come back.

use std::{collections::BTreeSet, time::Duration};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    restart::{
        follower::{Beacon, Follower, assert_same},
        journal,
    },
    support::{
        chance::Chance,
        daemon::TestDaemon,
        proc,
        programs::fake_prompt,
        wait::{PATIENCE, pass, wait_for},
    },
};

/// Lives of sessions, and deaths of the daemon in each.
const LIVES: u32 = 5;
const DEATHS: u32 = 10;
/// Turns that may be under way at a time.
const MOST_OPEN: usize = 3;

/// A prompt that was sent, or may have been.
struct Sent {
    uuid: String,
    text: String,
    /// In hundredths of a cent, so that sums are exact.
    cost: u64,
    lines: u64,
}

/// A session under test, with its clients.
struct Life {
    session: String,
    pid: i64,
    sent: Vec<Sent>,
    followers: Vec<Follower>,
}

impl Life {
    async fn begin(daemon: &TestDaemon, beacon: &Beacon, name: &str) -> Self {
        let rest = daemon.rest();
        let session = rest.create_ready(json!({ "cwd": daemon.work_dir(name) })).await;
        let pid = rest.session(&session).await["cli"]["pid"].as_i64().unwrap();
        let followers = [None, None, Some(700)]
            .map(|restless| Follower::start(beacon, &session, restless))
            .into();
        Self {
            session,
            pid,
            sent: Vec::new(),
            followers,
        }
    }

    /// A prompt whose turn floods flat out, or is paced.
    fn prompt(&mut self, chance: &mut Chance) -> &Sent {
        let (lines, flood) = if chance.one_in(2) {
            let lines = 500 + chance.below(2500);
            (lines, json!({ "flood": lines, "bytes": 200 + chance.below(600) }))
        } else {
            let lines = 100 + chance.below(300);
            (lines, json!({ "flood": lines, "rate": 1000, "bytes": 250 }))
        };
        let cost = 1 + chance.below(500);
        // A request of the CLI: it is answered once, whichever daemon lives then.
        let hook = json!({ "subtype": "hook_callback", "callback_id": "h", "input": {} });
        let text = fake_prompt(&json!([
            { "request": hook, "wait": false },
            flood,
            { "request": hook },
            { "text": format!("{lines} lines") },
            { "result": {}, "cost": dollars(cost) },
        ]));
        self.sent.push(Sent {
            uuid: chance.uuid(),
            text,
            cost,
            lines,
        });
        self.sent.last().unwrap()
    }

    fn body(&self, place: usize) -> Value {
        json!({ "text": self.sent[place].text, "uuid": self.sent[place].uuid })
    }

    fn path(&self) -> String {
        format!("/v1/sessions/{}/messages", self.session)
    }

    /// Clients have what the journal has, as far as they got.
    fn check_followers(&mut self, daemon: &TestDaemon) {
        for follower in &mut self.followers {
            follower.check();
            let got = follower.bytes();
            let journal = daemon.journal(&self.session).into_bytes();
            assert!(got.len() <= journal.len(), "a client has what the journal lacks");
            assert_same(&got, &journal[..got.len()]);
        }
    }

    /// Lets all turns end and compares everything.
    async fn end(mut self, daemon: &TestDaemon) {
        let rest = daemon.rest();
        let what = format!("{} turns of {}", self.sent.len(), self.session);
        let turns = wait_for(&what, PATIENCE * 2, async || {
            let turns = rest.turns(&self.session).await;
            (turns.len() >= self.sent.len()).then_some(turns)
        })
        .await;
        let view = rest.in_state(&self.session, &["idle"]).await;
        assert_eq!(view["cli"]["pid"].as_i64(), Some(self.pid), "another process");

        // The journal: nothing of the CLI is lost, nothing ran twice.
        let mut bytes = Vec::new();
        for follower in &mut self.followers {
            bytes = follower.has_all_of(daemon, &self.session).await;
        }
        let records = journal::parse(&bytes);
        let floods: Vec<u64> = journal::cli_lines(&records, "stream_event")
            .iter()
            .filter_map(|line| line["n"].as_u64())
            .collect();
        let expected: Vec<u64> = self.sent.iter().flat_map(|sent| 0..sent.lines).collect();
        assert_eq!(floods.len(), expected.len(), "lines of the floods");
        assert!(floods == expected, "lines of the floods are out of order");
        let results = journal::cli_lines(&records, "result");
        assert_eq!(results.len(), self.sent.len(), "results");
        assert_eq!(journal::own(&records, "run_started").len(), 1, "runs");
        let answers = journal::cli_lines(&records, "fake_answer");
        assert_eq!(
            answers.len(),
            2 * self.sent.len(),
            "each request is answered once"
        );
        assert!(answers.iter().all(|answer| answer["expected"] == true));

        // The books.
        assert_eq!(turns.len(), self.sent.len(), "{turns:#?}");
        let answered: Vec<_> = turns.iter().map(|turn| turn["prompts"].clone()).collect();
        let expected: Vec<_> = self.sent.iter().map(|sent| json!([sent.uuid])).collect();
        assert_eq!(answered, expected);
        let mut seqs = BTreeSet::new();
        for (turn, sent) in turns.iter().zip(&self.sent) {
            let cost = turn["cost_usd"].as_f64().unwrap();
            assert!((cost - dollars(sent.cost)).abs() < 1e-9, "{turn:#}");
            assert!(seqs.insert(turn["last_seq"].as_u64()), "booked twice: {turn:#}");
        }
        let all: u64 = self.sent.iter().map(|sent| sent.cost).sum();
        let total = view["cost_usd"].as_f64().unwrap();
        assert!(
            (total - dollars(all)).abs() < 1e-9,
            "{total} is not {}",
            dollars(all)
        );
        assert_eq!(view["turns"].as_u64(), Some(self.sent.len() as u64));
        rest.lifecycle(&self.session, "stop", json!({})).await.expect(200);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred")]
fn dollars(cost: u64) -> f64 {
    cost as f64 / 10_000.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_deaths_lose_nothing_and_repeat_nothing() {
    let mut chance = Chance::new();
    let mut daemon = TestDaemon::with_fake()
        .fake(json!({ "merge": false }))
        .start()
        .await;
    let beacon = Beacon::new(&daemon);
    for life in 0..LIVES {
        let mut life = Life::begin(&daemon, &beacon, &format!("life-{life}")).await;
        for _ in 0..DEATHS {
            die_once(&mut daemon, &beacon, &mut life, &mut chance).await;
        }
        life.end(&daemon).await;
    }
}

async fn die_once(daemon: &mut TestDaemon, beacon: &Beacon, life: &mut Life, chance: &mut Chance) {
    let rest = daemon.rest();
    let view = rest.session(&life.session).await;
    let open = life.sent.len() - usize::try_from(view["turns"].as_u64().unwrap()).unwrap();
    let mut posting = JoinSet::new();
    if open < MOST_OPEN {
        life.prompt(chance);
        let body = life.body(life.sent.len() - 1);
        if chance.one_in(4) {
            // Whether it was taken nobody knows: the daemon may die before the answer.
            let request = rest.builder(Method::POST, &life.path()).json(&body);
            posting.spawn(async move { request.send().await.is_ok() });
            pass(chance.moment(6)).await;
        } else {
            let reply = rest.post(&life.path(), body).await.expect(202);
            assert_eq!(reply["repeated"], false);
        }
    }
    if posting.is_empty() {
        if chance.one_in(2) {
            let records = 1 + chance.below(1500);
            life.followers[0].more(records, Duration::from_millis(200)).await;
        } else {
            pass(chance.moment(120)).await;
        }
    }

    daemon.kill();
    life.check_followers(daemon);
    if chance.one_in(4) {
        // It also dies while it takes over.
        daemon.launch();
        pass(chance.moment(250)).await;
        daemon.kill();
    }
    daemon.start().await;
    beacon.moved(daemon);
    posting.join_all().await;

    let rest = daemon.rest();
    let view = rest.session(&life.session).await;
    assert_eq!(view["cli"]["pid"].as_i64(), Some(life.pid), "{view:#}");
    assert!(proc::is_alive(i32::try_from(life.pid).unwrap()));
    // The client never saw the answer, or cannot be sure: it says it all again.
    let body = life.body(life.sent.len() - 1);
    rest.post(&life.path(), body).await.expect(202);
}
