//! Owns the duties of process 1, which a container makes of the daemon: pass signals on, and reap what lost its parent.
//!
//! They are a process of their own, and the daemon is its child. So what is reaped here is never a child of the daemon, whose
//! exits the daemon itself waits for, and signals have their usual effect on the daemon, which they do not have on process 1.

use std::{io, os::fd::AsFd as _, process::ExitCode};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, fork, getpid, setpgid},
};

use crate::os::Signals;

/// The signals that are passed on to the daemon.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// The role of this process, once the duties of process 1 are taken care of.
#[derive(Debug)]
pub enum InitRole {
    /// The daemon.
    Daemon {
        /// Whether its parent is the process 1 that it was started as.
        below_init: bool,
    },
    /// Process 1. The daemon has ended, and with this code the process shall end too.
    Ended(ExitCode),
}

/// Takes over the duties of process 1 if this process is that, and returns in a child of it as the daemon. Must be called before
/// the process has a second thread.
///
/// # Errors
/// The system refuses a process or a signal handler.
pub fn take_init_duties() -> io::Result<InitRole> {
    if getpid().as_raw() != 1 {
        return Ok(InitRole::Daemon { below_init: false });
    }
    let taken: Vec<Signal> = PASSED_ON.into_iter().chain([Signal::SIGCHLD]).collect();
    // Before there is a child, so that nothing is missed.
    let signals = Signals::new(&taken)?;
    // SAFETY: the process has one thread, so the child may do whatever its parent may.
    #[expect(unsafe_code, reason = "no safe binding exists")]
    let forked = unsafe { fork() }?;
    match forked {
        ForkResult::Child => {
            drop(signals);
            // Ctrl-C in the container's terminal reaches process 1 only, which passes it on: twice would be a second signal.
            setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
            let taken: SigSet = taken.into_iter().collect();
            taken.thread_unblock()?;
            Ok(InitRole::Daemon { below_init: true })
        }
        ForkResult::Parent { child } => serve(child, &signals).map(InitRole::Ended),
    }
}

/// Serves `daemon` until it ends. All that is left then ends with this process.
fn serve(daemon: Pid, signals: &Signals) -> io::Result<ExitCode> {
    loop {
        while let Some(signal) = signals.next() {
            if signal != Signal::SIGCHLD {
                // It is not reaped yet, so the process id is its own.
                let _ = kill(daemon, signal);
            } else if let Some(code) = reap(daemon) {
                return Ok(code);
            }
        }
        let mut waiting = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reaps all that ended; several ends may have been one signal. Gives the daemon's exit code if it was among them.
fn reap(daemon: Pid) -> Option<ExitCode> {
    let mut code = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, status)) if pid == daemon => {
                code = Some(u8::try_from(status).unwrap_or(u8::MAX));
            }
            // As shells say it.
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == daemon => {
                code = Some(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX));
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return code.map(ExitCode::from),
            Ok(_) => {}
        }
    }
}
