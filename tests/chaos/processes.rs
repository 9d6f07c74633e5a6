//! Owns the look at the processes: which are keepers and agents, whose they are, and that none is left over or double.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::proc::{self, Process};

/// An agent process.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) pid: i32,
    pub(crate) keeper: i32,
    pub(crate) run: String,
}

fn is_agent(process: &Process) -> bool {
    process.state != 'Z'
        && process.command.contains("--input-format")
        && process.env("TRUNKLINE_RUN").is_some()
}

fn is_keeper(process: &Process) -> bool {
    process.state != 'Z' && process.command == "trunkline keeper"
}

/// The agent of a session, if it has one.
pub(crate) fn agent_of(session: &str) -> Option<Agent> {
    proc::all()
        .into_iter()
        .find(|process| is_agent(process) && process.env("TRUNKLINE_SESSION").as_deref() == Some(session))
        .map(|process| Agent {
            pid: process.pid,
            keeper: process.parent,
            run: process.env("TRUNKLINE_RUN").unwrap_or_default(),
        })
}

/// Compares what runs with the runs that the journals say are live, each with the process that the API shows.
pub(crate) fn check(live: &BTreeMap<String, i32>) -> Vec<String> {
    let all = proc::all();
    let mut faults = Vec::new();
    let mut keepers = BTreeSet::new();
    let mut conversations = BTreeMap::<String, Vec<i32>>::new();
    for process in all.iter().filter(|process| process.state != 'Z') {
        let Some(run) = process.env("TRUNKLINE_RUN") else {
            continue;
        };
        if is_keeper(process) {
            continue;
        }
        let Some(shown) = live.get(&run) else {
            faults.push(format!("left over from run {run}: {process:?}"));
            continue;
        };
        if is_agent(process) {
            if process.parent != 1 && process.pid != *shown && !has_agent_above(&all, process) {
                faults.push(format!(
                    "run {run} has process {shown}, and another one: {process:?}"
                ));
            }
            if process.pid == *shown {
                keepers.insert(process.parent);
                if let Some(id) = conversation(&process.command) {
                    conversations.entry(id).or_default().push(process.pid);
                }
            }
        }
    }
    for (run, pid) in live {
        if !proc::is_alive(*pid) {
            faults.push(format!(
                "run {run} is said to live, and its process {pid} does not"
            ));
        }
    }
    for (id, pids) in conversations.iter().filter(|(_, pids)| pids.len() > 1) {
        faults.push(format!("conversation {id} has several processes: {pids:?}"));
    }
    for process in all.iter().filter(|process| is_keeper(process)) {
        if !keepers.contains(&process.pid) {
            faults.push(format!("a keeper of nothing: {process:?}"));
        }
    }
    faults
}

/// An agent may start itself again, for work of its own.
fn has_agent_above(all: &[Process], process: &Process) -> bool {
    let parent = all.iter().find(|other| other.pid == process.parent);
    parent.is_some_and(is_agent)
}

/// The conversation that an agent was started on.
fn conversation(command: &str) -> Option<String> {
    let mut words = command.split(' ');
    while let Some(word) = words.next() {
        for flag in ["--session-id", "--resume"] {
            if let Some(value) = word.strip_prefix(flag) {
                return match value.strip_prefix('=') {
                    Some(value) => Some(value.to_owned()),
                    None => words.next().map(ToOwned::to_owned),
                };
            }
        }
    }
    None
}
