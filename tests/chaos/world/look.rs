//! Owns the look at everything from outside, when all is at rest.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
    sync::OnceLock,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{World, guests::Kind};
use crate::{
    archive, checks,
    journal::Journal,
    ledger::{self, is_same},
    marks::{self, Stored},
    people,
    plan::SPARES,
    processes,
    support::{rest::Rest, wait::pass},
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

/// The view and the journal of a session, of the same moment: a turn may begin by itself between the two.
async fn together(
    api: &Rest,
    id: &str,
    folder: &Path,
    seen: impl Fn(u64) -> Option<String> + Send + Sync,
) -> (Value, Result<Journal, String>) {
    let until = Instant::now() + SETTLING;
    loop {
        let view = api.session(id).await;
        let journal = Journal::read(folder, &seen);
        let is_whole = journal.as_ref().is_ok_and(|it| view["head_seq"] == it.head);
        let is_quiet = view["state"] != "busy" && view["state"] != "waiting";
        if (is_whole && is_quiet) || Instant::now() >= until {
            return (view, journal);
        }
        pass(Duration::from_millis(20)).await;
    }
}

impl World {
    /// Looks at everything.
    pub(crate) async fn check(&mut self) {
        let api = self.api();
        let (logs, data, archived) = (self.logs(), self.daemon.data_dir(), self.archive());
        let rows = marks::rows(&self.daemon.database());
        let mut faults = Vec::new();
        let mut live = BTreeMap::new();
        let mut totals = HashMap::<String, Vec<f64>>::new();
        let mut unjudged = BTreeSet::new();
        let (killed, ends) = (&self.killed, self.ends);
        // Parents come before their forks.
        for session in self.sessions.iter_mut().chain(&mut self.guests) {
            let mut own = Vec::new();
            let folder = data.join("sessions").join(&session.id);
            let copies = OnceLock::new();
            let seen = |seq: u64| {
                let copies = copies.get_or_init(|| archive::records(&archived, &session.id));
                let of_client = || session.clients.iter().find_map(|client| client.record(seq));
                copies.get(&seq).cloned().or_else(of_client)
            };
            let (view, journal) = together(&api, &session.id, &folder, seen).await;
            let agent = processes::agent_of(&session.id);
            let stored = Stored::find(&view, &folder, &rows, agent.as_ref());
            own.extend(session.marks.settle(&stored));
            match journal {
                Err(fault) => own.push(fault),
                Ok(journal) => {
                    let is_judged = match &session.kind {
                        Kind::Fork { parent, .. } => !unjudged.contains(parent),
                        Kind::Resident | Kind::Visit | Kind::Adopted(_) => true,
                    };
                    if journal.is_unseen || !is_judged {
                        self.story
                            .tell(format!("records of {} went before they were seen", session.id));
                        *self.counts.entry("not judged").or_default() += 1;
                        unjudged.insert(session.id.clone());
                        session.last_total = None;
                    } else {
                        let (origin, begins_at) = match &session.kind {
                            Kind::Fork { parent, begins_at } => (totals.get(parent), *begins_at),
                            Kind::Adopted(left) => (Some(&left.totals), None),
                            Kind::Resident | Kind::Visit => (None, None),
                        };
                        let books = ledger::books(&journal, origin.map(Vec::as_slice), begins_at);
                        session.last_total = books.last.map(|last| (last, view["turns"].clone()));
                        session.has_run = !journal.runs.is_empty();
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
                        own.extend(checks::gone(&journal));
                        for (prompt, seqs) in checks::known(&journal, &session.sent) {
                            own.extend(people::send_again(&api, &session.id, prompt, &seqs).await);
                        }
                        totals.insert(session.id.clone(), session.totals.clone());
                    }
                    for client in &mut session.clients {
                        own.extend(client.has_all_of(&journal).await.err());
                    }
                    if let Some(run) = journal.live() {
                        let pid = view["cli"]["pid"].as_i64().unwrap_or_default();
                        live.insert(run.id.clone(), i32::try_from(pid).unwrap());
                    }
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
        faults.extend(self.sums().await);
        faults.extend(self.processes_in_order(&live).await);
        if self.daemon.log().contains("panicked") {
            faults.push(format!("the daemon panicked:\n{}", self.daemon.log()));
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// The sums over all sessions: each is in them once, with what it costs, and nobody else is.
    async fn sums(&self) -> Vec<String> {
        let api = self.api();
        let until = Instant::now() + SETTLING;
        loop {
            let list = api.get("/v1/sessions?limit=500").await.expect(200);
            let views = list["items"].as_array().unwrap().iter();
            let mut costs: BTreeMap<_, _> = views
                .map(|view| (view["id"].as_str(), view["cost_usd"].as_f64()))
                .collect();
            let usage = api.get("/v1/usage?group_by=session").await.expect(200);
            let mut faults = Vec::new();
            for item in usage["items"].as_array().unwrap() {
                let own = costs.remove(&item["key"].as_str());
                let own = own.flatten().unwrap_or(f64::NAN);
                if !is_same(own, item["cost_usd"].as_f64().unwrap_or_default()) {
                    faults.push(format!("the sums have {item}, and it costs {own}"));
                }
            }
            costs.retain(|_, cost| *cost != Some(0.0));
            if !costs.is_empty() {
                faults.push(format!("the sums lack {costs:?}"));
            }
            // A turn may have begun by itself between the two.
            if faults.is_empty() || Instant::now() >= until {
                return faults;
            }
            pass(Duration::from_millis(50)).await;
        }
    }

    /// Exactly the processes run that should, each alone and under its lease; and no more were started in advance than were
    /// to be.
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
