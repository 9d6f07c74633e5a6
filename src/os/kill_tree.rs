//! Owns the killing of process trees: processes are found by what their environment says, frozen so that they fork no more, and
//! killed with all that descends from them.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    fs, io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use nix::{
    errno::Errno,
    libc,
    sys::signal::{Signal, kill},
    unistd::{Pid, getpid},
};

use super::linux::{all, start_time, stat};

/// How often the processes are listed again while each list still has new targets. A frozen process does not fork, so each list
/// can only find processes forked since the one before.
const LISTS: u32 = 50;

/// A process: a pid is used again, the pair is not.
pub(crate) type ProcessId = (Pid, u64);

/// Finds and kills processes whose environment says something. It remembers the processes of others, so that later looks are
/// quick: a process that forks and ends in turn escapes a slow one.
#[derive(Debug, Default)]
pub(crate) struct TreeKiller {
    foreign: HashMap<Pid, u64>,
}

/// A process as a list shows it.
struct Seen {
    id: ProcessId,
    parent: Pid,
    is_target: bool,
}

impl TreeKiller {
    /// Kills every process whose environment `is_target`, if wanted every child of this process, and all that descends from
    /// either. Gives those it found. Zombies are not among them: they only wait for their parent. This process and what
    /// descends from it by another way are spared.
    ///
    /// All are stopped before the first is killed: what is stopped forks no more, and remains the parent of its children, so
    /// that also those are found that carry no marker.
    pub(crate) fn kill(
        &mut self,
        is_target: &dyn Fn(&[u8]) -> bool,
        with_children: bool,
    ) -> io::Result<HashSet<ProcessId>> {
        let mut frozen = HashSet::new();
        let listed = self.freeze_all(is_target, with_children, &mut frozen);
        // Also when the last list failed: what is stopped must not stay so.
        for process in &frozen {
            // It may have ended by itself.
            if let Err(error) = signal_same(*process, Signal::SIGKILL)
                && is_out_of_files(&error)
            {
                // It was seen to be the right one when it was stopped, and what is stopped keeps its pid.
                let _ = kill(process.0, Signal::SIGKILL);
            }
        }
        listed.map(|()| frozen)
    }

    /// Lists the processes and stops the targets among them, until a list has no new targets.
    fn freeze_all(
        &mut self,
        is_target: &dyn Fn(&[u8]) -> bool,
        with_children: bool,
        frozen: &mut HashSet<ProcessId>,
    ) -> io::Result<()> {
        for _ in 0..LISTS {
            let known = frozen.len();
            let seen = self.list(is_target, with_children, frozen)?;
            freeze_descendants(&seen, frozen);
            if frozen.len() == known {
                break;
            }
        }
        Ok(())
    }

    /// Lists all processes, and stops the targets among them as it goes.
    fn list(
        &mut self,
        is_target: &dyn Fn(&[u8]) -> bool,
        with_children: bool,
        frozen: &mut HashSet<ProcessId>,
    ) -> io::Result<Vec<Seen>> {
        let me = getpid();
        let mut pids: Vec<Pid> = all()?.collect();
        // New processes come first, the newest of them at the head: each is caught before it has moved on.
        pids.sort_unstable_by_key(|pid| (self.foreign.contains_key(pid), Reverse(pid.as_raw())));
        let mut seen = Vec::with_capacity(pids.len());
        let mut foreign = HashMap::with_capacity(pids.len());
        for pid in pids {
            let stat = match stat(pid) {
                Ok(stat) => stat,
                Err(error) if is_out_of_files(&error) => return Err(error),
                // A process that ended meanwhile has no files.
                Err(_) => continue,
            };
            if pid == me || matches!(stat.state, b'Z' | b'X') {
                continue;
            }
            let process = (pid, stat.start_time);
            let is_known = self.foreign.get(&pid) == Some(&stat.start_time);
            let is_child = with_children && stat.parent == me.as_raw();
            let is_target =
                is_child || frozen.contains(&process) || (!is_known && is_target(&environment_of(pid)?));
            if is_target {
                freeze(process, frozen);
            } else {
                foreign.insert(pid, stat.start_time);
            }
            seen.push(Seen {
                id: process,
                parent: Pid::from_raw(stat.parent),
                is_target,
            });
        }
        self.foreign = foreign;
        Ok(seen)
    }
}

fn freeze_descendants(seen: &[Seen], frozen: &mut HashSet<ProcessId>) {
    let mut targets: HashSet<Pid> = seen
        .iter()
        .filter(|process| process.is_target)
        .map(|process| process.id.0)
        .collect();
    loop {
        let known = targets.len();
        for process in seen {
            if targets.contains(&process.parent) && targets.insert(process.id.0) {
                freeze(process.id, frozen);
            }
        }
        if targets.len() == known {
            return;
        }
    }
}

fn freeze(process: ProcessId, frozen: &mut HashSet<ProcessId>) {
    if frozen.contains(&process) {
        return;
    }
    match signal_same(process, Signal::SIGSTOP) {
        // Nobody knows whether it is still the same: a later look finds it again.
        Err(error) if is_out_of_files(&error) => {}
        // It may have ended by itself.
        Ok(()) | Err(_) => drop(frozen.insert(process)),
    }
}

/// The environment that a process was started with; empty when it is gone. To have no file descriptor is not to have no
/// environment.
fn environment_of(pid: Pid) -> io::Result<Vec<u8>> {
    match fs::read(format!("/proc/{pid}/environ")) {
        Err(error) if is_out_of_files(&error) => Err(error),
        read => Ok(read.unwrap_or_default()),
    }
}

/// Whether this process, or the machine, has no file descriptor to give, or no memory for one.
fn is_out_of_files(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)
    )
}

/// Sends a signal to this very process, and to no other that got its pid meanwhile.
pub(crate) fn signal_same((pid, started): ProcessId, signal: Signal) -> io::Result<()> {
    let same = || match start_time(pid) {
        Ok(time) if time == started => Ok(()),
        // To have no file descriptor is not to be gone.
        Err(error) if is_out_of_files(&error) => Err(error),
        _ => Err(io::Error::from(Errno::ESRCH)),
    };
    match open(pid) {
        Ok(process) => {
            // The descriptor is of the process that has the pid now; if that is the right one, no other can be reached by it.
            same()?;
            send(&process, signal)
        }
        // Unknown to the kernel, or refused by a sandbox.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            same()?;
            Ok(kill(pid, signal)?)
        }
        Err(error) => Err(error),
    }
}

fn open(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open(2) takes a pid and flags and touches no memory of ours.
    #[expect(unsafe_code, reason = "no safe binding exists")]
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let file = i32::try_from(opened).map_err(io::Error::other)?;
    Errno::result(file)?;
    // SAFETY: the kernel just gave this descriptor to us, and nobody else has it.
    #[expect(unsafe_code, reason = "a raw descriptor becomes an owned one")]
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

fn send(process: &OwnedFd, signal: Signal) -> io::Result<()> {
    let info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: pidfd_send_signal(2) with no info reads no memory of ours.
    #[expect(unsafe_code, reason = "no safe binding exists")]
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal as libc::c_int,
            info,
            0,
        )
    };
    Errno::result(sent)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        os::unix::process::ExitStatusExt as _,
        process::{Child, Command},
    };

    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    use super::*;

    #[test]
    fn a_process_of_another_start_is_spared() {
        let me = getpid();
        let started = start_time(me).unwrap();
        signal_same((me, started), Signal::SIGCONT).unwrap();
        let error = signal_same((me, started + 1), Signal::SIGKILL).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }

    /// A child whose environment has this entry.
    #[expect(clippy::disallowed_methods, reason = "a process to kill")]
    fn target(entry: &str) -> Child {
        let (name, value) = entry.split_once('=').unwrap();
        let child = Command::new("sleep").arg("90").env(name, value).spawn().unwrap();
        let has_entry = || {
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
            let environment = environment_of(pid).unwrap();
            environment
                .split(|byte| *byte == 0)
                .any(|it| it == entry.as_bytes())
        };
        // Until it runs its own program it shows our environment.
        while !has_entry() {
            std::thread::yield_now();
        }
        child
    }

    /// The limit of open files holds for the whole process; other tests that run in it must not notice for long.
    #[test]
    fn what_was_stopped_is_killed_also_when_no_file_can_be_opened_any_more() {
        let mut child = target("TRUNKLINE_TARGET=stopped");
        let (limit, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let is_frozen = Cell::new(false);
        let is_target = |environment: &[u8]| {
            let is_target = environment
                .split(|byte| *byte == 0)
                .any(|it| it == b"TRUNKLINE_TARGET=stopped");
            // The one after it finds out.
            if is_frozen.replace(is_frozen.get() || is_target) {
                setrlimit(Resource::RLIMIT_NOFILE, 0, most).unwrap();
            }
            is_target
        };
        let looked = TreeKiller::default().kill(&is_target, false);
        setrlimit(Resource::RLIMIT_NOFILE, limit, most).unwrap();
        let error = looked.unwrap_err();
        assert!(is_out_of_files(&error), "{error}");
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32), "{status}");
    }
}
