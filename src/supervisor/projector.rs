//! Owns the way of facts into the store: one task, batches, and a barrier for those who want to read what they wrote.

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::{domain::Projection, store::Store};

use super::SupervisorError;

/// Projections that may wait for the store; sessions keep what does not fit.
const PROJECTIONS: usize = 1024;
/// Barriers that may wait.
const BARRIERS: usize = 256;
/// Projections per transaction.
const BATCH: usize = 256;

/// A handle on the projecting task.
#[derive(Clone, Debug)]
pub(super) struct Projector {
    projections: mpsc::Sender<Projection>,
    barriers: mpsc::Sender<oneshot::Sender<bool>>,
}

impl Projector {
    pub(super) fn start(store: Store, tracker: &TaskTracker) -> Self {
        let (projections, projection_receiver) = mpsc::channel(PROJECTIONS);
        let (barriers, barrier_receiver) = mpsc::channel(BARRIERS);
        tracker.spawn(run(store, projection_receiver, barrier_receiver));
        Self {
            projections,
            barriers,
        }
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
        let stored = batch.is_empty() || apply(&store, &mut batch).await;
        for barrier in waiting {
            // Who asked may have left.
            barrier.send(stored).ok();
        }
    }
}

async fn apply(store: &Store, batch: &mut Vec<Projection>) -> bool {
    match store.apply(std::mem::take(batch)).await {
        Ok(()) => true,
        Err(error) => {
            // The journal has it all; the next start of the daemon reads it again from what the store last held.
            tracing::error!(error = %crate::telemetry::chain(&error), "facts could not be stored");
            false
        }
    }
}
