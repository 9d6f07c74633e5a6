//! Owns waiting: for a condition, with a deadline and a name for what did not come.

use std::time::{Duration, Instant};

/// How long a step of a test may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(10);

/// Asks `probe` until it gives a value.
///
/// # Panics
/// When `limit` is over; the message names `what`.
pub(crate) async fn wait_for<T>(what: &str, limit: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = probe().await {
            return value;
        }
        assert!(Instant::now() < end, "waited {limit:?} in vain until {what}");
        tokio::time::sleep(POLL).await;
    }
}

/// Asks `holds` until it says yes, for conditions that need no await.
///
/// # Panics
/// As [`wait_for`].
pub(crate) async fn wait_until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    wait_for(what, limit, async || holds().then_some(())).await;
}

/// As [`wait_until`], for code that cannot await, such as `Drop`; says whether the condition came to hold.
pub(crate) fn holds_within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !holds() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}

/// Lets a moment pass that was chosen by chance: nothing is waited for.
pub(crate) async fn pass(moment: Duration) {
    tokio::time::sleep(moment).await;
}
