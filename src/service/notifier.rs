//! Owns what the daemon tells the service manager. Nothing of it is needed to work, so a failure is logged and no more.

use std::{
    convert::Infallible,
    fmt::Write as _,
    io,
    os::unix::net::{SocketAddr, UnixDatagram as StdDatagram},
    pin::pin,
    time::Duration,
};

use futures_util::future::{Either, select};
use nix::time::{ClockId, clock_gettime};
use tokio::{
    net::UnixDatagram,
    time::{MissedTickBehavior, interval, timeout},
};

use super::{Addressee, Environment};

/// How long a service manager that is busy may delay a message.
const SEND_LIMIT: Duration = Duration::from_secs(1);

/// How often more time is asked for, and how much: a few messages may be lost.
const EXTEND_EVERY: Duration = Duration::from_secs(3);
const EXTEND_BY: Duration = Duration::from_secs(15);

/// A connection to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    main_pid: Option<u32>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Connects to the service manager that the environment names (`NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`). Must
    /// be called on a tokio runtime.
    pub fn from_env(environment: Environment<'_>, us: Addressee) -> Self {
        let Some(address) = environment("NOTIFY_SOCKET").filter(|text| !text.is_empty()) else {
            return Self::default();
        };
        let socket = match connect(&address) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, "the service manager cannot be reached, and is told nothing");
                None
            }
        };
        let is_ours = environment("WATCHDOG_PID").is_none_or(|pid| us.is_meant(&pid));
        let watchdog = environment("WATCHDOG_USEC")
            .filter(|_| is_ours && socket.is_some())
            .and_then(|text| text.trim().parse().ok())
            .filter(|micros| *micros > 0)
            .map(Duration::from_micros);
        Self {
            socket,
            main_pid: (!us.below_init).then_some(us.pid),
            watchdog,
        }
    }

    /// How long the watchdog waits for a sign of life, if it is on.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The daemon answers requests.
    pub async fn ready(&self, status: &str) {
        let mut message = format!("READY=1\nSTATUS={}", line(status));
        if let Some(pid) = self.main_pid {
            // A String takes everything.
            let _ = write!(message, "\nMAINPID={pid}");
        }
        self.send(&message).await;
    }

    /// The daemon becomes another program, and will be ready again.
    pub async fn reloading(&self, status: &str) {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from);
        let micros = now.unwrap_or_default().as_micros();
        let status = line(status);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS={status}"))
            .await;
    }

    /// The daemon begins to end.
    pub async fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={}", line(status))).await;
    }

    /// The daemon works.
    pub async fn alive(&self) {
        self.send("WATCHDOG=1").await;
    }

    /// Awaits `work`, a start or an end that has a deadline of its own, and asks for more time as long as it goes on.
    pub async fn extending<T>(&self, work: impl Future<Output = T>) -> T {
        if self.socket.is_none() {
            return work.await;
        }
        let beat = async || -> Infallible {
            let every = self
                .watchdog
                .map_or(EXTEND_EVERY, |limit| EXTEND_EVERY.min(limit / 2));
            // An interval of nothing cannot be.
            let mut ticks = interval(every.max(Duration::from_millis(1)));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                // The store, which the watchdog's probe needs, may be closed by now.
                let message = format!("EXTEND_TIMEOUT_USEC={}\nWATCHDOG=1", EXTEND_BY.as_micros());
                self.send(&message).await;
            }
        };
        match select(pin!(work), pin!(beat())).await {
            Either::Left((done, _)) => done,
            Either::Right((never, _)) => match never {},
        }
    }

    async fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        let sent = timeout(SEND_LIMIT, socket.send(message.as_bytes())).await;
        match sent {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the service manager was not told"),
            Err(_) => tracing::warn!("the service manager does not listen"),
        }
    }
}

/// A status is one line of the message.
fn line(status: &str) -> String {
    status.replace(char::is_control, " ")
}

fn connect(address: &str) -> io::Result<UnixDatagram> {
    let socket = StdDatagram::unbound()?;
    socket.connect_addr(&parse(address)?)?;
    socket.set_nonblocking(true)?;
    UnixDatagram::from_std(socket)
}

/// An absolute path, or a name without a file, which begins with `@`.
fn parse(address: &str) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = address.strip_prefix('@') {
        use std::os::linux::net::SocketAddrExt as _;
        return SocketAddr::from_abstract_name(name);
    }
    if address.starts_with('/') {
        return SocketAddr::from_pathname(address);
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "NOTIFY_SOCKET is no path",
    ))
}
