//! Owns what must hold of one session at rest, by its journal, the agent's own log and what clients were told.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

use crate::{
    journal::{Journal, Run},
    ledger::{Books, is_same},
    people::Sent,
    pieces,
};

/// The most that the agent can have written and not logged when it was killed: one write of its floods.
const ONE_WRITE_LINES: usize = 4_096;

/// The kills of sessions' processes, by the ids of their runs.
#[derive(Debug, Default)]
pub(crate) struct Killed {
    pub(crate) keepers: BTreeSet<String>,
    pub(crate) agents: BTreeSet<String>,
    /// A daemon that starts ends a keeper that is frozen for too long.
    pub(crate) frozen: BTreeSet<String>,
}

/// Compares the lines that the agent says it printed with the journal: each line once and in order. With a keeper that was
/// killed goes what was in its pipe; what an agent wrote in the moment of its death may be missing in its log.
pub(crate) fn lines(journal: &Journal, logs: &Path, killed: &Killed) -> Vec<String> {
    let mut faults = Vec::new();
    for run in &journal.runs {
        let log = fs::read_to_string(logs.join(&run.id)).unwrap_or_default();
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let logged: Vec<&str> = whole.lines().collect();
        let fault = match run
            .lines
            .iter()
            .zip(&logged)
            .position(|(own, line)| !own.is(line))
        {
            Some(at) => Some(format!(
                "line {at} is not what was printed:\n  {}\n  {}",
                start(run.lines[at].text.as_deref().unwrap_or("(gone)")),
                start(logged[at])
            )),
            None if run.lines.len() < logged.len() => (!killed.keepers.contains(&run.id)).then(|| {
                format!(
                    "{} of {} lines are in the journal; then: {}",
                    run.lines.len(),
                    logged.len(),
                    start(logged[run.lines.len()])
                )
            }),
            None => {
                let more = run.lines.len() - logged.len();
                let may_be_more = run.is_over && more <= ONE_WRITE_LINES;
                (more > 0 && !may_be_more).then(|| format!("{more} lines more than were printed"))
            }
        };
        faults.extend(fault.map(|fault| format!("run {}: {fault}", run.id)));
    }
    faults
}

/// Every text that compactions took out is said by the lines that they left.
pub(crate) fn gone(journal: &Journal) -> Vec<String> {
    journal.runs.iter().flat_map(pieces::unsaid).collect()
}

/// Prompts that were answered, and so are known by their ids for ever, with the numbers of their records: the first one, which may be
/// in what was removed, and the last.
pub(crate) fn known<'a>(journal: &Journal, sent: &'a [Sent]) -> Vec<(&'a Sent, Vec<u64>)> {
    let done: BTreeSet<&str> = journal.runs.iter().flat_map(all_done).collect();
    let written = |uuid: &str| -> Vec<u64> {
        let all = journal.runs.iter().flat_map(|run| &run.prompts);
        all.filter_map(|(other, seq)| (other == uuid).then_some(*seq))
            .collect()
    };
    let mut known = sent.iter().filter_map(|prompt| {
        let is_known = prompt.taken && prompt.seq.is_some() && done.contains(prompt.uuid.as_str());
        let seqs = written(&prompt.uuid);
        (is_known && !seqs.is_empty()).then_some((prompt, seqs))
    });
    known.next().into_iter().chain(known.next_back()).collect()
}

/// Checks the fate of the prompts that were accepted: each is where the answer said, was written, and was done, or died with
/// its process. None is begun twice.
pub(crate) fn prompts(journal: &Journal, sent: &[Sent], killed: &Killed) -> Vec<String> {
    let mut faults = Vec::new();
    let done: BTreeSet<&str> = journal.runs.iter().flat_map(all_done).collect();
    let mut begun: BTreeMap<&str, u32> = BTreeMap::new();
    for run in &journal.runs {
        for (uuid, times) in &run.begun {
            *begun.entry(uuid).or_default() += times;
        }
        let mut written = BTreeSet::new();
        for (uuid, seq) in &run.prompts {
            if !written.insert(uuid) {
                faults.push(format!(
                    "prompt {uuid} is written to a process again, as record {seq}"
                ));
            }
        }
    }
    for prompt in sent.iter().filter(|prompt| prompt.taken) {
        let uuid = prompt.uuid.as_str();
        let runs: Vec<&Run> = journal
            .runs
            .iter()
            .filter(|run| run.prompts.iter().any(|(other, _)| other == uuid))
            .collect();
        match (prompt.seq, journal.runs.first()) {
            (Some(seq), _) => {
                let is_there = runs
                    .iter()
                    .any(|run| run.prompts.contains(&(uuid.to_owned(), seq)));
                if !is_there {
                    faults.push(format!("prompt {uuid} is not record {seq}, as the answer said"));
                }
            }
            // The first prompt of a session, which waits for its process.
            (None, Some(first)) if runs.is_empty() && !killed.keepers.contains(&first.id) => {
                faults.push(format!("the first prompt, {uuid}, is lost"));
            }
            (None, _) => {}
        }
        if !done.contains(uuid) && runs.last().is_some_and(|run| !run.is_over) {
            faults.push(format!("prompt {uuid} is at rest without an answer or an end"));
        }
        // A word that it was begun can be lost with a keeper.
        let lost = runs.iter().filter(|run| killed.keepers.contains(&run.id)).count();
        let times = begun.get(uuid).copied().unwrap_or_default() as usize;
        if times > 1 + lost {
            faults.push(format!("prompt {uuid} was begun {times} times"));
        }
    }
    faults
}

/// The turns that the API lists: numbered without a gap, each prompt in one of them at most, those that were answered in one, and
/// their costs are what the session costs.
pub(crate) fn turns(turns: &[Value], view: &Value, journal: &Journal) -> Vec<String> {
    let mut faults = Vec::new();
    let mut answered: BTreeMap<&str, u32> = BTreeMap::new();
    for (place, turn) in (1_u64..).zip(turns) {
        if turn["number"].as_u64() != Some(place) {
            faults.push(format!("turn {place} is not that: {turn:#}"));
        }
        for uuid in turn["prompts"].as_array().into_iter().flatten() {
            *answered.entry(uuid.as_str().unwrap_or_default()).or_default() += 1;
        }
    }
    for (uuid, times) in answered.iter().filter(|(_, times)| **times > 1) {
        let has = |turn: &&Value| turn["prompts"].to_string().contains(uuid);
        let of_prompt: Vec<&Value> = turns.iter().filter(has).collect();
        let lives: Vec<_> = journal.runs.iter().map(|run| life_of(run, uuid)).collect();
        faults.push(format!(
            "prompt {uuid} is in {times} turns: {of_prompt:?}; its runs: {lives:?}"
        ));
    }
    for run in &journal.runs {
        for uuid in run.results.iter().flat_map(answered_by) {
            if !answered.contains_key(uuid) {
                faults.push(format!("prompt {uuid} was answered and is in no turn"));
            }
        }
    }
    let sum: f64 = turns.iter().filter_map(|turn| turn["cost_usd"].as_f64()).sum();
    if (sum - view["cost_usd"].as_f64().unwrap_or(f64::NAN)).abs() > 1e-6 {
        faults.push(format!("its turns cost {sum}, and it {}", view["cost_usd"]));
    }
    faults
}

/// The life of a prompt in a run, for people.
fn life_of(run: &Run, uuid: &str) -> String {
    let written: Vec<u64> = run
        .prompts
        .iter()
        .filter_map(|(other, seq)| (other == uuid).then_some(*seq))
        .collect();
    let begun = run.begun.get(uuid).copied().unwrap_or_default();
    let is_done = run.done.iter().any(|other| other == uuid);
    format!("{}: written {written:?}, begun {begun}, done {is_done}", run.id)
}

/// Prompts that were taken and have no answer, and whose process has ended: what people are to hear of.
pub(crate) fn unanswered<'a>(journal: &Journal, sent: &'a [Sent]) -> Vec<&'a Sent> {
    let done: BTreeSet<&str> = journal.runs.iter().flat_map(all_done).collect();
    let written: BTreeSet<&str> = journal
        .runs
        .iter()
        .flat_map(|run| run.prompts.iter().map(|(uuid, _)| uuid.as_str()))
        .collect();
    let taken = sent.iter().filter(|prompt| prompt.taken);
    taken
        .filter(|prompt| !done.contains(prompt.uuid.as_str()) && written.contains(prompt.uuid.as_str()))
        .collect()
}

fn answered_by(result: &Value) -> impl Iterator<Item = &str> {
    let uuids = result["user_message_uuids"].as_array();
    uuids.into_iter().flatten().filter_map(Value::as_str)
}

fn all_done(run: &Run) -> impl Iterator<Item = &str> {
    let answered = run.results.iter().flat_map(answered_by);
    answered.chain(run.done.iter().map(String::as_str))
}

/// Why processes ended: each was killed by the test, ended by itself, or was stopped because somebody asked. `stops` is how often
/// that was.
pub(crate) fn ends(journal: &Journal, killed: &Killed, stops: usize) -> Vec<String> {
    let mut faults = Vec::new();
    let mut stopped = 0;
    for run in journal.runs.iter().filter(|run| run.is_over) {
        let killed_by_test = killed.keepers.contains(&run.id) || killed.frozen.contains(&run.id);
        if run.exit.is_null() {
            if !killed_by_test {
                faults.push(format!("run {} lost its keeper, and nobody killed it", run.id));
            }
            continue;
        }
        match run.exit["intent"].as_str() {
            Some("stop") if !run.parked => stopped += 1,
            Some("stop") => {}
            Some("none") => {
                let by_signal = run.exit["signal"].is_i64();
                if by_signal && !killed_by_test && !killed.agents.contains(&run.id) {
                    faults.push(format!("run {} was killed by nobody: {}", run.id, run.exit));
                }
            }
            _ => faults.push(format!("run {} ended for no known reason: {}", run.id, run.exit)),
        }
    }
    if stopped > stops {
        faults.push(format!(
            "it was stopped {stopped} times, and somebody asked {stops} times"
        ));
    }
    faults
}

/// The view of a session against its journal. `cost` is what it showed the last time.
pub(crate) fn view(view: &Value, journal: &Journal, books: &Books, cost: &mut f64) -> Vec<String> {
    let mut faults = Vec::new();
    if view["head_seq"].as_u64() != Some(journal.head) {
        faults.push(format!(
            "it shows record {}, the journal has {}",
            view["head_seq"], journal.head
        ));
    }
    let shown = view["cost_usd"].as_f64().unwrap_or(f64::NAN);
    if !is_same(shown, books.cost) {
        faults.push(format!("it costs {shown}, and by its journal {}", books.cost));
    }
    if let Some(spent) = books.spent
        && !is_same(shown, spent)
    {
        faults.push(format!("it costs {shown}, and the agent spent {spent}"));
    }
    faults.extend(books.faults.iter().cloned());
    if shown + 1e-9 < *cost {
        faults.push(format!("its cost fell from {cost} to {shown}"));
    }
    *cost = shown;
    let has_options = view["options"]["include_partial_messages"] == true;
    if !has_options || view["cwd"].as_str().is_none_or(str::is_empty) {
        faults.push(format!("its options or its directory are lost: {view:#}"));
    }
    let is_live = journal.live().is_some();
    let state = view["state"].as_str().unwrap_or_default();
    let fits = match state {
        "idle" => is_live && view["cli"]["pid"].is_i64(),
        "parked" | "stopped" => !is_live && view["cli"]["pid"].is_null(),
        "failed" => {
            let has_way = view["ways_out"].as_array().is_some_and(|ways| !ways.is_empty());
            !is_live && view["cli"]["pid"].is_null() && has_way && view["reason"]["code"].is_string()
        }
        _ => false,
    };
    if !fits {
        faults.push(format!(
            "a process in the journal: {is_live}, and it shows {view:#}"
        ));
    }
    faults
}

fn start(line: &str) -> String {
    line.chars().take(200).collect()
}
