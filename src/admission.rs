//! Owns how many processes there may be and how many may start at a time: slots, and the queue that starts wait in.

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
    /// Starts that wait for their permit.
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

/// Gives out slots and permits; clones are the same.
#[derive(Clone, Debug)]
pub struct Admission {
    limits: Limits,
    shared: Arc<Mutex<Shared>>,
    /// Told when a slot or a permit was given back.
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Shared {
    live: usize,
    live_per_cwd: HashMap<PathBuf, usize>,
    starting: usize,
    /// The daemon ends: nothing that waits is granted any more.
    closed: bool,
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
    next_number: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    session: SessionId,
    grant: oneshot::Sender<()>,
}

/// The right to have a process; given back when it is dropped.
#[derive(Debug)]
pub struct Slot {
    admission: Admission,
    cwd: PathBuf,
}

/// The right to start a process, now or once it is granted; given back when it is dropped.
#[derive(Debug)]
pub struct StartPermit {
    admission: Admission,
    number: u64,
    /// Set while it waits.
    granted: Option<oneshot::Receiver<()>>,
}

/// The permits of a start.
#[derive(Debug)]
pub struct Admitted {
    /// Kept until the process is gone.
    pub slot: Slot,
    /// Kept until it is ready.
    pub permit: StartPermit,
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

    /// A slot and a permit for a process of `session` in `cwd`.
    ///
    /// # Errors
    /// See [`Refusal`]; then nothing was taken.
    pub fn admit(&self, session: SessionId, cwd: &Path) -> Result<Admitted, Refusal> {
        let mut shared = self.shared();
        if let Some(refusal) = self.refusal(&shared, cwd) {
            return Err(refusal);
        }
        Ok(Admitted {
            slot: self.take_slot(&mut shared, cwd),
            permit: self.take_permit(&mut shared, session),
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
            slot: self.take_slot(&mut shared, cwd),
            permit: self.take_permit(&mut shared, session),
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
            slot: self.take_slot(&mut shared, cwd),
            permit: self.take_permit(&mut shared, session),
        }
    }

    /// A slot for a process that lives already.
    pub fn adopt(&self, cwd: &Path) -> Slot {
        self.take_slot(&mut self.shared(), cwd)
    }

    /// Grants nothing any more: the next daemon starts what waits.
    pub fn close(&self) {
        self.shared().closed = true;
    }

    /// The position of a session among the starts that wait, from 1.
    pub fn queue_position(&self, session: SessionId) -> Option<usize> {
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

    fn take_slot(&self, shared: &mut Shared, cwd: &Path) -> Slot {
        shared.live += 1;
        *shared.live_per_cwd.entry(cwd.to_owned()).or_default() += 1;
        Slot {
            admission: self.clone(),
            cwd: cwd.to_owned(),
        }
    }

    fn take_permit(&self, shared: &mut Shared, session: SessionId) -> StartPermit {
        let number = shared.next_number;
        shared.next_number += 1;
        let granted = if shared.starting < self.limits.starts {
            shared.starting += 1;
            None
        } else {
            let (grant, granted) = oneshot::channel();
            shared.waiting.push_back(Waiting {
                number,
                session,
                grant,
            });
            Some(granted)
        };
        StartPermit {
            admission: self.clone(),
            number,
            granted,
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The permit of a process that is getting ready already. There may be more of them than may start.
    pub fn start_permit(&self) -> StartPermit {
        let admission = self.admission.clone();
        let number = {
            let mut shared = admission.shared();
            shared.starting += 1;
            shared.next_number += 1;
            shared.next_number - 1
        };
        StartPermit {
            admission,
            number,
            granted: None,
        }
    }
}

impl StartPermit {
    /// Whether the process may be started now.
    pub fn is_granted(&self) -> bool {
        self.granted.is_none()
    }

    /// Waits until the process may be started.
    ///
    /// CANCEL-SAFETY: a grant that was not waited for is found by the next wait.
    pub async fn granted(&mut self) {
        if let Some(granted) = &mut self.granted {
            // The other end goes away only with a grant: it is in the queue for as long as this waits.
            granted.await.ok();
            self.granted = None;
        }
    }
}

impl Drop for StartPermit {
    fn drop(&mut self) {
        let mut shared = self.admission.shared();
        let number = self.number;
        if let Some(place) = shared.waiting.iter().position(|it| it.number == number) {
            shared.waiting.remove(place);
            return;
        }
        // The permit was granted, even if its owner has not polled yet. While more starts run than the limit (after a restart of
        // the daemon), no other is granted.
        if shared.closed || shared.starting > self.admission.limits.starts {
            shared.starting -= 1;
            return;
        }
        match shared.waiting.pop_front() {
            // A permit holds the other end, and leaves the queue before it goes.
            Some(next) => drop(next.grant.send(())),
            None => {
                shared.starting -= 1;
                self.admission.freed.notify_one();
            }
        }
    }
}

impl Drop for Slot {
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
    fn a_slot_is_free_again_once_it_is_dropped() {
        let admission = Admission::new(Limits { live: 2, ..NO_LIMITS });
        let (_first, second) = (admit(&admission).unwrap(), admit(&admission).unwrap());
        assert_eq!(admit(&admission).unwrap_err(), Refusal::Live { most: 2 });
        // A permit that is over frees no slot.
        drop(second.permit);
        assert_eq!(admit(&admission).unwrap_err(), Refusal::Live { most: 2 });
        drop(second.slot);
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
        assert!(first.permit.is_granted() && !waits.permit.is_granted());
        assert_eq!(
            (admission.queue_position(second), admission.queue_position(third)),
            (Some(1), Some(2))
        );

        drop(first.permit);
        assert!(is_granted_now(&mut waits.permit) && !is_granted_now(&mut waits_longer.permit));
        assert_eq!(
            (admission.queue_position(second), admission.queue_position(third)),
            (None, Some(1))
        );
        drop(waits);
        assert!(is_granted_now(&mut waits_longer.permit));
        drop(waits_longer);
        assert!(admit(&admission).unwrap().permit.is_granted());
    }

    #[test]
    fn who_leaves_the_queue_passes_no_permit_on_and_who_was_granted_one_does() {
        let admission = Admission::new(Limits {
            starts: 1,
            ..NO_LIMITS
        });
        let first = admit(&admission).unwrap();
        let (leaves, granted, mut last) = (
            admit(&admission).unwrap(),
            admit(&admission).unwrap(),
            admit(&admission).unwrap(),
        );
        drop(leaves);
        assert!(!is_granted_now(&mut last.permit));
        // The next was granted its permit and goes before it has seen that.
        drop(first);
        drop(granted);
        assert!(is_granted_now(&mut last.permit));
    }

    #[test]
    fn starts_that_were_under_way_count_and_what_is_too_much_is_not_handed_on() {
        let admission = Admission::new(Limits {
            starts: 1,
            ..NO_LIMITS
        });
        let slots = [(); 2].map(|()| admission.adopt(Path::new("/a")));
        let [first, second] = slots.each_ref().map(Slot::start_permit);
        let mut waits = admit(&admission).unwrap();
        assert!(!waits.permit.is_granted());
        drop(first);
        assert!(!is_granted_now(&mut waits.permit));
        drop(second);
        assert!(is_granted_now(&mut waits.permit));
    }

    #[test]
    fn nothing_is_granted_once_the_daemon_ends() {
        let admission = Admission::new(Limits {
            starts: 1,
            ..NO_LIMITS
        });
        let first = admit(&admission).unwrap();
        let mut waits = admit(&admission).unwrap();
        admission.close();
        drop(first);
        assert!(!is_granted_now(&mut waits.permit));
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
        drop(user.permit);
        assert!(spare("/a").is_none(), "the directory is full");
        let first = spare("/b").unwrap();
        assert!(first.permit.is_granted());
        assert!(spare("/c").is_none(), "one at a time");
        drop(first.permit);
        let second = spare("/c").unwrap();
        drop(second.permit);
        assert!(spare("/d").is_none(), "all slots are taken");
        drop(user.slot);
        assert!(spare("/d").is_some());
    }

    #[tokio::test]
    async fn who_waits_for_room_hears_of_it_also_when_it_came_before() {
        let admission = Admission::new(NO_LIMITS);
        let Admitted { slot, permit } = admit(&admission).unwrap();
        drop(permit);
        admission.freed().await;
        drop(slot);
        admission.freed().await;
    }

    fn is_granted_now(permit: &mut StartPermit) -> bool {
        use futures_util::FutureExt as _;
        permit.granted().now_or_never().is_some()
    }
}
