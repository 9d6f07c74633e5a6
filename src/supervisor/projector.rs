//! Owns the way of facts into the store: one task, batches, and a barrier for those who want to read what they wrote.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    domain::{Fact, Projection, SessionId},
    store::{Store, StoreError},
    telemetry,
};

use super::{SupervisorError, lobby::Changes};

/// Projections that may wait for the store; sessions keep what does not fit.
const PROJECTIONS: usize = 1024;
/// Barriers that may wait.
const BARRIERS: usize = 256;
/// Projections per transaction.
const BATCH: usize = 256;

/// From a failed write to the next try.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The longest that somebody who only reads waits for the store.
const READER_PATIENCE: Duration = Duration::from_secs(10);

/// A batch that the store has not taken yet.
#[derive(Clone, Copy, Debug)]
struct Behind {
    since: Instant,
    /// Whether a try to store it has failed.
    is_refused: bool,
}

/// A handle on the projecting task.
#[derive(Clone, Debug)]
pub(super) struct Projector {
    projections: mpsc::Sender<Projection>,
    barriers: mpsc::Sender<oneshot::Sender<bool>>,
    /// The facts that the store has not taken yet.
    behind: watch::Receiver<Option<Behind>>,
    closing: CancellationToken,
}

impl Projector {
    pub(super) fn start(
        store: Store,
        changes: Arc<Changes>,
        ended_turns: mpsc::Sender<SessionId>,
        tracker: &TaskTracker,
    ) -> Self {
        let (projections, projection_receiver) = mpsc::channel(PROJECTIONS);
        let (barriers, barrier_receiver) = mpsc::channel(BARRIERS);
        let closing = CancellationToken::new();
        let (behind_sender, behind) = watch::channel(None);
        let run = run(
            (store, changes, ended_turns),
            projection_receiver,
            barrier_receiver,
            behind_sender,
        );
        tracker.spawn(closing.clone().run_until_cancelled_owned(run));
        Self {
            projections,
            barriers,
            behind,
            closing,
        }
    }

    /// Projections that wait for their turn.
    pub(super) fn waiting(&self) -> u64 {
        let waiting = self.projections.max_capacity() - self.projections.capacity();
        waiting as u64
    }

    /// How long the store has had what it is to take now.
    pub(super) fn lag(&self) -> Duration {
        self.behind
            .borrow()
            .map_or(Duration::ZERO, |behind| behind.since.elapsed())
    }

    /// How long the store has refused what it is given; `None` while it takes it.
    pub(super) fn refused_for(&self) -> Option<Duration> {
        let behind = (*self.behind.borrow())?;
        behind.is_refused.then(|| behind.since.elapsed())
    }

    /// Ends the task. The journals have the batches that it has not stored; the next start reads them again.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    /// Where sessions send their facts.
    pub(super) fn sink(&self) -> mpsc::Sender<Projection> {
        self.projections.clone()
    }

    /// Waits until all that was sent before is in the store, or is known not to get there for now.
    pub(super) async fn settled(&self) {
        if self.refused_for().is_some() {
            return;
        }
        // A caller that only reads gets what there is.
        tokio::time::timeout(READER_PATIENCE, self.barrier()).await.ok();
    }

    /// Waits until all that was sent before is in the store.
    pub(super) async fn barrier(&self) -> Result<(), SupervisorError> {
        let (reply, done) = oneshot::channel();
        self.barriers
            .send(reply)
            .await
            .map_err(|_| SupervisorError::ShuttingDown)?;
        match done.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(SupervisorError::StoreBehind),
            Err(_) => Err(SupervisorError::ShuttingDown),
        }
    }
}

async fn run(
    (store, changes, ended_turns): (Store, Arc<Changes>, mpsc::Sender<SessionId>),
    mut projections: mpsc::Receiver<Projection>,
    mut barriers: mpsc::Receiver<oneshot::Sender<bool>>,
    behind: watch::Sender<Option<Behind>>,
) {
    let mut batch = Vec::new();
    let mut set_aside = HashSet::new();
    loop {
        let mut waiting = Vec::new();
        // Both branches only receive, and so are cancel-safe.
        tokio::select! {
            received = projections.recv_many(&mut batch, BATCH) => {
                if received == 0 {
                    return;
                }
            }
            Some(barrier) = barriers.recv() => {
                waiting.push(barrier);
                // All that was sent before the barrier is in the channel by now.
                while let Ok(projection) = projections.try_recv() {
                    batch.push(projection);
                }
            }
        }
        if !batch.is_empty() {
            behind.send_replace(Some(Behind {
                since: Instant::now(),
                is_refused: false,
            }));
            let barriers = (&mut waiting, &mut barriers);
            apply(&store, &mut batch, &mut set_aside, barriers, &behind).await;
            behind.send_replace(None);
            for projection in batch.drain(..) {
                changes.mark(projection.session);
                if projection
                    .facts
                    .iter()
                    .any(|fact| matches!(fact, Fact::TurnEnded(_)))
                {
                    // One that finds no place is looked at after its next turn.
                    ended_turns.try_send(projection.session).ok();
                }
            }
        }
        answer(waiting, true);
    }
}

/// Applies a batch, again and again if need be: a later one must not go first, or what this one says would be passed over
/// for good. A caller that waits meanwhile is told that the store is behind.
async fn apply(
    store: &Store,
    batch: &mut Vec<Projection>,
    set_aside: &mut HashSet<SessionId>,
    (waiting, barriers): (
        &mut Vec<oneshot::Sender<bool>>,
        &mut mpsc::Receiver<oneshot::Sender<bool>>,
    ),
    behind: &watch::Sender<Option<Behind>>,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        batch.retain(|projection| !set_aside.contains(&projection.session));
        let Err(error) = store.apply(batch.clone()).await else {
            return;
        };
        tracing::error!(error = %telemetry::chain(&error), "facts could not be stored yet");
        behind.send_modify(|behind| {
            if let Some(behind) = behind {
                behind.is_refused = true;
            }
        });
        match error {
            StoreError::Closed => {
                answer(std::mem::take(waiting), false);
                return;
            }
            error if error.blames_the_data() => {
                find_culprits(store, batch, set_aside).await;
                if batch.is_empty() {
                    // All is stored that ever will be: nobody has to ask again.
                    return;
                }
            }
            _ => {}
        }
        let next_try = tokio::time::sleep(pause);
        tokio::pin!(next_try);
        loop {
            answer(std::mem::take(waiting), false);
            // A receive and a timer: both are cancel-safe.
            tokio::select! {
                () = &mut next_try => break,
                Some(barrier) = barriers.recv() => waiting.push(barrier),
            }
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Stores what can be stored, and sets the sessions aside whose facts the store will never take: they must not hold up the
/// others. The next start of the daemon reads their journals again.
async fn find_culprits(store: &Store, batch: &mut Vec<Projection>, set_aside: &mut HashSet<SessionId>) {
    let mut left = std::mem::take(batch).into_iter();
    for projection in left.by_ref() {
        if set_aside.contains(&projection.session) {
            continue;
        }
        match store.apply(vec![projection.clone()]).await {
            Ok(()) => {}
            Err(error) if error.blames_the_data() => {
                let error = telemetry::chain(&error);
                tracing::error!(session.id = %projection.session, error, "the store does not take a session's facts");
                set_aside.insert(projection.session);
            }
            // Nothing that follows may go before it.
            Err(_) => {
                batch.push(projection);
                break;
            }
        }
    }
    batch.extend(left);
}

fn answer(waiting: Vec<oneshot::Sender<bool>>, stored: bool) {
    for barrier in waiting {
        // The caller may have left.
        barrier.send(stored).ok();
    }
}
