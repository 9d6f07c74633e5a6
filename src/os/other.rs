//! Owns the side of systems that are not Linux: the least that POSIX gives.

use std::{
    collections::{HashMap, HashSet},
    io,
    io::Write as _,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
};

use nix::{
    sys::{
        signal::{SigSet, Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getppid},
};

use crate::domain::Timestamp;

/// Unknown here: 0 for every process that lives.
pub(crate) fn start_time(pid: Pid) -> io::Result<u64> {
    kill(pid, None)?;
    Ok(0)
}

/// Unknown here.
pub(crate) fn is_zombie(_pid: Pid) -> bool {
    false
}

/// Unknown here: the same for every boot.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(String::new())
}

/// The file descriptors that this process has open.
pub(crate) fn open_files() -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir("/dev/fd")? {
        numbers.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<i32>().ok()),
        );
    }
    Ok(numbers)
}

/// Its name is that of its program here.
pub(crate) fn take_own_name() -> io::Result<()> {
    Ok(())
}

/// Not to be had here.
pub(crate) fn become_keeper() -> io::Result<()> {
    Ok(())
}

/// Only checks that the parent is still there.
pub(crate) fn die_with_parent(parent: Pid) -> io::Result<()> {
    if getppid() == parent {
        Ok(())
    } else {
        Err(nix::errno::Errno::ESRCH.into())
    }
}

/// It finds nothing.
#[derive(Debug, Default)]
pub(crate) struct TreeKiller;

impl TreeKiller {
    /// Cannot be found here.
    pub(crate) fn kill(
        &mut self,
        _is_target: &dyn Fn(&[u8]) -> bool,
        _with_children: bool,
    ) -> io::Result<HashSet<ProcessId>> {
        Ok(HashSet::new())
    }
}

/// A process.
pub(crate) type ProcessId = (Pid, u64);

/// Sends a signal to a process; whether it is the same one cannot be told here.
pub(crate) fn signal_same((pid, _): ProcessId, signal: Signal) -> io::Result<()> {
    Ok(kill(pid, signal)?)
}

/// Cannot be found here.
pub(crate) fn lock_holder(_file: &std::path::Path) -> Option<ProcessId> {
    None
}

/// Cannot be found here.
pub(crate) fn children() -> io::Result<Vec<Pid>> {
    Ok(Vec::new())
}

/// Cannot be found here.
pub(crate) fn parents() -> io::Result<HashMap<Pid, Pid>> {
    Ok(HashMap::new())
}

/// Unknown here.
pub(crate) fn footprint(_pid: Pid) -> Option<(String, u64, u64)> {
    None
}

/// The proportional set size of a process; not known here.
pub(crate) fn pss_bytes(_pid: Pid) -> Option<u64> {
    None
}

/// A process of this user.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) start_time: u64,
    pub(crate) name: Vec<u8>,
    pub(crate) args: Vec<Vec<u8>>,
}

/// Cannot be found here.
pub(crate) fn own_processes() -> io::Result<Vec<Process>> {
    Ok(Vec::new())
}

/// Unknown here.
pub(crate) fn environment(_pid: Pid) -> Vec<u8> {
    Vec::new()
}

/// Unknown here.
pub(crate) fn written_files(_pid: Pid) -> Vec<PathBuf> {
    Vec::new()
}

/// Unknown here.
pub(crate) fn started_at(_start_time: u64) -> Option<Timestamp> {
    None
}

/// The user at the other end of a socket.
pub(crate) fn peer_uid(socket: &UnixStream) -> io::Result<u32> {
    Ok(nix::unistd::getpeereid(socket)?.0.as_raw())
}

/// Reaps the next child that ended. Without `waitid`, `before` is called just after.
pub(crate) fn reap_next(before: impl FnOnce(Pid)) -> Option<WaitStatus> {
    let status = waitpid(None, Some(WaitPidFlag::WNOHANG)).ok()?;
    before(status.pid()?);
    Some(status)
}

/// Signals as a file that can be polled: a thread waits for them and passes their numbers on.
#[derive(Debug)]
pub(crate) struct Signals(UnixStream);

impl Signals {
    /// Takes over the given signals: from now on they are delivered here only.
    pub(crate) fn new(signals: &[Signal]) -> io::Result<Self> {
        let mask: SigSet = signals.iter().copied().collect();
        mask.thread_block()?;
        let (mut sender, receiver) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        std::thread::Builder::new().spawn(move || {
            while let Ok(signal) = mask.wait() {
                let number = u8::try_from(signal as i32).unwrap_or_default();
                if sender.write_all(&[number]).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self(receiver))
    }

    /// The next signal that came, if any.
    pub(crate) fn next(&self) -> Option<Signal> {
        let mut number = [0];
        io::Read::read_exact(&mut &self.0, &mut number).ok()?;
        Signal::try_from(i32::from(number[0])).ok()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Left to the allocator.
pub(crate) fn return_freed_memory() {}

/// Left to the allocator.
pub(crate) fn return_free_pages() {}
