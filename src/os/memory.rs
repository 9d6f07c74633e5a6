//! Owns how much memory the processes of sessions take: each CLI's keeper, and everything below it. Any process that a CLI
//! leaves behind becomes a child of its keeper, so all of a session's processes are below it.

use std::{
    collections::{HashMap, HashSet},
    io,
};

use nix::unistd::Pid;

use crate::{domain::SessionId, os};

/// The memory of each session in bytes, by its CLI's process id: the proportional set size, in which what several processes
/// share counts once.
///
/// It reads the whole page tables of these processes, so call it where blocking is allowed. Only Linux can tell; elsewhere
/// there is none.
///
/// # Errors
/// The processes cannot be listed.
pub fn memory(clis: &[(SessionId, i32)]) -> io::Result<HashMap<SessionId, u64>> {
    let parents = os::parents()?;
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for (child, parent) in &parents {
        children.entry(*parent).or_default().push(*child);
    }
    let mut found = HashMap::new();
    for (session, cli) in clis {
        let cli = Pid::from_raw(*cli);
        // It ended meanwhile.
        let Some(keeper) = parents.get(&cli).filter(|keeper| keeper.as_raw() > 1) else {
            continue;
        };
        let pss = |pid: Pid| os::pss_bytes(pid).unwrap_or_default();
        found.insert(*session, tree(*keeper, &children).map(pss).sum());
    }
    Ok(found)
}

/// A process of a session, and its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Its id.
    pub pid: i32,
    /// The process that made it.
    pub parent: i32,
    /// The name of its program, cut short.
    pub name: String,
    /// The memory that it holds, including what it shares with others.
    pub rss_bytes: u64,
    /// Its share of that: what several processes share counts once in all of them together.
    pub pss_bytes: u64,
}

/// The most processes of one session that are shown.
const MOST_PROCESSES: usize = 256;

/// The processes of a session, by its CLI's process id: the keeper first, then all below it. As [`memory`].
///
/// # Errors
/// The processes cannot be listed.
pub fn processes(cli: i32) -> io::Result<Vec<ProcessMemory>> {
    let parents = os::parents()?;
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for (child, parent) in &parents {
        children.entry(*parent).or_default().push(*child);
    }
    let cli = Pid::from_raw(cli);
    let keeper = parents.get(&cli).filter(|keeper| keeper.as_raw() > 1);
    let pids = keeper.into_iter().flat_map(|keeper| tree(*keeper, &children));
    let shown = pids.take(MOST_PROCESSES).filter_map(|pid| {
        let (name, rss_bytes, pss_bytes) = os::footprint(pid)?;
        Some(ProcessMemory {
            pid: pid.as_raw(),
            parent: parents.get(&pid).map_or(0, |parent| parent.as_raw()),
            name,
            rss_bytes,
            pss_bytes,
        })
    });
    Ok(shown.collect())
}

/// A process and its descendants. Each once: the list was not made at one moment.
fn tree(root: Pid, children: &HashMap<Pid, Vec<Pid>>) -> impl Iterator<Item = Pid> {
    let (mut seen, mut left) = (HashSet::from([root]), vec![root]);
    std::iter::from_fn(move || {
        let next = left.pop()?;
        let below = children.get(&next).into_iter().flatten();
        left.extend(below.filter(|child| seen.insert(**child)));
        Some(next)
    })
}

/// From now on, has this process give large buffers back to the system when they are freed.
pub fn give_back_large_buffers() {
    os::return_freed_memory();
}

/// Gives back to the system what is free among what this process uses.
pub fn give_back_free_pages() {
    os::return_free_pages();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_each_process_once_also_when_the_list_is_mixed_up() {
        let pid = Pid::from_raw;
        let children = HashMap::from([
            (pid(1), vec![pid(2), pid(9)]),
            (pid(2), vec![pid(3), pid(4)]),
            (pid(4), vec![pid(5), pid(2)]),
        ]);
        let mut found: Vec<i32> = tree(pid(2), &children).map(Pid::as_raw).collect();
        found.sort_unstable();
        assert_eq!(found, [2, 3, 4, 5]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_is_held_is_counted() {
        let me = Pid::this();
        let before = os::pss_bytes(me).unwrap();
        let held = vec![7_u8; 32 << 20];
        let after = os::pss_bytes(me).unwrap();
        assert!(after >= before + (24 << 20), "{before} {after} {}", held[1]);
        assert!(os::parents().unwrap().contains_key(&me));
    }
}
