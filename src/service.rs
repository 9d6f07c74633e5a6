//! Owns the talk with the service manager that started the daemon: systemd, or another that speaks its protocols (`sd_notify(3)`,
//! `sd_listen_fds(3)`). Without one, everything here does nothing.

mod handover;
mod notifier;
mod sockets;
mod watchdog;

pub use handover::{HANDOVER, Inherited, REPLACED, hand_over, inherited};
pub use notifier::Notifier;
pub use sockets::{Passed, SocketError, passed};
pub use watchdog::feed;

/// Looks up a variable of the environment.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Which process the service manager may mean when it speaks to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressee {
    /// The daemon's own process id.
    pub pid: u32,
    /// Whether the daemon runs below the process 1 that it was started as. Then what is meant for process 1 is meant for the
    /// daemon, and its own id says nothing outside of the container.
    pub below_init: bool,
}

impl Addressee {
    /// Whether `pid`, as a variable has it, is this process.
    fn is_meant(self, pid: &str) -> bool {
        pid.trim()
            .parse()
            .is_ok_and(|pid: u32| pid == self.pid || (self.below_init && pid == 1))
    }
}
