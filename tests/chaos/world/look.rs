//! Owns the look at everything from outside, when all is at rest.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{World, guests::Kind};
use crate::{
    checks,
    journal::Journal,
    ledger::{self, is_same},
    people,
    plan::SPARES,
    processes,
    support::wait::pass,
};

/// How long it may take until what was just killed has vanished, and what is started in advance is there.
const SETTLING: Duration = Duration::from_secs(20);

/// The last records that are not of the agent, for people.
fn notes(journal: &str) -> String {
    let notes: Vec<&str> = journal
        .lines()
        .filter(|line| !line.contains(r#""src":"cli""#) || line.contains(r#""type":"result""#))
        .collect();
    let last = notes[notes.len().saturating_sub(60)..].iter();
    last.map(|line| line.chars().take(400).collect::<String>() + "\n")
        .collect()
}

impl World {
    /// Looks at everything.
    pub(crate) async fn check(&mut self) {
        let api = self.api();
        let (logs, data) = (self.logs(), self.daemon.data_dir());
        let mut faults = Vec::new();
        let mut live = BTreeMap::new();
        let mut costs = BTreeMap::new();
        let mut totals = HashMap::<String, Vec<f64>>::new();
        let (killed, ends) = (&self.killed, self.ends);
        // Parents come before their forks.
        for session in self.sessions.iter_mut().chain(&mut self.guests) {
            let mut own = Vec::new();
            let view = api.session(&session.id).await;
            match Journal::read(&data.join("sessions").join(&session.id)) {
                Err(fault) => own.push(fault),
                Ok(journal) => {
                    let origin = match &session.kind {
                        Kind::Fork { parent } => totals.get(parent),
                        Kind::Adopted(left) => Some(&left.totals),
                        Kind::Resident | Kind::Visit => None,
                    };
                    let books = ledger::books(&journal, origin.map(Vec::as_slice));
                    session.totals.clone_from(&books.totals);
                    session.totals.extend(origin.into_iter().flatten());
                    if session.is_fake {
                        own.extend(checks::lines(&journal, &logs, killed));
                    }
                    own.extend(checks::prompts(&journal, &session.sent, killed));
                    own.extend(checks::ends(&journal, killed, session.stops + ends));
                    own.extend(checks::view(&view, &journal, &books, &mut session.cost));
                    let may_be_claimed = matches!(session.kind, Kind::Visit);
                    if journal.claims > u32::from(may_be_claimed) {
                        own.push(format!("it was claimed {} times", journal.claims));
                    }
                    if journal.claims > 0 {
                        *self.counts.entry("claimed").or_default() += 1;
                    }
                    let turns = api
                        .get(&format!("/v1/sessions/{}/turns?limit=500", session.id))
                        .await;
                    let turns = turns.expect(200);
                    assert_eq!(turns["next_cursor"], Value::Null, "more turns than a page has");
                    let turns = turns["items"].as_array().unwrap();
                    own.extend(checks::turns(turns, &view, &journal));
                    for prompt in checks::unanswered(&journal, &session.sent) {
                        own.extend(people::ask_after(&api, &session.id, prompt).await);
                    }
                    for client in &mut session.clients {
                        own.extend(client.has_exactly(&journal.bytes).await.err());
                    }
                    if let Some(run) = journal.live() {
                        let pid = view["cli"]["pid"].as_i64().unwrap_or_default();
                        live.insert(run.id.clone(), i32::try_from(pid).unwrap());
                    }
                    costs.insert(session.id.clone(), books.cost);
                    totals.insert(session.id.clone(), session.totals.clone());
                }
            }
            if let Some(last) = own.last_mut() {
                last.push_str("\nits own records:\n");
                last.push_str(&notes(&self.daemon.journal(&session.id)));
            }
            faults.extend(
                own.into_iter()
                    .map(|fault| format!("session {} ({:?}): {fault}", session.id, session.kind)),
            );
        }
        faults.extend(self.sums(&costs).await);
        faults.extend(self.processes_in_order(&live).await);
        if self.daemon.log().contains("panicked") {
            faults.push(format!("the daemon panicked:\n{}", self.daemon.log()));
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// The sums over all sessions: each is in them once, with what it costs, and nobody else is.
    async fn sums(&self, costs: &BTreeMap<String, f64>) -> Vec<String> {
        let usage = self.api().get("/v1/usage?group_by=session").await.expect(200);
        let mut faults = Vec::new();
        let mut seen = BTreeSet::new();
        for item in usage["items"].as_array().unwrap() {
            let id = item["key"].as_str().unwrap_or_default();
            let cost = item["cost_usd"].as_f64().unwrap_or(f64::NAN);
            if !costs.get(id).is_some_and(|own| is_same(*own, cost)) || !seen.insert(id) {
                faults.push(format!("the sums have {item}, and it costs {:?}", costs.get(id)));
            }
        }
        let missing = costs
            .iter()
            .filter(|(id, cost)| **cost > 0.0 && !seen.contains(id.as_str()));
        faults.extend(missing.map(|(id, cost)| format!("the sums lack session {id}, which costs {cost}")));
        faults
    }

    /// What runs is what is said to, each in one process and under its lease; and what was started in advance is no more than
    /// was to be.
    pub(super) async fn processes_in_order(&self, live: &BTreeMap<String, i32>) -> Vec<String> {
        let api = self.api();
        let until = Instant::now() + SETTLING;
        loop {
            let ready = api.get("/readyz").await.expect(200);
            let spares = self.spares();
            let found = processes::check(live, &spares);
            let mut faults = found.faults;
            let warm = &ready["warm"][0];
            if warm["starting"] != 0 || warm["ready"] != found.spares || found.spares > SPARES {
                faults.push(format!(
                    "{} processes were started in advance, marked are {spares:?}, and it shows {warm}",
                    found.spares
                ));
            }
            if spares.len() != found.spares {
                faults.push(format!("{} are marked, and {} run", spares.len(), found.spares));
            }
            if ready["live_sessions"] != live.len() {
                faults.push(format!(
                    "{} sessions live, and it shows {}",
                    live.len(),
                    ready["live_sessions"]
                ));
            }
            let held = processes::held_leases(&self.daemon.data_dir().join("leases"));
            if held != found.conversations {
                let other: Vec<_> = held.symmetric_difference(&found.conversations).collect();
                faults.push(format!(
                    "leases that nobody works under, or conversations without one: {other:?}"
                ));
            }
            if faults.is_empty() || Instant::now() >= until {
                return faults;
            }
            pass(Duration::from_millis(50)).await;
        }
    }
}
