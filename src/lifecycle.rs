//! Owns the end of the daemon: signals, the two tokens that announce it, and the tasks it waits for.
//!
//! The first SIGTERM or SIGINT asks (soft token); a second one, or the deadline, insists (hard token). The soft token is
//! a child of the hard one. A part of the daemon that cannot go on cancels the soft token itself, which ends the
//! daemon with a failure.

use std::{io, time::Duration};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How the wait for the end went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A signal asked.
    Asked,
    /// A part of the daemon gave up.
    Broken,
}

/// How the shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Everything ended by itself.
    Clean,
    /// The deadline or a second signal cut it short.
    Forced,
}

/// The tokens, the tracker and the signals of one daemon.
#[derive(Debug)]
pub struct Lifecycle {
    hard: CancellationToken,
    soft: CancellationToken,
    tracker: TaskTracker,
    terminate: Signal,
    interrupt: Signal,
}

impl Lifecycle {
    /// Takes over SIGTERM and SIGINT. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// The system refuses a signal handler.
    pub fn new() -> io::Result<Self> {
        let hard = CancellationToken::new();
        Ok(Self {
            soft: hard.child_token(),
            hard,
            tracker: TaskTracker::new(),
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Cancelled when the daemon should end: take no new work, finish what runs.
    pub fn soft(&self) -> CancellationToken {
        self.soft.clone()
    }

    /// Cancelled when the daemon must end now.
    pub fn hard(&self) -> CancellationToken {
        self.hard.clone()
    }

    /// Every task of the daemon is spawned through this.
    pub fn tracker(&self) -> TaskTracker {
        self.tracker.clone()
    }

    /// Waits until the daemon should end. The soft token is cancelled afterwards.
    pub async fn wait(&mut self) -> End {
        let end = tokio::select! {
            () = self.soft.cancelled() => End::Broken,
            _ = self.terminate.recv() => End::Asked,
            _ = self.interrupt.recv() => End::Asked,
        };
        self.soft.cancel();
        end
    }

    /// Runs `work` (stopping sessions, closing the store) and then waits for all tasks, together at most `deadline`. A
    /// second signal ends the wait at once. The hard token is cancelled afterwards.
    pub async fn shut_down(mut self, work: impl Future<Output = ()>, deadline: Duration) -> Shutdown {
        self.tracker.close();
        let all = async {
            work.await;
            self.tracker.wait().await;
        };
        let shutdown = tokio::select! {
            () = all => Shutdown::Clean,
            () = tokio::time::sleep(deadline) => Shutdown::Forced,
            _ = self.terminate.recv() => Shutdown::Forced,
            _ = self.interrupt.recv() => Shutdown::Forced,
        };
        self.hard.cancel();
        shutdown
    }
}

#[cfg(test)]
mod tests {
    use nix::{sys::signal::Signal as Number, unistd::Pid};

    use super::*;

    fn raise(number: Number) {
        nix::sys::signal::kill(Pid::this(), number).unwrap();
    }

    // Signals reach the whole process, so their cases run one after the other in one test.
    #[tokio::test]
    async fn first_signal_asks_and_second_insists() {
        let mut lifecycle = Lifecycle::new().unwrap();
        let (soft, hard) = (lifecycle.soft(), lifecycle.hard());
        raise(Number::SIGTERM);
        assert_eq!(lifecycle.wait().await, End::Asked);
        assert!(soft.is_cancelled() && !hard.is_cancelled());

        let stuck = async {
            raise(Number::SIGINT);
            std::future::pending::<()>().await;
        };
        let shutdown = lifecycle.shut_down(stuck, Duration::from_secs(60)).await;
        assert_eq!(shutdown, Shutdown::Forced);
        assert!(hard.is_cancelled());

        let lifecycle = Lifecycle::new().unwrap();
        let tracker = lifecycle.tracker();
        let soft = lifecycle.soft();
        tracker.spawn({
            let soft = soft.clone();
            async move { soft.cancelled().await }
        });
        let work = async { soft.cancel() };
        assert_eq!(
            lifecycle.shut_down(work, Duration::from_secs(60)).await,
            Shutdown::Clean
        );

        let mut lifecycle = Lifecycle::new().unwrap();
        lifecycle.soft().cancel();
        assert_eq!(lifecycle.wait().await, End::Broken);

        let lifecycle = Lifecycle::new().unwrap();
        lifecycle.tracker().spawn(std::future::pending::<()>());
        let shutdown = lifecycle.shut_down(async {}, Duration::from_millis(1)).await;
        assert_eq!(shutdown, Shutdown::Forced);
    }
}
