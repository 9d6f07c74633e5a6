//! Owns the Linux side: `/proc`, `prctl`, `signalfd`.

use std::{
    collections::HashMap,
    fs, io,
    os::{
        fd::AsFd,
        unix::{fs::MetadataExt as _, net::UnixStream},
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        socket::{getsockopt, sockopt},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::{Pid, SysconfVar, geteuid, getpid, getppid, sysconf},
};

use super::ProcessId;
use crate::domain::Timestamp;

/// The content of `/proc/<pid>/stat`.
pub(super) struct Stat {
    pub(super) state: u8,
    pub(super) parent: i32,
    pub(super) start_time: u64,
}

pub(super) fn stat(pid: Pid) -> io::Result<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat"))?;
    parse_stat(&text).ok_or_else(|| io::Error::other("malformed process status"))
}

/// The name in parentheses may hold anything, so fields are counted from its last closing parenthesis (proc(5)).
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let after_name = text.get(memchr::memrchr(b')', text)? + 1..)?;
    let mut fields = std::str::from_utf8(after_name).ok()?.split_ascii_whitespace();
    Some(Stat {
        state: *fields.next()?.as_bytes().first()?,
        parent: fields.next()?.parse().ok()?,
        start_time: fields.nth(17)?.parse().ok()?,
    })
}

/// When the process began, in clock ticks since boot.
pub(crate) fn start_time(pid: Pid) -> io::Result<u64> {
    stat(pid).map(|stat| stat.start_time)
}

/// Whether the process ended and only waits to be reaped.
pub(crate) fn is_zombie(pid: Pid) -> bool {
    stat(pid).is_ok_and(|stat| matches!(stat.state, b'Z' | b'X'))
}

/// Changes with every boot.
pub(crate) fn boot_id() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

/// The file descriptors that this process has open.
pub(crate) fn open_files() -> io::Result<Vec<i32>> {
    numbers("/proc/self/fd")
}

/// The processes that there are. One may end meanwhile, and then has no files.
pub(super) fn all() -> io::Result<impl Iterator<Item = Pid>> {
    Ok(numbers("/proc")?.into_iter().map(Pid::from_raw))
}

/// The names of a directory that are numbers.
fn numbers(dir: &str) -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(numbers)
}

/// Lists of processes call this one by its name: it may have been started through a link that says nothing, or something else.
pub(crate) fn take_own_name() -> io::Result<()> {
    Ok(prctl::set_name(c"trunkline")?)
}

/// From now on, what a descendant leaves behind becomes a child of this process, which has its own name.
pub(crate) fn become_keeper() -> io::Result<()> {
    take_own_name()?;
    Ok(prctl::set_child_subreaper(true)?)
}

/// Ties the calling process to its parent, `parent`: it is killed when the thread that forked it ends. Safe between fork and
/// exec.
pub(crate) fn die_with_parent(parent: Pid) -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The parent may have died before the line above.
    if getppid() == parent {
        Ok(())
    } else {
        Err(Errno::ESRCH.into())
    }
}

/// The children of this process, also those that ended and wait to be reaped.
pub(crate) fn children() -> io::Result<Vec<Pid>> {
    let me = getpid().as_raw();
    let is_child = |pid: &Pid| stat(*pid).is_ok_and(|stat| stat.parent == me);
    Ok(all()?.filter(is_child).collect())
}

/// The parent of each process.
pub(crate) fn parents() -> io::Result<HashMap<Pid, Pid>> {
    let parent = |pid| Some((pid, Pid::from_raw(stat(pid).ok()?.parent)));
    Ok(all()?.filter_map(parent).collect())
}

/// The name of a process, what it holds in memory, and its share of that; `None` when it is gone or not to be seen.
pub(crate) fn footprint(pid: Pid) -> Option<(String, u64, u64)> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let bytes = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    };
    let name = String::from_utf8_lossy(&name).trim_end().to_owned();
    Some((name, bytes("Rss:")?, bytes("Pss:")?))
}

/// The proportional set size of a process; `None` when it is gone or not to be seen.
pub(crate) fn pss_bytes(pid: Pid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// A process of this user.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// As [`start_time`].
    pub(crate) start_time: u64,
    /// The name of its program, cut short; a process can change it.
    pub(crate) name: Vec<u8>,
    /// Its arguments, the program first; a process can change them.
    pub(crate) args: Vec<Vec<u8>>,
}

/// The other processes of this user that live.
pub(crate) fn own_processes() -> io::Result<Vec<Process>> {
    let (me, user) = (getpid(), geteuid().as_raw());
    let mut found = Vec::new();
    for pid in all()? {
        let Ok(owner) = fs::metadata(format!("/proc/{pid}")).map(|meta| meta.uid()) else {
            continue;
        };
        let (Ok(stat), Ok(args)) = (stat(pid), fs::read(format!("/proc/{pid}/cmdline"))) else {
            continue;
        };
        if pid == me || owner != user || matches!(stat.state, b'Z' | b'X') {
            continue;
        }
        found.push(Process {
            pid,
            start_time: stat.start_time,
            name: fs::read(format!("/proc/{pid}/comm")).unwrap_or_default(),
            args: args.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect(),
        });
    }
    Ok(found)
}

/// The environment that a process was started with: entries that each end with a zero byte. Empty when it is gone.
pub(crate) fn environment(pid: Pid) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

/// The files that a process has open for writing.
pub(crate) fn written_files(pid: Pid) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            // The link of an open file carries its access mode (proc(5)).
            let is_written = entry.metadata().ok()?.mode() & 0o200 != 0;
            fs::read_link(entry.path()).ok().filter(|_| is_written)
        })
        .collect()
}

/// The process that holds a lock of `flock(2)` on this file, if the system says who: it must also have the file open.
pub(crate) fn lock_holder(file: &Path) -> Option<ProcessId> {
    let locked = fs::metadata(file).ok()?;
    let is_open_in = |pid: Pid| {
        fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|entries| {
            entries
                .filter_map(|entry| fs::metadata(entry.ok()?.path()).ok())
                .any(|open| (open.dev(), open.ino()) == (locked.dev(), locked.ino()))
        })
    };
    let text = fs::read_to_string("/proc/locks").ok()?;
    text.lines()
        .filter_map(|line| {
            // `1: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> 0 EOF` (proc(5)); who waits has an arrow before the kind.
            let mut fields = line.split_ascii_whitespace().skip(1);
            fields.next().filter(|kind| *kind == "FLOCK")?;
            let pid = Pid::from_raw(fields.nth(2)?.parse().ok().filter(|pid| *pid > 0)?);
            let inode = fields.next()?.rsplit(':').next()?.parse().ok();
            (inode == Some(locked.ino())).then_some(pid)
        })
        .find(|pid| *pid != getpid() && is_open_in(*pid))
        .and_then(|pid| Some((pid, start_time(pid).ok()?)))
}

/// The instant of a start time; `None` when the system does not say when it was booted.
pub(crate) fn started_at(start_time: u64) -> Option<Timestamp> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let booted: i64 = text
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    let ticks_per_second = u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok()?;
    let since_boot_ms = start_time.checked_mul(1_000)?.checked_div(ticks_per_second)?;
    Some(Timestamp::from_micros(booted.checked_mul(1_000_000)?).plus_millis(since_boot_ms))
}

/// The user at the other end of a socket.
pub(crate) fn peer_uid(socket: &UnixStream) -> io::Result<u32> {
    Ok(getsockopt(socket, sockopt::PeerCredentials)?.uid())
}

/// Reaps the next child that ended. `before` is called while its pid and group id are still its own.
pub(crate) fn reap_next(before: impl FnOnce(Pid)) -> Option<WaitStatus> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
    let pid = waitid(Id::All, flags | WaitPidFlag::WNOWAIT).ok()?.pid()?;
    before(pid);
    waitid(Id::Pid(pid), flags).ok()
}

/// Signals as a file that can be polled.
#[derive(Debug)]
pub(crate) struct Signals(SignalFd);

impl Signals {
    /// Takes over the given signals: from now on they are delivered here only.
    pub(crate) fn new(signals: &[Signal]) -> io::Result<Self> {
        let mask: SigSet = signals.iter().copied().collect();
        mask.thread_block()?;
        let file = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self(file))
    }

    /// The next signal that came, if any.
    pub(crate) fn next(&self) -> Option<Signal> {
        let info = self.0.read_signal().ok().flatten()?;
        i32::try_from(info.ssi_signo)
            .ok()
            .and_then(|number| Signal::try_from(number).ok())
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns large buffers to the system when they are freed, rather than keeping them for later ones.
pub(crate) fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        use nix::libc;
        const LARGE_BYTES: i32 = 128 << 10;
        // A fixed threshold; by default it grows with each large buffer that is freed.
        // SAFETY: `mallopt` only changes the allocator's parameters, under its lock.
        #[expect(unsafe_code, reason = "no safe binding exists")]
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
            libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BYTES);
        }
    }
}

/// Returns what is free among what is in use.
pub(crate) fn return_free_pages() {
    #[cfg(target_env = "gnu")]
    {
        use nix::libc;
        // SAFETY: `malloc_trim` takes no pointer and gives back pages that hold nothing, under the allocator's locks.
        #[expect(unsafe_code, reason = "no safe binding exists")]
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_hides_no_field() {
        let text = b"42 (a) R (b) 7 ) S 17 42 42 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 987654 1 2";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.state, stat.parent, stat.start_time), (b'S', 17, 987_654));
    }

    #[test]
    fn a_status_that_stops_short_is_no_status() {
        assert!(parse_stat(b"42 (a) S 17").is_none());
        assert!(parse_stat(b"").is_none());
    }
}
