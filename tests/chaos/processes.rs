//! Owns the look at the processes: which are keepers and agents, whose they are, and that none is left over or double.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

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

/// An agent that has tools which are not its children any more: the keeper is their parent.
pub(crate) fn agent_with_tools() -> Option<Agent> {
    let all = proc::all();
    let tool = all.iter().find(|process| {
        process.state != 'Z'
            && process.env("TRUNKLINE_RUN").is_some()
            && !is_keeper(process)
            && !is_agent(process)
            && all
                .iter()
                .any(|parent| parent.pid == process.parent && is_keeper(parent))
    })?;
    agent_of(&tool.env("TRUNKLINE_SESSION")?)
}

/// Processes that run, and what they hold.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) faults: Vec<String>,
    /// Agents that were started in advance.
    pub(crate) spares: usize,
    /// Conversations that an agent works on.
    pub(crate) conversations: BTreeSet<String>,
}

/// Compares what runs with the runs that the journals say are live, each with the process that the API shows. A process of
/// a session in `spares` was started in advance, and nobody has asked for it.
pub(crate) fn check(live: &BTreeMap<String, i32>, spares: &BTreeSet<String>) -> Found {
    let all = proc::all();
    let mut faults = Vec::new();
    let mut spare_agents = 0;
    let mut keepers = BTreeSet::new();
    let mut conversations = BTreeMap::<String, Vec<i32>>::new();
    for process in all.iter().filter(|process| process.state != 'Z') {
        let Some(run) = process.env("TRUNKLINE_RUN") else {
            continue;
        };
        if is_keeper(process) {
            continue;
        }
        let session = process.env("TRUNKLINE_SESSION").unwrap_or_default();
        if spares.contains(&session) {
            if is_agent(process) {
                spare_agents += 1;
                keepers.insert(process.parent);
                if let Some(id) = conversation(&process.command) {
                    conversations.entry(id).or_default().push(process.pid);
                }
            }
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
    Found {
        faults,
        spares: spare_agents,
        conversations: conversations.into_keys().collect(),
    }
}

/// The leases that somebody holds, by the names of their conversations.
pub(crate) fn held_leases(dir: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(dir).unwrap().flatten();
    files
        .filter(|file| {
            let open = fs::File::open(file.path());
            open.is_ok_and(|open| matches!(open.try_lock(), Err(fs::TryLockError::WouldBlock)))
        })
        .map(|file| file.file_name().into_string().unwrap())
        .collect()
}

/// The processes that run although nothing is to run.
pub(crate) fn left() -> Vec<Process> {
    let ours = |process: &Process| is_keeper(process) || process.env("TRUNKLINE_RUN").is_some();
    let mut all = proc::all();
    all.retain(|process| process.state != 'Z' && ours(process));
    all
}

/// An agent may start itself again, for work of its own.
fn has_agent_above(all: &[Process], process: &Process) -> bool {
    let parent = all.iter().find(|other| other.pid == process.parent);
    parent.is_some_and(is_agent)
}

/// The conversation that an agent was started on. A fork names that of its parent, too.
fn conversation(command: &str) -> Option<String> {
    ["--session-id", "--resume"]
        .into_iter()
        .find_map(|flag| value_of(command, flag))
}

fn value_of(command: &str, flag: &str) -> Option<String> {
    let mut words = command.split(' ');
    let value = words.find_map(|word| word.strip_prefix(flag))?;
    match value.strip_prefix('=') {
        Some(value) => Some(value.to_owned()),
        None => words.next().map(ToOwned::to_owned),
    }
}
