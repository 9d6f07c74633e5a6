//! Owns how many processes there may be and how many may start at a time: places, and the queue that starts wait in.

use std::{
    collections::{HashMap, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, oneshot};

use crate::domain::{ErrorCode, SessionId};

/// The most of everything; 0 is no limit for `live_per_cwd` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions with a process, or one that is about to start.
    pub live: usize,
    /// Those of them that share one working directory; 0 = as many as may live.
    pub live_per_cwd: usize,
    /// Processes that start at the same time: from their spawn until they are ready or gone.
    pub starts: usize,
    /// Starts that wait for their turn.
    pub waiting: usize,
}

/// Why a process may not be started now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// So many sessions have a process already.
    #[error("{most} sessions have a process, which is the limit")]
    Live {
        /// The limit.
        most: usize,
    },
    /// So many sessions have a process in this directory already.
    #[error("{most} sessions have a process in this directory, which is the limit")]
    LivePerCwd {
        /// The limit.
        most: usize,
    },
    /// So many starts wait already.
    #[error("{most} starts wait already, which is the limit")]
    Waiting {
        /// The limit.
        most: usize,
    },
}

impl Refusal {
    /// Room is made by other sessions, so a moment later is soon enough.
    pub const RETRY_AFTER_MS: u64 = 5_000;

    /// The code of the fault.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Live { .. } | Self::LivePerCwd { .. } => ErrorCode::TooManySessions,
            Self::Waiting { .. } => ErrorCode::StartQueueFull,
        }
    }
}

/// Gives out places; clones are the same.
#[derive(Clone, Debug)]
pub struct Admission {
    limits: Limits,
    shared: Arc<Mutex<Shared>>,
    /// Told when a place or a turn was given back.
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Shared {
    live: usize,
    live_per_cwd: HashMap<PathBuf, usize>,
    starting: usize,
    /// The daemon ends: nothing that waits is called any more.
    closed: bool,
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
    next_number: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    session: SessionId,
    call: oneshot::Sender<()>,
}

/// The right to have a process; given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    admission: Admission,
    cwd: PathBuf,
}

/// The right to start a process, now or once it is called; given back when it is dropped.
#[derive(Debug)]
pub struct StartTurn {
    admission: Admission,
    number: u64,
    /// Set while it waits.
    called: Option<oneshot::Receiver<()>>,
}

/// The permits of a start.
#[derive(Debug)]
pub struct Admitted {
    /// Kept until the process is gone.
    pub place: Place,
    /// Kept until it is ready.
    pub turn: StartTurn,
}

impl Admission {
    /// With nobody in.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            shared: Arc::default(),
            freed: Arc::default(),
        }
    }

    /// A place and a turn for a process of `session` in `cwd`.
    ///
    /// # Errors
    /// See [`Refusal`]; then nothing was taken.
    pub fn admit(&self, session: SessionId, cwd: &Path) -> Result<Admitted, Refusal> {
        let mut shared = self.shared();
        if let Some(refusal) = self.refusal(&shared, cwd) {
            return Err(refusal);
        }
        Ok(Admitted {
            place: self.take_place(&mut shared, cwd),
            turn: self.take_turn(&mut shared, session),
        })
    }

    /// As [`Self::admit`] for a process that nobody has asked for: it takes room that nobody else wants just now, begins at
    /// once or not at all, and never while another start is under way.
    pub fn admit_spare(&self, session: SessionId, cwd: &Path) -> Option<Admitted> {
        let mut shared = self.shared();
        if shared.starting > 0 || self.refusal(&shared, cwd).is_some() {
            return None;
        }
        Some(Admitted {
            place: self.take_place(&mut shared, cwd),
            turn: self.take_turn(&mut shared, session),
        })
    }

    /// Waits until room may have become free since the last time. For one who waits.
    ///
    /// CANCEL-SAFETY: what was not waited for is found by the next wait.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    /// As [`Self::admit`] for a start that an earlier daemon has admitted: it is never refused, but it may have to wait.
    pub fn admit_again(&self, session: SessionId, cwd: &Path) -> Admitted {
        let mut shared = self.shared();
        Admitted {
            place: self.take_place(&mut shared, cwd),
            turn: self.take_turn(&mut shared, session),
        }
    }

    /// A place for a process that lives already.
    pub fn adopt(&self, cwd: &Path) -> Place {
        self.take_place(&mut self.shared(), cwd)
    }

    /// Calls nobody any more: what waits is left to the next daemon.
    pub fn close(&self) {
        self.shared().closed = true;
    }

    /// The place of a session among the starts that wait, from 1.
    pub fn position(&self, session: SessionId) -> Option<usize> {
        let shared = self.shared();
        let place = shared.waiting.iter().position(|it| it.session == session)?;
        Some(place + 1)
    }

    /// Why a process in `cwd` may not be started now.
    fn refusal(&self, shared: &Shared, cwd: &Path) -> Option<Refusal> {
        let Limits {
            live,
            live_per_cwd,
            starts,
            waiting,
        } = self.limits;
        let here = shared.live_per_cwd.get(cwd).copied().unwrap_or_default();
        if shared.live >= live {
            Some(Refusal::Live { most: live })
        } else if live_per_cwd > 0 && here >= live_per_cwd {
            Some(Refusal::LivePerCwd { most: live_per_cwd })
        } else if shared.starting >= starts && shared.waiting.len() >= waiting {
            Some(Refusal::Waiting { most: waiting })
        } else {
            None
        }
    }

    fn take_place(&self, shared: &mut Shared, cwd: &Path) -> Place {
        shared.live += 1;
        *shared.live_per_cwd.entry(cwd.to_owned()).or_default() += 1;
        Place {
            admission: self.clone(),
            cwd: cwd.to_owned(),
        }
    }

    fn take_turn(&self, shared: &mut Shared, session: SessionId) -> StartTurn {
        let number = shared.next_number;
        shared.next_number += 1;
        let called = if shared.starting < self.limits.starts {
            shared.starting += 1;
            None
        } else {
            let (call, called) = oneshot::channel();
            shared.waiting.push_back(Waiting {
                number,
                session,
                call,
            });
            Some(called)
        };
        StartTurn {
            admission: self.clone(),
            number,
            called,
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The turn of a process that is getting ready already. There may be more of them than may start.
    pub fn start_turn(&self) -> StartTurn {
        let admission = self.admission.clone();
        let number = {
            let mut shared = admission.shared();
            shared.starting += 1;
            shared.next_number += 1;
            shared.next_number - 1
        };
        StartTurn {
            admission,
            number,
            called: None,
        }
    }
}

impl StartTurn {
    /// Whether the process may be started now.
    pub fn is_called(&self) -> bool {
        self.called.is_none()
    }

    /// Waits until the process may be started.
    ///
    /// CANCEL-SAFETY: a call that was not waited for is found by the next wait.
    pub async fn called(&mut self) {
        if let Some(called) = &mut self.called {
            // The other end goes away only with a call: it is in the queue for as long as this waits.
            called.await.ok();
            self.called = None;
        }
    }
}

impl Drop for StartTurn {
    fn drop(&mut self) {
        let mut shared = self.admission.shared();
        let number = self.number;
        if let Some(place) = shared.waiting.iter().position(|it| it.number == number) {
            shared.waiting.remove(place);
            return;
        }
        // It was called, whether or not it knows. While more starts run than the limit allows (after a start of the daemon),
        // the place goes to nobody.
        if shared.closed || shared.starting > self.admission.limits.starts {
            shared.starting -= 1;
            return;
        }
        match shared.waiting.pop_front() {
            // The other end is held by a turn, which leaves the queue before it goes.
            Some(next) => drop(next.call.send(())),
            None => {
                shared.starting -= 1;
                self.admission.freed.notify_one();
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut shared = self.admission.shared();
        shared.live -= 1;
        if let Some(here) = shared.live_per_cwd.get_mut(&self.cwd) {
            *here -= 1;
            if *here == 0 {
                shared.live_per_cwd.remove(&self.cwd);
            }
        }
        self.admission.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMITS: Limits = Limits {
        live: usize::MAX,
        live_per_cwd: 0,
        starts: usize::MAX,
        waiting: usize::MAX,
    };

    fn admit(admission: &Admission) -> Result<Admitted, Refusal> {
        admission.admit(SessionId::new(), Path::new("/a"))
    }

    #[test]
    fn a_place_is_free_again_once_it_is_dropped() {
        let admission = Admission::new(Limits { live: 2, ..NO_LIMITS });
        let (_first, second) = (admit(&admission).unwrap(), admit(&admission).unwrap());
        assert_eq!(admit(&admission).unwrap_err(), Refusal::Live { most: 2 });
        // A turn that is over frees no place.
        drop(second.turn);
        assert_eq!(admit(&admission).unwrap_err(), Refusal::Live { most: 2 });
        drop(second.place);
        admit(&admission).unwrap();
    }

    #[test]
    fn what_lives_already_counts_and_is_not_refused() {
        let admission = Admission::new(Limits { live: 1, ..NO_LIMITS });
        let _one = admission.adopt(Path::new("/a"));
        let _two = admission.adopt(Path::new("/a"));
        assert_eq!(admit(&admission).unwrap_err(), Refusal::Live { most: 1 });
    }

    #[test]
    fn directories_are_counted_apart() {
        let admission = Admission::new(Limits {
            live_per_cwd: 1,
            ..NO_LIMITS
        });
        let first = admit(&admission).unwrap();
        assert_eq!(admit(&admission).unwrap_err(), Refusal::LivePerCwd { most: 1 });
        admission.admit(SessionId::new(), Path::new("/b")).unwrap();
        drop(first);
        admit(&admission).unwrap();
    }

    #[test]
    fn starts_come_in_their_order_and_the_queue_has_an_end() {
        let admission = Admission::new(Limits {
            starts: 1,
            waiting: 2,
            ..NO_LIMITS
        });
        let first = admit(&admission).unwrap();
        let (second, third) = (SessionId::new(), SessionId::new());
        let mut waits = admission.admit(second, Path::new("/a")).unwrap();
        let mut waits_longer = admission.admit(third, Path::new("/a")).unwrap();
        assert_eq!(admit(&admission).unwrap_err(), Refusal::Waiting { most: 2 });
        assert!(first.turn.is_called() && !waits.turn.is_called());
        assert_eq!(
            (admission.position(second), admission.position(third)),
            (Some(1), Some(2))
        );

        drop(first.turn);
        assert!(is_called_now(&mut waits.turn) && !is_called_now(&mut waits_longer.turn));
        assert_eq!(
            (admission.position(second), admission.position(third)),
            (None, Some(1))
        );
        drop(waits);
        assert!(is_called_now(&mut waits_longer.turn));
        drop(waits_longer);
        assert!(admit(&admission).unwrap().turn.is_called());
    }

    #[test]
    fn who_leaves_the_queue_passes_no_turn_on_and_who_was_called_does() {
        let admission = Admission::new(Limits {
            starts: 1,
            ..NO_LIMITS
        });
        let first = admit(&admission).unwrap();
        let (leaves, called, mut last) = (
            admit(&admission).unwrap(),
            admit(&admission).unwrap(),
            admit(&admission).unwrap(),
        );
        drop(leaves);
        assert!(!is_called_now(&mut last.turn));
        // The next was called and goes before it has seen that.
        drop(first);
        drop(called);
        assert!(is_called_now(&mut last.turn));
    }

    #[test]
    fn starts_that_were_under_way_count_and_what_is_too_much_is_not_handed_on() {
        let admission = Admission::new(Limits {
            starts: 1,
            ..NO_LIMITS
        });
        let places = [(); 2].map(|()| admission.adopt(Path::new("/a")));
        let [first, second] = places.each_ref().map(Place::start_turn);
        let mut waits = admit(&admission).unwrap();
        assert!(!waits.turn.is_called());
        drop(first);
        assert!(!is_called_now(&mut waits.turn));
        drop(second);
        assert!(is_called_now(&mut waits.turn));
    }

    #[test]
    fn nobody_is_called_once_the_daemon_ends() {
        let admission = Admission::new(Limits {
            starts: 1,
            ..NO_LIMITS
        });
        let first = admit(&admission).unwrap();
        let mut waits = admit(&admission).unwrap();
        admission.close();
        drop(first);
        assert!(!is_called_now(&mut waits.turn));
    }

    #[test]
    fn a_spare_process_takes_only_room_that_nobody_wants() {
        let admission = Admission::new(Limits {
            live: 3,
            live_per_cwd: 1,
            starts: 2,
            ..NO_LIMITS
        });
        let spare = |cwd: &str| admission.admit_spare(SessionId::new(), Path::new(cwd));
        let user = admit(&admission).unwrap();
        assert!(spare("/b").is_none(), "somebody's start is under way");
        drop(user.turn);
        assert!(spare("/a").is_none(), "the directory is full");
        let first = spare("/b").unwrap();
        assert!(first.turn.is_called());
        assert!(spare("/c").is_none(), "one at a time");
        drop(first.turn);
        let second = spare("/c").unwrap();
        drop(second.turn);
        assert!(spare("/d").is_none(), "all places are taken");
        drop(user.place);
        assert!(spare("/d").is_some());
    }

    #[tokio::test]
    async fn who_waits_for_room_hears_of_it_also_when_it_came_before() {
        let admission = Admission::new(NO_LIMITS);
        let Admitted { place, turn } = admit(&admission).unwrap();
        drop(turn);
        admission.freed().await;
        drop(place);
        admission.freed().await;
    }

    fn is_called_now(turn: &mut StartTurn) -> bool {
        use futures_util::FutureExt as _;
        turn.called().now_or_never().is_some()
    }
}
