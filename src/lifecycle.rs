//! Owns the end of the daemon: signals, the two tokens that announce it, and the tasks it waits for.
//!
//! The first SIGTERM or SIGINT asks (soft token); a second one shortens (hard token): nothing is waited for that can be cut
//! short. A third one, or the deadline, ends the wait. The soft token is a child of the hard one. A part of the daemon that
//! cannot go on cancels the soft token itself, which ends the daemon with a failure.

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use nix::sys::signal::{SigSet, Signal as Number, raise};
use signal_hook_registry::SigId;
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
    /// Everything ended that was to end.
    Clean,
    /// The work was done, and left something behind.
    Incomplete,
    /// The deadline or a third signal cut it short.
    Forced,
}

/// How often an end was asked for. It is counted where the system says so, and counts on when nobody waits for it any more.
#[derive(Clone, Debug)]
pub struct Requests {
    count: Arc<AtomicU32>,
    _registered: Arc<Registered>,
}

#[derive(Debug)]
struct Registered(Vec<SigId>);

impl Drop for Registered {
    fn drop(&mut self) {
        for id in self.0.drain(..) {
            signal_hook_registry::unregister(id);
        }
    }
}

impl Requests {
    fn count() -> io::Result<Self> {
        let count = Arc::new(AtomicU32::new(0));
        let mut registered = Registered(Vec::new());
        for number in ASKING {
            let count = Arc::clone(&count);
            let action = move || {
                count.fetch_add(1, Ordering::Relaxed);
            };
            // SAFETY: the action only adds to an atomic number, which is allowed in a signal handler.
            #[expect(unsafe_code, reason = "what runs in a signal handler is ours to prove")]
            let id = unsafe { signal_hook_registry::register(number as i32, action) }?;
            registered.0.push(id);
        }
        Ok(Self {
            count,
            _registered: Arc::new(registered),
        })
    }

    fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }
}

/// The signals that ask for an end.
const ASKING: [Number; 2] = [Number::SIGTERM, Number::SIGINT];

/// The tokens, the tracker and the signals of one daemon.
#[derive(Debug)]
pub struct Lifecycle {
    hard: CancellationToken,
    soft: CancellationToken,
    tracker: TaskTracker,
    terminate: Signal,
    interrupt: Signal,
    requests: Requests,
}

impl Lifecycle {
    /// Takes over SIGTERM and SIGINT. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// The system refuses a signal handler.
    pub fn new() -> io::Result<Self> {
        let hard = CancellationToken::new();
        let lifecycle = Self {
            soft: hard.child_token(),
            hard,
            tracker: TaskTracker::new(),
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            requests: Requests::count()?,
        };
        // They were held back until somebody waits for them.
        asked_to_end().thread_unblock()?;
        Ok(lifecycle)
    }

    /// Holds back the signals that ask for an end, in this thread and in those that it starts: they wait for [`Self::new`].
    /// Called before there are others, it leaves them to the one thread that calls that.
    ///
    /// # Errors
    /// The system refuses.
    pub fn hold_back() -> io::Result<()> {
        Ok(asked_to_end().thread_block()?)
    }

    /// As [`Self::hold_back`] for the program that takes the place of this one: none that came before is lost, whether or not
    /// somebody had heard of it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn hand_on(requests: &Requests) -> io::Result<()> {
        // From here on none is counted any more: what comes waits in the system.
        Self::hold_back()?;
        if requests.is_any() {
            raise(Number::SIGTERM)?;
        }
        Ok(())
    }

    /// How often an end was asked for.
    pub fn requests(&self) -> Requests {
        self.requests.clone()
    }

    /// Cancelled when the daemon should end: take no new work, finish what runs.
    pub fn soft(&self) -> CancellationToken {
        self.soft.clone()
    }

    /// Cancelled when the end must not wait for anybody.
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

    /// Runs `work` (stopping sessions, closing the store), which says whether all is done, and then waits for all tasks,
    /// together at most `deadline`. A second signal cancels the hard token and a third one ends the wait; also says how many
    /// came. The hard token is cancelled afterwards.
    pub async fn shut_down(
        mut self,
        work: impl Future<Output = bool>,
        deadline: Duration,
    ) -> (Shutdown, u32) {
        self.tracker.close();
        let mut all = pin!(async {
            let is_done = work.await;
            self.tracker.wait().await;
            is_done
        });
        let mut late = pin!(tokio::time::sleep(deadline));
        let mut signals = 0;
        let shutdown = loop {
            // Every branch is cancel-safe: the two long ones are pinned outside.
            tokio::select! {
                is_done = &mut all => break if is_done { Shutdown::Clean } else { Shutdown::Incomplete },
                () = &mut late => break Shutdown::Forced,
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            signals += 1;
            if signals > 1 {
                break Shutdown::Forced;
            }
            tracing::warn!("a second signal: nothing is waited for any more");
            self.hard.cancel();
        };
        self.hard.cancel();
        (shutdown, signals)
    }
}

fn asked_to_end() -> SigSet {
    ASKING.into_iter().collect()
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
    async fn the_first_signal_asks_the_second_hurries_and_the_third_insists() {
        let mut lifecycle = Lifecycle::new().unwrap();
        let (soft, hard) = (lifecycle.soft(), lifecycle.hard());
        raise(Number::SIGTERM);
        assert_eq!(lifecycle.wait().await, End::Asked);
        assert!(soft.is_cancelled() && !hard.is_cancelled());

        // The second signal tells those who can hurry, and is waited for; the third is not.
        let hurried = async {
            raise(Number::SIGINT);
            hard.cancelled().await;
            true
        };
        let ended = lifecycle.shut_down(hurried, Duration::from_secs(60)).await;
        assert_eq!(ended, (Shutdown::Clean, 1));

        let lifecycle = Lifecycle::new().unwrap();
        let hard = lifecycle.hard();
        let stuck = async {
            raise(Number::SIGINT);
            hard.cancelled().await;
            raise(Number::SIGTERM);
            std::future::pending().await
        };
        let ended = lifecycle.shut_down(stuck, Duration::from_secs(60)).await;
        assert_eq!(ended, (Shutdown::Forced, 2));
        assert!(hard.is_cancelled());

        let lifecycle = Lifecycle::new().unwrap();
        let tracker = lifecycle.tracker();
        let soft = lifecycle.soft();
        tracker.spawn({
            let soft = soft.clone();
            async move { soft.cancelled().await }
        });
        let work = async {
            soft.cancel();
            true
        };
        let (ended, _) = lifecycle.shut_down(work, Duration::from_secs(60)).await;
        assert_eq!(ended, Shutdown::Clean);

        let lifecycle = Lifecycle::new().unwrap();
        let (ended, _) = lifecycle
            .shut_down(async { false }, Duration::from_secs(60))
            .await;
        assert_eq!(ended, Shutdown::Incomplete);

        let mut lifecycle = Lifecycle::new().unwrap();
        lifecycle.soft().cancel();
        assert_eq!(lifecycle.wait().await, End::Broken);

        let lifecycle = Lifecycle::new().unwrap();
        lifecycle.tracker().spawn(std::future::pending::<()>());
        let (ended, _) = lifecycle
            .shut_down(async { true }, Duration::from_millis(1))
            .await;
        assert_eq!(ended, Shutdown::Forced);

        // One that comes when nobody waits for it any more is for the program that comes next.
        let lifecycle = Lifecycle::new().unwrap();
        let requests = lifecycle.requests();
        let (ended, signals) = lifecycle.shut_down(async { true }, Duration::from_secs(60)).await;
        assert_eq!((ended, signals), (Shutdown::Clean, 0));
        // It was delivered to all who waited when somebody has heard it.
        let mut heard = signal(SignalKind::interrupt()).unwrap();
        nix::sys::signal::raise(Number::SIGINT).unwrap();
        heard.recv().await.unwrap();
        Lifecycle::hand_on(&requests).unwrap();
        drop(requests);
        let mut next = Lifecycle::new().unwrap();
        assert_eq!(next.wait().await, End::Asked);
    }
}
