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
pub(in crate::keeper) fn start_time(pid: Pid) -> io::Result<u64> {
    kill(pid, None)?;
    Ok(0)
}

/// Unknown here.
pub(in crate::keeper) fn is_zombie(_pid: Pid) -> bool {
    false
}

/// Unknown here: the same for every boot.
pub(in crate::keeper) fn boot_id() -> io::Result<String> {
    Ok(String::new())
}

/// The file descriptors that this process has open.
pub(in crate::keeper) fn open_files() -> io::Result<Vec<i32>> {
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
pub(in crate::keeper) fn take_own_name() -> io::Result<()> {
    Ok(())
}

/// Not to be had here.
pub(in crate::keeper) fn become_keeper() -> io::Result<()> {
    Ok(())
}

/// Only checks that the parent is still there.
pub(in crate::keeper) fn die_with_parent(parent: Pid) -> io::Result<()> {
    if getppid() == parent {
        Ok(())
    } else {
        Err(nix::errno::Errno::ESRCH.into())
    }
}

/// A hunt that finds nothing.
#[derive(Debug, Default)]
pub(in crate::keeper) struct Hunt;

impl Hunt {
    /// Cannot be found here.
    pub(in crate::keeper) fn look(
        &mut self,
        _is_prey: &dyn Fn(&[u8]) -> bool,
        _with_children: bool,
    ) -> io::Result<HashSet<Quarry>> {
        Ok(HashSet::new())
    }
}

/// A process.
pub(in crate::keeper) type Quarry = (Pid, u64);

/// Sends a signal to a process; whether it is the same one cannot be told here.
pub(in crate::keeper) fn signal_same((pid, _): Quarry, signal: Signal) -> io::Result<()> {
    Ok(kill(pid, signal)?)
}

/// Cannot be found here.
pub(in crate::keeper) fn lock_holder(_file: &std::path::Path) -> Option<Quarry> {
    None
}

/// Cannot be found here.
pub(in crate::keeper) fn children() -> io::Result<Vec<Pid>> {
    Ok(Vec::new())
}

/// Cannot be found here.
pub(in crate::keeper) fn parents() -> io::Result<HashMap<Pid, Pid>> {
    Ok(HashMap::new())
}

/// Unknown here.
pub(in crate::keeper) fn footprint(_pid: Pid) -> Option<(String, u64, u64)> {
    None
}

/// The proportional set size of a process; not known here.
pub(in crate::keeper) fn pss_bytes(_pid: Pid) -> Option<u64> {
    None
}

/// A process of this user.
#[derive(Debug)]
pub(in crate::keeper) struct Process {
    pub(in crate::keeper) pid: Pid,
    pub(in crate::keeper) start_time: u64,
    pub(in crate::keeper) name: Vec<u8>,
    pub(in crate::keeper) args: Vec<Vec<u8>>,
}

/// Cannot be found here.
pub(in crate::keeper) fn own_processes() -> io::Result<Vec<Process>> {
    Ok(Vec::new())
}

/// Unknown here.
pub(in crate::keeper) fn environment(_pid: Pid) -> Vec<u8> {
    Vec::new()
}

/// Unknown here.
pub(in crate::keeper) fn written_files(_pid: Pid) -> Vec<PathBuf> {
    Vec::new()
}

/// Unknown here.
pub(in crate::keeper) fn started_at(_start_time: u64) -> Option<Timestamp> {
    None
}

/// The user at the other end of a socket.
pub(in crate::keeper) fn peer_uid(socket: &UnixStream) -> io::Result<u32> {
    Ok(nix::unistd::getpeereid(socket)?.0.as_raw())
}

/// Reaps the next child that ended. Without `waitid`, `before` is called just after.
pub(in crate::keeper) fn reap_next(before: impl FnOnce(Pid)) -> Option<WaitStatus> {
    let status = waitpid(None, Some(WaitPidFlag::WNOHANG)).ok()?;
    before(status.pid()?);
    Some(status)
}

/// Signals as a file that can be polled: a thread waits for them and passes their numbers on.
#[derive(Debug)]
pub(in crate::keeper) struct Signals(UnixStream);

impl Signals {
    /// Takes over the given signals: from now on they are delivered here only.
    pub(in crate::keeper) fn new(signals: &[Signal]) -> io::Result<Self> {
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
    pub(in crate::keeper) fn next(&self) -> Option<Signal> {
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
pub(in crate::keeper) fn return_freed_memory() {}

/// Left to the allocator.
pub(in crate::keeper) fn return_free_pages() {}
