//! Owns the examination of the daemon: one at a time, which all who ask meanwhile share, and which ends with the last of them.

use std::sync::{Mutex, OnceLock, PoisonError};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, WeakShared},
};
use serde_json::Value;

use super::Finding;

/// Looks at what the daemon needs.
/// It is given what `/readyz` says.
pub type Examiner = Box<dyn Fn(Value) -> BoxFuture<'static, Vec<Finding>> + Send + Sync>;

/// The examination that is under way, if any.
type Current = Option<WeakShared<BoxFuture<'static, Vec<Finding>>>>;

/// The examinations of the daemon. Each may start the agent CLI to ask for its version.
#[derive(Default)]
pub(super) struct Examinations {
    examiner: OnceLock<Examiner>,
    current: Mutex<Current>,
}

impl Examinations {
    /// Says how the daemon is examined; the first one stays.
    pub(super) fn made_by(&self, examiner: Examiner) {
        let _ = self.examiner.set(examiner);
    }

    /// The findings. Callers that come while an examination is under way get those of that one.
    ///
    /// CANCEL-SAFETY: an examination that nobody waits for any more is dropped.
    pub(super) async fn findings(&self, ready: Value) -> Vec<Finding> {
        let Some(examine) = self.examiner.get() else {
            return Vec::new();
        };
        let examination = {
            // No holder panics; if one did, what is here is still whole.
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            let running = current.as_ref().and_then(WeakShared::upgrade);
            match running.filter(|running| running.peek().is_none()) {
                Some(running) => running,
                None => {
                    let new = examine(ready).shared();
                    *current = new.downgrade();
                    new
                }
            }
        };
        examination.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn callers_share_an_examination_and_the_next_one_is_new() {
        let (begun, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let examinations = Examinations::default();
        let (counted, opened) = (Arc::clone(&begun), Arc::clone(&gate));
        examinations.made_by(Box::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let opened = Arc::clone(&opened);
            async move {
                opened.acquire().await.unwrap().forget();
                Vec::new()
            }
            .boxed()
        }));
        let ask = || examinations.findings(Value::Null);
        let (mut first, mut second) = (Box::pin(ask()), Box::pin(ask()));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        // The first to ask leaves: the other one still gets the findings.
        drop(first);
        gate.add_permits(1);
        assert!(second.await.is_empty());
        gate.add_permits(1);
        assert!(ask().await.is_empty());
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }
}
