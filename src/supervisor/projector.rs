//! Owns the way of facts into the store: one task, batches, and a barrier for those who want to read what they wrote.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    domain::Projection,
    store::{Store, StoreError},
};

use super::SupervisorError;

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

/// A handle on the projecting task.
#[derive(Clone, Debug)]
pub(super) struct Projector {
    projections: mpsc::Sender<Projection>,
    barriers: mpsc::Sender<oneshot::Sender<bool>>,
    closing: CancellationToken,
}

impl Projector {
    pub(super) fn start(store: Store, tracker: &TaskTracker) -> Self {
        let (projections, projection_receiver) = mpsc::channel(PROJECTIONS);
        let (barriers, barrier_receiver) = mpsc::channel(BARRIERS);
        let closing = CancellationToken::new();
        let run = run(store, projection_receiver, barrier_receiver);
        tracker.spawn(closing.clone().run_until_cancelled_owned(run));
        Self {
            projections,
            barriers,
            closing,
        }
    }

    /// Ends the task. What it has not stored is in the journals; the next start reads it again.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    /// Where sessions send their facts.
    pub(super) fn sink(&self) -> mpsc::Sender<Projection> {
        self.projections.clone()
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
    store: Store,
    mut projections: mpsc::Receiver<Projection>,
    mut barriers: mpsc::Receiver<oneshot::Sender<bool>>,
) {
    let mut batch = Vec::new();
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
            apply(&store, &batch, &mut waiting, &mut barriers).await;
            batch.clear();
        }
        answer(waiting, true);
    }
}

/// Applies a batch, again and again if need be: a later one must not go first, or what this one says would be passed over
/// for good. Who waits meanwhile is told that the store is behind.
async fn apply(
    store: &Store,
    batch: &[Projection],
    waiting: &mut Vec<oneshot::Sender<bool>>,
    barriers: &mut mpsc::Receiver<oneshot::Sender<bool>>,
) {
    let mut pause = FIRST_PAUSE;
    while let Err(error) = store.apply(batch.to_vec()).await {
        tracing::error!(error = %crate::telemetry::chain(&error), "facts could not be stored yet");
        if matches!(error, StoreError::Closed) {
            answer(std::mem::take(waiting), false);
            return;
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

fn answer(waiting: Vec<oneshot::Sender<bool>>, stored: bool) {
    for barrier in waiting {
        // Who asked may have left.
        barrier.send(stored).ok();
    }
}
